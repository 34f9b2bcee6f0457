//! Whether those who are told of a job can be.

use wharf_proto::{Notify, notify};

use super::{CheckError, Problem, check_command, wrong};
use crate::notify::{Webhook, is_mail_address};

pub(super) fn check(notify: &Notify) -> Result<(), CheckError> {
    if notify.command.is_empty() && notify.webhook.is_empty() && notify.mail.is_empty() {
        return wrong("notify", Problem::NoTarget);
    }
    if !notify.command.is_empty() {
        check_command("notify.command", &notify.command)?;
    }
    if !notify.webhook.is_empty() && Webhook::parse(&notify.webhook).is_none() {
        return wrong("notify.webhook", Problem::Address(shown(&notify.webhook)));
    }
    if !notify.mail.is_empty() && !is_mail_address(&notify.mail) {
        return wrong("notify.mail", Problem::Mail(notify.mail.escape_debug().to_string()));
    }
    match notify.on.iter().find(|&&moment| notify::Moment::try_from(moment).is_err()) {
        None => Ok(()),
        Some(moment) => {
            let known = "started, preempted, finished, failed or cancelled".to_owned();
            wrong("notify.on", Problem::Unknown { given: moment.to_string(), known })
        }
    }
}

/// An address without what may be secret in it: everything after the host.
fn shown(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}
