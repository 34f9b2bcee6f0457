//! The policies of Crius's published simulator, as they decide there, under Wharf's own accounting.

use wharf_core::Policy;
use wharf_perf::Sharing;
use wharf_policy::{BadSetting, BuildArgs, KnobInfo, PolicyInfo};

use super::adapter::Arena;
use super::decisions::{Options, Variant};

/// All of them, in the order in which they are listed.
pub(crate) static POLICIES: &[PolicyInfo] =
    &[FCFS, FCFS_R, GANDIVA, ELASTICFLOW, ELASTICFLOW_L, GAVEL, SIA, CRIUS];

const PAPER: &str = "Xue et al., Arena, EuroSys'26 (its baselines)";

const KNOBS: &[KnobInfo] = &[
    KnobInfo {
        name: "round_s",
        values: "seconds",
        default: "300",
        help: "time between two rounds; jobs get devices at rounds only",
    },
    KnobInfo {
        name: "sched_with_opt",
        values: "on|off",
        default: "off",
        help: "Crius's option of this name: with `on`, a job that crius/gavel cannot admit does not block its type. Speeds are those of the best plan with and without it",
    },
];

const BASE: PolicyInfo = PolicyInfo {
    name: "",
    summary: "",
    paper: PAPER,
    explanation: "",
    must_know: "speeds of jobs by device type and number of devices",
    advice: "To compare with the published results. Under the default rules `fifo` starts jobs at once, and places them better.",
    knobs: KNOBS,
    slots: 1,
    is_elastic: false,
    sharing: Sharing::None,
    build: |args| build("crius/fcfs", args),
};

const FCFS: PolicyInfo = PolicyInfo {
    name: "crius/fcfs",
    summary: "first come, first served for each type, on whole nodes, in rounds, as in Crius's simulator",
    explanation: "Jobs run on the type and number of devices that they ask for, on as few nodes as hold them, the emptiest nodes \
        first. A job that finds no place blocks all later ones of its type. Waiting jobs are tried again only in rounds in which a \
        job ended. Jobs that the published code drops get what is left over here.",
    ..BASE
};

const FCFS_R: PolicyInfo = PolicyInfo {
    name: "crius/fcfs-r",
    summary: "the same; a job may also be spread over more nodes than needed",
    explanation: "As crius/fcfs; where a job does not fit on as few nodes as hold it, the devices on each node are halved until it \
        does, or cannot run like that.",
    build: |args| build("crius/fcfs-r", args),
    ..BASE
};

const GANDIVA: PolicyInfo = PolicyInfo {
    name: "crius/gandiva",
    summary: "the same; jobs are gathered on fewer nodes and grow into idle devices, as in Crius's version of Gandiva",
    explanation: "As crius/fcfs-r. When a job ends, jobs that lie on more nodes than needed are gathered on their own nodes or moved \
        to fuller ones, one by one, while a node of their type is partly used and half idle; then waiting jobs are tried; then jobs \
        on one node are doubled while there are idle devices and it makes them faster. What they grew by is taken back where \
        another job needs it.",
    advice: "To compare with the published results; `gandiva` is Gavel's version of Gandiva, with shared devices.",
    build: |args| build("crius/gandiva", args),
    ..BASE
};

const ELASTICFLOW: PolicyInfo = PolicyInfo {
    name: "crius/elasticflow",
    summary: "admits a job where all deadlines of its type hold, and doubles the job with the largest gain, as Crius's simulator does",
    explanation: "A job is admitted where it and all running jobs of its type can be done by their deadlines with the fewest devices \
        that are enough for each; it waits otherwise. What is left is given out by doubling the job with the largest gain in throughput, even where \
        that is a loss, and all jobs of the type are placed again, the largest first. A job whose deadline passes while it waits gets \
        what is left over. Jobs without a deadline have all the time in the world.",
    must_know: "speeds of jobs by device type and number of devices, remaining work",
    advice: "To compare with the published results: every admission moves most jobs of the type.",
    build: |args| build("crius/elasticflow", args),
    is_elastic: true,
    ..BASE
};

const ELASTICFLOW_L: PolicyInfo = PolicyInfo {
    name: "crius/elasticflow-l",
    summary: "the same, without a limit on solver time",
    explanation: "As crius/elasticflow, without deadlines: every job is admitted that still finds a device.",
    must_know: "speeds of jobs by device type and number of devices",
    advice: "To compare with the published results: every admission moves most jobs of the type.",
    build: |args| build("crius/elasticflow-l", args),
    is_elastic: true,
    ..BASE
};

const GAVEL: PolicyInfo = PolicyInfo {
    name: "crius/gavel",
    summary: "the type for each job by an integer program, with few changes at a time, as in Crius's version of Gavel",
    explanation: "Jobs keep the number of devices that they ask for. A job that comes, or is tried again after another ended, is admitted \
        where an integer program finds a type for it and for all that run within the devices of each type, with the most throughput in \
        all and at most three changes; those that change are placed again. It waits otherwise, and blocks its type unless sched_with_opt=on.",
    advice: "To compare with the published results; Gavel's own policies, such as `max-sum-throughput-perf`, share time.",
    build: |args| build("crius/gavel", args),
    ..BASE
};

const SIA: PolicyInfo = PolicyInfo {
    name: "crius/sia",
    summary: "the type and number for each new job by an integer program, as in Crius's version of Sia",
    explanation: "As crius/gavel, with configurations of 1, 2, 4, 8 and 16 devices of each type and goodput that grows linearly with them. \
        A job that runs may change its type, never its number. The program is solved to its optimum; of equal optima the one counts in \
        which the newcomer is worth most, then one with the fewest changes, then one in which later jobs change.",
    advice: "To compare with the published results; `sia` is Sia as in its paper.",
    build: |args| build("crius/sia", args),
    is_elastic: true,
    ..BASE
};

const CRIUS: PolicyInfo = PolicyInfo {
    name: "crius/crius",
    summary: "Crius as its published simulator decides, defects included",
    paper: "Xue et al., Arena, EuroSys'26",
    explanation: "A job that comes, or waits, is seated where there is room, after rearranging others if need be, or else at the cost of \
        others, of which up to three are halved or moved to another type. It may then run before an earlier one that waits, and goes back \
        to waiting when that one can have its devices. When jobs come or end, those that run are given what is idle. Gains are counted as \
        published, some of them twice.",
    advice: "To compare with the published results; `crius` is the same idea without the defects.",
    build: |args| build("crius/crius", args),
    is_elastic: true,
    ..BASE
};

fn build(name: &'static str, args: &BuildArgs<'_>) -> Result<Box<dyn Policy>, BadSetting> {
    let round_s = args
        .settings
        .parsed("round_s", 300.0, "seconds above 0", |seconds: &f64| seconds.is_finite() && *seconds > 0.0)?;
    let variant = Variant::find(name).ok_or_else(|| BadSetting {
        key: "policy".to_owned(),
        value: name.to_owned(),
        expected: "one of Crius's own names".to_owned(),
    })?;
    let sched_with_opt = args.settings.switch("sched_with_opt", false)?;
    Ok(Box::new(Arena::new(
        variant,
        Options { round_s, sched_with_opt, ..Options::default() },
        args.placer(),
    )))
}
