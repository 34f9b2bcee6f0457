//! The mechanism of Gavel's published simulator (OSDI'20), with its policies.
//!
//! A policy states which part of its time each job should spend on which type. Rounds hand out devices in proportion: for each
//! type, those go first who are furthest behind their share. What the published code does that a careful design would
//! not is kept, because its published results depend on it:
//!
//! | defect | where | effect |
//! |---|---|---|
//! | a round is as long as its longest micro-task, up to `round_s` | `rounds` | a job that is done earlier holds its devices idle |
//! | what a micro-task is charged begins at the end of the last round, also after a time in which nothing ran | `rounds` | utilisation counts idle time, and may exceed 1 |
//! | the first reset at time 0 leaves the time of the last reset at 0, which means "never" | `rounds` | the second comes at once; so does one after the cluster was empty at the end |
//! | jobs that arrive between resets have no share, but are chosen on what is left | `select`, `place` | they block devices and do not run |
//! | jobs of priority 0 run on what is left, except under `fifo` and its kin | `select` | also on types that the policy kept them from |
//! | a micro-task with fewer steps than devices fails | `rounds` | a gang with few steps left is dropped after five rounds, as if it had failed |
//! | a pair's failures are not counted, nor do its successes forgive its members' | `rounds` | two jobs can fail together indefinitely: here that ends the run with an error |
//! | both jobs of a pair end when the later of the two does | `rounds` | the earlier one is charged for the other |
//! | a new pair is taken to be owed half a round | `keys` | pairs are checked before single jobs, among those without a share |
//! | deficits, priorities and shares that are equal are ordered by the order of arrival | `select` | history decides ties |
//! | `fifo` always gives the last type by name that is free, and draws which type it takes from the list when that is used up | `rules/fifo` | types are given more jobs than they have devices |
//! | `fifo` and its kin pass over the job at which they stop | `rules/fifo` | with packing the one behind it is packed first |
//! | `allox` never takes a device away | `rules/allox` | a job stays on a type that is wrong for it by now |
//! | `gandiva` compares a pair's speeds summed over all types with 1 | `rules/split` | pairs that lose on every type are kept |
//! | `finish-time-fairness` and `min-total-duration` take the speeds on one type, by name, for all types | `rules/programs` | on clusters without it the first of `type_order` stands in |
//! | `finish-time-fairness` ignores weights | `rules/programs` | |
//! | `min-total-duration` is content with a makespan within 5 % of the shortest | `rules/makespan` | shares are any that reach it: those at which its solver ends (`rules/interior`) |
//! | makespan counts from time 0, not from the first arrival | `tracker` | |
//!
//! Four things the published code cannot do are done here: policies with packing run on gangs of several sizes (there they
//! stop with "Invalid reshape dimensions"), clusters may have types of any name (there only the three of `type_order` are ever
//! used), the policies with prices have prices (there the files are missing), and deadlines that cannot be met together are
//! all cut by the same part (there all of them are dropped).
//!
//! Shares are seldom the only best ones. Solvers here end at others than the published one's, so completion times
//! under policies that solve a program differ within what the published simulator shows between its own solvers.
//!
//! The entry is [`Numbers`], a preset's table.

mod error;
mod keys;
mod numbers;
mod place;
mod random;
mod rounds;
mod rules;
mod select;
mod settings;
mod tracker;
mod workload;

use wharf_outcome::{Outcome, Recorder};

pub use error::GavelError;
pub use numbers::Numbers;
pub use settings::{Goal, Policy, Settings, Sight};

use crate::{Mechanism, Policies, Refusal, Request};
use workload::Workload;

impl Numbers {
    fn prepare<'a>(&self, request: &Request<'a>) -> Result<(Settings, Workload<'a>), Refusal> {
        let policy = request.policy("gavel/", Policy::ALL, |policy| policy.name, &Settings::NAMES)?;
        let settings = Settings::new(policy, self, request)?;
        let workload = Workload::new(request.jobs, request.cluster, request.profile, policy, self)?;
        Ok((settings, workload))
    }
}

impl Mechanism for Numbers {
    fn policies(&self) -> Policies {
        let policies = Policy::ALL.map(|policy| (policy.name, policy.summary())).to_vec();
        Policies::Own { paper: "Narayanan et al., Gavel, OSDI'20", policies }
    }

    fn setting_names(&self) -> &'static [&'static str] {
        &Settings::NAMES
    }

    fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let (settings, workload) = self.prepare(request)?;
        rules::build(&settings, &workload)?;
        Ok(())
    }

    fn simulate(&self, request: &Request<'_>, recorder: &mut dyn Recorder) -> Result<Outcome, Refusal> {
        let (settings, workload) = self.prepare(request)?;
        let rule = rules::build(&settings, &workload)?;
        let tracker = tracker::Tracker::new(&workload, recorder);
        let simulation = rounds::Simulation::new(&workload, &settings, self, rule, tracker);
        Ok(simulation.run()?.into_outcome())
    }
}
