//! How the nodes of a Ray cluster find each other, and learn that it has ended.
//!
//! The first node listens at the port that the head has given the job, and tells who comes where Ray's head is: that is known
//! only when its block of ports was found. The connection then stays. When the first node closes it, or is gone, the cluster is
//! over: no Ray node has to find that out by itself, which takes Ray a minute. Who comes has to know the cluster's token.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::Plan;

/// How often a first node that does not listen yet is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// Time limit for a new connection to identify itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// A line is no longer than this.
const LINE_BYTES_MAX: u64 = 256;

/// What a node states when it comes: enough to know it by, and nothing that helps who overhears it.
fn greeting(plan: &Plan, token: &str) -> String {
    let text = format!("wharf-ray {} {} {token}", plan.job, plan.generation);
    wharf_tls::sha256(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The other nodes, at the first one.
pub(super) struct Guests {
    leave: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Guests {
    /// Where they come to. They may come before there is something to tell: then they wait.
    pub(super) async fn listen(plan: &Plan) -> io::Result<TcpListener> {
        // Only where the others search for it, if that is an address of this machine.
        let own = plan.own_address().parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        match TcpListener::bind((own, plan.port)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, plan.port)).await
            }
            bound => bound,
        }
    }

    /// Sends the address of Ray's head to all connecting nodes.
    pub(super) fn receive(listener: TcpListener, plan: &Plan, token: &str, head: &str) -> Self {
        let (leave, told) = watch::channel(false);
        let (greeting, head) = (greeting(plan, token), head.to_owned());
        // A node may come again, and strangers may try.
        let most = plan.ranks as usize * 4;
        let task = tokio::spawn(async move {
            let mut lines = JoinSet::new();
            let mut leaving = told.clone();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        while lines.try_join_next().is_some() {}
                        if let (Ok((stream, _)), true) = (accepted, lines.len() < most) {
                            lines.spawn(serve(stream, greeting.clone(), head.clone(), told.clone()));
                        }
                    }
                    // An error is the same: there is no receiver.
                    _ = leaving.wait_for(|leave| *leave) => break,
                }
            }
            lines.join_all().await;
        });
        Self { leave, task }
    }

    /// Tells them that it has ended, and waits for them to be gone.
    pub(super) async fn dismiss(self, limit: Duration) {
        self.leave.send_replace(true);
        // Who does not go in time finds out by itself.
        let _ = timeout(limit, self.task).await;
    }
}

async fn serve(stream: TcpStream, greeting: String, head: String, mut leave: watch::Receiver<bool>) {
    let mut stream = BufReader::new(stream);
    let said = timeout(PATIENCE, line(&mut stream)).await;
    if !matches!(said, Ok(Ok(said)) if said == greeting) {
        return;
    }
    if stream.write_all(format!("{head}\n").as_bytes()).await.is_err() {
        return;
    }
    let mut byte = [0];
    tokio::select! {
        // It is gone, and has nothing to say in any case.
        _ = stream.read(&mut byte) => return,
        _ = leave.wait_for(|leave| *leave) => {}
    }
    // The end of what is said to it is the word to leave, the end of what it states that it has left.
    if stream.shutdown().await.is_ok() {
        let _ = stream.read(&mut byte).await;
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut text = String::new();
    stream.take(LINE_BYTES_MAX).read_line(&mut text).await?;
    match text.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// The first node, at another one.
pub(super) struct Host {
    stream: BufReader<TcpStream>,
    /// Where Ray's head is.
    pub(super) head: String,
}

impl Host {
    /// Comes to the first node, as soon as that listens and has something to tell.
    pub(super) async fn find(plan: &Plan, token: &str) -> Self {
        loop {
            match Self::try_find(plan, token).await {
                Ok(found) => return found,
                // It is not there yet, or Ray's head is being tried again.
                Err(_) => sleep(RETRY).await,
            }
        }
    }

    async fn try_find(plan: &Plan, token: &str) -> io::Result<Self> {
        let stream = TcpStream::connect((plan.head_address(), plan.port)).await?;
        let mut stream = BufReader::new(stream);
        stream.write_all(format!("{}\n", greeting(plan, token)).as_bytes()).await?;
        let head = line(&mut stream).await?;
        Ok(Self { stream, head })
    }

    /// Returns when the cluster is over.
    pub(super) async fn gone(&mut self) {
        let mut byte = [0];
        // Whatever it says now, or why it cannot: it has ended.
        let _ = self.stream.read(&mut byte).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(rank: u32, port: u16) -> Plan {
        Plan {
            job: 7,
            generation: 1,
            rank,
            ranks: 3,
            addresses: vec!["127.0.0.1".to_owned(); 3],
            port,
            program: "ray".to_owned(),
            cpus: 1,
            gpus: 0,
            object_store_bytes: 0,
            memory_bytes: 0,
            arguments: Vec::new(),
            temp_dir: None,
            dashboard: None,
            ready_ms: 1000,
            grace_ms: 1000,
            has_threads: false,
        }
    }

    #[tokio::test]
    async fn nodes_with_the_token_are_reported_and_see_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // The first has come before there was something to tell.
        let early = tokio::spawn(async move { Host::find(&plan(1, port), "hush").await });
        let guests = Guests::receive(listener, &plan(0, port), "hush", "127.0.0.2:20000");
        let mut early = early.await.unwrap();
        let mut late = Host::find(&plan(2, port), "hush").await;
        assert_eq!((early.head.as_str(), late.head.as_str()), ("127.0.0.2:20000", "127.0.0.2:20000"));
        assert!(Host::try_find(&plan(2, port), "guessed").await.is_err(), "a stranger");
        let leaving = tokio::spawn(async move {
            early.gone().await;
            late.gone().await;
        });
        guests.dismiss(Duration::from_secs(30)).await;
        leaving.await.unwrap();
    }
}
