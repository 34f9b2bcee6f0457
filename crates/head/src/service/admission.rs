//! Which jobs are accepted from whom, before the dispatcher hears of them.

use tokio::sync::oneshot;
use wharf_proto::JobSpec;
use wharf_proto::tonic::Status;

use super::{Service, stopped};
use crate::auth::{Identity, Scope};
use crate::dispatcher::Input;
use crate::network::Network;
use crate::notify::Webhook;
use crate::ray::give_token;

/// The user whose jobs run with all rights where workers do.
const ROOT: &str = "root";

/// What an admin permits on this head.
pub(crate) struct Terms {
    /// Jobs of root are accepted although the head serves several users.
    pub(crate) allow_root: bool,
    /// Networks that webhooks may target although they are not public.
    pub(crate) webhook_allow: Vec<Network>,
    /// The highest priority that a user may give to a job.
    pub(crate) user_priority: i32,
}

impl Service {
    /// Submits jobs; returns their ids.
    pub(super) async fn submit_as(
        &self,
        identity: &Identity,
        mut specs: Vec<JobSpec>,
    ) -> Result<Vec<u32>, Status> {
        specs.iter_mut().try_for_each(|spec| identity.claim(spec))?;
        specs.iter().try_for_each(check)?;
        specs.iter().try_for_each(|spec| self.check_root(identity, spec))?;
        specs.iter().try_for_each(|spec| self.check_webhook(spec))?;
        specs.iter().try_for_each(|spec| self.check_priority(identity, spec))?;
        specs.iter_mut().try_for_each(give_token).map_err(|error| Status::internal(error.to_string()))?;
        let (reply, receiver) = oneshot::channel();
        self.send(Input::Submit { specs, reply })?;
        receiver.await.map_err(|_| stopped())?.map_err(Status::failed_precondition)
    }

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

    /// Fails where a job would run as root on a head that serves several users, and nobody has said that it may.
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
}

/// Whether a submitted job makes sense.
fn check(spec: &JobSpec) -> Result<(), Status> {
    crate::check::check(spec).map_err(|error| Status::invalid_argument(error.to_string()))
}
