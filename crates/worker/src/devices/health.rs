//! Looks after the devices, and states what changed.
//!
//! A device is broken where its source states this or does not show it any more, or where the operator's own program states this.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use wharf_proto::Device;

use super::source::{ReadError, Reader};
use super::{dcgm, offered, run};
use crate::WorkerConfig;

/// Figures that move all the time are told no more often than this; problems at once.
const FIGURES_INTERVAL: Duration = Duration::from_secs(3);
/// What is a change worth telling: parts of the whole, MiB, degrees.
const UTILISATION_STEP: f64 = 0.05;
const MEMORY_STEP_MIB: u64 = 256;
const TEMPERATURE_STEP_C: f64 = 3.0;
/// A source that cannot be read so often in a row is broken; once may be a busy machine.
const FAILURES_MAX: u32 = 2;

/// Begins to look after a worker's devices. The receiver gets all of them whenever there is news, and is dropped to end it.
pub(crate) fn watch(config: &WorkerConfig) -> mpsc::Receiver<Vec<Device>> {
    let (news, receiver) = mpsc::channel(1);
    let is_silent = config.watch.command.is_empty() && !has_source(config);
    if !is_silent {
        tokio::spawn(look(config.clone(), news));
    }
    receiver
}

fn has_source(config: &WorkerConfig) -> bool {
    !matches!(config.watch.source, super::Source::Declared | super::Source::Processors)
}

async fn look(config: WorkerConfig, news: mpsc::Sender<Vec<Device>>) {
    let mut ticks = tokio::time::interval(config.watch.interval.max(Duration::from_millis(10)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = offered(&config);
    let mut told_at: Option<Instant> = None;
    let mut watcher = Watcher::new(config).await;
    loop {
        tokio::select! {
            _ = ticks.tick() => (),
            () = news.closed() => return,
        }
        let now = watcher.check().await;
        let is_due = told_at.is_none_or(|at| at.elapsed() >= FIGURES_INTERVAL);
        if has_other_problems(&told, &now) || (is_due && has_other_figures(&told, &now)) {
            told.clone_from(&now);
            told_at = Some(Instant::now());
            if news.send(now).await.is_err() {
                return;
            }
        }
    }
}

struct Watcher {
    config: WorkerConfig,
    reader: Option<Reader>,
    /// How often in a row the source could not be read.
    failures: u32,
    has_dcgm: bool,
}

impl Watcher {
    async fn new(config: WorkerConfig) -> Self {
        let reader = Reader::open(&config.watch.source).await;
        let has_dcgm = config.watch.source.is_nvidia();
        Self { config, reader, failures: 0, has_dcgm }
    }

    async fn check(&mut self) -> Vec<Device> {
        let mut devices = offered(&self.config);
        if has_source(&self.config) {
            let seen = match &self.reader {
                Some(reader) => reader.read().await,
                None => Err(ReadError::Absent),
            };
            self.failures = if seen.is_ok() { 0 } else { self.failures.saturating_add(1) };
            merge(&mut devices, &self.config.watch.devices, seen, self.failures >= FAILURES_MAX);
            self.measure(&mut devices).await;
        }
        if !self.config.watch.command.is_empty() {
            ask(&self.config).await.apply(&mut devices);
        }
        devices
    }

    /// Puts the finer figure in place of the driver's, where there is one.
    async fn measure(&mut self, devices: &mut [Device]) {
        if !self.has_dcgm {
            return;
        }
        let Some(activity) = dcgm::sm_activity().await else {
            self.has_dcgm = false;
            return;
        };
        for (device, known) in devices.iter_mut().zip(&self.config.watch.devices) {
            device.utilisation = activity.get(&known.index).copied().or(device.utilisation);
        }
    }
}

/// What a source says now of the devices that it once showed.
fn merge(devices: &mut [Device], known: &[Device], seen: Result<Vec<Device>, ReadError>, is_broken: bool) {
    let seen = match seen {
        Ok(seen) => seen,
        Err(_) if !is_broken => return,
        Err(error) => {
            let problem = match error {
                ReadError::Absent => "the interface that reported it is no longer available".to_owned(),
                ReadError::Failed(problem) => problem,
            };
            devices.iter_mut().for_each(|device| device.problem.clone_from(&problem));
            return;
        }
    };
    for (device, known) in devices.iter_mut().zip(known) {
        match seen.iter().find(|seen| seen.uuid == known.uuid) {
            Some(seen) => *device = Device { index: device.index, ..seen.clone() },
            None => device.problem = "the driver no longer lists it".to_owned(),
        }
    }
}

/// What the operator's program says.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Well,
    Devices(BTreeMap<u32, String>),
    Node(String),
}

impl Verdict {
    fn apply(self, devices: &mut [Device]) {
        for device in devices {
            let problem = match &self {
                Self::Well => None,
                Self::Devices(problems) => problems.get(&device.index),
                Self::Node(problem) => Some(problem),
            };
            if let Some(problem) = problem
                && device.problem.is_empty()
            {
                device.problem.clone_from(problem);
            }
        }
    }
}

async fn ask(config: &WorkerConfig) -> Verdict {
    let Some((program, arguments)) = config.watch.command.split_first() else { return Verdict::Well };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for name in crate::settings::variables_with_token(config) {
        command.env_remove(name);
    }
    command.env("WHARF_NODE", &config.node).env("WHARF_DEVICE_TYPE", &config.device_type);
    match run::to_end(command, config.watch.command_limit).await {
        Ok(said) => verdict(&said, config.devices),
        Err(error) => Verdict::Node(format!("the health check {error}")),
    }
}

/// Exit code 0 is well, whatever is said; otherwise lines `device N: problem` name the devices, and without any it is the node.
fn verdict(said: &run::Said, devices: u32) -> Verdict {
    if said.code == Some(0) {
        return Verdict::Well;
    }
    let problem = |line: &str| {
        let (number, problem) = line.trim().strip_prefix("device ")?.split_once(':')?;
        let number = number.trim().parse().ok().filter(|number| *number < devices)?;
        let problem = problem.trim();
        Some((
            number,
            if problem.is_empty() { "the health check failed".to_owned() } else { problem.to_owned() },
        ))
    };
    let problems: BTreeMap<u32, String> = said.stdout.lines().filter_map(problem).collect();
    if !problems.is_empty() {
        return Verdict::Devices(problems);
    }
    let Some(code) = said.code else {
        return Verdict::Node("the health check was killed by a signal".to_owned());
    };
    Verdict::Node(format!("the health check ended with exit code {code}: {}", said.last_line()))
}

fn has_other_problems(told: &[Device], now: &[Device]) -> bool {
    told.iter().map(|device| &device.problem).ne(now.iter().map(|device| &device.problem))
}

fn has_other_figures(told: &[Device], now: &[Device]) -> bool {
    let moved = |told: Option<f64>, now: Option<f64>, step: f64| match (told, now) {
        (Some(told), Some(now)) => (told - now).abs() >= step,
        (told, now) => told.is_some() != now.is_some(),
    };
    told.iter().zip(now).any(|(told, now)| {
        let used = |device: &Device| device.memory_used_mib.map(|mib| mib as f64);
        moved(told.utilisation, now.utilisation, UTILISATION_STEP)
            || moved(used(told), used(now), MEMORY_STEP_MIB as f64)
            || moved(told.temperature_c, now.temperature_c, TEMPERATURE_STEP_C)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: u32, uuid: &str) -> Device {
        Device { index, uuid: uuid.to_owned(), ..Device::default() }
    }

    #[test]
    fn verdict_by_code_and_lines() {
        let node = |text: &str| Verdict::Node(text.to_owned());
        let one = |index, text: &str| Verdict::Devices(BTreeMap::from([(index, text.to_owned())]));
        let rows = [
            (Some(0), "device 1: ignored", Verdict::Well),
            (Some(1), "all fine but\ndevice 2: nvlink down\n", one(2, "nvlink down")),
            (Some(1), "device 1:\n", one(1, "the health check failed")),
            (Some(3), "disk full\n", node("the health check ended with exit code 3: disk full")),
            (
                Some(1),
                "device 9: not ours\n",
                node("the health check ended with exit code 1: device 9: not ours"),
            ),
            (None, "", node("the health check was killed by a signal")),
        ];
        for (code, stdout, expected) in rows {
            let said = run::Said { code, stdout: stdout.to_owned(), stderr: String::new() };
            assert_eq!(verdict(&said, 4), expected, "{stdout}");
        }
    }

    #[test]
    fn merge_reports_vanished_and_unreadable_runs() {
        let known = [device(1, "a"), device(3, "b")];
        let mut devices = vec![device(0, "a"), device(1, "b")];
        merge(&mut devices, &known, Ok(vec![Device { temperature_c: Some(50.0), ..device(1, "a") }]), false);
        assert_eq!((devices[0].index, devices[0].temperature_c), (0, Some(50.0)));
        assert_eq!(devices[1].problem, "the driver no longer lists it");
        let mut devices = vec![device(0, "a"), device(1, "b")];
        let failed = || Err(ReadError::Failed("it hangs".to_owned()));
        merge(&mut devices, &known, failed(), false);
        assert_eq!(devices[0].problem, "", "once is not enough");
        merge(&mut devices, &known, failed(), true);
        assert!(devices.iter().all(|device| device.problem == "it hangs"));
    }

    #[test]
    fn news_are_changes_that_matter() {
        let base = Device { utilisation: Some(0.5), temperature_c: Some(40.0), ..device(0, "a") };
        let rows = [
            (Device { utilisation: Some(0.52), ..base.clone() }, false),
            (Device { utilisation: Some(0.6), ..base.clone() }, true),
            (Device { temperature_c: None, ..base.clone() }, true),
            (Device { memory_used_mib: Some(1), ..base.clone() }, true),
        ];
        for (now, expected) in rows {
            assert_eq!(
                has_other_figures(std::slice::from_ref(&base), std::slice::from_ref(&now)),
                expected,
                "{now:?}"
            );
        }
        let broken = Device { problem: "hot".to_owned(), ..base.clone() };
        assert!(has_other_problems(&[base], &[broken]));
    }
}
