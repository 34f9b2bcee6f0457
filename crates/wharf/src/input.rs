//! Inputs named on the command line, read.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use wharf_core::ClusterSpec;
use wharf_core::DEVICES_PER_NODE_MAX;
use wharf_perf::Profile;
use wharf_policy::governor::Limits;
use wharf_sim::{PartialSetting, Preset, Settings, assign_settings};
use wharf_trace::{Edit, Format, ReadOptions, Trace, parse_cluster, parse_noted, read_noted};

use crate::error::{CliError, ErrorKind, translate};
use crate::output::Terminal;

/// What stands for standard input and output where a file is expected.
pub(crate) const STANDARD: &str = "-";

/// Whether a file is standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD
}

/// Reads a trace from a file, or from standard input for `-`, and reports rows that were left out.
///
/// # Errors
/// Where there is none, or it is not valid.
pub(crate) fn trace(
    path: &Path,
    options: impl Into<ReadOptions>,
    terminal: &Terminal,
) -> Result<Trace, CliError> {
    Ok(formatted_trace(path, options, terminal)?.0)
}

/// As [`trace`], with the format that the trace was read in.
///
/// # Errors
/// As [`trace`].
pub(crate) fn formatted_trace(
    path: &Path,
    options: impl Into<ReadOptions>,
    terminal: &Terminal,
) -> Result<(Trace, Format), CliError> {
    let options = options.into();
    let read = if is_standard(path) {
        parse_noted(io::stdin(), "stdin", options)
    } else {
        read_noted(path, options)
    };
    let read = read.map_err(|error| translate::trace(&error))?;
    for note in &read.notes {
        terminal.warn(&format!("{}:{}: {}", note.file, note.line, note.message));
    }
    Ok((read.trace, read.format))
}

/// Moves a trace so that its first job is submitted at 0.
///
/// # Errors
/// Where the trace has no jobs.
pub(crate) fn start_at_first(trace: &mut Trace) -> Result<(), CliError> {
    Edit::Shift(0.0).apply(trace).map_err(|error| CliError::from_error(ErrorKind::Input, &error))
}

/// The format of that name.
///
/// # Errors
/// Where there is none.
pub(crate) fn format(name: &str) -> Result<Format, CliError> {
    name.parse().map_err(|error| translate::format(&error))
}

/// A cluster from a file or a short form, with the name that tables give it.
///
/// # Errors
/// Where it is neither, or not valid.
pub(crate) fn cluster(text: &str) -> Result<(String, ClusterSpec), CliError> {
    let cluster = parse_cluster(text).map_err(|error| translate::cluster(&error))?;
    let path = Path::new(text);
    let name = match path.file_stem() {
        Some(stem) if path.is_file() => stem.to_string_lossy().into_owned(),
        _ => text.to_owned(),
    };
    Ok((name, cluster))
}

/// A preset by name or file.
///
/// # Errors
/// Where it is neither, or not valid.
pub(crate) fn preset(name: &str) -> Result<Preset, CliError> {
    Preset::load(name).map_err(|error| translate::preset(&error))
}

/// A profile from a file, a database or a folder, the built-in one, or an empty one.
///
/// # Errors
/// Where there is none, or it is not valid.
pub(crate) fn profile(path: &Path) -> Result<Profile, CliError> {
    wharf_profile::load(path).map_err(|error| translate::profile(&error))
}

/// Limits from a file: its text, and what that says.
///
/// # Errors
/// Where it cannot be read, or states what cannot be; with file, line and key.
pub(crate) fn limits(path: &Path) -> Result<(String, Limits), CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| CliError::read(path, error))?;
    let limits = Limits::parse(&text).map_err(|error| {
        let place = format!("{}:{}:{}", path.display(), error.line, error.column);
        CliError::input(format!("{place}: {}", error.message))
    })?;
    Ok((text, limits))
}

/// Overrides of the form `key=value`.
///
/// # Errors
/// Where one has another form.
pub(crate) fn settings(texts: &[String]) -> Result<Settings, CliError> {
    Settings::parse(texts.iter().map(String::as_str)).map_err(|error| {
        CliError::usage(format!("`--set {}` is not of the form KEY=VALUE", error.text)).hint(
            "for example `--set packing_num=2`, or `--set POLICY.KEY=VALUE` for one of several policies; `wharf policy explain \
             POLICY` lists the settings of a policy",
        )
    })
}

/// The settings of each policy: those that it has, and those that are for it alone.
///
/// # Errors
/// A setting of a policy that is not simulated, or one that no policy has.
pub(crate) fn settings_by_policy(
    settings: &Settings,
    policies: &[String],
    preset: &Preset,
    terminal: &Terminal,
) -> Result<BTreeMap<String, Settings>, CliError> {
    let assigned = assign_settings(settings, policies, preset).map_err(|error| translate::run(&error))?;
    for PartialSetting { key, with, without } in &assigned.partial {
        let (with, without) = (with.join(", "), without.join(", "));
        terminal.note(&format!("`{key}` applies to {with}; not a setting of {without}"));
    }
    Ok(assigned.settings)
}

/// Reports pools of jobs that a cluster without pools ignores.
pub(crate) fn note_pools(trace: &Trace, cluster: &ClusterSpec, terminal: &Terminal) {
    let count = trace.jobs.iter().filter(|job| job.gang.pool().is_some()).count();
    if count > 0 && !cluster.has_pools() {
        terminal.note(&format!(
            "the pools of {count} jobs are ignored: no node of the cluster belongs to a pool"
        ));
    }
}

/// Adds what `--failures` says to the settings: a file, or mean hours between failures and to repair.
///
/// # Errors
/// Where it is neither.
pub(crate) fn add_failures(text: &str, settings: &mut Settings) -> Result<(), CliError> {
    if !text.starts_with("mtbf=") {
        settings.set("failures", text);
        return Ok(());
    }
    for part in text.split(',') {
        let key = match part.split_once('=') {
            Some(("mtbf", _)) => "node_mtbf_h",
            Some(("repair", _)) => "node_repair_h",
            _ => {
                let message = format!(
                    "`--failures {text}` is neither a file nor of the form mtbf=HOURS[,repair=HOURS]"
                );
                return Err(CliError::usage(message));
            }
        };
        settings.set(key, part.split_once('=').map_or("", |(_, value)| value));
    }
    Ok(())
}

/// The text of a preset, by name or file.
///
/// # Errors
/// As [`preset`].
pub(crate) fn preset_text(name: &str) -> Result<String, CliError> {
    preset(name).map(|preset| preset.text)
}

/// The devices that a machine declares, as TYPE:COUNT.
pub(crate) fn devices(text: &str) -> Result<(String, u32), CliError> {
    let parsed = text.split_once(':').and_then(|(kind, count)| Some((kind, count.parse::<u32>().ok()?)));
    match parsed {
        Some((kind, count)) if !kind.is_empty() && (1..=DEVICES_PER_NODE_MAX).contains(&count) => {
            Ok((kind.to_owned(), count))
        }
        _ => Err(CliError::usage(format!(
            "`{text}` declares no devices; expected TYPE:COUNT with a count from 1 to {DEVICES_PER_NODE_MAX}"
        ))
        .hint("for example `gpu:4`")),
    }
}
