//! What jobs on one machine mean for each other: who has to wait for whom, and how fast those run that share devices.

use crate::NodeShare;
use crate::ids::{JobId, NodeId};
use crate::job::JobSpec;
use crate::perf::PerfModel;
use crate::state::{Phase, State};

impl State {
    /// The jobs that have anything of a node's machine, ascending.
    pub(crate) fn jobs_on_machine(&self, node: NodeId) -> Vec<JobId> {
        let (mut all, mut jobs) = (Vec::new(), Vec::new());
        for group in self.topology().groups(node) {
            self.schedule().jobs_on(self.topology(), group, &mut jobs);
            all.append(&mut jobs);
            all.extend_from_slice(self.schedule().guests(group));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether something of the job's placement is still held by a job that was requested to leave it.
    pub fn is_blocked(&self, job: JobId) -> bool {
        let placement = self.schedule().placement(job).unwrap_or_default();
        let is_vacating = |share: &NodeShare| {
            let first = self.topology().node(share.node).first_device;
            share.devices.iter().any(|device| self.vacating[(first + device) as usize] > 0)
        };
        placement.iter().any(is_vacating) || self.is_short(job, placement)
    }

    /// Whether what leaving jobs still have beside devices keeps a job from starting: with it, more than there is would be used.
    fn is_short(&self, job: JobId, placement: &[NodeShare]) -> bool {
        let placed = self.schedule().accounts();
        let is_alone = |node: NodeId| self.leaving.is_exclusive(self.topology().node(node).host);
        if placement.iter().any(|share| is_alone(share.node)) {
            return true;
        }
        let gang = &self.spec(job).gang;
        if gang.needs.is_none() {
            return false;
        }
        let licence = |name: &str| {
            let left = self.leaving.licences(name);
            left > 0 && placed.licences(name) + left > crate::accounts::licences_of(self.topology(), name)
        };
        if gang.licences().any(|(name, _)| licence(name)) {
            return true;
        }
        placement.iter().any(|share| {
            let host = self.topology().node(share.node).host;
            let (here, left) = (placed.machine(host), self.leaving.machine(host));
            let Some(charge) = gang.charge(share) else { return false };
            if charge.request.is_exclusive && self.is_vacating(host) {
                return true;
            }
            let (cpu_milli, memory_mib) = self.topology().machine_amounts(host);
            left.shares > 0
                && (here.cpu_milli.saturating_add(left.cpu_milli) > cpu_milli
                    || here.memory_mib.saturating_add(left.memory_mib) > memory_mib
                    || charge.named().any(|(name, _)| {
                        placed.named(host, name) + self.leaving.named(host, name)
                            > self.topology().resource(host, name)
                    }))
        })
    }

    /// Whether any job is leaving a machine.
    fn is_vacating(&self, host: NodeId) -> bool {
        self.leaving.machine(host).shares > 0
            || self.topology().groups(host).any(|group| {
                let node = self.topology().node(group);
                let devices = node.first_device as usize..(node.first_device + node.spec.devices) as usize;
                self.vacating[devices].iter().any(|&count| count > 0)
            })
    }
}

/// How fast a job runs beside those that run on its devices now: a gang is as slow as on its slowest device.
pub(crate) fn iteration_s(state: &State, perf: &dyn PerfModel, job: JobId) -> f64 {
    let placement = state.schedule().placement(job).unwrap_or_default();
    let beside = |others: &[JobId]| {
        let neighbours: Vec<&JobSpec> = others.iter().map(|&other| state.spec(other)).collect();
        perf.iteration_s(state.topology(), state.spec(job), placement, &neighbours)
    };
    // A part of a device is the job's own: the speed that it declares is the one that it has there.
    if !state.schedule().is_sharing() || state.spec(job).gang.device_part().is_some() {
        return beside(&[]);
    }
    let mut seen: Vec<Vec<JobId>> = Vec::new();
    for share in placement {
        for device in share.devices.iter() {
            let mut others: Vec<JobId> = state
                .schedule()
                .occupants(state.topology(), share.node, device)
                .filter(|&other| other != job && state.job(other).phase == Phase::Running)
                .collect();
            others.sort_unstable();
            if !seen.contains(&others) {
                seen.push(others);
            }
        }
    }
    seen.iter().map(|others| beside(others)).reduce(f64::max).unwrap_or_else(|| beside(&[]))
}
