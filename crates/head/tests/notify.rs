//! Notices arrive: real commands run, a real HTTP server receives requests, and the head does not wait for either.
#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use wharf_head::notify::{Facts, Notice, Notifier, NotifyConfig};
use wharf_proto::Notify;
use wharf_proto::notify::Moment;

fn facts() -> Facts {
    Facts {
        job_id: 7,
        generation: 2,
        name: "train $(id)".into(),
        phase: "failed".into(),
        exit_code: Some(3),
        submit_s: 100.5,
        start_s: Some(101.0),
        end_s: Some(160.0),
        nodes: vec!["left".into(), "right".into()],
        array_index: Some(4),
        ..Facts::default()
    }
}

fn notice(target: Notify) -> Notice {
    Notice { moment: Moment::Failed, target, facts: facts() }
}

fn command(words: &[&str]) -> Notify {
    Notify { command: words.iter().map(|&word| word.to_owned()).collect(), ..Notify::default() }
}

fn webhook(address: String) -> Notify {
    Notify { webhook: address, ..Notify::default() }
}

/// Tells one notice and gives what was logged.
fn deliver(config: NotifyConfig, notice: Notice) -> Vec<String> {
    let logged = Arc::new(Mutex::new(Vec::new()));
    let log = logged.clone();
    let notifier =
        Notifier::start_with(config, move |_, error| log.lock().unwrap().push(error.to_string())).unwrap();
    notifier.send(notice).unwrap();
    notifier.finish();
    logged.lock().unwrap().clone()
}

fn quick() -> NotifyConfig {
    let webhook_allow = vec!["127.0.0.1".parse().unwrap()];
    NotifyConfig { pauses: vec![Duration::from_millis(1); 3], webhook_allow, ..NotifyConfig::default() }
}

/// What a server was sent.
struct Received {
    head: String,
    body: Value,
}

/// A server that gives these answers, one for each connection.
fn server(answers: &'static [&'static str]) -> (String, Receiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            sender.send(serve(stream, answer)).unwrap();
        }
    });
    (format!("http://{address}/hook?room=1"), received)
}

fn serve(mut stream: TcpStream, answer: &str) -> Received {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0);
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    write!(stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n").unwrap();
    Received { head, body: serde_json::from_slice(&body).unwrap() }
}

#[test]
fn command_gets_facts_in_its_environment_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("said");
    let script = "env | grep ^WHARF_NOTIFY_ | sort > $0; cat >> $0";
    assert_eq!(deliver(quick(), notice(command(&["sh", "-c", script, file.to_str().unwrap()]))), [""; 0]);
    let said = std::fs::read_to_string(&file).unwrap();
    let (variables, json) = said.split_once('{').unwrap();
    assert_eq!(
        variables,
        "\
WHARF_NOTIFY_ARRAY_INDEX=4
WHARF_NOTIFY_CAUSE=
WHARF_NOTIFY_END_S=160
WHARF_NOTIFY_EXIT_CODE=3
WHARF_NOTIFY_ID=7.2.failed
WHARF_NOTIFY_JOB_ID=7
WHARF_NOTIFY_JOB_NAME=train $(id)
WHARF_NOTIFY_MOMENT=failed
WHARF_NOTIFY_NODES=left,right
WHARF_NOTIFY_PHASE=failed
WHARF_NOTIFY_REASON=
WHARF_NOTIFY_START_S=101
WHARF_NOTIFY_SUBMIT_S=100.5
WHARF_NOTIFY_USER=
"
    );
    let document: Value = serde_json::from_str(&format!("{{{json}")).unwrap();
    assert_eq!(document["moment"], "failed");
    assert_eq!(document["job"]["nodes"], serde_json::json!(["left", "right"]));
    assert_eq!(document["job"]["name"], "train $(id)");
}

#[test]
fn commands_that_fail_hang_or_do_not_exist_are_logged() {
    for (words, expected) in [
        (&["sh", "-c", "exit 3"] as &[&str], "`sh` ended with exit status: 3"),
        (&["no-such-program"], "cannot run `no-such-program`"),
        // The grandchild would outlive a kill of the command alone.
        (&["sh", "-c", "sleep 600 & wait"], "no answer within 200ms"),
    ] {
        let config = NotifyConfig { command_limit: Duration::from_millis(200), ..quick() };
        assert_eq!(deliver(config, notice(command(words))), [expected]);
    }
    let stranger =
        Notice { facts: Facts { user: "no-such-user".into(), ..facts() }, ..notice(command(&["true"])) };
    assert_eq!(
        deliver(quick(), stranger),
        ["the head cannot run a command as user `no-such-user`; use a webhook"]
    );
}

#[test]
fn command_runs_as_the_jobs_user_where_the_head_is_root() {
    if !nix::unistd::Uid::effective().is_root() {
        let _ = writeln!(std::io::stderr(), "NOT TESTED: commands of other users need root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("said");
    std::fs::write(&file, "").unwrap();
    for path in [folder.path(), &file] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, mode).unwrap();
    }
    let target = command(&["sh", "-c", "id -un > $0; id -G >> $0", file.to_str().unwrap()]);
    let of_user = Notice { facts: Facts { user: "nobody".into(), ..facts() }, ..notice(target) };
    assert_eq!(deliver(quick(), of_user), [""; 0]);
    let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("nobody\n{}\n", nobody.gid));
}

#[test]
fn webhook_gets_json_and_a_key_for_duplicates() {
    let (address, received) = server(&["204 No Content"]);
    assert_eq!(deliver(quick(), notice(webhook(address))), [""; 0]);
    let Received { head, body } = received.recv().unwrap();
    assert!(head.starts_with("post /hook?room=1 http/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    assert!(head.contains("idempotency-key: 7.2.failed\r\n"), "{head}");
    assert_eq!(body["schema"], 1);
    assert_eq!(body["id"], "7.2.failed");
    assert_eq!(body["job"]["exit_code"], 3);
}

#[test]
fn webhook_is_tried_again_only_where_that_may_help() {
    let (address, received) = server(&["503 Busy", "429 Slowly", "200 OK"]);
    assert_eq!(deliver(quick(), notice(webhook(address))), [""; 0]);
    assert_eq!(received.iter().count(), 3);

    let (address, received) = server(&["410 Gone"]);
    let logged = deliver(quick(), notice(webhook(address)));
    assert!(logged[0].ends_with("answered with 410"), "{logged:?}");
    assert!(!logged[0].contains("room"), "what may be secret in an address is not logged");
    assert_eq!(received.iter().count(), 1);

    let (address, _received) = server(&["500 No", "500 No", "500 No", "500 No"]);
    let logged = deliver(quick(), notice(webhook(address)));
    assert!(logged.len() == 1 && logged[0].ends_with("answered with 500"), "{logged:?}");
}

#[test]
fn webhook_that_never_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let config = NotifyConfig { attempt_limit: Duration::from_millis(50), pauses: vec![], ..quick() };
    assert_eq!(deliver(config, notice(webhook(address))), ["no answer within 50ms"]);
}

#[test]
fn webhook_over_tls_needs_a_trusted_certificate() {
    let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let root = pair.cert.der().to_vec();
    let (port, bodies) = tls_server(&pair);
    let address = format!("https://localhost:{port}/hook");

    let refused = deliver(NotifyConfig { pauses: vec![], ..quick() }, notice(webhook(address.clone())));
    assert_eq!(refused, [format!("cannot reach `localhost:{port}`")]);
    let trusting = NotifyConfig { extra_roots: vec![root], ..quick() };
    assert_eq!(deliver(trusting, notice(webhook(address))), [""; 0]);
    assert!(bodies.recv().unwrap().contains("\"id\":\"7.2.failed\""));
}

/// A server for all clients that trust its certificate.
fn tls_server(pair: &rcgen::CertifiedKey<rcgen::KeyPair>) -> (u16, Receiver<String>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::{ServerConfig, crypto::ring};

    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // Who does not trust the certificate hangs up.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut text = vec![0; 16_384];
                let mut length = 0;
                while !text[..length].ends_with(b"}\n") {
                    length += stream.read(&mut text[length..]).await.unwrap();
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                stream.flush().await.unwrap();
                sender.send(String::from_utf8_lossy(&text[..length]).into_owned()).unwrap();
            }
        });
    });
    (port, bodies)
}

#[test]
fn only_wanted_moments_are_reported() {
    let end_only = Notify::default();
    let starts = Notify { on: vec![Moment::Started.into()], ..Notify::default() };
    let is_told = |target: Option<&Notify>, moment| Notice::wanted(target, moment, Facts::default).is_some();
    for (moment, by_default, of_starts) in [
        (Moment::Started, false, true),
        (Moment::Preempted, false, false),
        (Moment::Finished, true, false),
        (Moment::Failed, true, false),
        (Moment::Cancelled, true, false),
    ] {
        assert_eq!(is_told(Some(&end_only), moment), by_default, "{moment:?}");
        assert_eq!(is_told(Some(&starts), moment), of_starts, "{moment:?}");
        assert!(!is_told(None, moment));
    }
}

#[test]
fn telling_never_waits() {
    // There is never an answer, so that the queue fills up.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let notifier = Notifier::start(|_, _| {}).unwrap();
    let full = (0..20_000).find_map(|_| notifier.send(notice(webhook(address.clone()))).err());
    assert_eq!(full.unwrap().to_string(), "the notification queue is full (10000 entries)");
}

#[test]
fn webhook_to_an_address_that_is_not_public_is_never_connected_to() {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = || NotifyConfig { webhook_allow: vec![], ..quick() };
    // Names that resolve to loopback, and notations that only the resolver understands.
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "169.254.169.254",
        "10.0.0.1",
        "[fd00:ec2::254]",
    ] {
        let logged = deliver(config(), notice(webhook(format!("http://{host}:{port}/latest/meta-data"))));
        assert_eq!(logged.len(), 1, "{host}");
        let is_refused =
            logged[0].starts_with("webhooks may not target") || logged[0].starts_with("cannot reach");
        assert!(is_refused, "{host}: {logged:?}");
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{host}");
    }
}

#[test]
fn webhook_follows_no_redirects() {
    let (inner, received) = server(&["200 OK"]);
    let redirect = format!("302 Found\r\nlocation: {inner}").leak();
    let (outer, _kept) = server(vec![&*redirect].leak());
    let logged = deliver(quick(), notice(webhook(outer)));
    assert!(logged[0].contains("answered with 302"), "{logged:?}");
    assert!(received.try_recv().is_err());
}
