//! How fast a job is, by the rules: measured, estimated, told.
use std::sync::Arc;

use wharf_core::{
    ClusterSpec, DeviceSet, DeviceTypeId, Gang, JobSpec, NodeId, NodeShare, PerfModel as _, Plan, StageTimes,
    Time, Topology,
};
use wharf_perf::cells::{Cells, Device};
use wharf_perf::resolve::Problem;
use wharf_perf::speed::iteration_ratio;
use wharf_perf::{
    Costs, Entry, Locality, Model, Order, PairEntry, Place, Profile, Sharing, Source, Workload, resolve,
};

const COSTS: Costs =
    Costs { restart_s: 10.0, spread_slowdown: 0.2, switch_slowdown: 0.1, interleave_factors: [1.0; 3] };

fn place(device_type: &str, devices: u32) -> Place {
    Place { device_type: device_type.into(), devices, locality: Locality::Packed }
}

fn lm(batch_size: u32) -> Workload {
    Workload { model: "lm".into(), batch_size: Some(batch_size) }
}

/// `lm` at batch size 20 on v100 and k80, `cnn` on v100, k80 and a10.
fn profile() -> Profile {
    let mut profile = Profile::default();
    for (device_type, devices, speed) in
        [("v100", 1, 10.0), ("v100", 4, 30.0), ("k80", 1, 2.0), ("k80", 4, 0.0), ("k80", 8, 0.0)]
    {
        profile.insert(lm(20), place(device_type, devices), speed);
    }
    let cnn = Workload { model: "cnn".into(), batch_size: None };
    for (device_type, speed) in [("v100", 8.0), ("k80", 2.0), ("a10", 16.0)] {
        profile.insert(cnn.clone(), place(device_type, 1), speed);
    }
    profile.insert_pair(lm(20), cnn, place("v100", 1), [6.0, 4.0]);
    profile
}

fn job(model: &str, batch_size: Option<u32>, devices: u32, iteration_ms: f64) -> JobSpec {
    JobSpec {
        model: Some(model.into()),
        batch_size,
        ..JobSpec::new("j", Time::ZERO, devices, 100.0, iteration_ms)
    }
}

fn model(profile: Profile) -> Model {
    Model::new(COSTS, Sharing::Interference, Order::Best).with_profile(profile)
}

fn asked_for(device_type: &str, mut job: JobSpec) -> JobSpec {
    job.gang.device_types = Arc::from([Arc::from(device_type)]);
    job
}

#[test]
fn speed_is_measured_estimated_or_declared() {
    use Source::{Estimated, Measured, Told};
    let model = model(profile());
    let lm_20 = || job("lm", Some(20), 1, 50.0);
    for (case, job, device_type, devices, speed, source) in [
        ("measured, whatever the job tells", lm_20(), "v100", 1, 10.0, Measured),
        ("measured on a slower type", lm_20(), "k80", 1, 2.0, Measured),
        ("said not to fit", lm_20(), "k80", 4, 0.0, Measured),
        ("between two measured counts", lm_20(), "v100", 2, 10.0 * 3.0_f64.sqrt(), Estimated),
        ("fits one device but not four: not three either", lm_20(), "k80", 3, 0.0, Estimated),
        ("told for the reference type", job("lm", Some(40), 1, 50.0), "v100", 1, 20.0, Told),
        ("nearest batch size has the ratio of types", job("lm", Some(40), 1, 50.0), "k80", 1, 4.0, Estimated),
        (
            "nearest batch size has the ratio of counts",
            job("lm", Some(40), 1, 50.0),
            "v100",
            4,
            60.0,
            Estimated,
        ),
        (
            "another batch size may fit",
            job("lm", Some(10), 4, 50.0),
            "k80",
            4,
            20.0 / 20.0_f64.sqrt(),
            Estimated,
        ),
        ("told for the type asked for", asked_for("k80", job("lm", Some(40), 1, 50.0)), "k80", 1, 20.0, Told),
        (
            "from a slow type to a fast one",
            asked_for("k80", job("lm", Some(40), 1, 50.0)),
            "v100",
            1,
            100.0,
            Estimated,
        ),
        // Twice as fast for the one model that ran on both.
        ("mean ratio of types for another model", job("new", None, 1, 50.0), "a10", 1, 40.0, Estimated),
        ("unknown type", job("new", None, 1, 50.0), "gpu", 1, 20.0, Told),
        ("unknown type asked for", asked_for("gpu", job("new", None, 1, 50.0)), "k80", 1, 20.0, Told),
        ("not declared, same samples per second", job("lm", Some(40), 1, 0.0), "v100", 1, 5.0, Estimated),
        ("not declared, from another type", job("lm", Some(20), 1, 0.0), "a10", 1, 20.0, Estimated),
        ("unknown", job("new", None, 1, 0.0), "v100", 1, 0.0, Told),
    ] {
        let found = model.estimate(&job, device_type, devices, Locality::Packed, &[]);
        assert!((found.iterations_per_s - speed).abs() < 1e-9, "{case}: {found:?}, expected {speed}");
        assert_eq!(found.source, source, "{case}");
    }
}

#[test]
fn estimated_entries_count_less_than_what_a_job_tells() {
    let mut profile = Profile::default();
    for (device_type, iterations_per_s) in [("v100", 10.0), ("k80", 2.5)] {
        profile.insert_entry(lm(20), place(device_type, 1), Entry { iterations_per_s, is_estimate: true });
    }
    profile.insert_pair_entry(
        lm(20),
        lm(20),
        place("v100", 1),
        PairEntry { iterations_per_s: [5.0, 5.0], is_estimate: true },
    );
    let model = model(profile);
    let told = job("lm", Some(20), 1, 50.0);
    let untold = job("lm", Some(20), 1, 0.0);
    for (job, device_type, neighbours, speed, source) in [
        (&told, "v100", vec![], 20.0, Source::Told),
        (&told, "k80", vec![], 5.0, Source::Estimated),
        (&untold, "v100", vec![], 10.0, Source::Estimated),
        (&told, "v100", vec![&told], 10.0, Source::Estimated),
        (&told, "v100", vec![&told, &told], 5.0, Source::Estimated),
    ] {
        let found = model.estimate(job, device_type, 1, Locality::Packed, &neighbours);
        assert_eq!((found.iterations_per_s, found.source), (speed, source), "{device_type}");
    }
}

#[test]
fn neighbours_slow_down_as_measured_or_as_modelled() {
    let model = model(profile());
    let (lm, cnn, new) = (job("lm", Some(20), 1, 50.0), job("cnn", None, 1, 90.0), job("new", None, 1, 50.0));
    let beside = |job: &JobSpec, other: &JobSpec| {
        let found = model.estimate(job, "v100", 1, Locality::Packed, &[other]);
        (found.iterations_per_s, found.source)
    };
    assert_eq!(beside(&lm, &cnn), (6.0, Source::Measured));
    assert_eq!(beside(&cnn, &lm), (4.0, Source::Measured));
    let (speed, source) = beside(&lm, &new);
    assert_eq!(source, Source::Estimated);
    assert!((speed - 10.0 / 2.1).abs() < 1e-12, "{speed}");
}

fn mixed() -> Topology {
    let mut cluster = ClusterSpec::uniform("v100", 2, 4);
    cluster.nodes.extend(ClusterSpec::uniform("k80", 2, 4).nodes);
    cluster.nodes.extend(ClusterSpec::uniform("gpu", 1, 4).nodes);
    Topology::new(&cluster)
}

fn shares(shares: &[(u32, u32)]) -> Vec<NodeShare> {
    let share = |&(node, devices)| NodeShare::new(NodeId(node), DeviceSet::first(devices));
    shares.iter().map(share).collect()
}

#[test]
fn gang_is_as_fast_as_its_slowest_type_where_it_lies() {
    let mut known = profile();
    known.insert(lm(20), place("k80", 2), 3.0);
    known.insert(lm(20), place("v100", 2), 18.0);
    known.insert(lm(20), Place { locality: Locality::Spread, ..place("v100", 2) }, 12.0);
    let (topology, model) = (mixed(), model(known));
    let (one, two) = (job("lm", Some(20), 1, 50.0), job("lm", Some(20), 2, 50.0));
    for (job, placement, iteration_s) in [
        (&one, vec![(0, 1)], 1.0 / 10.0),
        (&one, vec![(2, 1)], 1.0 / 2.0),
        (&one, vec![(4, 1)], 0.05),
        (&two, vec![(0, 2)], 1.0 / 18.0),
        // Two nodes where one would do: measured for v100, by the model for k80.
        (&two, vec![(0, 1), (1, 1)], 1.0 / 12.0),
        (&two, vec![(2, 1), (3, 1)], 1.1 / 3.0),
        (&two, vec![(0, 1), (2, 1)], 1.1 / 3.0),
        // Said not to fit: as it tells.
        (&job("lm", Some(20), 4, 50.0), vec![(2, 4)], 0.05),
    ] {
        let found = model.iteration_s(&topology, job, &shares(&placement), &[]);
        assert!((found - iteration_s).abs() < 1e-9, "{placement:?}: {found}, expected {iteration_s}");
    }
}

#[test]
fn policies_ask_by_type() {
    let (topology, model) = (mixed(), model(profile()));
    let types: Vec<DeviceTypeId> =
        ["v100", "k80", "gpu"].map(|name| topology.type_id(name).unwrap()).to_vec();
    let speeds = |job: &JobSpec, devices| -> Vec<f64> {
        types.iter().map(|&id| model.speed(&topology, job, id, devices, &[])).collect()
    };
    let lm = job("lm", Some(20), 1, 50.0);
    assert_eq!(speeds(&lm, 1), [10.0, 2.0, 20.0]);
    assert_eq!(speeds(&asked_for("k80", lm), 1), [0.0, 2.0, 0.0]);
}

#[test]
fn without_a_profile_all_types_are_alike_to_the_last_bit() {
    let topology = mixed();
    let model = Model::new(COSTS, Sharing::None, Order::Best);
    let unknown = model.clone().with_profile({
        let mut profile = Profile::default();
        profile.insert(lm(20), place("tpu", 1), 3.0);
        profile
    });
    let job = job("other", None, 2, 33.3);
    for placement in [vec![(0, 2)], vec![(2, 2)], vec![(0, 1), (1, 1)], vec![]] {
        let placement = shares(&placement);
        let told = model.iteration_s(&topology, &job, &placement, &[]);
        assert_eq!(told, unknown.iteration_s(&topology, &job, &placement, &[]));
        let apart = if placement.len() == 2 { 1.1 } else { 1.0 };
        assert_eq!(told, 33.3 / 1000.0 * apart);
    }
    assert_eq!(model.speed(&topology, &job, DeviceTypeId(1), 2, &[]), 1000.0 / 33.3);
}

#[test]
fn other_counts_share_the_work_and_pay_for_the_ring() {
    for (then, now, share, expected) in [
        (4, 4, Some(0.5), 1.0),
        // A fifth of the iteration is a ring of four: r(4) = 1.5, r(8) = 1.75, r(1) = 0.
        (4, 8, Some(0.2), 0.8 / 2.0 + 0.2 * 1.75 / 1.5),
        (4, 1, Some(0.2), 0.8 * 4.0),
        // Nothing is known: r(2) = 1 costs a tenth of the computing of one.
        (1, 2, None, 0.5 + 0.1),
        (1, 2, Some(0.0), 0.5 + 0.1),
    ] {
        let ratio = iteration_ratio(then, now, share);
        assert!((ratio - expected).abs() < 1e-12, "{then} to {now}: {ratio}, expected {expected}");
    }
    let mut job = job("x", None, 2, 100.0);
    job.stages = Some(StageTimes { data_ms: 10.0, compute_ms: 80.0, network_ms: 20.0 });
    let model = Model::new(COSTS, Sharing::None, Order::Best);
    let found = model.estimate(&job, "any", 4, Locality::Packed, &[]);
    assert!((found.iterations_per_s - 10.0 / (0.8 / 2.0 + 0.2 * 1.5)).abs() < 1e-9, "{found:?}");
    assert_eq!(found.source, Source::Estimated);
}

#[test]
fn jobs_without_speed_are_reported() {
    let mut cluster = ClusterSpec::uniform("k80", 1, 8);
    cluster.nodes.extend(ClusterSpec::uniform("v100", 1, 8).nodes);
    let mut jobs = vec![
        job("lm", Some(20), 1, 0.0),
        asked_for("k80", job("lm", Some(20), 1, 0.0)),
        job("lm", Some(20), 4, 0.0),
        job("lm", Some(20), 4, 70.0),
        job("new", None, 1, 70.0),
    ];
    resolve(&profile(), &mut jobs, &cluster).unwrap();
    let told: Vec<f64> = jobs.iter().map(|job| job.iteration_ms).collect();
    assert_eq!(told, [100.0, 500.0, 1000.0 / 30.0, 70.0, 70.0]);
    let types = |gang: &Gang| gang.device_types.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let allowed: Vec<Vec<String>> = jobs.iter().map(|job| types(&job.gang)).collect();
    assert_eq!(allowed, [vec![], vec!["k80"], vec!["v100"], vec!["v100"], vec![]]);
}

#[test]
fn unknown_models_are_named() {
    let cluster = ClusterSpec::uniform("k80", 1, 8);
    let mut jobs = vec![
        job("lm", Some(20), 4, 0.0),
        job("new", None, 1, 0.0),
        JobSpec::new("bare", Time::ZERO, 1, 10.0, 0.0),
        job("lm", Some(20), 1, 0.0),
    ];
    let unresolved = resolve(&profile(), &mut jobs, &cluster).unwrap_err();
    let problems: Vec<&Problem> = unresolved.jobs.iter().map(|job| &job.problem).collect();
    let lm = || "lm".into();
    assert_eq!(
        problems,
        [
            &Problem::FitsNowhere { model: lm(), devices: 4 },
            &Problem::UnknownModel { model: "new".into() },
            &Problem::NoModel
        ]
    );
    let message = unresolved.to_string();
    assert!(message.starts_with("no speed is known of 3 jobs: job `j` `lm` on 4 devices fits"), "{message}");
}

#[test]
fn plans_and_data_parallel_speeds_are_those_of_the_exact_place() {
    let mut profile = profile();
    let plan = Plan { stages: 2, data: 2, tensor: 1 };
    profile.insert_plan(lm(20), place("v100", 4), plan);
    profile.insert_data_parallel(
        lm(20),
        place("v100", 4),
        Entry { iterations_per_s: 25.0, is_estimate: true },
    );
    let model = model(profile);
    let topology = mixed();
    let id = |name: &str| {
        DeviceTypeId::from_index(topology.types().iter().position(|known| **known == *name).unwrap())
    };
    let ask = |job: &JobSpec, device_type: &str, devices| {
        let device_type = id(device_type);
        (
            model.plan(&topology, job, device_type, devices),
            model.data_parallel_speed(&topology, job, device_type, devices),
        )
    };
    let own = job("lm", Some(20), 4, 0.0);
    assert_eq!(ask(&own, "v100", 4), (Some(plan), 25.0));
    // Plans are not distinguished there: the only known speed counts.
    assert_eq!(ask(&own, "v100", 1), (None, 10.0));
    assert_eq!(ask(&job("cnn", None, 1, 0.0), "v100", 1), (None, 8.0));
    assert_eq!(ask(&asked_for("k80", own), "v100", 4).1, 0.0);
}

#[test]
fn data_parallel_copies_must_fit_where_their_memory_is_known() {
    let mut profile = profile();
    let entry = |iterations_per_s| Entry { iterations_per_s, is_estimate: true };
    profile.insert(lm(20), place("v100", 2), 18.0);
    profile.insert_data_parallel(lm(20), place("v100", 1), entry(9.0));
    profile.insert_data_parallel(lm(20), place("v100", 2), entry(0.0));
    profile.insert_data_parallel(lm(20), place("v100", 4), entry(25.0));
    let speeds = |profile: &Profile, model_name: &str| {
        let model = model(profile.clone());
        let (topology, job) = (mixed(), job(model_name, Some(20), 4, 0.0));
        [1, 2, 4]
            .map(|devices| model.data_parallel_speed(&topology, &job, DeviceTypeId::from_index(0), devices))
    };
    assert_eq!(speeds(&profile, "lm"), [9.0, 0.0, 25.0]);
    let mut cells = Cells::default();
    cells.set_device("v100", Device { memory_gb: 16.0, per_node: 4 });
    // 10 GB and a fifth more are less than four fifths of 16 GB.
    cells.set_memory(lm(20), vec![-1.0, 10.0, 0.0]);
    profile.set_cells(cells);
    // On one device it does not fit, on two it does despite the estimate, on four it does not matter.
    assert_eq!(speeds(&profile, "lm"), [0.0, 18.0, 25.0]);
    assert_eq!(speeds(&profile, "new"), [0.0; 3]);
}

fn a40s_and_v100s() -> ClusterSpec {
    let mut cluster = ClusterSpec::uniform("a40", 2, 2);
    cluster.nodes.extend(ClusterSpec::uniform("v100", 1, 4).nodes);
    cluster
}

/// A job of a model that no profile knows but the planner does gets its speeds and plans from there, as estimates.
#[test]
fn planner_estimates_models_without_a_profile() {
    let cluster = a40s_and_v100s();
    let topology = Topology::new(&cluster);
    let [a40, v100] = ["a40", "v100"].map(|name| topology.type_id(name).unwrap());
    let known = model(profile());
    let untold = job("gpt-1.3b", Some(64), 4, 0.0);
    let speed = |model: &Model, job: &JobSpec, kind, devices| model.speed(&topology, job, kind, devices, &[]);
    let four = speed(&known, &untold, a40, 4);
    assert!(four > speed(&known, &untold, a40, 2) && speed(&known, &untold, a40, 2) > 0.0);
    assert_eq!(known.estimate(&untold, "a40", 4, Locality::Packed, &[]).source, Source::Estimated);
    let Plan { stages, data, tensor } = known.plan(&topology, &untold, a40, 4).unwrap();
    assert_eq!(stages * data * tensor, 4);
    let copies = known.data_parallel_speed(&topology, &untold, a40, 4);
    assert!(copies > 0.0 && copies <= four, "{copies} {four}");
    // 1.3 billion parameters with their optimizer are more than a V100 has.
    assert_eq!(
        (speed(&known, &untold, v100, 1), known.data_parallel_speed(&topology, &untold, v100, 4)),
        (0.0, 0.0)
    );

    // What a job tells of itself counts; the planner only states what that is elsewhere.
    let told = asked_for("a40", job("gpt-1.3b", Some(64), 4, 2000.0));
    assert_eq!(speed(&known, &told, a40, 4), 0.5);
    let ratio = speed(&known, &untold, a40, 2) / four;
    assert!((speed(&known, &told, a40, 2) - 0.5 * ratio).abs() < 1e-12);

    // The built-in profile has no such model either; one that is to know nothing states nothing.
    let builtin = Model::new(COSTS, Sharing::Interference, Order::Best).with_builtin();
    assert_eq!(speed(&builtin, &untold, a40, 4), four);
    let silent = model(Profile::default());
    assert_eq!(silent.plan(&topology, &untold, a40, 4), None);
    // Measured models are the profile's.
    assert_eq!(known.plan(&topology, &job("lm", Some(20), 4, 0.0), v100, 4), None);
}

#[test]
fn planner_resolves_jobs_without_speed() {
    let cluster = a40s_and_v100s();
    let mut jobs = [job("gpt-1.3b", Some(64), 2, 0.0)];
    resolve(&profile(), &mut jobs, &cluster).unwrap();
    assert!(jobs[0].iteration_ms > 0.0);
    assert!(!jobs[0].gang.device_types.is_empty());
    let refused = |devices, name: &str| {
        resolve(&profile(), &mut [job(name, Some(64), devices, 0.0)], &cluster)
            .unwrap_err()
            .jobs
            .remove(0)
            .problem
    };
    assert_eq!(refused(2, "gpt-39b"), Problem::FitsNowhere { model: "gpt-39b".into(), devices: 2 });
    assert_eq!(refused(2, "gpt-40b"), Problem::UnknownModel { model: "gpt-40b".into() });
}
