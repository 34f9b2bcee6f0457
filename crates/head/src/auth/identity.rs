//! Who makes a request, and what belongs to them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use wharf_job::check::is_name;
use wharf_proto::job_event::Event;
use wharf_proto::tonic::{Request, Status};
use wharf_proto::{HistoryEntry, InfoReply, JobDetail, JobSpec, JobSummary, Role};

use crate::jobs::secrets::mask;

/// What a token may be used for; each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Nothing that people do: a worker's credential.
    None,
    /// List and show; read the output of own jobs.
    ReadOnly,
    /// Submit, change own jobs and run commands in them.
    Submit,
    /// Change jobs of all users, and nodes.
    Operate,
    /// Tokens, policy, limits and the audit log; submit for others and read their output.
    Administer,
}

impl Scope {
    /// The scope of a token with that role: a scope narrows a role and never widens it.
    pub(crate) fn of(role: Role, scope: Option<Self>) -> Self {
        let most = match role {
            Role::Admin => Self::Administer,
            Role::User => Self::Submit,
            Role::Worker => Self::None,
        };
        scope.map_or(most, |scope| scope.min(most))
    }

    /// The scope that a request names; `None` for all that the role may do.
    pub(crate) fn from_wire(scope: wharf_proto::Scope) -> Option<Self> {
        match scope {
            wharf_proto::Scope::WholeRole => None,
            wharf_proto::Scope::ReadOnly => Some(Self::ReadOnly),
            wharf_proto::Scope::SubmitOwn => Some(Self::Submit),
            wharf_proto::Scope::Operate => Some(Self::Operate),
            wharf_proto::Scope::Administer => Some(Self::Administer),
        }
    }

    pub(crate) fn to_wire(self) -> wharf_proto::Scope {
        match self {
            Self::None => wharf_proto::Scope::WholeRole,
            Self::ReadOnly => wharf_proto::Scope::ReadOnly,
            Self::Submit => wharf_proto::Scope::SubmitOwn,
            Self::Operate => wharf_proto::Scope::Operate,
            Self::Administer => wharf_proto::Scope::Administer,
        }
    }

    /// As the command line calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "worker",
            Self::ReadOnly => "read-only",
            Self::Submit => "submit",
            Self::Operate => "operate",
            Self::Administer => "admin",
        }
    }
}

/// Who a request is from, as its token or certificate proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) role: Role,
    /// The user of the token; empty for workers.
    pub(crate) user: String,
    /// The node that a worker's certificate is for, or the only one that its token may join as.
    pub(crate) node: Option<String>,
    /// It was proved by a certificate.
    pub(crate) is_certified: bool,
    /// It may join as a node that has joined already.
    pub(crate) may_replace: bool,
    pub(crate) scope: Scope,
    /// The id of the token or certificate.
    pub(crate) id: String,
    /// The SHA-256 of the certificate's key.
    pub(crate) key: Option<[u8; 32]>,
    /// Where the request comes from.
    pub(crate) address: Option<IpAddr>,
    /// The job and the placement whose task makes the request; none for people and workers.
    pub(crate) task: Option<(u32, u32)>,
}

/// What a role is called.
pub(crate) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Admin => "admin",
        Role::User => "user",
        Role::Worker => "worker",
    }
}

impl Identity {
    /// A task of a job, which may run commands beside the tasks of its own placement and nothing else.
    pub(crate) fn of_task(job: u32, generation: u32, address: Option<IpAddr>) -> Self {
        Self {
            role: Role::User,
            user: String::new(),
            node: None,
            is_certified: false,
            may_replace: false,
            scope: Scope::None,
            id: format!("task-{job}-{generation}"),
            key: None,
            address,
            task: Some((job, generation)),
        }
    }

    /// Who a request is from; the guard has put it there.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let missing = || Status::internal("the request passed no guard; this is a bug in Wharf");
        request.extensions().get::<Self>().cloned().ok_or_else(missing)
    }

    /// Whether a job of that user is their own.
    fn is_own(&self, owner: &str) -> bool {
        self.role != Role::Worker && !owner.is_empty() && self.user == owner
    }

    /// Whether they may see the command, the output and the failures of that user's jobs.
    pub(crate) fn may_read(&self, owner: &str) -> bool {
        self.scope >= Scope::Administer || self.is_own(owner)
    }

    /// Whether they may change that user's jobs.
    pub(crate) fn may_change(&self, owner: &str) -> bool {
        self.scope >= Scope::Operate || self.scope >= Scope::Submit && self.is_own(owner)
    }

    /// Why they may not change a job of that user; `None` where they may.
    pub(crate) fn refusal(&self, job_id: u32, owner: &str) -> Option<String> {
        (!self.may_change(owner)).then(|| foreign(job_id, owner))
    }

    /// Fails where they may not read a job's output, or run commands in it.
    pub(crate) fn must_read(&self, job_id: u32, owner: &str) -> Result<(), Status> {
        if self.may_read(owner) { Ok(()) } else { Err(Status::permission_denied(foreign(job_id, owner))) }
    }

    /// Writes whose job it is into a spec: the requesting user's, or one set by an administrator.
    pub(crate) fn claim(&self, spec: &mut JobSpec) -> Result<(), Status> {
        let notifies = spec.notify.as_ref().is_some_and(|notify| !notify.command.is_empty());
        if notifies && self.scope < Scope::Administer {
            // It would be a way to run anything as whom the head runs as.
            let reason =
                "permission denied: a notification command runs on the head, as an admin may; use a webhook";
            return Err(Status::permission_denied(reason));
        }
        if spec.user.is_empty() || spec.user == self.user {
            spec.user.clone_from(&self.user);
            return Ok(());
        }
        if self.scope < Scope::Administer {
            let reason = format!("permission denied: only an admin may submit as {}", spec.user);
            return Err(Status::permission_denied(reason));
        }
        if is_name(&spec.user) { Ok(()) } else { Err(Status::invalid_argument(bad_name("user", &spec.user))) }
    }

    /// Takes out of a job's detail what only its owner may see. What is kept is named, so that what is added later is hidden.
    pub(crate) fn redact(&self, mut detail: JobDetail) -> JobDetail {
        if let Some(summary) = detail.summary.take() {
            if !self.may_read(&summary.user) {
                detail.history.iter_mut().for_each(redact_entry);
                detail.checkpoint_dir.clear();
            }
            detail.summary = Some(self.redact_summary(summary));
        }
        if let Some(mut spec) = detail.spec.take() {
            mask(&mut spec);
            detail.spec = Some(if self.may_read(&spec.user) {
                spec
            } else {
                JobSpec {
                    name: spec.name,
                    user: spec.user,
                    gang: spec.gang,
                    priority: spec.priority,
                    time_limit_s: spec.time_limit_s,
                    dependencies: spec.dependencies,
                    held: spec.held,
                    pool: spec.pool,
                    array: spec.array,
                    ..JobSpec::default()
                }
            });
        }
        detail
    }

    /// Removes from a job's summary what only its owner may see: the text of a failure may name files and arguments.
    pub(crate) fn redact_summary(&self, mut summary: JobSummary) -> JobSummary {
        if !self.may_read(&summary.user) {
            summary.reason = public_reason(&summary);
        }
        summary
    }

    /// Writes into a head's description who asked for it.
    pub(crate) fn sign(self, info: InfoReply) -> InfoReply {
        InfoReply { role: role_name(self.role).to_owned(), user: self.user, ..info }
    }

    /// Fails where a worker's certificate is for another node.
    pub(crate) fn must_be_node(&self, node: &str) -> Result<(), Status> {
        match &self.node {
            Some(own) if own == node => Ok(()),
            Some(own) => {
                let reason =
                    format!("permission denied: this worker's certificate is for `{own}`, not `{node}`");
                Err(Status::permission_denied(reason))
            }
            None => {
                Err(Status::permission_denied("permission denied: a worker needs a certificate to register"))
            }
        }
    }
}

fn foreign(job_id: u32, owner: &str) -> String {
    let owner = if owner.is_empty() { "an unknown user" } else { owner };
    format!("permission denied: job {job_id} belongs to {owner}")
}

/// The failure that users see of jobs that are not theirs.
pub(crate) const REDACTED: &str = "only its owner and admins see the reason";

/// A summary's reason for those who may not read the job: the head's own words, and not what a worker reported.
pub(crate) fn public_reason(summary: &JobSummary) -> String {
    let is_failure = summary.phase() == wharf_proto::JobPhase::Failed || !summary.causes.is_empty();
    if is_failure && !summary.reason.is_empty() { REDACTED.to_owned() } else { summary.reason.clone() }
}

/// Removes the text of a failure from a job's history.
fn redact_entry(entry: &mut HistoryEntry) {
    redact_record(&mut entry.what);
    if let Some(Event::JobNoted(reason)) = entry.event.as_mut().and_then(|event| event.event.as_mut()) {
        REDACTED.clone_into(reason);
    }
}

/// Removes the text of a failure from a record of the journal.
pub(crate) fn redact_record(record: &mut String) {
    if record.starts_with("{\"job_noted\"") {
        *record = serde_json::json!({ "job_noted": { "reason": REDACTED } }).to_string();
    }
}

pub(crate) fn bad_name(what: &str, name: &str) -> String {
    let name = name.escape_debug();
    format!("`{name}` is not a valid {what} name: expected up to 64 letters, digits, `_`, `-` and `.`")
}

#[cfg(test)]
mod tests {
    use wharf_proto::Notify;

    use super::*;

    fn identity(role: Role, user: &str) -> Identity {
        Identity {
            role,
            user: user.into(),
            node: None,
            is_certified: false,
            may_replace: false,
            scope: Scope::of(role, None),
            id: "1f2e3d4c".into(),
            key: None,
            address: None,
            task: None,
        }
    }

    #[test]
    fn jobs_belong_to_who_submitted_them() {
        let cases = [
            (identity(Role::Admin, "root"), "", Ok("root")),
            (identity(Role::Admin, "root"), "ann", Ok("ann")),
            (identity(Role::Admin, "root"), "-x", Err("`-x` is not a valid user name")),
            (identity(Role::User, "ann"), "", Ok("ann")),
            (identity(Role::User, "ann"), "ann", Ok("ann")),
            (identity(Role::User, "ann"), "bob", Err("only an admin may submit as bob")),
        ];
        for (asker, wanted, expected) in cases {
            let mut spec = JobSpec { user: wanted.into(), ..JobSpec::default() };
            let claimed = asker.claim(&mut spec);
            match expected {
                Ok(user) => assert_eq!((claimed.is_ok(), spec.user.as_str()), (true, user)),
                Err(why) => assert!(claimed.unwrap_err().message().contains(why), "{wanted}"),
            }
        }
    }

    #[test]
    fn users_run_nothing_on_the_head() {
        let notify = Some(Notify { command: vec!["/bin/sh".into()], ..Notify::default() });
        let mut spec = JobSpec { notify, ..JobSpec::default() };
        assert!(identity(Role::User, "ann").claim(&mut spec).unwrap_err().message().contains("webhook"));
        assert!(identity(Role::Admin, "root").claim(&mut spec).is_ok());
    }

    #[test]
    fn strangers_see_no_secrets() {
        let spec = JobSpec {
            name: "train".into(),
            user: "ann".into(),
            command: vec!["python".into(), "--key=hunter2".into()],
            env: [("TOKEN".into(), "hunter2".into())].into(),
            workdir: "/data/hunter2".into(),
            activate: vec!["export KEY=hunter2".into()],
            ..JobSpec::default()
        };
        let noted = Event::JobNoted("cannot open /data/hunter2".into());
        let history = vec![HistoryEntry {
            what: r#"{"job_noted":{"job":3,"reason":"cannot open /data/hunter2"}}"#.into(),
            event: Some(wharf_proto::JobEvent { job_id: 3, event: Some(noted) }),
            ..HistoryEntry::default()
        }];
        let summary = JobSummary {
            user: "ann".into(),
            phase: wharf_proto::JobPhase::Failed.into(),
            reason: "cannot open /data/hunter2".into(),
            ..JobSummary::default()
        };
        let detail = JobDetail { spec: Some(spec), summary: Some(summary), history, ..JobDetail::default() };
        for (asker, sees) in [
            (identity(Role::Admin, "root"), true),
            (identity(Role::User, "ann"), true),
            (identity(Role::User, "bob"), false),
            (identity(Role::Worker, "ann"), false),
        ] {
            let shown = asker.redact(detail.clone());
            assert_eq!(format!("{shown:?}").contains("hunter2"), sees, "{asker:?}");
            assert_eq!(shown.spec.unwrap().name, "train");
            assert_eq!(shown.summary.unwrap().reason == REDACTED, !sees);
        }
        let operator = Identity { scope: Scope::Operate, ..identity(Role::Admin, "root") };
        assert!(operator.may_change("ann") && !operator.may_read("ann"));
        let reader = Identity { scope: Scope::ReadOnly, ..identity(Role::User, "ann") };
        assert!(!reader.may_change("ann") && reader.may_read("ann"));
        assert_eq!(
            identity(Role::User, "bob").refusal(3, "ann").unwrap(),
            "permission denied: job 3 belongs to ann"
        );
        assert_eq!(
            identity(Role::User, "").refusal(3, "").unwrap(),
            "permission denied: job 3 belongs to an unknown user"
        );
    }
}
