//! Generated requests of ordinary users against a dispatcher under every policy: nothing panics, caps hold, memory stays bounded.
//!
//! `WHARF_FUZZ_REQUESTS` sets how many, over all policies; `.ci/full` makes 1,000,000 in a release build. The table that is
//! printed has the CPU time of the dispatcher's thread per request, without the policy and without snapshots.

mod generate;

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use wharf_core::{
    Change, ClusterSpec, Decision, JobId, Knowledge, Policy, Reason, Regime, RoundNotes, Time, View,
};
use wharf_proto::{JobSpec, Role};

use self::generate::{Request, Source};
use super::virtual_cluster::{VirtualCluster, regime};
use crate::auth::{Identity, Scope};
use crate::dispatcher::Input;
use crate::jobs::amendments;
use crate::nodes::deregistration;
use crate::query::listing::{Page, to_explain};
use crate::query::views;
use crate::tasks::output_readers;

/// Requests where nothing else is wanted: enough to reach every kind of request under every policy.
const REQUESTS: u32 = 20_000;

/// Resident memory that this process may have at any time.
const MEMORY_MIB: u64 = 4096;

/// Limits that let the policy see some jobs of each user, and a pool for one of them.
const LIMITS: &str =
    "default_pool = \"main\"\n[default.user]\njobs = 40\n[pool.main]\n[pool.paid]\nusers = [\"ann\"]\n";

thread_local! {
    /// Nanoseconds that the policy has had.
    static POLICY_NS: Cell<u64> = const { Cell::new(0) };
}

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

fn of_policy<T>(run: impl FnOnce() -> T) -> T {
    let began = cpu_ns();
    let result = run();
    POLICY_NS.set(POLICY_NS.get() + cpu_ns() - began);
    result
}

/// A policy whose time is counted apart.
struct Timed(Box<dyn Policy>);

impl Policy for Timed {
    fn knowledge(&self) -> Knowledge {
        self.0.knowledge()
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        of_policy(|| self.0.observe(view, change));
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        of_policy(|| self.0.schedule(decision));
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> Reason {
        of_policy(|| self.0.explain(view, job))
    }

    fn rounds(&mut self) -> Option<RoundNotes> {
        self.0.rounds()
    }

    fn wake(&self) -> Option<Time> {
        self.0.wake()
    }
}

fn identity(user: &str) -> Identity {
    Identity {
        role: Role::User,
        user: user.into(),
        node: None,
        is_certified: false,
        may_replace: false,
        scope: Scope::of(Role::User, None),
        id: String::new(),
        key: None,
        address: None,
        task: None,
    }
}

/// Does what the service does before it hands a request to the dispatcher.
fn admit(asker: &Identity, specs: &mut [JobSpec], most: i32) -> bool {
    specs.iter_mut().all(|spec| {
        asker.claim(spec).is_ok() && wharf_job::check::check(spec).is_ok() && spec.priority <= most
    })
}

fn ask(world: &mut VirtualCluster, question: impl FnOnce(&crate::dispatcher::Dispatcher) + Send + 'static) {
    world.step([Input::Ask(Box::new(question))]);
}

/// Makes one request. Returns whether the dispatcher had to deal with it.
fn make(world: &mut VirtualCluster, asker: &Identity, request: Request) -> bool {
    let caps = world.dispatcher.jobs.caps;
    let known = world.dispatcher.engine.state().next_job().0;
    match request {
        Request::Submit(mut specs) => {
            if !admit(asker, &mut specs, caps.user_priority) {
                return false;
            }
            // Refused or not, it is answered.
            let _ = world.try_submit(specs);
        }
        Request::Change(request) if amendments::check_change(&request).is_err() => return false,
        Request::Change(mut request) => {
            if request.filter.is_some() {
                let (reply, mut replied) = tokio::sync::oneshot::channel();
                let owner = Some(asker.user.clone());
                world.step([Input::ChangeMatching { request, owner, by: asker.user.clone(), reply }]);
                replied.try_recv().unwrap();
            } else {
                let theirs = |job: &u32| {
                    *job < known
                        && views::owner(&world.dispatcher, JobId(*job))
                            .is_some_and(|owner| owner == asker.user)
                };
                request.job_ids.retain(theirs);
                let (reply, mut replied) = tokio::sync::oneshot::channel();
                world.step([Input::Change { request, is_user: true, by: asker.user.clone(), reply }]);
                replied.try_recv().unwrap();
            }
        }
        Request::List(request) => ask(world, move |dispatcher| {
            let most = request.explain_max;
            let mut page = Page::new(request);
            while !page.step(dispatcher) {}
            for index in to_explain(&page.jobs, most) {
                views::explain(dispatcher, JobId(page.jobs[index].job_id));
            }
        }),
        Request::Show(job) | Request::Explain(job) | Request::Wait(job) if job >= known => return false,
        Request::Show(job) => {
            ask(world, move |dispatcher| drop(views::detail(dispatcher, JobId(job)).unwrap()))
        }
        Request::Explain(job) => ask(world, move |dispatcher| drop(views::explain(dispatcher, JobId(job)))),
        Request::Wait(job) => {
            let (reply, _) = tokio::sync::oneshot::channel();
            world.step([Input::Wait { job: JobId(job), reply }]);
        }
        Request::Output { job, rank } => {
            let (pipe, _, _) = output_readers::pipe();
            world.step([Input::ReadOutput { job: JobId(job), rank, generation: 0, follow: false, pipe }]);
        }
        Request::Limits => ask(world, |dispatcher| drop(dispatcher.limits("ann"))),
        Request::Demand => ask(world, |dispatcher| drop(deregistration::demands(dispatcher))),
    }
    true
}

/// Lets some time pass, in which running jobs end.
fn work(world: &mut VirtualCluster, source: &mut Source) {
    world.set_time(world.now().plus(f64::from(source.below(30))));
    world.step([]);
    let running: Vec<JobId> = world.running_jobs().take(8).collect();
    for job in running {
        if source.one_in(2) && world.runs(job) {
            let ends = world.exit(job, source.pick(&[0, 1, 137]));
            world.step(ends);
        }
    }
}

/// What the caps promise.
fn check_caps(world: &VirtualCluster, policy: &str) {
    let caps = world.dispatcher.jobs.caps;
    for user in ["ann", "bob"] {
        assert!(world.dispatcher.jobs.live_of(user).len() <= caps.user_jobs as usize, "{policy}: {user}");
        assert!(world.dispatcher.jobs.edges_of(user) <= u64::from(caps.user_jobs), "{policy}: {user}");
    }
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let resident_kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(resident_kib / 1024 <= MEMORY_MIB, "{policy}: {} MiB resident", resident_kib / 1024);
}

/// A folder where writes need no disk.
fn folder() -> tempfile::TempDir {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { tempfile::tempdir_in(shared).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn cluster() -> ClusterSpec {
    let mut cluster = ClusterSpec::uniform("v100", 3, 4);
    let mut more = ClusterSpec::uniform("a40", 2, 8);
    more.nodes[0].pool = "paid".into();
    cluster.nodes.extend(more.nodes);
    cluster
}

/// CPU time of each request in nanoseconds.
fn run(policy: &str, requests: u32, seed: u64) -> Vec<u64> {
    let folder = folder();
    let name = policy.to_owned();
    let timed = move || {
        let inner = regime(&name, 0);
        Regime { policy: Box::new(Timed(inner.policy)), ..inner }
    };
    let mut world = VirtualCluster::new(&folder.path().join("journal.sqlite"), &cluster(), timed());
    world.dispatcher.policy.make = Arc::new(move |_| Ok(timed()));
    world.dispatcher.set_limits(LIMITS.into(), "admin").unwrap();
    let mut source = Source::new(seed);
    let mut times = Vec::new();
    while times.len() < requests as usize {
        let asker = identity(source.pick(&["ann", "bob"]));
        let known = world.dispatcher.engine.state().next_job().0;
        let request = generate::request(&mut source, known);
        let unsaved = world.dispatcher.log.journal.since_snapshot();
        let (began, policy_before) = (cpu_ns(), POLICY_NS.get());
        make(&mut world, &asker, request);
        let own = (cpu_ns() - began).saturating_sub(POLICY_NS.get() - policy_before);
        if world.dispatcher.log.journal.since_snapshot() >= unsaved {
            times.push(own);
        }
        if times.len() % 16 == 0 {
            work(&mut world, &mut source);
        }
        if times.len() % 4096 == 0 {
            check_caps(&world, policy);
        }
    }
    check_caps(&world, policy);
    times
}

#[test]
fn generated_requests_neither_panic_nor_exceed_caps() {
    let wanted = std::env::var("WHARF_FUZZ_REQUESTS").ok().map(|text| text.parse().unwrap());
    let seed = std::env::var("WHARF_FUZZ_SEED").ok().map_or(1, |text| text.parse().unwrap());
    let policies: Vec<&str> = wharf_reproduce::policies().map(|info| info.name).collect();
    let each = wanted.unwrap_or(REQUESTS).div_ceil(policies.len() as u32);
    let mut all = Vec::new();
    for policy in policies {
        let mut times = run(policy, each, seed);
        report(policy, &mut times);
        all.extend(times);
    }
    report("all", &mut all);
}

#[expect(clippy::print_stdout, reason = "the figures of a benchmark")]
fn report(policy: &str, times: &mut [u64]) {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1e6;
    println!(
        "{policy:24} {:9} requests, CPU ms per request: p50 {:.3} p99 {:.3} p99.99 {:.3} max {:.3}",
        times.len(),
        at(0.5),
        at(0.99),
        at(0.9999),
        at(1.0)
    );
}
