//! Connections: accepted, counted, and encrypted before a request is read.
//!
//! *Invariant: connections without a valid token or certificate cannot keep others out.* Their number is bounded in total and for
//! each address. At a bound the oldest connection that has not authenticated is closed in favour of the new one; connections that
//! have authenticated are never closed for others.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use wharf_proto::tonic::transport::server::Connected;

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may take to authenticate.
const AUTHENTICATE_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections that are ready and not yet served.
const READY_MAX: usize = 64;
/// Pause where the system has no more descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Descriptors for the journal, the audit log, listeners and files.
const RESERVED_DESCRIPTORS: usize = 128;
const HTTP_MAX: usize = 1024;
const GRPC_MAX: usize = 1 << 16;

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionCaps {
    total: usize,
    per_address: usize,
}

impl ConnectionCaps {
    /// The caps of HTTP and of gRPC connections within the process's limit of open files.
    pub(crate) fn of_process() -> (Self, Self) {
        let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        Self::within(usize::try_from(soft).unwrap_or(usize::MAX))
    }

    /// HTTP gets a quarter: browsers cannot take the descriptors of clients and workers.
    fn within(descriptors: usize) -> (Self, Self) {
        let free = descriptors.saturating_sub(RESERVED_DESCRIPTORS);
        let http = (free / 4).clamp(16, HTTP_MAX);
        let grpc = free.saturating_sub(http).clamp(32, GRPC_MAX);
        (Self { total: http, per_address: http / 4 }, Self { total: grpc, per_address: grpc / 2 })
    }
}

/// Accepts connections.
pub(crate) struct Door {
    ready: mpsc::Receiver<io::Result<Link>>,
    address: SocketAddr,
}

impl Door {
    /// Listens; connections are encrypted where `tls` is given.
    pub(crate) async fn open(
        listen: SocketAddr,
        tls: Option<ServerConfig>,
        caps: ConnectionCaps,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(READY_MAX);
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let places = Arc::new(Places { caps, all: Mutex::default() });
        tokio::spawn(async move {
            for number in 0.. {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = sender.closed() => return,
                };
                let Ok((stream, from)) = accepted else {
                    // Too many files are open: some will be closed.
                    sleep(PAUSE).await;
                    continue;
                };
                if let Some(place) = places.enter(number, from.ip()) {
                    tokio::spawn(encrypt(stream, place, acceptor.clone(), sender.clone()));
                }
            }
        });
        Ok(Self { ready, address })
    }

    /// The address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection; `None` where there will be no more.
    pub(crate) async fn accept(&mut self) -> Option<Link> {
        self.ready.recv().await?.ok()
    }

    /// The connections as a stream, which never fails.
    pub(crate) fn into_stream(self) -> tokio_stream::wrappers::ReceiverStream<io::Result<Link>> {
        tokio_stream::wrappers::ReceiverStream::new(self.ready)
    }
}

async fn encrypt(
    stream: TcpStream,
    mut place: ConnectionSlot,
    acceptor: Option<TlsAcceptor>,
    ready: mpsc::Sender<io::Result<Link>>,
) {
    // Without it small messages arrive later, and still arrive.
    let _ = stream.set_nodelay(true);
    let stream = match acceptor {
        None => Transport::Plain(stream),
        Some(acceptor) => {
            let shaken = tokio::select! {
                shaken = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => shaken,
                _ = &mut place.closed => return,
            };
            // TLS itself reports a failed handshake to the client.
            let Ok(Ok(stream)) = shaken else { return };
            Transport::Encrypted(Box::new(stream))
        }
    };
    let deadline = Some(Box::pin(sleep(AUTHENTICATE_TIMEOUT)));
    // The head may be stopping.
    let _ = ready.send(Ok(Link { stream, place, deadline })).await;
}

/// The connections that are open.
struct Places {
    caps: ConnectionCaps,
    all: Mutex<BTreeMap<u64, Taken>>,
}

struct Taken {
    address: IpAddr,
    is_authenticated: Arc<AtomicBool>,
    /// Closes the connection when it is dropped.
    _close: oneshot::Sender<()>,
}

impl Places {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Taken>> {
        // Every change is a single insertion or removal.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection; `None` where none can be made.
    fn enter(self: &Arc<Self>, number: u64, from: IpAddr) -> Option<ConnectionSlot> {
        let address = network(from);
        let mut all = self.all();
        let is_same = |taken: &Taken| taken.address == address;
        if all.values().filter(|taken| is_same(taken)).count() >= self.caps.per_address {
            evict(&mut all, is_same)?;
        }
        if all.len() >= self.caps.total {
            evict(&mut all, |_| true)?;
        }
        let (close, closed) = oneshot::channel();
        let is_authenticated = Arc::new(AtomicBool::new(false));
        let taken = Taken { address, is_authenticated: is_authenticated.clone(), _close: close };
        all.insert(number, taken);
        let from = from.to_canonical();
        Some(ConnectionSlot { number, from, is_authenticated, closed, places: self.clone() })
    }
}

/// Closes the oldest connection that has not authenticated.
fn evict(all: &mut BTreeMap<u64, Taken>, is_candidate: impl Fn(&Taken) -> bool) -> Option<()> {
    let is_unknown = |taken: &Taken| !taken.is_authenticated.load(Ordering::Relaxed) && is_candidate(taken);
    let oldest = all.iter().find(|(_, taken)| is_unknown(taken)).map(|(&number, _)| number)?;
    all.remove(&oldest).map(drop)
}

/// What counts as one address: an IPv4 address, or the /64 that one IPv6 host can choose from.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

/// A connection's place, which is free again when this is dropped.
struct ConnectionSlot {
    number: u64,
    from: IpAddr,
    is_authenticated: Arc<AtomicBool>,
    closed: oneshot::Receiver<()>,
    places: Arc<Places>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.all().remove(&self.number);
    }
}

/// The other side of a connection.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Where it connects from.
    pub(crate) address: IpAddr,
    /// The certificate that it has shown, in DER; the handshake has checked who signed it.
    pub(crate) certificate: Option<Arc<[u8]>>,
    is_authenticated: Arc<AtomicBool>,
}

impl Peer {
    /// Records that a request of this connection has authenticated.
    pub(crate) fn authenticated(&self) {
        self.is_authenticated.store(true, Ordering::Relaxed);
    }
}

/// A connection.
pub(crate) struct Link {
    stream: Transport,
    place: ConnectionSlot,
    /// When it is closed unless it has authenticated.
    deadline: Option<Pin<Box<Sleep>>>,
}

enum Transport {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Link {
    /// The other side.
    pub(crate) fn peer(&self) -> Peer {
        let shown = match &self.stream {
            Transport::Plain(_) => None,
            Transport::Encrypted(stream) => stream.get_ref().1.peer_certificates(),
        };
        let certificate = shown.and_then(|chain| chain.first()).map(|first| Arc::from(first.as_ref()));
        let is_authenticated = self.place.is_authenticated.clone();
        Peer { address: self.place.from, certificate, is_authenticated }
    }

    /// Fails where the connection had to make room for another, or has not authenticated in time.
    fn poll_open(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.deadline.is_none() {
            return Ok(());
        }
        if self.place.is_authenticated.load(Ordering::Relaxed) {
            self.deadline = None;
            return Ok(());
        }
        let is_late = self.deadline.as_mut().is_some_and(|late| late.as_mut().poll(context).is_ready());
        if is_late || Pin::new(&mut self.place.closed).poll(context).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl Connected for Link {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer()
    }
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let link = self.get_mut();
        link.poll_open(context)?;
        match &mut link.stream {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(total: usize, per_address: usize) -> Arc<Places> {
        Arc::new(Places { caps: ConnectionCaps { total, per_address }, all: Mutex::default() })
    }

    fn is_closed(place: &mut ConnectionSlot) -> bool {
        place.closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn door_at_its_cap_closes_the_oldest_connection_without_a_token() {
        let places = places(3, 2);
        let [here, there] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let mut first = places.enter(0, here).unwrap();
        first.is_authenticated.store(true, Ordering::Relaxed);
        let mut second = places.enter(1, here).unwrap();
        let mut third = places.enter(2, here).unwrap();
        assert_eq!([&mut first, &mut second, &mut third].map(is_closed), [false, true, false]);
        drop(second);
        let mut fourth = places.enter(3, there).unwrap();
        let fifth = places.enter(4, there).unwrap();
        assert_eq!([&mut first, &mut third, &mut fourth].map(is_closed), [false, true, false]);
        for place in [&fourth, &fifth] {
            place.is_authenticated.store(true, Ordering::Relaxed);
        }
        assert!(places.enter(5, there).is_none(), "all have authenticated");
        drop(fifth);
        assert!(places.enter(6, there).is_some(), "a place is free");
    }

    #[test]
    fn address_counts_once_in_either_notation_and_an_ipv6_network_as_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }

    #[test]
    fn http_leaves_most_descriptors_to_clients_and_workers() {
        for descriptors in [0, 256, 1024, 4096, 1 << 20] {
            let (http, grpc) = ConnectionCaps::within(descriptors);
            assert!(http.total < grpc.total && http.per_address >= 4, "{http:?} {grpc:?}");
            let all = http.total + grpc.total + RESERVED_DESCRIPTORS;
            assert!(descriptors < 256 || all <= descriptors, "{descriptors}: {all}");
        }
    }
}
