//! Who is preempted, when, and what is informed about it.

use wharf_core::{Chosen, ClusterSpec, JobId, JobSpec, NodeShare, Time};
use wharf_sim::{Preset, Recorder, RunSpec, Settings, run};
use wharf_trace::Trace;

/// What happened, in words: `2.5 j1 started`.
#[derive(Default)]
struct Story(Vec<String>);

impl Recorder for Story {
    fn started(&mut self, time: Time, job: JobId, _placement: &[NodeShare], _group: &[JobId]) {
        self.0.push(format!("{time} {job} started"));
    }

    fn gave_way(&mut self, time: Time, job: JobId, to: Option<JobId>, chosen: Chosen) {
        let to = to.map_or_else(|| "others".to_owned(), |to| to.to_string());
        self.0.push(format!("{time} {job} makes room for {to}: {chosen}"));
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        self.0.push(format!("{time} {job} stopped"));
    }
}

/// A job by submission, devices and length, all in seconds.
fn job(submit_s: f64, devices: u32, solo_s: f64) -> JobSpec {
    let job = JobSpec::new("", Time::from_seconds(submit_s), devices, solo_s * 10.0, 100.0);
    JobSpec { model: Some("gpt2".into()), ..job }
}

fn story(mut jobs: Vec<JobSpec>, nodes: u32, policy: &str, settings: &[&str]) -> Vec<String> {
    for (index, job) in jobs.iter_mut().enumerate() {
        job.name = index.to_string().into();
    }
    let trace = Trace { name: "story".into(), jobs };
    let preset = Preset::load("wharf").expect("built in");
    let settings = Settings::parse(settings.iter().copied().chain(["restart_s=0"])).expect("key=value");
    let cluster = ClusterSpec::uniform("gpu", nodes, 4);
    let spec = RunSpec {
        trace: &trace,
        cluster: &cluster,
        policy,
        preset: &preset,
        settings: &settings,
        seed: 0,
        profile: None,
        rounds: None,
        failures: None,
    };
    let mut story = Story::default();
    run(&spec, &mut story).expect("a run");
    story.0
}

/// Nothing else happens when a minimum run time passes: the policy asks to be called then.
#[test]
fn short_jobs_start_when_the_minimum_run_time_of_a_long_one_has_passed() {
    let jobs = || vec![job(0.0, 4, 10_000.0), job(50.0, 4, 100.0)];
    for policy in ["srtf", "srsf", "sjf-ffs"] {
        let started = |settings: &[&str]| {
            let story = story(jobs(), 1, policy, settings);
            story.iter().find(|line| line.ends_with("j1 started")).cloned()
        };
        let settings: &[&str] = if policy == "sjf-ffs" { &["device_memory_mb=1000"] } else { &[] };
        let with = |more: &'static str| [settings, &[more]].concat();
        assert_eq!(started(&with("min_run_s=0")).as_deref(), Some("50 j1 started"), "{policy}");
        assert_eq!(started(&with("min_run_s=300")).as_deref(), Some("300 j1 started"), "{policy}");
    }
}

/// A gang that two of four busy nodes could hold takes no devices of other jobs if it still would not fit.
#[test]
fn gang_that_would_not_fit_preempts_no_job() {
    // The first job is shorter than the gang, so that its node is not to be had.
    let jobs = vec![job(0.0, 1, 500.0), job(0.0, 4, 9000.0), job(10.0, 8, 1000.0)];
    for policy in ["srtf", "fair"] {
        let settings: &[&str] = if policy == "fair" { &["preempt=on"] } else { &[] };
        let story = story(jobs.clone(), 2, policy, settings);
        let early: Vec<&String> = story.iter().filter(|line| line.ends_with("stopped")).collect();
        let starts = story.iter().position(|line| line.ends_with("j2 started")).expect("it starts");
        assert!(early.len() <= 1, "{policy}: {story:?}");
        if let Some(stopped) = early.first() {
            assert!(story[starts].split(' ').next() == stopped.split(' ').next(), "{policy}: {story:?}");
        }
    }
}

/// Two long jobs run on one node each; one of them has to go for a third.
fn victim_of(first: JobSpec, second: JobSpec, at_s: f64, settings: &[&str]) -> Vec<String> {
    let story = story(vec![first, second, job(at_s, 2, 10.0)], 2, "srtf", settings);
    story.into_iter().filter(|line| line.contains("makes room")).collect()
}

#[test]
fn cheap_victims_have_low_priority_little_unsaved_work_and_few_devices() {
    // The second is longer, so that it comes last in the order.
    let first = |devices| job(0.0, devices, 20_000.0);
    let second = |submit_s, priority| JobSpec { priority, ..job(submit_s, 4, 30_000.0) };
    // Jobs save their work every 800 s: at 900 s, one that began at 0 s has less to lose than one that began at 200 s.
    let cheap = &["victims=cheap", "checkpoint_interval_s=800"][..];
    for (first, second, at_s, settings, expected) in [
        (first(4), second(200.0, 0), 900.0, &cheap[1..], "900 j1 makes room for j2: last in order"),
        (first(4), second(200.0, -1), 900.0, cheap, "900 j1 makes room for j2: lowest priority"),
        (first(4), second(200.0, 0), 900.0, cheap, "900 j0 makes room for j2: least unsaved work"),
        (first(3), second(0.0, 0), 800.0, cheap, "800 j0 makes room for j2: fewest devices"),
        (first(4), second(0.0, 0), 800.0, cheap, "800 j1 makes room for j2: last in order"),
    ] {
        assert_eq!(victim_of(first, second, at_s, settings), [expected]);
    }
}

/// Preemption that the shares ask for takes the cheapest of the jobs of those who are above theirs, and reports this.
#[test]
fn fair_shares_are_taken_back_from_the_cheapest_jobs() {
    let of = |user: &str, job: JobSpec| JobSpec { user: Some(user.into()), ..job };
    let jobs = vec![
        of("ann", job(0.0, 4, 20_000.0)),
        of("ann", JobSpec { priority: -1, ..job(0.0, 4, 20_000.0) }),
        of("bob", job(1000.0, 2, 5000.0)),
    ];
    let told = story(jobs, 2, "fair", &["preempt=on", "min_run_s=1200"]);
    let room: Vec<&String> = told.iter().filter(|line| line.contains("makes room")).collect();
    // Nothing happens between 1000 and 1200 s; shares are checked every five minutes.
    assert_eq!(room, ["1300 j1 makes room for j2: above share"], "{told:?}");
}
