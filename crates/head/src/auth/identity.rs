//! Who asks, and what is theirs.

use wharf_proto::tonic::{Request, Status};
use wharf_proto::{InfoReply, JobDetail, JobSpec, Role};

/// Who a request is from, as its token or certificate proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) role: Role,
    /// Whose the token is; empty for workers.
    pub(crate) user: String,
    /// The node that a worker's certificate is for, or the only one that its token may join as.
    pub(crate) node: Option<String>,
    /// It was proved by a certificate.
    pub(crate) is_certified: bool,
    /// It may join as a node that has joined already.
    pub(crate) may_replace: bool,
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
    /// Who a request is from; the guard has put it there.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let missing = || Status::internal("the request passed no guard; this is a bug in Wharf");
        request.extensions().get::<Self>().cloned().ok_or_else(missing)
    }

    /// Whether a job of that user is theirs to change and to look into.
    pub(crate) fn owns(&self, owner: &str) -> bool {
        self.role == Role::Admin || self.role == Role::User && !owner.is_empty() && self.user == owner
    }

    /// Why a job of that user is not theirs; `None` where it is.
    pub(crate) fn refusal(&self, job_id: u32, owner: &str) -> Option<String> {
        let whose = if owner.is_empty() { "nobody" } else { owner };
        (!self.owns(owner)).then(|| format!("permission denied: job {job_id} belongs to {whose}"))
    }

    /// Fails where a job is not theirs.
    pub(crate) fn must_own(&self, job_id: u32, owner: &str) -> Result<(), Status> {
        self.refusal(job_id, owner).map_or(Ok(()), |reason| Err(Status::permission_denied(reason)))
    }

    /// Writes whose job it is into a spec: the asker's, unless an administrator says otherwise.
    pub(crate) fn claim(&self, spec: &mut JobSpec) -> Result<(), Status> {
        let notifies = spec.notify.as_ref().is_some_and(|notify| !notify.command.is_empty());
        if notifies && self.role != Role::Admin {
            // It would be a way to run anything as whom the head runs as.
            let reason =
                "permission denied: a notification command runs on the head, as an admin may; use a webhook";
            return Err(Status::permission_denied(reason));
        }
        if spec.user.is_empty() || spec.user == self.user {
            spec.user.clone_from(&self.user);
            return Ok(());
        }
        if self.role != Role::Admin {
            let reason = format!("permission denied: only an admin may submit as {}", spec.user);
            return Err(Status::permission_denied(reason));
        }
        if is_name(&spec.user) { Ok(()) } else { Err(Status::invalid_argument(bad_name("user", &spec.user))) }
    }

    /// Takes out of a job's detail what only its owner may see. What is kept is named, so that what is added later is hidden.
    pub(crate) fn redact(&self, mut detail: JobDetail) -> JobDetail {
        if let Some(spec) = detail.spec.take() {
            detail.spec = Some(if self.owns(&spec.user) {
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

/// Whether a text can be the name of a user or a node: nothing that a path, a shell or an option could misread.
pub(crate) fn is_name(text: &str) -> bool {
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    !text.is_empty() && text.len() <= 64 && text.chars().all(is_fine) && !text.starts_with(['-', '.'])
}

pub(crate) fn bad_name(what: &str, name: &str) -> String {
    format!("`{name}` is no name of a {what}: up to 64 letters, digits, `_`, `-` and `.` are")
}

#[cfg(test)]
mod tests {
    use wharf_proto::Notify;

    use super::*;

    fn identity(role: Role, user: &str) -> Identity {
        Identity { role, user: user.into(), node: None, is_certified: false, may_replace: false }
    }

    #[test]
    fn jobs_belong_to_who_submitted_them() {
        let cases = [
            (identity(Role::Admin, "root"), "", Ok("root")),
            (identity(Role::Admin, "root"), "ann", Ok("ann")),
            (identity(Role::Admin, "root"), "-x", Err("`-x` is no name of a user")),
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
            command: vec!["python".into(), "--key=secret".into()],
            env: [("TOKEN".into(), "secret".into())].into(),
            workdir: "/data/secret".into(),
            activate: vec!["export KEY=secret".into()],
            ..JobSpec::default()
        };
        let detail = JobDetail { spec: Some(spec), ..JobDetail::default() };
        for (asker, sees) in [
            (identity(Role::Admin, "root"), true),
            (identity(Role::User, "ann"), true),
            (identity(Role::User, "bob"), false),
            (identity(Role::Worker, "ann"), false),
        ] {
            let shown = asker.redact(detail.clone());
            assert_eq!(format!("{shown:?}").contains("secret"), sees, "{asker:?}");
            assert_eq!(shown.spec.unwrap().name, "train");
        }
        assert_eq!(
            identity(Role::User, "bob").refusal(3, "ann").unwrap(),
            "permission denied: job 3 belongs to ann"
        );
        assert_eq!(
            identity(Role::User, "").refusal(3, "").unwrap(),
            "permission denied: job 3 belongs to nobody"
        );
    }
}
