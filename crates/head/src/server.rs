//! A head: the dispatcher's thread behind gRPC.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;
use wharf_policy::governor::LimitsError;
use wharf_proto::access_server::AccessServer;
use wharf_proto::cluster_server::ClusterServer;
use wharf_proto::tonic::transport::{self, Server};
use wharf_proto::workers_server::WorkersServer;

use crate::auth::{Access, AccessService, Guarded};
use crate::curves::CurveStore;
use crate::dispatcher::clock::{Wall, unix_s};
use crate::dispatcher::containment;
use crate::dispatcher::head_metrics::Meter;
use crate::dispatcher::queue::{Sender, queue};
use crate::dispatcher::{Dispatcher, Input, Setup};
use crate::http::{HttpConfig, Serving, serve};
use crate::jobs::Jobs;
use crate::jobs::checkpoints::CheckpointSettings;
use crate::jobs::request_limits::Caps;
use crate::jobs::secrets::Vault;
use crate::journal::{Damage, Journal, JournalError};
use crate::nodes::Nodes;
use crate::notify::NotifyConfig;
use crate::notify::notifications::LazyNotifier;
use crate::policy::active_policy::{ActivePolicy, MakeRegime, NeverResizes, PolicyChoice};
use crate::policy::limits::{AppliedLimits, govern};
use crate::rpc::connections::{ConnectionCaps, Door};
use crate::rpc::network::Network;
use crate::rpc::service::{Service, Shared, Terms};
use crate::tasks::Tasks;

/// How long submissions wait for the reports of nodes after a start: workers come back within this time.
const REPORT_GRACE_S: f64 = 3.0;

/// What a head needs to begin.
pub struct HeadConfig {
    /// Where it listens; loopback by default.
    pub listen: SocketAddr,
    /// Where its journal is.
    pub state_dir: PathBuf,
    /// Who may do what, and what the head shows to be believed.
    pub access: Access,
    /// How long a node may be away before it counts as lost.
    pub lost_after: Duration,
    /// What one request and one user may ask for.
    pub caps: Caps,
    /// Where jobs that name no checkpoint directory get theirs.
    pub checkpoints: CheckpointSettings,
    /// Seconds that events are kept once a snapshot covers them.
    pub history_s: f64,
    /// Who decides in a new head.
    pub policy: PolicyChoice,
    /// Whether `policy` also replaces what was chosen on a head that ran before.
    pub is_policy_wanted: bool,
    /// Makes policies from their names.
    pub make: MakeRegime,
    /// The name of a policy that never resizes jobs, by the name in a choice.
    pub never_resizes: NeverResizes,
    /// The sendmail-compatible program.
    pub sendmail: PathBuf,
    /// Networks that webhooks may target although they are not public.
    pub webhook_allow: Vec<Network>,
    /// Jobs of root are accepted although the head serves several users.
    pub allow_root: bool,
    /// How it serves browsers; `None`: it does not.
    pub http: Option<HttpConfig>,
    /// Hears of what goes wrong beside the head's work.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A head that cannot begin, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The policy cannot be made.
    #[error("policy `{policy}` cannot be used on this cluster: {problem}")]
    Policy {
        /// The policy.
        policy: String,
        /// What is wrong.
        problem: String,
    },
    /// The limits that were applied cannot be understood, so none of them could be kept.
    #[error("cannot read the limits of this head; they may be from a later version of Wharf")]
    Limits(#[source] LimitsError),
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The head's certificate cannot be used.
    #[error("cannot use the head's certificate for TLS")]
    Tls(#[source] tokio_rustls::rustls::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread")]
    Thread {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The server failed.
    #[error("the server failed")]
    Serve(#[source] transport::Error),
    /// The dispatcher's thread died: a bug.
    #[error("the dispatcher has failed; this is a bug in Wharf")]
    Dispatcher,
}

/// A head that listens.
pub struct Head {
    address: SocketAddr,
    damage: Option<Damage>,
    inputs: Sender,
    dispatcher: JoinHandle<Result<(), JournalError>>,
    ended: oneshot::Receiver<()>,
    stop: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<Result<(), transport::Error>>,
    http: Option<Serving>,
    watchdog: tokio::task::JoinHandle<()>,
    maintenance: tokio::task::JoinHandle<()>,
}

impl Head {
    /// Replays the journal and begins to listen.
    ///
    /// # Errors
    /// [`HeadError`] where the journal or the address cannot be used.
    pub async fn start(config: HeadConfig) -> Result<Self, HeadError> {
        let HeadConfig { listen, state_dir, access, make, never_resizes, .. } = config;
        let path = state_dir.join("journal.sqlite");
        let (mut journal, replayed) = Journal::open(&path, unix_s(), config.history_s)?;
        journal.claim(&access.fingerprint().to_string())?;
        let damage = replayed.damage.clone();
        let before = replayed.head_state.policy.clone();
        let choice = before.clone().filter(|_| !config.is_policy_wanted).unwrap_or(config.policy);
        let regime = make(&choice).map_err(|unusable| HeadError::Policy {
            policy: choice.name.clone(),
            problem: unusable.reason,
        })?;
        // Before the first decision: none is made without them.
        let applied = replayed.head_state.limits.clone();
        let limits = AppliedLimits::parse(applied.as_ref()).map_err(HeadError::Limits)?;
        let regime = govern(regime, &limits, applied.as_ref(), replayed.epoch_unix_s);
        let (epoch_unix_s, last) = (replayed.epoch_unix_s, replayed.last);
        let (engine, replayed, failed_over) = containment::resume(&mut journal, replayed, regime, &make)?;
        let listening = |source| HeadError::Listen { address: listen, source };
        let (http_caps, grpc_caps) = ConnectionCaps::of_process();
        access.audit.report_to(config.warn.clone());
        let tls = access.grpc_tls().map_err(HeadError::Tls)?;
        let door = Door::open(listen, Some(tls), grpc_caps).await.map_err(listening)?;
        let address = door.address();
        let (inputs, receiver) = queue(config.caps.queue);
        let meter = Arc::new(Meter::default());
        let (curves, writing) = CurveStore::start(&state_dir, config.history_s, config.warn.clone())
            .map_err(|source| HeadError::Thread { source })?;
        let access = Arc::new(access);
        let terms = Terms {
            allow_root: config.allow_root,
            webhook_allow: config.webhook_allow.clone(),
            user_priority: config.caps.user_priority,
        };
        let service = Arc::new(Service::new(inputs.clone(), access.clone(), terms, Vault::new(&state_dir)));
        // Where it cannot listen nothing has begun yet; who comes early waits for the dispatcher.
        let http = match config.http {
            Some(http) => {
                Some(serve(http, http_caps, Shared(service.clone()), access.clone(), meter.clone()).await?)
            }
            None => None,
        };
        let watchdog = tokio::spawn(watch(meter.clone(), config.warn.clone()));
        let maintenance = tokio::spawn(maintain(access.clone(), config.warn.clone()));
        let (end, ended) = oneshot::channel();
        let task_tokens = access.task_tokens();
        let dispatcher = std::thread::spawn(move || {
            let warn = config.warn;
            let notify = NotifyConfig {
                sendmail: config.sendmail,
                webhook_allow: config.webhook_allow,
                ..NotifyConfig::default()
            };
            let setup = Setup {
                clock: Box::new(Wall::new(epoch_unix_s, last)),
                jobs: Jobs::new(config.caps, config.checkpoints, Vault::new(&state_dir)),
                nodes: Nodes::new(config.lost_after.as_secs_f64()),
                tasks: Tasks::new(task_tokens, Some(curves)),
                policy: ActivePolicy::new(make, never_resizes, limits),
                notifier: LazyNotifier::new(notify, warn.clone()),
                warn,
                meter,
                report_grace_s: REPORT_GRACE_S,
            };
            let mut dispatcher = Dispatcher::new(|_, _| engine, journal, replayed, setup);
            if failed_over.is_some() {
                dispatcher.replace_policy(&choice.name);
            } else if before.as_ref() != Some(&choice) {
                dispatcher.note_policy(choice, "the head's command line");
            }
            let result = dispatcher.run(&receiver);
            writing.stop();
            // No client may wait for it.
            let _ = end.send(());
            result
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let server = Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .add_service(Guarded::new(
                ClusterServer::new(Shared(service.clone()))
                    .max_decoding_message_size(config.caps.request_bytes),
                access.clone(),
            ))
            .add_service(Guarded::new(WorkersServer::new(Shared(service)), access.clone()))
            .add_service(Guarded::new(AccessServer::new(AccessService(access.clone())), access))
            .serve_with_incoming_shutdown(door.into_stream(), async {
                // Stopping and dropping mean the same.
                let _ = stopped.await;
            });
        let server = tokio::spawn(server);
        Ok(Self { address, damage, inputs, dispatcher, ended, stop, server, http, watchdog, maintenance })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves browsers, if it does.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|serving| serving.address)
    }

    /// What was found damaged in the journal, and cut off.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Returns when the head cannot continue, such as where its disk is full; [`Head::stop`] states why.
    pub async fn failed(&mut self) {
        // It makes no difference whether one of them states this or is simply gone.
        tokio::select! {
            _ = &mut self.ended => {}
            _ = &mut self.server => {}
        }
    }

    /// Stops: what runs continues running, and a later head finds it.
    ///
    /// # Errors
    /// [`HeadError`] where the journal could not be written.
    pub async fn stop(self) -> Result<(), HeadError> {
        // Streams to workers never end by themselves, so the server is not waited for.
        let _ = self.stop.send(());
        self.server.abort();
        self.watchdog.abort();
        self.maintenance.abort();
        drop(self.http);
        let _ = self.inputs.force(Input::Stop);
        let joined = tokio::task::spawn_blocking(move || self.dispatcher.join()).await;
        joined
            .map_err(|_| HeadError::Dispatcher)?
            .map_err(|_| HeadError::Dispatcher)?
            .map_err(HeadError::from)
    }
}

/// States when the loop that decides has stalled, and when it continues.
async fn watch(meter: Arc<Meter>, warn: Arc<dyn Fn(&str) + Send + Sync>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let mut was_stalled = false;
    loop {
        ticks.tick().await;
        let is_stalled = meter.is_stalled();
        match (was_stalled, is_stalled) {
            (false, true) => warn(&format!(
                "the scheduling loop has stalled: it has been busy with one step for {:.0} s",
                meter.busy_for().as_secs_f64()
            )),
            (true, false) => warn("the scheduling loop continues"),
            _ => {}
        }
        was_stalled = is_stalled;
    }
}

/// How often last uses of tokens are written and the folder's join token is checked.
const MAINTENANCE: Duration = Duration::from_secs(60);

async fn maintain(access: Arc<Access>, warn: Arc<dyn Fn(&str) + Send + Sync>) {
    let mut ticks = tokio::time::interval(MAINTENANCE);
    let mut was_failing = false;
    loop {
        ticks.tick().await;
        let access = access.clone();
        let done = tokio::task::spawn_blocking(move || access.maintain()).await;
        let failure = done.ok().and_then(Result::err);
        if let (Some(error), false) = (&failure, was_failing) {
            warn(&format!("cannot maintain the table of tokens: {error}"));
        }
        was_failing = failure.is_some();
    }
}
