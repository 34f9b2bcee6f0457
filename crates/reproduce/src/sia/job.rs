//! One job: what it is given, and how it gets on.

use std::collections::BTreeMap;

use super::error::SiaError;
use super::goodput::{Batch, BatchRange, Gradients, Point, StepTime, Throughput};
use super::profile::Application;

/// How a job comes to its batch size and its model of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuning {
    /// Tunes the batch size, with a model of each device type (Sia).
    PerType,
    /// Tunes the batch size, with one model for all device types (Pollux).
    Blind,
    /// Keeps the batch size that its owner asked for (Gavel with tuned jobs).
    Fixed(u32),
}

/// A job's state.
#[derive(Clone, Debug)]
pub(super) struct Job<'a> {
    pub(super) name: &'a str,
    app: &'a Application,
    tuning: Tuning,
    initial_batch: u32,
    most_batch: u32,
    /// What it has seen, by device type; under one name where it is blind to types.
    seen: BTreeMap<String, BTreeMap<Point, StepTime>>,
    models: BTreeMap<String, Throughput>,
    gradients: Option<Gradients>,
    pub(super) batch: Batch,
    pub(super) progress: f64,
    pub(super) epoch: usize,
    pub(super) device_type: Option<String>,
    /// Devices of each node.
    pub(super) placement: Vec<u32>,
    rescale_left_s: u64,
    pub(super) restarts: Option<u32>,
    pub(super) end_s: Option<u64>,
}

impl<'a> Job<'a> {
    pub(super) fn new(name: &'a str, app: &'a Application, tuning: Tuning, batches: (u32, u32)) -> Self {
        Self {
            name,
            app,
            tuning,
            initial_batch: batches.0,
            most_batch: batches.1,
            seen: BTreeMap::new(),
            models: BTreeMap::new(),
            gradients: None,
            batch: Batch::default(),
            progress: 0.0,
            epoch: 0,
            device_type: None,
            placement: Vec::new(),
            rescale_left_s: 0,
            restarts: None,
            end_s: None,
        }
    }

    /// Samples of a step.
    pub(super) fn batch_size(&self) -> u32 {
        self.replicas() * self.batch.atomic * (self.batch.accumulated + 1)
    }

    pub(super) fn replicas(&self) -> u32 {
        self.placement.iter().sum()
    }

    /// Runs from `from_s` for so many seconds with what it was given.
    pub(super) fn step(&mut self, from_s: u64, seconds: u64) -> Result<(), SiaError> {
        if self.end_s.is_some() || self.placement.is_empty() {
            return Ok(());
        }
        let delay = self.rescale_left_s.min(seconds);
        self.rescale_left_s -= delay;
        let mut left = seconds - delay;
        while left > 0 && self.end_s.is_none() {
            left = self.train(from_s + seconds - left, left)?;
            // Also where no epoch has ended.
            self.tune()?;
        }
        Ok(())
    }

    /// Trains until the epoch ends or the seconds are over; gives those that are left.
    fn train(&mut self, now_s: u64, left: u64) -> Result<u64, SiaError> {
        let batch_size = self.batch_size();
        let scale = f64::from(batch_size) / f64::from(self.initial_batch);
        let gradients =
            self.app.gradients(batch_size, self.epoch).ok_or_else(|| self.no_gradients(batch_size))?;
        let time = self.step_time()?;
        self.learn(time, gradients);
        let total_s = time.step_s + (time.step_s - time.sync_s) * f64::from(self.batch.accumulated);
        let goodput = gradients.gain(scale) / total_s * (1.0 / self.app.numbers.slowdown);
        let next = self.app.progress_after(self.epoch + 1).ok_or_else(|| self.no_gradients(batch_size))?;
        if self.progress + goodput * (left as f64) < next {
            self.progress += goodput * (left as f64);
            return Ok(0);
        }
        let delta = ((next - self.progress) / goodput).round_ties_even() as u64;
        self.epoch += 1;
        if self.epoch >= self.app.numbers.epochs {
            self.end_s = Some(now_s + delta);
        }
        self.progress = next;
        Ok(left.saturating_sub(delta))
    }

    fn step_time(&self) -> Result<StepTime, SiaError> {
        let device_type = self.device_type.as_deref().unwrap_or_default();
        let speeds = self.app.speeds(device_type);
        let time = speeds.and_then(|speeds| speeds.step_time(&self.placement, self.batch.atomic));
        time.ok_or_else(|| self.untold())
    }

    fn no_gradients(&self, batch: u32) -> SiaError {
        SiaError::NoGradients {
            job: self.name.to_owned(),
            application: self.app.name.clone(),
            batch,
            epoch: self.epoch,
        }
    }

    /// Under which name it keeps what it has seen.
    fn model_name(&self) -> String {
        match self.tuning {
            Tuning::Blind => String::new(),
            _ => self.device_type.clone().unwrap_or_default(),
        }
    }

    /// Takes note of a step. What was seen already is not seen again.
    fn learn(&mut self, time: StepTime, gradients: Gradients) {
        self.gradients = Some(gradients);
        if matches!(self.tuning, Tuning::Fixed(_)) {
            // Its model decides nothing.
            return;
        }
        let name = self.model_name();
        let seen = self.seen.entry(name.clone()).or_default();
        let point = (self.placement.len() as u32, self.placement.iter().sum(), self.batch.atomic);
        if let std::collections::btree_map::Entry::Vacant(place) = seen.entry(point) {
            place.insert(time);
            let model = Throughput::fit(seen);
            self.models.insert(name, model);
        }
    }

    /// Chooses the batch size for its placement.
    fn tune(&mut self) -> Result<(), SiaError> {
        let device_type = self.device_type.clone().unwrap_or_default();
        let Some(speeds) = self.app.speeds(&device_type) else { return Err(self.untold()) };
        let (nodes, replicas) = (self.placement.len() as u32, self.replicas());
        let most_local = speeds.most_local(&self.placement).ok_or_else(|| self.untold())?;
        let model = self.models.get(&self.model_name()).copied().zip(self.gradients);
        let mut batch = match (self.tuning, model) {
            (Tuning::Fixed(batch), _) => self.divide(batch, replicas, most_local),
            (_, None) => {
                let first = self.initial_batch.max(speeds.local.0 * replicas);
                self.divide(first, replicas, most_local)
            }
            (_, Some((model, gradients))) => {
                let local = (speeds.local.0, most_local);
                let range = BatchRange { initial: self.initial_batch, most: self.most_batch, local };
                model.best_batch(gradients, nodes, replicas, range)
            }
        };
        if let Some(most) = speeds.most_local_of(replicas) {
            batch.atomic = batch.atomic.min(most);
        }
        let count = replicas * (batch.accumulated + 1);
        batch.atomic = batch.atomic.min(self.most_batch / count.max(1));
        self.batch = batch;
        Ok(())
    }

    fn untold(&self) -> SiaError {
        let device_type = self.device_type.as_deref().unwrap_or_default();
        let place = format!(
            "{} on {:?} devices of `{device_type}` with {} samples each",
            self.app.name, self.placement, self.batch.atomic
        );
        SiaError::NoStepTime { job: self.name.to_owned(), place }
    }

    /// A given batch size over replicas.
    fn divide(&self, batch: u32, replicas: u32, most_local: u32) -> Batch {
        let up = |of: f64, by: f64| (of / by - 1e-8).ceil();
        let local = up(f64::from(batch), f64::from(replicas));
        let mut accumulated = up(local, f64::from(most_local)) - 1.0;
        if replicas == 1 && batch > self.initial_batch {
            accumulated = accumulated.max(1.0);
        }
        Batch { atomic: up(local, accumulated + 1.0) as u32, accumulated: accumulated as u32 }
    }

    /// Gives it these devices, or none. A change of type or shape is a restart.
    pub(super) fn allocate(
        &mut self,
        device_type: Option<&str>,
        placement: Vec<u32>,
    ) -> Result<(), SiaError> {
        let is_moved = self.device_type.as_deref() != device_type;
        self.device_type = device_type.map(str::to_owned);
        if placement.is_empty() {
            self.placement = placement;
            self.batch.atomic = 0;
            return Ok(());
        }
        if is_moved || self.placement != placement {
            self.placement = placement;
            self.tune()?;
            self.rescale_left_s = self.app.numbers.rescale_s;
            self.restarts = Some(self.restarts.map_or(0, |restarts| restarts + 1));
        }
        Ok(())
    }
}
