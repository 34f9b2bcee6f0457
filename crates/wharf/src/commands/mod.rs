//! What each command does. Low arguments are resolved here: names looked up, files read.

mod cluster;
mod compare;
mod config;
mod demo;
mod explain;
mod help;
mod image;
mod install;
mod launch;
mod pace;
mod plan;
mod policies;
mod presets;
mod profile;
mod python_sdk;
mod ray;
mod replay;
mod sim;
mod size;
pub(crate) mod slurm;
mod step;
mod sweep;
mod trace;

use crate::args::{Cli, Command};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::pages;

/// Does what the arguments say.
///
/// # Errors
/// Whatever the command fails with.
pub(crate) fn execute(cli: &Cli, terminal: &Terminal) -> Result<Exit, CliError> {
    match &cli.command {
        Command::Sim(args) => sim::execute(args, terminal),
        Command::Sweep(args) => sweep::execute(args, terminal),
        Command::Trace(command) => trace::execute(command, terminal),
        Command::Policies(args) => policies::list(args, terminal),
        Command::Policy(command) => policies::execute(command, terminal),
        Command::Limits(command) => cluster::limits(command, terminal),
        Command::Presets(args) => presets::execute(args, terminal),
        Command::Profile(command) => profile::execute(command, terminal),
        Command::Plan(args) => plan::execute(args, terminal),
        Command::Image(command) => image::execute(command, terminal),
        Command::Demo(args) => demo::execute(args, terminal),
        Command::Replay(args) => replay::execute(args, terminal),
        Command::Run(args) => cluster::run(args, terminal),
        Command::Local(args) => cluster::local(args, terminal),
        Command::Up(args) => launch::up(args, terminal),
        Command::Down(args) => launch::down(args, terminal),
        Command::Attach(args) => launch::attach(args, terminal),
        Command::RsyncUp(args) => launch::rsync_up(args, terminal),
        Command::RsyncDown(args) => launch::rsync_down(args, terminal),
        Command::GetHeadIp(args) => launch::get_head_ip(args, terminal),
        Command::GetWorkerIps(args) => launch::get_worker_ips(args, terminal),
        Command::Cluster(command) => launch::cluster(command, terminal),
        Command::Head(args) => cluster::head(args, terminal),
        Command::Worker(args) => cluster::worker(args, terminal),
        Command::Pilot(command) => cluster::pilot(command, terminal),
        Command::Supervisor(args) => cluster::supervisor(args),
        Command::ExecSession(args) => Ok(cluster::exec_session(args)),
        Command::Batch(args) => Ok(slurm::batch(args)),
        Command::MpiAgent(args) => slurm::mpi_agent(args),
        Command::Pace(args) => pace::execute(args),
        Command::Tune(command) => cluster::tune(command, terminal),
        Command::Ray(command) => ray::execute(command, terminal),
        Command::RayNode(args) => Ok(Exit::Passed(wharf_worker::ray_main(&args.plan, &args.command))),
        Command::Exec(args) => cluster::exec(args),
        Command::Cp(args) => cluster::cp(args),
        Command::Submit(args) => cluster::submit(args, terminal),
        Command::Jobs(args) => cluster::jobs(args, terminal),
        Command::Job(args) => cluster::job(args, terminal),
        Command::Explain(args) => match &args.run {
            Some(folder) => explain::recorded(folder, &args.job, terminal),
            None => cluster::explain(args, terminal),
        },
        Command::WhatIf(args) => cluster::whatif(args, terminal),
        Command::History(args) => cluster::history(args, terminal),
        Command::Size(args) => size::execute(args, terminal),
        Command::Logs(args) => cluster::logs(args, terminal),
        Command::Metrics(args) => cluster::metrics(args, terminal),
        Command::Cancel(args) => cluster::cancel(args, terminal),
        Command::Hold(args) => cluster::hold(args, terminal),
        Command::Release(args) => cluster::release(args, terminal),
        Command::Requeue(args) => cluster::requeue(args, terminal),
        Command::Priority(args) => cluster::priority(args, terminal),
        Command::Nodes(args) => cluster::nodes(args, terminal),
        Command::Token(command) => cluster::token(command, terminal),
        Command::Audit(args) => cluster::audit(args, terminal),
        Command::Node(args) => cluster::node(args, terminal),
        Command::Top(args) => cluster::top(args, terminal),
        Command::Usage(args) => cluster::usage(args, terminal),
        Command::Report(args) if args.runs.is_empty() => cluster::report(args, terminal),
        Command::Report(args) => compare::report(args, terminal),
        Command::Compare(args) => compare::execute(args, terminal),
        Command::Step(args) => step::execute(args, terminal),
        Command::PythonSdk(command) => python_sdk::execute(command, terminal),
        Command::Sbatch(args) => slurm::execute("sbatch", args),
        Command::Squeue(args) => slurm::execute("squeue", args),
        Command::Scancel(args) => slurm::execute("scancel", args),
        Command::Sinfo(args) => slurm::execute("sinfo", args),
        Command::Scontrol(args) => slurm::execute("scontrol", args),
        Command::Sacct(args) => slurm::execute("sacct", args),
        Command::Salloc(args) => slurm::execute("salloc", args),
        Command::Srun(args) => slurm::execute("srun", args),
        Command::Sacctmgr(args) => slurm::execute("sacctmgr", args),
        Command::Sshare(args) => slurm::execute("sshare", args),
        Command::Sprio(args) => slurm::execute("sprio", args),
        Command::Sdiag(args) => slurm::execute("sdiag", args),
        Command::SlurmShims(args) => slurm::shims(args, terminal),
        Command::Config(command) => config::execute(command, cli.global.config.as_deref(), terminal),
        Command::Install(command) => install::install(command, terminal),
        Command::Uninstall(args) => install::uninstall(args, terminal),
        Command::Man(args) => help::man(&args.command, terminal),
        Command::Completions(args) => {
            terminal.data(&String::from_utf8_lossy(&pages::completions(args.shell)))?;
            Ok(Exit::Ok)
        }
        Command::Help(args) => help::execute(&args.topic, terminal),
    }
}
