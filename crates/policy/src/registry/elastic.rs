//! Policies that choose the type and the number of devices of each job.

use wharf_perf::Sharing;

use super::priority::{MIN_RUN, is_positive, min_run_s};
use super::{BuildArgs, KnobInfo, PolicyInfo};
use crate::elastic::{Elastic, ElasticOptions};
use crate::elasticflow::ElasticFlow;
use crate::pollux::{Pollux, PolluxOptions};
use crate::settings::BadSetting;
use crate::sia::{Sia, SiaOptions};

const ROUND_S: KnobInfo = KnobInfo {
    name: "round_s",
    values: "seconds",
    default: "60",
    help: "time between two rounds; only at rounds do running jobs get other devices",
};

pub(super) const SIA: PolicyInfo = PolicyInfo {
    name: "sia",
    summary: "the type and number of devices for each job, by an integer program over all of them",
    paper: "Jayaram Subramanya et al., Sia, SOSP'23",
    explanation: "At every round each job is given one configuration at most: 1, 2, 4 ... devices within a node or whole nodes of \
        one type, within what the job can run on; a job that asks for a fixed number chooses the type only. Speeds come from \
        the performance model, in units of the job's slowest configuration (times its devices, where that has several), \
        and are raised to the power p. The sum is made best by an integer program, which is solved exactly where that takes \
        some milliseconds, else by prices for each type. Every configuration but the one that a job has counts \
        less by its restart factor (age - restarts x restart_s) / (age + restart_s).\n\n\
        Of equal configurations a job takes the one that it has, then the one with fewer devices, then the first type. Jobs that \
        are still starting are left alone. Between rounds free devices go to waiting jobs, as few as each can run on. \
        Unlike in the paper, speeds on all types are known from the start, and a waiting job is not held its restarts against.",
    must_know: "speeds of jobs by device type and number of devices",
    advice: "Mixed clusters with jobs that can run on more or fewer devices: each gets the type and number at which the cluster's throughput is highest, and no job waits for long. Restarts must be cheap.",
    knobs: &[
        ROUND_S,
        KnobInfo {
            name: "p",
            values: "a number but 0",
            default: "-0.5",
            help: "exponent of speeds: below 0 jobs with few devices count most, above 0 fast jobs",
        },
        KnobInfo {
            name: "lambda_n",
            values: "a number above 1",
            default: "1.1",
            help: "cost of a job without devices",
        },
        KnobInfo {
            name: "solver_steps",
            values: "a whole number above 0",
            default: "200000000",
            help: "maximum number of solver steps; beyond them the choice is greedy",
        },
        MIN_RUN,
    ],
    slots: 1,
    is_elastic: true,
    sharing: Sharing::None,
    build: |args| {
        let settings = args.settings;
        let p = settings.parsed("p", -0.5, "a number but 0", |p: &f64| p.is_finite() && *p != 0.0)?;
        let is_above_1 = |value: &f64| value.is_finite() && *value > 1.0;
        let lambda_n = settings.parsed("lambda_n", 1.1, "a number above 1", is_above_1)?;
        let expected = "a whole number above 0";
        let steps = settings.parsed("solver_steps", 200_000_000, expected, |&steps: &u64| steps > 0)?;
        let planner = Sia::new(SiaOptions { p, lambda_n, steps });
        Ok(Box::new(Elastic::new(planner, options(args)?, args.placer())))
    },
};

pub(super) const POLLUX: PolicyInfo = PolicyInfo {
    name: "pollux",
    summary: "the number of devices for each job, by a search for the largest power mean of speedups",
    paper: "Qiao et al., Pollux, OSDI'21",
    explanation: "A population of allocations is bred for some generations: two parents, each the better of two drawn at random, \
        give each job's devices at random, a few jobs draw again, and what exceeds the cluster is cut back. The fitness \
        is the power mean, with power p, of all jobs' speedups over what they would do on an equal part of the cluster; a \
        job that would be moved counts less by its restart factor, as under sia. The search starts from what runs now and \
        from a greedy allocation by marginal gains, draws from the run's seed and the time alone, and ends after \
        these numbers of generations or evaluations, or after ten generations without a gain, so that equal runs decide alike.\n\n\
        As published it takes all devices for alike; with types=aware it knows how fast each job is on which. Jobs are \
        offered the same configurations as under sia.",
    must_know: "speeds of jobs by number of devices",
    advice: "Clusters of one type with jobs that can run on more or fewer devices. On mixed clusters sia is better and faster.",
    knobs: &[
        ROUND_S,
        KnobInfo {
            name: "p",
            values: "a number below 0",
            default: "-1",
            help: "exponent of the mean: the lower, the more the slowest jobs count",
        },
        KnobInfo { name: "population", values: "4..1000", default: "100", help: "number of allocations" },
        KnobInfo { name: "generations", values: "0..10000", default: "100", help: "number of generations" },
        KnobInfo {
            name: "evaluations",
            values: "a whole number above 0",
            default: "20000000",
            help: "maximum number of evaluations of a job's part of an allocation",
        },
        KnobInfo {
            name: "types",
            values: "blind|aware",
            default: "blind",
            help: "whether device types are distinguished",
        },
        MIN_RUN,
    ],
    slots: 1,
    is_elastic: true,
    sharing: Sharing::None,
    build: |args| {
        let settings = args.settings;
        let is_negative = |p: &f64| p.is_finite() && *p < 0.0;
        let count = |key, default, expected, low, high| {
            settings.parsed(key, default, expected, move |&count: &u64| (low..=high).contains(&count))
        };
        let planner = Pollux::new(PolluxOptions {
            p: settings.parsed("p", -1.0, "a number below 0", is_negative)?,
            population: count("population", 100, "4..1000", 4, 1000)? as usize,
            generations: count("generations", 100, "0..10000", 0, 10_000)?,
            evaluations: count("evaluations", 20_000_000, "a whole number above 0", 1, u64::MAX)?,
            is_aware: settings.choice("types", &[("blind", false), ("aware", true)], false)?,
            seed: args.seed,
        });
        Ok(Box::new(Elastic::new(planner, options(args)?, args.placer())))
    },
};

fn options(args: &BuildArgs<'_>) -> Result<ElasticOptions, BadSetting> {
    let round_s = args.settings.parsed("round_s", 60.0, "seconds above 0", is_positive)?;
    Ok(ElasticOptions { round_s, min_run_s: min_run_s(args.settings)? })
}

pub(super) const ELASTICFLOW: PolicyInfo = PolicyInfo {
    name: "elasticflow",
    summary: "jobs are admitted with the fewest devices that meet their deadlines; the rest go to the jobs with the largest gain",
    paper: "Gu et al., ElasticFlow, ASPLOS'23",
    explanation: "Whenever jobs come or end: each job has a least number of devices, with which it would meet its deadline (the fewest \
        that it can run on, where it has none). A job is admitted if its least and those of all that run fit its device type, \
        which is the one that it asks for and never changes. Devices that are left are given out in steps, to the next \
        larger number that makes sense, always to the job with the largest gain per device, as long as there is a gain.\n\n\
        A job that cannot meet its deadline is not started. One that runs and cannot meet it any more continues with the \
        fewest devices.",
    must_know: "speeds of jobs by number of devices, remaining iterations, deadlines",
    advice: "Clusters of one type, or jobs bound to one, with deadlines that matter.",
    knobs: &[ROUND_S, MIN_RUN],
    slots: 1,
    is_elastic: true,
    sharing: Sharing::None,
    build: |args| Ok(Box::new(Elastic::new(ElasticFlow::new(true), options(args)?, args.placer()))),
};

pub(super) const ELASTICFLOW_L: PolicyInfo = PolicyInfo {
    name: "elasticflow-l",
    summary: "elasticflow without deadlines: all jobs get their minimum, then those with the largest gain",
    explanation: "As elasticflow, but without deadlines: jobs are admitted in the order of their submission with the fewest devices \
        that they can run on, and what is left goes to those who gain most by each device.",
    must_know: "speeds of jobs by number of devices",
    advice: "Clusters of one type with jobs that can run on more or fewer devices.",
    build: |args| Ok(Box::new(Elastic::new(ElasticFlow::new(false), options(args)?, args.placer()))),
    ..ELASTICFLOW
};
