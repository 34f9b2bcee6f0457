//! One case for each reason for which a job can wait, in the words that people read.

use std::sync::Arc;

use wharf_core::{ClusterSpec, Command, JobId, JobSpec, Needs, NodeId, Time};
use wharf_policy::Settings;
use wharf_policy::governor::Limits;

use crate::governed::world::World;

/// Two nodes of four devices, the jobs that come, and what the last of them is told at its arrival.
struct Case {
    policy: &'static str,
    settings: &'static [&'static str],
    limits: &'static str,
    jobs: Vec<JobSpec>,
    /// Done to the cluster before anything comes.
    before: Option<Command>,
    told: &'static str,
}

/// A job that comes at a second, with its gang, its seconds and its user.
fn job(at_s: f64, gang: u32, length_s: f64, user: &str) -> JobSpec {
    JobSpec {
        user: Some(user.into()),
        ..JobSpec::new("job", Time::from_seconds(at_s), gang, length_s, 1000.0)
    }
}

fn with(job: JobSpec, needs: Needs) -> JobSpec {
    let gang = wharf_core::Gang { needs: Some(Arc::new(needs)), ..job.gang };
    JobSpec { gang, ..job }
}

fn reserved(job: JobSpec, name: &str) -> JobSpec {
    with(job, Needs { reservation: Some(name.into()), ..Needs::default() })
}

fn case(policy: &'static str, jobs: Vec<JobSpec>, told: &'static str) -> Case {
    Case { policy, settings: &[], limits: "", jobs, before: None, told }
}

fn governed(limits: &'static str, jobs: Vec<JobSpec>, told: &'static str) -> Case {
    Case { limits, settings: &["backfill=greedy"], ..case("fifo", jobs, told) }
}

fn of_policies() -> Vec<Case> {
    let full = |at_s: f64| job(at_s, 4, 1000.0, "ann");
    vec![
        case(
            "fifo",
            vec![full(0.0), full(1.0), job(2.0, 1, 10.0, "ann")],
            "needs 1 device, 0 that it may use are free",
        ),
        case(
            "fifo",
            vec![job(0.0, 3, 1000.0, "ann"), job(1.0, 3, 1000.0, "ann"), job(2.0, 2, 10.0, "ann")],
            "needs 2 devices together, 2 are free but apart",
        ),
        case("fifo", vec![full(0.0), full(1.0), full(2.0), full(3.0)], "j2 goes first"),
        case(
            "fifo",
            vec![job(0.0, 4, 1000.0, "ann"), job(1.0, 8, 10.0, "ann"), job(2.0, 1, 10.0, "ann")],
            "strict order: j1 is first and does not fit yet",
        ),
        Case {
            settings: &["backfill=easy"],
            ..case(
                "fifo",
                vec![job(0.0, 4, 1000.0, "ann"), job(1.0, 8, 10.0, "ann"), job(2.0, 1, 5000.0, "ann")],
                "starting it would delay j1, which has a reservation",
            )
        },
        case(
            "fair",
            vec![full(0.0), full(1.0), job(2.0, 4, 10.0, "bob"), job(3.0, 4, 10.0, "ann")],
            "j2 goes first: its share is less used (0.0 device-hours per weight, this one's 8.0)",
        ),
        case(
            "themis",
            vec![full(0.0), full(1.0), full(2.0), full(3.0)],
            "devices are leased until 1200 s, and 1 waiting job is worse off",
        ),
        case("sia", vec![full(0.0), full(1.0), full(30.0)], "decided at the next round, at 60 s"),
        case(
            "sia",
            vec![full(0.0), full(1.0), full(100.0)],
            "needs 4 devices, 0 that it may use are free, and preempting other jobs would not free enough devices",
        ),
        case(
            "sjf-ffs",
            vec![full(0.0), full(1.0), full(2.0), full(3.0), full(4.0)],
            "needs 4 devices, 0 are free and no running job can share enough others with it",
        ),
        Case {
            before: Some(Command::LoseNode(NodeId(1))),
            ..case(
                "fifo",
                vec![job(0.0, 8, 10.0, "ann")],
                "cannot start on the current nodes: needs 8 devices, the working nodes have 4 that it may use together",
            )
        },
    ]
}

fn of_limits() -> Vec<Case> {
    let one = |at_s: f64, user: &str| job(at_s, 1, 1000.0, user);
    vec![
        governed(
            "[user.ann]\ndevices = 4",
            vec![job(0.0, 3, 1000.0, "ann"), job(1.0, 2, 10.0, "ann")],
            "user ann may have 4 devices: 3 are used or promised, and it asks for 2",
        ),
        governed(
            "[user.ann]\njobs = 1",
            vec![one(0.0, "ann"), one(1.0, "ann"), one(2.0, "ann")],
            "j1 of the same owner goes first, and waits for a limit",
        ),
        governed(
            "[user.ann]\ngpu_hours = 0.1\nper = \"1d\"",
            vec![job(0.0, 2, 1000.0, "ann"), one(1100.0, "ann")],
            "user ann may use 0.1 GPU-hours, and has used 0.6",
        ),
        governed(
            "[user.ann]\ndevices = 2",
            vec![job(0.0, 3, 10.0, "ann")],
            "can never run under its limits: it asks for 3 devices, user ann may have 2",
        ),
        governed(
            "[group.vision]\nusers = [\"ann\", \"bob\"]\ndevices = 2",
            vec![job(0.0, 2, 1000.0, "ann"), one(1.0, "bob")],
            "group vision may have 2 devices: 2 are used or promised, and it asks for 1",
        ),
        governed(
            "[[reservation]]\nname = \"r\"\nnodes = [\"gpu-0\"]\nstart = \"+1h\"\nend = \"+2h\"\nusers = [\"ann\"]",
            vec![reserved(one(0.0, "ann"), "r")],
            "waits for reservation r, which begins at 3600 s",
        ),
        governed(
            "[[reservation]]\nname = \"r\"\nnodes = [\"gpu-0\"]\nstart = \"+0s\"\nend = \"+2h\"\nusers = [\"ann\"]",
            vec![reserved(one(0.0, "bob"), "r")],
            "can never run under its limits: reservation r is not for this user",
        ),
        governed(
            "[[reservation]]\nname = \"r\"\nnodes = [\"gpu-0\"]\nstart = \"+0s\"\nend = \"+2h\"\nusers = [\"ann\"]",
            vec![reserved(job(0.0, 4, 1000.0, "ann"), "r"), reserved(one(1.0, "ann"), "r")],
            "needs 1 device of reservation r, 0 are free or come after jobs that go first",
        ),
        governed(
            "[[reservation]]\nname = \"disks\"\nnodes = [\"gpu-0\", \"gpu-1\"]\nstart = \"+100s\"\nend = \"+2h\"\nlead = \"0s\"",
            vec![one(100.0, "ann")],
            "devices that it could use are kept for reservation disks until 7200 s",
        ),
        governed(
            "starvation = \"10s\"",
            vec![job(0.0, 1, 5000.0, "ann"), job(1.0, 8, 10.0, "bob"), one(100.0, "ann")],
            "devices that it could use are kept for j1, which has waited too long",
        ),
    ]
}

/// What the last job is told when it has come.
fn told(case: &Case) -> String {
    let info = wharf_reproduce::find(case.policy).expect("registered");
    let settings = Settings::parse(case.settings.iter().copied()).expect("key=value");
    let limits = Limits::parse(case.limits).expect("limits");
    let limits = (!case.limits.is_empty()).then_some(&limits);
    let mut world = World::new(info, &settings, &ClusterSpec::uniform("gpu", 2, 4), limits);
    if let Some(command) = &case.before {
        world.engine.handle(Time::ZERO, command.clone(), &mut ()).expect("possible");
    }
    let last = JobId::from_index(case.jobs.len() - 1);
    let mut told = None;
    // What can never run is still there at the end.
    let _ = world.run(&case.jobs, 1000, |world| {
        let mut reasons = world.reasons();
        told = told.take().or_else(|| Some(reasons.find(|(job, _)| *job == last)?.1.to_string()));
        Ok(())
    });
    told.unwrap_or_else(|| "it has started".to_owned())
}

#[test]
fn every_reason_has_its_words() {
    let cases: Vec<Case> = of_policies().into_iter().chain(of_limits()).collect();
    let found: Vec<String> = cases.iter().map(told).collect();
    let expected: Vec<&str> = cases.iter().map(|case| case.told).collect();
    assert_eq!(found, expected);
}
