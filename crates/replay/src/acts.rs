//! Launches and preemptions of a run in order, and the first difference between two runs.

use std::fmt;

use wharf_core::{JobId, NodeShare, Time};
use wharf_proto::HistoryEntry;
use wharf_proto::job_event::Event;
use wharf_proto::job_stopping::Why;
use wharf_sim::Recorder;

/// Acts of the simulator this close together have no order: they are one decision.
const SAME_MOMENT_S: f64 = 1e-6;

/// A launch or a preemption. Jobs are counted from 0, as in the trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// A job has to give its devices back.
    Preempt {
        /// The job.
        job: usize,
    },
    /// A job is launched.
    Launch {
        /// The job.
        job: usize,
        /// Its devices on each node, by index.
        places: Vec<(u32, Vec<u32>)>,
    },
}

/// Seconds after the beginning of the trace, and the act.
pub type Moment = (f64, Act);

impl fmt::Display for Act {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preempt { job } => write!(out, "job {job} is stopped"),
            Self::Launch { job, places } => {
                let place = |(node, devices): &(u32, Vec<u32>)| {
                    let devices: Vec<String> = devices.iter().map(u32::to_string).collect();
                    format!("{node}:{}", devices.join(","))
                };
                let places: Vec<String> = places.iter().map(place).collect();
                write!(out, "job {job} starts on {}", places.join(" "))
            }
        }
    }
}

/// Records the acts of a simulation.
#[derive(Default)]
pub(crate) struct Simulated(pub(crate) Vec<Moment>);

impl Recorder for Simulated {
    fn wants_timeline(&self) -> bool {
        true
    }

    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        let places = placement.iter().map(|share| (share.node.0, share.devices.iter().collect())).collect();
        self.0.push((time.seconds(), Act::Launch { job: job.index(), places }));
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.0.push((time.seconds(), Act::Preempt { job: job.index() }));
    }
}

/// The acts in a head's history of a job, from `began_s` (seconds since the Unix epoch) on.
pub(crate) fn lived(job: usize, history: &[HistoryEntry], began_s: f64) -> Vec<Moment> {
    let mut acts = Vec::new();
    let mut places = Vec::new();
    for entry in history {
        let act = match entry.happened() {
            Some(Event::JobPlaced(placed)) => {
                places = placed.shares.iter().map(|share| (share.node, share.devices.clone())).collect();
                continue;
            }
            Some(Event::JobLaunched(_)) => Act::Launch { job, places: places.clone() },
            Some(Event::JobStopping(stopping))
                if !matches!(stopping.why(), Why::Cancelled | Why::TimeLimit) =>
            {
                Act::Preempt { job }
            }
            _ => continue,
        };
        acts.push((entry.time_s - began_s, act));
    }
    acts
}

/// The first difference between two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Number of equal acts before it.
    pub after: usize,
    /// The act of the simulator.
    pub simulated: Option<Moment>,
    /// The act of the head.
    pub live: Option<Moment>,
}

/// The first act that differs; none where both did the same, in the same order. What the simulator does at one moment has no
/// order: on real machines it is carried out side by side.
pub(crate) fn first_difference(simulated: &[Moment], live: &[Moment]) -> Option<Difference> {
    let mut live = live.to_vec();
    live.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let mut at = 0;
    for group in simulated.chunk_by(|a, b| b.0 - a.0 <= SAME_MOMENT_S) {
        let mut expected = group.to_vec();
        expected.sort_by(|a, b| a.1.cmp(&b.1));
        let end = (at + group.len()).min(live.len());
        let mut found = live[at.min(end)..end].to_vec();
        found.sort_by(|a, b| a.1.cmp(&b.1));
        for (index, moment) in expected.iter().enumerate() {
            let other = found.get(index);
            if other.is_none_or(|other| other.1 != moment.1) {
                let (simulated, live) = (Some(moment.clone()), other.cloned());
                return Some(Difference { after: at + index, simulated, live });
            }
        }
        at += group.len();
    }
    let more = live.get(at)?;
    Some(Difference { after: at, simulated: None, live: Some(more.clone()) })
}

/// The shortest time between two moments at which something was done.
pub fn shortest_gap_s(acts: &[Moment]) -> Option<f64> {
    let gaps = acts.windows(2).map(|pair| pair[1].0 - pair[0].0).filter(|gap| *gap > SAME_MOMENT_S);
    gaps.reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use wharf_proto::{JobEvent, JobLaunched, JobPlaced, JobStopping, NodeDevices, RecordedSpec};

    use super::*;

    fn start(job: usize) -> Act {
        Act::Launch { job, places: vec![(0, vec![job as u32])] }
    }

    #[test]
    fn order_matters_between_moments_and_not_within_one() {
        let simulated = [(0.0, start(0)), (5.0, Act::Preempt { job: 0 }), (5.0, start(1)), (9.0, start(0))];
        let live = [(0.1, start(0)), (5.2, start(1)), (5.1, Act::Preempt { job: 0 }), (9.3, start(0))];
        assert_eq!(first_difference(&simulated, &live), None);
        let swapped = [(0.0, start(0)), (1.0, start(1))];
        let difference = first_difference(&swapped, &[(0.0, start(1)), (1.0, start(0))]).unwrap();
        assert_eq!((difference.after, difference.simulated), (0, Some((0.0, start(0)))));
    }

    #[test]
    fn missing_and_extra_launches_are_reported() {
        let both = [(0.0, start(0)), (1.0, start(1))];
        let missing = first_difference(&both, &both[..1]).unwrap();
        assert_eq!((missing.after, missing.simulated, missing.live), (1, Some((1.0, start(1))), None));
        let more = first_difference(&both[..1], &both).unwrap();
        assert_eq!((more.after, more.simulated, more.live), (1, None, Some((1.0, start(1)))));
        assert_eq!(first_difference(&[], &[]), None);
        assert!(first_difference(&both, &[]).is_some());
    }

    #[test]
    fn history_becomes_acts() {
        let entry = |time_s: f64, event: Event| HistoryEntry {
            time_s,
            event: Some(JobEvent { job_id: 0, event: Some(event) }),
            ..HistoryEntry::default()
        };
        let placed = |generation: u32, shares: &[(u32, &[u32])]| {
            let share = |&(node, devices): &(u32, &[u32])| NodeDevices { node, devices: devices.to_vec() };
            Event::JobPlaced(JobPlaced { generation, shares: shares.iter().map(share).collect() })
        };
        let launched = || Event::JobLaunched(JobLaunched { ready_s: 3.0, iteration_s: 0.1 });
        let stopping = |why: Why| Event::JobStopping(JobStopping { why: why.into() });
        let history = [
            entry(101.0, Event::JobSubmitted(RecordedSpec::default())),
            entry(102.0, placed(1, &[(1, &[0, 3])])),
            entry(103.0, launched()),
            entry(105.0, stopping(Why::Moved)),
            entry(107.0, placed(2, &[(0, &[0]), (1, &[1])])),
            entry(108.0, launched()),
            entry(109.0, stopping(Why::Cancelled)),
        ];
        let acts: Vec<String> =
            lived(7, &history, 100.0).iter().map(|(at, act)| format!("{at} {act}")).collect();
        assert_eq!(acts, ["3 job 7 starts on 1:0,3", "5 job 7 is stopped", "8 job 7 starts on 0:0 1:1"]);
    }

    #[test]
    fn gaps_leave_out_what_happens_at_once() {
        let acts = [(0.0, start(0)), (0.0, start(1)), (4.0, start(2)), (4.75, start(3))];
        assert_eq!(shortest_gap_s(&acts), Some(0.75));
        assert_eq!(shortest_gap_s(&acts[..2]), None);
    }
}
