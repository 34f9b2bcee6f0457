//! Traces in: one pass over the rows that the reader and the linter share.

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_core::{JobSpec, Time};

use crate::Trace;
use crate::csv::{CsvRows, Step};
use crate::error::TraceError;
use crate::finding::{Finding, Findings, Keep, Note, Rule};
use crate::folder;
use crate::format::{Codec, Format, Shared, Steps, Syntax, log};
use crate::json::JsonElements;
use crate::jsonl::JsonRows;
use crate::placed::PlacedRows;
use crate::row::{Row, RowCheck, Schema};
use crate::source::{self, Lines, Source, SourceError};
use crate::text::shown;

/// How a trace is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions {
    /// The format; told from the content where it is `None`.
    pub format: Option<Format>,
    /// Skip rows that are invalid, and count them, instead of failing at the first.
    pub skip_invalid: bool,
    /// Leave out jobs of logs that failed, were killed or cancelled.
    pub only_completed: bool,
}

impl From<Option<Format>> for ReadOptions {
    fn from(format: Option<Format>) -> Self {
        Self { format, ..Self::default() }
    }
}

/// Reads a trace file, gzip-compressed or plain; `format` is detected from the content where it is `None`.
///
/// Jobs come sorted by submission; ties keep the file's order. A folder is read where it holds a public log, as its
/// owners publish it. Rows that were left out and jobs that were changed are reported by [`read_noted`] only.
pub fn read_trace(path: &Path, format: Option<Format>) -> Result<Trace, TraceError> {
    Ok(read_noted(path, format)?.trace)
}

/// A trace, and what its reader did to it.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotedTrace {
    /// The trace.
    pub trace: Trace,
    /// The format that it was read in.
    pub format: Format,
    /// Rows that were left out and jobs that were changed: one warning a reason, with their number.
    pub notes: Vec<Finding>,
}

/// As [`read_trace`], with a report of the rows that were left out and the jobs that were changed.
pub fn read_noted(path: &Path, options: impl Into<ReadOptions>) -> Result<NotedTrace, TraceError> {
    let options = options.into();
    let input = Input::open(path, options.format)?;
    read_input(Input { only_completed: options.only_completed, ..input }, options)
}

/// Reads a trace from text. `name` becomes the trace's name and stands for the file in messages.
pub fn parse_trace(text: &str, name: &str, format: Option<Format>) -> Result<Trace, TraceError> {
    parse_trace_reader(Cursor::new(text.to_owned()), name, format)
}

/// Reads a trace from any reader, such as standard input.
pub fn parse_trace_reader(
    reader: impl Read + 'static,
    name: &str,
    format: Option<Format>,
) -> Result<Trace, TraceError> {
    Ok(parse_noted(reader, name, format)?.trace)
}

/// As [`parse_trace_reader`], with a report of the rows that were left out and the jobs that were changed.
pub fn parse_noted(
    reader: impl Read + 'static,
    name: &str,
    options: impl Into<ReadOptions>,
) -> Result<NotedTrace, TraceError> {
    let options = options.into();
    let input = Input::from_reader(reader, name, options.format)?;
    read_input(Input { only_completed: options.only_completed, ..input }, options)
}

fn read_input(input: Input, options: ReadOptions) -> Result<NotedTrace, TraceError> {
    let keep = if options.skip_invalid { Keep::ValidRows } else { Keep::FirstError };
    let mut findings = Findings::new(&input.source.file, keep);
    let format = input.format;
    let read = read_jobs(input, &mut findings, |_, _| ())?;
    let notes = findings.into_notes().map_err(|finding| TraceError::Invalid(Box::new(finding)))?;
    Ok(NotedTrace { trace: read.trace, format, notes })
}

/// Text with the format that it is read in.
pub(crate) struct Input {
    pub(crate) source: Source,
    pub(crate) format: Format,
    /// The trace's name.
    name: String,
    /// A second table with users and submissions.
    job_table: Option<PathBuf>,
    only_completed: bool,
}

impl Input {
    /// A file, or the log in a folder.
    pub(crate) fn open(path: &Path, format: Option<Format>) -> Result<Self, TraceError> {
        let (main, format) = match folder::find_log(path, format) {
            Some((main, format)) => (main, Some(format)),
            None => (path.to_owned(), format),
        };
        let source = source::open(&main)?;
        let format = choose(&source, format, Some(&main))?;
        let job_table = format.codec().log.and_then(|log| folder::find_beside(&main, log.job_table?.file));
        Ok(Self { source, format, name: trace_name(path), job_table, only_completed: false })
    }

    /// Any reader; `name` stands for the file.
    pub(crate) fn from_reader(
        reader: impl Read + 'static,
        name: &str,
        format: Option<Format>,
    ) -> Result<Self, TraceError> {
        let source = source::from_reader(Box::new(reader), name)?;
        let format = choose(&source, format, None)?;
        let name = trace_name(Path::new(name));
        Ok(Self { source, format, name, job_table: None, only_completed: false })
    }
}

/// A trace, and the line of each job.
#[derive(Debug, Default)]
pub(crate) struct Located {
    pub(crate) trace: Trace,
    pub(crate) lines: Vec<u64>,
}

/// Reads jobs, with the rows of one job put together, in the order of submission, on a clock that begins with the first
/// submission where the file is a log. `check` sees every row that is a job, or a part of one.
pub(crate) fn read_jobs(
    input: Input,
    findings: &mut Findings,
    mut check: impl FnMut(&JobSpec, &mut RowCheck<'_>),
) -> Result<Located, TraceError> {
    let Input { source, format, name, job_table, only_completed } = input;
    let mut read = Located { trace: Trace { name, jobs: Vec::new() }, lines: Vec::new() };
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    let steps = scan(source, format, only_completed, findings, |job, row| {
        check(&job, row);
        if let Some(merge) = format.codec().merge {
            let place = *places.entry(job.name.clone()).or_insert(read.lines.len());
            if let Some(known) = read.trace.jobs.get_mut(place) {
                merge(known, &job);
                return;
            }
        }
        read.lines.push(row.row.line);
        read.trace.jobs.push(job);
    })?;
    for (line, job) in steps.not_completed() {
        let (rule, reason) = match only_completed {
            true => (Rule::DroppedRows, log::NOT_COMPLETED),
            false => (Rule::AdaptedJobs, log::ENDED_BADLY),
        };
        findings.tally(rule, reason, line, job, None);
    }
    if only_completed {
        let left_out: HashSet<&str> = steps.not_completed().into_iter().map(|(_, job)| job).collect();
        read.retain(|job| !left_out.contains(&*job.name));
        if read.lines.is_empty() && findings.is_clean() {
            findings.push(1, None, no_jobs(format));
        }
    }
    if let (false, Some(table)) = (findings.is_full(), format.codec().log.and_then(|log| log.job_table)) {
        (table.add)(&mut read.trace.jobs, job_table.as_deref(), findings)?;
    }
    read.sort();
    if let (true, Some(first)) = (format.codec().log.is_some(), read.trace.jobs.first().map(|job| job.submit))
    {
        for job in &mut read.trace.jobs {
            job.submit = Time::from_seconds(job.submit.since(first));
        }
    }
    Ok(read)
}

impl Located {
    /// Keeps some of the jobs.
    fn retain(&mut self, is_kept: impl Fn(&JobSpec) -> bool) {
        let mut kept = self.trace.jobs.iter().map(&is_kept).collect::<Vec<bool>>().into_iter();
        self.lines.retain(|_| kept.next().unwrap_or(false));
        self.trace.jobs.retain(is_kept);
    }

    /// Puts jobs in the order of submission; ties keep the file's order.
    fn sort(&mut self) {
        let jobs = &mut self.trace.jobs;
        if jobs.is_sorted_by_key(|job| job.submit) {
            return;
        }
        for (row, job) in (0..).zip(jobs.iter_mut()) {
            job.row = row;
        }
        let mut both: Vec<(JobSpec, u64)> = jobs.drain(..).zip(self.lines.drain(..)).collect();
        both.sort_by_key(|(job, _)| job.submit);
        (*jobs, self.lines) = both.into_iter().unzip();
    }
}

/// The file's name without folders, `.gz` and the ending.
fn trace_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => name.to_owned(),
    }
}

/// The format asked for, or else the one that the text looks like.
fn choose(source: &Source, format: Option<Format>, path: Option<&Path>) -> Result<Format, TraceError> {
    let format = format.or_else(|| Format::detect(&source.head, path));
    format.ok_or_else(|| TraceError::UnknownFormat {
        file: source.file.clone(),
        first_line: source.first_line(),
    })
}

/// Decodes every row and hands over each good job with access to its row, so that more can be checked.
///
/// Ends early where the findings want no more.
fn scan(
    source: Source,
    format: Format,
    only_completed: bool,
    findings: &mut Findings,
    mut each: impl FnMut(JobSpec, &mut RowCheck<'_>),
) -> Result<Steps, TraceError> {
    let codec = format.codec();
    let file = source.file.clone();
    let failed = |line, source| SourceError::Read { file: file.clone(), line, source };
    let mut rows = Rows::new(source.into_lines(), codec.syntax, codec.schema, findings)
        .map_err(|error| failed(0, error))?;
    findings.set_in_rows(true);
    let mut row = Row::default();
    let mut ids = SeenIds::default();
    let mut shared = Shared::new(only_completed);
    let mut is_empty = true;
    let mut job_count = 0u64;
    while !findings.is_full() {
        match rows.read(&mut row, findings).map_err(|error| failed(rows.line(), error))? {
            Step::End => break,
            Step::Bad => is_empty = false,
            Step::Row => {
                is_empty = false;
                let mut check = RowCheck::new(&row, codec.schema, findings);
                let job = (codec.decode)(&mut check, &mut shared);
                if check.is_dropped && !check.is_bad {
                    continue;
                }
                if format.names_each_row() {
                    check_id(&mut check, codec, &mut ids);
                }
                if let Some(job) = job
                    && !check.is_bad
                {
                    job_count += 1;
                    each(job, &mut check);
                }
            }
        }
    }
    for (line, note) in shared.steps.orphans() {
        findings.push(line, Some(codec.schema.columns[codec.roles.id].name), note);
    }
    findings.set_in_rows(false);
    if is_empty && findings.is_clean() {
        let note = Note::error(Rule::NoRows, "the file has no jobs").hint("a trace has one line a job");
        findings.push(rows.line().max(1), None, note);
    } else if job_count == 0 && findings.is_clean() {
        findings.push(rows.line().max(1), None, no_jobs(format));
    }
    Ok(shared.steps)
}

fn no_jobs(format: Format) -> Note {
    Note::error(Rule::NoRows, "no row of the file is a job: all were dropped").hint(format.hint_of_no_jobs())
}

fn check_id(check: &mut RowCheck<'_>, codec: &Codec, ids: &mut SeenIds) {
    let Some(id) = check.raw(codec.roles.id) else { return };
    if let Some(line) = ids.insert(id, check.row.line) {
        let message = format!("job {} is duplicated, first on line {line}", shown(id));
        check.error(
            codec.roles.id,
            Note::error(Rule::DuplicateId, message).hint("give each job its own name"),
        );
    }
}

/// Rows of any syntax.
pub(crate) enum Rows {
    Csv(CsvRows),
    JsonLines(JsonRows),
    JsonDocument(JsonElements),
    Placed(PlacedRows),
}

impl Rows {
    pub(crate) fn new(
        lines: Lines,
        syntax: Syntax,
        schema: &'static Schema,
        findings: &mut Findings,
    ) -> io::Result<Self> {
        Ok(match syntax {
            Syntax::Csv(separator) => Self::Csv(CsvRows::new(lines, separator, schema, findings)?),
            Syntax::CsvWithoutHeader => Self::Csv(CsvRows::without_header(lines, schema, findings)?),
            Syntax::JsonLines => Self::JsonLines(JsonRows::new(lines, schema)),
            Syntax::JsonDocument => Self::JsonDocument(JsonElements::new(lines.into_reader(), schema)),
            Syntax::Placed(placed) => Self::Placed(PlacedRows::new(lines, schema, placed)),
        })
    }

    pub(crate) fn line(&self) -> u64 {
        match self {
            Self::Csv(rows) => rows.line(),
            Self::JsonLines(rows) => rows.line(),
            Self::JsonDocument(rows) => rows.line(),
            Self::Placed(rows) => rows.line(),
        }
    }

    pub(crate) fn read(&mut self, row: &mut Row, findings: &mut Findings) -> io::Result<Step> {
        match self {
            Self::Csv(rows) => rows.read(row, findings),
            Self::JsonLines(rows) => rows.read(row, findings),
            Self::JsonDocument(rows) => rows.read(row, findings),
            Self::Placed(rows) => rows.read(row, findings),
        }
    }
}

/// Names seen so far and their lines, in far less memory than a map of strings.
///
/// Most files number their jobs, so no map is made as long as names are ascending numbers.
#[derive(Debug, Default)]
struct SeenIds {
    /// All names, one after the other.
    text: String,
    /// Each name's end in `text`, and its line.
    ends: Vec<(usize, u64)>,
    /// The largest number so far, while names are ascending numbers.
    last_number: Option<u64>,
    /// Once they are not: from a name's hash, or where another name has that from the next free number, to its place.
    places: Option<HashMap<u64, u32>>,
    hasher: RandomState,
}

impl SeenIds {
    /// Remembers a name; returns the line of the same name seen before.
    fn insert(&mut self, id: &str, line: u64) -> Option<u64> {
        let mut places = match self.places.take() {
            Some(places) => places,
            None if self.is_next_number(id) => {
                self.push(id, line);
                return None;
            }
            None => (0..self.ends.len())
                .map(|place| (self.hasher.hash_one(self.id(place)), place as u32))
                .collect(),
        };
        let seen = self.find_or_insert(&mut places, id);
        self.places = Some(places);
        if seen.is_none() {
            self.push(id, line);
        }
        seen
    }

    fn find_or_insert(&self, places: &mut HashMap<u64, u32>, id: &str) -> Option<u64> {
        let mut key = self.hasher.hash_one(id);
        loop {
            match places.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(self.ends.len() as u32);
                    return None;
                }
                Entry::Occupied(entry) if self.id(*entry.get() as usize) == id => {
                    return Some(self.ends[*entry.get() as usize].1);
                }
                Entry::Occupied(_) => key = key.wrapping_add(1),
            }
        }
    }

    fn id(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before].0);
        &self.text[start..self.ends[place].0]
    }

    fn push(&mut self, id: &str, line: u64) {
        self.text.push_str(id);
        self.ends.push((self.text.len(), line));
    }

    /// Whether a name is a number above all before, written the only way that counts as the same.
    fn is_next_number(&mut self, id: &str) -> bool {
        let is_plain = id.bytes().all(|byte| byte.is_ascii_digit()) && (id == "0" || !id.starts_with('0'));
        let Some(number) = id.parse::<u64>().ok().filter(|_| is_plain) else { return false };
        let is_next = self.last_number.is_none_or(|last| number > last);
        self.last_number = Some(number);
        is_next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seen_ids_finds_what_was_there() {
        let mut ids = SeenIds::default();
        let lines: Vec<_> = ["3", "5", "05", "4", "5", "3", "x", "05", "6", "x", "4"]
            .iter()
            .zip(1..)
            .map(|(id, line)| ids.insert(id, line))
            .collect();
        let none = None;
        assert_eq!(lines, [none, none, none, none, Some(2), Some(1), none, Some(3), none, Some(7), Some(4)]);
    }

    #[test]
    fn trace_name_is_the_stem() {
        for (path, name) in
            [("a/b/t1.csv", "t1"), ("t1.csv.gz", "t1"), ("t.v2.jsonl", "t.v2"), (".csv", ".csv"), ("t", "t")]
        {
            assert_eq!(trace_name(Path::new(path)), name);
        }
    }
}
