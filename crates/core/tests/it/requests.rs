//! The engine with requests for more than devices, against an outside that answers late: what runs, and what still leaves, never has
//! more of a machine than there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use wharf_core::{
    Amounts, Cadence, Change, ClusterSpec, Command, Decision, Effect, Engine, Gang, JobId, JobSpec,
    Knowledge, Needs, NodeDetails, NodeId, NodeShare, NodeSpec, PerfModel, Phase, Policy, Reason, Regime,
    Request, State, StopReason, Time, Topology, View, audit,
};

struct Told;

impl PerfModel for Told {
    fn iteration_s(&self, _: &Topology, job: &JobSpec, _: &[NodeShare], _: &[&JobSpec]) -> f64 {
        job.iteration_ms / 1000.0
    }

    fn restart_s(&self, _: &JobSpec) -> f64 {
        0.0
    }
}

/// Starts whatever fits on one node; every third decision preempts the job with the largest id first.
#[derive(Default)]
struct Restless {
    calls: u32,
}

fn placement(state: &View<'_>, gang: &Gang) -> Option<Vec<NodeShare>> {
    let (topology, schedule) = (state.topology(), state.schedule());
    if !schedule.has_licences(topology, gang) {
        return None;
    }
    let mut rest = (**schedule).clone();
    let mut all = Vec::new();
    for (index, group) in (0..).zip(gang.groups()) {
        let plain = Needs::default();
        let needs = group.needs.as_deref().unwrap_or(&plain);
        let fits = |&node: &NodeId| {
            let is_type = !group.has_devices() || group.allows(&topology.node(node).spec.device_type);
            is_type && rest.room(topology, node, needs) >= group.size()
        };
        let node = (0..topology.nodes().len()).map(NodeId::from_index).find(fits)?;
        let share = NodeShare { group: index, ..rest.share(group, node, group.size()) };
        rest.take(gang, &[share]);
        all.push(share);
    }
    Some(all)
}

impl Policy for Restless {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn observe(&mut self, _: &View<'_>, _: Change) {}

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        self.calls += 1;
        let view = decision.view();
        let placed: Vec<JobId> =
            view.live_jobs().filter(|&job| view.schedule().placement(job).is_some()).collect();
        if let (true, Some(&last)) = (self.calls.is_multiple_of(3), placed.last()) {
            decision.stop(last, StopReason::Preempted);
        }
        let view = decision.view();
        let waiting: Vec<JobId> =
            view.live_jobs().filter(|&job| view.schedule().placement(job).is_none()).collect();
        for job in waiting {
            let view = decision.view();
            if let (Some(shares), None) = (placement(&view, &view.spec(job).gang), view.job(job).ending()) {
                decision.start(job, &shares);
            }
        }
    }

    fn explain(&self, _: &View<'_>, _: JobId) -> Reason {
        Reason::NotWaiting
    }
}

const CPUS: [u64; 2] = [8, 6];
const SCRATCH: u64 = 4;
const LICENCES: u64 = 2;

/// One machine with two device groups, and one without devices.
fn cluster() -> ClusterSpec {
    let node = |name: &str, device_type: &str, devices, cpus, details: Option<NodeDetails>| NodeSpec {
        name: name.into(),
        device_type: device_type.into(),
        devices,
        cpus,
        memory_gib: 1,
        switch: 0,
        pool: NodeSpec::no_pool(),
        details: details.map(Arc::new),
    };
    let resources = vec![("scratch".into(), SCRATCH)];
    let first = NodeDetails { resources, ..NodeDetails::default() };
    let further = NodeDetails { host: Some("m0".into()), ..NodeDetails::default() };
    let nodes = vec![
        node("m0", "a100", 2, 8, Some(first)),
        node("m0/t4", "t4", 2, 0, Some(further)),
        node("m1", "cpu", 0, 6, None),
    ];
    ClusterSpec { nodes, licences: vec![("matlab".into(), LICENCES)] }
}

fn gang(kind: u32) -> Gang {
    let with =
        |gang: Gang, request| Gang { needs: Some(Arc::new(Needs { request, ..Needs::default() })), ..gang };
    let tasks = |tasks, cpus| Request::tasks(tasks, Amounts::new(cpus, 100));
    match kind {
        0 => Gang::fixed(1),
        1 => with(Gang::fixed(0), tasks(2, 2)),
        2 => with(Gang::fixed(1), Request { device_milli: 400, ..Request::per_device(1, 0) }),
        3 => with(Gang::fixed(2), Request::per_device(3, 200)),
        4 => with(Gang::fixed(1), Request { is_exclusive: true, ..Request::default() }),
        5 => with(Gang::fixed(0), Request { licences: vec![("matlab".into(), 1)], ..tasks(1, 1) }),
        6 => {
            let task = Amounts { named: vec![("scratch".into(), 3)], ..Amounts::default() };
            with(Gang::fixed(1), Request { task, ..Request::default() })
        }
        _ => {
            let groups = vec![with(Gang::fixed(0), tasks(1, 5))];
            let needs = Needs { request: Request::per_device(1, 0), groups, ..Needs::default() };
            Gang { needs: Some(Arc::new(needs)), ..Gang::fixed(1) }
        }
    }
}

/// The processes that may be there: launched, and not known to have ended.
struct World {
    engine: Engine,
    effects: Vec<Effect>,
    processes: BTreeMap<JobId, (Gang, Vec<NodeShare>)>,
    now: f64,
}

impl World {
    fn new() -> Self {
        let regime = Regime {
            policy: Box::new(Restless::default()),
            perf: Box::new(Told),
            cadence: Cadence::Events,
            slots: 1,
            access: wharf_core::Access::default(),
        };
        let engine = Engine::new(&cluster(), regime);
        Self { engine, effects: Vec::new(), processes: BTreeMap::new(), now: 0.0 }
    }

    fn tell(&mut self, command: Command) {
        let now = Time::from_seconds(self.now);
        // Late answers are stale, and are ignored.
        let _ = self.engine.handle(now, command, &mut ());
        self.engine.settle(now, &mut ());
        let mut effects = Vec::new();
        self.engine.drain_effects(&mut effects);
        for effect in &effects {
            if let Effect::Launch { job, .. } = *effect {
                let state = self.engine.state();
                let shares =
                    state.schedule().placement(job).expect("it is launched where it is placed").to_vec();
                let before = self.processes.insert(job, (state.spec(job).gang.clone(), shares));
                assert!(before.is_none(), "{job} is launched while it still runs");
                self.check();
            }
        }
        self.effects.extend(effects);
        assert_eq!(audit::check_all(self.engine.state()), []);
        assert_eq!(self.engine.violations(), []);
    }

    fn check(&self) {
        let (mut cpu_milli, mut jobs) = ([0, 0], [0, 0]);
        let (mut scratch, mut licences) = (0, 0);
        let mut alone = [false, false];
        let mut devices: BTreeMap<(NodeId, u32), (u32, u32)> = BTreeMap::new();
        for (gang, shares) in self.processes.values() {
            licences += gang.needs.as_ref().map_or(0, |needs| needs.request.licences.len() as u64);
            for share in shares {
                let machine = usize::from(share.node.0 == 2);
                let group = gang.group(share.group).expect("its own");
                let plain = Request::default();
                let request = group.request().unwrap_or(&plain);
                let tasks = if request.devices == 0 { share.tasks } else { share.devices.len() };
                cpu_milli[machine] += u64::from(tasks) * request.task.cpu_milli;
                scratch += request.task.named.iter().map(|(_, count)| *count).sum::<u64>();
                jobs[machine] += 1;
                alone[machine] |= request.is_exclusive;
                for device in share.devices.iter() {
                    let (count, milli) = devices.entry((share.node, device)).or_default();
                    *count += 1;
                    *milli += request.part();
                }
            }
        }
        for machine in 0..2 {
            assert!(cpu_milli[machine] <= CPUS[machine] * 1000, "CPUs of machine {machine}: {cpu_milli:?}");
            assert!(
                !alone[machine] || jobs[machine] == 1,
                "jobs beside an exclusive one on machine {machine}"
            );
        }
        assert!(scratch <= SCRATCH && licences <= LICENCES, "{scratch} scratch, {licences} licences");
        assert!(devices.values().all(|(_, milli)| *milli <= 1000), "{devices:?}");
    }

    fn answer(&mut self, which: usize) {
        if self.effects.is_empty() {
            return;
        }
        let command = match self.effects.remove(which % self.effects.len()) {
            Effect::Launch { job, generation } => {
                Command::JobLaunched { job, generation, ready: Time::from_seconds(self.now) }
            }
            Effect::Stop { job, generation } => {
                self.processes.remove(&job);
                Command::JobStopped { job, generation, done: 0.0 }
            }
        };
        self.tell(command);
    }

    fn exit(&mut self, which: usize) {
        let is_running = |state: &State, job: JobId| state.job(job).phase == Phase::Running;
        let running: Vec<JobId> = self.engine.state().jobs().map(|(job, ..)| job).collect();
        let running: Vec<JobId> =
            running.into_iter().filter(|&job| is_running(self.engine.state(), job)).collect();
        if let Some(&job) = running.get(which % running.len().max(1)) {
            self.processes.remove(&job);
            let generation = self.engine.state().job(job).generation;
            self.tell(Command::JobExited { job, generation, code: 0 });
        }
    }
}

proptest! {
    #[test]
    fn processes_never_have_more_of_a_machine_than_there_is(
        steps in prop::collection::vec((0..14u32, 0..8usize), 0..120),
    ) {
        let mut world = World::new();
        for (what, which) in steps {
            world.now += 1.0;
            let node = NodeId(which as u32 % 3);
            match what {
                0..=4 => {
                    let submit = Time::from_seconds(world.now);
                    let spec = JobSpec::new("job", submit, 1, 100.0, 1000.0);
                    world.tell(Command::SubmitJob(JobSpec { gang: gang(which as u32), ..spec }));
                }
                5..=8 => world.answer(which),
                9 | 10 => world.exit(which),
                11 => world.tell(Command::DrainNode(node)),
                12 => world.tell(Command::CancelJob(JobId(which as u32))),
                _ => world.tell(Command::OpenNode(node)),
            }
        }
        for node in 0..3 {
            world.tell(Command::OpenNode(NodeId(node)));
        }
        for _ in 0..10_000 {
            let counts = world.engine.state().counts();
            if counts.waiting + counts.placed + counts.stopping == 0 {
                break;
            }
            world.answer(0);
            if world.effects.is_empty() {
                world.exit(0);
            }
        }
        let counts = world.engine.state().counts();
        prop_assert_eq!(counts.waiting + counts.placed + counts.stopping, 0, "{:?}", counts);
        prop_assert_eq!(world.engine.state().schedule().accounts(), &wharf_core::Accounts::default());
        prop_assert_eq!(world.engine.state().leaving(), &wharf_core::Accounts::default());
    }
}
