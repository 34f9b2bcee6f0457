//! Packed programs: published objectives, the general solver on small instances, feasibility of every answer.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use wharf_solver::packing::{Answer, Method, PIVOTS, Program};

/// What a test owns of a program.
#[derive(Clone, Debug, Default)]
struct Owned {
    capacities: Vec<f64>,
    kinds: Vec<usize>,
    devices: Vec<u32>,
    alone: Vec<f64>,
    beside: Vec<f64>,
}

impl Owned {
    fn program(&self) -> Program<'_> {
        Program {
            capacities: &self.capacities,
            kinds: &self.kinds,
            devices: &self.devices,
            alone: &self.alone,
            beside: &self.beside,
            pivots: PIVOTS,
        }
    }
}

/// Fails if shares exceed a job's time or a type's devices, or join jobs that cannot be joined.
fn check_feasible(owned: &Owned, answer: &Answer) {
    let mut times = vec![0.0; owned.kinds.len()];
    let mut used = vec![0.0; owned.capacities.len()];
    for share in &answer.shares {
        assert!(share.share > 0.0 && share.share <= 1.0 + 1e-9, "{share:?}");
        times[share.job] += share.share;
        used[share.device_type] += share.share * f64::from(owned.devices[share.job]);
        if let Some(partner) = share.partner {
            assert!(partner > share.job && owned.devices[partner] == owned.devices[share.job], "{share:?}");
            times[partner] += share.share;
        }
    }
    assert!(times.iter().all(|&time| time <= 1.0 + 1e-9), "{times:?}");
    assert!(used.iter().zip(&owned.capacities).all(|(used, capacity)| *used <= capacity * (1.0 + 1e-9)));
    let ordered = answer.shares.windows(2).all(|pair| {
        let key = |index: usize| (pair[index].job, pair[index].partner, pair[index].device_type);
        key(0) < key(1)
    });
    assert!(ordered, "shares are out of order or doubled");
}

fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gavel").join(path);
    path.exists().then_some(path)
}

fn golden(name: &str) -> Option<Value> {
    let path = shared(&format!("lp_goldens/{name}_ECOS.json.gz"))?;
    Some(serde_json::from_reader(GzDecoder::new(File::open(path).unwrap())).unwrap())
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// The jobs of a golden with the speeds of the published table, rounded to 32 bits as the reference stores them.
fn published(golden: &Value, jobs: usize, capacity: f64) -> (Owned, Vec<f64>) {
    let table = shared("simulation_throughputs.json").expect("is beside the goldens");
    let table: Value = serde_json::from_reader(File::open(table).unwrap()).unwrap();
    let types: Vec<&str> = golden["types"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let mut numbers_of_kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut owned = Owned { capacities: vec![capacity; types.len()], ..Owned::default() };
    let jobs = &golden["jobs"].as_array().unwrap()[..jobs];
    let label = |job: &Value| format!("('{}', {})", job["type"].as_str().unwrap(), job["sf"]);
    for job in jobs {
        let next = numbers_of_kinds.len();
        owned.kinds.push(*numbers_of_kinds.entry(label(job)).or_insert(next));
        owned.devices.push(u32::try_from(job["sf"].as_u64().unwrap()).unwrap());
    }
    let mut kinds: Vec<(&String, usize)> = numbers_of_kinds.iter().map(|(name, &number)| (name, number)).collect();
    kinds.sort_by_key(|kind| kind.1);
    let stored = |value: &Value| f64::from(value.as_f64().unwrap_or(0.0) as f32);
    for (kind, _) in &kinds {
        owned.alone.extend(types.iter().map(|name| stored(&table[name][kind]["null"])));
        for (other, _) in &kinds {
            owned.beside.extend(types.iter().map(|name| stored(&table[name][kind][other][0])));
        }
    }
    let target = |(index, job): (usize, &Value)| {
        let speeds = &owned.alone[owned.kinds[index] * types.len()..][..types.len()];
        let proportional = speeds.iter().sum::<f64>() / types.len() as f64;
        job["w"].as_f64().unwrap() * proportional / f64::from(owned.devices[index])
    };
    let targets = jobs.iter().enumerate().map(target).collect();
    (owned, targets)
}

#[test]
fn published_objectives_are_reached() {
    // Golden with the jobs, how many of them, devices per type, objective. For 128 and 256 jobs only figures are published;
    // the jobs are those of another program.
    let table = [
        ("max_min_fairness_packed_n16", 16, 4.0, None),
        ("max_min_fairness_packed_n64", 64, 16.0, None),
        ("max_min_fairness_perf_n256", 128, 32.0, Some(1.089_985_6)),
        ("max_min_fairness_perf_n256", 256, 64.0, Some(1.106_071_78)),
    ];
    for (name, jobs, capacity, objective) in table {
        let Some(golden) = golden(name) else {
            eprintln!("DID NOT RUN: ../shared/data/gavel/lp_goldens/{name} is not there");
            return;
        };
        let objective = objective.or_else(|| golden["res"]["objective"].as_f64()).unwrap();
        let (owned, targets) = published(&golden, jobs, capacity);
        let answer = owned.program().max_min(&targets);
        check_feasible(&owned, &answer);
        assert_eq!((answer.method, answer.stranded.len()), (Method::Exact, 0));
        let error = (answer.objective / objective - 1.0).abs();
        assert!(error < 1e-6, "{name}: {} instead of {objective}", answer.objective);
        let _ = numbers(&golden["W"]);
    }
}
