//! `wharf profile run`: measures what the database lacks.

use serde_json::{Value, json};
use wharf_profiler::{Count, Known, Offer, Profiler, ProfilerError, Session, SessionSettings, describe};

use super::python;
use crate::args::{OutputFormat, ProfileRunArgs, ProfileSubjectArg};
use crate::error::{CliError, ErrorKind, translate};
use crate::exit::Exit;
use crate::interrupt;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Measures.
pub(super) fn run(args: &ProfileRunArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if args.what.contains(&ProfileSubjectArg::Plans) && args.plans.is_empty() {
        return Err(CliError::usage("`--what plans` requires plans")
            .hint("set them: `--plan pp2.dp4.mb8 --plan dp8`"));
    }
    let known = Known::read(&args.into)?;
    let mut profiler = python::start(&args.profiler.python)?;
    profiler.send(&request(args));
    let Some(offer) = Offer::receive(&mut profiler)? else {
        return Ok(interrupt::handled().unwrap_or(Exit::Internal));
    };
    if let Some(lacking) = args.what.iter().find(|subject| !offer.has(subject.name())) {
        return Err(nothing_to_measure(*lacking, &offer));
    }
    let mut session = Session::new(settings(args), offer, known);
    measure(&mut session, &mut profiler, terminal)?;
    show(&session, args, terminal)?;
    if let Some(signal) = interrupt::handled() {
        terminal.note("interrupted; measurements are saved, and the same command continues");
        return Ok(signal);
    }
    if let Some(target) = &args.hardware {
        let described = describe(&args.into, session.device_type(), session.offer(), &session.present())?;
        if described.lacks_memory {
            let target = target.display();
            terminal.warn(&format!("the devices report no memory size: set `memory_gib` in `{target}`"));
        }
        super::save(target, &described.document)?;
    }
    match session.failures().len() {
        0 => Ok(Exit::Ok),
        failed => Err(CliError::input(format!("{failed} measurements failed; all others are kept"))),
    }
}

fn settings(args: &ProfileRunArgs) -> SessionSettings {
    SessionSettings {
        into: args.into.clone(),
        device_type: args.device_type.clone(),
        rounds: args.rounds,
        again: args.again,
        no_recompute: args.no_recompute,
    }
}

fn measure(session: &mut Session, profiler: &mut Profiler, terminal: &Terminal) -> Result<(), CliError> {
    let missing = session.missing();
    if missing.is_empty() {
        return Ok(());
    }
    let steps = missing.iter().map(|(_, rounds)| u64::from(*rounds)).sum();
    let progress = terminal.progress(steps, "measurements");
    session.measure(profiler, &missing, &|| progress.add(1))?;
    progress.finish();
    session.failures().iter().for_each(|failure| terminal.warn(failure));
    Ok(())
}

/// That something was asked for of which there is nothing, and why.
fn nothing_to_measure(subject: ProfileSubjectArg, offer: &Offer) -> CliError {
    let name = subject.name();
    let error = CliError::input(format!("there are no {name} to measure"));
    match subject {
        ProfileSubjectArg::Layers => error.hint(format!(
            "layers are measured only for a wharf.profiler.Stack: return one from the function of {}",
            offer.name
        )),
        ProfileSubjectArg::Collectives => {
            error.hint("they need at least two devices: emulate some with `--host-devices 8`")
        }
        ProfileSubjectArg::Operators | ProfileSubjectArg::Plans => error,
    }
}

fn request(args: &ProfileRunArgs) -> Value {
    let subjects = if args.what.is_empty() {
        let mut subjects = vec![ProfileSubjectArg::Collectives];
        if args.model.is_some() {
            subjects.extend([ProfileSubjectArg::Operators, ProfileSubjectArg::Layers]);
        }
        subjects.extend((!args.plans.is_empty()).then_some(ProfileSubjectArg::Plans));
        subjects
    } else {
        args.what.clone()
    };
    json!({
        "do": "measure",
        "what": subjects.iter().map(|subject| subject.name()).collect::<Vec<_>>(),
        "model": args.model,
        "plans": args.plans,
        "batch": args.batch,
        "devices": args.devices,
        "host_devices": args.profiler.host_devices,
        "no_recompute": args.no_recompute,
    })
}

fn show(session: &Session, args: &ProfileRunArgs, terminal: &Terminal) -> Result<(), CliError> {
    let offer = session.offer();
    if terminal.format == OutputFormat::Json {
        let one = |(kind, count): (&String, &Count)| {
            let Count { measured, known, failed } = *count;
            json!({ "kind": kind, "measured": measured, "known": known, "failed": failed })
        };
        return terminal.json(&json!({
            "schema": 1,
            "profile": args.into.to_string_lossy(),
            "model": offer.name,
            "device_type": session.device_type(),
            "devices": offer.devices,
            "machine": offer.machine,
            "versions": offer.versions,
            "results": session.counts().iter().map(one).collect::<Vec<_>>(),
        }));
    }
    let mut grid = Grid::new(["what", "measured", "known already", "failed"]);
    for (kind, Count { measured, known, failed }) in session.counts() {
        grid.push([kind.as_str(), &measured.to_string(), &known.to_string(), &failed.to_string()]);
    }
    terminal.grid(&grid)
}

impl From<ProfilerError> for CliError {
    fn from(error: ProfilerError) -> Self {
        let kind = match &error {
            ProfilerError::Write { .. } => ErrorKind::Output,
            ProfilerError::Unconnected | ProfilerError::Message(_) | ProfilerError::Shape { .. } => {
                ErrorKind::Internal
            }
            _ => ErrorKind::Input,
        };
        let failed = Self::from_error(kind, &error);
        match error {
            ProfilerError::Profile(error) => translate::profile(&error),
            ProfilerError::Client(error) => error.into(),
            ProfilerError::Start { .. } => failed.hint("`--python` names a Python that has JAX"),
            ProfilerError::NoOperators { .. } => failed.hint("measure them: `--what operators,collectives`"),
            _ => failed,
        }
    }
}
