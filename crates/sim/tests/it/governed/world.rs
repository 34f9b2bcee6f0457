//! A virtual cluster around a governed engine, with a look at everything after each event.

use wharf_core::{
    Cadence, ClusterSpec, Command, Effect, Engine, JobId, JobSpec, Phase, Reason, Regime, State, Time, audit,
};
use wharf_perf::{Costs, Model, Order};
use wharf_policy::governor::{Governed, Limits, Origin};
use wharf_policy::{BuildArgs, PolicyInfo, Settings, Strategy};

/// Seconds that a start costs.
pub(crate) const RESTART_S: f64 = 30.0;

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) now: Time,
}

impl World {
    pub(crate) fn new(
        info: &PolicyInfo,
        settings: &Settings,
        cluster: &ClusterSpec,
        limits: Option<&Limits>,
    ) -> Self {
        let args = BuildArgs { settings, placement: Strategy::default(), seed: 0 };
        let mut policy = (info.build)(&args).expect("settings of the policy");
        if let Some(limits) = limits {
            let origin = Origin { unix_s: 0.0, applied: Time::ZERO };
            policy = Box::new(Governed::new(policy, limits.clone(), origin));
        }
        let costs = Costs {
            restart_s: RESTART_S,
            spread_slowdown: 0.0,
            switch_slowdown: 0.0,
            interleave_factors: [1.3, 1.5, 1.4],
        };
        let model = Box::new(Model::new(costs, info.sharing, Order::Best));
        let access = limits.map(Limits::access).unwrap_or_default();
        let regime = Regime { policy, perf: model, cadence: Cadence::Events, slots: info.slots, access };
        let engine = Engine::new(cluster, regime);
        Self { engine, now: Time::ZERO }
    }

    pub(crate) fn state(&self) -> &State {
        self.engine.state()
    }

    fn tell(&mut self, command: Command) {
        self.engine.handle(self.now, command, &mut ()).expect("virtual time has no late answers");
    }

    fn answer(&mut self) {
        let mut effects = Vec::new();
        loop {
            self.engine.drain_effects(&mut effects);
            if effects.is_empty() {
                return;
            }
            for effect in effects.drain(..) {
                let done = |job| self.engine.state().job(job).done(self.now);
                match effect {
                    Effect::Launch { job, generation } => {
                        let ready = self.now.plus(RESTART_S);
                        self.tell(Command::JobLaunched { job, generation, ready });
                    }
                    Effect::Stop { job, generation } => {
                        let done = done(job);
                        self.tell(Command::JobStopped { job, generation, done });
                    }
                }
            }
        }
    }

    /// Runs until nothing can happen any more; `look` is called after each decision and may find something wrong.
    pub(crate) fn run(
        &mut self,
        jobs: &[JobSpec],
        steps_max: usize,
        mut look: impl FnMut(&Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut arrivals = jobs.iter().peekable();
        for _ in 0..steps_max {
            let finish =
                |(_, spec, life): (JobId, &JobSpec, &wharf_core::JobState)| life.finish(spec.iterations);
            let end = self.state().jobs().filter_map(finish).min();
            let counts = self.state().counts();
            let is_live = counts.waiting + counts.placed + counts.stopping > 0;
            let wake = self.engine.next_decision().filter(|_| is_live);
            let arrival = arrivals.peek().map(|job| job.submit);
            let Some(now) = [arrival, end, wake].into_iter().flatten().min() else { return Ok(()) };
            self.now = now;
            let is_over = |(id, spec, life): (JobId, &JobSpec, &wharf_core::JobState)| {
                life.finish(spec.iterations).is_some_and(|end| end <= now).then_some((id, life.generation))
            };
            let over: Vec<(JobId, u32)> = self.state().jobs().filter_map(is_over).collect();
            for (job, generation) in over {
                self.tell(Command::JobExited { job, generation, code: 0 });
            }
            while let Some(job) = arrivals.next_if(|job| job.submit <= now) {
                self.tell(Command::SubmitJob(job.clone()));
            }
            self.answer();
            self.engine.settle(now, &mut ());
            self.answer();
            if self.engine.next_decision().is_some_and(|next| next <= now) {
                continue;
            }
            if let Some(violation) = self.engine.violations().first() {
                return Err(format!("at {now}: {violation}"));
            }
            if let Some(violation) = audit::check_all(self.state()).first() {
                return Err(format!("at {now}: {violation}"));
            }
            look(self).map_err(|error| format!("at {now}: {error}"))?;
        }
        Err(format!("still going on at {} after {steps_max} steps", self.now))
    }

    /// Does one thing, which may come too late, and lets the policy decide.
    pub(crate) fn act(&mut self, command: Command) {
        // A command about what is gone is ignored.
        let _ = self.engine.handle(self.now, command, &mut ());
        self.settle();
    }

    /// Lets time pass: jobs end, and the policy decides when it wants to.
    pub(crate) fn wait(&mut self, seconds: f64) {
        const STEPS_MAX: usize = 200;
        let until = self.now.plus(seconds);
        for _ in 0..STEPS_MAX {
            let ends = self.state().jobs().filter_map(|(_, spec, life)| life.finish(spec.iterations));
            let next = ends.chain(self.engine.next_decision()).min().filter(|next| *next <= until);
            self.now = next.map_or(until, |next| next.max(self.now));
            let now = self.now;
            let is_over = |(id, spec, life): (JobId, &JobSpec, &wharf_core::JobState)| {
                life.finish(spec.iterations).is_some_and(|end| end <= now).then_some((id, life.generation))
            };
            let over: Vec<(JobId, u32)> = self.state().jobs().filter_map(is_over).collect();
            for (job, generation) in over {
                self.tell(Command::JobExited { job, generation, code: 0 });
            }
            self.settle();
            if next.is_none() {
                return;
            }
        }
    }

    fn settle(&mut self) {
        self.answer();
        self.engine.settle(self.now, &mut ());
        self.answer();
    }

    /// Why jobs wait.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (JobId, Reason)> {
        let waiting = self.state().jobs().filter(|(.., life)| life.phase == Phase::Waiting);
        waiting.map(|(job, ..)| (job, self.engine.explain(self.now, job)))
    }
}
