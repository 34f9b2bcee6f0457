//! From what a user asks of sbatch, salloc or srun to a job of Wharf.

use crate::grammar::array::Array;
use crate::grammar::dependency::Kind;
use crate::grammar::environ::{Submission, submitted};
use crate::grammar::export::{Variables, exported, masked};
use crate::grammar::filename::{OUTPUT, OUTPUT_OF_ARRAY};
use crate::grammar::shape::{PARTITION, Shape, shape};
use crate::grammar::{Refusal, Request, joined};
use jiff::Zoned;
use wharf_client::Client;
use wharf_job::check::is_mail_address;
use wharf_job::is_secret_name;
use wharf_proto::{
    Batch, Cause, Dependency, Gang, JobSpec, Launcher, ListJobsRequest, Notify, RetryRule,
    dependency as wire, notify::Moment,
};

use super::{CommandError, Context, container, option_files, view};
use crate::grammar::moment::{Side, moment};

/// Indexes of arrays are below: Wharf's own limit is on their number.
pub(super) const ARRAY_SIZE_MAX: u32 = 1_000_001;
/// What jobs have from the signal to the kill, as Slurm's KillWait.
pub(super) const KILL_WAIT_S: f64 = 30.0;
/// Longest submit line that is kept, in bytes: no program starts with a variable of 128 KiB.
const SUBMIT_LINE_MAX: usize = 64 << 10;
/// How much less urgent `--nice` without a number makes a job.
const NICE: i32 = 100;
/// Causes that machines are to blame for, after which a job is retried by default.
const OF_MACHINES: [Cause; 3] = [Cause::NodeAway, Cause::BrokenDevice, Cause::LostWorker];

/// A job to be submitted.
pub(super) struct Made {
    pub(super) spec: JobSpec,
    pub(super) shape: Shape,
    pub(super) array: Option<Array>,
}

/// The batch part of a job.
pub(super) struct Script<'a> {
    /// Default name of the job.
    pub(super) name: &'a str,
    /// Its text; none: devices are held for steps.
    pub(super) text: Option<&'a str>,
    pub(super) arguments: &'a [String],
    /// Where it was read from.
    pub(super) path: &'a str,
}

/// Makes a job of a request, for the nodes that the cluster has.
pub(super) async fn make(
    context: &Context,
    client: &Client,
    request: &Request,
    script: &Script<'_>,
) -> Result<Made, CommandError> {
    let nodes = view::facts(&client.list_nodes().await?);
    let shape = shape(request, &nodes).map_err(|unfit| {
        if request.has("test-only") {
            context.note(&format!("allocation failure: {unfit}"));
            return CommandError::Reported(1);
        }
        CommandError::failed(format!("Batch job submission failed: {unfit}"))
    })?;
    let array = request.array(ARRAY_SIZE_MAX)?;
    let cwd = std::env::current_dir()
        .map_err(|error| CommandError::failed(format!("no working directory: {error}")))?;
    let cwd = cwd.to_string_lossy().into_owned();
    let folder = joined(&cwd, request.get("chdir").unwrap_or(""));
    let folder = if request.has("chdir") { folder } else { cwd.clone() };
    let mut spec = JobSpec {
        name: request.get("job-name").unwrap_or(script.name).to_owned(),
        gang: Some(gang(&shape)),
        workdir: folder.clone(),
        time_limit_s: request.time().and_then(|limit| limit.seconds()).map_or(0.0, |seconds| seconds as f64),
        grace_s: KILL_WAIT_S,
        priority: priority(request),
        held: request.has("hold"),
        array: array.as_ref().map(|array| array.indexes.clone()).unwrap_or_default(),
        array_limit: array.as_ref().and_then(|array| array.limit).unwrap_or(0),
        launcher: Launcher::Batch.into(),
        cpus: shape.cpus,
        memory_mib: shape.memory_mib,
        pool: pool(request),
        account: request.get("account").map(str::to_owned).or_else(own_group).unwrap_or_default(),
        reservation: request.get("reservation").unwrap_or_default().to_owned(),
        begin_s: at(request, "begin")?,
        deadline_s: at(request, "deadline")?,
        batch: Some(batch(request, &shape, script, &folder)),
        stays_if_impossible: request.get("kill-on-invalid-dep") != Some("yes"),
        notify: notify(context, request, script)?,
        ..JobSpec::default()
    };
    if request.has("no-requeue") {
        spec.retry = OF_MACHINES.map(|cause| RetryRule { cause: cause.into(), count: 0 }).to_vec();
    }
    if script.text.is_some() {
        let usual = if array.is_some() { OUTPUT_OF_ARRAY } else { OUTPUT };
        spec.output = joined(&folder, request.get("output").unwrap_or(usual));
        spec.error_output = request.get("error").map(|path| joined(&folder, path)).unwrap_or_default();
    }
    depend(client, request, &mut spec).await?;
    spec.env = environment(context, request, &shape, array.as_ref(), &cwd, script)?.into_iter().collect();
    spec.container = container::of(request, &cwd)?;
    if spec.container.is_some() {
        spec.env.retain(|name, _| container::is_within(name));
    }
    Ok(Made { spec, shape, array })
}

/// Emails for `--mail-type`, to the first address of `--mail-user` or the submitting user.
fn notify(context: &Context, request: &Request, script: &Script<'_>) -> Result<Option<Notify>, CommandError> {
    let Some(types) = request.get("mail-type") else { return Ok(None) };
    let mut moments = Vec::new();
    for kind in types.split(',') {
        moments.extend(match kind.to_ascii_uppercase().as_str() {
            "NONE" => return Ok(None),
            "ALL" => {
                vec![Moment::Started, Moment::Finished, Moment::Failed, Moment::Cancelled, Moment::Preempted]
            }
            "BEGIN" => vec![Moment::Started],
            "END" => vec![Moment::Finished, Moment::Failed, Moment::Cancelled],
            "FAIL" | "INVALID_DEPEND" | "TIME_LIMIT" => vec![Moment::Failed],
            "REQUEUE" => vec![Moment::Preempted],
            // There is nothing to report of these.
            "STAGE_OUT" | "TIME_LIMIT_50" | "TIME_LIMIT_80" | "TIME_LIMIT_90" | "ARRAY_TASKS" => Vec::new(),
            _ => return Err(Refusal::value("mail-type").into()),
        });
    }
    moments.sort_unstable();
    moments.dedup();
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    let given = request.get("mail-user").map(str::to_owned).or_else(|| Some(user?.name));
    let on = moments.into_iter().map(i32::from).collect::<Vec<_>>();
    let Some(given) = given.filter(|_| !on.is_empty()) else { return Ok(None) };
    let mut addresses = addresses(&given, &host_name());
    let warning = match addresses.len() {
        0 => Some(format!("`{}` is not an email address; no email is sent", given.escape_debug())),
        1 => None,
        _ => Some(format!("emails are sent to {} only", addresses[0])),
    };
    if let Some(warning) = warning.filter(|_| !request.has("quiet")) {
        let program = if script.text.is_some() { "sbatch" } else { "salloc" };
        context.note(&format!("{program}: warning: {warning}"));
    }
    addresses.truncate(1);
    Ok(addresses.pop().map(|mail| Notify { on, mail, ..Notify::default() }))
}

/// The valid addresses of a list; a user's name is an address on the submitting machine.
fn addresses(list: &str, host: &str) -> Vec<String> {
    let whole = |one: &str| if one.contains('@') { one.to_owned() } else { format!("{one}@{host}") };
    list.split(',').map(|one| whole(one.trim())).filter(|one| is_mail_address(one)).collect()
}

fn gang(shape: &Shape) -> Gang {
    Gang {
        devices: shape.devices,
        device_types: shape.device_types.clone(),
        nodes: shape.nodes,
        node_names: shape.names.clone(),
        ..Gang::default()
    }
}

fn batch(request: &Request, shape: &Shape, script: &Script<'_>, folder: &str) -> Batch {
    let warning = request.signal();
    Batch {
        script: script.text.unwrap_or_default().to_owned(),
        arguments: script.arguments.to_vec(),
        input: request
            .get("input")
            .filter(|path| *path != "none")
            .map(|path| joined(folder, path))
            .unwrap_or_default(),
        append: request.appends(),
        tasks: shape.tasks,
        cpus_per_task: shape.cpus_per_task,
        is_allocation: script.text.is_none(),
        signal: warning.map_or(0, |warning| warning.signal),
        signal_before_s: warning.map_or(0.0, |warning| f64::from(warning.before_s)),
        signal_script: warning.is_some_and(|warning| warning.is_batch_only),
        no_requeue: request.has("no-requeue"),
        lease_s: 0.0,
    }
}

fn priority(request: &Request) -> i32 {
    match (request.get("priority"), request.get("nice")) {
        (Some("TOP"), _) => i32::MAX / 2,
        (Some(priority), _) => {
            priority.parse::<u32>().map_or(0, |number| i32::try_from(number).unwrap_or(i32::MAX))
        }
        (None, Some(nice)) => -nice.parse::<i32>().unwrap_or(NICE),
        (None, None) => 0,
    }
}

/// One partition is a pool; several, and the one that nodes without a pool are in, are asked for by their nodes.
fn pool(request: &Request) -> String {
    let name = request.get("partition").unwrap_or_default();
    if name.contains(',') || name == PARTITION { String::new() } else { name.to_owned() }
}

fn at(request: &Request, option: &str) -> Result<f64, CommandError> {
    let Some(text) = request.get(option) else { return Ok(0.0) };
    let refused = || Refusal::failed(format!("Invalid --{option} specification"));
    moment(text, &Zoned::now(), Side::Future).map_err(|_| refused().into())
}

/// What it waits for, all of which must be there.
async fn depend(client: &Client, request: &Request, spec: &mut JobSpec) -> Result<(), CommandError> {
    let dependencies = request.dependencies()?;
    let named = dependencies.all.iter().filter(|one| one.kind != Kind::Singleton).map(|one| one.job);
    let job_ids: Vec<u32> = named.collect();
    if !job_ids.is_empty() {
        let known = client
            .list_jobs(ListJobsRequest { job_ids: job_ids.clone(), ..ListJobsRequest::default() })
            .await?;
        if !job_ids.iter().all(|id| known.iter().any(|job| job.job_id == *id)) {
            return Err(CommandError::failed("Batch job submission failed: Job dependency problem"));
        }
    }
    spec.any_dependency = dependencies.is_any;
    let one = |one: &crate::grammar::dependency::Dependency| Dependency {
        kind: match one.kind {
            Kind::After => wire::Kind::After,
            Kind::AfterAny => wire::Kind::AfterAny,
            Kind::AfterOk => wire::Kind::AfterOk,
            Kind::AfterNotOk => wire::Kind::AfterNotOk,
            // Of a job that is no array, all must go well.
            Kind::AfterCorr if spec.array.is_empty() => wire::Kind::AfterOk,
            Kind::AfterCorr => wire::Kind::AfterCorr,
            Kind::Singleton => wire::Kind::Singleton,
        }
        .into(),
        job_id: one.job,
        array_index: one.index,
        delay_s: f64::from(one.minutes) * 60.0,
    };
    spec.dependencies = dependencies.all.iter().map(one).collect();
    Ok(())
}

/// The submitting shell's variables.
pub(super) fn shell() -> Variables {
    // Variables that are not UTF-8 cannot be requested to a head.
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn environment(
    context: &Context,
    request: &Request,
    shape: &Shape,
    array: Option<&Array>,
    folder: &str,
    script: &Script<'_>,
) -> Result<Variables, CommandError> {
    let shell = shell();
    let exported = exported(request.get("export"), &shell);
    // A file with an environment is all of it.
    let mut variables = option_files::exported(request)?.unwrap_or(exported.variables);
    // Wharf's own are about the submitting process, but for those that state where the cluster is: srun has to find it.
    variables.retain(|name, _| !name.starts_with("WHARF_"));
    variables.extend(context.variables.clone());
    if let Some(home) = shell.get("HOME") {
        variables.entry("HOME".to_owned()).or_insert_with(|| home.clone());
    }
    let host = host_name();
    let facts = Submission {
        folder,
        host: &host,
        array,
        export: exported.said.as_deref(),
        uid: nix::unistd::getuid().as_raw(),
        gid: nix::unistd::getgid().as_raw(),
    };
    variables.extend(submitted(request, shape, &facts));
    variables.insert("WHARF_SCRIPT".to_owned(), joined(folder, script.path));
    // For sacct alone.
    for (name, option) in
        [("WHARF_COMMENT", "comment"), ("WHARF_QOS", "qos"), ("WHARF_CONSTRAINT", "constraint")]
    {
        if let Some(value) = request.get(option) {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    variables.insert("WHARF_SUBMIT_LINE".to_owned(), submit_line(words));
    Ok(variables)
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// A command line, the program without its folder and exports without secrets, as far as it fits into a variable.
fn submit_line(mut words: Vec<String>) -> String {
    if let Some(program) = words.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().to_owned();
    }
    let mut is_list = false;
    for word in &mut words {
        if is_list {
            *word = masked(word, is_secret_name);
        } else if let Some(list) = word.strip_prefix("--export=") {
            *word = format!("--export={}", masked(list, is_secret_name));
        }
        is_list = word == "--export";
    }
    let mut line = words.join(" ");
    line.truncate(line.floor_char_boundary(SUBMIT_LINE_MAX));
    line
}

/// The name of the submitting user's group, where it can be an account's.
#[must_use]
pub fn own_group() -> Option<String> {
    let group = nix::unistd::Group::from_gid(nix::unistd::getgid()).ok()??;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    Some(group.name)
        .filter(|name| name.len() <= 64 && name.chars().all(is_plain) && !name.starts_with(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_addresses_of_a_list_are_kept() {
        for (list, expected) in [
            ("ann@lab.org", "ann@lab.org"),
            ("ann, bob@lab.org,no one@x", "ann@node1 bob@lab.org"),
            ("<ann@lab.org>", ""),
            (",", ""),
        ] {
            assert_eq!(addresses(list, "node1").join(" "), expected, "{list}");
        }
        assert!(addresses("ann", "my_host").is_empty(), "a name that no host may have");
    }

    #[test]
    fn submit_lines_show_no_secrets_of_exports() {
        for (line, expected) in [
            ("/usr/bin/sbatch -n 2 job.sh", "sbatch -n 2 job.sh"),
            ("wharf sbatch --export=ALL,HF_TOKEN=abc,N=1 a", "wharf sbatch --export=ALL,HF_TOKEN=***,N=1 a"),
            (
                "sbatch --export WANDB_API_KEY=abc --export N=1",
                "sbatch --export WANDB_API_KEY=*** --export N=1",
            ),
            ("sbatch --export HF_TOKEN,N='a,b' a", "sbatch --export HF_TOKEN,N='a,b' a"),
            ("sbatch --export=N='a,b',DB_PASSWORD='c,d' a", "sbatch --export=N=a,b,DB_PASSWORD=*** a"),
        ] {
            let words = line.split(' ').map(str::to_owned).collect();
            assert_eq!(submit_line(words), expected, "{line}");
        }
    }
}
