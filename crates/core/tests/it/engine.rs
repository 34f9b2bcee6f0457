//! The engine against an outside that is slow, out of order and loses nodes.

use proptest::prelude::*;
use wharf_core::{
    Cadence, Change, ClusterSpec, Command, Decision, Detail, Effect, Engine, Event, Ignored, JobEnd, JobId,
    JobSpec, Knowledge, Log, NodeId, NodeShare, NodeSpec, PerfModel, Phase, PhaseCounts, Policy, Reason,
    Regime, State, StopReason, Time, Topology, View, audit,
};

/// How many jobs are where, by looking at each of them.
fn counted(state: &State) -> PhaseCounts {
    let count =
        |is_so: fn(Phase) -> bool| state.jobs().filter(|(_, _, life)| is_so(life.phase)).count() as u32;
    PhaseCounts {
        waiting: count(|phase| phase == Phase::Waiting),
        held: count(|phase| phase == Phase::Held),
        placed: count(|phase| matches!(phase, Phase::Placed | Phase::Running)),
        running: count(|phase| phase == Phase::Running),
        stopping: count(|phase| phase == Phase::Stopping),
        ended: count(|phase| matches!(phase, Phase::Ended(_))),
        failed: count(|phase| matches!(phase, Phase::Ended(JobEnd::Failed { .. } | JobEnd::Rejected))),
        cancelled: count(|phase| phase == Phase::Ended(JobEnd::Cancelled)),
        timed_out: count(|phase| phase == Phase::Ended(JobEnd::TimedOut)),
    }
}

/// Every job runs at the speed it was told, and starts at once.
struct Told;

impl PerfModel for Told {
    fn iteration_s(&self, _: &Topology, job: &JobSpec, _: &[NodeShare], neighbours: &[&JobSpec]) -> f64 {
        job.iteration_ms / 1000.0 * (1 + neighbours.len()) as f64
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
            let needed = view.spec(job).gang.devices;
            let nodes = (0..view.topology().nodes().len()).map(NodeId::from_index);
            let node = nodes.into_iter().find(|&node| view.schedule().free(node).len() >= needed);
            if let (Some(node), false) = (node, view.job(job).ending().is_some()) {
                let devices = view.schedule().free(node).lowest(needed);
                decision.start(job, &[NodeShare::new(node, devices)]);
            }
        }
    }

    fn explain(&self, _: &View<'_>, _: JobId) -> Reason {
        Reason::NotWaiting
    }
}

/// What a journal would keep.
#[derive(Default)]
struct Journal(Vec<(Time, Event, Kept)>);

enum Kept {
    Nothing,
    Spec(JobSpec),
    Placement(Vec<NodeShare>),
    Node(NodeSpec),
    Array(JobSpec, Vec<u32>),
}

impl Log for Journal {
    fn event(&mut self, time: Time, event: &Event, state: &State) {
        let kept = match *event {
            Event::JobSubmitted { job } => Kept::Spec(state.spec(job).clone()),
            Event::JobPlaced { job, .. } => {
                Kept::Placement(state.schedule().placement(job).expect("just placed").to_vec())
            }
            Event::ArraySubmitted { first, count } => {
                let ids = first.0..first.0 + count;
                let index = |id| state.spec(JobId(id)).array.as_ref().expect("an element").index;
                Kept::Array(JobSpec { array: None, ..state.spec(first).clone() }, ids.map(index).collect())
            }
            Event::NodeJoined { node } => Kept::Node(state.topology().node(node).spec.clone()),
            _ => Kept::Nothing,
        };
        self.0.push((time, *event, kept));
    }
}

impl Journal {
    fn replay(&self, cluster: &ClusterSpec, slots: usize) -> State {
        let mut state = State::new(cluster, slots);
        for (time, event, kept) in &self.0 {
            let detail = match kept {
                Kept::Nothing => Detail::None,
                Kept::Spec(spec) => Detail::Spec(spec.clone()),
                Kept::Placement(shares) => Detail::Placement(shares),
                Kept::Array(spec, indexes) => Detail::Array(spec.clone(), indexes),
                Kept::Node(spec) => Detail::Node(spec.clone()),
            };
            state.apply(*time, event, detail);
        }
        state
    }
}

struct World {
    engine: Engine,
    journal: Journal,
    cluster: ClusterSpec,
    effects: Vec<Effect>,
    now: f64,
}

impl World {
    fn new(slots: usize) -> Self {
        let cluster = ClusterSpec::uniform("gpu", 3, 4);
        let engine = Engine::new(
            &cluster,
            Regime {
                policy: Box::new(Restless::default()),
                perf: Box::new(Told),
                cadence: Cadence::Events,
                slots,
                access: wharf_core::Access::default(),
            },
        );
        Self { engine, journal: Journal::default(), cluster, effects: vec![], now: 0.0 }
    }

    fn tell(&mut self, command: Command) -> Result<(), Ignored> {
        let now = Time::from_seconds(self.now);
        let result = self.engine.handle(now, command, &mut self.journal);
        self.engine.settle(now, &mut self.journal);
        self.engine.drain_effects(&mut self.effects);
        assert_eq!(audit::check_all(self.engine.state()), []);
        assert_eq!(self.engine.violations(), []);
        assert_eq!(self.engine.state().counts(), counted(self.engine.state()));
        result
    }

    /// Answers one of the orders that are under way, not necessarily the oldest.
    fn answer(&mut self, which: usize) {
        if self.effects.is_empty() {
            return;
        }
        let index = which % self.effects.len();
        let command = match self.effects.remove(index) {
            Effect::Launch { job, generation } => {
                Command::JobLaunched { job, generation, ready: Time::from_seconds(self.now) }
            }
            Effect::Stop { job, generation } => {
                let done = self.engine.state().job(job).done(Time::from_seconds(self.now));
                Command::JobStopped { job, generation, done }
            }
        };
        // A launch that was overtaken by a stop is stale, and reports this.
        let _ = self.tell(command);
    }

    fn running(&self) -> Vec<(JobId, u32)> {
        let jobs = self.engine.state().jobs();
        jobs.filter(|(_, _, life)| life.phase == Phase::Running)
            .map(|(job, _, life)| (job, life.generation))
            .collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Submit(u32),
    Answer(usize),
    Exit(usize),
    Lose(u32),
    Return(u32),
    Cancel(u32),
    Array(u32),
    Cordon(u32),
    Drain(u32),
    Open(u32),
    Break(u32, u32),
    Mend(u32, u32),
    Expire(u32),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop_oneof![Just(1u32), Just(2), Just(4)].prop_map(Step::Submit),
        5 => (0usize..8).prop_map(Step::Answer),
        2 => (0usize..8).prop_map(Step::Exit),
        1 => (0u32..3).prop_map(Step::Lose),
        1 => (0u32..3).prop_map(Step::Return),
        1 => (0u32..20).prop_map(Step::Cancel),
        1 => (1u32..4).prop_map(Step::Array),
        1 => (0u32..3).prop_map(Step::Cordon),
        1 => (0u32..3).prop_map(Step::Drain),
        1 => (0u32..3).prop_map(Step::Open),
        1 => (0u32..3, 0u32..4).prop_map(|(node, device)| Step::Break(node, device)),
        1 => (0u32..3, 0u32..4).prop_map(|(node, device)| Step::Mend(node, device)),
        1 => (0u32..20).prop_map(Step::Expire),
        2 => Just(Step::Wait),
    ]
}

impl World {
    fn step(&mut self, step: &Step) {
        self.now += 1.0;
        match *step {
            Step::Submit(devices) => {
                let submit = Time::from_seconds(self.now);
                self.tell(Command::SubmitJob(JobSpec::new("job", submit, devices, 100.0, 1000.0)))
                    .expect("new");
            }
            Step::Answer(which) => self.answer(which),
            Step::Exit(which) => {
                let running = self.running();
                if let Some(&(job, generation)) = running.get(which % running.len().max(1)) {
                    self.tell(Command::JobExited { job, generation, code: 0 }).expect("it runs");
                }
            }
            Step::Lose(node) => {
                if self.engine.state().schedule().is_there(NodeId(node)) {
                    self.tell(Command::LoseNode(NodeId(node))).expect("it exists");
                }
            }
            Step::Return(node) => {
                if !self.engine.state().schedule().is_there(NodeId(node)) {
                    self.tell(Command::ReturnNode(NodeId(node))).expect("it exists");
                }
            }
            Step::Cancel(job) => {
                let _ = self.tell(Command::CancelJob(JobId(job)));
            }
            Step::Array(count) => {
                let spec = JobSpec::new("array", Time::from_seconds(self.now), 1, 100.0, 1000.0);
                self.tell(Command::SubmitArray(spec, (0..count).collect())).expect("new");
            }
            Step::Cordon(node) => self.tell(Command::CordonNode(NodeId(node))).expect("it exists"),
            Step::Drain(node) => self.tell(Command::DrainNode(NodeId(node))).expect("it exists"),
            Step::Open(node) => self.tell(Command::OpenNode(NodeId(node))).expect("it exists"),
            Step::Break(node, device) => {
                self.tell(Command::LoseDevice(NodeId(node), device)).expect("it exists");
            }
            Step::Mend(node, device) => {
                self.tell(Command::ReturnDevice(NodeId(node), device)).expect("it exists");
            }
            Step::Expire(job) => {
                let _ = self.tell(Command::ExpireJob(JobId(job)));
            }
            Step::Wait => self.now += 10.0,
        }
    }

    /// Lets the outside catch up until every job has ended.
    fn finish(&mut self) {
        for node in 0..3 {
            self.step(&Step::Return(node));
            self.step(&Step::Open(node));
            (0..4).for_each(|device| self.step(&Step::Mend(node, device)));
        }
        for _ in 0..10_000 {
            let counts = self.engine.state().counts();
            if counts.waiting + counts.placed + counts.stopping == 0 {
                return;
            }
            self.step(&Step::Answer(0));
            if self.effects.is_empty() {
                self.step(&Step::Exit(0));
            }
        }
        panic!("jobs are left over: {:?}", self.engine.state().counts());
    }
}

/// The images of everything in a state make a state that cannot be distinguished from it.
fn assert_rebuilt(state: &State, slots: usize) {
    let nodes = || (0..state.topology().nodes().len()).map(NodeId::from_index);
    let images = state.jobs().map(|(job, _, _)| state.job_image(job));
    let rebuilt = State::from_images(slots, nodes().map(|node| state.node_image(node)), images);
    for (job, _, _) in state.jobs() {
        assert_eq!(rebuilt.job_image(job), state.job_image(job));
        assert_eq!(rebuilt.is_blocked(job), state.is_blocked(job));
    }
    for node in nodes() {
        assert_eq!(rebuilt.node_image(node), state.node_image(node));
        assert_eq!(rebuilt.schedule().free(node), state.schedule().free(node));
    }
    assert_eq!(rebuilt.counts(), state.counts());
    assert_eq!(audit::check_all(&rebuilt), []);
}

proptest! {
    /// No slot is given twice, whatever the outside does; every job ends; the journal alone rebuilds the state.
    #[test]
    fn any_outside_keeps_the_schedule_sound_and_the_journal_complete(
        slots in 1usize..4,
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut world = World::new(slots);
        for step in &steps {
            world.step(step);
        }
        prop_assert_eq!(&world.journal.replay(&world.cluster, slots), world.engine.state());
        assert_rebuilt(world.engine.state(), slots);
        world.finish();
        prop_assert_eq!(&world.journal.replay(&world.cluster, slots), world.engine.state());
        let submitted = steps.iter().map(|step| match step {
            Step::Submit(_) => 1,
            Step::Array(count) => *count,
            _ => 0,
        });
        prop_assert_eq!(world.engine.state().counts().ended, submitted.sum::<u32>());
    }
}

#[test]
fn placement_on_vacated_devices_launches_only_when_they_are_free() {
    let mut world = World::new(1);
    for _ in 0..3 {
        world.step(&Step::Submit(4));
    }
    while !world.effects.is_empty() {
        world.answer(0);
    }
    assert_eq!(world.running().len(), 3, "three nodes, three jobs");
    // The third decision after this preempts; what takes over has to wait for the one that leaves.
    while !world.effects.iter().any(|effect| matches!(effect, Effect::Stop { .. })) {
        world.step(&Step::Submit(4));
    }
    assert!(world.effects.iter().all(|effect| matches!(effect, Effect::Stop { .. })), "{:?}", world.effects);
    world.answer(0);
    assert!(matches!(world.effects[..], [Effect::Launch { .. }]), "{:?}", world.effects);
}

#[test]
fn stale_answers_are_refused() {
    let mut world = World::new(1);
    world.step(&Step::Submit(1));
    let ready = Time::from_seconds(world.now);
    let job = JobId(0);
    assert_eq!(world.tell(Command::JobLaunched { job, generation: 9, ready }), Err(Ignored::Stale));
    assert_eq!(
        world.tell(Command::JobExited { job, generation: 1, code: 0 }),
        Err(Ignored::Stale),
        "not launched"
    );
    assert_eq!(world.tell(Command::JobLaunched { job, generation: 1, ready }), Ok(()));
    assert_eq!(world.tell(Command::JobExited { job, generation: 1, code: 3 }), Ok(()));
    assert_eq!(world.engine.state().job(job).phase, Phase::Ended(JobEnd::Failed { code: 3 }));
    assert_eq!(world.tell(Command::CancelJob(job)), Err(Ignored::Stale));
    assert_eq!(world.tell(Command::CancelJob(JobId(7))), Err(Ignored::Unknown));
}

#[test]
fn cancelled_job_ends_only_when_its_processes_are_gone() {
    let mut world = World::new(1);
    world.step(&Step::Submit(4));
    world.answer(0);
    world.step(&Step::Cancel(0));
    assert_eq!(world.engine.state().job(JobId(0)).phase, Phase::Stopping);
    world.answer(0);
    assert_eq!(world.engine.state().job(JobId(0)).phase, Phase::Ended(JobEnd::Cancelled));
}

/// Follows events only: starts waiting jobs on the first node.
#[derive(Default)]
struct Faithful {
    waiting: std::collections::BTreeSet<JobId>,
}

impl Policy for Faithful {
    fn knowledge(&self) -> Knowledge {
        Knowledge::Attained
    }

    fn observe(&mut self, view: &View<'_>, change: Change) {
        match change {
            Change::Arrived(job) | Change::Waiting(job) | Change::Stopping(job)
                if view.schedule().placement(job).is_none() =>
            {
                self.waiting.insert(job);
            }
            Change::Placed(job) | Change::Ended(job) => {
                self.waiting.remove(&job);
            }
            _ => {}
        }
    }

    fn schedule(&mut self, decision: &mut Decision<'_>) {
        for job in std::mem::take(&mut self.waiting) {
            let needed = decision.view().spec(job).gang.devices;
            let devices = decision.view().schedule().free(NodeId(1)).lowest(needed);
            decision.start(job, &[NodeShare::new(NodeId(1), devices)]);
        }
    }

    fn explain(&self, _: &View<'_>, _: JobId) -> Reason {
        Reason::NotWaiting
    }
}

#[test]
fn cancelled_job_is_not_shown_to_a_new_policy() {
    let mut world = World::new(1);
    world.step(&Step::Submit(4));
    world.answer(0);
    world.step(&Step::Cancel(0));
    assert_eq!(world.engine.state().job(JobId(0)).phase, Phase::Stopping);
    let regime = Regime {
        policy: Box::new(Faithful::default()),
        perf: Box::new(Told),
        cadence: Cadence::Events,
        slots: 1,
        access: wharf_core::Access::default(),
    };
    world.engine.set_regime(Time::from_seconds(world.now), regime);
    // A decision of the new policy: a violation would be noticed here.
    world.step(&Step::Submit(2));
    assert_eq!(world.engine.state().job(JobId(1)).phase, Phase::Placed);
    world.answer(0);
    assert_eq!(world.engine.state().job(JobId(0)).phase, Phase::Ended(JobEnd::Cancelled));
}

#[test]
fn job_that_ends_while_it_is_moved_was_where_it_ran() {
    let mut world = World::new(1);
    let job = JobId(1);
    for _ in 0..2 {
        world.step(&Step::Submit(1));
        world.answer(0);
    }
    let ran = world.engine.state().schedule().placement(job).map(<[NodeShare]>::to_vec);
    // The third decision stops it and gives it other devices.
    world.step(&Step::Submit(1));
    let state = world.engine.state();
    assert_eq!((state.job(job).phase, state.job(job).generation), (Phase::Stopping, 2));
    assert!(state.schedule().placement(job).is_some());
    assert_eq!(world.tell(Command::JobExited { job, generation: 1, code: 0 }), Ok(()));
    let life = world.engine.state().job(job);
    assert_eq!(life.phase, Phase::Ended(JobEnd::Finished));
    assert_eq!((Some(life.left().to_vec()), life.process_generation()), (ran, 1));
}
