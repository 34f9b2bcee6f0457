//! A notification as an email, sent by the machine's sendmail.

use std::fmt::Write as _;
use std::process::Stdio;

use tokio::process::Command;
use wharf_job::check::is_mail_address;
use wharf_web::base64;

use super::command::{PATH, feed_and_wait};
use super::{Notice, NotifyConfig, NotifyError};

/// Bytes of an encoded word: 60 letters of base64, and what makes it one, stay below the 75 that are allowed.
const WORD_BYTES: usize = 45;

/// Passes the email to sendmail and waits for it. The recipient is in the email, never in a command line.
pub(super) async fn send(notice: &Notice, config: &NotifyConfig) -> Result<(), NotifyError> {
    let program = config.sendmail.display().to_string();
    let email = email(notice).ok_or(NotifyError::Mail)?;
    let mut command = Command::new(&config.sendmail);
    command.args(["-t", "-i"]).env_clear().env("PATH", PATH).current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = |source| NotifyError::Start { program: program.clone(), source };
    let mut child = command.spawn().map_err(start)?;
    let ended = tokio::time::timeout(config.command_limit, feed_and_wait(&mut child, &email)).await;
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(NotifyError::Failed { program, status }),
        Ok(Err(source)) => Err(start(source)),
        Err(_) => Err(NotifyError::TimedOut(config.command_limit)),
    }
}

/// The email with its headers; `None` if its address is invalid.
fn email(notice: &Notice) -> Option<String> {
    let facts = &notice.facts;
    let to = Some(notice.target.mail.as_str()).filter(|to| is_mail_address(to))?;
    let element = facts.array_index.map_or_else(String::new, |index| format!("[{index}]"));
    let subject = format!("job {}{element} ({}) {}", facts.job_id, facts.name, notice.outcome());
    let mut email = format!(
        "To: {to}\nSubject: {}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\nAuto-Submitted: auto-generated\nX-Wharf-Notice: {}\n\n",
        header(&format!("[wharf] {subject}")),
        notice.id(),
    );
    let exit_code = facts.exit_code.map(|code| code.to_string()).unwrap_or_default();
    let nodes = facts.nodes.join(", ");
    let (start, end) = (facts.start_s.map(moment), facts.end_s.map(moment));
    for (name, value) in [
        ("job", facts.job_id.to_string() + &element),
        ("name", facts.name.clone()),
        ("user", facts.user.clone()),
        ("phase", facts.phase.clone()),
        ("exit code", exit_code),
        ("cause", facts.cause.clone()),
        ("reason", facts.reason.clone()),
        ("nodes", nodes),
        ("submitted", moment(facts.submit_s)),
        ("started", start.unwrap_or_default()),
        ("ended", end.unwrap_or_default()),
    ] {
        if !value.is_empty() {
            // Writing to a text does not fail.
            let _ = writeln!(email, "{name}: {}", one_line(&value));
        }
    }
    Some(email)
}

/// Seconds since the Unix epoch, which every reader can turn into what is on their own clock.
fn moment(unix_s: f64) -> String {
    format!("@{unix_s:.0} (`date -d @{unix_s:.0}`)")
}

/// A text without anything that could end its line.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// A header's text: as it is, or in encoded words (RFC 2047) where it has more than plain letters or is long.
fn header(text: &str) -> String {
    let text = one_line(text);
    if text.is_ascii() && text.len() <= 900 && !text.contains("=?") {
        return text;
    }
    let mut words = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (word, left) = rest.split_at(rest.floor_char_boundary(WORD_BYTES));
        words.push(format!("=?utf-8?B?{}?=", base64(word.as_bytes())));
        rest = left;
    }
    words.join("\n ")
}

#[cfg(test)]
mod tests {
    use wharf_proto::Notify;
    use wharf_proto::notify::Moment;

    use super::super::Facts;
    use super::*;

    #[test]
    fn no_name_or_reason_makes_a_header() {
        let facts = Facts {
            job_id: 7,
            name: "x\nBcc: all@lab.org\r\n\r\nhello".into(),
            reason: "a\n.\nb".into(),
            ..Facts::default()
        };
        let target = Notify { mail: "me@lab.org".into(), ..Notify::default() };
        let text = email(&Notice { moment: Moment::Failed, target, facts }).unwrap();
        let (head, body) = text.split_once("\n\n").unwrap();
        assert!(head.lines().all(|line| !line.starts_with("Bcc")), "{head}");
        assert_eq!(head.lines().filter(|line| line.starts_with("To: ")).count(), 1);
        assert!(body.contains("reason: a . b\n"), "{body}");
    }

    #[test]
    fn headers_of_any_language_are_encoded() {
        assert_eq!(header("plain"), "plain");
        assert_eq!(header("größe"), "=?utf-8?B?Z3LDtsOfZQ==?=");
        let long = header(&"ä".repeat(60));
        assert!(long.lines().all(|line| line.len() <= 76), "{long}");
        assert_eq!(
            (base64(b"M"), base64(b"Ma"), base64(b"Man")),
            ("TQ==".into(), "TWE=".into(), "TWFu".into())
        );
    }
}
