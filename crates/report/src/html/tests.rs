//! Pages of small, odd and hostile runs.

use proptest::prelude::*;
use wharf_core::{DeviceSet, JobId, NodeId, NodeShare, Time};
use wharf_outcome::{JobRecord, MetricRules, Sample, Tally};

use super::*;
use crate::fixture;

fn page(policies: &[&str]) -> Page {
    let (specs, outcome) = (fixture::specs(), fixture::outcome());
    let cluster = ClusterSpec::uniform("v100", 1, 4);
    let run = |policy: &&str| {
        let summary = Summary::new(fixture::labels(policy), &outcome, 1.0);
        PageRun::new(summary, &cluster, &specs, &outcome)
    };
    let commands = vec!["wharf sim --policy 'fifo' <trace.csv".to_owned()];
    Page { title: "A & B".to_owned(), commands, runs: policies.iter().map(run).collect(), tables: vec![] }
}

/// The page without the program's own script and style.
fn markup(html: &str) -> String {
    let mut rest = html;
    let mut kept = String::new();
    for (from, to) in [("<style>", "</style>"), ("</main>\n", "</body>")] {
        let (before, after) = rest.split_once(from).unwrap();
        kept += before;
        rest = after.split_once(to).unwrap().1;
    }
    kept + rest
}

/// The data of the page's script.
fn data(html: &str) -> serde_json::Value {
    let after = html.split_once("id=\"stays\">").unwrap().1;
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn page_escapes_everything() {
    const EVIL: &str = "</script><script>alert(1)</script>";
    let mut page = page(&["fifo", EVIL]);
    page.runs[0].digest.command = Some(format!("wharf sim --trace '{EVIL}'"));
    let whole = render(&page);
    assert_eq!(whole.matches("<script").count(), 2, "the data and the program's own");
    assert_eq!(whole.matches("</script").count(), 2);
    assert_eq!(data(&whole)[1]["name"], EVIL, "it is told as it is");
    assert_eq!(data(&whole)[0]["stays"]["jobs"][1][0], "beta <b>");
    let html = markup(&whole);
    assert!(!html.contains("<script") && !html.contains("beta <b>"));
    assert!(html.contains("<title>A &amp; B</title>"));
    assert!(html.contains("wharf sim --policy &#39;fifo&#39; &lt;trace.csv"));
    assert!(
        html.contains("<td>&lt;/script&gt;&lt;script&gt;alert(1)")
            || html.contains(">&lt;/script&gt;&lt;script&gt;alert(1)")
    );
}

#[test]
fn page_fetches_nothing_and_is_reproducible() {
    let html = render(&page(&["fifo", "srtf"]));
    let names =
        html.replace("http://www.w3.org/2000/svg", "").replace("href=\"#", "").replace("href=\"data:,", "");
    for fetch in ["http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!names.contains(fetch), "{fetch}");
    }
    assert_eq!(html, render(&page(&["fifo", "srtf"])));
}

#[test]
fn breakdowns_compare_runs_of_the_same_trace_that_did_everything() {
    let mut page = page(&["fifo", "srtf", "fifo", "srtf"]);
    for (index, run) in page.runs.iter_mut().enumerate() {
        run.summary.trace = if index < 2 { "long" } else { "short" }.to_owned();
        // Ann's jobs take 40 s on the long trace and 4 s on the short one; srtf has left one of the short ones undone.
        let ann = &mut run.digest.breakdown.by_user[0];
        (ann.avg_jct_s, ann.finished) = (Some(if index < 2 { 40.0 } else { 4.0 } + (index % 2) as f64), 2);
        ann.finished -= u64::from(index == 3);
        ann.avg_jct_s = if index == 3 { Some(1.0) } else { ann.avg_jct_s };
    }
    let html = render(&page);
    let part = html.split_once("id=\"breakdown\"").unwrap().1.split_once("</section>").unwrap().0;
    assert!(part.contains("long") && part.contains("short"), "each trace has tables of its own");
    let ann: Vec<&str> = part.lines().filter(|line| line.contains(">ann<")).collect();
    assert_eq!(ann.len(), 2);
    assert!(
        ann[0].contains("★ <data value=\"40\">") && !ann[0].contains("★ <data value=\"41\">"),
        "{}",
        ann[0]
    );
    assert!(!ann[1].contains('★'), "no user is left to compare with: {}", ann[1]);
}

#[test]
fn page_marks_winners_with_star_and_weight() {
    let mut page = page(&["fifo", "srtf"]);
    page.runs[1].summary.avg_jct_s = Some(20.0);
    assert!(
        render(&page)
            .contains("<td class=\"n\"><strong class=\"best\">★ <data value=\"20\">20s</data></strong></td>")
    );
}

#[test]
fn pages_of_nothing_have_no_nan() {
    let empty = fixture::empty_outcome();
    let summary = Summary::new(fixture::labels("fifo"), &empty, 0.0);
    let run = PageRun::new(summary, &ClusterSpec::default(), &[], &empty);
    for runs in [vec![], vec![run.clone()], vec![run.clone(), run]] {
        let html = render(&Page { title: String::new(), commands: vec![], runs, tables: vec![] });
        let html = markup(&html);
        assert!(!html.contains("NaN") && !html.contains(">inf"));
    }
}

#[test]
fn policy_allows_exactly_the_script_and_the_style_of_the_page() {
    let html = render(&page(&["fifo"]));
    let between =
        |from: &str, to: &str| html.split_once(from).unwrap().1.split_once(to).unwrap().0.to_owned();
    let policy =
        wharf_web::security_policy(&between("<script>", "</script>"), &between("<style>", "</style>"));
    assert!(html.contains(&format!("content=\"{policy}\"")));
    assert!(
        !markup(&html).contains(" style=")
            && ![" onload=", " onclick=", " onerror="]
                .iter()
                .any(|attribute| markup(&html).contains(attribute)),
        "nothing inline would be allowed"
    );
}

#[test]
fn many_runs_are_shown_by_place_and_stay_small() {
    let (specs, outcome) = (fixture::specs(), fixture::outcome());
    let cluster = ClusterSpec::uniform("v100", 1, 4);
    let mut runs = Vec::new();
    for trace in ["philly", "helios", "pai"] {
        for policy in 0..10 {
            for seed in 0..5 {
                let labels = crate::RunLabels {
                    trace: trace.to_owned(),
                    seed,
                    ..fixture::labels(&format!("p{policy}"))
                };
                let summary = Summary {
                    avg_jct_s: Some(40.0 + f64::from(policy) + seed as f64),
                    ..Summary::new(labels, &outcome, 1.0)
                };
                runs.push(
                    PageRun::new(summary, &cluster, &specs, &outcome)
                        .with_command(format!("wharf sim --policy p{policy}")),
                );
            }
        }
    }
    let html = render(&Page { title: "all".to_owned(), commands: vec![], runs, tables: vec![] });
    assert!(html.len() < 1_000_000, "{}", html.len());
    assert_eq!(data(&html).as_array().unwrap().len(), 30, "the first seed of each");
    for trace in ["philly", "helios", "pai"] {
        assert_eq!(
            html.matches(&format!("<h3>{trace}</h3>")).count(),
            3,
            "bars, curves and breakdown of {trace}"
        );
    }
    assert!(html.contains("all 3 traces") && html.contains("150 runs, as their summary.json has them"));
}

/// Times as odd as they can be, in any order.
fn odd_time() -> impl Strategy<Value = Time> {
    prop_oneof![Just(0.0), Just(-5.0), 0.0..1e6, Just(f64::MAX), Just(1e-300)].prop_map(Time::from_seconds)
}

fn odd_record() -> impl Strategy<Value = JobRecord> {
    let times = (odd_time(), prop::option::of(odd_time()), prop::option::of(odd_time()));
    (times, 0..200_u32, 0.0..1e9).prop_map(|((submit, first_start, end), devices, run_s)| {
        let job = JobId(devices);
        JobRecord {
            job,
            devices,
            submit,
            first_start,
            end,
            queue_s: run_s,
            run_s,
            preemptions: devices,
            failures: 0,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn odd_runs_have_no_nan_and_no_panic(
        records in prop::collection::vec(odd_record(), 0..12),
        samples in prop::collection::vec((odd_time(), 0..9_u32), 0..9),
        spans in prop::collection::vec((odd_time(), odd_time(), any::<u128>(), 0..9_u32), 0..9),
        device_count in 0..9_u32,
        muri in any::<bool>(),
    ) {
        let sample = |&(time, waiting): &(Time, u32)| Sample { time, busy_devices: waiting, running: 1, waiting };
        let span = |&(start, end, devices, index): &(Time, Time, u128, u32)| wharf_outcome::Span {
            job: JobId(index),
            share: NodeShare::new(NodeId(index), DeviceSet(devices)),
            start,
            end,
        };
        let outcome = Outcome {
            jobs: records,
            timeline: samples.iter().map(sample).collect(),
            spans: spans.iter().map(span).collect(),
            event_count: 0,
            busy_device_s: 1.0,
            device_count,
            rules: if muri { MetricRules::Muri } else { MetricRules::Wharf },
            tally: Tally::default(),
            measure: None,
            packing: None,
        };
        let summary = Summary::new(fixture::labels("odd"), &outcome, 0.0);
        let json = Report::new(vec![summary.clone()]).to_json().unwrap();
        let run = PageRun::new(summary, &ClusterSpec::default(), &fixture::specs(), &outcome);
        let runs = vec![run.clone(), run];
        let html = render(&Page { title: String::new(), commands: vec![], runs, tables: vec![] });
        for text in [json, markup(&html)] {
            prop_assert!(!text.contains("NaN") && !text.contains("inf\"") && !text.contains(">inf"));
        }
    }
}
