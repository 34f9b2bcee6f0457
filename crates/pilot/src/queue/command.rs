//! A Slurm through its own programs: `sbatch`, `squeue`, `scancel`.

use std::process::{Output, Stdio};
use std::time::Duration;

use nix::unistd::geteuid;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{Answer, Filter, JobState, Queue, QueueError, QueueJob, Submission};

/// A controller that is busy answers late.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is asked of each job, and how wide its column is: values are cut to it, and have no marks between them.
const COLUMNS: [(&str, usize); 8] = [
    ("JobArrayID", 40),
    ("State", 24),
    ("StartTime", 24),
    ("EndTime", 24),
    ("exit_code", 16),
    ("Reason", 96),
    ("NodeList", 256),
    ("Comment", 256),
];

/// The programs in the search path.
#[derive(Clone, Debug, Default)]
pub struct CommandQueue {}

impl CommandQueue {
    async fn run(
        &self,
        program: &'static str,
        words: &[String],
        submission: Option<&Submission>,
    ) -> Result<String, QueueError> {
        let failed = |source| QueueError::Program { program, source };
        let mut command = Command::new(program);
        // Times as seconds since the epoch.
        command.args(words).env("SLURM_TIME_FORMAT", "%s").kill_on_drop(true);
        command.stdin(if submission.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(submission) = submission {
            // This process' environment must not reach the nodes.
            command.env_clear().envs(usual_environment()).envs(&submission.env);
        }
        let mut child = command.spawn().map_err(failed)?;
        let input = child.stdin.take().zip(submission);
        let run = async move {
            if let Some((mut stdin, submission)) = input {
                // One that does not read its input states why by its exit code.
                let _ = stdin.write_all(submission.script.as_bytes()).await;
            }
            child.wait_with_output().await
        };
        let output = tokio::time::timeout(PATIENCE, run)
            .await
            .map_err(|_| QueueError::Silent { what: program, limit: PATIENCE })?
            .map_err(failed)?;
        said(program, &output)
    }
}

fn said(program: &'static str, output: &Output) -> Result<String, QueueError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let prefix = format!("{program}: error: ");
    let lines: Vec<&str> = text.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line)).collect();
    let message = if lines.is_empty() { output.status.to_string() } else { lines.join("; ") };
    Err(QueueError::Refused { what: program, message })
}

/// Variables that a job takes over from its submitter.
pub(crate) fn usual_environment() -> impl Iterator<Item = (String, String)> {
    const NAMES: [&str; 9] =
        ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TMPDIR", "SLURM_CONF"];
    NAMES.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)))
}

/// The options of sbatch that a submission has.
#[must_use]
pub fn sbatch_options(submission: &Submission) -> Vec<String> {
    let mut options = vec!["--export=ALL".to_owned()];
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            options.push(format!("--{name}={value}"));
        }
    };
    let number = |value: u64| if value == 0 { String::new() } else { value.to_string() };
    add("job-name", &submission.name);
    add("comment", &submission.comment);
    add("partition", &submission.partition);
    add("account", &submission.account);
    add("qos", &submission.qos);
    add("time", &number(submission.limit_min.into()));
    add("nodes", &number(submission.nodes.into()));
    add("ntasks-per-node", &number(submission.tasks_per_node.into()));
    add("cpus-per-task", &number(submission.cpus.into()));
    add("mem", &number(submission.memory_mib));
    add("gres", &submission.gres);
    add("array", &submission.array);
    add("chdir", &submission.workdir.to_string_lossy());
    add("output", &submission.output);
    add("error", &submission.error);
    options.push(if submission.requeue { "--requeue" } else { "--no-requeue" }.to_owned());
    if submission.hold {
        options.push("--hold".to_owned());
    }
    options.extend(submission.extra.iter().cloned());
    options
}

/// One line of squeue.
fn job(line: &str) -> Option<QueueJob> {
    let mut rest = line;
    let mut values = Vec::new();
    for (_, width) in COLUMNS {
        let end = rest.char_indices().nth(width).map_or(rest.len(), |(end, _)| end);
        values.push(rest[..end].trim());
        rest = &rest[end..];
    }
    let [id, state, start, end, status, reason, nodes, comment] = values[..] else { return None };
    Some(QueueJob {
        id: id.to_owned(),
        state: JobState::of_word(state),
        start_s: start.parse().ok(),
        end_s: end.parse().ok(),
        reason: reason.to_owned(),
        nodes: nodes.to_owned(),
        comment: comment.to_owned(),
        wait_status: status.parse().unwrap_or(0),
    })
    .filter(|job| !job.id.is_empty() && !state.is_empty())
}

impl Queue for CommandQueue {
    fn submit<'a>(&'a self, submission: &'a Submission) -> Answer<'a, String> {
        Box::pin(async move {
            let options = [vec!["--parsable".to_owned()], sbatch_options(submission)].concat();
            let said = self.run("sbatch", &options, Some(submission)).await?;
            // With several clusters its name follows.
            let id = said.trim().split(';').next().unwrap_or_default();
            if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(QueueError::Malformed { what: "sbatch", message: said.trim().to_owned() });
            }
            Ok(id.to_owned())
        })
    }

    fn list<'a>(&'a self, filter: &'a Filter) -> Answer<'a, Vec<QueueJob>> {
        Box::pin(async move {
            let columns: Vec<String> =
                COLUMNS.iter().map(|(name, width)| format!("{name}:{width}")).collect();
            let mut words = vec!["--noheader".to_owned(), "--states=all".to_owned(), "--array".to_owned()];
            words.push(format!("--Format={}", columns.join(",")));
            words.push(match filter {
                Filter::Name(name) => format!("--name={name}"),
                Filter::Id(id) => format!("--jobs={id}"),
            });
            words.push(format!("--user={}", geteuid()));
            match self.run("squeue", &words, None).await {
                // It is over for so long that Slurm has forgotten it.
                Err(QueueError::Refused { message, .. }) if message.contains("Invalid job id") => Ok(vec![]),
                said => Ok(said?.lines().filter_map(job).collect()),
            }
        })
    }

    fn cancel<'a>(&'a self, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            match self.run("scancel", &[id.to_owned()], None).await {
                Err(QueueError::Refused { message, .. }) if message.contains("Invalid job id") => Ok(()),
                said => said.map(drop),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_squeue_are_read_by_their_columns() {
        let line = |values: [&str; 8]| {
            let padded = values.iter().zip(COLUMNS).map(|(value, (_, width))| format!("{value:<width$}"));
            padded.collect::<String>()
        };
        let text = line(["3_2", "RUNNING", "1794840710", "N/A", "1792", "None", "n[1-2]", "wharf:a b|c"]);
        let found = job(&text).unwrap();
        assert_eq!((found.id.as_str(), &found.state), ("3_2", &JobState::Running));
        assert_eq!((found.start_s, found.end_s), (Some(1_794_840_710.0), None));
        assert_eq!((found.wait_status, found.comment.as_str()), (1792, "wharf:a b|c"));
        assert_eq!(job(""), None);
        assert_eq!(job("short"), None);
    }

    #[test]
    fn options_are_words_of_their_own() {
        let submission = Submission {
            name: "a b; rm -rf /".into(),
            gres: "gpu:4".into(),
            nodes: 2,
            limit_min: 90,
            extra: vec!["--exclusive".into()],
            ..Submission::default()
        };
        let expected = [
            "--export=ALL",
            "--job-name=a b; rm -rf /",
            "--time=90",
            "--nodes=2",
            "--gres=gpu:4",
            "--no-requeue",
            "--exclusive",
        ];
        assert_eq!(sbatch_options(&submission), expected);
    }
}
