//! A cluster at a glance: nodes, what runs, what waits and why.

use std::collections::BTreeMap;

use wharf_job::{JobNumber, elements};
use wharf_proto::{JobPhase, JobSummary, NodeSummary};
use wharf_report::human;

use super::nodes::health_name;
use crate::output::grid::Grid;

/// Characters of a progress bar.
const BAR: usize = 10;
/// Devices of a node that are shown one by one.
const DEVICES_MAX: usize = 32;

/// How running jobs are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) enum Sort {
    /// By id.
    #[default]
    Id,
    /// What has come furthest first.
    Progress,
    /// What runs longest first.
    Elapsed,
}

impl Sort {
    /// The next one in turn.
    pub(in crate::commands) fn next(self) -> Self {
        match self {
            Self::Id => Self::Progress,
            Self::Progress => Self::Elapsed,
            Self::Elapsed => Self::Id,
        }
    }

    /// What it is called.
    pub(in crate::commands) fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Progress => "progress",
            Self::Elapsed => "elapsed",
        }
    }
}

/// What there is to see at one moment.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct Frame {
    /// The first line.
    pub(in crate::commands) title: String,
    /// All nodes.
    pub(in crate::commands) nodes: Vec<NodeSummary>,
    /// Jobs that are not over.
    pub(in crate::commands) jobs: Vec<JobSummary>,
    /// Iterations a second of running jobs; where there is none, the mean since the start stands in.
    pub(in crate::commands) rates: BTreeMap<u32, f64>,
    /// The present, in seconds since the Unix epoch.
    pub(in crate::commands) now_s: f64,
    /// The order of running jobs.
    pub(in crate::commands) sort: Sort,
}

impl Frame {
    /// The lines, not longer than `width`.
    pub(in crate::commands) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let mut text = format!("{}\n\n{}", self.title, self.node_grid().to_text(None));
        let (running, waiting): (Vec<_>, Vec<_>) = self.jobs.iter().partition(|job| {
            matches!(job.phase(), JobPhase::Placed | JobPhase::Running | JobPhase::Stopping)
        });
        if !running.is_empty() {
            text += &format!("\n{}", self.running_grid(running).to_text(None));
        }
        if !waiting.is_empty() {
            text += &format!("\n{}", self.waiting_grid(&waiting).to_text(None));
        }
        if self.jobs.is_empty() {
            text += "\nno job runs or waits\n";
        }
        let cut = |line: &str| line.chars().take(width.unwrap_or(usize::MAX)).collect();
        text.lines().map(cut).collect()
    }

    fn node_grid(&self) -> Grid<6> {
        let mut grid = Grid::new(["node", "health", "type", "devices", "free", "jobs"]);
        for node in &self.nodes {
            let number = |id: &u32| match self.jobs.binary_search_by_key(id, |job| job.job_id) {
                Ok(found) => JobNumber::of(&self.jobs[found]).to_string(),
                Err(_) => id.to_string(),
            };
            let jobs: Vec<String> = node.job_ids.iter().map(number).collect();
            let (bar, free) = (self.device_bar(node), format!("{}/{}", node.free, node.devices));
            grid.push([&node.name, health_name(node), &node.device_type, &bar, &free, &jobs.join(",")]);
        }
        grid
    }

    /// A character for each device: in use, free, or out of order.
    fn device_bar(&self, node: &NodeSummary) -> String {
        let count = node.devices as usize;
        if count > DEVICES_MAX {
            let used = node.devices.saturating_sub(node.free);
            return bar(f64::from(used) / f64::from(node.devices), BAR);
        }
        let mut bar = vec!['·'; count];
        let here = |share: &&wharf_proto::Share| share.node == node.name;
        for share in self.jobs.iter().flat_map(|job| job.placement.iter().filter(here)) {
            for &device in &share.devices {
                bar.iter_mut().skip(device as usize).take(1).for_each(|mark| *mark = '■');
            }
        }
        for device in node.device.iter().filter(|device| !device.problem.is_empty()) {
            bar.iter_mut().skip(device.index as usize).take(1).for_each(|mark| *mark = '×');
        }
        bar.into_iter().collect()
    }

    fn running_grid(&self, mut jobs: Vec<&JobSummary>) -> Grid<10> {
        match self.sort {
            Sort::Id => {}
            Sort::Progress => jobs.sort_by(|a, b| progress(b).total_cmp(&progress(a))),
            Sort::Elapsed => jobs.sort_by(|a, b| a.start_s.total_cmp(&b.start_s)),
        }
        let mut grid = Grid::new([
            "job", "name", "phase", "devices", "on", "progress", "it/s", "loss", "elapsed", "left",
        ]);
        for job in jobs {
            let rate = self.rate(job);
            let left = rate
                .filter(|_| job.iterations > 0.0)
                .map(|rate| human::duration(((job.iterations - job.iterations_done) / rate).max(0.0)));
            let done = match job.iterations > 0.0 {
                true => format!("{} {:>3.0} %", bar(progress(job), BAR), progress(job) * 100.0),
                false if job.iterations_done > 0.0 => format!("{} it", human::number(job.iterations_done)),
                false => String::new(),
            };
            let row = [
                JobNumber::of(job).to_string(),
                job.name.clone(),
                job.phase().word().to_owned(),
                given(job).to_string(),
                job.placement.iter().map(|share| share.node.as_str()).collect::<Vec<_>>().join("+"),
                done,
                rate.map(human::number).unwrap_or_default(),
                job.metrics.get("loss").map(|loss| format!("{loss:.4}")).unwrap_or_default(),
                self.since(job.start_s),
                left.unwrap_or_default(),
            ];
            grid.push(row.each_ref().map(String::as_str));
        }
        grid
    }

    fn waiting_grid(&self, jobs: &[&JobSummary]) -> Grid<6> {
        let mut grid = Grid::new(["job", "name", "phase", "devices", "waiting", "why"]);
        let is_same = |a: &&JobSummary, b: &&JobSummary| {
            let key = |job: &JobSummary| (job.array_job, job.phase);
            a.array_index.is_some() && b.array_index.is_some() && key(a) == key(b)
        };
        for group in jobs.chunk_by(is_same) {
            let Some(job) = group.first() else { continue };
            let reason = job.explanation.as_ref().unwrap_or(&job.reason);
            let indexes: Vec<u32> = group.iter().filter_map(|job| job.array_index).collect();
            let (id, devices) = (elements(job.array_job, indexes), job.devices.to_string());
            let id = if job.array_index.is_some() { id } else { job.job_id.to_string() };
            let name = job.phase().word();
            grid.push([&id, &job.name, name, &devices, &self.since(job.submit_s), reason]);
        }
        grid
    }

    fn since(&self, at_s: f64) -> String {
        if at_s > 0.0 { human::duration((self.now_s - at_s).max(0.0)) } else { String::new() }
    }

    fn rate(&self, job: &JobSummary) -> Option<f64> {
        let mean = || job.iterations_done / (self.now_s - job.start_s);
        let rate = self.rates.get(&job.job_id).copied().unwrap_or_else(mean);
        (rate.is_finite() && rate > 0.0 && job.start_s > 0.0).then_some(rate)
    }
}

/// The share of a job that is done, as far as it is known.
pub(super) fn progress(job: &JobSummary) -> f64 {
    if job.iterations > 0.0 { (job.iterations_done / job.iterations).clamp(0.0, 1.0) } else { 0.0 }
}

/// The devices that a job has; before that those that it asks for.
fn given(job: &JobSummary) -> u32 {
    let given: usize = job.placement.iter().map(|share| share.devices.len()).sum();
    u32::try_from(given).ok().filter(|&given| given > 0).unwrap_or(job.devices)
}

fn bar(share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(width - full)
}

#[cfg(test)]
mod tests {
    use wharf_proto::{Device, Share};

    use super::*;

    fn frame() -> Frame {
        let share = |devices: &[u32]| Share { node: "n0".into(), devices: devices.to_vec() };
        let running = JobSummary {
            job_id: 3,
            name: "mlp".into(),
            phase: JobPhase::Running.into(),
            devices: 2,
            start_s: 1000.0,
            submit_s: 990.0,
            iterations: 400.0,
            iterations_done: 100.0,
            placement: vec![share(&[0, 2])],
            metrics: [("loss".to_owned(), 0.25)].into(),
            ..JobSummary::default()
        };
        let waiting = JobSummary {
            job_id: 4,
            name: "next".into(),
            devices: 4,
            submit_s: 1010.0,
            explanation: Some("needs 4 devices, 1 is free".to_owned()),
            ..JobSummary::default()
        };
        let bad = Device { index: 3, problem: "fell off the bus".into(), ..Device::default() };
        let node = NodeSummary {
            name: "n0".into(),
            device_type: "v100".into(),
            devices: 4,
            free: 1,
            job_ids: vec![3],
            device: vec![bad],
            ..NodeSummary::default()
        };
        Frame {
            title: "one node".into(),
            nodes: vec![node],
            jobs: vec![running, waiting],
            now_s: 1020.0,
            ..Frame::default()
        }
    }

    #[test]
    fn frame_shows_devices_progress_and_reasons() {
        insta::assert_snapshot!(frame().lines(None).join("\n"), @"
        one node

        node  health  type  devices  free  jobs
        n0    up      v100  ■·■×     1/4   3

        job  name  phase    devices  on  progress          it/s  loss    elapsed  left
        3    mlp   running  2        n0  ███░░░░░░░  25 %  5     0.2500  20s      1m 0s

        job  name  phase    devices  waiting  why
        4    next  waiting  4        10s      needs 4 devices, 1 is free
        ");
    }

    #[test]
    fn lines_are_cut_and_nothing_is_divided_by_nothing() {
        assert!(frame().lines(Some(20)).iter().all(|line| line.chars().count() <= 20));
        let mut frame = frame();
        (frame.now_s, frame.jobs[0].iterations) = (1000.0, 0.0);
        let text = frame.lines(None).join("\n");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
