//! Every refusal of a job with the text that its author sees.

use wharf_proto::{Checkpoint, Dependency, Notify, ResourceLimit, RetryRule};

use super::*;

fn good() -> JobSpec {
    JobSpec { name: "train".into(), command: vec!["true".into()], ..JobSpec::default() }
}

fn with(change: impl FnOnce(&mut JobSpec)) -> String {
    let mut spec = good();
    change(&mut spec);
    check(&spec).err().map(|error| error.to_string()).unwrap_or_default()
}

fn gang(devices: u32, min: u32, max: u32, nodes: u32) -> String {
    with(|spec| {
        spec.gang = Some(Gang { devices, devices_min: min, devices_max: max, nodes, ..Gang::default() });
    })
}

#[test]
fn jobs_that_make_sense_pass() {
    assert_eq!(with(|_| {}), "");
    assert_eq!(gang(8, 4, 16, 2), "");
    assert_eq!(gang(4, 2, 0, 0), "", "no most: as many as preferred");
    assert_eq!(with(|spec| spec.output = "/logs/%x-%A_%a-%n@%N.%u%%.log".into()), "");
    assert_eq!(with(|spec| spec.array = (0..1000).collect()), "");
    assert_eq!(with(|spec| spec.array = vec![3, 1, 2]), "");
    assert_eq!(
        with(|spec| {
            spec.command.clear();
            spec.steps = vec![Step { command: vec!["a".into()], ..Step::default() }];
        }),
        ""
    );
    assert_eq!(with(|spec| spec.notify = Some(told("https://chat.example/hook?x=1"))), "");
}

fn told(webhook: &str) -> Notify {
    Notify { webhook: webhook.into(), ..Notify::default() }
}

#[test]
fn impossible_gangs_are_refused() {
    for (said, expected) in [
        (
            gang(4, 6, 8, 0),
            "gang: min 6, max 8 and 4 devices are inconsistent; expected min <= devices <= max",
        ),
        (
            gang(9, 2, 8, 0),
            "gang: min 2, max 8 and 9 devices are inconsistent; expected min <= devices <= max",
        ),
        (gang(5, 0, 0, 2), "gang: 5 devices cannot be divided evenly among 2 nodes; use a multiple"),
    ] {
        assert_eq!(said, expected);
    }
    for (gang, expected) in [
        (Gang { every_node: true, devices: 8, ..Gang::default() }, ""),
        (Gang { every_node: true, every_device: true, ..Gang::default() }, ""),
        (
            Gang { every_node: true, nodes: 2, ..Gang::default() },
            "per_node: conflicts with a range of devices or a number of nodes; remove one of them",
        ),
        (
            Gang { every_device: true, ..Gang::default() },
            "gang.all: requires `per_node`; set it, or remove this field",
        ),
    ] {
        assert_eq!(with(|spec| spec.gang = Some(gang)), expected);
    }
}

type Change = fn(&mut JobSpec);

#[test]
fn everything_else_that_cannot_be_is_refused() {
    let table: &[(&str, Change)] = &[
        ("command: no command; set a command, or steps with a command each", |spec| {
            spec.command.clear();
        }),
        ("command: conflicts with steps; remove one of them", |spec| {
            spec.steps = vec![Step { command: vec!["a".into()], ..Step::default() }];
        }),
        ("steps[0].command: no command; set a command, or steps with a command each", |spec| {
            spec.command.clear();
            spec.steps = vec![Step::default()];
        }),
        ("command: is empty; remove it or set a value", |spec| spec.command[0].clear()),
        ("command: contains a zero byte", |spec| {
            spec.command.push("a\0b".into());
        }),
        ("name: contains a zero byte", |spec| spec.name = "\0".into()),
        ("array: index 3 is listed twice", |spec| spec.array = vec![3, 1, 3]),
        ("array: 1000001 elements, at most 1000000; split the array", |spec| {
            spec.array = (0..=1_000_000).collect();
        }),
        ("time_limit: -1 is not a number from 0 on", |spec| spec.time_limit_s = -1.0),
        ("grace: NaN is not a number from 0 on", |spec| spec.grace_s = f64::NAN),
        ("deadline: inf is not a number from 0 on", |spec| spec.deadline_s = f64::INFINITY),
        ("stop_signal: 99 is not a signal; expected 1 to 64", |spec| spec.stop_signal = 99),
        ("env: `A=B` is not a valid variable name", |spec| {
            spec.env.insert("A=B".into(), String::new());
        }),
        ("env.A: contains a zero byte", |spec| {
            spec.env.insert("A".into(), "\0".into());
        }),
        ("workdir: `here` is not an absolute path", |spec| spec.workdir = "here".into()),
        (
            "output: `%z` is not a pattern; expected one of %j %a %A %x %n %N %u, and %% for a percent sign",
            |spec| {
                spec.output = "/logs/%z".into();
            },
        ),
        ("checkpoint.dir: `ckpt` is not an absolute path", |spec| {
            spec.checkpoint = Some(Checkpoint { dir: "ckpt".into(), resume_codes: vec![] });
        }),
        ("limits.core: conflicts with itself; remove one of them", |spec| {
            let core = ResourceLimit { name: "core".into(), value: Some(0) };
            spec.limits = vec![core.clone(), core];
        }),
        ("launcher: `9` is unknown; expected one of plain, per-device, torchrun, mpirun or ray", |spec| {
            spec.launcher = 9;
        }),
        (
            "after: `9` is unknown; expected one of after, after_ok, after_not_ok, after_any, after_corr or singleton",
            |spec| {
                spec.dependencies = vec![Dependency { kind: 9, ..Dependency::default() }];
            },
        ),
        ("notify: no recipient: set a command, a webhook or an email address", |spec| {
            spec.notify = Some(Notify::default());
        }),
        ("notify.mail: `me` is not an email address; expected NAME@HOST", |spec| {
            spec.notify = Some(Notify { mail: "me".into(), ..Notify::default() });
        }),
        (
            "account: `a b` is not a valid account name; expected up to 64 letters, digits, `_`, `-` and `.`",
            |spec| {
                spec.account = "a b".into();
            },
        ),
        (
            "retry: `preemption` is unknown; expected one of user, node, device, lost-worker, out-of-memory, launch, stalled",
            |spec| spec.retry = vec![RetryRule { cause: Cause::Preemption.into(), count: 1 }],
        ),
        ("retry.node: conflicts with itself; remove one of them", |spec| {
            spec.retry = vec![RetryRule { cause: Cause::NodeAway.into(), count: 1 }; 2];
        }),
        (
            "notify.webhook: `ftp://host` is not a URL; expected http://HOST/PATH or https://HOST/PATH",
            |spec| {
                spec.notify = Some(told("ftp://user:word@host/secret"));
            },
        ),
        (
            "notify.on: `7` is unknown; expected one of started, preempted, finished, failed or cancelled",
            |spec| {
                spec.notify = Some(Notify { on: vec![7], ..told("http://host/") });
            },
        ),
    ];
    for (expected, change) in table {
        assert_eq!(with(change), *expected);
    }
    let limit = with(|spec| spec.limits = vec![ResourceLimit { name: "files".into(), value: None }]);
    assert!(limit.starts_with("limits: `files` is unknown; expected one of as, core, cpu, "), "{limit}");
}
