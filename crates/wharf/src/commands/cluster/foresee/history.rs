//! `wharf history`: what a cluster has done, as a trace.

use std::io::Write as _;

use wharf_foresight::{Foresight, Window};
use wharf_staging::StagedFile;
use wharf_trace::{Format, write_cluster, write_trace};

use super::super::connect::with;
use crate::args::HistoryArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// Writes the jobs that a head has seen as a trace.
pub(in crate::commands) fn history(args: &HistoryArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let foresight = with(&args.home, async |client| Ok(Foresight::fetch(client, u32::MAX).await?))?;
    let window = Window::new(&foresight, args.since.map(|since| since.0));
    if window.trace.jobs.is_empty() {
        return Err(CliError::input("no job ended in that period"));
    }
    let format = Format::from_path(&args.as_trace).unwrap_or(Format::NATIVE_CSV);
    let mut file = StagedFile::create(&args.as_trace)?;
    let losses = write_trace(&window.trace, format, &mut file)
        .map_err(|error| CliError::write(&args.as_trace, error))?;
    let cluster = args.cluster.as_deref().map(StagedFile::create).transpose()?;
    if let (Some(mut cluster), Some(path)) = (cluster, &args.cluster) {
        write_cluster(&window.cluster, &mut cluster).map_err(|error| CliError::write(path, error))?;
        cluster.flush().map_err(|error| CliError::write(path, error))?;
        cluster.commit()?;
    }
    file.commit()?;
    for loss in losses {
        terminal.warn(&loss.to_string());
    }
    let left_out = match window.left_out {
        0 => String::new(),
        count => format!("; {count} that are not over, or never ran, are left out"),
    };
    terminal.note(&format!(
        "{} jobs are in `{}`{left_out}",
        window.trace.jobs.len(),
        args.as_trace.display()
    ));
    Ok(Exit::Ok)
}
