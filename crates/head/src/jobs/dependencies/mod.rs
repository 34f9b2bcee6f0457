//! Jobs that wait for other jobs.

pub(crate) mod resolve;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use wharf_core::{JobEnd, JobId, JobState, Phase};
use wharf_proto::dependency::Kind as DependencyKind;

/// One job that others wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) kind: DependencyKind,
    pub(crate) job: u32,
}

/// Jobs with consecutive ids that wait for the same others.
#[derive(Clone, Debug)]
pub(crate) struct DependentJobs {
    pub(crate) jobs: Range<u32>,
    pub(crate) edges: Vec<Edge>,
    /// One of them is enough.
    pub(crate) is_any: bool,
    /// The user whose jobs wait.
    pub(crate) owner: Arc<str>,
}

/// Whether a job may start as far as other jobs are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    Open,
    Impossible,
}

/// Dependencies that are neither met nor impossible yet, and what each still waits for: the end of a job costs what depends on it.
#[derive(Default)]
pub(crate) struct OpenDependencies {
    /// By their first job, with how many edges are still open.
    groups: BTreeMap<u32, (DependentJobs, usize)>,
    by_target: BTreeMap<u32, Vec<(u32, DependencyKind)>>,
    /// The number of edges of all dependencies of a user.
    edges: BTreeMap<Arc<str>, u64>,
}

impl OpenDependencies {
    /// Judges the dependencies of jobs, and stores them where that is not possible yet. `life_of` gives `None` for a job that does not exist.
    pub(crate) fn add<'a>(
        &mut self,
        group: &DependentJobs,
        life_of: impl Fn(u32) -> Option<&'a JobState>,
    ) -> Verdict {
        let mut open = Vec::new();
        for edge in &group.edges {
            match life_of(edge.job).map_or(Some(false), |life| is_ok(edge.kind, life)) {
                Some(true) if group.is_any => return Verdict::Met,
                Some(false) if !group.is_any => return Verdict::Impossible,
                Some(_) => {}
                None => open.push(*edge),
            }
        }
        if open.is_empty() {
            return if group.is_any { Verdict::Impossible } else { Verdict::Met };
        }
        for edge in &open {
            self.by_target.entry(edge.job).or_default().push((group.jobs.start, edge.kind));
        }
        *self.edges.entry(group.owner.clone()).or_default() += group.edges.len() as u64;
        self.groups.insert(group.jobs.start, (group.clone(), open.len()));
        Verdict::Open
    }

    /// How many dependencies on single jobs the jobs of a user have.
    pub(crate) fn edges_of(&self, user: &str) -> u64 {
        self.edges.get(user).copied().unwrap_or(0)
    }

    fn remove(&mut self, first: u32) -> Option<DependentJobs> {
        let (group, _) = self.groups.remove(&first)?;
        if let Some(count) = self.edges.get_mut(&group.owner) {
            *count = count.saturating_sub(group.edges.len() as u64);
            if *count == 0 {
                self.edges.remove(&group.owner);
            }
        }
        Some(group)
    }

    /// The dependencies of a job.
    pub(crate) fn of(&self, job: JobId) -> Option<&DependentJobs> {
        let (_, (group, _)) = self.groups.range(..=job.0).next_back()?;
        group.jobs.contains(&job.0).then_some(group)
    }

    /// Takes out the dependencies that the start or the end of a job decides.
    pub(crate) fn judged(&mut self, target: JobId, life: &JobState) -> Vec<(DependentJobs, Verdict)> {
        let Some(waiting) = self.by_target.remove(&target.0) else { return Vec::new() };
        let mut judged = Vec::new();
        let mut open = Vec::new();
        for (first, kind) in waiting {
            // One that was impossible for another reason is gone.
            let Some((group, left)) = self.groups.get_mut(&first) else { continue };
            let Some(is_ok) = is_ok(kind, life) else {
                open.push((first, kind));
                continue;
            };
            let verdict = if is_ok { Verdict::Met } else { Verdict::Impossible };
            // Of all, the last one decides, unless it decides for the worse; of any, the other way round.
            if is_ok != group.is_any {
                *left -= 1;
                if *left > 0 {
                    continue;
                }
            }
            judged.extend(self.remove(first).map(|group| (group, verdict)));
        }
        if !open.is_empty() {
            self.by_target.insert(target.0, open);
        }
        judged
    }
}

/// Whether a dependency is met by what has become of a job; `None` where that is not decided yet.
fn is_ok(kind: DependencyKind, life: &JobState) -> Option<bool> {
    match (kind, life.phase) {
        (DependencyKind::After, _) if life.first_start.is_some() => Some(true),
        (DependencyKind::After | DependencyKind::AfterAny | DependencyKind::Singleton, Phase::Ended(_)) => {
            Some(true)
        }
        (DependencyKind::AfterOk | DependencyKind::AfterCorr, Phase::Ended(end)) => {
            Some(end == JobEnd::Finished)
        }
        (DependencyKind::AfterNotOk, Phase::Ended(end)) => Some(end != JobEnd::Finished),
        _ => None,
    }
}
