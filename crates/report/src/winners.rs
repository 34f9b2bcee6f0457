//! Who is best at what, by how much, and how sure that is.
//!
//! Within one trace, preset and cluster the policy with the best mean is set against the next best. Where both have run with the
//! same seeds, the differences are taken seed by seed (*paired*) and their mean gets an interval by Student's t; where the
//! seeds differ, the interval is Welch's. Over several traces under the same preset and on the same cluster the ratios of means are
//! averaged as logarithms, with a trace as the unit: seeds of one trace are no independent witnesses of how a policy does on others.
//!
//! Intervals are for one pair. Who is set against whom was chosen by looking at the same runs, so that with many policies a
//! narrow lead is less sure than its interval says.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::metric::{Metric, Unit};
use crate::metrics::{Summary, distinct};
use crate::stats::{Estimate, mean, welch};
use crate::table::{Cell, Column, Table};

/// The best policy at one metric, in one place or over all of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The metric's field name.
    pub metric: &'static str,
    /// The trace; empty where the verdict is over several.
    pub trace: String,
    /// The preset.
    pub preset: String,
    /// The cluster.
    pub cluster: String,
    /// Traces that it has ended.
    pub places: u64,
    /// The best policy, and others with the same mean.
    pub best: Vec<String>,
    /// Its mean over seeds; none over several traces.
    pub value: Option<f64>,
    /// The next best, where not all are equal.
    pub next: Option<String>,
    /// Its mean.
    pub next_value: Option<f64>,
    /// By how much the best is better, in the metric's unit; none over several traces.
    pub difference: Option<f64>,
    /// Lower end of its 95 % confidence interval.
    pub ci95_low: Option<f64>,
    /// Upper end of it.
    pub ci95_high: Option<f64>,
    /// The difference as a share of the next best's value; over several traces with the ends of its interval.
    pub share: Option<f64>,
    /// Lower end of its 95 % confidence interval, over several traces.
    pub share_ci95_low: Option<f64>,
    /// Upper end of it.
    pub share_ci95_high: Option<f64>,
    /// How the interval was made.
    pub method: Method,
    /// Pairs, or for Welch the runs of the smaller side.
    pub count: u64,
    /// How sure it is.
    pub certainty: Certainty,
}

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Student's t of differences, seed by seed.
    PairedT,
    /// Welch's t, because the seeds differ.
    WelchT,
    /// Student's t of logarithms of ratios, trace by trace.
    LogRatioT,
    /// There is none: too few runs.
    None,
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The interval does not contain zero.
    Clear,
    /// It has.
    Open,
    /// Seeds make no difference: the runs are equal to the last digit.
    NothingRandom,
    /// One run each.
    OneRun,
    /// All are equal.
    Tie,
}

impl Certainty {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Open => "could be chance",
            Self::NothingRandom => "the same with every seed",
            Self::OneRun => "one run each: unknown",
            Self::Tie => "no difference",
        }
    }
}

/// The verdicts for people; where they are for several places, the first column states which.
pub fn table(verdicts: &[Verdict]) -> Table {
    let place = |verdict: &Verdict| (verdict.trace.clone(), verdict.preset.clone(), verdict.cluster.clone());
    let places: BTreeSet<(String, String, String)> = verdicts.iter().map(place).collect();
    let has_places = places.len() > 1;
    let mut columns: Vec<Column> = if has_places { vec![Column::text("trace", "trace")] } else { vec![] };
    columns.extend(
        [
            ("metric", "metric"),
            ("best", "best"),
            ("mean", "mean"),
            ("next", "next best"),
            ("next_mean", "mean"),
            ("difference", "better by"),
            ("ci95", "95 % interval"),
            ("certainty", "how sure"),
        ]
        .map(|(name, title)| Column::text(name, title)),
    );
    let mut table = Table::new(columns);
    for verdict in verdicts {
        let Some(metric) = Metric::named(verdict.metric) else { continue };
        let mut cells: Vec<Cell> =
            if has_places { vec![Cell::text(&verdict.place(&places))] } else { vec![] };
        cells.extend(verdict.words(metric).map(|text| Cell::text(&text)));
        table.push(cells);
    }
    table
}

/// What stands below the table: how its intervals were made, and who is not in it.
pub fn notes(verdicts: &[Verdict], left_out: &[String]) -> Vec<String> {
    let mut notes: Vec<String> = methods(verdicts).into_iter().map(str::to_owned).collect();
    if !left_out.is_empty() {
        notes.push(format!(
            "Not compared, because they left jobs undone that others have done with the same seed: {}.",
            left_out.join(", ")
        ));
    }
    notes
}

fn methods(verdicts: &[Verdict]) -> Vec<&'static str> {
    let has = |method: Method| verdicts.iter().any(|verdict| verdict.method == method);
    let mut notes = Vec::new();
    if has(Method::PairedT) {
        notes.push("Differences of the two policies are taken seed by seed (paired); the interval is Student’s t for their mean.");
    }
    if has(Method::WelchT) {
        notes.push("Where the two policies have run with different seeds, the interval is Welch’s t of the two means.");
    }
    if has(Method::LogRatioT) {
        notes.push("Over several traces: ratios of the two policies’ means, averaged as logarithms; the interval is Student’s t with a trace as the unit.");
    }
    if verdicts.iter().any(|verdict| verdict.certainty == Certainty::OneRun) {
        notes.push("Single runs show no variance: run several seeds (--seed), or a sweep.");
    }
    if verdicts.iter().any(|verdict| verdict.ci95_low.is_some() || verdict.share_ci95_low.is_some()) {
        notes.push("Intervals are for this one pair; which pair was chosen by looking at the same runs, so among many policies a narrow lead is less sure than that.");
    }
    notes
}

impl Verdict {
    /// The trace or how many of them, and where there are several presets or clusters, those as well.
    fn place(&self, places: &BTreeSet<(String, String, String)>) -> String {
        let name = match self.places {
            1 => self.trace.clone(),
            places => format!("all {places} traces"),
        };
        let grounds: BTreeSet<_> = places.iter().map(|(_, preset, cluster)| (preset, cluster)).collect();
        if grounds.len() > 1 { format!("{name} · {} · {}", self.preset, self.cluster) } else { name }
    }

    fn words(&self, metric: Metric) -> [String; 8] {
        let unit = metric.unit();
        let show = |value: Option<f64>| value.map_or_else(String::new, |value| signed(unit, value));
        let share = self.share.map(|share| signed(Unit::Share, share));
        let better = match (self.difference, share) {
            (Some(difference), Some(share)) => format!("{} ({share})", signed(unit, difference)),
            (Some(difference), None) => signed(unit, difference),
            (None, Some(share)) if self.certainty != Certainty::Tie => share,
            _ => String::new(),
        };
        let range =
            |unit: Unit, (low, high): (f64, f64)| format!("{} to {}", signed(unit, low), signed(unit, high));
        let in_unit = self.ci95_low.zip(self.ci95_high).map(|ends| range(unit, ends));
        let in_share = self.share_ci95_low.zip(self.share_ci95_high).map(|ends| range(Unit::Share, ends));
        let runs = match self.method {
            Method::PairedT => format!(" ({} pairs)", self.count),
            Method::WelchT => format!(" (at least {} runs each)", self.count),
            Method::LogRatioT => format!(" ({} traces)", self.count),
            Method::None => String::new(),
        };
        [
            metric.title().to_owned(),
            self.best.join(" = "),
            show(self.value),
            self.next.clone().unwrap_or_default(),
            show(self.next_value),
            better,
            in_unit.or(in_share).unwrap_or_default(),
            format!("{}{runs}", self.certainty.words()),
        ]
    }
}

/// A value that may be negative.
fn signed(unit: Unit, value: f64) -> String {
    if value < 0.0 { format!("−{}", unit.show(-value)) } else { unit.show(value) }
}

/// The runs of one policy in one place, one for each seed.
struct Contender<'a> {
    policy: &'a str,
    runs: Vec<&'a Summary>,
}

/// Runs that can be set against each other.
struct Arena<'a> {
    /// Trace, preset and cluster.
    place: (&'a str, &'a str, &'a str),
    contenders: Vec<Contender<'a>>,
    /// Policies that do not compete.
    left_out: Vec<&'a str>,
}

/// Verdicts over all traces, where several have the same policies; then those for every place with at least two policies, metric
/// by metric.
pub fn verdicts(runs: &[Summary]) -> Vec<Verdict> {
    let arenas = arenas(runs);
    let mut grounds: BTreeMap<(&str, &str), Vec<&Arena<'_>>> = BTreeMap::new();
    for arena in &arenas {
        grounds.entry((arena.place.1, arena.place.2)).or_default().push(arena);
    }
    let mut found: Vec<Verdict> = Vec::new();
    for traces in grounds.values().filter(|traces| traces.len() > 1) {
        found.extend(Metric::ALL.iter().filter_map(|&metric| overall(traces, metric)));
    }
    for arena in arenas.iter().filter(|arena| arena.contenders.len() > 1) {
        found.extend(Metric::ALL.iter().filter_map(|&metric| arena.verdict(metric)));
    }
    found
}

/// Policies that [`verdicts`] passes over somewhere, because they left jobs undone that another has done.
pub fn left_out(runs: &[Summary]) -> Vec<String> {
    let names: BTreeSet<&str> = arenas(runs).iter().flat_map(|arena| arena.left_out.clone()).collect();
    names.into_iter().map(str::to_owned).collect()
}

fn arenas(runs: &[Summary]) -> Vec<Arena<'_>> {
    let mut groups: Vec<Vec<&Summary>> = Vec::new();
    for run in distinct(runs) {
        match groups.iter_mut().find(|group| group[0].place() == run.place()) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups.into_iter().filter_map(Arena::new).collect()
}

impl<'a> Arena<'a> {
    /// Who left jobs undone that another has done with the same seed does not compete.
    fn new(runs: Vec<&'a Summary>) -> Option<Self> {
        let place = runs.first()?.place();
        let most = |seed: u64| runs.iter().filter(|run| run.seed == seed).map(|run| run.finished).max();
        let mut contenders: Vec<Contender<'a>> = Vec::new();
        for run in &runs {
            match contenders.iter_mut().find(|contender| contender.policy == run.policy) {
                Some(contender) => contender.runs.push(run),
                None => contenders.push(Contender { policy: &run.policy, runs: vec![run] }),
            }
        }
        let (contenders, others): (Vec<_>, Vec<_>) = contenders
            .into_iter()
            .partition(|contender| contender.runs.iter().all(|run| Some(run.finished) == most(run.seed)));
        let left_out = others.iter().map(|contender| contender.policy).collect();
        Some(Self { place, contenders, left_out })
    }

    /// Contenders with their means, the best first; of equals the one that came first.
    fn ranked(&self, metric: Metric) -> Vec<(&Contender<'a>, f64)> {
        let value = |contender: &Contender<'_>| mean(&contender.values(metric));
        let mut ranked: Vec<(&Contender<'a>, f64)> =
            self.contenders.iter().filter_map(|contender| Some((contender, value(contender)?))).collect();
        let sign = if metric.higher_is_better() { -1.0 } else { 1.0 };
        ranked.sort_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)));
        ranked
    }

    fn verdict(&self, metric: Metric) -> Option<Verdict> {
        let ranked = self.ranked(metric);
        let &(first, value) = ranked.first().filter(|_| ranked.len() > 1)?;
        let (equals, others) = ranked.split_at(ranked.partition_point(|entry| entry.1 == value));
        let verdict = Verdict {
            metric: metric.name(),
            trace: self.place.0.to_owned(),
            preset: self.place.1.to_owned(),
            cluster: self.place.2.to_owned(),
            places: 1,
            best: equals.iter().map(|(contender, _)| contender.policy.to_owned()).collect(),
            value: Some(value),
            next: None,
            next_value: None,
            difference: None,
            ci95_low: None,
            ci95_high: None,
            share: None,
            share_ci95_low: None,
            share_ci95_high: None,
            method: Method::None,
            count: 0,
            certainty: Certainty::Tie,
        };
        let Some(&(next, next_value)) = others.first() else { return Some(verdict) };
        let Difference { estimate, method, count } = difference(metric, first, next);
        let share = (estimate.mean / next_value.abs()).is_finite().then(|| estimate.mean / next_value.abs());
        Some(Verdict {
            next: Some(next.policy.to_owned()),
            next_value: Some(next_value),
            difference: Some(estimate.mean),
            ci95_low: estimate.ci95_low,
            ci95_high: estimate.ci95_high,
            share,
            method,
            count,
            certainty: certainty(&estimate, first.is_fixed(metric) && next.is_fixed(metric)),
            ..verdict
        })
    }
}

impl Contender<'_> {
    fn values(&self, metric: Metric) -> Vec<f64> {
        self.runs.iter().filter_map(|run| metric.of(run)).collect()
    }

    /// Whether the seed changes nothing.
    fn is_fixed(&self, metric: Metric) -> bool {
        self.values(metric).windows(2).all(|pair| pair[0] == pair[1])
    }
}

struct Difference {
    estimate: Estimate,
    method: Method,
    count: u64,
}

/// By how much `best` is better than `next`: positive where it is.
fn difference(metric: Metric, best: &Contender<'_>, next: &Contender<'_>) -> Difference {
    let sign = if metric.higher_is_better() { -1.0 } else { 1.0 };
    let pair = |run: &&Summary| {
        let rival = next.runs.iter().find(|rival| rival.seed == run.seed)?;
        Some(sign * (metric.of(rival)? - metric.of(run)?))
    };
    let paired: Vec<f64> = best.runs.iter().filter_map(pair).collect();
    let (own, theirs) = (best.values(metric), next.values(metric));
    let is_whole = paired.len() == own.len() && paired.len() == theirs.len();
    if let Some(estimate) = Estimate::new(&paired).filter(|_| is_whole) {
        let method = if paired.len() > 1 { Method::PairedT } else { Method::None };
        return Difference { estimate, method, count: paired.len() as u64 };
    }
    let estimate = welch(&theirs, &own);
    let mean = sign * estimate.mean;
    let (low, high) = if sign > 0.0 {
        (estimate.ci95_low, estimate.ci95_high)
    } else {
        (estimate.ci95_high.map(|end| -end), estimate.ci95_low.map(|end| -end))
    };
    let method = if low.is_some() { Method::WelchT } else { Method::None };
    let count = own.len().min(theirs.len()) as u64;
    Difference { estimate: Estimate { mean, ci95_low: low, ci95_high: high, ..estimate }, method, count }
}

fn certainty(difference: &Estimate, is_fixed: bool) -> Certainty {
    match (difference.ci95_low, difference.ci95_high) {
        (Some(_), Some(_)) if is_fixed => Certainty::NothingRandom,
        (Some(low), Some(high)) if low > 0.0 || high < 0.0 => Certainty::Clear,
        (Some(_), Some(_)) => Certainty::Open,
        _ => Certainty::OneRun,
    }
}

/// The best over all traces of one preset and cluster, of the policies that compete everywhere. If one of them has zero
/// somewhere there is no ratio to it, and no verdict: the places tell who is best.
fn overall(arenas: &[&Arena<'_>], metric: Metric) -> Option<Verdict> {
    let means = |policy: &str| -> Option<Vec<f64>> {
        let of = |arena: &Arena<'_>| {
            let contender = arena.contenders.iter().find(|contender| contender.policy == policy)?;
            mean(&contender.values(metric))
        };
        arenas.iter().map(|arena| of(arena)).collect()
    };
    let sign = if metric.higher_is_better() { -1.0 } else { 1.0 };
    let mut ranked: Vec<(&str, Vec<f64>, f64)> = Vec::new();
    for contender in &arenas.first()?.contenders {
        if let Some(values) = means(contender.policy) {
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            ranked.push((contender.policy, values, sign * mean(&logs)?));
        }
    }
    ranked.sort_by(|a, b| a.2.total_cmp(&b.2));
    let [(best, own, own_mean), (next, theirs, next_mean), ..] = ranked.as_slice() else { return None };
    let ratios: Vec<f64> = own.iter().zip(theirs).map(|(own, theirs)| sign * (own / theirs).ln()).collect();
    let estimate = Estimate::new(&ratios)?;
    // The share by which the best is below the next (or above it, where more is better).
    let gained = |log: f64| sign * (1.0 - (sign * log).exp());
    let ends = estimate.ci95_low.zip(estimate.ci95_high).map(|(low, high)| (gained(high), gained(low)));
    let is_tie = own_mean == next_mean;
    Some(Verdict {
        metric: metric.name(),
        trace: String::new(),
        preset: arenas[0].place.1.to_owned(),
        cluster: arenas[0].place.2.to_owned(),
        places: arenas.len() as u64,
        best: if is_tie { vec![(*best).to_owned(), (*next).to_owned()] } else { vec![(*best).to_owned()] },
        value: None,
        next: (!is_tie).then(|| (*next).to_owned()),
        next_value: None,
        difference: None,
        ci95_low: None,
        ci95_high: None,
        share: Some(gained(estimate.mean)),
        share_ci95_low: ends.map(|ends| ends.0),
        share_ci95_high: ends.map(|ends| ends.1),
        method: if ends.is_some() { Method::LogRatioT } else { Method::None },
        count: ratios.len() as u64,
        certainty: if is_tie { Certainty::Tie } else { certainty(&estimate, false) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::metrics::RunLabels;

    fn run(policy: &str, trace: &str, seed: u64, avg_jct_s: f64) -> Summary {
        let labels = RunLabels { seed, trace: trace.to_owned(), ..fixture::labels(policy) };
        let summary = Summary::new(labels, &fixture::outcome(), 12.0);
        Summary { avg_jct_s: Some(avg_jct_s), jobs: 3, ..summary }
    }

    fn avg_jct(runs: &[Summary]) -> Vec<Verdict> {
        verdicts(runs).into_iter().filter(|verdict| verdict.metric == "avg_jct_s").collect()
    }

    #[test]
    fn pairs_find_what_the_spread_over_seeds_would_hide() {
        // Seeds differ by hundreds of seconds, the policies by ten within each of them.
        let runs: Vec<Summary> = (0..5_u64)
            .flat_map(|seed| {
                let base = 1000.0 + 200.0 * seed as f64;
                [run("a", "t", seed, base + 10.0 + seed as f64), run("b", "t", seed, base)]
            })
            .collect();
        let [verdict] = &avg_jct(&runs)[..] else { panic!() };
        assert_eq!((verdict.best.as_slice(), verdict.next.as_deref()), (&["b".to_owned()][..], Some("a")));
        assert_eq!(
            (verdict.method, verdict.count, verdict.certainty),
            (Method::PairedT, 5, Certainty::Clear)
        );
        // Differences 10 to 14: mean 12, sd √2.5, t(4) = 2.776.
        let half = 2.776 * 2.5_f64.sqrt() / 5_f64.sqrt();
        assert!((verdict.difference.unwrap() - 12.0).abs() < 1e-9);
        assert!((verdict.ci95_low.unwrap() - (12.0 - half)).abs() < 1e-9);
        assert!((verdict.share.unwrap() - 12.0 / 1412.0).abs() < 1e-12);
    }

    #[test]
    fn other_seeds_are_compared_without_pairs() {
        let runs =
            [run("a", "t", 1, 10.0), run("a", "t", 2, 12.0), run("b", "t", 3, 20.0), run("b", "t", 4, 26.0)];
        let [verdict] = &avg_jct(&runs)[..] else { panic!() };
        assert_eq!((verdict.method, verdict.difference, verdict.count), (Method::WelchT, Some(12.0), 2));
        assert!(verdict.ci95_low.unwrap() < 12.0 && verdict.certainty == Certainty::Open);
    }

    #[test]
    fn one_run_each_leaves_it_open_and_equal_runs_are_no_proof() {
        let one = [run("a", "t", 1, 10.0), run("b", "t", 1, 20.0)];
        let verdict = &avg_jct(&one)[0];
        assert_eq!(
            (verdict.certainty, verdict.ci95_low, verdict.share),
            (Certainty::OneRun, None, Some(0.5))
        );
        let same: Vec<Summary> =
            (0..4).flat_map(|seed| [run("a", "t", seed, 10.0), run("b", "t", seed, 20.0)]).collect();
        assert_eq!(avg_jct(&same)[0].certainty, Certainty::NothingRandom);
        let tie = [run("a", "t", 1, 10.0), run("b", "t", 1, 10.0)];
        assert_eq!((avg_jct(&tie)[0].certainty, avg_jct(&tie)[0].best.len()), (Certainty::Tie, 2));
    }

    #[test]
    fn seeds_that_change_nothing_are_distinguished_from_equal_differences() {
        // 13.4 − 10.0 five times over has a mean that rounding moves.
        let fixed: Vec<Summary> =
            (0..5).flat_map(|seed| [run("a", "t", seed, 10.0), run("b", "t", seed, 13.4)]).collect();
        assert_eq!(avg_jct(&fixed)[0].certainty, Certainty::NothingRandom);
        let moving: Vec<Summary> = [3.0, 5.0, 4.0]
            .into_iter()
            .zip(0..)
            .flat_map(|(jct, seed)| [run("a", "t", seed, jct), run("b", "t", seed, jct + 10.0)])
            .collect();
        assert_eq!(avg_jct(&moving)[0].certainty, Certainty::Clear);
    }

    #[test]
    fn a_run_that_is_given_twice_counts_once() {
        let once = [run("a", "t", 1, 10.0), run("b", "t", 1, 20.0)];
        let twice = [once.clone(), once.clone()].concat();
        assert_eq!(verdicts(&twice), verdicts(&once));
    }

    #[test]
    fn zero_has_no_ratio_and_hides_no_policy() {
        let stopped =
            |policy: &str, trace: &str, preemptions| Summary { preemptions, ..run(policy, trace, 1, 10.0) };
        let runs: Vec<Summary> = ["x", "y"]
            .into_iter()
            .flat_map(|trace| [("fifo", 0), ("srtf", 12), ("las", 30)].map(|(p, n)| stopped(p, trace, n)))
            .collect();
        let all = verdicts(&runs);
        let best = all.iter().filter(|verdict| verdict.metric == Metric::Preemptions.name());
        let best: Vec<(&str, &[String])> =
            best.map(|verdict| (verdict.trace.as_str(), verdict.best.as_slice())).collect();
        assert_eq!(best, [("x", &["fifo".to_owned()][..]), ("y", &["fifo".to_owned()][..])]);
    }

    #[test]
    fn clusters_are_no_traces() {
        let on = |cluster: &str, trace: &str| {
            [("a", 10.0), ("b", 20.0)]
                .map(|(policy, jct)| Summary { cluster: cluster.to_owned(), ..run(policy, trace, 1, jct) })
        };
        let one_trace = [on("1x4", "x"), on("2x4", "x")].concat();
        assert!(verdicts(&one_trace).iter().all(|verdict| verdict.places == 1));
        let runs = [on("1x4", "x"), on("2x4", "x"), on("1x4", "y"), on("2x4", "y")].concat();
        let over: Vec<(u64, String)> = avg_jct(&runs)
            .into_iter()
            .filter(|verdict| verdict.places > 1)
            .map(|verdict| (verdict.places, verdict.cluster))
            .collect();
        assert_eq!(over, [(2, "1x4".to_owned()), (2, "2x4".to_owned())]);
        assert!(table(&verdicts(&runs)).to_text().contains("all 2 traces · wharf · 2x4"));
    }

    #[test]
    fn policy_with_unfinished_jobs_cannot_win() {
        let lazy = Summary { finished: 2, ..run("lazy", "t", 1, 1.0) };
        let runs = [lazy, run("a", "t", 1, 10.0), run("b", "t", 1, 20.0)];
        assert_eq!(avg_jct(&runs)[0].best, ["a"]);
        assert_eq!(left_out(&runs), ["lazy"]);
    }

    #[test]
    fn over_traces_a_trace_is_the_unit() {
        // On each of three traces `b` takes 80 %, 50 % and 64 % of what `a` takes, whatever the seed.
        let runs: Vec<Summary> = [("x", 100.0, 0.8), ("y", 5000.0, 0.5), ("z", 9.0, 0.64)]
            .into_iter()
            .flat_map(|(trace, base, ratio)| {
                (0..5)
                    .flat_map(move |seed| [run("a", trace, seed, base), run("b", trace, seed, base * ratio)])
            })
            .collect();
        let all = avg_jct(&runs);
        let verdict = all.first().unwrap();
        assert_eq!((verdict.places, verdict.count, verdict.method), (3, 3, Method::LogRatioT));
        assert!((verdict.share.unwrap() - (1.0 - (0.8 * 0.5 * 0.64_f64).cbrt())).abs() < 1e-9);
        // ln 0.8, ln 0.5, ln 0.64 lie so far apart that three of them prove nothing with t(2) = 4.303.
        assert_eq!(verdict.certainty, Certainty::Open);
        assert!(verdict.share_ci95_low.unwrap() < 0.0 && verdict.share_ci95_high.unwrap() > 0.5);
    }

    #[test]
    fn more_is_better_where_it_is() {
        let used = |policy: &str, seed, share| Summary {
            gpu_utilization: Some(share),
            ..run(policy, "t", seed, 1.0)
        };
        let runs = [used("a", 1, 0.5), used("a", 2, 0.5), used("b", 1, 0.75), used("b", 2, 0.85)];
        let all = verdicts(&runs);
        let verdict = all.iter().find(|verdict| verdict.metric == "gpu_utilization").unwrap();
        assert_eq!(verdict.best, ["b"]);
        assert!((verdict.difference.unwrap() - 0.3).abs() < 1e-9, "{verdict:?}");
        assert!(verdict.ci95_low.unwrap() < verdict.ci95_high.unwrap());
    }
}
