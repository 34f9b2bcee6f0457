//! Changes of whole traces, in tables.

use std::collections::BTreeMap;

use wharf_core::JobSpec;
use wharf_trace::{Edit, EditError, JobFilter, Range, Trace, parse_trace};

const TEXT: &str = "job_id,user,submit_s,devices,devices_min,device_types,duration_s,model,deadline_s,pool\n\
                    a,amy,10,1,,,100,bert,60,x\n\
                    b,bob,20,2,,v100,200,,,x\n\
                    c,amy,30,4,2,a100;v100,400,bert,,y\n\
                    d,,40,8,,,800,gpt,,\n";

fn trace() -> Trace {
    parse_trace(TEXT, "t", None).expect("a trace")
}

fn edited(edit: &Edit) -> Result<Vec<JobSpec>, EditError> {
    let mut trace = trace();
    edit.apply(&mut trace).map(|()| trace.jobs)
}

fn range(text: &str) -> Range {
    text.parse().expect("a range")
}

fn names(jobs: &[JobSpec]) -> String {
    jobs.iter().map(|job| &*job.name).collect::<Vec<_>>().join(" ")
}

#[test]
fn jobs_are_kept_by_position_time_and_criteria() {
    let filter = |change: fn(&mut JobFilter)| {
        let mut filter = JobFilter::default();
        change(&mut filter);
        Edit::Filter(filter)
    };
    for (edit, expected) in [
        (Edit::Head(2), "a b"),
        (Edit::Head(99), "a b c d"),
        (Edit::Positions(range("1..3")), "b c"),
        (Edit::Positions(range("3..")), "d"),
        (Edit::Positions(range("..1")), "a"),
        (Edit::Window(range("20..40")), "b c"),
        (Edit::Window(range("20.5..")), "c d"),
        (filter(|filter| filter.users = vec!["amy".into()]), "a c"),
        (filter(|filter| filter.users = vec!["amy".into(), "bob".into()]), "a b c"),
        (filter(|filter| filter.models = vec!["gpt".into()]), "d"),
        (filter(|filter| filter.pools = vec!["x".into()]), "a b"),
        (filter(|filter| filter.device_types = vec!["v100".into()]), "a b c d"),
        (filter(|filter| filter.device_types = vec!["a100".into()]), "a c d"),
        (filter(|filter| filter.devices = "2..4".parse().unwrap()), "b c"),
        (filter(|filter| filter.devices = "8".parse().unwrap()), "d"),
        (filter(|filter| filter.duration_s = "200..".parse().unwrap()), "b c d"),
        (
            filter(|filter| {
                filter.users = vec!["amy".into()];
                filter.duration_s = "..100".parse().unwrap();
            }),
            "a",
        ),
    ] {
        assert_eq!(names(&edited(&edit).unwrap()), expected, "{edit:?}");
    }
}

#[test]
fn scale_changes_times_lengths_and_devices() {
    let jobs = edited(&Edit::Scale { arrivals: 2.0, durations: 10.0, devices: 0.4 }).unwrap();
    let shown: Vec<_> = jobs
        .iter()
        .map(|job| {
            (
                job.submit.seconds(),
                job.solo_s(),
                job.gang.devices_min,
                job.gang.devices,
                job.deadline.map(|at| at.seconds()),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (5.0, 1000.0, 1, 1, Some(505.0)),
            (10.0, 2000.0, 1, 1, None),
            (15.0, 4000.0, 1, 2, None),
            (20.0, 8000.0, 4, 4, None),
        ]
    );
}

#[test]
fn shift_moves_submissions_and_deadlines() {
    let jobs = edited(&Edit::Shift(0.0)).unwrap();
    let submits: Vec<f64> = jobs.iter().map(|job| job.submit.seconds()).collect();
    assert_eq!(submits, [0.0, 10.0, 20.0, 30.0]);
    assert_eq!(jobs[0].deadline.map(|at| at.seconds()), Some(50.0));
    assert_eq!(edited(&Edit::Shift(100.0)).unwrap()[3].submit.seconds(), 130.0);
}

/// A trace of bursts: ten jobs within a second, then an hour of nothing.
fn bursts() -> Trace {
    let rows: String = (0..400)
        .map(|index| format!("j{index},{},1,5\n", (index / 10 * 3600) as f64 + f64::from(index % 10) * 0.1))
        .collect();
    parse_trace(&format!("job_id,submit_s,devices,duration_s\n{rows}"), "t", None).expect("a trace")
}

#[test]
fn resample_is_seeded_and_keeps_bursts() {
    let sample = |jobs: usize, seed: u64| {
        let mut trace = bursts();
        Edit::Resample { jobs, seed }.apply(&mut trace).unwrap();
        trace.jobs
    };
    let jobs = sample(1000, 7);
    assert_eq!((jobs.len(), jobs[0].submit.seconds()), (1000, 0.0));
    assert_eq!(jobs, sample(1000, 7));
    assert_ne!(jobs, sample(1000, 8));
    let unique: BTreeMap<&str, ()> = jobs.iter().map(|job| (&*job.name, ())).collect();
    assert_eq!(unique.len(), 1000, "every job has its own name");
    assert!(jobs.is_sorted_by_key(|job| job.submit));
    // Nine of ten gaps are short in the trace; independent draws of jobs would keep that as well, but not their order: a burst
    // is cut only where a block of 20 jobs ends.
    let original = |job: &JobSpec| job.name[1..].split('~').next().unwrap().parse::<usize>().unwrap();
    let follows = jobs.windows(2).filter(|pair| original(&pair[1]) == (original(&pair[0]) + 1) % 400).count();
    assert!(follows >= 949, "{follows} of 999 jobs follow the one that they follow in the trace");
    let gaps = jobs.windows(2).filter(|pair| pair[1].submit.since(pair[0].submit) < 1.0).count();
    assert!((850..=950).contains(&gaps), "{gaps} of 999 gaps are within bursts");
}

#[test]
fn changes_that_leave_nothing_are_errors() {
    let absent = JobFilter { users: vec!["eve".into()], ..JobFilter::default() };
    let scale = |arrivals, durations, devices| Edit::Scale { arrivals, durations, devices };
    for (edit, expected) in [
        (Edit::Head(0), "no job is left of 4: the requested number is 0"),
        (Edit::Positions(range("4..9")), "positions 4..9 are outside the trace, which has jobs 0 to 3"),
        (Edit::Positions(range("2..2")), "the range 2..2 is empty: its end is excluded"),
        (Edit::Window(range("20..20")), "the range 20..20 is empty: its end is excluded"),
        (
            Edit::Window(range("41..50")),
            "no job is submitted in the window 41..50 s; the trace has submissions from 10 s to 40 s",
        ),
        (
            Edit::Window(range("..10")),
            "no job is submitted in the window ..10 s; the trace has submissions from 10 s to 40 s",
        ),
        (Edit::Filter(absent), "no job passes the filter, of 4"),
        (scale(0.0, 1.0, 1.0), "the factor of arrivals is 0, expected a number above 0"),
        (scale(1.0, f64::NAN, 1.0), "the factor of durations is NaN, expected a number above 0"),
        (scale(1.0, 1.0, -1.0), "the factor of devices is -1, expected a number above 0"),
        (scale(1.0, 1e308, 1.0), "deadlines of job `a` become too large to compute with"),
        (Edit::Shift(-1.0), "the first submission cannot be at -1 s, expected a number from 0"),
        (scale(1.0, 1.0, 1e10), "devices of job `a` become too large to compute with"),
        (scale(1e-308, 1.0, 1.0), "submissions of job `a` become too large to compute with"),
        (Edit::Shift(1e300), "submissions of job `a` become too large to compute with"),
        (Edit::Resample { jobs: 0, seed: 1 }, "no job is left of 4: the requested number is 0"),
        (
            Edit::Resample { jobs: 1 << 40, seed: 1 },
            "a sample of 1099511627776 jobs, expected at most 100000000",
        ),
    ] {
        assert_eq!(edited(&edit).unwrap_err().to_string(), expected, "{edit:?}");
    }
    for text in ["", "..", "x", "3..1", "-1..2", "1...2", "1..inf", "NaN"] {
        let error = text.parse::<Range>().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("expected FROM..TO, FROM.., ..TO or one number from 0, found `{text}`")
        );
    }
}
