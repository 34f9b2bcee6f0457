//! A page for the browser: everything about some runs in one file that fetches nothing.
//!
//! All tables and curves are in the page as they are; a script adds what moves (who held which device when, at any scale;
//! sorting; light and dark). It is the program's own, the page's policy allows nothing else, and user input, such
//! as names of jobs, is text: escaped in markup, and within the data without any character that markup knows.

mod charts;
mod parts;
mod series;
mod sweep;
mod tables;

use wharf_core::{ClusterSpec, JobSpec};
use wharf_outcome::Outcome;

use crate::digest::Digest;
use crate::metrics::{Report, Summary};
use crate::svg::{STYLE, escape};
use crate::table::Table;
use parts::{card, code, data_block, details, html_table, note};
use series::{Series, groups, places};
pub use sweep::sweep_page;

/// Bytes that rectangles of all runs together may take.
const STAYS_BYTES: usize = 2_500_000;

/// Of each of many runs so many are kept, because only the first of several seeds is shown.
const STAYS_LEAST_BYTES: usize = 100_000;

/// What a page is made of.
#[derive(Clone, Debug)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// The command lines that made the page, exactly as typed.
    pub commands: Vec<String>,
    /// The runs, in the order they are to be listed.
    pub runs: Vec<PageRun>,
    /// More to show, each under a heading of its own.
    pub tables: Vec<(String, Table)>,
}

/// One run on a page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRun {
    /// Its labels and metrics.
    pub summary: Summary,
    /// What else is shown of it.
    pub digest: Digest,
}

impl PageRun {
    /// Gathers what a page shows of an outcome.
    pub fn new(summary: Summary, cluster: &ClusterSpec, specs: &[JobSpec], outcome: &Outcome) -> Self {
        Self { summary, digest: Digest::new(cluster, specs, outcome) }
    }

    /// The same with the command line that makes the run again.
    #[must_use]
    pub fn with_command(mut self, command: String) -> Self {
        self.digest.command = Some(command);
        self
    }
}

impl PageRun {
    /// The same with no more of who held which devices than one of so many runs can be shown of: for reading many of them.
    #[must_use]
    pub fn within(mut self, runs: usize) -> Self {
        let share = (STAYS_BYTES / runs.max(1)).max(STAYS_LEAST_BYTES);
        self.digest.stays = self.digest.stays.and_then(|stays| stays.within(share));
        self
    }
}

/// Renders the page.
pub fn render(page: &Page) -> String {
    let report = Report::new(page.runs.iter().map(|run| run.summary.clone()).collect());
    let groups = groups(&page.runs);
    let all: Vec<&Series<'_>> = groups.iter().flat_map(|group| &group.series).collect();
    let mut sections = vec![(String::new(), String::new(), tables::tiles(&report))];
    let mut add = |id: &str, title: &str, body: String| {
        if !body.is_empty() {
            sections.push((id.to_owned(), title.to_owned(), card(id, title, &body)));
        }
    };
    add("winners", "Best policies", tables::winners(&report));
    add("summary", "Summary", tables::summary(&report));
    for (index, (heading, table)) in page.tables.iter().enumerate() {
        add(&format!("table-{index}"), heading, html_table(table));
    }
    add("bars", "Side by side", charts::bars(&report, &groups));
    add("curves", "Completion times and load", charts::curves(&groups));
    add("fairness", "Fairness and preemptions", tables::fairness(&all));
    add("breakdown", "By size, user and model", tables::breakdowns(&places(&page.runs)));
    let (stays, timeline) = timelines(&all);
    add("gantt", "Jobs on devices", timeline);
    add("every", "Every run, every figure", tables::every_run(&report));
    add("again", "Do it again", again(page));
    whole(&page.title, &report, &sections, &stays)
}

/// Head, bar and body.
fn whole(title: &str, report: &Report, sections: &[(String, String, String)], stays: &str) -> String {
    let title = escape(title);
    let [base, app, own] = wharf_web::REPORT_STYLE;
    let style = [base, app, STYLE, own].concat();
    let script = wharf_web::report_script();
    let policy = wharf_web::security_policy(&script, &style);
    let links = sections.iter().filter(|(id, ..)| !id.is_empty() && !id.starts_with("table-"));
    let links: String = links.map(|(id, ..)| format!("<a href=\"#{id}\">{}</a>", short_name(id))).collect();
    let body: String = sections.iter().map(|(.., html)| html.as_str()).collect();
    let caption = escape(&report.caption());
    let logo = wharf_web::LOGO.trim();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{style}</style>\n</head>\n<body>\n\
         <header class=\"top\"><div class=\"inner report\"><a class=\"brand\" href=\"#top\">{logo}<span class=\"word\">Wharf</span></a>\
         <nav aria-label=\"parts\">{links}</nav><div class=\"side\"></div></div></header>\n\
         <main class=\"report\" id=\"top\">\n<div><h1>{title}</h1>\n<p class=\"note\">{caption}</p></div>\n{body}</main>\n\
         <script type=\"application/json\" id=\"stays\">{stays}</script>\n<script>{script}</script>\n</body>\n</html>\n"
    )
}

/// What a part is called in the bar.
fn short_name(id: &str) -> &str {
    match id {
        "winners" => "Best",
        "summary" => "Summary",
        "bars" => "Side by side",
        "curves" => "Curves",
        "fairness" => "Fairness",
        "breakdown" => "By size",
        "gantt" => "Devices",
        "every" => "Every run",
        _ => "Do it again",
    }
}

/// The data of all charts of devices over time, and where they are shown.
fn timelines(all: &[&Series<'_>]) -> (String, String) {
    let known = || all.iter().filter_map(|series| Some((series, series.runs[0].digest.stays.as_ref()?)));
    let share = STAYS_BYTES / known().count().max(1);
    let shown: Vec<serde_json::Value> = known()
        .filter_map(|(series, stays)| {
            Some(serde_json::json!({ "name": series.first_name(), "stays": stays.within(share)? }))
        })
        .collect();
    let left_out = known().count() - shown.len();
    if known().count() == 0 {
        return ("[]".to_owned(), String::new());
    }
    if shown.is_empty() {
        return (
            "[]".to_owned(),
            note("The runs are too large for one page; a report of each of them shows it."),
        );
    }
    let mut body = String::from(
        "<div id=\"timeline\"><p class=\"note\">This part needs JavaScript; <code>gantt.svg</code> in a run’s folder does \
         not.</p></div>\n<p class=\"note\">Drag to move; double-click, pinch, or the wheel with Ctrl (or after a click) to \
         zoom; with the keyboard <kbd>←</kbd> <kbd>→</kbd> <kbd>↑</kbd> <kbd>↓</kbd> move, <kbd>+</kbd> <kbd>-</kbd> zoom \
         time, <kbd>[</kbd> <kbd>]</kbd> rows, <kbd>n</kbd> <kbd>p</kbd> walk through jobs, <kbd>0</kbd> shows \
         everything.</p>\n",
    );
    if all.iter().any(|series| series.runs.len() > 1) {
        body += "<p class=\"note\">Of several seeds the first is shown.</p>\n";
    }
    if left_out > 0 {
        body += &format!(
            "<p class=\"note\">{left_out} more are too large for one page; a report of their own shows them.</p>\n"
        );
    }
    (data_block(&serde_json::Value::Array(shown)), body)
}

/// The command lines that make the runs again; those of several runs once.
fn again(page: &Page) -> String {
    let summaries: Vec<&Summary> = page.runs.iter().map(|run| &run.summary).collect();
    let mut known: Vec<(&str, Vec<String>)> = Vec::new();
    for (name, run) in crate::metrics::run_names(&summaries).into_iter().zip(&page.runs) {
        let Some(command) = run.digest.command.as_deref() else { continue };
        match known.iter_mut().find(|(other, _)| *other == command) {
            Some((_, names)) => names.push(name),
            None => known.push((command, vec![name])),
        }
    }
    let mut body = String::new();
    if !page.commands.is_empty() {
        body += &(note("This page was made by") + &code(&page.commands.join("\n")));
    }
    if !known.is_empty() {
        let line = |(command, names): &(&str, Vec<String>)| match names.as_slice() {
            [name] => format!("# {name}\n{command}"),
            names => format!("# {} runs\n{command}", names.len()),
        };
        let lines: Vec<String> = known.iter().map(line).collect();
        body += &details("Each run by itself", known.len() <= 6, &code(&lines.join("\n")));
    }
    let mut versions: Vec<&str> = page.runs.iter().map(|run| run.digest.wharf.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mixed = if versions.len() > 1 { " Differences may come from that." } else { "" };
    if !versions.is_empty() {
        body += &note(&format!("Made with Wharf {}.{mixed}", versions.join(" and ")));
    }
    body
}

#[cfg(test)]
mod tests;
