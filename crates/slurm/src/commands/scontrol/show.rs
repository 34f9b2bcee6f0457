//! `scontrol show`.

use crate::grammar::filename::Names;
use crate::grammar::hostlist;
use crate::grammar::limit::Full;
use crate::grammar::limits_document::LimitsDocument;
use crate::grammar::outcome::State;
use crate::grammar::shape::PARTITION;
use crate::grammar::squeue::Job;
use crate::launch::CLUSTER;
use wharf_core::parse_seconds;
use wharf_proto::{JobSummary, ListJobsRequest, StepSummary};

use super::super::job::{ARRAY_SIZE_MAX, KILL_WAIT_S};
use super::super::{CommandError, Context, step_rows, view};
use super::find;

/// Jobs that are over are shown at least so long.
const MIN_JOB_AGE_S: u32 = 300;

pub(super) async fn show(context: &Context, words: &[&str], is_line: bool) -> Result<u8, CommandError> {
    match words {
        ["hostnames" | "hostname", rest @ ..] => {
            let own = std::env::var("SLURM_JOB_NODELIST").unwrap_or_default();
            let list = rest.first().map_or(own, |list| (*list).to_owned());
            context.print(&hostlist::expand(&list)?)?;
            Ok(0)
        }
        ["hostlist" | "hostlistsorted", list] => {
            let names = hostlist::expand(list)?;
            context.print(&[hostlist::compress(&names)])?;
            Ok(0)
        }
        ["config" | "conf" | "configuration", ..] => show_config(context).await,
        ["step" | "steps", rest @ ..] => show_steps(context, rest.first().copied(), is_line).await,
        ["reservation" | "reservations" | "res", rest @ ..] => {
            show_reservations(context, rest.first().copied(), is_line).await
        }
        ["job" | "jobs", rest @ ..] => show_jobs(context, rest.first().copied(), is_line).await,
        ["node" | "nodes", rest @ ..] => show_nodes(context, rest.first().copied(), is_line).await,
        ["partition" | "partitions", rest @ ..] => {
            show_partitions(context, rest.first().copied(), is_line).await
        }
        _ => Err(CommandError::failed(format!("invalid entity:{} for keyword:show", words.join(" ")))),
    }
}

fn record(lines: Vec<String>, is_line: bool) -> Vec<String> {
    if is_line {
        return vec![lines.join(" ")];
    }
    let mut record: Vec<String> = Vec::new();
    for (index, line) in lines.into_iter().enumerate() {
        record.push(if index == 0 { line } else { format!("   {line}") });
    }
    record.push(String::new());
    record
}

async fn show_jobs(context: &Context, id: Option<&str>, is_line: bool) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let jobs = match id {
        Some(id) => find(client, id).await?,
        None => client.list_jobs(ListJobsRequest { live_only: true, ..ListJobsRequest::default() }).await?,
    };
    let mut rows = view::rows(&jobs, &client.list_nodes().await?, true);
    rows.sort_by_key(|row| (row.array, row.job));
    for row in &mut rows {
        let detail = client.get_job(row.job).await?;
        let (spec, summary) = (detail.spec.unwrap_or_default(), detail.summary.unwrap_or_default());
        view::complete(row, &spec);
        context.print(&record(job_lines(row, &spec, &summary, &detail.steps), is_line))?;
    }
    Ok(0)
}

fn job_lines(
    row: &Job,
    spec: &wharf_proto::JobSpec,
    summary: &JobSummary,
    steps: &[StepSummary],
) -> Vec<String> {
    let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
    let batch = spec.batch.clone().unwrap_or_default();
    let array = match &row.index {
        Some(index) => format!(" ArrayJobId={} ArrayTaskId={index}", row.array),
        None => String::new(),
    };
    let tasks = if batch.tasks == 0 { row.cpus } else { batch.tasks };
    let names = Names {
        job: row.job,
        array: summary.array_index.map(|index| (summary.array_job, index)),
        node: summary.placement.first().map_or("", |share| share.node.as_str()),
        name: &row.name,
        user: &row.user,
        task: None,
    };
    let file = |pattern: &str, other: &str| or(&names.expand(pattern), other);
    let std_out = file(&spec.output, "/dev/null");
    vec![
        format!("JobId={}{array} JobName={}", row.job, row.name),
        owner(&row.user),
        format!(
            "Priority={} Nice={} Account={} QOS={}",
            row.priority,
            -row.priority.min(0),
            or(&row.account, "(null)"),
            or(spec.env.get("WHARF_QOS").map_or("normal", String::as_str), "normal")
        ),
        format!(
            "JobState={} Reason={} Dependency={}",
            row.state.names().1,
            row.reason,
            or(&row.dependency, "(null)")
        ),
        format!(
            "Requeue={} Restarts={} BatchFlag={} Reboot=0 ExitCode={}",
            u8::from(!batch.no_requeue),
            summary.restarts,
            u8::from(spec.batch.is_some()),
            row.exit
        ),
        format!("DerivedExitCode={}", step_rows::derived(steps)),
        format!("RunTime={} TimeLimit={} TimeMin=N/A", crate::grammar::limit::Full(row.used_s), row.limit),
        format!("SubmitTime={} EligibleTime={}", or(&row.times[0], "Unknown"), or(&row.times[0], "Unknown")),
        format!(
            "StartTime={} EndTime={} Deadline=N/A",
            or(&row.times[1], "Unknown"),
            or(&row.times[2], "Unknown")
        ),
        format!("Partition={}", row.partition),
        format!(
            "NodeList={} BatchHost={}",
            or(&row.nodelist, "(null)"),
            summary.placement.first().map_or("(null)", |share| share.node.as_str())
        ),
        format!(
            "NumNodes={} NumCPUs={} NumTasks={tasks} CPUs/Task={}",
            row.nodes,
            row.cpus,
            batch.cpus_per_task.max(1)
        ),
        format!(
            "Features={} Reservation={}",
            or(spec.env.get("WHARF_CONSTRAINT").map_or("", String::as_str), "(null)"),
            or(&spec.reservation, "(null)")
        ),
        format!("TresPerNode={}", or(&row.gres, "(null)")),
        format!("Comment={}", or(spec.env.get("WHARF_COMMENT").map_or("", String::as_str), "(null)")),
        format!("Command={}", or(&row.command, "(null)")),
        format!("WorkDir={}", or(&row.workdir, "(null)")),
        format!("StdErr={}", file(&spec.error_output, &std_out)),
        format!("StdIn={}", file(&batch.input, "/dev/null")),
        format!("StdOut={std_out}"),
    ]
}

async fn show_nodes(context: &Context, list: Option<&str>, is_line: bool) -> Result<u8, CommandError> {
    let names = list.map(hostlist::expand).transpose()?;
    let client = &context.connect().await?;
    let mut nodes = client.list_nodes().await?;
    nodes.retain(view::is_there);
    let mut is_found = false;
    for node in nodes.iter().filter(|node| names.as_ref().is_none_or(|names| names.contains(&node.name))) {
        is_found = true;
        let shown = view::node(node);
        let features = if shown.features.is_empty() { "(null)" } else { &shown.features };
        let gres = if shown.gres.is_empty() { "(null)" } else { &shown.gres };
        let mut lines = vec![
            format!("NodeName={} CPUAlloc={} CPUTot={}", shown.name, shown.cpus.1, shown.cpus.0),
            format!("AvailableFeatures={features} ActiveFeatures={features}"),
            format!("Gres={gres}"),
            format!("NodeAddr={} NodeHostName={} Version=wharf-{}", shown.address, shown.name, node.version),
            format!(
                "RealMemory={} State={} Partitions={}",
                shown.memory_mib,
                shown.state.names().1.to_uppercase(),
                shown.partition
            ),
        ];
        if !shown.reason.is_empty() {
            lines.push(format!("Reason={}", shown.reason));
        }
        context.print(&record(lines, is_line))?;
    }
    if !is_found {
        return Err(CommandError::failed(format!("Node {} not found", list.unwrap_or_default())));
    }
    Ok(0)
}

/// `UserId=ann(1000) GroupId=vision(1000)`; a user that this machine does not know has no numbers.
fn owner(user: &str) -> String {
    let Some(known) = nix::unistd::User::from_name(user).ok().flatten() else {
        return format!("UserId={user} GroupId=N/A");
    };
    let group = nix::unistd::Group::from_gid(known.gid).ok().flatten();
    let group = group.map_or_else(|| "N/A".to_owned(), |group| group.name);
    format!("UserId={user}({}) GroupId={group}({})", known.uid, known.gid)
}

async fn show_partitions(context: &Context, wanted: Option<&str>, is_line: bool) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let nodes: Vec<_> =
        client.list_nodes().await?.iter().filter(|node| view::is_there(node)).map(view::node).collect();
    let pools = super::super::sacctmgr::document(client).await?;
    let mut names: Vec<&str> = nodes.iter().map(|node| node.partition.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| wanted.is_none_or(|wanted| wanted == *name));
    if let Some(unknown) = wanted.filter(|_| names.is_empty()) {
        return Err(CommandError::failed(format!("Partition {unknown} not found")));
    }
    for name in names {
        let own: Vec<_> = nodes.iter().filter(|node| node.partition == name).collect();
        let hosts: Vec<&str> = own.iter().map(|node| node.name.as_str()).collect();
        let cpus: u32 = own.iter().map(|node| node.cpus.0).sum();
        let memory_mib: u64 = own.iter().map(|node| node.memory_mib).sum();
        let limit = |key: &str| {
            pools
                .pool_time(name, key)
                .and_then(|text| parse_seconds(&text))
                .map(|seconds| Full(seconds as u64).to_string())
        };
        let default = if name == PARTITION { "YES" } else { "NO" };
        let lines = vec![
            format!("PartitionName={name}"),
            "AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL".to_owned(),
            format!("AllocNodes=ALL Default={default} QoS=N/A"),
            format!(
                "DefaultTime={} DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO",
                limit("time_limit_default").unwrap_or_else(|| "NONE".to_owned())
            ),
            format!(
                "MaxNodes=UNLIMITED MaxTime={} MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED",
                limit("time_limit_max").unwrap_or_else(|| "UNLIMITED".to_owned())
            ),
            format!("Nodes={}", hostlist::compress(&hosts)),
            "PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO".to_owned(),
            "OverTimeLimit=NONE PreemptMode=OFF".to_owned(),
            format!("State=UP TotalCPUs={cpus} TotalNodes={} SelectTypeParameters=NONE", own.len()),
            "JobDefaults=(null)".to_owned(),
            "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED".to_owned(),
            format!("TRES=cpu={cpus},mem={memory_mib}M,node={},billing={cpus}", own.len()),
        ];
        context.print(&record(lines, is_line))?;
    }
    Ok(0)
}

/// What is configured, as far as Slurm has a name for it.
async fn show_config(context: &Context) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let info = client.info().await?;
    let pairs = [
        ("AccountingStorageType", "accounting_storage/wharf".to_owned()),
        ("ClusterName", CLUSTER.to_owned()),
        ("EnforcePartLimits", "ALL".to_owned()),
        ("FirstJobId", "0".to_owned()),
        ("GresTypes", "gpu".to_owned()),
        ("JobRequeue", "1".to_owned()),
        ("KillWait", format!("{KILL_WAIT_S:.0} sec")),
        ("MaxArraySize", ARRAY_SIZE_MAX.to_string()),
        ("MinJobAge", format!("{MIN_JOB_AGE_S} sec")),
        ("MpiDefault", "none".to_owned()),
        ("SchedulerParameters", format!("policy={}", info.policy)),
        ("SchedulerType", "sched/wharf".to_owned()),
        ("SelectType", "select/wharf".to_owned()),
        ("SlurmctldHost[0]", "wharf".to_owned()),
        ("SLURM_VERSION", format!("22.05.8 (wharf {})", info.version)),
    ];
    let mut lines = vec![format!("Configuration data as of {}", view::moment(view::now_s()))];
    lines.extend(pairs.map(|(name, value)| format!("{name:<23} = {value}")));
    lines.extend([String::new(), "Slurmctld(primary) at wharf is UP".to_owned()]);
    context.print(&lines)?;
    Ok(0)
}

/// Scripts and steps that run: of all jobs, of one, or one of them (`12.0`).
async fn show_steps(context: &Context, id: Option<&str>, is_line: bool) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let jobs = match id.map(|id| id.split('.').next().unwrap_or(id)) {
        Some(job) => find(client, job).await?,
        None => client.list_jobs(ListJobsRequest { live_only: true, ..ListJobsRequest::default() }).await?,
    };
    let mut is_found = false;
    for job in view::rows(&jobs, &client.list_nodes().await?, true) {
        if job.state != State::Running {
            continue;
        }
        let detail = client.get_job(job.job).await?;
        let steps = step_rows::rows(&job, &detail, &detail.spec.clone().unwrap_or_default());
        let is_wanted = |step: &&step_rows::StepRow| {
            step.job.state == State::Running && id.is_none_or(|id| !id.contains('.') || id == step.job.id)
        };
        for step in steps.iter().filter(is_wanted) {
            is_found = true;
            let row = &step.job;
            let lines = vec![
                format!(
                    "StepId={} UserId={} StartTime={} TimeLimit=UNLIMITED",
                    row.id, job.user, row.times[1]
                ),
                format!("State=RUNNING Partition={} NodeList={}", job.partition, row.nodelist),
                format!(
                    "Nodes={} CPUs={} Tasks={} Name={} Network=(null)",
                    row.nodes, row.cpus, step.tasks, row.name
                ),
            ];
            context.print(&record(lines, is_line))?;
        }
    }
    match (is_found, id) {
        (false, Some(id)) => Err(CommandError::failed(format!("Job step {id} not found"))),
        (false, None) => {
            context.print(&["No job steps in the system".to_owned()])?;
            Ok(0)
        }
        (true, _) => Ok(0),
    }
}

async fn show_reservations(context: &Context, name: Option<&str>, is_line: bool) -> Result<u8, CommandError> {
    let client = &context.connect().await?;
    let limits = client.limits("").await?;
    let document = LimitsDocument::parse(&limits.text)?;
    let mut all = document.reservations();
    all.retain(|one| name.is_none_or(|name| name == one.name));
    if all.is_empty() {
        if let Some(name) = name {
            return Err(CommandError::failed(format!("Reservation {name} not found")));
        }
        context.print(&["No reservations in the system".to_owned()])?;
    }
    let at = |text: &str| match text.strip_prefix('+') {
        Some(after) => parse_seconds(after.trim()).map(|seconds| limits.applied_s + seconds),
        None => text.parse::<jiff::Timestamp>().ok().map(|at| at.as_duration().as_secs_f64()),
    };
    for one in all {
        let (start_s, end_s) = (at(&one.start).unwrap_or_default(), at(&one.end).unwrap_or_default());
        let nodes = if one.nodes.is_empty() { "(null)".to_owned() } else { hostlist::compress(&one.nodes) };
        let users = if one.users.is_empty() { "(null)".to_owned() } else { one.users.join(",") };
        let accounts = if one.groups.is_empty() { "(null)".to_owned() } else { one.groups.join(",") };
        let flags =
            if one.users.is_empty() && one.groups.is_empty() { "MAINT,SPEC_NODES" } else { "SPEC_NODES" };
        let is_active = (start_s..end_s).contains(&view::now_s());
        let lines = vec![
            format!(
                "ReservationName={} StartTime={} EndTime={} Duration={}",
                one.name,
                view::moment(start_s),
                view::moment(end_s),
                Full((end_s - start_s).max(0.0) as u64)
            ),
            format!(
                "Nodes={nodes} NodeCnt={} Features=(null) PartitionName={} Flags={flags}",
                one.count,
                one.pool.as_deref().unwrap_or("(null)")
            ),
            format!(
                "Users={users} Groups=(null) Accounts={accounts} Licenses=(null) State={}",
                if is_active { "ACTIVE" } else { "INACTIVE" }
            ),
        ];
        context.print(&record(lines, is_line))?;
    }
    Ok(0)
}
