//! Who connects: plainly, or with TLS. A handshake that takes its time holds up nobody else.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use crate::auth::HANDSHAKE_TIMEOUT;

/// Connections that are ready and not yet taken.
const AHEAD: usize = 64;
/// How long it waits where the system has no more connections to give.
const PAUSE: Duration = Duration::from_millis(100);

/// Where connections come in.
pub(super) struct Door {
    ready: mpsc::Receiver<(Link, SocketAddr)>,
    address: SocketAddr,
}

/// A connection.
pub(super) enum Link {
    Plain(TcpStream),
    Safe(Box<TlsStream<TcpStream>>),
}

impl Door {
    pub(super) async fn open(
        listen: SocketAddr,
        tls: Option<ServerConfig>,
    ) -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(AHEAD);
        let acceptor = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        tokio::spawn(async move {
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = sender.closed() => return,
                };
                match accepted {
                    Ok((stream, from)) => {
                        drop(tokio::spawn(shake(stream, from, acceptor.clone(), sender.clone())))
                    }
                    // Too many files are open: some will be closed.
                    Err(_) => sleep(PAUSE).await,
                }
            }
        });
        Ok((Self { ready, address }, address))
    }
}

async fn shake(
    stream: TcpStream,
    from: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    ready: mpsc::Sender<(Link, SocketAddr)>,
) {
    // What is small is to arrive at once; where that cannot be had it arrives later.
    let _ = stream.set_nodelay(true);
    let link = match acceptor {
        None => Link::Plain(stream),
        Some(acceptor) => match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Link::Safe(Box::new(stream)),
            // Whoever cannot or does not want to is told so by TLS itself.
            Ok(Err(_)) | Err(_) => return,
        },
    };
    // The head may be stopping.
    let _ = ready.send((link, from)).await;
}

impl Listener for Door {
    type Io = Link;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Link, SocketAddr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Safe(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Safe(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Safe(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Safe(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
