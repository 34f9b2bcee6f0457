//! Job filters.

use wharf_core::{JobId, JobState, Phase};
use wharf_proto::change_jobs_request::Change;
use wharf_proto::{Cause, ChangeJobsReply, ChangeJobsRequest, JobFilter};

use crate::dispatcher::Dispatcher;
use crate::query::views;

/// Whether a job is one of those that a filter is for.
pub(crate) fn matches(dispatcher: &Dispatcher, filter: &JobFilter, job: JobId) -> bool {
    let state = dispatcher.engine.state();
    let (spec, life) = (state.spec(job), state.job(job));
    let unix_s = |time: wharf_core::Time| dispatcher.clock.unix_s(time);
    let pool = || spec.gang.needs.as_ref().and_then(|needs| needs.pool.as_deref()).unwrap_or_default();
    let has_failed = |cause: Cause| {
        dispatcher.log.state.failure_count(job, cause) > 0 || views::cause(dispatcher, job) == cause
    };
    let phase = views::phase(life);
    (!filter.live_only || !life.is_ended())
        && (filter.phases.is_empty() || filter.phases().any(|wanted| wanted == phase))
        && filter.user.as_ref().is_none_or(|user| spec.user.as_deref().unwrap_or_default() == user)
        && filter.account.as_ref().is_none_or(|account| dispatcher.log.state.account(job.0) == account)
        && filter.pool.as_ref().is_none_or(|wanted| pool() == wanted)
        && filter.until_s.is_none_or(|until_s| unix_s(spec.submit) < until_s)
        && filter.since_s.is_none_or(|since_s| life.end.is_none_or(|end| unix_s(end) >= since_s))
        && (filter.name.is_empty() || is_named(&filter.name, &spec.name))
        && (filter.cause() == Cause::NoCause || has_failed(filter.cause()))
}

/// Whether a name is as the pattern says: `*` is anything, `?` one letter; without either it is a part of the name.
fn is_named(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return name.contains(pattern);
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut of) = (0, 0);
    // Where the last star was, and how much it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of));
                at += 1;
            }
            Some(&letter) if letter == '?' || letter == name[of] => {
                at += 1;
                of += 1;
            }
            _ => match &mut star {
                Some((back, taken)) => {
                    *taken += 1;
                    (at, of) = (*back + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&letter| letter == '*')
}

/// Whether a change can be made to a job as it is.
fn can(change: Change, life: &JobState) -> bool {
    match change {
        Change::Cancel | Change::Priority | Change::Keep | Change::TimeLimit | Change::Rename => {
            !life.is_ended()
        }
        Change::Step => true,
        Change::Hold | Change::Begin => matches!(life.phase, Phase::Waiting | Phase::Held),
        Change::Signal => life.phase == Phase::Running,
        Change::Release => life.phase == Phase::Held,
        Change::Requeue => matches!(life.phase, Phase::Placed | Phase::Running),
    }
}

impl Dispatcher {
    /// Changes all jobs of an owner that match, at one moment; `None` selects all owners.
    pub(crate) fn change_matching(
        &mut self,
        request: &ChangeJobsRequest,
        owner: Option<&str>,
        by: &str,
    ) -> ChangeJobsReply {
        let Some(filter) = &request.filter else { return ChangeJobsReply::default() };
        let state = self.engine.state();
        let is_theirs = |job: JobId| match owner {
            Some(owner) => !owner.is_empty() && state.spec(job).user.as_deref() == Some(owner),
            None => true,
        };
        let is_meant = |&job: &JobId| {
            can(request.change(), state.job(job)) && is_theirs(job) && matches(self, filter, job)
        };
        let found: Vec<JobId> = match owner {
            Some(owner) => self.jobs.live_of(owner).iter().map(|&job| JobId(job)).filter(is_meant).collect(),
            None => state.jobs().map(|(job, _, _)| job).filter(is_meant).collect(),
        };
        let matched = found.iter().map(|&job| views::summary(self, job)).collect();
        if request.dry_run {
            return ChangeJobsReply { matched, ..ChangeJobsReply::default() };
        }
        let job_ids = found.iter().map(|job| job.0).collect();
        // Each element of an array was checked by itself.
        let named = ChangeJobsRequest { job_ids, elements_only: true, filter: None, ..request.clone() };
        let refused = self.change_jobs(&named, owner.is_some());
        self.note_change(&named, &refused, by);
        ChangeJobsReply { refused, matched }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_patterns() {
        for (pattern, name, expected) in [
            ("bert", "train-bert-3", true),
            ("bert", "train", false),
            ("sweep-*", "sweep-12", true),
            ("sweep-*", "my-sweep-12", false),
            ("*-12", "sweep-12", true),
            ("a*b*c", "aXXbYYbc", true),
            ("a*b*c", "aXXbYYb", false),
            ("?", "x", true),
            ("?", "xy", false),
            ("ä?", "äö", true),
            ("*", "", true),
            ("[a]*", "[a]b", true),
        ] {
            assert_eq!(is_named(pattern, name), expected, "{pattern} {name}");
        }
    }
}
