//! Every recorded run of Muri's published simulator, job by job.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use wharf_core::{JobId, NodeShare, Time};
use wharf_outcome::{Outcome, Recorder};
use wharf_testing::{needs, reference};

/// Our names of the reference's policies and variants, by the end of a recording's file name.
const VARIANTS: [(&str, &str); 15] = [
    ("shortest", "srtf"),
    ("shortest-gpu", "srsf"),
    ("dlas-gpu", "tiresias"),
    ("DRIVE-dlas", "tiresias gputime=off"),
    ("antman", "antman"),
    ("themis", "themis"),
    ("multi-resource-blossom-same-gpu", "muri-s"),
    ("multi-resource-blossom-same-gpu-noautopack", "muri-s autopack=off"),
    ("multi-resource-blossom-same-gpu-unaware", "muri-l"),
    ("multi-resource-blossom-same-gpu-unaware-worstordering", "muri-l ordering=worst"),
    ("multi-resource-blossom-same-gpu-unaware-p1", "muri-l packing_num=1"),
    ("multi-resource-blossom-same-gpu-unaware-p2", "muri-l packing_num=2"),
    ("multi-resource-blossom-same-gpu-unaware-p3", "muri-l packing_num=3"),
    ("multi-resource-gpu-unaware", "muri-l blossom=off"),
    ("DRIVE-muri-dlas", "muri-l queues=tiresias"),
];

/// One job of a recording.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    start: f64,
    end: f64,
    jct: f64,
    ran: f64,
    waited: f64,
}

/// A recording's jobs, by id.
fn recording(path: &Path) -> Vec<Recorded> {
    let file = std::fs::File::open(path).expect("a recording");
    let is_packed = path.extension().is_some_and(|extension| extension == "gz");
    let file: Box<dyn Read> =
        if is_packed { Box::new(flate2::read::GzDecoder::new(file)) } else { Box::new(file) };
    let mut reader = csv::Reader::from_reader(file);
    let mut rows: Vec<(usize, Recorded)> = reader
        .records()
        .map(|record| {
            let record = record.expect("a row");
            let number = |column: usize| record[column].parse::<f64>().expect("a number");
            let job = Recorded {
                start: number(4),
                end: number(5),
                jct: number(8),
                ran: number(7),
                waited: number(10),
            };
            (number(1) as usize, job)
        })
        .collect();
    rows.sort_unstable_by_key(|row| row.0);
    assert!(rows.iter().enumerate().all(|(index, row)| index == row.0), "ids are row numbers");
    rows.into_iter().map(|row| row.1).collect()
}

/// The first job that differs in start, end or completion time, by as little as one bit.
fn first_difference(outcome: &Outcome, recorded: &[Recorded]) -> Option<String> {
    assert_eq!(outcome.jobs.len(), recorded.len());
    outcome.jobs.iter().zip(recorded).find_map(|(job, expected)| {
        let start = job.first_start.map_or(f64::NAN, |time| time.seconds());
        let end = job.end.map_or(f64::NAN, |time| time.seconds());
        let jct = job.jct_s().unwrap_or(f64::NAN);
        let same = start.to_bits() == expected.start.to_bits()
            && end.to_bits() == expected.end.to_bits()
            && jct.to_bits() == expected.jct.to_bits();
        // These two are sums in another order here.
        let near = (job.run_s - expected.ran).abs() < 1e-3 && (job.queue_s - expected.waited).abs() < 1e-3;
        (!same || !near).then(|| format!("{job:?} is not {expected:?}"))
    })
}

/// Runs all recordings whose variant `wanted` accepts.
fn for_each_recording(
    wanted: impl Fn(&str) -> bool,
    mut check: impl FnMut(&str, &str, &Outcome, &[Recorded]),
) {
    needs!(REFERENCE);
    let data = reference("muri");
    let mut names: Vec<String> = std::fs::read_dir(data.join("golden/job_csv"))
        .expect("recordings")
        .map(|entry| entry.expect("a recording").file_name().to_string_lossy().into_owned())
        // The larger ones are compressed, and compared by the published check.
        .filter(|name| name.ends_with(".csv"))
        .collect();
    names.sort();
    for name in names {
        let (trace, reference) = name.trim_end_matches(".csv").split_once('-').expect("TRACE-POLICY");
        let (_, variant) = VARIANTS.iter().find(|(name, _)| *name == reference).expect("a known variant");
        if wanted(variant) {
            let jobs = crate::support::trace(&data.join(format!("traces/{trace}.csv")));
            let outcome = crate::support::run(&jobs, variant);
            check(trace, variant, &outcome, &recording(&data.join("golden/job_csv").join(&name)));
        }
    }
}

#[test]
fn recordings_same_bits() {
    let mut count = 0;
    let mut differences = Vec::new();
    for_each_recording(
        |variant| variant != "themis",
        |trace, variant, outcome, recorded| {
            count += 1;
            differences.extend(
                first_difference(outcome, recorded)
                    .map(|difference| format!("{trace} {variant}: {difference}")),
            );
        },
    );
    assert!(differences.is_empty(), "{} of {count}:\n{}", differences.len(), differences.join("\n"));
    assert!(count == 0 || count == 36, "{count} recordings");
}

/// Here rounding leaves a job short of its queue's limit by less than the clock resolves, so that the published code decides twice
/// at one time.
#[test]
fn recording_with_two_decisions_at_one_time_same_bits() {
    needs!(REFERENCE);
    let data = reference("muri");
    let jobs = crate::support::trace(&data.join("traces/trace3_pr.csv"));
    let outcome = crate::support::run(&jobs, "muri-l queues=tiresias");
    let recorded = recording(&data.join("golden/job_csv/trace3_pr-muri-ldlas-ap1.csv.gz"));
    assert_eq!(first_difference(&outcome, &recorded), None);
}

/// Mean and 99th percentile of completion times, and the last end, as the reference defines them.
fn metrics(ends_and_times: impl Iterator<Item = (f64, f64)>) -> [f64; 3] {
    let (ends, mut times): (Vec<f64>, Vec<f64>) = ends_and_times.unzip();
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    [mean, times[(times.len() as f64 * 0.99) as usize], ends.into_iter().fold(0.0, f64::max)]
}

#[test]
fn themis_recordings_within_five_percent() {
    // The reference's own solvers differ from each other by about two percent.
    const TOLERANCE: f64 = 0.05;
    for_each_recording(
        |variant| variant == "themis",
        |trace, _, outcome, recorded| {
            let ours = outcome
                .jobs
                .iter()
                .map(|job| (job.end.map_or(f64::NAN, |end| end.seconds()), job.jct_s().unwrap_or(f64::NAN)));
            let ours = metrics(ours);
            let theirs = metrics(recorded.iter().map(|job| (job.end, job.jct)));
            for ((ours, theirs), what) in ours.into_iter().zip(theirs).zip(["mean", "p99", "makespan"]) {
                let deviation = ours / theirs - 1.0;
                #[expect(clippy::print_stderr, reason = "shown where the test fails")]
                {
                    eprintln!("{trace} {what}: {ours} instead of {theirs} ({:+.2} %)", deviation * 100.0);
                }
                assert!(deviation.abs() <= TOLERANCE, "{trace}");
            }
        },
    );
}

#[test]
fn published_means_agree_to_all_printed_digits() {
    // Whole traces, on which matchings grow larger than in any recording.
    let published = [
        ("trace1", "muri-s", 799_916.0, 0.5),
        ("trace1", "muri-s autopack=off", 867_706.0, 0.5),
        ("trace3", "muri-l", 88_686.97, 0.005),
        ("job_type_1", "muri-l", 502_169.96, 0.005),
        ("job_type_1", "muri-l queues=tiresias", 342_921.70, 0.005),
    ];
    needs!(REFERENCE);
    let data = reference("muri");
    for (trace, variant, expected, tolerance) in published {
        let jobs = crate::support::trace(&data.join(format!("traces/{trace}.csv")));
        let outcome = crate::support::run(&jobs, variant);
        let mean = outcome.jobs.iter().filter_map(|job| job.jct_s()).sum::<f64>() / jobs.len() as f64;
        assert!((mean - expected).abs() <= tolerance, "{trace} {variant}: {mean} instead of {expected}");
    }
}

/// Running jobs with their nodes and devices on each.
type Running = BTreeMap<u32, Vec<(u32, u32)>>;

/// Who runs where, kept up to date from a run's events; every state is noted with its time.
#[derive(Default)]
struct States {
    running: Running,
    noted: Vec<(f64, Running)>,
}

impl States {
    fn note(&mut self, time: Time) {
        if self.noted.last().is_some_and(|last| last.0 == time.seconds()) {
            self.noted.pop();
        }
        self.noted.push((time.seconds(), self.running.clone()));
    }
}

impl Recorder for States {
    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], _group: &[JobId]) {
        let mut shares: Vec<_> = placement.iter().map(|share| (share.node.0, share.devices.len())).collect();
        shares.sort_unstable();
        self.running.insert(job.0, shares);
        self.note(time);
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.running.remove(&job.0);
        self.note(time);
    }

    fn finished(&mut self, time: Time, job: JobId) {
        self.running.remove(&job.0);
        self.note(time);
    }
}

#[test]
fn decisions_same_running_jobs_and_nodes_at_every_event() {
    needs!(REFERENCE);
    let data = reference("muri");
    let mut names: Vec<String> = std::fs::read_dir(data.join("golden/decisions"))
        .expect("decisions")
        .map(|entry| entry.expect("decisions").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    for name in names {
        let (trace, reference) = name.trim_end_matches(".jsonl.gz").split_once('-').expect("TRACE-POLICY");
        let (_, variant) = VARIANTS.iter().find(|(name, _)| *name == reference).expect("a known variant");
        if *variant == "themis" {
            continue;
        }
        let jobs = crate::support::trace(&data.join(format!("traces/{trace}.csv")));
        let mut states = States::default();
        crate::support::run_recorded(&jobs, variant, &mut states);
        let file = std::fs::File::open(data.join("golden/decisions").join(&name)).expect("decisions");
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("decisions decompress");
        let mut next = 0;
        for line in text.lines() {
            let event: serde_json::Value = serde_json::from_str(line).expect("an event is JSON");
            let time = event["t"].as_f64().expect("a time");
            while states.noted.get(next + 1).is_some_and(|state| state.0 <= time) {
                next += 1;
            }
            let ours = &states.noted[next].1;
            let theirs: Running =
                event["run"].as_array().expect("running jobs").iter().map(decision).collect();
            assert!(ours.keys().eq(theirs.keys()), "{name} at {time}: {ours:?} instead of {theirs:?}");
            // Tiresias places nothing.
            if *variant != "tiresias" {
                assert_eq!(*ours, theirs, "{name} at {time}");
            }
        }
    }
}

/// A running job of a recorded event with its nodes and devices on each.
fn decision(run: &serde_json::Value) -> (u32, Vec<(u32, u32)>) {
    let number = |value: &serde_json::Value| value.as_u64().expect("a count") as u32;
    let share = |share: &serde_json::Value| (number(&share[0]), number(&share[1]));
    let mut shares: Vec<_> = run[1].as_array().into_iter().flatten().map(share).collect();
    shares.sort_unstable();
    (number(&run[0]), shares)
}
