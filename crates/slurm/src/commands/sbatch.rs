//! `wharf sbatch`

use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::grammar::filename::Names;
use crate::grammar::getopt::{self, Order, Parsed};
use crate::grammar::{Request, Sources, hostlist, options, script};
use wharf_proto::JobSpec;

use super::job::{Made, Script, make};
use super::{CommandError, Context, option_files, view};

/// The largest script that sbatch takes.
const SCRIPT_BYTES_MAX: u64 = 4 << 20;

pub(super) async fn execute(context: &Context, words: &[String]) -> Result<u8, CommandError> {
    let parsed = getopt::parse(&options::sbatch(), words, Order::First)?;
    if parsed.has("help") || parsed.has("usage") {
        context.print(&usage())?;
        return Ok(0);
    }
    if parsed.has("version") {
        context.print(&[format!("wharf {} (options of slurm 22.05)", env!("CARGO_PKG_VERSION"))])?;
        return Ok(0);
    }
    let found = find(&parsed)?;
    let text = script::accept(&found.bytes)?;
    let variable = |name: &str| std::env::var(name).ok();
    let sources =
        Sources { name: &found.shown, script: text, variable: &variable, command_line: &parsed.given };
    let (mut request, notes) = Request::read(&sources)?;
    option_files::read_in(&mut request)?;
    if !request.has("quiet") {
        notes.iter().for_each(|note| context.note(&format!("sbatch: {note}")));
    }
    request.check()?;
    if request.verbosity() > 0 {
        show(context, &request);
    }
    let script =
        Script { name: &found.name, text: Some(text), arguments: &found.arguments, path: &found.shown };
    let submitted = submit(context, &request, &script).await;
    match (submitted, std::env::var("SLURM_EXIT_ERROR").ok().and_then(|code| code.parse().ok())) {
        (Err(fail), Some(code)) => {
            // Told as usual, with another exit code.
            if let CommandError::Refused(refusal) = &fail {
                refusal.lines("sbatch").iter().for_each(|line| context.note(line));
                return Ok(code);
            }
            Err(fail)
        }
        (submitted, _) => submitted,
    }
}

fn usage() -> Vec<String> {
    let lines = [
        "Usage: sbatch [OPTIONS(0)...] [ : [OPTIONS(N)...]] script(0) [args(0)...]",
        "",
        "Options are those of Slurm 22.05; `wharf help sbatch` and docs/slurm.md list the supported ones.",
    ];
    lines.map(str::to_owned).to_vec()
}

/// A script and what it is called.
struct Found {
    bytes: Vec<u8>,
    /// What messages call it.
    shown: String,
    /// What its job is called.
    name: String,
    arguments: Vec<String>,
}

fn find(parsed: &Parsed) -> Result<Found, CommandError> {
    if let Some(command) = parsed.value("wrap") {
        if !parsed.rest.is_empty() {
            return Err(CommandError::failed("Script arguments not permitted with --wrap option"));
        }
        let bytes = script::wrapped(command).into_bytes();
        return Ok(Found { bytes, shown: "wrap".into(), name: "wrap".into(), arguments: Vec::new() });
    }
    let Some((given, arguments)) = parsed.rest.split_first() else {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(SCRIPT_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| {
            CommandError::failed(format!("Unable to read the script from standard input: {error}"))
        })?;
        return sized(Found { bytes, shown: "stdin".into(), name: "sbatch".into(), arguments: Vec::new() });
    };
    let path = search(given, parsed.value("chdir"));
    let bytes = std::fs::read(&path).map_err(|error| {
        let why =
            if error.kind() == std::io::ErrorKind::NotFound { String::new() } else { format!(": {error}") };
        CommandError::failed(format!("Unable to open file {given}{why}"))
    })?;
    let name = Path::new(given).file_name().map_or(given.clone(), |name| name.to_string_lossy().into_owned());
    sized(Found { bytes, shown: path.to_string_lossy().into_owned(), name, arguments: arguments.to_vec() })
}

fn sized(found: Found) -> Result<Found, CommandError> {
    if found.bytes.len() as u64 > SCRIPT_BYTES_MAX {
        return Err(CommandError::failed(
            "Batch job submission failed: Pathname of a file, directory or other parameter too long",
        ));
    }
    Ok(found)
}

/// A path as it is where it begins with `.` or `/`; else where the job is to run, else here, else in PATH.
fn search(given: &str, chdir: Option<&str>) -> PathBuf {
    if given.starts_with(['.', '/']) {
        return given.into();
    }
    let here = Path::new(chdir.unwrap_or("")).join(given);
    for path in [here.as_path(), Path::new(given)] {
        if path.is_file() {
            return path.to_owned();
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(given)).find(|path| path.is_file()).unwrap_or(here)
}

/// What `-v` says.
fn show(context: &Context, request: &Request) {
    context.note("sbatch: defined options");
    context.note("sbatch: -------------------- --------------------");
    let folder = std::env::current_dir().unwrap_or_default();
    for (name, value) in request.shown(&folder.to_string_lossy()) {
        context.note(&format!("sbatch: {name:<19} : {value}"));
    }
    context.note("sbatch: -------------------- --------------------");
    context.note("sbatch: end of defined options");
}

/// The files that the elements of an array share and write again. It is by design that a device such as `/dev/null` is shared.
fn shared_files(spec: &JobSpec) -> Vec<&str> {
    if spec.batch.as_ref().is_none_or(|batch| batch.append) {
        return Vec::new();
    }
    let element = |pattern: &str, number: u32| {
        let array = Some((0, number));
        Names { job: number, array, node: "", name: &spec.name, user: &spec.user, task: None }.expand(pattern)
    };
    let is_shared = |path: &&str| element(path, 0) == element(path, 1) && !path.starts_with("/dev/");
    [spec.output.as_str(), spec.error_output.as_str()]
        .into_iter()
        .filter(|path| !path.is_empty())
        .filter(is_shared)
        .collect()
}

async fn submit(context: &Context, request: &Request, script: &Script<'_>) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let Made { spec, shape, array } = make(context, client, request, script).await?;
    if request.has("test-only") {
        let partition = view::partition(&spec.pool);
        let nodes = if shape.names.is_empty() {
            String::new()
        } else {
            format!(" on nodes {}", hostlist::compress(&shape.names))
        };
        let start = view::moment(view::now_s());
        context.note(&format!(
            "sbatch: Job to start at {start} using {} processors{nodes} in partition {partition}",
            shape.devices
        ));
        return Ok(0);
    }
    let count = array.as_ref().map_or(1, |array| array.indexes.len());
    if count > 1 && !request.has("quiet") {
        shared_files(&spec).iter().for_each(|path| {
            context.note(&format!(
                "sbatch: warning: all elements of the array write to {path} and overwrite each other; use %a in its name, or \
                 --open-mode=append"
            ));
        });
    }
    let ids = client
        .submit(vec![spec])
        .await
        .map_err(|error| CommandError::failed(format!("Batch job submission failed: {error}")))?;
    let first = ids.iter().min().copied().unwrap_or_default();
    if request.has("parsable") {
        context.print(&[first.to_string()])?;
    } else if !request.has("quiet") {
        context.print(&[format!("Submitted batch job {first}")])?;
    }
    if !request.has("wait") {
        return Ok(0);
    }
    let mut worst = 0;
    for id in ids.into_iter().take(count) {
        let ended = client.wait(id).await?;
        worst = worst.max(view::outcome(&ended).map_or(1, |outcome| outcome.wait_code()));
    }
    Ok(worst)
}
