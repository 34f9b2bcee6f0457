//! Tokens, sessions, names, webhooks and the audit log.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::adversary::site::{Account, PATIENCE, Site, until};
use crate::daemon::Daemon;
use crate::sandbox::Said;
use wharf_testing::needs;

impl Site {
    /// Another token of a user, with options of `wharf token create`.
    fn token(&self, user: &Account, name: &str, options: &[&str]) -> PathBuf {
        let path = user.home.join(name);
        let file = path.to_str().unwrap();
        self.admin(&[&["token", "create", "--user", &user.name, "--to", file], options].concat()).ok();
        chown(&path, Some(user.uid), Some(user.gid)).unwrap();
        path
    }

    /// Runs a command of a user with another token than their first.
    fn with_token(&self, user: &Account, token: &std::path::Path, words: &[&str]) -> Said {
        Said::from(&self.user_command(user, words).env("WHARF_TOKEN_FILE", token).output().unwrap())
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.admin(&[words, &["--output", "json"]].concat()).ok()).unwrap()
    }

    /// The id of the only token of a user, or of the certificate of a node.
    fn token_id(&self, field: &str, value: &str) -> String {
        let listed = self.json(&["token", "list"]);
        let mut tokens = listed["tokens"].as_array().unwrap().iter().filter(|token| token[field] == value);
        tokens.next().unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// A job of a user that runs until it is cancelled, and prints lines.
    fn running_job(&self, user: &Account) -> String {
        let script = "while :; do echo tick; sleep 0.2; done";
        let job = self.as_user(user, &["submit", "--", "sh", "-c", script]).ok().trim().to_owned();
        until("the job runs", || self.as_user(user, &["jobs"]).ok().contains("running"));
        job
    }
}

/// A command that has printed something, and continues.
fn streaming(mut command: Command) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "nothing is printed");
    child
}

/// The error of a command that has to end by itself.
fn ending(mut child: Child) -> String {
    // Its output is taken until its end, so that it never waits for a reader.
    let mut stdout = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
    until("the stream ends", || child.try_wait().unwrap().is_some());
    reader.join().unwrap().unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0), "{text}");
    text
}

/// A head with the dashboard, and the port of it.
fn dashboard(site: &Site, more: &[&str]) -> (Daemon, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let http = format!("127.0.0.1:{port}");
    (site.head(&[&["--http", &http], more].concat()), port)
}

/// A connection that has sent a GET request with a token.
fn get(port: u16, path: &str, token: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads until a text comes; fails at the end of the stream.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&read).contains(text) {
        let count = stream.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "{text} does not come: {}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// The whole answer to a request whose connection the server closes or keeps.
fn answer(port: u16, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether the server closes a connection.
fn is_closed(mut stream: TcpStream) -> bool {
    let mut buffer = [0; 4096];
    let deadline = Instant::now() + PATIENCE;
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    while Instant::now() < deadline {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return true,
            Ok(_) => {}
        }
    }
    false
}

#[test]
fn revoked_token_ends_its_open_streams() {
    needs!(ROOT);
    let site = Site::new();
    let (_head, port) = dashboard(&site, &[]);
    let _worker = site.worker("a", &["--devices", "v100:2"]);
    let job = site.running_job(&site.ann);
    let script = "while :; do echo beside; sleep 0.2; done";
    let exec = streaming(site.user_command(&site.ann, &["exec", &job, "--", "sh", "-c", script]));
    let logs = streaming(site.user_command(&site.ann, &["logs", "--follow", &job]));
    let waiting = ["submit", "--wait", "--after-ok", &job, "--", "true"];
    let wait = streaming(site.user_command(&site.ann, &waiting));
    let token = fs::read_to_string(&site.ann.token).unwrap().trim().to_owned();
    let mut events = get(port, "/api/stream", &token);
    read_until(&mut events, "began");
    let mut followed = get(port, &format!("/api/jobs/{job}/logs?follow=1"), &token);
    read_until(&mut followed, "tick");

    site.admin(&["token", "revoke", &site.token_id("user", &site.ann.name)]).ok();
    for child in [exec, logs, wait] {
        let text = ending(child);
        assert!(text.contains("revoked"), "{text}");
    }
    assert!(is_closed(events) && is_closed(followed));
    // The command in the task is ended on the worker, too; the job itself continues.
    until("the command is ended", || {
        let found = Command::new("pgrep").args(["-u", &site.ann.name, "-f", "echo beside"]).output().unwrap();
        found.stdout.is_empty()
    });
    assert!(site.admin(&["jobs"]).ok().contains("running"));
    site.admin(&["cancel", &job]).ok();
}

#[test]
fn expired_token_ends_its_open_streams() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&[]);
    let _worker = site.worker("a", &["--devices", "v100:1"]);
    let job = site.running_job(&site.ann);
    let short = site.token(&site.ann, "short.token", &["--ttl", "5s"]);
    let script = "while :; do echo beside; sleep 0.2; done";
    let mut exec = site.user_command(&site.ann, &["exec", &job, "--", "sh", "-c", script]);
    exec.env("WHARF_TOKEN_FILE", &short);
    let text = ending(streaming(exec));
    assert!(text.contains("expired"), "{text}");
    assert!(site.with_token(&site.ann, &short, &["jobs"]).fails(3).contains("the token has expired"));
    // An admin renews it, and it is the same token.
    let listed = site.json(&["token", "list"]);
    let mut tokens = listed["tokens"].as_array().unwrap().iter();
    let expired = tokens.find(|token| {
        token["user"] == *site.ann.name
            && token["last_used_s"].is_number()
            && token["expires_s"].as_f64().unwrap() - token["created_s"].as_f64().unwrap() < 6.0
    });
    let id = expired.unwrap()["id"].as_str().unwrap().to_owned();
    site.admin(&["token", "renew", &id, "--ttl", "1h"]).ok();
    site.with_token(&site.ann, &short, &["jobs"]).ok();
    assert!(site.as_user(&site.bob, &["token", "renew", &id]).fails(3).contains("needs an admin's token"));
    site.admin(&["cancel", &job]).ok();
}

#[test]
fn revoked_certificate_ends_the_session_of_its_worker() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&["--lost-after", "1"]);
    let mut worker = site.worker("a", &["--devices", "v100:1"]);
    site.admin(&["token", "revoke", &site.token_id("node", "a")]).ok();
    worker.wait_for("the worker's certificate was revoked");
    until("the node is lost", || site.admin(&["nodes"]).ok().contains("lost"));
}

#[test]
fn half_open_connections_keep_no_client_worker_or_browser_out() {
    needs!(ROOT);
    let site = Site::new();
    let http = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{}", site.port);
    let mut limited = Command::new("prlimit");
    limited.args(["--nofile=512:512", "--"]);
    let head = site.admin_command(&["head", "--listen", &listen, "--http", &format!("127.0.0.1:{http}")]);
    limited.arg(head.get_program()).args(head.get_args()).stdin(Stdio::null());
    limited.envs(head.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let _head = Daemon::start(&mut limited, "dashboard at");
    let token = site.token(&site.ann, "token", &[]);
    let secret = fs::read_to_string(&token).unwrap().trim().to_owned();
    let mut events = get(http, "/api/stream", &secret);
    read_until(&mut events, "began");

    // More than the head has descriptors: without a byte, with half a header, and with half a handshake.
    let mut attackers = Vec::new();
    for number in 0..1200 {
        let port = if number % 3 == 0 { site.port } else { http };
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let begun: &[u8] = if number % 2 == 0 { b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: " } else { b"" };
        // The head may have closed it already.
        let _ = stream.write_all(begun);
        attackers.push(stream);
    }
    site.as_user(&site.ann, &["jobs"]).ok();
    let _worker = site.worker("a", &["--devices", "v100:1"]);
    let job = site.as_user(&site.ann, &["submit", "--wait", "--", "true"]).ok();
    assert!(answer(http, "/healthz", &secret).starts_with("HTTP/1.1 200"));
    assert!(answer(http, "/api/jobs", &secret).contains("finished"), "{job}");
    // Those who have authenticated are not closed for others.
    read_until(&mut events, "job_ended");
    assert!(is_closed(attackers.remove(1)), "a request without its header is closed");
}

#[test]
fn slow_body_is_given_up() {
    needs!(ROOT);
    let site = Site::new();
    let (_head, port) = dashboard(&site, &[]);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .write_all(b"POST /api/login HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n{\"token\": \"")
        .unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let read = read_until(&mut stream, "\r\n");
    assert!(read.starts_with("HTTP/1.1 408"), "{read}");
}

#[test]
fn name_with_control_characters_is_refused_everywhere() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&[]);
    let evil = "\u{1b}]0;owned\u{7}";
    let refused = |words: &[&str]| {
        let text = site.as_user(&site.ann, words).fails(2);
        assert!(text.contains("contains the control character"), "{words:?}: {text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    };
    refused(&["submit", "--name", evil, "--", "true"]);
    refused(&["submit", "--pool", "a\nb", "--", "true"]);
    refused(&["submit", "--name", "a\u{202e}b", "--", "true"]);
    refused(&["submit", "--type", "a\u{9b}2J", "--", "true"]);
    let job = site.as_user(&site.ann, &["submit", "--held", "--", "true"]).ok().trim().to_owned();
    let renamed =
        site.as_user(&site.ann, &["scontrol", "update", &format!("JobId={job}"), &format!("JobName={evil}")]);
    assert_ne!(renamed.code, Some(0));
    let token = site.admin(&["token", "create", "--user", evil]).fails(2);
    assert!(token.contains("not a valid user name") && !token.contains('\u{1b}'), "{token}");
    let _worker = site.worker("a", &["--devices", "v100:1"]);
    let drained = site.admin(&["node", "drain", "a", "--reason", evil]).fails(2);
    assert!(drained.contains("contains the control character"), "{drained}");
    let asked = site.admin(&["node", "drain", evil]);
    assert!(!asked.stderr.contains('\u{1b}'), "{}", asked.stderr);
    let pool = site.admin_command(&["worker", "--node", "b", "--devices", "v100:1", "--pool", evil]).output();
    assert!(String::from_utf8_lossy(&pool.unwrap().stderr).contains("contains the control character"));
}

#[test]
fn webhook_reaches_no_address_that_is_not_public() {
    needs!(ROOT);
    let site = Site::new();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = target.local_addr().unwrap().port();
    target.set_nonblocking(true).unwrap();
    let submit = |host: &str| {
        let hook = format!("http://{host}:{port}/");
        site.as_user(&site.ann, &["submit", "--wait", "--notify-webhook", &hook, "--", "true"])
    };
    {
        let mut head = site.head(&[]);
        let _worker = site.worker("a", &["--devices", "v100:1"]);
        for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0", "10.0.0.1"] {
            assert!(submit(host).fails(2).contains("the address is not public"), "{host}");
        }
        // A name is checked when it is resolved.
        submit("localhost").ok();
        head.wait_for("webhooks may not target");
        submit("2130706433").ok();
        head.wait_for("webhooks may not target");
    }
    assert_eq!(target.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    let _head = site.head(&["--webhook-allow", "127.0.0.0/8"]);
    let _worker = site.worker("a", &["--devices", "v100:1"]);
    submit("127.0.0.1").ok();
    until("the webhook that an admin has allowed is called", || target.accept().is_ok());
}

#[test]
fn root_job_is_refused_on_a_head_that_serves_several_users() {
    needs!(ROOT);
    let site = Site::new();
    let listen = format!("127.0.0.1:{}", site.port);
    let start = |more: &[&str]| {
        let words = [&["head", "--listen", &listen], more].concat();
        Daemon::start(&mut site.admin_command(&words), "listens on")
    };
    {
        let _head = start(&[]);
        site.admin(&["submit", "--held", "--", "true"]).ok();
        site.token(&site.ann, "token", &[]);
        let refused = site.admin(&["submit", "--held", "--", "true"]).fails(2);
        assert!(refused.contains("would run as root") && refused.contains("--allow-root"), "{refused}");
        site.admin(&["submit", "--held", "--allow-root", "--", "true"]).ok();
        site.admin(&["submit", "--held", "--user", &site.ann.name, "--", "true"]).ok();
        site.as_user(&site.ann, &["submit", "--held", "--", "true"]).ok();
        let as_root = site.as_user(&site.ann, &["submit", "--user", "root", "--allow-root", "--", "true"]);
        assert!(as_root.fails(3).contains("only an admin may submit as root"));
    }
    let _head = start(&["--allow-root"]);
    site.admin(&["submit", "--held", "--", "true"]).ok();
}

#[test]
fn failure_of_a_job_is_shown_to_its_owner_only() {
    needs!(ROOT);
    let site = Site::new();
    let (_head, port) = dashboard(&site, &[]);
    let _worker = site.worker("a", &["--devices", "v100:1"]);
    let secret = site.ann.home.join("secret-project");
    let words = ["submit", "--workdir", secret.to_str().unwrap(), "--", "true"];
    let job = site.as_user(&site.ann, &words).ok().trim().to_owned();
    until("the job fails", || site.as_user(&site.ann, &["explain", &job]).ok().contains("failed"));
    let shown = |account: &Account| -> String {
        let said = [
            &["jobs", "--state", "failed", "--output", "json"][..],
            &["job", &job, "--output", "json"],
            &["explain", &job],
        ]
        .map(|words| site.as_user(account, words).ok());
        let token = fs::read_to_string(&account.token).unwrap().trim().to_owned();
        let paths =
            ["/api/jobs", &format!("/api/jobs/{job}"), &format!("/api/reasons?jobs={job}"), "/api/events"];
        said.concat() + &paths.map(|path| answer(port, path, &token)).concat()
    };
    assert!(shown(&site.ann).contains("secret-project"), "{}", shown(&site.ann));
    let seen = shown(&site.bob);
    assert!(!seen.contains("secret-project"), "{seen}");
    assert!(seen.contains("only its owner and admins see the reason"), "{seen}");
}

#[test]
fn scope_and_addresses_of_a_token_hold() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&[]);
    let _worker = site.worker("a", &["--devices", "v100:1"]);
    let job = site.running_job(&site.ann);
    let reading = site.token(&site.ann, "read.token", &["--scope", "read-only"]);
    site.with_token(&site.ann, &reading, &["jobs"]).ok();
    site.with_token(&site.ann, &reading, &["logs", &job]).ok();
    for words in [&["submit", "--", "true"][..], &["cancel", &job], &["exec", &job, "--", "true"]] {
        let text = site.with_token(&site.ann, &reading, words).fails(3);
        assert!(text.contains("needs a token with the scope submit"), "{words:?}: {text}");
    }
    let elsewhere =
        site.token(&site.ann, "elsewhere.token", &["--from", "10.0.0.0/8", "--from", "192.0.2.7"]);
    let text = site.with_token(&site.ann, &elsewhere, &["jobs"]).fails(3);
    assert!(text.contains("may not be used from this address"), "{text}");
    let here = site.token(&site.ann, "here.token", &["--from", "127.0.0.0/8"]);
    site.with_token(&site.ann, &here, &["jobs"]).ok();

    // An operator changes all jobs and nodes, and looks into none.
    let operate = site.token(&site.bob, "operate.token", &["--role", "admin", "--scope", "operate"]);
    let operator = |words: &[&str]| site.with_token(&site.bob, &operate, words);
    let foreign = format!("permission denied: job {job} belongs to {}", site.ann.name);
    assert!(operator(&["logs", &job]).fails(3).contains(&foreign));
    assert!(operator(&["exec", &job, "--", "true"]).fails(3).contains(&foreign));
    for words in [&["token", "list"][..], &["audit"], &["policy", "set", "fifo"]] {
        assert!(operator(words).fails(3).contains("needs an admin's token"), "{words:?}");
    }
    assert!(operator(&["submit", "--user", &site.ann.name, "--", "true"]).fails(3).contains("only an admin"));
    operator(&["node", "cordon", "a"]).ok();
    operator(&["cancel", &job]).ok();
    let history = site.as_user(&site.ann, &["job", &job]).ok();
    assert!(history.contains(&format!("cancel requested by {}", site.bob.name)), "{history}");
    for options in [&["--scope", "admin"][..], &["--from", "nowhere"], &["--ttl", "1000000d"]] {
        let words = [&["token", "create", "--user", "eve"], options].concat();
        assert_eq!(site.admin(&words).code, Some(2), "{options:?}");
    }
}

#[test]
fn tokens_expire_by_default_and_are_listed_with_their_last_use() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&["--token-ttl", "30d"]);
    site.as_user(&site.ann, &["jobs"]).ok();
    let listed = site.json(&["token", "list"]);
    let of = |user: &str| {
        let tokens = listed["tokens"].as_array().unwrap();
        tokens.iter().find(|token| token["user"] == user).unwrap().clone()
    };
    let ann = of(&site.ann.name);
    let life_s = ann["expires_s"].as_f64().unwrap() - ann["created_s"].as_f64().unwrap();
    assert!((life_s - 30.0 * 86_400.0).abs() < 1.0, "{ann}");
    assert_eq!(ann["last_address"], "127.0.0.1");
    assert_eq!(of(&site.bob.name)["last_used_s"], Value::Null);
    let forever = site.token(&site.bob, "forever.token", &["--ttl", "never"]);
    site.with_token(&site.bob, &forever, &["jobs"]).ok();
    assert!(site.admin(&["token", "list"]).stderr.contains("without expiry"));
}

#[test]
fn join_token_joins_one_node_and_replaces_none() {
    needs!(ROOT);
    let site = Site::new();
    let _head = site.head(&[]);
    let join = site.folder.path().join("join.token");
    site.admin(&["token", "create", "--role", "worker", "--to", join.to_str().unwrap()]).ok();
    let far = |folder: &str, node: &str| {
        let head = format!("127.0.0.1:{}", site.port);
        let mut command =
            site.admin_command(&["worker", "--head", &head, "--node", node, "--devices", "v100:1"]);
        command.env("WHARF_HOME", site.folder.path().join(folder)).arg("--join-token-file").arg(&join);
        command
    };
    let _first = Daemon::start(&mut far("one", "n1"), "accepted this worker");
    let stolen = far("two", "n2").output().unwrap();
    let text = String::from_utf8_lossy(&stolen.stderr).into_owned();
    assert!(text.contains("this join token is used up: it has joined n1"), "{text}");
    // Neither the same token nor the one in the head's folder takes the node over.
    let again = far("three", "n1").output().unwrap();
    assert!(String::from_utf8_lossy(&again.stderr).contains("node `n1` has already joined"));
    let own = site.admin_command(&["worker", "--node", "n1", "--devices", "v100:1"]).output().unwrap();
    assert!(String::from_utf8_lossy(&own.stderr).contains("node `n1` has already joined"));
    let listed = site.json(&["token", "list"]);
    let workers = listed["tokens"].as_array().unwrap().iter().filter(|token| token["role"] == "worker");
    for token in workers {
        assert!(token["expires_s"].is_number(), "{token}");
    }
}

#[test]
fn audit_log_names_who_did_what_from_where() {
    needs!(ROOT);
    let site = Site::new();
    let (_head, port) = dashboard(&site, &[]);
    let _worker = site.worker("a", &["--devices", "v100:1"]);
    let job = site.running_job(&site.ann);
    assert_ne!(site.as_user(&site.bob, &["cancel", &job]).code, Some(0));
    site.as_user(&site.bob, &["token", "list"]).fails(3);
    site.as_user(&site.bob, &["audit"]).fails(3);
    site.admin(&["cancel", &job]).ok();
    site.admin(&["node", "cordon", "a", "--reason", "new fans"]).ok();
    site.admin(&["policy", "set", "srtf"]).ok();
    let forged = format!("{}\r\nx-forged: 1", "whf1.guess");
    answer(port, "/api/jobs", "whf1.guess");
    answer(port, "/api/jobs", &forged);

    let entries = |words: &[&str]| -> Vec<Value> {
        site.json(&[&["audit"], words].concat())["entries"].as_array().unwrap().clone()
    };
    let brief = |entries: Vec<Value>| -> Vec<String> {
        let text = |entry: &Value| {
            let objects = entry["objects"].as_array().unwrap().iter().filter_map(Value::as_str);
            let user = entry["user"].as_str().unwrap();
            let user = user.replace(&site.ann.name, "ann").replace(&site.bob.name, "bob");
            let objects = objects.collect::<Vec<_>>().join("+");
            format!(
                "{user} {} {objects} {}",
                entry["action"].as_str().unwrap(),
                entry["result"].as_str().unwrap()
            )
        };
        entries.iter().map(text).collect()
    };
    let of_job = brief(entries(&["--job", &job]));
    assert_eq!(of_job, ["ann submit job 0 ok", "bob cancel job 0 refused", "root cancel job 0 ok"]);
    let refused = brief(entries(&["--result", "refused", "--user", &site.bob.name]));
    assert_eq!(refused, ["bob cancel job 0 refused", "bob ListTokens  refused", "bob ReadAudit  refused"]);
    let all = entries(&[]);
    let said = brief(all.clone()).join("\n");
    for expected in [
        "a attach node a ok",
        "ann login  ok",
        "root node-cordon node a ok",
        "root policy-set policy srtf ok",
        "/api/jobs  refused",
    ] {
        assert!(said.contains(expected), "{expected} is missing in\n{said}");
    }
    let cancel = all.iter().find(|entry| entry["action"] == "cancel" && entry["result"] == "ok").unwrap();
    assert_eq!((&cancel["address"], &cancel["role"]), (&"127.0.0.1".into(), &"admin".into()));
    assert_eq!(cancel["token"], *site.token_id("user", "root"));
    assert!(entries(&["--since", "2099-01-01"]).is_empty());
    assert!(entries(&["--until", "2001-01-01"]).is_empty());
    assert!(site.admin(&["audit", "--action", "policy-set"]).ok().contains("policy srtf"));
    // Also the job itself names who ended it.
    let history = site.as_user(&site.ann, &["job", &job]).ok();
    assert!(history.contains("cancel requested by root"), "{history}");
    until("the job is over", || {
        site.as_user(&site.ann, &["explain", &job]).ok().contains("cancelled by root")
    });
    let text = fs::read_to_string(site.state().join("audit/access.jsonl")).unwrap();
    assert!(!text.contains("whf1."), "no token is logged");
}
