//! `wharf trace`

mod edit;
mod lint;

use std::path::Path;

use serde::Serialize;
use wharf_trace::{
    Arrivals, Deadlines, Durations, Edit, Format, GangMix, GeneratorSettings, Loss, Rate, Trace, TraceStats,
    generate, stats, write_trace,
};

use crate::args::{ArrivalKind, GenerateArgs, OutputFormat, StatsArgs, TraceCommand};
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input::{self, is_standard};
use crate::output::{Terminal, counted};
use wharf_staging::StagedFile;

/// Does what the arguments say.
///
/// # Errors
/// Whatever is wrong with the input or the output.
pub(super) fn execute(command: &TraceCommand, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        TraceCommand::Convert(args) => edit::execute(&args.io, |_| None, terminal),
        TraceCommand::Lint(args) => lint::execute(args, terminal),
        TraceCommand::Head(args) => edit::execute(&args.io, |_| Some(Edit::Head(args.jobs)), terminal),
        TraceCommand::Slice(args) => edit::execute(&args.io, |_| edit::slice(args), terminal),
        TraceCommand::Filter(args) => edit::execute(&args.io, |_| Some(edit::filter(args)), terminal),
        TraceCommand::Scale(args) => edit::execute(&args.io, |_| Some(edit::scale(args)), terminal),
        TraceCommand::Resample(args) => {
            edit::execute(&args.io, |jobs| Some(edit::resample(args, jobs)), terminal)
        }
        TraceCommand::Shift(args) => edit::execute(&args.io, |_| Some(Edit::Shift(args.start)), terminal),
        TraceCommand::Stats(args) => describe(args, terminal),
        TraceCommand::Generate(args) => generate_trace(args, terminal),
    }
}

/// The format asked for, or the one of the file's ending, or Wharf's own CSV.
fn output_format(name: Option<&str>, path: &Path) -> Result<Format, CliError> {
    let format = match name {
        Some(name) => input::format(name)?,
        None => Format::from_path(path).unwrap_or(Format::NATIVE_CSV),
    };
    if format.is_writable() {
        return Ok(format);
    }
    let writable = Format::all().iter().filter(|format| format.is_writable()).map(|format| format.name());
    Err(CliError::usage(format!("traces are not written as `{format}`, only read"))
        .hint(format!("write {}", writable.collect::<Vec<_>>().join(", "))))
}

fn write(trace: &Trace, format: Format, path: &Path, terminal: &Terminal) -> Result<(), CliError> {
    let losses = if is_standard(path) {
        terminal.stream(|out| write_trace(trace, format, out).map_err(CliError::stdout))?
    } else {
        let mut file = StagedFile::create(path)?;
        let losses = write_trace(trace, format, &mut file).map_err(|error| CliError::write(path, error))?;
        file.commit()?;
        losses
    };
    for loss in losses.iter().map(Loss::to_string) {
        terminal.warn(&loss);
    }
    Ok(())
}

#[derive(Serialize)]
struct StatsDocument<'a> {
    schema: u32,
    /// Where `--cluster` is given and jobs do not all come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    offered_load: Option<f64>,
    #[serde(flatten)]
    stats: &'a TraceStats,
}

fn describe(args: &StatsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let format = args.format.as_deref().map(input::format).transpose()?;
    let cluster = args.cluster.as_deref().map(input::cluster).transpose()?;
    let devices = cluster.map(|(_, cluster)| cluster.device_count());
    let stats = stats(&input::trace(&args.file, format, terminal)?);
    let load = devices.and_then(|devices| stats.offered_load(devices));
    let document = || StatsDocument { schema: 1, offered_load: load, stats: &stats };
    match terminal.format {
        OutputFormat::Json => terminal.json(&document())?,
        OutputFormat::Plain | OutputFormat::Csv => terminal.fields(&document())?,
        OutputFormat::Table => terminal.data(&stats.to_text(devices))?,
    }
    Ok(Exit::Ok)
}

fn generate_trace(args: &GenerateArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let format = output_format(args.format.as_deref(), &args.to)?;
    let settings = generator_settings(args)?;
    let trace = generate(&settings).map_err(|error| CliError::from_error(ErrorKind::Usage, &error))?;
    write(&trace, format, &args.to, terminal)?;
    if !is_standard(&args.to) {
        terminal.note(&format!(
            "{} written to `{}` as {format}",
            counted(trace.jobs.len(), "job"),
            args.to.display()
        ));
    }
    Ok(Exit::Ok)
}

fn generator_settings(args: &GenerateArgs) -> Result<GeneratorSettings, CliError> {
    let gangs = match &args.gangs {
        Some(mix) => mix.parse().map_err(|error| CliError::from_error(ErrorKind::Usage, &error))?,
        // With no device at all no size fits, and the generator states this.
        None => GangMix::philly().at_most(args.devices).unwrap_or_else(GangMix::philly),
    };
    let rate = match (args.at_once, args.rate) {
        (true, _) => Rate::AtOnce,
        (false, Some(per_hour)) => Rate::PerHour(per_hour),
        (false, None) => Rate::Load { devices: args.devices, load: args.load.unwrap_or(0.9) },
    };
    let arrivals = match args.arrivals {
        ArrivalKind::Poisson => Arrivals::Poisson,
        ArrivalKind::Bursty => Arrivals::Bursty {
            factor: args.burst_factor,
            burst_s: args.burst_length,
            calm_s: args.calm_length,
        },
    };
    let deadlines =
        Deadlines { share: args.deadline_share, slack_min: args.slack_min, slack_max: args.slack_max };
    Ok(GeneratorSettings {
        name: "generated".to_owned(),
        seed: args.seed,
        job_count: args.jobs,
        rate,
        arrivals,
        daily_swing: args.daily_swing,
        durations: Durations {
            median_s: args.median,
            sigma: args.sigma,
            tail_share: args.tail_share,
            tail_from_s: args.tail_from,
            tail_shape: args.tail_shape,
            min_s: args.min,
            max_s: args.max,
        },
        gangs,
        user_count: args.users,
        user_skew: args.user_skew,
        urgent_share: args.urgent_share,
        deadlines: (args.deadline_share != 0.0).then_some(deadlines),
    })
}
