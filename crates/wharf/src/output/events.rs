//! Diagnostic events on standard error: those that `WHARF_LOG` selects, in the format of the daemon's log.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use super::terminal::{logged, now};
use crate::args::{LogFormat, env};
use crate::error::{CliError, ErrorKind};
use crate::output::escaped;

/// What the targets of Wharf's own events begin with. Libraries write more than may be seen, such as headers of requests.
const OWN: &str = "wharf";

/// Writes the events that `WHARF_LOG` selects from now on; none where it is not set.
///
/// # Errors
/// Where its value is malformed.
pub(crate) fn install(format: LogFormat) -> Result<(), CliError> {
    if !env::LOG.is_set() {
        return Ok(());
    }
    let text = std::env::var(env::LOG.name)
        .map_err(|error| CliError::usage(format!("cannot read {}", env::LOG.name)).caused_by(error))?;
    let subscriber = tracing_subscriber::registry().with(Events { format }).with(selected(&text)?);
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| CliError::new(ErrorKind::Internal, "cannot write events").caused_by(error))
}

/// The events that a value of `WHARF_LOG` selects.
fn selected(text: &str) -> Result<Targets, CliError> {
    let mut targets = Targets::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (target, level) = part.split_once('=').unwrap_or((OWN, part));
        // An empty level would parse as `error`.
        let is_valid = target.starts_with(OWN) && !level.is_empty();
        let level = level.parse::<LevelFilter>().ok().filter(|_| is_valid).ok_or_else(|| {
            CliError::usage(format!("invalid {}: `{part}`", env::LOG.name)).hint(
                "expected LEVEL or TARGET=LEVEL, separated by commas, with a level of error, warn, info, debug or trace and \
                 a target such as wharf_head::nodes",
            )
        })?;
        targets = targets.with_target(target, level);
    }
    Ok(targets)
}

/// Writes events to standard error.
struct Events {
    format: LogFormat,
}

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let (level, target) = (event.metadata().level().as_str().to_lowercase(), event.metadata().target());
        let mut fields = Fields::default();
        event.record(&mut fields);
        // Standard error may be closed.
        let _ = io::stderr().lock().write_all(line(self.format, &level, target, fields).as_bytes());
    }
}

fn line(format: LogFormat, level: &str, target: &str, fields: Fields) -> String {
    match format {
        LogFormat::Text => {
            let mut text = format!("{} {level} {target}: {}", now(), fields.message);
            for (name, value) in &fields.others {
                // Writing to a string does not fail.
                let _ = write!(text, " {name}={value}");
            }
            format!("{}\n", escaped(&text))
        }
        LogFormat::Json => {
            let mut more = fields.others;
            more.insert("target".to_owned(), target.into());
            logged(level, &fields.message, Value::Object(more))
        }
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.add(field, format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn selection_follows_levels_and_targets() {
        let enabled =
            |text: &str, target: &str, level: Level| selected(text).unwrap().would_enable(target, &level);
        for (text, target, level, expected) in [
            ("info", "wharf_head::nodes", Level::INFO, true),
            ("info", "wharf_head::nodes", Level::DEBUG, false),
            ("INFO", "wharf_launch::up", Level::INFO, true),
            ("info,wharf_head=trace", "wharf_head::dispatcher::cycle", Level::TRACE, true),
            ("info, wharf_head=trace", "wharf_worker::agent", Level::TRACE, false),
            ("wharf_head=debug", "wharf_worker::agent", Level::INFO, false),
            ("off", "wharf_head", Level::ERROR, false),
            // Headers of requests contain tokens.
            ("trace", "h2::codec::framed_read", Level::TRACE, false),
            ("trace", "hyper_util::client", Level::ERROR, false),
        ] {
            assert_eq!(enabled(text, target, level), expected, "{text} {target} {level}");
        }
        for text in ["loud", "h2=trace", "wharf_head=", "=info", "wharf_head=info=debug"] {
            assert!(selected(text).is_err(), "{text}");
        }
    }

    #[test]
    fn events_are_one_line_with_all_fields() {
        let fields = || {
            let others = [("node".to_owned(), "a\nb".into()), ("session".to_owned(), 7.into())];
            Fields { message: "worker connected".to_owned(), others: others.into_iter().collect() }
        };
        let text = line(LogFormat::Text, "info", "wharf_head::nodes", fields());
        assert!(
            text.ends_with(" info wharf_head::nodes: worker connected node=\"a\\nb\" session=7\n"),
            "{text}"
        );
        let json: Value =
            serde_json::from_str(&line(LogFormat::Json, "info", "wharf_head::nodes", fields())).unwrap();
        assert_eq!((&json["level"], &json["message"]), (&"info".into(), &"worker connected".into()));
        assert_eq!((&json["target"], &json["node"]), (&"wharf_head::nodes".into(), &"a\nb".into()));
        assert!(json["time"].is_string() && json["session"] == 7);
    }
}
