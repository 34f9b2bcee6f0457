//! Why a job is not running: every "no" is explained.

use std::fmt;
use std::sync::Arc;

use crate::cluster::NodeShare;
use crate::ids::JobId;
use crate::reshape::Reshape;
use crate::room::Scarcity;
use crate::time::Time;
use crate::topology::Topology;

/// The reason for which a job is where it is, as the policy that left it there tells it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It is not waiting.
    NotWaiting,
    /// It is held, or waits for other jobs.
    Held,
    /// Fewer devices that it may use are free than it needs.
    DevicesBusy {
        /// What it needs.
        needed: u32,
        /// What is free.
        free: u32,
    },
    /// Enough devices are free, but not together as the placement strategy wants them.
    Fragmented {
        /// What it needs.
        needed: u32,
        /// What is free.
        free: u32,
    },
    /// Devices alone would do, but there is too little of something else.
    Scarce(Scarcity),
    /// Jobs of the same size go first.
    Behind {
        /// The one that goes first.
        first: JobId,
        /// How many go before it.
        ahead: u32,
    },
    /// The policy keeps strict order, and the job at its head does not fit yet.
    HeadOfLine {
        /// The job at the head.
        head: JobId,
    },
    /// It would fit, but must not delay the job that has a reservation.
    Reserved {
        /// Whose reservation.
        holder: JobId,
    },
    /// A job of the same size goes first, because its user or group has used less of the cluster.
    Share {
        /// The one that goes first.
        first: JobId,
        /// Device-hours per weight that count for this job's user or group.
        used_h: f64,
        /// Those that count for the other's.
        least_h: f64,
    },
    /// The policy decides only at certain times.
    NextRound {
        /// The next one.
        at: Time,
    },
    /// Too few devices are free, and no more can be shared: their jobs would be hurt, or memory would not do.
    NoPartner {
        /// What it needs.
        needed: u32,
        /// What is free.
        free: u32,
    },
    /// Running jobs hold leases, and others are worse off.
    Leased {
        /// When the next leases end.
        until: Time,
        /// Waiting jobs that are worse off.
        ahead: u32,
    },
    /// It would be done later on what is free than by waiting for devices of another type.
    BetterLater {
        /// The type that it is to have.
        device_type: Arc<str>,
    },
    /// Nodes that are out would have to return first.
    NodesOut {
        /// What it needs.
        needed: u32,
        /// What the working nodes have.
        working: u32,
    },
    /// The working nodes of its pool, or of the pools that its owner may use, have too few devices.
    PoolTooSmall {
        /// Its pool, where it has one.
        pool: Option<Arc<str>>,
        /// What it needs.
        needed: u32,
        /// What the working nodes have.
        working: u32,
    },
    /// A limit would be exceeded.
    Quota(Quota),
    /// Another job of the same owner goes first, and waits for a limit.
    QuotaBehind {
        /// The one that goes first.
        first: JobId,
        /// How many go before it.
        ahead: u32,
    },
    /// It asks for more than a limit will ever give.
    OverLimit(Quota),
    /// Its pool does not take jobs of its owner.
    PoolRefuses {
        /// The pool.
        pool: Arc<str>,
        /// The owner.
        user: Arc<str>,
    },
    /// It asks for a reservation that has not begun.
    ReservationBegins {
        /// The reservation.
        name: Arc<str>,
        /// When it begins.
        at: Time,
    },
    /// The reservation that it asks for is over, unknown, or not its owner's.
    ReservationRefuses {
        /// The reservation.
        name: Arc<str>,
        /// Why.
        why: &'static str,
    },
    /// Other jobs use the reservation that it asks for.
    ReservationBusy {
        /// The reservation.
        name: Arc<str>,
        /// What it needs.
        needed: u32,
        /// What is free of the reservation's nodes.
        free: u32,
    },
    /// Devices that it could use are kept for a reservation or a maintenance window.
    Kept {
        /// The reservation.
        name: Arc<str>,
        /// When it ends.
        until: Time,
    },
    /// An earlier job waits for more devices than are free; later ones that run meanwhile give way to it.
    Blocked {
        /// The earlier job.
        first: JobId,
        /// Later jobs that run on what it cannot use yet.
        opportunists: u32,
    },
    /// Whatever it was given, it would be done too late.
    DeadlineLost {
        /// When it should be done.
        deadline: Time,
        /// The earliest at which it could be.
        earliest: Time,
    },
    /// It could be given devices, but those that have them make at least as much of them.
    NotWorthIt {
        /// What it needs.
        needed: u32,
        /// What is free.
        free: u32,
    },
    /// Devices that it could use are kept for a job that has waited too long.
    Starving {
        /// The one that has waited too long.
        holder: JobId,
    },
    /// What a policy from outside says.
    Told {
        /// Its words.
        why: Arc<str>,
    },
}

/// A limit, what it is about, and how far it is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// Whose limit: `user ann`, `group vision`, `pool big`.
    pub whose: Arc<str>,
    /// What it counts: `devices`, `v100 devices`, `jobs`, `GPU-hours`.
    pub what: Arc<str>,
    /// What is used, or promised to jobs that go first.
    pub used: f64,
    /// What the job asks for.
    pub asked: f64,
    /// The most there may be.
    pub limit: f64,
}

/// A number of devices in words.
fn devices(count: u32) -> String {
    if count == 1 { "1 device".to_owned() } else { format!("{count} devices") }
}

/// Names of jobs and times for the reader of a reason.
pub trait Names {
    /// A job.
    fn job(&self, job: JobId) -> String;
    /// A moment, as it stands after "at" and "until".
    fn moment(&self, time: Time) -> String;
}

/// For which job another made room, and why it was chosen.
pub fn made_room(to: Option<JobId>, chosen: &dyn fmt::Display, names: &dyn Names) -> String {
    match to {
        Some(to) => format!("it made room for {} ({chosen})", names.job(to)),
        None => format!("it was preempted for other jobs ({chosen})"),
    }
}

/// How a job's devices differ from those `before`, and the job that got those.
pub fn reshaped(
    topology: &Topology,
    reshape: Reshape,
    before: &[NodeShare],
    after: &[NodeShare],
    to: Option<JobId>,
    names: &dyn Names,
) -> String {
    let nodes = |placement: &[NodeShare]| {
        let mut names: Vec<&str> =
            placement.iter().map(|share| &*topology.node(share.node).spec.name).collect();
        names.sort_unstable();
        names.join("+")
    };
    let given = |placement: &[NodeShare]| {
        let count: u32 = placement.iter().map(|share| share.devices.len()).sum();
        match (reshape, topology.type_of(placement)) {
            (Reshape::Moved, _) => nodes(placement),
            (_, Some(kind)) => format!("{count} × {}", topology.types()[kind.index()]),
            (_, None) => format!("{count} devices"),
        }
    };
    let to = to.map_or_else(String::new, |to| format!(", for {}", names.job(to)));
    let after_nodes = nodes(after);
    if reshape == Reshape::Moved && nodes(before) == after_nodes {
        return format!("it was moved to other devices of {after_nodes}{to}");
    }
    format!("it was {reshape} from {} to {}{to}", given(before), given(after))
}

/// The engine's own numbers.
struct Numbers;

impl Names for Numbers {
    fn job(&self, job: JobId) -> String {
        job.to_string()
    }

    fn moment(&self, time: Time) -> String {
        format!("{time} s")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &Numbers)
    }
}

impl Reason {
    /// Whether it stays whatever other jobs do: nodes, pools or limits would have to change.
    pub fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::NodesOut { .. } | Self::PoolTooSmall { .. } | Self::OverLimit(_) | Self::PoolRefuses { .. }
        )
    }

    /// The reason in words, with names for jobs and moments.
    pub fn told(&self, names: &dyn Names) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, names);
        text
    }

    fn write(&self, f: &mut dyn fmt::Write, names: &dyn Names) -> fmt::Result {
        let job = |job: &JobId| names.job(*job);
        let moment = |time: &Time| names.moment(*time);
        match self {
            Self::NotWaiting => write!(f, "not waiting"),
            Self::Held => write!(f, "held until it is released"),
            Self::DevicesBusy { needed, free } => {
                write!(f, "needs {}, {free} that it may use are free", devices(*needed))
            }
            Self::Fragmented { needed, free } => {
                write!(f, "needs {} together, {free} are free but apart", devices(*needed))
            }
            Self::Scarce(scarcity) => write!(f, "{scarcity}"),
            Self::Behind { first, ahead } => match ahead {
                1 => write!(f, "{} goes first", job(first)),
                _ => write!(f, "{ahead} jobs go first, {} next", job(first)),
            },
            Self::HeadOfLine { head } => {
                write!(f, "strict order: {} is first and does not fit yet", job(head))
            }
            Self::Reserved { holder } => {
                write!(f, "starting it would delay {}, which has a reservation", job(holder))
            }
            Self::Share { first, used_h, least_h } => write!(
                f,
                "{} goes first: its share is less used ({least_h:.1} device-hours per weight, this one's {used_h:.1})",
                job(first)
            ),
            Self::NextRound { at } => write!(f, "decided at the next round, at {}", moment(at)),
            Self::NoPartner { needed, free } => {
                write!(
                    f,
                    "needs {}, {free} are free and no running job can share enough others with it",
                    devices(*needed)
                )
            }
            Self::Leased { until, ahead } => {
                let jobs = if *ahead == 1 { "job is" } else { "jobs are" };
                write!(f, "devices are leased until {}, and {ahead} waiting {jobs} worse off", moment(until))
            }
            Self::BetterLater { device_type } => {
                write!(
                    f,
                    "it is planned for a {device_type} device: free devices are slower or reserved for other jobs"
                )
            }
            Self::NodesOut { needed, working } => {
                write!(
                    f,
                    "cannot start on the current nodes: needs {}, the working nodes have {working} that it may use together",
                    devices(*needed)
                )
            }
            Self::PoolTooSmall { pool: Some(pool), needed, working } => write!(
                f,
                "cannot start on the current nodes: needs {}, the working nodes of pool {pool} have {working} that it may use",
                devices(*needed)
            ),
            Self::PoolTooSmall { pool: None, needed, working } => write!(
                f,
                "cannot start on the current nodes: needs {}, the working nodes of pools that its owner may use have {working}",
                devices(*needed)
            ),
            Self::Quota(quota) if quota.asked == 0.0 => write!(
                f,
                "{} may use {} {}, and has used {:.1}",
                quota.whose, quota.limit, quota.what, quota.used
            ),
            Self::Quota(quota) => write!(
                f,
                "{} may have {} {}: {} are used or promised, and it asks for {}",
                quota.whose, quota.limit, quota.what, quota.used, quota.asked
            ),
            Self::QuotaBehind { first, ahead } => match ahead {
                1 => write!(f, "{} of the same owner goes first, and waits for a limit", job(first)),
                _ => {
                    write!(f, "{ahead} jobs of the same owner go first, and {} waits for a limit", job(first))
                }
            },
            Self::OverLimit(quota) => write!(
                f,
                "can never run under its limits: it asks for {} {}, {} may have {}",
                quota.asked, quota.what, quota.whose, quota.limit
            ),
            Self::PoolRefuses { pool, user } => {
                write!(f, "can never run under its limits: pool {pool} does not take jobs of user {user}")
            }
            Self::ReservationBegins { name, at } => {
                write!(f, "waits for reservation {name}, which begins at {}", moment(at))
            }
            Self::ReservationRefuses { name, why } => {
                write!(f, "can never run under its limits: reservation {name} {why}")
            }
            Self::ReservationBusy { name, needed, free } => write!(
                f,
                "needs {} of reservation {name}, {free} are free or come after jobs that go first",
                devices(*needed)
            ),
            Self::Kept { name, until } => {
                write!(f, "devices that it could use are kept for reservation {name} until {}", moment(until))
            }
            Self::Blocked { first, opportunists } => match opportunists {
                0 => write!(f, "{} goes first and waits for more devices", job(first)),
                1 => write!(
                    f,
                    "{} goes first and waits for more devices; 1 later job runs opportunistically until then",
                    job(first)
                ),
                _ => write!(
                    f,
                    "{} goes first and waits for more devices; {opportunists} later jobs run opportunistically until then",
                    job(first)
                ),
            },
            Self::DeadlineLost { deadline, earliest } => write!(
                f,
                "cannot meet its deadline at {}: with all that it may have it would be done at {}",
                moment(deadline),
                moment(earliest)
            ),
            Self::NotWorthIt { needed, free } => write!(
                f,
                "needs {}, {free} that it may use are free, and preempting other jobs would not free enough devices",
                devices(*needed)
            ),
            Self::Starving { holder } => {
                write!(f, "devices that it could use are kept for {}, which has waited too long", job(holder))
            }
            Self::Told { why } => write!(f, "{why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_elastic_policies() {
        let (deadline, earliest) = (Time::from_seconds(100.0), Time::from_seconds(250.0));
        let blocked = |opportunists| Reason::Blocked { first: JobId(3), opportunists };
        for (reason, words) in [
            (blocked(0), "j3 goes first and waits for more devices"),
            (
                blocked(1),
                "j3 goes first and waits for more devices; 1 later job runs opportunistically until then",
            ),
            (
                blocked(4),
                "j3 goes first and waits for more devices; 4 later jobs run opportunistically until then",
            ),
            (
                Reason::DeadlineLost { deadline, earliest },
                "cannot meet its deadline at 100 s: with all that it may have it would be done at 250 s",
            ),
            (
                Reason::NotWorthIt { needed: 1, free: 0 },
                "needs 1 device, 0 that it may use are free, and preempting other jobs would not free enough devices",
            ),
        ] {
            assert_eq!(reason.to_string(), words);
        }
    }
}
