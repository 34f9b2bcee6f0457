//! `wharf cluster bake` and `wharf cluster render`: an image of a machine that was prepared, and templates filled with it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use wharf_document::decode::Decode as _;
use wharf_document::node::Node;
use wharf_launch::bake::{BakeError, usual_name};
use wharf_launch::config;
use wharf_launch::provider::ProviderError;

use super::{
    failed_provider, folder, interruptible, launcher, read, refuse_blockers, tell_failure, unknown, unusable,
    up, wrong,
};
use crate::args::{ClusterBakeArgs, ClusterRenderArgs, OutputFormat, ValuesArgs};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;

/// Fills a template.
pub(super) fn render(args: &ClusterRenderArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let text = config::render(&args.template, &values(&args.values)?).map_err(|error| wrong(&error))?;
    put(&text, args.values.to.as_deref(), terminal)
}

/// Prepares a machine, turns it into an image, and fills a template with it.
pub(super) fn bake(args: &ClusterBakeArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let cluster = read(&args.launched.file, terminal)?;
    refuse_blockers(&args.launched.file, &cluster)?;
    let mut values = values(&args.values)?;
    // Whatever is wrong with the template is told before minutes are spent.
    let image_as = match &args.template {
        None if !values.is_empty() || args.values.to.is_some() => {
            return Err(CliError::usage("no template given").hint("set one with `--template`"));
        }
        None => None,
        Some(template) => Some((template, image_placeholder(template, args.image_as.as_deref())?)),
    };
    if let Some((template, name)) = &image_as {
        values.insert(name.clone(), "ami-0".to_owned());
        config::render(template, &values).map_err(|error| wrong(&error))?;
    }
    let folder = folder(&args.launched, &cluster)?;
    let (launcher, _lock) = launcher(cluster, folder, "wharf cluster bake", terminal)?;
    let usual = usual_name(&launcher).map_err(|error| up::failed(&error))?;
    let name = args.name.clone().unwrap_or(usual);
    let work = wharf_launch::bake::bake(&launcher, &name, args.keep);
    let Some(baked) = interruptible(work)? else {
        terminal.note(
            "interrupted; repeat `wharf cluster bake` to continue, or run `wharf down` to terminate the machine",
        );
        return Ok(interrupt::handled().unwrap_or(Exit::Ok));
    };
    let image = match baked {
        Ok(image) => image,
        Err(BakeError::Node(error)) => {
            tell_failure(&launcher, &launcher.cluster.nodes[0].name, &error, terminal);
            tell_left(&args.launched.file, terminal);
            return Ok(Exit::HeadFailed);
        }
        Err(error) => {
            if matches!(&error, BakeError::Provider(cause) if !matches!(cause, ProviderError::Cannot(_))) {
                tell_left(&args.launched.file, terminal);
            }
            return Err(failed(&error));
        }
    };
    terminal.note(&format!("{name} is {image}"));
    match image_as {
        Some((template, placeholder)) => {
            values.insert(placeholder, image);
            let text = config::render(template, &values).map_err(|error| wrong(&error))?;
            put(&text, args.values.to.as_deref(), terminal)
        }
        None if terminal.format == OutputFormat::Json => {
            terminal.json(&json!({"schema": 1, "name": name, "image": image}))?;
            Ok(Exit::Ok)
        }
        None => {
            terminal.data(&format!("{image}\n"))?;
            Ok(Exit::Ok)
        }
    }
}

/// States that a failed attempt has left a machine, which costs money, and how to end it.
fn tell_left(file: &Path, terminal: &Terminal) {
    let file = file.display();
    terminal.warn(&format!(
        "the machine is still running: `wharf cluster bake {file}` continues with it, `wharf down {file}` terminates it"
    ));
}

fn failed(error: &BakeError) -> CliError {
    match error {
        BakeError::Up(error) => up::failed(error),
        BakeError::Known(error) => unknown(error),
        BakeError::State(error) => unusable(error),
        BakeError::Provider(error) => failed_provider(error),
        BakeError::InUse => CliError::from_error(ErrorKind::Input, error)
            .hint("stop it first, or use a cluster file with a head only"),
        BakeError::Node(_) => CliError::from_error(ErrorKind::Input, error),
    }
}

/// The placeholder that an image is for.
fn image_placeholder(template: &Path, said: Option<&str>) -> Result<String, CliError> {
    let names = config::placeholders(template).map_err(|error| wrong(&error))?;
    if let Some(name) = said {
        return Ok(name.to_owned());
    }
    let is_image = |name: &&String| {
        let mut words = name.split([' ', '_', '-']).map(str::to_ascii_lowercase);
        words.any(|word| word == "ami" || word == "image")
    };
    names.iter().find(is_image).cloned().ok_or_else(|| {
        let message = format!("`{}` has no placeholder for an image", template.display());
        CliError::input(message).hint("set it with `--image-as`")
    })
}

/// What the command line and a file say together.
fn values(args: &ValuesArgs) -> Result<BTreeMap<String, String>, CliError> {
    let mut values = match &args.values {
        None => BTreeMap::new(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| CliError::read(path, error))?;
            let place = |line: usize| format!("{}:{line}", path.display());
            let node = Node::from_yaml(&text).map_err(|error| {
                CliError::input(format!("{}: {}", place(error.place.line), error.message))
            })?;
            BTreeMap::decode(&node, "").map_err(|problem| {
                CliError::input(format!(
                    "{}: `{}`: {}",
                    place(problem.place.line),
                    problem.field,
                    problem.message
                ))
            })?
        }
    };
    values.extend(args.set.iter().cloned());
    Ok(values)
}

fn put(text: &str, to: Option<&Path>, terminal: &Terminal) -> Result<Exit, CliError> {
    match to {
        None => terminal.data(text)?,
        Some(path) => std::fs::write(path, text).map_err(|error| CliError::write(path, error))?,
    }
    Ok(Exit::Ok)
}
