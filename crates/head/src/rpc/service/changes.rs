//! Changes that people make, with their permissions and their entries in the audit log.

use std::collections::BTreeSet;

use tokio::sync::oneshot;
use wharf_core::{Command, JobId};
use wharf_job::check::check_label;
use wharf_proto::change_jobs_request::Change;
use wharf_proto::tonic::Status;
use wharf_proto::{
    ChangeJobsReply, ChangeJobsRequest, ChangeNodeRequest, JobSpec, Refusal, Resubmission, SubmitRequest,
};

use super::{Service, stopped};
use crate::auth::audit::{self, Subject, job_objects};
use crate::auth::{Identity, Scope};
use crate::dispatcher::Input;
use crate::dispatcher::request_error::with_cause;
use crate::jobs::accepted_requests::RequestKey;
use crate::jobs::amendments::{self, check_change};
use crate::jobs::ray::give_token;
use crate::jobs::request_limits::CapError;
use crate::notify::Webhook;
use crate::query::views;
use crate::tasks::exec_sessions;

/// The user whose jobs run with all rights where workers do.
const ROOT: &str = "root";

/// Whether a submitted job makes sense.
fn check(spec: &JobSpec) -> Result<(), Status> {
    wharf_job::check::check(spec).map_err(|error| Status::invalid_argument(error.to_string()))
}

impl Service {
    /// Fails where a webhook names an address that webhooks may not target.
    fn check_webhook(&self, spec: &JobSpec) -> Result<(), Status> {
        let webhook = spec.notify.as_ref().and_then(|notify| Webhook::parse(&notify.webhook));
        if webhook.is_some_and(|webhook| webhook.is_forbidden(&self.terms.webhook_allow)) {
            return Err(Status::invalid_argument(
                "notify.webhook: the address is not public; an admin allows it with `wharf head --webhook-allow NETWORK`",
            ));
        }
        Ok(())
    }

    /// Fails where a job would run as root on a head that serves several users without permission.
    fn check_root(&self, identity: &Identity, spec: &JobSpec) -> Result<(), Status> {
        if spec.user != ROOT || self.terms.allow_root || !self.access.has_other_users(ROOT) {
            return Ok(());
        }
        if !spec.allow_root {
            return Err(Status::failed_precondition(
                "the job would run as root, and this head serves several users; submit it as another user with `--user \
                 NAME`, or with `--allow-root`",
            ));
        }
        if identity.scope < Scope::Administer {
            return Err(Status::permission_denied(
                "permission denied: only an admin may submit with `--allow-root`",
            ));
        }
        Ok(())
    }

    /// Refuses a priority above what users may give.
    fn check_priority(&self, identity: &Identity, spec: &JobSpec) -> Result<(), Status> {
        let most = self.terms.user_priority;
        if identity.scope >= Scope::Operate || spec.priority <= most {
            return Ok(());
        }
        Err(Status::permission_denied(format!(
            "permission denied: priority {} is above {most}, the head's cap max_user_priority; ask an administrator",
            spec.priority
        )))
    }

    /// Takes the jobs that are not theirs out of a list, and states why.
    async fn take_foreign(&self, identity: &Identity, jobs: &mut Vec<u32>) -> Result<Vec<Refusal>, Status> {
        let mut refused = Vec::new();
        let mut own = Vec::new();
        let named: BTreeSet<u32> = jobs.iter().copied().collect();
        let owners = self.ask(move |dispatcher| {
            dispatcher.jobs.caps.check_request_jobs(named.len() as u64, "jobs")?;
            let owner = |job: u32| (job, views::owner(dispatcher, JobId(job)));
            Ok(named.into_iter().map(owner).collect::<Vec<_>>())
        });
        let owners = owners.await?.map_err(|error: CapError| Status::invalid_argument(error.to_string()))?;
        for (job_id, owner) in owners {
            let refusal = match owner {
                Some(owner) => identity.refusal(job_id, &owner),
                // It may be another's by the time that the change is made.
                None => Some(format!("there is no job {job_id}")),
            };
            match refusal {
                Some(reason) => refused.push(Refusal { job_id, reason }),
                None => own.push(job_id),
            }
        }
        *jobs = own;
        Ok(refused)
    }

    /// Changes what matches a filter, in one step of the dispatcher. Users are given their own jobs only.
    async fn change_matching(
        &self,
        identity: &Identity,
        request: ChangeJobsRequest,
    ) -> Result<ChangeJobsReply, Status> {
        if !request.job_ids.is_empty() {
            return Err(Status::invalid_argument("give job ids or a filter, not both"));
        }
        let user = request.filter.as_ref().map_or("", |filter| filter.user.as_deref().unwrap_or_default());
        let is_admin = identity.scope >= Scope::Operate;
        if !is_admin && !user.is_empty() && user != identity.user {
            return Err(Status::permission_denied(format!("permission denied: these jobs belong to {user}")));
        }
        let owner = (!is_admin).then(|| identity.user.clone());
        let (reply, receiver) = oneshot::channel();
        self.send(Input::ChangeMatching { request, owner, by: identity.user.clone(), reply })?;
        let mut changed = receiver.await.map_err(|_| stopped())?;
        changed.matched = changed.matched.into_iter().map(|job| identity.redact_summary(job)).collect();
        Ok(changed)
    }

    /// Submits jobs; returns their ids.
    pub(super) async fn submit_as(
        &self,
        identity: &Identity,
        request: SubmitRequest,
    ) -> Result<Vec<u32>, Status> {
        let SubmitRequest { jobs: mut specs, key, .. } = request;
        let key = RequestKey::new(&identity.user, key);
        let key = key.map_err(|error| Status::invalid_argument(error.to_string()))?;
        specs.iter_mut().try_for_each(|spec| identity.claim(spec))?;
        specs.iter().try_for_each(check)?;
        specs.iter().try_for_each(|spec| self.check_root(identity, spec))?;
        specs.iter().try_for_each(|spec| self.check_webhook(spec))?;
        specs.iter().try_for_each(|spec| self.check_priority(identity, spec))?;
        specs.iter_mut().try_for_each(give_token).map_err(|error| Status::internal(error.to_string()))?;
        let seal = |spec: &mut JobSpec| self.vault.seal(spec);
        specs.iter_mut().try_for_each(seal).map_err(|error| Status::internal(error.to_string()))?;
        let (reply, receiver) = oneshot::channel();
        self.send(Input::Submit { specs, key, reply })?;
        let submitted = receiver.await.map_err(|_| stopped())?;
        submitted.map_err(|error| Status::failed_precondition(with_cause(&error)))
    }

    /// What elements of an array were submitted as, for a user who may read it.
    pub(super) async fn submitted_before(
        &self,
        identity: &Identity,
        again: Resubmission,
    ) -> Result<JobSpec, Status> {
        let job = self.known(again.job_id).await?;
        identity.must_read(again.job_id, &self.owner(job).await?.unwrap_or_default())?;
        let (spec, elements) = self
            .ask(move |dispatcher| (dispatcher.log.journal.spec(job.0), dispatcher.elements(job)))
            .await?;
        let spec = spec.map_err(|error| Status::internal(error.to_string()))?;
        let gone = || Status::not_found(format!("the head no longer has the request of job {job}"));
        let spec = (*spec.ok_or_else(gone)?).clone();
        match again.indexes.iter().find(|index| !elements.contains(index)) {
            Some(index) => Err(Status::invalid_argument(format!("array {job} has no element {index}"))),
            None => Ok(JobSpec { array: again.indexes, ..spec }),
        }
    }

    pub(super) async fn change_jobs_as(
        &self,
        identity: &Identity,
        mut request: ChangeJobsRequest,
    ) -> Result<ChangeJobsReply, Status> {
        check_change(&request).map_err(|error| Status::invalid_argument(error.to_string()))?;
        if request.filter.is_some() {
            return self.change_matching(identity, request).await;
        }
        let mut refused = self.take_foreign(identity, &mut request.job_ids).await?;
        let (reply, receiver) = oneshot::channel();
        let is_user = identity.scope < Scope::Operate;
        self.send(Input::Change { request, is_user, by: identity.user.clone(), reply })?;
        refused.extend(receiver.await.map_err(|_| stopped())?);
        Ok(ChangeJobsReply { refused, ..ChangeJobsReply::default() })
    }

    /// Records a change of jobs, which may have been refused for some of them.
    pub(super) fn record_change(
        &self,
        identity: &Identity,
        change: Change,
        named: &[u32],
        changed: &Result<ChangeJobsReply, Status>,
    ) {
        let action = amendments::change_name(change);
        let Ok(reply) = changed else {
            let objects = job_objects(named.iter().copied());
            return self.access.audit.record(Subject::Jobs, identity, action, objects, changed);
        };
        let refused: BTreeSet<u32> = reply.refused.iter().map(|refusal| refusal.job_id).collect();
        let matched = reply.matched.iter().map(|job| job.job_id);
        let done: Vec<u32> =
            named.iter().copied().chain(matched).filter(|id| !refused.contains(id)).collect();
        if !done.is_empty() {
            let objects = job_objects(done);
            self.access.audit.record_with(Subject::Jobs, identity, action, objects, audit::OK, "");
        }
        if let Some(first) = reply.refused.first() {
            let objects = job_objects(reply.refused.iter().map(|refusal| refusal.job_id));
            self.access.audit.record_with(
                Subject::Jobs,
                identity,
                action,
                objects,
                audit::REFUSED,
                &first.reason,
            );
        }
    }

    /// The task that a command is to run beside.
    pub(super) async fn exec_place(
        &self,
        identity: &Identity,
        job_id: u32,
        rank: u32,
    ) -> Result<exec_sessions::TaskPlace, Status> {
        let job = self.known(job_id).await?;
        let generation = match identity.task {
            Some((own, generation)) if own == job_id => Some(generation),
            Some((own, _)) => {
                let reason = format!("permission denied: this is the token of a task of job {own}");
                return Err(Status::permission_denied(reason));
            }
            None => {
                identity.must_read(job_id, &self.owner(job).await?.unwrap_or_default())?;
                None
            }
        };
        self.ask(move |dispatcher| exec_sessions::place(dispatcher, job, rank, generation)).await?
    }

    pub(super) async fn change_node_health(&self, request: ChangeNodeRequest) -> Result<(), Status> {
        use wharf_proto::change_node_request::Change;
        check_label("reason", &request.reason)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let name = request.node.clone();
        let node = self.ask(move |dispatcher| views::node_named(dispatcher, &name)).await?;
        let missing = || Status::not_found(format!("there is no node `{}`", request.node.escape_debug()));
        let node = node.ok_or_else(missing)?;
        let (command, reason) = match request.change() {
            Change::Cordon => (Command::CordonNode(node), request.reason),
            Change::Drain => (Command::DrainNode(node), request.reason),
            Change::Resume => (Command::OpenNode(node), String::new()),
            Change::Remove => (Command::LoseNode(node), request.reason),
        };
        let (reply, receiver) = oneshot::channel();
        self.send(Input::ChangeNode { command, node, reason, reply })?;
        let result = receiver.await.map_err(|_| stopped())?;
        result.map_err(|error| Status::failed_precondition(with_cause(&error)))
    }
}
