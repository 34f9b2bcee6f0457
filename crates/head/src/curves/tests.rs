//! The metric store: what is kept, thinned and answered.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;

use wharf_curve::{NAMES_MAX, POINTS_MAX, Point, Refused, Segment};
use wharf_proto::MetricPoints;

use super::*;

fn value(step: u64) -> f64 {
    1.0 / (step as f64 + 1.0)
}

/// What a run reports of its steps.
fn batch(run: u32, rank: u32, steps: impl IntoIterator<Item = u64>) -> Batch {
    let point =
        |step| Point { step, time_s: 1e9 + f64::from(run) * 1000.0 + step as f64, value: value(step) };
    let points = steps.into_iter().map(point).collect();
    Batch {
        job: 7,
        run,
        rank,
        points: vec![("loss".to_owned(), Segment { stride: 1, points })],
        refused: None,
    }
}

fn store() -> Connection {
    let folder = tempfile::tempdir().unwrap();
    // The file is open as long as it is needed.
    table::open(&folder.path().join(FILE)).unwrap()
}

fn loss(connection: &Connection) -> MetricPoints {
    table::read(connection, 7, &[])
        .unwrap()
        .metrics
        .into_iter()
        .find(|one| one.name == "loss")
        .unwrap_or_default()
}

fn add_all(connection: &Connection, batches: &[Batch]) {
    batches.iter().for_each(|batch| table::add(connection, batch).unwrap());
}

/// All orders of a few things.
fn orders<T: Clone>(things: &[T]) -> Vec<Vec<T>> {
    if things.len() < 2 {
        return vec![things.to_vec()];
    }
    let mut all = Vec::new();
    for index in 0..things.len() {
        let mut rest = things.to_vec();
        let first = rest.remove(index);
        all.extend(orders(&rest).into_iter().map(|mut order| {
            order.insert(0, first.clone());
            order
        }));
    }
    all
}

#[test]
fn curve_through_restarts_equals_the_uninterrupted_one_in_any_order() {
    let whole = store();
    add_all(&whole, &[batch(1, 0, 1..=300)]);
    // A run that was lost after its checkpoint at 100, one that made no progress, and one that did the rest.
    let runs = [batch(1, 0, 1..=60), batch(1, 0, 61..=140), batch(2, 0, 101..=103), batch(3, 0, 101..=300)];
    for order in orders(&runs) {
        let interrupted = store();
        add_all(&interrupted, &order);
        add_all(&interrupted, &order[..2]);
        let (found, expected) = (loss(&interrupted), loss(&whole));
        assert_eq!((&found.step, &found.value), (&expected.step, &expected.value));
        assert!(found.run.is_sorted() && found.run[99] == 1 && found.run[100] == 3);
    }
}

#[test]
fn long_curve_is_thinned_as_the_workers_do() {
    let whole: Vec<u64> = (1..=20_000).collect();
    let mut curve = wharf_curve::Curve::default();
    let connection = store();
    for part in whole.chunks(777) {
        let batch = batch(1, 0, part.iter().copied());
        batch.points[0].1.points.iter().for_each(|point| {
            curve.add(*point);
        });
        add_all(&connection, &[batch]);
    }
    let expected: Vec<u64> = curve.points().map(|point| point.step).collect();
    assert_eq!(loss(&connection).step, expected);
    assert!(expected.len() <= POINTS_MAX + 1 && expected.last() == Some(&20_000));
    // Points that are sent again, thinned, change nothing.
    let mut again = batch(1, 0, []);
    again.points[0].1 = curve.segment();
    add_all(&connection, &[again]);
    assert_eq!(loss(&connection).step, expected);
}

#[test]
fn lowest_rank_of_a_run_counts() {
    for order in orders(&[batch(1, 1, 1..=50), batch(1, 0, 3..=20), batch(1, 2, 1..=90)]) {
        let connection = store();
        add_all(&connection, &order);
        assert_eq!(loss(&connection).step, (3..=20).collect::<Vec<_>>());
    }
}

#[test]
fn numbers_that_are_not_finite_are_stored() {
    let connection = store();
    let numbers = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0];
    let mut reported = batch(1, 0, 0..4);
    let points = reported.points[0].1.points.iter_mut();
    points.zip(numbers).for_each(|(point, number)| point.value = number);
    add_all(&connection, &[reported]);
    let found = loss(&connection).value;
    assert!(found[0].is_nan());
    assert_eq!(found[1..], numbers[1..]);
}

#[test]
fn names_beyond_the_limit_are_refused_and_counted() {
    let connection = store();
    for index in 0..1000 {
        let mut one = batch(1, 0, [1]);
        one.points[0].0 = format!("m{index}");
        add_all(&connection, &[one]);
    }
    add_all(
        &connection,
        &[Batch { refused: Some(Refused { points: 9, example: "x".into() }), ..batch(1, 0, []) }],
    );
    let found = table::read(&connection, 7, &[]).unwrap();
    assert_eq!(found.metrics.len(), NAMES_MAX);
    assert!(found.metrics.iter().any(|one| one.name == "m0"));
    let refused = found.refused.unwrap();
    assert_eq!((refused.points, refused.example.as_str()), (9, "m64"));
    assert_eq!(table::read(&connection, 7, &["m3".to_owned()]).unwrap().metrics.len(), 1);
}

#[test]
fn old_jobs_are_removed() {
    let connection = store();
    for job in 1..=5 {
        let mut one = batch(1, 0, [1, 2]);
        (one.job, one.points[0].1.points[1].time_s) = (job, f64::from(job) * 100.0);
        one.points[0].1.points[0].time_s = 1.0;
        add_all(&connection, &[one]);
    }
    assert_eq!(table::remove_before(&connection, 250.0).unwrap(), 2);
    assert_eq!(table::remove_oldest(&connection, 1).unwrap(), 1);
    let left = |job| !table::read(&connection, job, &[]).unwrap().metrics.is_empty();
    assert_eq!((1..=5).map(left).collect::<Vec<_>>(), [false, false, false, true, true]);
    assert!(table::used_bytes(&connection).unwrap() > 0);
}

#[tokio::test]
async fn store_is_private_and_survives_a_damaged_file() {
    let folder = tempfile::tempdir().unwrap();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let heard = warnings.clone();
    let warn: Warn = Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned()));
    std::fs::write(folder.path().join(FILE), "this is no database, and long enough to be one".repeat(100))
        .unwrap();
    let (store, writing) = CurveStore::start(folder.path(), 1e12, warn).unwrap();
    let ticket = store.add(batch(1, 0, 1..=10)).unwrap();
    loop {
        let found = store.read(vec![7], vec![]).await;
        if found.is_ok_and(|found| found[0].metrics.len() == 1) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(store.is_stored(ticket));
    for file in [FILE, "metrics.sqlite-wal"] {
        let mode = std::fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    writing.stop();
    assert!(warnings.lock().unwrap().iter().any(|text| text.contains("moved to")));
}

#[test]
fn full_queue_drops_points_and_reports_it() {
    let (sender, _receiver) = mpsc::channel();
    let path = Arc::new(PathBuf::from("none"));
    let store = CurveStore { sender, shared: Arc::default(), path, tickets: Arc::default() };
    let many = batch(1, 0, 0..(QUEUE_POINTS_MAX as u64 / 2));
    assert!(store.add(many.clone()).is_some() && store.add(many.clone()).is_some());
    assert_eq!((store.add(many), store.take_dropped()), (None, QUEUE_POINTS_MAX as u64 / 2));
    assert_eq!(store.take_dropped(), 0);
}
