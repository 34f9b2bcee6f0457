//! `wharf pilot slurm`: from arguments to settings, and on until a signal.

use wharf_pilot::{Backoff, Bounds, Manager, Settings, Shape, Stopping, Store};

use super::super::daemon::{on_signal, runtime};
use super::super::home::{Home, address};
use crate::args::PilotSlurmArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;

/// How long before the end of an allocation its jobs are requested to leave, unless that is a large part of it.
const LEAVE_BEFORE_S: f64 = 120.0;

/// Keeps pilots until a signal ends it.
pub(super) fn keep(args: &PilotSlurmArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let home = Home::new(&args.home)?;
    let access = home.head()?;
    let settings = settings(args, &access.address)?;
    settings.check()?;
    let store = Store::open(&super::folder(&args.home, &args.folder)?)?;
    let _kept = store.lock()?;
    // One for each head, whatever folder its pilots have.
    let of_head = (!home.is_elsewhere()).then(|| home.path().join("pilots"));
    let of_head = of_head.filter(|folder| folder != store.folder());
    let _alone = of_head.map(|folder| Store::open(&folder)?.lock()).transpose()?;
    if args.head.is_none() && is_local(&access.address) {
        terminal.warn("the head listens on loopback: pilots on other machines cannot reach it; start it with `--listen`, and set `--head HOST:PORT`");
    }
    let mut manager = Manager::new(settings, super::queue(&args.queue)?, access, store)?;
    let stopping = if args.keep { Stopping::Keep } else { Stopping::Cancel };
    runtime()?.block_on(async {
        let stopped = on_signal();
        terminal.note("managing pilots in Slurm; stop with Ctrl-C");
        let mut say = |text: &str| terminal.note(text);
        manager.run(async { stopped.notified().await }, stopping, &mut say).await?;
        Ok(interrupt::handled().unwrap_or(Exit::Ok))
    })
}

fn is_local(address: &str) -> bool {
    ["127.", "localhost:", "[::1]:"].iter().any(|start| address.starts_with(start))
}

fn settings(args: &PilotSlurmArgs, head: &str) -> Result<Settings, CliError> {
    let gres = match (&args.gres, args.gpus) {
        (Some(gres), _) => gres.clone(),
        (None, Some(count)) if count > 0 => format!("gpu:{count}"),
        (None, _) => String::new(),
    };
    let cpus = args.cpus.unwrap_or(0);
    let devices = if gres.is_empty() { cpus.max(1) } else { gres_count(&gres)? };
    let limit_min = (args.time_limit.0 / 60.0).ceil();
    let limit_min = if limit_min <= f64::from(u32::MAX) { limit_min as u32 } else { u32::MAX };
    let leave_before_s = args
        .leave_before
        .map_or_else(|| LEAVE_BEFORE_S.min(f64::from(limit_min) * 15.0), |seconds| seconds.0);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    Ok(Settings {
        shape: Shape {
            nodes: args.nodes,
            devices,
            device_type: args.device_type.clone(),
            pool: args.pool.clone(),
            cpus: if gres.is_empty() { devices } else { cpus },
            memory_mib: args.memory.map_or(0, |memory| memory.mib()),
        },
        bounds: Bounds { min: args.min, max: args.max, max_pending: args.max_pending },
        backoff: Backoff {
            first_s: args.backoff.0,
            max_s: args.backoff_max.0.max(args.backoff.0),
            young_s: args.young.0,
        },
        name: args.name.clone(),
        prefix: args.prefix.clone(),
        partition: text(&args.partition),
        account: text(&args.account),
        qos: text(&args.qos),
        limit_min,
        gres,
        extra: args.sbatch_option.clone(),
        idle_s: args.idle_timeout.0,
        leave_before_s,
        head: args.head.as_deref().map(address).transpose()?.unwrap_or_else(|| head.to_owned()),
        scratch: args.scratch.to_string_lossy().into_owned(),
        program: program(args)?,
        interval_s: args.interval.0,
    })
}

/// How many devices generic resources are.
fn gres_count(gres: &str) -> Result<u32, CliError> {
    let last = gres.rsplit(':').next().unwrap_or_default();
    match last.parse::<u32>() {
        Ok(count) if count > 0 && gres.contains(':') && !gres.contains(',') => Ok(count),
        _ => Err(CliError::usage(format!("`--gres {gres}` has no number of devices"))
            .hint("expected `gpu:4` or `gpu:a100:4`, one type only")),
    }
}

fn program(args: &PilotSlurmArgs) -> Result<String, CliError> {
    let path = match &args.program {
        Some(path) => path.clone(),
        None => std::env::current_exe()
            .map_err(|error| CliError::input("cannot find the path of this program").caused_by(error))?,
    };
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_resources_have_counts() {
        for (text, expected) in [("gpu:4", Some(4)), ("gpu:a100:8", Some(8)), ("gpu", None), ("gpu:0", None)]
        {
            assert_eq!(gres_count(text).ok(), expected, "{text}");
        }
        assert!(gres_count("gpu:1,shard:2").is_err());
    }
}
