//! `wharf run`: a command on this machine, scheduled by the same engine that simulates.

use wharf_core::{ClusterSpec, JobSpec, Time};
use wharf_head::{LocalCluster, LocalError, LocalJob};
use wharf_perf::{Model, Order};
use wharf_policy::{BuildArgs, Settings};
use wharf_sim::Preset;
use wharf_sim::preset::Mechanism;

use crate::args::RunArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit::Exit;
use crate::input;
use crate::interrupt;
use crate::output::Terminal;

/// Runs the command on its gang and passes its exit code on.
///
/// # Errors
/// Where the devices cannot hold the gang, or the command cannot be started.
pub(super) fn execute(args: &RunArgs, _terminal: &Terminal) -> Result<Exit, CliError> {
    let (device_type, devices) = input::devices(&args.devices)?;
    let cluster = ClusterSpec::uniform(&device_type, 1, devices);
    let name = args.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    // Nobody knows how long it takes: the policy must not ask, and the model is not asked for anything else.
    let spec = JobSpec::new(&name, Time::ZERO, args.gang, 1.0, 1000.0);
    let local = fifo(cluster)?;
    interrupt::handle_with(local.interrupter());
    let results = local.run(vec![LocalJob { spec, command: args.command.clone() }]).map_err(translate)?;
    if let Some(signal) = interrupt::handled() {
        return Ok(signal);
    }
    let code = results.first().and_then(|result| result.exit_code).unwrap_or(0);
    Ok(Exit::Passed(u8::try_from(code & 0xff).unwrap_or(1)))
}

fn fifo(cluster: ClusterSpec) -> Result<LocalCluster, CliError> {
    let internal = |error: &dyn std::error::Error| CliError::from_error(ErrorKind::Internal, error);
    let info = wharf_policy::find("fifo").map_err(|error| internal(&error))?;
    let preset = Preset::load("wharf").map_err(|error| internal(&error))?;
    let Mechanism::Wharf(rules) = preset.mechanism else {
        return Err(CliError::new(ErrorKind::Internal, "the default preset is not Wharf's own"));
    };
    let args = BuildArgs { settings: &Settings::default(), placement: rules.placement, seed: 0 };
    let policy = (info.build)(&args).map_err(|error| internal(&error))?;
    let model = Model::new(rules.costs, info.sharing, Order::Best);
    Ok(LocalCluster::new(cluster, policy, Box::new(model)))
}

fn translate(error: LocalError) -> CliError {
    match error {
        LocalError::ImpossibleGang { .. } => CliError::from_error(ErrorKind::Usage, &error)
            .hint("declare more with `--devices TYPE:COUNT`, or ask for fewer with `--gang N`"),
        LocalError::Start { .. } => CliError::from_error(ErrorKind::Input, &error),
        LocalError::Audit(_) | LocalError::Stuck { .. } => CliError::from_error(ErrorKind::Internal, &error),
    }
}
