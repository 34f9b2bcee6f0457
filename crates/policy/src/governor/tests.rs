//! What documents say, and what is wrong with them.

use std::sync::Arc;

use wharf_core::{Gang, Needs};

use super::*;

const GOOD: &str = r#"
starvation = "12h"
default_pool = "main"

[default.user]
devices = 8
gpu_hours = 100
per = "7d"

[user.ann]
devices = 16
devices_of = { v100 = 4 }

[group.vision]
users = ["ann", "bob"]
jobs = 10

[pool.main]
time_limit_default = "4h"
time_limit_max = "2d"
gang_max = 32

[pool.paid]
groups = ["vision"]
priority = 5

[[reservation]]
name = "upgrade"
nodes = ["n1", "n2"]
start = "2026-03-01T08:00:00+01:00"
end = "2026-03-01T10:00:00+01:00"

[[reservation]]
name = "deadline"
count = 2
pool = "main"
start = "+2h"
end = "+10h"
lead = "30m"
users = ["eve"]
groups = ["vision"]
"#;

#[test]
fn limits_document_is_parsed_into_accounts_and_pools() {
    let limits = Limits::parse(GOOD).expect("a good document");
    assert_eq!(limits.starvation_s, Some(43_200.0));
    let ann = limits.caps_of_user("ann");
    assert_eq!((ann.devices, ann.hours), (Some(16), Some((100.0, 604_800.0))));
    assert_eq!(limits.caps_of_user("eve").devices, Some(8));
    let owners: Vec<Arc<str>> =
        limits.owners("bob", Some("main")).into_iter().map(|(whose, _)| whose).collect();
    assert_eq!(owners, ["user bob".into(), Arc::from("group vision")], "the pool has no caps of its own");
    assert_eq!(limits.reservations[0].start, Moment::Unix(1_772_348_400.0));
    assert!(limits.reservations[1].users.contains("bob"));
    assert_eq!(Limits::parse("").expect("nothing is fine").starvation_s, Some(86_400.0));
    assert_eq!(Limits::parse("starvation = \"off\"").expect("off").starvation_s, None);
    let empty = "[group.g]\nusers = []\n[pool.p]\ngroups = [\"g\"]\n";
    let empty = Limits::parse(empty).expect("a group may get its members later");
    assert_eq!(
        empty.pools["p"].users,
        Some(std::collections::BTreeSet::new()),
        "and no user may use its pool until then"
    );
}

#[test]
fn mistakes_have_places_and_remedies() {
    let reservation = |rest: &str| format!("[[reservation]]\nname = \"r\"\n{rest}");
    for (text, expected) in [
        ("devics = 3".to_owned(), "line 1, column 1: unknown field `devics`, expected one of"),
        (
            "[user.ann]\ndevices = -1".to_owned(),
            "line 2, column 11: invalid value: integer `-1`, expected u32",
        ),
        ("[user.ann]\ngpu_hours = 5".to_owned(), "user.ann: `gpu_hours` needs a `per`, such as per = \"7d\""),
        ("[user.ann]\nper = \"7d\"".to_owned(), "user.ann: `per` belongs to `gpu_hours`, which is missing"),
        (
            "[user.ann]\ngpu_hours = 1\nper = \"soon\"".to_owned(),
            "line 3, column 7: `soon` is not a duration",
        ),
        ("[group.g]\njobs = 1".to_owned(), "group.g: has no `users`; list its members"),
        ("[pool.p]\ngroups = [\"g\"]".to_owned(), "pool.p: there is no [group.g]; add one with its users"),
        ("\ndefault_pool = \"p\"".to_owned(), "line 2, column 16: default_pool: there is no [pool.p]"),
        (
            "starvation = \"never\"".to_owned(),
            "line 1, column 14: starvation: `never` is not a duration; write `24h`",
        ),
        (
            reservation("nodes = [\"a\"]\nstart = \"noon\"\nend = \"+1h\""),
            "line 4, column 9: `noon` is not a moment",
        ),
        (reservation("start = \"+1h\"\nend = \"+2h\""), "give either `nodes`, or a `count` of nodes"),
        (reservation("count = 1\nstart = \"+3h\"\nend = \"+2h\""), "an `end` after its `start`"),
    ] {
        let error = Limits::parse(&text).expect_err(&text).to_string();
        assert!(error.contains(expected), "{text}\n{error}");
    }
}

#[test]
fn pools_fill_in_and_refuse() {
    let limits = Limits::parse(GOOD).expect("a good document");
    let gang = |devices, pool: &str, reservation: Option<&str>| {
        let pool = (!pool.is_empty()).then(|| pool.into());
        let needs = Needs { pool, reservation: reservation.map(Into::into), ..Needs::default() };
        Gang { needs: Some(Arc::new(needs)), ..Gang::fixed(devices) }
    };
    let of = |user: &str, gang: &Gang, limit: Option<f64>| {
        let terms = limits.terms(user, gang, limit).map_err(|refused| refused.to_string());
        terms.map(|terms| (terms.time_limit_s, terms.priority))
    };
    assert_eq!(of("bob", &gang(1, "", None), None), Ok((Some(14_400.0), 0)));
    assert_eq!(of("bob", &gang(1, "", None), Some(60.0)), Ok((Some(60.0), 0)));
    assert_eq!(of("bob", &gang(1, "paid", None), None), Ok((None, 5)));
    for (user, gang, limit, expected) in [
        ("eve", gang(1, "paid", None), None, "pool paid does not take jobs of user eve"),
        ("bob", gang(64, "", None), None, "a gang of 64 devices is more than pool main allows, which is 32"),
        ("bob", gang(1, "", None), Some(2e5), "a time limit of 200000 s is more than pool main allows"),
        ("bob", gang(9, "", None), None, "it asks for 9 devices, and user bob may have 8"),
        ("ann", gang(5, "", None), None, "it asks for 5 v100 devices, and user ann may have 4"),
        ("bob", gang(1, "", Some("upgrade")), None, "is a maintenance window"),
        ("zoe", gang(1, "", Some("deadline")), None, "is not for this user"),
        ("bob", gang(1, "", Some("party")), None, "reservation party does not exist"),
    ] {
        let error = of(user, &gang, limit).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}
