//! Who gets in, what they may do there, and that no secret shows: with real heads, workers and connections.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use wharf_head::{Access, Head, HeadConfig, PolicyChoice, Setup};
use wharf_proto::cluster_client::ClusterClient;
use wharf_proto::tonic::transport::{Channel, Endpoint};
use wharf_proto::tonic::{Code, Request, Status};
use wharf_proto::workers_client::WorkersClient;
use wharf_proto::{FromWorker, FromWorkerBatch, InfoRequest, JobSpec, Register, SubmitRequest, from_worker};
use wharf_tls::{ClientCertificate, Fingerprint, Token};
use wharf_worker::{Notice, WorkerConfig};

use crate::cluster::{Cluster, Daemon};
use crate::sandbox::Said;

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl Cluster {
    /// Runs a command with another token than the folder's.
    pub(crate) fn run_as(&self, token: &Path, words: &[&str]) -> Said {
        Said::from(&self.command(words).env("WHARF_TOKEN_FILE", token).output().unwrap())
    }

    /// A token for a user, in a file.
    pub(crate) fn token_for(&self, user: &str) -> PathBuf {
        let file = self.path(&format!("{user}.token"));
        self.say(&["token", "create", "--user", user, "--to", file.to_str().unwrap()]);
        file
    }

    fn tokens(&self) -> Vec<serde_json::Value> {
        let text = self.say(&["token", "list", "--output", "json"]);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["tokens"].as_array().unwrap().clone()
    }

    /// The id of the only token or certificate with that value.
    fn id_of(&self, field: &str, value: &str) -> String {
        let tokens = self.tokens();
        let mut ids =
            tokens.iter().filter(|token| token[field] == value).map(|token| token["id"].as_str().unwrap());
        let id = ids.next().unwrap().to_owned();
        assert_eq!(ids.next(), None, "more than one has {field} {value}");
        id
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A worker with a folder of its own, as on another machine, which knows the address and a join token only.
    fn far_worker(&self, folder: &Path, node: &str, token: Option<&Path>) -> std::process::Command {
        let mut command =
            self.command(&["worker", "--head", &self.address(), "--node", node, "--devices", "v100:4"]);
        command.env("WHARF_HOME", folder);
        if let Some(token) = token {
            command.arg("--join-token-file").arg(token);
        }
        command
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        } else if entry.path().is_file() {
            found.push((entry.path(), fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn init_creates_private_files_once_and_renews_on_request() {
    let cluster = Cluster::new();
    let home = cluster.folder.path();
    let first = cluster.say(&["head", "init", "--host", "node1", "--output", "json"]);
    let before = files(home);
    let names: Vec<String> =
        before.iter().map(|(path, _)| path.strip_prefix(home).unwrap().display().to_string()).collect();
    assert_eq!(
        names,
        [
            "audit/access.jsonl",
            "audit/jobs.jsonl",
            "auth/ca-key.pem",
            "auth/ca.pem",
            "auth/head-key.pem",
            "auth/head.pem",
            "auth/lock",
            "auth/tokens.json",
            "token",
            "worker-token"
        ]
    );
    for (path, _) in &before {
        assert_eq!(mode(path), 0o600, "{}", path.display());
    }
    assert_eq!((mode(home), mode(&home.join("auth"))), (0o700, 0o700));

    assert_eq!(cluster.say(&["head", "init", "--output", "json"]), first);
    assert_eq!(files(home), before);
    assert_eq!(cluster.say(&["head", "init", "--renew", "--output", "json"]), first);
    let changed: Vec<PathBuf> =
        files(home).into_iter().zip(before).filter(|(new, old)| new != old).map(|(new, _)| new.0).collect();
    assert_eq!(changed, [home.join("auth/head.pem")]);

    let _head = cluster.head();
    assert_eq!(
        cluster.say(&["jobs", "--output", "plain"]).lines().count(),
        1,
        "the head uses what init made"
    );
    let busy = cluster.run(&["head", "init"]);
    assert_eq!(busy.status.code(), Some(3));
    assert!(stderr(&busy).contains("another head uses"), "{}", stderr(&busy));
}

#[test]
fn requests_without_token_are_refused_with_a_hint() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    let _heads = [cluster.head(), other.head()];

    let refused = |token: &Path, words: &[&str], expected: &[&str]| {
        let said = cluster.run_as(token, words).fails(3);
        for text in expected {
            assert!(said.contains(text), "{said}");
        }
    };
    let file = |name: &str, text: &str| {
        let path = cluster.path(name);
        fs::write(&path, text).unwrap();
        path
    };
    let good = fs::read_to_string(cluster.path("token")).unwrap();
    let mut forged = good.trim().to_owned();
    let last = if forged.pop() == Some('0') { '1' } else { '0' };
    forged.push(last);
    refused(&cluster.path("nowhere"), &["jobs"], &["cannot read", "hint: an admin makes a token"]);
    refused(&file("empty", ""), &["jobs"], &["malformed token", "hint: an admin makes a token"]);
    refused(&file("forged", &forged), &["jobs"], &["the token is wrong, or was revoked", "WHARF_TOKEN_FILE"]);
    // A token is not even shown to the head of another cluster.
    refused(&other.path("token"), &["jobs"], &["the head has fingerprint", "another cluster"]);
    // A worker's token is for joining only.
    refused(&cluster.path("worker-token"), &["jobs"], &["permission denied: ListJobs needs a user's"]);

    let with_ca = |ca: PathBuf| {
        let mut command = cluster.command(&["jobs"]);
        Said::from(&command.env("WHARF_CA_FILE", ca).output().unwrap())
    };
    assert!(with_ca(other.path("auth/ca.pem")).fails(3).contains("belongs to another cluster than"));
    assert!(with_ca(cluster.path("token")).fails(3).contains("holds no certificate"));
    with_ca(cluster.path("auth/ca.pem")).ok();

    // From anywhere, with an address and a token alone.
    let mut far = other.command(&["jobs"]);
    far.env("WHARF_HOME", cluster.path("empty-home")).env("WHARF_HEAD", cluster.address());
    far.env("WHARF_TOKEN_FILE", cluster.path("token"));
    Said::from(&far.output().unwrap()).ok();
    far.env("WHARF_HEAD", format!("http://{}", cluster.address()));
    assert!(Said::from(&far.output().unwrap()).fails(2).contains("a head accepts only TLS"));
}

/// A request without TLS, and one with TLS but without anything to show.
#[tokio::test(flavor = "multi_thread")]
async fn head_rejects_connections_without_tls_or_token() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let plain = Endpoint::from_shared(format!("http://{}", cluster.address())).unwrap();
    let answer = match plain.connect().await {
        Ok(channel) => ClusterClient::new(channel).info(InfoRequest {}).await.map(|_| ()).map_err(|_| ()),
        Err(_) => Err(()),
    };
    assert_eq!(answer, Err(()), "it was answered in the clear");

    let authority =
        wharf_tls::fingerprint_of_pem(&fs::read_to_string(cluster.path("auth/ca.pem")).unwrap()).unwrap();
    let endpoint = wharf_tls::endpoint(&cluster.address()).unwrap();
    let channel = wharf_tls::connect(&endpoint, authority, None).await.unwrap();
    let status = ClusterClient::new(channel).info(InfoRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let wrong = wharf_tls::connect(&endpoint, Fingerprint::of(b"another"), None).await.unwrap_err();
    assert!(matches!(wrong, wharf_tls::ConnectError::Impostor { .. }), "{wrong}");
}

/// A connection that knows the head, without a token.
async fn channel(cluster: &Cluster) -> Channel {
    let authority =
        wharf_tls::fingerprint_of_pem(&fs::read_to_string(cluster.path("auth/ca.pem")).unwrap()).unwrap();
    let endpoint = wharf_tls::endpoint(&cluster.address()).unwrap();
    wharf_tls::connect(&endpoint, authority, None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_and_foreign_tokens_are_refused_with_the_reason() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    let _heads = [cluster.head(), other.head()];
    let channel = channel(&cluster).await;
    let own = fs::read_to_string(cluster.path("token")).unwrap().trim().to_owned();
    let foreign = fs::read_to_string(other.path("token")).unwrap().trim().to_owned();
    for (shown, reason) in [
        ("Bearer ".to_owned(), "malformed token"),
        ("Basic cm9vdDpyb290".to_owned(), "malformed token"),
        (own.clone(), "malformed token"),
        (format!("bearer {own}"), "malformed token"),
        (format!("Bearer {foreign}"), "the token is of another cluster, with the fingerprint"),
        (format!("Bearer {own}x"), "the token is wrong, or was revoked"),
        (format!("Bearer {}", "x".repeat(8000)), "the token is wrong, or was revoked"),
    ] {
        let mut request = Request::new(InfoRequest {});
        request.metadata_mut().insert("authorization", shown.parse().unwrap());
        let status = ClusterClient::new(channel.clone()).info(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated, "{shown}");
        assert!(status.message().contains(reason), "{shown}: {status}");
    }
}

/// A change is recorded also where its client goes away before the reply.
#[tokio::test(flavor = "multi_thread")]
async fn every_job_is_in_the_audit_log_also_where_its_client_went_away() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let channel = channel(&cluster).await;
    let bearer = format!("Bearer {}", fs::read_to_string(cluster.path("token")).unwrap().trim());
    for number in 0..60_u64 {
        let spec = JobSpec { command: vec!["true".into()], held: true, ..JobSpec::default() };
        let mut request = Request::new(SubmitRequest { jobs: vec![spec], ..SubmitRequest::default() });
        request.metadata_mut().insert("authorization", bearer.parse().unwrap());
        let mut client = ClusterClient::new(channel.clone());
        // Where it takes longer the request is reset.
        let _ = tokio::time::timeout(Duration::from_micros(number * 50), client.submit(request)).await;
    }
    cluster.say(&["submit", "--held", "--", "true"]);
    let count = |words: &[&str], list: &str| {
        let text = cluster.say(&[words, &["--output", "json"]].concat());
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document[list].as_array().unwrap().len()
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (jobs, entries) = (count(&["jobs"], "jobs"), count(&["audit", "--action", "submit"], "entries"));
        assert!(jobs > 1, "no job was taken");
        if jobs == entries {
            break;
        }
        assert!(Instant::now() < deadline, "{jobs} jobs, {entries} entries");
    }
}

#[test]
fn users_look_at_all_jobs_and_into_their_own() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let _worker = cluster.worker("only");
    // Users whom every system knows: where the worker is root, jobs run as them.
    let (ann, bob) = (cluster.token_for("daemon"), cluster.token_for("nobody"));
    let script = "echo hers; exec sleep 600";
    cluster.run_as(&ann, &["submit", "--", "sh", "-c", script, "a-secret"]).ok();

    assert!(cluster.run_as(&bob, &["jobs"]).ok().contains("daemon"), "summaries are visible to all users");
    assert!(cluster.run_as(&ann, &["job", "0"]).ok().contains("a-secret"));
    let shown = cluster.run_as(&bob, &["job", "0"]).ok();
    assert!(shown.contains("daemon") && !shown.contains("a-secret"), "{shown}");
    let denied = "permission denied: job 0 belongs to daemon";
    assert!(cluster.run_as(&bob, &["logs", "0"]).fails(3).contains(denied));
    for change in ["cancel", "hold", "release", "requeue"] {
        assert!(cluster.run_as(&bob, &[change, "0"]).fails(2).contains(denied), "{change}");
    }
    assert!(
        cluster
            .run_as(&bob, &["submit", "--user", "daemon", "--", "true"])
            .fails(3)
            .contains("only an admin")
    );
    for words in [&["token", "list"][..], &["token", "create", "--user", "eve"], &["token", "revoke", "x"]] {
        assert!(cluster.run_as(&bob, words).fails(3).contains("needs an admin's token"), "{words:?}");
    }

    cluster.say(&["submit", "--user", "daemon", "--held", "--", "true"]);
    cluster.run_as(&ann, &["cancel", "1"]).ok();
    while cluster.run_as(&ann, &["logs", "0"]).ok().is_empty() {}
    cluster.run_as(&ann, &["cancel", "0"]).ok();
    cluster.run_as(&bob, &["submit", "--wait", "--after-any", "0", "--", "true"]).ok();
    assert_eq!(cluster.run_as(&ann, &["logs", "0"]).ok(), "hers\n");
}

#[test]
fn tokens_end_when_they_expire_or_are_revoked() {
    let cluster = Cluster::new();
    let mut head = cluster.head();
    let ann = cluster.token_for("ann");
    let short = cluster.path("short.token");
    cluster.say(&["token", "create", "--user", "eve", "--ttl", "1s", "--to", short.to_str().unwrap()]);
    assert_eq!(mode(&short), 0o600);

    cluster.run_as(&ann, &["jobs"]).ok();
    cluster.say(&["token", "revoke", &cluster.id_of("user", "ann")]);
    assert!(cluster.run_as(&ann, &["jobs"]).fails(3).contains("was revoked"));
    let unknown = cluster.run(&["token", "revoke", "beef"]);
    assert!(stderr(&unknown).contains("there is no token `beef`"));

    let deadline = Instant::now() + PATIENCE;
    let said = loop {
        let said = cluster.run_as(&short, &["jobs"]);
        if said.code != Some(0) {
            break said.fails(3);
        }
        assert!(Instant::now() < deadline, "it never expires");
    };
    assert!(said.contains("the token has expired"), "{said}");

    head.kill();
    let _head = cluster.head();
    assert!(
        cluster.run_as(&ann, &["jobs"]).fails(3).contains("was revoked"),
        "a restart brings nothing back"
    );
    let wrong = cluster.run(&["token", "create", "--user", "../x"]);
    assert!(stderr(&wrong).contains("is not a valid user name"), "{}", stderr(&wrong));
}

#[test]
fn worker_joins_once_and_needs_no_token_afterwards() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let (far, impostor) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let join = cluster.path("join.token");
    cluster.say(&["token", "create", "--role", "worker", "--to", join.to_str().unwrap()]);

    let lost = cluster.far_worker(far.path(), "n7", None).output().unwrap();
    assert!(stderr(&lost).contains("--join-token-file"), "{}", stderr(&lost));
    let mut worker =
        Daemon::start(&mut cluster.far_worker(far.path(), "n7", Some(&join)), "accepted this worker");
    assert_eq!(mode(&far.path().join("workers/n7/identity.json")), 0o600);
    worker.kill();
    let worker = Daemon::start(&mut cluster.far_worker(far.path(), "n7", None), "accepted this worker");
    cluster.say(&["submit", "--wait", "--gang", "4", "--", "true"]);

    // Another machine cannot be the same node with the same token, but with a token for that very node.
    let taken = cluster.far_worker(impostor.path(), "n7", Some(&join)).output().unwrap();
    assert!(stderr(&taken).contains("node `n7` has already joined"), "{}", stderr(&taken));
    drop(worker);
    let again = cluster.path("n7.token");
    let for_node = ["token", "create", "--role", "worker", "--node", "n7", "--to"];
    let plain = cluster.path("n7-plain.token");
    cluster.say(&[&for_node[..], &[plain.to_str().unwrap()]].concat());
    let taken = cluster.far_worker(impostor.path(), "n7", Some(&plain)).output().unwrap();
    assert!(stderr(&taken).contains("`--node n7 --replace`"), "{}", stderr(&taken));
    cluster.say(&[&for_node[..], &[again.to_str().unwrap(), "--replace"]].concat());
    let other = cluster.far_worker(impostor.path(), "n8", Some(&again)).output().unwrap();
    assert!(stderr(&other).contains("may join as `n7`, not as `n8`"), "{}", stderr(&other));
    let replaced =
        Daemon::start(&mut cluster.far_worker(impostor.path(), "n7", Some(&again)), "accepted this worker");
    let old = cluster.far_worker(far.path(), "n7", None).output().unwrap();
    assert!(stderr(&old).contains("certificate was revoked"), "{}", stderr(&old));

    // A user's token does not make a worker.
    let ann = cluster.token_for("ann");
    let user = cluster.far_worker(far.path(), "n9", Some(&ann)).output().unwrap();
    assert!(
        stderr(&user).contains("permission denied: Join needs a worker's join token"),
        "{}",
        stderr(&user)
    );
    drop(replaced);
}

/// What a worker keeps: its certificate, key, and the authority.
fn kept(folder: &Path) -> (Fingerprint, ClientCertificate) {
    let text = fs::read_to_string(folder.join("identity.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&text).unwrap();
    let membership = &kept["membership"];
    let certificate = serde_json::from_value(membership["certificate"].clone()).unwrap();
    let key = kept["key"].as_str().unwrap().to_owned();
    (membership["authority"].as_str().unwrap().parse().unwrap(), ClientCertificate { certificate, key })
}

fn registration(node: &str) -> FromWorkerBatch {
    let register =
        Register { node: node.into(), devices: 1, device_type: "v100".into(), ..Register::default() };
    let message = Some(from_worker::Message::Register(Box::new(register)));
    FromWorkerBatch { messages: vec![FromWorker { message }] }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_one_node_does_not_register_another() {
    let cluster = Cluster::new();
    let _head = cluster.head();
    let worker = cluster.worker("a");
    let (authority, certificate) = kept(&cluster.path("workers/a"));
    let endpoint = wharf_tls::endpoint(&cluster.address()).unwrap();
    let attach = async |certificate: Option<&ClientCertificate>, token: Option<&str>, node: &str| -> Status {
        let channel = wharf_tls::connect(&endpoint, authority, certificate).await.unwrap();
        let mut request = Request::new(tokio_stream::once(registration(node)));
        if let Some(token) = token {
            request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        WorkersClient::new(channel).attach(request).await.map(|_| ()).unwrap_err()
    };
    let status = attach(Some(&certificate), None, "b").await;
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(status.message(), "permission denied: this worker's certificate is for `a`, not `b`");
    for name in ["token", "worker-token"] {
        let token = fs::read_to_string(cluster.path(name)).unwrap();
        let status = attach(None, Some(token.trim()), "b").await;
        assert_eq!(status.code(), Code::PermissionDenied, "{name}: {status}");
    }
    let channel = wharf_tls::connect(&endpoint, authority, Some(&certificate)).await.unwrap();
    let status = ClusterClient::new(channel).info(InfoRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "a worker does not ask what people ask");
    drop(worker);
}

#[test]
fn secrets_show_nowhere() {
    let cluster = Cluster::new();
    let spoken = cluster.path("spoken.log");
    let log = || File::options().create(true).append(true).open(&spoken).unwrap();
    let listen = cluster.address();
    let loud = |words: &[&str]| {
        let mut command = cluster.command(words);
        command.arg("--verbose").stderr(log()).stdout(log());
        Daemon::quiet(&mut command)
    };
    let head = loud(&["head", "--listen", &listen]);
    let deadline = Instant::now() + PATIENCE;
    while !cluster.run(&["jobs"]).status.success() {
        assert!(Instant::now() < deadline, "no head");
    }
    let worker = loud(&["worker", "--node", "only", "--devices", "v100:4"]);
    let ann = cluster.token_for("daemon");
    let environment =
        cluster.run_as(&ann, &["submit", "--wait", "--", "sh", "-c", "env; cat /proc/$PPID/cmdline"]);
    environment.ok();
    let told = cluster.run_as(&ann, &["logs", "0"]).ok();

    let mut secrets: Vec<String> = ["token", "worker-token", "daemon.token"]
        .iter()
        .map(|name| fs::read_to_string(cluster.path(name)).unwrap())
        .map(|text| Token::new(&text).reveal().rsplit('.').next().unwrap().to_owned())
        .collect();
    let (_, certificate) = kept(&cluster.path("workers/only"));
    secrets.push(certificate.key.lines().nth(1).unwrap().to_owned());
    let shows = |bytes: &[u8]| {
        secrets.iter().any(|secret| bytes.windows(secret.len()).any(|part| part == secret.as_bytes()))
    };
    assert!(shows(&fs::read(&ann).unwrap()), "the test would see one");
    assert!(!shows(told.as_bytes()), "a task sees a secret");
    for daemon in [&head, &worker] {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{}/{file}", daemon.child.id())).unwrap();
            assert!(!shows(&bytes), "{file}");
        }
    }
    drop((head, worker));
    let may_hold = ["token", "worker-token", "daemon.token", "workers/only/identity.json"]
        .map(|name| cluster.path(name));
    let all = files(cluster.folder.path());
    assert!(all.iter().any(|(path, _)| path.ends_with("journal.sqlite")), "the journal is checked");
    for (path, bytes) in all.iter().filter(|(path, _)| !may_hold.contains(path)) {
        assert!(!shows(bytes), "{} holds a secret", path.display());
    }
}

#[test]
fn head_on_a_public_address_prints_how_to_join() {
    let cluster = Cluster::new();
    let listen = format!("0.0.0.0:{}", cluster.port);
    let mut head = cluster.daemon(&["head", "--listen", &listen], "listens on 0.0.0.0");
    let authority =
        wharf_tls::fingerprint_of_pem(&fs::read_to_string(cluster.path("auth/ca.pem")).unwrap()).unwrap();
    head.wait_for(&authority.to_string());
    head.wait_for(&format!("wharf worker --head HOST:{}", cluster.port));
    cluster.say(&["jobs"]);
}

/// A head in this process whose certificates last only seconds.
async fn hasty_head(folder: &Path, life: Duration, renew_after: Duration) -> Head {
    let setup = Setup { folder: folder.to_owned(), owner: "ann".into(), ..Setup::default() };
    let config = HeadConfig {
        caps: wharf_head::Caps::default(),
        checkpoints: wharf_head::CheckpointSettings::default(),
        sendmail: wharf_head::notify::SENDMAIL.into(),
        webhook_allow: Vec::new(),
        allow_root: false,
        listen: "127.0.0.1:0".parse().unwrap(),
        state_dir: folder.to_owned(),
        access: Access::open(&setup).unwrap().with_worker_life(life, renew_after),
        lost_after: PATIENCE,
        history_s: 3600.0,
        http: None,
        warn: std::sync::Arc::new(|_| ()),
        policy: PolicyChoice { name: "fifo".into(), ..PolicyChoice::default() },
        is_policy_wanted: true,
        never_resizes: wharf_reproduce::never_resizes,
        make: std::sync::Arc::new(|choice| {
            let preset = wharf_sim::Preset::load("wharf").unwrap();
            let rules = preset.rules().expect("it is Wharf's own");
            let settings = wharf_policy::Settings::default();
            Ok(wharf_sim::regime(rules, &choice.name, &settings, 0).unwrap().0)
        }),
    };
    Head::start(config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_before_they_end() {
    let folder = tempfile::tempdir().unwrap();
    let head = hasty_head(folder.path(), Duration::from_secs(4), Duration::from_secs(1)).await;
    let state_dir = folder.path().join("workers/a");
    let config = WorkerConfig {
        tasks: wharf_worker::TaskSettings::default(),
        head: format!("https://{}", head.address()),
        token: fs::read_to_string(folder.path().join("worker-token")).unwrap().trim().to_owned(),
        node: "a".into(),
        device_type: "v100".into(),
        devices: 1,
        cpus: 1,
        memory_gib: 1,
        switch: 0,
        pool: String::new(),
        features: Vec::new(),
        address: "127.0.0.1".into(),
        state_dir: state_dir.clone(),
        network_interface: None,
        watch: wharf_worker::Watch::default(),
        containers: wharf_worker::ContainerSettings::default(),
        lifetime: None,
        supervisor_program: Some(env!("CARGO_BIN_EXE_wharf").into()),
        rehearsal: None,
    };
    let (notices, mut heard) = mpsc::unbounded_channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async {
        let _ = stopped.await;
    };
    let told = move |notice: Notice| drop(notices.send(notice));
    let worker = tokio::spawn(wharf_worker::run_with(config, shutdown, told));
    let mut next =
        async || tokio::time::timeout(PATIENCE, heard.recv()).await.expect("nothing is heard").unwrap();
    assert_eq!(next().await, Notice::Welcomed);
    let (_, first) = kept(&state_dir);
    for _ in 0..5 {
        // The stream stays, also when the certificate that it was opened with is over.
        assert_eq!(next().await, Notice::Renewed);
    }
    let (_, later) = kept(&state_dir);
    assert_ne!(later.certificate, first.certificate);
    assert_eq!(later.key, first.key);
    stop.send(()).unwrap();
    worker.await.unwrap().unwrap();
    head.stop().await.unwrap();
}
