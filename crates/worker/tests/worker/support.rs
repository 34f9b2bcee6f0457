//! A head that does what the test says, over real gRPC, and a worker attached to it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use wharf_proto::tonic::transport::Server;
use wharf_proto::tonic::{Request, Response, Status, Streaming};
use wharf_proto::workers_server::{Workers, WorkersServer};
use wharf_proto::{
    Device, ForgetTask, FromWorker, FromWorkerBatch, InspectTask, LaunchTask, Lease, Register, RenewLease,
    SendOutput, SetPace, StopTask, TaskId, ToWorker, ToWorkerBatch, Welcome, from_worker, to_worker,
};
use wharf_worker::{ContainerSettings, TaskSettings, Watch, WorkerConfig, run};

pub(crate) const TOKEN: &str = "correct-horse-battery";
/// More than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn id(job_id: u32, generation: u32) -> TaskId {
    TaskId { job_id, generation }
}

/// A launch of a shell script.
pub(crate) fn shell(task: TaskId, script: &str) -> LaunchTask {
    LaunchTask {
        task: Some(task),
        command: vec!["/bin/sh".into(), "-c".into(), script.into()],
        ranks: 1,
        devices: vec![2],
        grace_s: 20.0,
        ..LaunchTask::default()
    }
}

/// Shell code that waits for a file, or for the end of a test that failed and took its folder away.
pub(crate) fn wait_for(file: &Path) -> String {
    let folder = file.parent().unwrap();
    format!("while [ -d {} ] && ! [ -e {} ]; do sleep 0.02; done", folder.display(), file.display())
}

pub(crate) struct Head {
    pub(crate) address: SocketAddr,
    sessions: mpsc::UnboundedReceiver<Session>,
    server: JoinHandle<()>,
}

/// One attachment of a worker.
pub(crate) struct Session {
    pub(crate) register: Register,
    inbound: Streaming<FromWorkerBatch>,
    /// Of the latest batch, what was not checked yet.
    unread: std::vec::IntoIter<FromWorker>,
    outbound: mpsc::Sender<Result<ToWorkerBatch, Status>>,
}

struct Service {
    sessions: mpsc::UnboundedSender<Session>,
    welcome: Welcome,
}

#[wharf_proto::tonic::async_trait]
impl Workers for Service {
    type AttachStream = ReceiverStream<Result<ToWorkerBatch, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<FromWorkerBatch>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let bearer = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        if bearer != Some(&format!("Bearer {TOKEN}")) {
            return Err(Status::unauthenticated("the token is not right"));
        }
        let mut inbound = request.into_inner();
        let mut unread = inbound.message().await?.unwrap_or_default().messages.into_iter();
        let first = unread.next().and_then(|envelope| envelope.message);
        let Some(from_worker::Message::Register(register)) = first else {
            return Err(Status::invalid_argument("no registration"));
        };
        let (outbound, stream) = mpsc::channel(1024);
        outbound.send(Ok(one(to_worker::Message::Welcome(self.welcome)))).await.unwrap();
        let _ = self.sessions.send(Session { register: *register, inbound, unread, outbound });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

fn one(message: to_worker::Message) -> ToWorkerBatch {
    ToWorkerBatch { messages: vec![ToWorker { message: Some(message) }], mark: None }
}

impl Head {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn start_at(address: SocketAddr) -> Self {
        Self::start_with(address, Welcome { heartbeat_s: 0.5, ..Welcome::default() }).await
    }

    /// Starts where an earlier head was, and states that to its workers.
    pub(crate) async fn start_with(address: SocketAddr, welcome: Welcome) -> Self {
        // An earlier head's socket may live on for a moment in a child that another test is starting.
        let binding = async {
            loop {
                match TcpListener::bind(address).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        };
        let listener = tokio::time::timeout(PATIENCE, binding).await.expect("the address stays taken");
        let address = listener.local_addr().unwrap();
        let (sender, sessions) = mpsc::unbounded_channel();
        let service = WorkersServer::new(Service { sessions: sender, welcome });
        let server = Server::builder().add_service(service);
        let server = tokio::spawn(async move {
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { address, sessions, server }
    }

    pub(crate) async fn session(&mut self) -> Session {
        tokio::time::timeout(PATIENCE, self.sessions.recv()).await.expect("no worker came").unwrap()
    }

    /// Goes away; sessions end when they are dropped.
    pub(crate) async fn stop(self) {
        self.server.abort();
        let _ = self.server.await;
    }
}

impl Session {
    async fn send(&self, message: to_worker::Message) {
        self.outbound.send(Ok(one(message))).await.unwrap();
    }

    pub(crate) async fn launch(&self, launch: LaunchTask) {
        self.send(to_worker::Message::Launch(Box::new(launch))).await;
    }

    pub(crate) async fn inspect(&self, task: TaskId) {
        self.send(to_worker::Message::Inspect(InspectTask { task: Some(task) })).await;
    }

    pub(crate) async fn stop(&self, task: TaskId) {
        self.send(to_worker::Message::Stop(StopTask { task: Some(task) })).await;
    }

    pub(crate) async fn renew(&self, task: TaskId, lease: Lease) {
        let renewal = RenewLease { task: Some(task), lease: Some(lease) };
        self.send(to_worker::Message::RenewLease(renewal)).await;
    }

    pub(crate) async fn set_pace(&self, task: TaskId, iteration_s: f64) {
        self.send(to_worker::Message::SetPace(SetPace { task: Some(task), iteration_s })).await;
    }

    pub(crate) async fn forget(&self, task: TaskId) {
        self.send(to_worker::Message::Forget(ForgetTask { task: Some(task) })).await;
    }

    pub(crate) async fn send_output(&self, wanted: SendOutput) {
        self.send(to_worker::Message::SendOutput(wanted)).await;
    }

    /// The next message but heartbeats.
    pub(crate) async fn next(&mut self) -> from_worker::Message {
        let next = async {
            loop {
                let Some(envelope) = self.unread.next() else {
                    let batch = self.inbound.message().await.unwrap().expect("the worker left");
                    self.unread = batch.messages.into_iter();
                    continue;
                };
                let message = envelope.message.unwrap();
                if !matches!(message, from_worker::Message::Heartbeat(_)) {
                    return message;
                }
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("the worker is silent")
    }

    pub(crate) async fn started(&mut self, task: TaskId) {
        loop {
            match self.next().await {
                from_worker::Message::Started(started) if started.task == Some(task) => return,
                from_worker::Message::Ended(ended) if ended.task == Some(task) => {
                    panic!("it ended before it started: {ended:?}")
                }
                _ => (),
            }
        }
    }

    /// Exit code and error of a task, when it has ended.
    pub(crate) async fn ended(&mut self, task: TaskId) -> (i32, String) {
        loop {
            if let from_worker::Message::Ended(ended) = self.next().await
                && ended.task == Some(task)
            {
                return (ended.exit_code, ended.error);
            }
        }
    }

    /// The devices, as soon as what is informed of them is `enough`.
    pub(crate) async fn devices(&mut self, enough: impl Fn(&[Device]) -> bool) -> Vec<Device> {
        loop {
            if let from_worker::Message::Devices(report) = self.next().await
                && enough(&report.devices)
            {
                return report.devices;
            }
        }
    }

    /// Collects output of a request until `enough` or its end.
    pub(crate) async fn output(&mut self, request: u64, enough: impl Fn(&[u8]) -> bool) -> (Vec<u8>, bool) {
        let mut data = Vec::new();
        loop {
            if let from_worker::Message::Output(output) = self.next().await
                && output.request == request
            {
                assert!(output.data.len() <= 64 * 1024);
                data.extend(output.data);
                if output.end || enough(&data) {
                    return (data, output.end);
                }
            }
        }
    }
}

pub(crate) fn probe() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_wharf-worker-probe"))
}

pub(crate) fn config(address: SocketAddr, state_dir: &Path) -> WorkerConfig {
    WorkerConfig {
        head: format!("http://{address}"),
        token: TOKEN.into(),
        node: "n0".into(),
        device_type: "v100".into(),
        devices: 4,
        cpus: 8,
        memory_gib: 1,
        switch: 7,
        pool: String::new(),
        features: Vec::new(),
        address: "10.0.0.9".into(),
        state_dir: state_dir.to_owned(),
        supervisor_program: Some(probe()),
        rehearsal: None,
        network_interface: None,
        watch: Watch::default(),
        containers: ContainerSettings::default(),
        tasks: TaskSettings::default(),
        lifetime: None,
    }
}

/// A worker in this process.
pub(crate) struct Worker {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Worker {
    pub(crate) fn start(address: SocketAddr, state_dir: &Path) -> Self {
        Self::start_with(config(address, state_dir))
    }

    pub(crate) fn start_with(config: WorkerConfig) -> Self {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let running = run(config, shutdown);
        Self { stop, task: tokio::spawn(async { running.await.expect("the worker continues") }) }
    }

    pub(crate) async fn shut_down(self) {
        let _ = self.stop.send(());
        tokio::time::timeout(PATIENCE, self.task).await.expect("no orderly end").unwrap();
    }
}

/// A worker in a process of its own, which dies hard.
pub(crate) struct Victim(Child);

impl Victim {
    pub(crate) fn start(address: SocketAddr, state_dir: &Path) -> Self {
        Self::start_with(address, state_dir, &[])
    }

    pub(crate) fn start_with(address: SocketAddr, state_dir: &Path, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(probe());
        command.envs(env.iter().copied());
        command.arg("worker").arg(format!("http://{address}")).arg(state_dir).env("PROBE_TOKEN", TOKEN);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what} did not come about"));
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Whether a process runs; a zombie does not.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = read(Path::new(&format!("/proc/{}/stat", pid.trim())));
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The supervisor of a state directory, by what holds its journal open.
pub(crate) fn supervisor_pid(state_dir: &Path) -> Option<u32> {
    let wanted = state_dir.join("keeper.journal");
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let mut files = std::fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        files.any(|file| std::fs::read_link(file.path()).is_ok_and(|to| to == wanted)).then_some(pid)
    })
}
