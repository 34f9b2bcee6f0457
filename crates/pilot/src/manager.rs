//! Keeps as many pilots in Slurm as there is work for: looks, decides, acts, and writes down what it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wharf_client::{Access, unix_s};
use wharf_proto::node_summary::Health as NodeHealth;
use wharf_proto::{NO_JOB_CAME, NodeSummary};
use wharf_tls::random_hex;

use crate::decide::{Pilot, PilotPlan, Situation, Stage, decide};
use crate::demand::wants;
use crate::error::PilotError;
use crate::head::{Head, View};
use crate::health::{Health, Life, verdict};
use crate::node::{NodeEntry, NodeSpec};
use crate::queue::{Filter, JobState, Queue, QueueJob, Submission, usual_environment};
use crate::script;
use crate::settings::Settings;
use crate::store::{PilotRow, Status, Store};

/// What the comments of pilots' Slurm jobs begin with.
const MARK: &str = "wharf";
/// How long pilots may take to go when they are requested to.
const PARTING: Duration = Duration::from_secs(120);

/// Treatment of pilots when their manager ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopping {
    /// They continue until they are idle, and are found again.
    Keep,
    /// They are cancelled; their jobs checkpoint and wait.
    Cancel,
}

/// The pilot manager.
pub struct Manager {
    settings: Settings,
    queue: Box<dyn Queue>,
    head: Head,
    store: Store,
    status: Status,
    health: Health,
    surplus_since_s: Option<f64>,
    /// Slots whose pilot has ended for certain: none of its processes is left.
    vacated: BTreeSet<u32>,
    /// Slurm is not asked before, after it did not answer.
    blind_until_s: f64,
}

impl Manager {
    /// One that continues where the last one with this folder has stopped.
    ///
    /// # Errors
    /// [`PilotError`] where a setting makes no sense, or the folder cannot be read.
    pub fn new(
        settings: Settings,
        queue: Box<dyn Queue>,
        access: Access,
        store: Store,
    ) -> Result<Self, PilotError> {
        settings.check()?;
        let status = store.status()?.unwrap_or_default();
        Ok(Self {
            settings,
            queue,
            head: Head::new(access),
            health: status.health(),
            status,
            store,
            surplus_since_s: None,
            vacated: BTreeSet::new(),
            blind_until_s: 0.0,
        })
    }

    /// Keeps pilots until `shutdown` is ready.
    ///
    /// # Errors
    /// [`PilotError`] where what is known cannot be written down. Whatever else fails is told, and tried again.
    pub async fn run(
        &mut self,
        shutdown: impl Future<Output = ()>,
        stopping: Stopping,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), PilotError> {
        let mut shutdown = std::pin::pin!(shutdown);
        let interval = Duration::from_secs_f64(self.settings.interval_s);
        loop {
            self.look(say).await?;
            tokio::select! {
                () = &mut shutdown => break,
                () = tokio::time::sleep(interval) => {}
            }
        }
        match stopping {
            Stopping::Keep => Ok(()),
            Stopping::Cancel => self.recall_all(interval, say).await,
        }
    }

    /// Reads the state once and acts on it.
    async fn look(&mut self, say: &mut (dyn FnMut(&str) + Send)) -> Result<(), PilotError> {
        let now_s = unix_s();
        if now_s >= self.blind_until_s {
            let view = self.head.look().await;
            match self.queue.list(&Filter::Name(self.settings.name.clone())).await {
                Ok(jobs) => self.act(now_s, &jobs, view, say).await?,
                Err(error) => {
                    self.failed(now_s, told(&error), say);
                    self.blind_until_s = self.health.retry_at_s;
                }
            }
        }
        self.save(now_s)
    }

    async fn act(
        &mut self,
        now_s: f64,
        jobs: &[QueueJob],
        view: Result<View, wharf_client::ClientError>,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), PilotError> {
        let view = match view {
            Ok(view) => view,
            Err(error) => {
                // What waits is not known: nothing is changed. Pilots that have ended are told when it is back.
                let away = told(&error);
                if self.status.head_away != away {
                    say(&format!("the head does not answer: {away}"));
                }
                self.status.head_away = away;
                return Ok(());
            }
        };
        self.status.head_away.clear();
        self.update(now_s, jobs, &view, say).await?;
        self.remove_nodes(&view, say).await;
        let plan = self.plan(now_s, &view);
        for id in &plan.cancel {
            say(&format!("pilot {id} is no longer needed and is cancelled"));
            self.recall(now_s, id, say).await;
        }
        for _ in 0..plan.submit {
            if !self.submit(now_s, &view, say).await? {
                break;
            }
        }
        Ok(())
    }

    fn plan(&mut self, now_s: f64, view: &View) -> PilotPlan {
        let Settings { shape, bounds, idle_s, gres, .. } = &self.settings;
        let known = view.nodes.iter().find(|node| self.slot_of(&node.name).is_some());
        let slots = gres.is_empty().then(|| "cpu".to_owned());
        let device_type = shape.device_type.clone().or(slots).or(known.map(|node| node.device_type.clone()));
        let wants = wants(&view.demands, &view.limits, shape, device_type.as_deref(), bounds.max);
        let is_ours =
            |node: &&NodeSummary| node.health() == NodeHealth::Up && self.slot_of(&node.name).is_some();
        let free: Vec<u32> = view.nodes.iter().filter(is_ours).map(|node| node.free).collect();
        let pilot = |(id, row): (&String, &PilotRow)| Pilot { id: id.clone(), stage: row.stage() };
        let pilots: Vec<Pilot> = self.status.pilots.iter().map(pilot).collect();
        let situation = Situation {
            now_s,
            wants: &wants,
            free: &free,
            pilots: &pilots,
            retry_at_s: self.health.retry_at_s,
            is_suspect: self.health.is_suspect(),
            surplus_since_s: self.surplus_since_s,
            patience_s: *idle_s,
        };
        let plan = decide(&situation, shape, *bounds);
        self.surplus_since_s = plan.surplus_since_s;
        self.status.waiting = wants.iter().map(|want| want.jobs).sum();
        self.status.needed = plan.needed;
        plan
    }

    /// Takes over what Slurm and the head say of pilots, and judges those that have ended.
    async fn update(
        &mut self,
        now_s: f64,
        jobs: &[QueueJob],
        view: &View,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), PilotError> {
        let mark = format!("{MARK}:{}:", self.head.key());
        let mut live = BTreeMap::new();
        for job in jobs {
            let Some(folder) = job.comment.strip_prefix(&mark) else { continue };
            let Some(slot) = folder.split('-').next().and_then(|slot| slot.parse().ok()) else { continue };
            let known = self.status.pilots.remove(&job.id);
            if matches!(job.state, JobState::Over(_)) {
                if let Some(row) = known {
                    self.over(now_s, &job.id, &row, Some(job), view, say).await?;
                }
                continue;
            }
            let mut row =
                known.unwrap_or_else(|| PilotRow { slot, folder: folder.to_owned(), ..PilotRow::default() });
            self.advance(&mut row, job, view, say);
            live.insert(job.id.clone(), row);
        }
        // Slurm has forgotten the others.
        for (id, row) in std::mem::replace(&mut self.status.pilots, live) {
            self.over(now_s, &id, &row, None, view, say).await?;
        }
        Ok(())
    }

    /// What is new of a pilot that is not over.
    fn advance(
        &mut self,
        row: &mut PilotRow,
        job: &QueueJob,
        view: &View,
        say: &mut (dyn FnMut(&str) + Send),
    ) {
        let is_connected = self.names(row.slot).any(|name| {
            let is_there = |node: &&NodeSummary| {
                node.name == name && !matches!(node.health(), NodeHealth::Lost | NodeHealth::Gone)
            };
            view.nodes.iter().find(is_there).is_some()
        });
        let is_running = job.state != JobState::Pending;
        row.start_s = job.start_s.filter(|_| is_running);
        row.reason.clone_from(&job.reason);
        row.nodes.clone_from(&job.nodes);
        self.vacated.remove(&row.slot);
        if is_connected && is_running && !row.has_joined {
            row.has_joined = true;
            say(&format!("pilot {} is up on {}", job.id, job.nodes));
            self.health.succeeded();
        }
        let stage = match job.state {
            JobState::Pending => "pending",
            JobState::Running if row.has_joined => "up",
            JobState::Running => "starting",
            JobState::Ending | JobState::Over(_) => "ending",
        };
        stage.clone_into(&mut row.stage);
    }

    /// A pilot has ended.
    async fn over(
        &mut self,
        now_s: f64,
        id: &str,
        row: &PilotRow,
        job: Option<&QueueJob>,
        view: &View,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), PilotError> {
        let left = |name: String| view.nodes.iter().find(|node| node.name == name);
        let reasons: Vec<&str> =
            self.names(row.slot).filter_map(left).map(|node| node.reason.as_str()).collect();
        let useless = reasons.iter().filter(|reason| reason.starts_with(NO_JOB_CAME)).count();
        let start_s = job.and_then(|job| job.start_s).or(row.start_s);
        let end_s = job.and_then(|job| job.end_s).unwrap_or(now_s);
        // A job that never had nodes has a start as well, which is its end.
        let has_begun = job.map_or(start_s.is_some(), |job| !job.nodes.is_empty());
        let output = self.store.pilot(&row.folder).join("output.txt").display().to_string();
        let life = Life {
            id,
            state: job.map(|job| &job.state),
            reason: job.map_or("", |job| &job.reason),
            lived_s: start_s.filter(|_| has_begun).map(|start_s| end_s - start_s),
            has_joined: row.has_joined,
            is_recalled: row.is_recalled,
            was_useless: row.has_joined && useless == reasons.len() && useless > 0,
            output: &output,
        };
        let wrong = verdict(&life, self.settings.backoff.young_s);
        if job.is_some_and(|job| job.state != JobState::Over("NODE_FAIL".to_owned())) {
            self.vacated.insert(row.slot);
        }
        self.store.forget_pilot(&row.folder, wrong.is_some())?;
        for token in &row.tokens {
            // A token that stays is good for a name that is taken again anyway.
            let _ = self.head.revoke(token).await;
        }
        match wrong {
            Some(wrong) => self.failed(now_s, wrong, say),
            None => say(&format!("pilot {id} has ended")),
        }
        Ok(())
    }

    /// Tells the head of nodes that are off: it need not wait for them.
    async fn remove_nodes(&mut self, view: &View, say: &mut (dyn FnMut(&str) + Send)) {
        let taken: BTreeSet<u32> = self.status.pilots.values().map(|row| row.slot).collect();
        for node in view.nodes.iter().filter(|node| node.health() == NodeHealth::Lost) {
            let Some(slot) = self.slot_of(&node.name).filter(|slot| !taken.contains(slot)) else { continue };
            // Of a machine that Slurm does not reach either, it is unknown what runs there: the head waits until it must be fenced off.
            if node.is_away && !self.vacated.contains(&slot) {
                continue;
            }
            if let Err(error) = self.head.remove(&node.name, "its pilot has ended").await {
                say(&format!("node {} stays: {}", node.name, told(&error)));
            }
        }
    }

    /// Submits one more pilot; `false` where that failed.
    async fn submit(
        &mut self,
        now_s: f64,
        view: &View,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<bool, PilotError> {
        let slot = self.free_slot(view);
        let Ok(random) = random_hex(4) else { return Ok(false) };
        let folder = format!("{slot}-{random}");
        let names: Vec<String> = self.names(slot).collect();
        let mut tokens = Vec::new();
        for name in &names {
            match self.head.token(name).await {
                Ok(token) => tokens.push(token),
                Err(error) => {
                    self.failed(now_s, format!("no token for a worker: {}", told(&error)), say);
                    return Ok(false);
                }
            }
        }
        let (secrets, ids): (Vec<String>, Vec<String>) = tokens.into_iter().unzip();
        let spec = self.node_spec(slot, &folder, names);
        let path = self.store.write_pilot(&folder, &spec, &secrets)?;
        let submission = self.submission(&folder, &path.to_string_lossy());
        self.status.submitted += 1;
        match self.queue.submit(&submission).await {
            Ok(id) => {
                say(&format!("pilot {id} is submitted: {} jobs wait for devices", self.status.waiting));
                let row = PilotRow {
                    slot,
                    folder,
                    submitted_s: now_s,
                    stage: "pending".to_owned(),
                    tokens: ids,
                    ..PilotRow::default()
                };
                self.status.pilots.insert(id, row);
                self.save(now_s)?;
                Ok(true)
            }
            Err(error) => {
                self.failed(now_s, told(&error), say);
                for token in &ids {
                    // As above.
                    let _ = self.head.revoke(token).await;
                }
                self.store.forget_pilot(&folder, false)?;
                Ok(false)
            }
        }
    }

    fn node_spec(&self, slot: u32, folder: &str, names: Vec<String>) -> NodeSpec {
        let Settings { shape, bounds, .. } = &self.settings;
        let pilot = self.store.pilot(folder);
        let node = |(index, name): (usize, String)| NodeEntry {
            name,
            token_file: pilot.join(format!("{index}.token")),
        };
        NodeSpec {
            head: self.settings.head.clone(),
            nodes: names.into_iter().enumerate().map(node).collect(),
            devices: shape.devices,
            is_gres: !self.settings.gres.is_empty(),
            device_type: shape.device_type.clone(),
            pool: shape.pool.clone(),
            memory_mib: shape.memory_mib,
            // So many are to be there even if nothing waits.
            idle_s: (slot >= bounds.min).then_some(self.settings.idle_s),
            limit_s: f64::from(self.settings.limit_min) * 60.0,
            leave_before_s: self.settings.leave_before_s,
            scratch: self.settings.scratch.clone().into(),
        }
    }

    fn submission(&self, folder: &str, spec: &str) -> Submission {
        let settings = &self.settings;
        let pilot = self.store.pilot(folder);
        Submission {
            script: script::pilot(&settings.program, spec, settings.shape.nodes),
            name: settings.name.clone(),
            comment: format!("{MARK}:{}:{folder}", self.head.key()),
            partition: settings.partition.clone(),
            account: settings.account.clone(),
            qos: settings.qos.clone(),
            limit_min: settings.limit_min,
            nodes: settings.shape.nodes,
            tasks_per_node: 1,
            cpus: settings.shape.cpus,
            memory_mib: settings.shape.memory_mib,
            gres: settings.gres.clone(),
            output: pilot.join("output.txt").to_string_lossy().into_owned(),
            workdir: pilot,
            env: usual_environment().collect(),
            extra: settings.extra.clone(),
            ..Submission::default()
        }
    }

    /// The first slot whose nodes' names are free, and stand for nodes of the same kind.
    fn free_slot(&self, view: &View) -> u32 {
        let shape = &self.settings.shape;
        let taken: BTreeSet<u32> = self.status.pilots.values().map(|row| row.slot).collect();
        let is_like = |node: &NodeSummary| {
            node.devices == shape.devices
                && node.pool == shape.pool
                && shape.device_type.as_ref().is_none_or(|kind| *kind == node.device_type)
        };
        let is_usable = |name: String| {
            let known = view.nodes.iter().find(|node| node.name == name);
            known.is_none_or(|node| node.health() == NodeHealth::Gone && is_like(node))
        };
        let is_free = |slot: &u32| !taken.contains(slot) && self.names(*slot).all(is_usable);
        (0..u32::MAX).find(is_free).unwrap_or(u32::MAX)
    }

    fn names(&self, slot: u32) -> impl Iterator<Item = String> {
        (0..self.settings.shape.nodes).map(move |index| self.settings.node_name(slot, index))
    }

    /// Whose node a name is.
    fn slot_of(&self, name: &str) -> Option<u32> {
        let rest = name.strip_prefix(&self.settings.prefix)?.strip_prefix('-')?;
        let slot = rest.split('-').next()?.parse().ok()?;
        self.names(slot).any(|known| known == name).then_some(slot)
    }

    async fn recall(&mut self, now_s: f64, id: &str, say: &mut (dyn FnMut(&str) + Send)) {
        match self.queue.cancel(id).await {
            Ok(()) => {
                if let Some(row) = self.status.pilots.get_mut(id) {
                    row.is_recalled = true;
                }
            }
            Err(error) => self.failed(now_s, told(&error), say),
        }
    }

    /// Ends all pilots and waits until Slurm has them no more.
    async fn recall_all(
        &mut self,
        interval: Duration,
        say: &mut (dyn FnMut(&str) + Send),
    ) -> Result<(), PilotError> {
        let until = tokio::time::Instant::now() + PARTING;
        while tokio::time::Instant::now() < until {
            let now_s = unix_s();
            let ids: Vec<String> = self.status.pilots.keys().cloned().collect();
            for id in ids {
                if !self.status.pilots.get(&id).is_some_and(|row| row.is_recalled) {
                    self.recall(now_s, &id, say).await;
                }
            }
            let jobs = self.queue.list(&Filter::Name(self.settings.name.clone())).await;
            // A head that is away learns of it from the next one that keeps pilots.
            if let (Ok(jobs), Ok(view)) = (jobs, self.head.look().await) {
                self.update(now_s, &jobs, &view, say).await?;
                self.remove_nodes(&view, say).await;
            }
            self.save(now_s)?;
            if self.status.pilots.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(interval).await;
        }
        say("some pilots have not ended yet; their cancellation was requested");
        Ok(())
    }

    fn failed(&mut self, now_s: f64, what: String, say: &mut (dyn FnMut(&str) + Send)) {
        self.health.failed(now_s, &self.settings.backoff, what);
        let Health { failures, retry_at_s, trouble } = &self.health;
        let wait_s = (retry_at_s - now_s).max(0.0);
        say(&format!("{trouble}; no pilot is submitted for {wait_s:.0} s (failure {failures} in a row)"));
    }

    fn save(&mut self, now_s: f64) -> Result<(), PilotError> {
        self.status.set_health(&self.health);
        self.status.pid = std::process::id();
        self.status.updated_s = now_s;
        self.store.write_status(&self.status)
    }
}

impl PilotRow {
    fn stage(&self) -> Stage {
        match self.stage.as_str() {
            "pending" => Stage::Pending,
            "up" => Stage::Up,
            "ending" => Stage::Ending,
            _ => Stage::Starting,
        }
    }
}

/// An error with what lies below it, in one line.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(below) = source {
        text = format!("{text}: {below}");
        source = below.source();
    }
    text
}
