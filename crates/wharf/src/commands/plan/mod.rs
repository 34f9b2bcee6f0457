//! `wharf plan`: how a model is best split over devices, and how fast it then is.

mod curves;
mod errors;
mod judge;
mod measured;
mod question;
mod tell;

use self::question::{Answer, Question};
use crate::args::{Devices, OutputFormat, PlanArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// Does what the arguments say.
pub(super) fn execute(args: &PlanArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    if args.list {
        let named = args.model.as_deref().map(question::model).transpose()?;
        tell::list(named.as_ref(), &question::described(args)?, terminal)?;
        return Ok(Exit::Ok);
    }
    if let Some(file) = &args.judge {
        judge::execute(args, file, terminal)?;
        return Ok(Exit::Ok);
    }
    let question = Question::new(args, terminal)?;
    if let Some(folder) = &args.errors {
        errors::write(folder, &question, terminal)?;
        return Ok(Exit::Ok);
    }
    let answers: Vec<Answer> =
        gangs(args).iter().map(|devices| question.answer(devices)).collect::<Result<_, _>>()?;
    // A sweep continues where the samples cannot be split over some number of devices.
    let refused = answers.iter().find_map(|answer| answer.refusal.as_ref());
    if let Some(refusal) = refused.filter(|_| !args.sweep || answers.iter().all(|one| one.refusal.is_some()))
    {
        return Err(CliError::input(refusal));
    }
    if answers.iter().all(|answer| answer.best().is_none()) {
        // Programs get the times and what is missing beside the error.
        if terminal.format == OutputFormat::Json {
            terminal.json(&tell::document(&question, &answers, args.top))?;
        }
        return Err(question.nowhere(&answers));
    }
    if let Some(folder) = &args.out {
        curves::write(folder, &question, &answers, terminal)?;
    }
    match (terminal.format, args.sweep) {
        (OutputFormat::Json, _) => terminal.json(&tell::document(&question, &answers, args.top))?,
        _ if args.cells => tell::cells(&answers, terminal)?,
        (_, true) => tell::sweep(&answers, terminal)?,
        (_, false) => {
            for answer in &answers {
                tell::plans(&question, answer, args.top, terminal)?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// What is asked about: what was named, or all powers of two up to it.
fn gangs(args: &PlanArgs) -> Vec<Devices> {
    if !args.sweep {
        return args.gpus.clone();
    }
    let counts = |devices: &Devices| {
        let powers = (0..u32::BITS).map(|power| 1 << power).take_while(|count| *count < devices.count);
        let device_type = devices.device_type.clone();
        let one = move |count| Devices { device_type: device_type.clone(), count };
        powers.chain([devices.count]).map(one).collect::<Vec<_>>()
    };
    args.gpus.iter().flat_map(counts).collect()
}
