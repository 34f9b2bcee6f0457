//! A head: the dispatcher's thread behind gRPC.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use wharf_core::{Cadence, Engine, PerfModel, Policy, Time};
use wharf_proto::cluster_server::ClusterServer;
use wharf_proto::tonic::service::Interceptor;
use wharf_proto::tonic::transport::Server;
use wharf_proto::tonic::{Request, Status, transport};
use wharf_proto::workers_server::WorkersServer;

use crate::clock::{Wall, unix_s};
use crate::dispatcher::{Dispatcher, Input, Setup};
use crate::journal::{Damage, Journal, JournalError};
use crate::service::{Service, Shared};

/// What a head needs to begin.
pub struct HeadConfig {
    /// Where it listens; loopback unless told otherwise.
    pub listen: SocketAddr,
    /// Where its journal is.
    pub state_dir: PathBuf,
    /// What everybody who connects has to know.
    pub token: String,
    /// How long a node may be away before it counts as lost.
    pub lost_after: Duration,
    /// Most jobs on one device.
    pub slots: usize,
    /// Seconds that events are kept once a snapshot covers them.
    pub history_s: f64,
    /// What the policy is called.
    pub policy_name: String,
    /// Who decides.
    pub policy: Box<dyn Policy>,
    /// When the policy is called.
    pub cadence: Cadence,
    /// What the policy is told about speeds.
    pub perf: Box<dyn PerfModel>,
}

/// A head that cannot begin, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The server failed.
    #[error("the server failed")]
    Serve(#[source] transport::Error),
    /// The dispatcher's thread died: a bug.
    #[error("the dispatcher died; this is a bug in Wharf")]
    Dispatcher,
}

/// A head that listens.
pub struct Head {
    address: SocketAddr,
    damage: Option<Damage>,
    inputs: Sender<Input>,
    dispatcher: JoinHandle<Result<(), JournalError>>,
    stop: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<Result<(), transport::Error>>,
}

impl Head {
    /// Replays the journal and begins to listen.
    ///
    /// # Errors
    /// [`HeadError`] where the journal or the address cannot be used.
    pub async fn start(config: HeadConfig) -> Result<Self, HeadError> {
        let HeadConfig { listen, state_dir, token, slots, policy, perf, cadence, .. } = config;
        let path = state_dir.join("journal.sqlite");
        let (journal, replayed) = Journal::open(&path, slots, unix_s(), config.history_s)?;
        let damage = replayed.damage.clone();
        let listening = |source| HeadError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).await.map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        let (inputs, receiver) = channel();
        let dispatcher = std::thread::spawn(move || {
            let make = |now: Time, state| Engine::resume(now, state, policy, perf, cadence);
            let setup = Setup {
                clock: Box::new(Wall::new(replayed.epoch_unix_s, replayed.last)),
                policy_name: config.policy_name,
                lost_after_s: config.lost_after.as_secs_f64(),
            };
            Dispatcher::new(make, journal, replayed, setup).run(&receiver)
        });
        let service = Arc::new(Service::new(inputs.clone()));
        let check = Token(token.into());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .add_service(ClusterServer::with_interceptor(Shared(service.clone()), check.clone()))
            .add_service(WorkersServer::with_interceptor(Shared(service), check))
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async {
                // Stopping and dropping mean the same.
                let _ = stopped.await;
            });
        Ok(Self { address, damage, inputs, dispatcher, stop, server: tokio::spawn(server) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was found damaged in the journal, and cut off.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Stops: what runs goes on running, and a later head finds it.
    ///
    /// # Errors
    /// [`HeadError`] where the journal could not be written.
    pub async fn stop(self) -> Result<(), HeadError> {
        // Streams to workers never end by themselves, so the server is not waited for.
        let _ = self.stop.send(());
        self.server.abort();
        let _ = self.inputs.send(Input::Stop);
        let joined = tokio::task::spawn_blocking(move || self.dispatcher.join()).await;
        joined
            .map_err(|_| HeadError::Dispatcher)?
            .map_err(|_| HeadError::Dispatcher)?
            .map_err(HeadError::from)
    }
}

/// Lets in who knows the token.
#[derive(Clone)]
struct Token(Arc<str>);

impl Interceptor for Token {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let expected = format!("Bearer {}", self.0);
        let given = request.metadata().get("authorization").map(|value| value.as_bytes()).unwrap_or_default();
        if is_equal(given, expected.as_bytes()) {
            Ok(request)
        } else {
            Err(Status::unauthenticated("the token is missing or wrong"))
        }
    }
}

/// Compares without telling by its duration where the difference is.
fn is_equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
