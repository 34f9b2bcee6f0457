//! Who used what: figures over the journal, made beside the dispatcher.

mod books;

use std::collections::BTreeMap;

use wharf_proto::usage_request::By;
use wharf_proto::{Cause, CauseCount, UsageReply, UsageRequest, UsageRow};

pub(crate) use books::Books;
use books::{Ledger, Moment, Span, SpanKind};

use crate::journal::record::EndRecord;
use crate::journal::{JournalError, Reader};

/// What stands where nothing was said.
const UNNAMED: &str = "-";

/// Nothing is told.
pub(crate) struct NoLedger;

impl Ledger for NoLedger {
    fn span(&mut self, _: &Span<'_>) {}
    fn moment(&mut self, _: f64, _: Moment, _: &Span<'_>) {}
}

/// Sums of what happened in a window, by one property.
struct Figures {
    by: By,
    since_s: f64,
    until_s: f64,
    rows: BTreeMap<String, UsageRow>,
    total: UsageRow,
    /// Names of device types; those of nodes that are not known are missing.
    types: Vec<String>,
}

/// Makes the figures; `now_s` is the engine's present, `epoch_unix_s` when its time began.
///
/// # Errors
/// Where the journal cannot be read.
pub(crate) fn usage(
    reader: &Reader,
    request: &UsageRequest,
    now_s: f64,
    epoch_unix_s: f64,
) -> Result<UsageReply, JournalError> {
    let (mut books, known_from_s) = reader.books()?;
    let asked =
        |unix_s: Option<f64>| unix_s.filter(|time_s| time_s.is_finite()).map(|time_s| time_s - epoch_unix_s);
    let since_s = asked(request.since_s).unwrap_or(0.0).max(known_from_s.unwrap_or(0.0));
    // What happens right now is part of what happened until now.
    let until_s =
        asked(request.until_s).unwrap_or(now_s.next_up()).clamp(since_s, now_s.next_up().max(since_s));
    let mut figures = Figures {
        by: request.by(),
        since_s,
        until_s,
        rows: BTreeMap::new(),
        total: UsageRow { key: "total".to_owned(), ..UsageRow::default() },
        types: books.types.clone(),
    };
    reader.each(|time_s, record, account| {
        // What comes later changes nothing that was in the window, but for how runs within it ended.
        if figures.types.len() != books.types.len() {
            figures.types.clone_from(&books.types);
        }
        books.fold(time_s, record, account, &mut figures);
    })?;
    figures.types.clone_from(&books.types);
    books.finish(now_s, &mut figures);
    let mut rows: Vec<UsageRow> = figures.rows.into_values().collect();
    rows.sort_by(|left, right| right.allocated_h.total_cmp(&left.allocated_h));
    Ok(UsageReply {
        rows,
        total: Some(figures.total),
        since_s: since_s + epoch_unix_s,
        until_s: until_s + epoch_unix_s,
        known_from_s: known_from_s.map_or(0.0, |from_s| from_s + epoch_unix_s),
    })
}

impl Figures {
    /// What a row is called: of the job itself, or of some of its devices.
    fn key(&self, span: &Span<'_>, kind: Option<u32>) -> String {
        let named = |text: &str| if text.is_empty() { UNNAMED.to_owned() } else { text.to_owned() };
        match self.by {
            By::User => named(&span.who.user),
            By::Account => named(&span.who.account),
            By::Pool => named(&span.who.pool),
            By::Job => span.job.to_string(),
            By::Cause => named(span.cause),
            By::Type => {
                let kind = kind.or_else(|| span.devices.first().map(|&(kind, _)| kind));
                named(kind.and_then(|kind| self.types.get(kind as usize)).map_or("", String::as_str))
            }
        }
    }

    fn add(&mut self, key: String, change: impl Fn(&mut UsageRow)) {
        let row = self
            .rows
            .entry(key)
            .or_insert_with_key(|key| UsageRow { key: key.clone(), ..UsageRow::default() });
        change(row);
    }
}

impl Ledger for Figures {
    fn span(&mut self, span: &Span<'_>) {
        let seconds = span.to_s.min(self.until_s) - span.from_s.max(self.since_s);
        let hours = seconds * span.weight / 3600.0;
        if hours <= 0.0 {
            return;
        }
        if matches!(span.kind, SpanKind::Waiting | SpanKind::Held) {
            book(&mut self.total, span.kind, hours, false);
            if self.by != By::Cause {
                self.add(self.key(span, None), |row| book(row, span.kind, hours, false));
            }
            return;
        }
        for &(kind, count) in span.devices {
            let hours = hours * f64::from(count);
            if span.kind != SpanKind::Run {
                book(&mut self.total, span.kind, hours, false);
            }
            // Causes are known only when runs have ended, so that those are told a second time.
            let is_told = if self.by == By::Cause {
                matches!(span.kind, SpanKind::Run | SpanKind::Idle | SpanKind::Unwatched | SpanKind::Lost)
            } else {
                span.kind != SpanKind::Run
            };
            if is_told {
                self.add(self.key(span, Some(kind)), |row| book(row, span.kind, hours, true));
            }
        }
    }

    fn moment(&mut self, at_s: f64, moment: Moment, of: &Span<'_>) {
        if at_s < self.since_s || at_s >= self.until_s {
            return;
        }
        if self.by == By::Cause && moment == Moment::Submitted {
            return count(&mut self.total, moment, of.cause);
        }
        count(&mut self.total, moment, of.cause);
        self.add(self.key(of, None), |row| count(row, moment, of.cause));
    }
}

fn book(row: &mut UsageRow, kind: SpanKind, hours: f64, is_run_told: bool) {
    match kind {
        SpanKind::Waiting => row.waiting_h += hours,
        SpanKind::Held => row.held_h += hours,
        SpanKind::Starting => {
            row.starting_h += hours;
            row.allocated_h += hours;
        }
        SpanKind::Running => {
            row.running_h += hours;
            row.allocated_h += hours;
        }
        SpanKind::Stopping => {
            row.stopping_h += hours;
            row.allocated_h += hours;
        }
        SpanKind::Run if is_run_told => {
            row.running_h += hours;
            row.allocated_h += hours;
        }
        SpanKind::Run => {}
        SpanKind::Idle => row.idle_h += hours,
        SpanKind::Unwatched => row.unwatched_h += hours,
        SpanKind::Lost => row.lost_h += hours,
    }
}

fn count(row: &mut UsageRow, moment: Moment, cause: &str) {
    match moment {
        Moment::Submitted => row.submitted += 1,
        Moment::Ended(EndRecord::Finished) => row.finished += 1,
        Moment::Ended(EndRecord::Failed { .. } | EndRecord::Rejected) => row.failed += 1,
        Moment::Ended(EndRecord::Cancelled) => row.cancelled += 1,
        Moment::Ended(EndRecord::TimedOut) => row.timed_out += 1,
        Moment::Interrupted => {
            let cause: i32 = Cause::of_word(cause).unwrap_or(Cause::NoCause).into();
            match row.interrupted.iter_mut().find(|known| known.cause == cause) {
                Some(known) => known.count += 1,
                None => row.interrupted.push(CauseCount { cause, count: 1 }),
            }
        }
    }
}
