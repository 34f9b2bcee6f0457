//! Job notifications: a user's command, a webhook with JSON, or an email.
//!
//! Everything happens on a thread of its own behind a bounded queue. Senders never wait; what cannot
//! be delivered is logged, and nothing depends on it. A notice may arrive twice (after a head's restart, or where an answer
//! was lost); its id stays the same.

mod command;
mod mail;
pub(crate) mod notifications;
mod webhook;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};
use wharf_proto::notify::Moment;
use wharf_proto::{JobPhase, Notify};

pub(crate) use webhook::Webhook;

use crate::rpc::network::Network;

/// Default sendmail-compatible program.
pub const SENDMAIL: &str = "/usr/sbin/sendmail";

/// Notices that may wait to be sent.
const QUEUE_MAX: usize = 10_000;
/// Notices that are sent at once.
const AT_ONCE: u32 = 16;

/// Facts of a job at an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// The job.
    pub job_id: u32,
    /// Counts its placements, so that a second start is distinguished from the first.
    pub generation: u32,
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// The phase that it is in now, in lower case.
    pub phase: String,
    /// What it exited with, where it has.
    pub exit_code: Option<i32>,
    /// Seconds since the Unix epoch.
    pub submit_s: f64,
    /// When it started last, where it has.
    pub start_s: Option<f64>,
    /// When it ended, where it has.
    pub end_s: Option<f64>,
    /// Where it runs, or ran last.
    pub nodes: Vec<String>,
    /// Its place in an array.
    pub array_index: Option<u32>,
    /// What brought its last run to its end, in a word; empty where it ended as it should.
    pub cause: String,
    /// Why it ended as it did; empty where that is unknown or plain.
    pub reason: String,
}

/// An event of a job, and the target of its notification.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The event.
    pub moment: Moment,
    /// Where to send it.
    pub target: Notify,
    /// The job.
    pub facts: Facts,
}

impl Notice {
    /// A notice, where the job's owner asked for this event.
    pub fn wanted(target: Option<&Notify>, moment: Moment, facts: impl FnOnce() -> Facts) -> Option<Self> {
        let target = target?;
        let is_end = matches!(moment, Moment::Finished | Moment::Failed | Moment::Cancelled);
        let is_wanted = if target.on.is_empty() { is_end } else { target.on().any(|on| on == moment) };
        is_wanted.then(|| Self { moment, target: target.clone(), facts: facts() })
    }

    /// The same for every notice of the same event of the same job.
    pub fn id(&self) -> String {
        format!("{}.{}.{}", self.facts.job_id, self.facts.generation, self.moment_name())
    }

    fn moment_name(&self) -> &'static str {
        match self.moment {
            Moment::Started => "started",
            Moment::Preempted => "preempted",
            Moment::Finished => "finished",
            Moment::Failed => "failed",
            Moment::Cancelled => "cancelled",
            Moment::Stall => "stalled",
        }
    }

    /// The event in a word; a timeout is distinguished from other failures.
    fn outcome(&self) -> &str {
        let is_timed_out = self.moment == Moment::Failed && self.facts.phase == JobPhase::TimedOut.word();
        if is_timed_out { &self.facts.phase } else { self.moment_name() }
    }

    /// What a command reads and an address gets.
    fn json(&self) -> String {
        let document = serde_json::json!({
            "schema": 1, "id": self.id(), "moment": self.moment_name(), "job": self.facts,
        });
        document.to_string() + "\n"
    }

    /// The same for a command's environment; what is not known has no variable.
    fn variables(&self) -> BTreeMap<&'static str, String> {
        let facts = &self.facts;
        let some = [
            ("WHARF_NOTIFY_ID", Some(self.id())),
            ("WHARF_NOTIFY_MOMENT", Some(self.moment_name().to_owned())),
            ("WHARF_NOTIFY_JOB_ID", Some(facts.job_id.to_string())),
            ("WHARF_NOTIFY_JOB_NAME", Some(facts.name.clone())),
            ("WHARF_NOTIFY_USER", Some(facts.user.clone())),
            ("WHARF_NOTIFY_PHASE", Some(facts.phase.clone())),
            ("WHARF_NOTIFY_EXIT_CODE", facts.exit_code.map(|code| code.to_string())),
            ("WHARF_NOTIFY_SUBMIT_S", Some(facts.submit_s.to_string())),
            ("WHARF_NOTIFY_START_S", facts.start_s.map(|time| time.to_string())),
            ("WHARF_NOTIFY_END_S", facts.end_s.map(|time| time.to_string())),
            ("WHARF_NOTIFY_NODES", Some(facts.nodes.join(","))),
            ("WHARF_NOTIFY_ARRAY_INDEX", facts.array_index.map(|index| index.to_string())),
            ("WHARF_NOTIFY_CAUSE", Some(facts.cause.clone())),
            ("WHARF_NOTIFY_REASON", Some(facts.reason.clone())),
        ];
        some.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Error of a notification.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    /// Too many notices wait.
    #[error("the notification queue is full ({QUEUE_MAX} entries)")]
    QueueFull,
    /// The thread is gone.
    #[error("the notifier has stopped")]
    Stopped,
    /// The command cannot be started.
    #[error("cannot run `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The command must not be run with the rights of the head.
    #[error("the head cannot run a command as user `{user}`; use a webhook")]
    User {
        /// The job's user.
        user: String,
    },
    /// The command failed.
    #[error("`{program}` ended with {status}")]
    Failed {
        /// The program.
        program: String,
        /// How.
        status: std::process::ExitStatus,
    },
    /// It took too long.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// An address that cannot be posted to.
    #[error("invalid webhook URL")]
    Address,
    /// An invalid email address.
    #[error("invalid email address")]
    Mail,
    /// The address cannot be reached.
    #[error("cannot reach `{host}`")]
    Connect {
        /// The host and its port.
        host: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The address is not public, and not on the head's allow-list.
    #[error("webhooks may not target `{host}`; an admin allows it with `wharf head --webhook-allow NETWORK`")]
    Forbidden {
        /// The host and its port.
        host: String,
        /// The address.
        #[source]
        source: std::io::Error,
    },
    /// The exchange failed.
    #[error("`{host}` sent an invalid HTTP response")]
    Http {
        /// The host and its port.
        host: String,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// The answer is an error.
    #[error("`{host}` answered with {status}")]
    Refused {
        /// The host and its port.
        host: String,
        /// The status.
        status: u16,
    },
}

/// How long things may take.
#[derive(Clone, Debug)]
pub struct NotifyConfig {
    /// A command, before it is killed.
    pub command_limit: Duration,
    /// One attempt to post.
    pub attempt_limit: Duration,
    /// Pauses before further attempts: as many as there are pauses.
    pub pauses: Vec<Duration>,
    /// sendmail-compatible program, called with `-t -i`.
    pub sendmail: PathBuf,
    /// Networks that webhooks may target although they are not public.
    pub webhook_allow: Vec<Network>,
    /// Certificates (DER) of authorities to trust beside the system's.
    pub extra_roots: Vec<Vec<u8>>,
}

impl Default for NotifyConfig {
    fn default() -> Self {
        Self {
            command_limit: Duration::from_secs(30),
            attempt_limit: Duration::from_secs(10),
            pauses: [1, 5, 25].map(Duration::from_secs).to_vec(),
            sendmail: SENDMAIL.into(),
            webhook_allow: vec![],
            extra_roots: vec![],
        }
    }
}

/// Sends notices, on a thread of its own. Notices that wait when it is dropped are still sent while the process lives.
pub struct Notifier {
    queue: mpsc::Sender<Notice>,
    thread: std::thread::JoinHandle<()>,
}

impl Notifier {
    /// Starts with the default limits; `log` is called for what could not be sent.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(log: impl Fn(&Notice, &NotifyError) + Send + Sync + 'static) -> std::io::Result<Self> {
        Self::start_with(NotifyConfig::default(), log)
    }

    /// Starts with the given limits.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start_with(
        config: NotifyConfig,
        log: impl Fn(&Notice, &NotifyError) + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let (queue, notices) = mpsc::channel(QUEUE_MAX);
        let client = Arc::new(webhook::Client::new(&config)?);
        let config = Arc::new(config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("notifier".into()).spawn(move || {
            runtime.block_on(serve(notices, client, config, Arc::new(log)));
        })?;
        Ok(Self { queue, thread })
    }

    /// Queues a notice; never waits.
    ///
    /// # Errors
    /// Where too many wait already: the caller logs that.
    pub fn send(&self, notice: Notice) -> Result<(), NotifyError> {
        self.queue.try_send(notice).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotifyError::QueueFull,
            mpsc::error::TrySendError::Closed(_) => NotifyError::Stopped,
        })
    }

    /// Waits until everything that was queued is sent or given up.
    pub fn finish(self) {
        drop(self.queue);
        // A thread that panicked has nothing left to send.
        let _ = self.thread.join();
    }
}

type Log = Arc<dyn Fn(&Notice, &NotifyError) + Send + Sync>;

async fn serve(
    mut notices: mpsc::Receiver<Notice>,
    client: Arc<webhook::Client>,
    config: Arc<NotifyConfig>,
    log: Log,
) {
    let free = Arc::new(Semaphore::new(AT_ONCE as usize));
    while let Some(notice) = notices.recv().await {
        // The semaphore is never closed.
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        let (config, client, log) = (config.clone(), client.clone(), log.clone());
        tokio::spawn(async move {
            deliver(&notice, &config, &client, &log).await;
            drop(permit);
        });
    }
    // All permits are free again when everything has been sent.
    let _ = free.acquire_many(AT_ONCE).await;
}

async fn deliver(notice: &Notice, config: &NotifyConfig, client: &webhook::Client, log: &Log) {
    if !notice.target.command.is_empty()
        && let Err(error) = again(config, || command::run(notice, config.command_limit)).await
    {
        log(notice, &error);
    }
    if !notice.target.mail.is_empty()
        && let Err(error) = again(config, || mail::send(notice, config)).await
    {
        log(notice, &error);
    }
    if !notice.target.webhook.is_empty()
        && let Err(error) = client.post_notice(notice, config).await
    {
        log(notice, &error);
    }
}

/// Tries until it works, or until there is no pause left, or trying again cannot help.
async fn again<F: Future<Output = Result<(), NotifyError>>>(
    config: &NotifyConfig,
    attempt: impl Fn() -> F,
) -> Result<(), NotifyError> {
    let mut pauses = config.pauses.iter();
    loop {
        let Err(error) = attempt().await else { return Ok(()) };
        match pauses.next() {
            Some(&pause) if may_pass(&error) => tokio::time::sleep(pause).await,
            _ => return Err(error),
        }
    }
}

/// Whether the same attempt may go better a little later.
fn may_pass(error: &NotifyError) -> bool {
    match error {
        NotifyError::Refused { status, .. } => *status >= 500 || [408, 425, 429].contains(status),
        NotifyError::User { .. }
        | NotifyError::Mail
        | NotifyError::Address
        | NotifyError::Forbidden { .. } => false,
        // What is not there does not come by waiting.
        NotifyError::Start { source, .. } => source.kind() != std::io::ErrorKind::NotFound,
        _ => true,
    }
}
