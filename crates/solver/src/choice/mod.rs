//! One configuration for each job: so many devices of one type, each worth something, within what there is of each type.
//!
//! This is the integer program of Sia (SOSP'23), a knapsack with several sacks and exclusive choices. It has a row for each
//! device type only, so its Lagrangian dual has a price for each type and nothing else: the ellipsoid method finds those
//! prices (`dual`), a greedy pass makes choices of them (`greedy`), and a search among the few choices that prices do not
//! decide proves the result, or betters it (`exact`).
//!
//! Ties: of configurations with equal values a job takes its current one, then one with fewer devices, then one of the
//! earlier type; jobs are checked in order. Equal problems give equal choices.

mod dual;
mod exact;
mod greedy;

/// One way to run a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Configuration {
    /// The device type, as an index into the capacities.
    pub kind: usize,
    /// Devices.
    pub count: u32,
    /// What it is worth above not running; no job is given what is worth nothing.
    pub value: f64,
}

/// Jobs with their configurations.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Devices of each type.
    pub capacity: &'a [u32],
    /// All configurations, job by job.
    pub configurations: &'a [Configuration],
    /// Where each job's configurations begin, and at last the end of all.
    pub starts: &'a [usize],
    /// The configuration that a job has now, counted from its first; empty if no job has one.
    pub current: &'a [Option<usize>],
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Inspections of a configuration while prices are found.
    pub steps: u64,
    /// Inspections of a state while a choice is proved best, or improved.
    pub proof_steps: u64,
    /// Differences below this are none.
    pub resolution: f64,
}

/// How a choice was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Nothing is better.
    Exact,
    /// By converged prices; the steps did not do for a proof.
    Lagrangian,
    /// By prices that have not converged.
    Greedy,
}

impl Method {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Lagrangian => "lagrangian",
            Self::Greedy => "greedy",
        }
    }
}

/// What each job is given.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// For each job the configuration, counted from its first.
    pub picks: Vec<Option<usize>>,
    /// The sum of values.
    pub value: f64,
    /// What no choice can exceed.
    pub bound: f64,
    /// How it was made.
    pub method: Method,
    /// Steps that it took.
    pub steps: u64,
}

impl Problem<'_> {
    fn jobs(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    fn of(&self, job: usize) -> &[Configuration] {
        &self.configurations[self.starts[job]..self.starts[job + 1]]
    }

    fn is_possible(&self, configuration: &Configuration) -> bool {
        configuration.value > 0.0 && configuration.count <= self.capacity[configuration.kind]
    }

    /// The order among equal values.
    fn preference(&self, job: usize, pick: usize) -> (bool, u32, usize) {
        let is_current = self.current.get(job).copied().flatten() == Some(pick);
        let configuration = &self.of(job)[pick];
        (!is_current, configuration.count, configuration.kind)
    }

    fn value(&self, picks: &[Option<usize>]) -> f64 {
        picks.iter().enumerate().filter_map(|(job, pick)| pick.map(|pick| self.of(job)[pick].value)).sum()
    }
}

/// Chooses a configuration for each job, or none, so that the sum of values is largest.
///
/// # Panics
/// Panics if `starts` is not an ascending list of places in `configurations`, or a type has no capacity.
pub fn choose(problem: &Problem<'_>, limits: &Limits) -> Choice {
    let dual = dual::solve(problem, limits);
    let mut steps = dual.steps;
    let mut picks = greedy::pick(problem, &dual.prices);
    greedy::improve(problem, &mut picks, limits.resolution);
    let mut method = if dual.is_converged { Method::Lagrangian } else { Method::Greedy };
    let missing = dual.bound - problem.value(&picks);
    if missing < limits.resolution {
        method = Method::Exact;
    } else if dual.is_converged {
        let search = exact::Search::new(problem, &dual.prices, missing - limits.resolution);
        let found = search.run(limits.proof_steps);
        steps += found.steps;
        if found.is_complete {
            method = Method::Exact;
            picks = found.picks.unwrap_or(picks);
        }
    }
    greedy::tidy(problem, &mut picks, limits.resolution);
    let value = problem.value(&picks);
    let bound = if method == Method::Exact { value } else { dual.bound };
    Choice { picks, value, bound, method, steps }
}
