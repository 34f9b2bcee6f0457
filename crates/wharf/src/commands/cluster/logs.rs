//! `wharf logs`: the output of a job's runs.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use wharf_client::Client;
use wharf_job::{Chosen, JobNumber, PatternValues};
use wharf_proto::job_event::Event;
use wharf_proto::{JobDetail, JobPhase, JobSpec, JobSummary, LogsRequest};

use super::connect::with;
use super::follow::{follow, show};
use super::jobs::id_of;
use super::seen::Seen;
use crate::args::LogsArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;

/// How much of the output of a job that failed is shown to those who waited for it.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 16 << 10;

/// One run of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Run {
    /// Counts the runs of the job, from 1.
    pub(super) number: u32,
    /// Node numbers by rank.
    nodes: Vec<u32>,
    /// Why it came to its end before the job was done, in words.
    ended: Option<String>,
    /// The node that is to blame.
    culprit: Option<u32>,
    is_launched: bool,
}

impl Run {
    /// The rank whose output says most: that of the task that failed.
    fn rank(&self) -> u32 {
        let rank = self.culprit.and_then(|culprit| self.nodes.iter().position(|&node| node == culprit));
        rank.and_then(|rank| u32::try_from(rank).ok()).unwrap_or(0)
    }

    fn heading(&self, count: usize) -> String {
        let ended = self.ended.as_ref().map_or_else(String::new, |ended| format!(", {ended}"));
        format!("run {} of {count}{ended}", self.number)
    }
}

/// All runs of a job, from its history. A placement where nothing was launched, because the job ended on its former devices, is none.
pub(super) fn runs(detail: &JobDetail) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for entry in &detail.history {
        match (entry.happened(), runs.last_mut()) {
            (Some(Event::JobPlaced(placed)), _) => {
                let nodes = placed.shares.iter().map(|share| share.node).collect();
                runs.push(Run { number: placed.generation, nodes, ..Run::default() });
            }
            (Some(Event::JobLaunched(_)), Some(run)) => run.is_launched = true,
            (Some(Event::JobCaused(caused)), Some(run)) => {
                let code = caused.code.map_or_else(String::new, |code| format!(", exit code {code}"));
                run.ended = Some(format!("ended by {}{code}", caused.cause().word()));
                run.culprit = caused.node;
            }
            _ => {}
        }
    }
    runs.retain(|run| run.is_launched || run.ended.is_some());
    runs
}

/// Prints a job's output, and follows it where asked to.
pub(in crate::commands) fn logs(args: &LogsArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    with(&args.home, async |client| {
        let job_id = id_of(client, args.job).await?;
        if args.follow && args.run.is_none() {
            show(client, terminal, job_id, args.rank.unwrap_or(0)).await?;
            return Ok(Exit::Ok);
        }
        let detail = client.get_job(job_id).await?;
        let runs = runs(&detail);
        let chosen: Vec<&Run> = match args.run {
            Some(number) => runs.iter().filter(|run| run.number == number).collect(),
            None if args.all_runs => runs.iter().collect(),
            None => runs.last().into_iter().collect(),
        };
        if let (Some(number), true) = (args.run, chosen.is_empty()) {
            return Err(no_run(args.job, number, &runs));
        }
        let ranks = chosen.iter().map(|run| run.nodes.len()).max();
        if let (Some(rank), Some(ranks)) = (args.rank, ranks)
            && rank as usize >= ranks
        {
            return Err(no_rank(args.job, rank, ranks));
        }
        let is_one_file = runs.len() > 1 && detail.spec.as_ref().is_some_and(adds_to_one_file);
        if is_one_file && (args.all_runs || args.run.is_some()) {
            terminal.note("all runs add to the job's output file, which is shown as a whole");
        }
        let mut seen = Seen::default();
        let has_failed = detail.summary.as_ref().is_some_and(has_failed);
        for run in chosen {
            if args.all_runs || args.run.is_none() && has_failed {
                terminal.note(&run.heading(runs.len()));
            }
            let rank = args.rank.unwrap_or_else(|| if has_failed { run.rank() } else { 0 });
            let request = LogsRequest { job_id, rank, follow: args.follow, generation: run.number };
            seen.begin(is_one_file);
            follow(client, request, &mut seen).await?;
        }
        Ok(Exit::Ok)
    })
}

fn no_run(job: JobNumber, number: u32, runs: &[Run]) -> CliError {
    let error = CliError::usage(format!("job {job} has no run {number}"));
    match (runs.first(), runs.last()) {
        (Some(first), Some(last)) => error.hint(format!("its runs are {} to {}", first.number, last.number)),
        _ => error.hint("it has not been started yet"),
    }
}

fn no_rank(job: JobNumber, rank: u32, ranks: usize) -> CliError {
    let error = CliError::usage(format!("job {job} has no rank {rank}"));
    error.hint(format!("its ranks are 0 to {}", ranks.saturating_sub(1)))
}

/// Whether the runs of a job add their output to a file with a name. Those of other jobs have one each; batch scripts mostly begin theirs anew.
pub(super) fn adds_to_one_file(spec: &JobSpec) -> bool {
    !spec.output.is_empty() && spec.batch.as_ref().is_none_or(|batch| batch.append)
}

fn has_failed(job: &JobSummary) -> bool {
    matches!(job.phase(), JobPhase::Failed | JobPhase::TimedOut)
}

/// Shows the end of the output of a job that failed to those who waited for it.
pub(super) async fn show_tail(
    client: &Client,
    terminal: &Terminal,
    ended: &JobSummary,
) -> Result<(), CliError> {
    let number = JobNumber::of(ended);
    if !has_failed(ended) {
        return Ok(());
    }
    let detail = client.get_job(ended.job_id).await?;
    let runs = runs(&detail);
    let Some(run) = runs.last() else { return Ok(()) };
    let request =
        LogsRequest { job_id: ended.job_id, rank: run.rank(), follow: false, generation: run.number };
    let mut output = client.logs(request).await?;
    let mut tail: VecDeque<u8> = VecDeque::new();
    while let Some(data) = output.next().await? {
        tail.extend(data);
        let surplus = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..surplus);
    }
    terminal.note(&format!("job {number}: {}; its last lines:", run.heading(runs.len())));
    print_tail(tail.make_contiguous())?;
    if let Some(path) = error_file(&detail, ended, run) {
        // The node's file is this machine's where the file system is shared.
        match end_of_file(&path, ended.start_s) {
            Some(tail) => {
                terminal.note(&format!("the last lines of its standard error, {}:", path.display()));
                print_tail(&tail)?;
            }
            None => terminal.note(&format!("its standard error is in {}", path.display())),
        }
    }
    Ok(())
}

fn print_tail(tail: &[u8]) -> Result<(), CliError> {
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().collect();
    let mut stderr = std::io::stderr();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        writeln!(stderr, "  {line}").map_err(CliError::stdout)?;
    }
    Ok(())
}

/// The file that a run writes its standard error to, where it has one of its own.
fn error_file(detail: &JobDetail, ended: &JobSummary, run: &Run) -> Option<PathBuf> {
    let spec = detail.spec.as_ref().filter(|spec| !spec.error_output.is_empty())?;
    let (number, rank) = (JobNumber::of(ended), run.rank() as usize);
    let values = PatternValues {
        job: ended.job_id,
        array_job: number.job,
        array_index: number.index,
        rank,
        node: ended.placement.get(rank).map_or("", |share| share.node.as_str()),
        name: &ended.name,
        user: &ended.user,
    };
    let path = Chosen::of(spec, number.index).fill(&values.expand(&spec.error_output));
    Some(Path::new(&spec.workdir).join(path))
}

/// The end of a file of this machine; none where it cannot be read, or was not written to since then.
fn end_of_file(path: &Path, since_s: f64) -> Option<Vec<u8>> {
    let found = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let since = UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(since_s.floor()).ok()?)?;
    let mut file = File::open(path).ok().filter(|_| found.modified().is_ok_and(|at| at >= since))?;
    file.seek(SeekFrom::Start(found.len().saturating_sub(TAIL_BYTES as u64))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES as u64).read_to_end(&mut tail).ok()?;
    Some(tail)
}

#[cfg(test)]
mod tests {
    use wharf_proto::{
        Cause, HistoryEntry, JobCaused, JobEvent, JobLaunched, JobPlaced, NodeDevices, RecordedSpec,
    };

    use super::*;

    #[test]
    fn runs_have_their_causes_and_the_rank_that_failed() {
        let entry = |event: Event| HistoryEntry {
            event: Some(JobEvent { job_id: 3, event: Some(event) }),
            ..HistoryEntry::default()
        };
        let placed = |generation: u32, nodes: &[u32]| {
            let share = |&node: &u32| NodeDevices { node, devices: vec![0] };
            Event::JobPlaced(JobPlaced { generation, shares: nodes.iter().map(share).collect() })
        };
        let caused = JobCaused { cause: Cause::UserError.into(), node: Some(2), code: Some(7) };
        let history = vec![
            entry(Event::JobSubmitted(RecordedSpec::default())),
            entry(placed(1, &[4, 2])),
            entry(Event::JobCaused(caused)),
            entry(placed(2, &[2])),
            entry(Event::JobLaunched(JobLaunched::default())),
            // Of a newer head.
            HistoryEntry::default(),
            entry(placed(3, &[4])),
        ];
        let runs = runs(&JobDetail { history, ..JobDetail::default() });
        let found: Vec<_> = runs.iter().map(|run| (run.heading(2), run.rank())).collect();
        let expected =
            [("run 1 of 2, ended by user, exit code 7".to_owned(), 1), ("run 2 of 2".to_owned(), 0)];
        assert_eq!(found, expected);
    }
}
