//! The recipients of a job's notifications.

use http::Uri;
use wharf_proto::{Notify, notify};

use super::{CheckError, Problem, check_command, wrong};

/// Longest email address.
const ADDRESS_MAX: usize = 254;

pub(super) fn check(notify: &Notify) -> Result<(), CheckError> {
    if notify.command.is_empty() && notify.webhook.is_empty() && notify.mail.is_empty() {
        return wrong("notify", Problem::NoTarget);
    }
    if !notify.command.is_empty() {
        check_command("notify.command", &notify.command)?;
    }
    if !notify.webhook.is_empty() && WebhookUrl::parse(&notify.webhook).is_none() {
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

/// The URL of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookUrl {
    /// Whether it is `https`.
    pub is_tls: bool,
    /// The host: a name, or an address, in brackets if it has colons.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

impl WebhookUrl {
    /// Reads `http://HOST[:PORT]/PATH` or the same with https; `None` where it is something else.
    ///
    /// A name and a password in a URL are refused: they end up in logs.
    #[must_use]
    pub fn parse(address: &str) -> Option<Self> {
        let uri: Uri = address.parse().ok()?;
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return None;
        }
        // What follows the host and is no number is no port.
        let rest = authority.as_str().strip_prefix(authority.host())?;
        let port = match rest.strip_prefix(':') {
            Some(port) => port.parse().ok()?,
            None if is_tls => 443,
            None => 80,
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Some(Self { is_tls, host: authority.host().to_owned(), port, path })
    }
}

/// Whether an email address is valid: `NAME@HOST` of plain characters, nothing that a header or an option could be made of.
#[must_use]
pub fn is_mail_address(text: &str) -> bool {
    let Some((name, host)) = text.split_once('@') else { return false };
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(letter);
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || ".-".contains(letter);
    let is_whole = |part: &str| !part.is_empty() && !part.starts_with(['-', '.']) && !part.ends_with('.');
    text.len() <= ADDRESS_MAX
        && is_whole(name)
        && is_whole(host)
        && name.chars().all(is_plain)
        && host.chars().all(is_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_other_texts() {
        let shown = |address: &str| {
            let webhook = WebhookUrl::parse(address)?;
            let scheme = if webhook.is_tls { "https" } else { "http" };
            Some(format!("{scheme} {} {} {}", webhook.host, webhook.port, webhook.path))
        };
        for (address, expected) in [
            ("http://host", Some("http host 80 /")),
            ("https://chat.example/a/b?c=d", Some("https chat.example 443 /a/b?c=d")),
            ("http://127.0.0.1:8080/x", Some("http 127.0.0.1 8080 /x")),
            ("http://[::1]:8080/x", Some("http [::1] 8080 /x")),
            ("ftp://host/x", None),
            ("host/x", None),
            ("http://", None),
            ("http://name:word@host/", None),
            ("http://host:port/", None),
            ("http://host:99999/", None),
            ("http://a b/", None),
            ("", None),
        ] {
            assert_eq!(shown(address).as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn addresses_are_plain_or_refused() {
        for good in ["me@lab.org", "a.b+c@mail", "o'neil@x-y.example"] {
            assert!(is_mail_address(good), "{good}");
        }
        let long = format!("{}@x", "a".repeat(300));
        for bad in [
            "",
            "me",
            "@lab",
            "me@",
            "-oQ/tmp@x",
            "a b@x",
            "a@x\nBcc: y@z",
            "a@b@c",
            "a,b@x",
            "<a@x>",
            &long,
            "ä@x",
            "a@-x",
            "a@x.",
        ] {
            assert!(!is_mail_address(bad), "{bad}");
        }
    }
}
