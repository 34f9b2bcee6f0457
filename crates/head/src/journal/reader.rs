//! The journal for those who only read: a connection of its own, which never holds up the one that writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use wharf_proto::JobSpec as WireSpec;
use wharf_proto::prost::Message as _;

use super::{JournalError, schema};
use crate::journal::record::Record;
use crate::query::usage::{Books, NoLedger};

/// How long a reader waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads events as they were when it was opened.
pub(crate) struct Reader {
    connection: Connection,
    path: PathBuf,
}

impl Reader {
    /// Opens the journal of a head that serves.
    pub(crate) fn open(path: &Path) -> Result<Self, JournalError> {
        let database = |source| JournalError::Database { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(database)?;
        connection.busy_timeout(PATIENCE).map_err(database)?;
        // All that is read is of one moment, whatever is written or dropped meanwhile.
        connection.execute_batch("BEGIN").map_err(database)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    fn error(&self) -> impl FnOnce(rusqlite::Error) -> JournalError {
        let path = self.path.clone();
        |source| JournalError::Database { path, source }
    }

    /// What was the case when the events that are still there began, and when that was; `None`: they are all there.
    pub(crate) fn books(&self) -> Result<(Books, Option<f64>), JournalError> {
        books(&self.connection).map_err(self.error())
    }

    /// Events between two others, which are not among them: their numbers, times and records. The earliest, or the latest
    /// first, as many as asked for.
    pub(crate) fn between(
        &self,
        after: i64,
        before: i64,
        is_latest_first: bool,
        most: u32,
    ) -> Result<Vec<(i64, f64, String)>, JournalError> {
        let order = if is_latest_first { "DESC" } else { "ASC" };
        let text = format!(
            "SELECT sequence, time, record FROM events WHERE sequence > ?1 AND sequence < ?2
             ORDER BY sequence {order} LIMIT ?3"
        );
        let mut query = self.connection.prepare(&text).map_err(self.error())?;
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let rows = query.query_map((after, before, most), row).map_err(self.error())?;
        rows.collect::<Result<_, _>>().map_err(self.error())
    }

    /// Shows all events in their order: when, what, and on whose account a submitted job is booked.
    pub(crate) fn each(&self, mut show: impl FnMut(f64, &Record, &str)) -> Result<(), JournalError> {
        each(&self.connection, i64::MAX, &mut show).map_err(self.error())
    }
}

/// What was the case when the events begin.
pub(super) fn books(connection: &Connection) -> rusqlite::Result<(Books, Option<f64>)> {
    let dropped: i64 = schema::meta(connection, "base_sequence")?.unwrap_or(0);
    if dropped == 0 {
        return Ok((Books::default(), None));
    }
    let text: Option<String> = schema::meta(connection, "books")?;
    let books: Option<Books> = text.and_then(|text| serde_json::from_str(&text).ok());
    let base_s: Option<f64> = schema::meta(connection, "base_time_s")?;
    match (books, base_s) {
        (Some(books), Some(base_s)) => Ok((books, Some(base_s))),
        // Older versions have dropped events without a word: from the first one that is left on, new jobs are known.
        _ => {
            let first: Option<f64> =
                connection.query_row("SELECT MIN(time) FROM events", [], |row| row.get(0))?;
            Ok((Books::default(), Some(first.unwrap_or(0.0))))
        }
    }
}

/// Shows the events up to one.
fn each(
    connection: &Connection,
    last: i64,
    show: &mut dyn FnMut(f64, &Record, &str),
) -> rusqlite::Result<()> {
    let mut query =
        connection.prepare("SELECT time, record, spec FROM events WHERE sequence <= ?1 ORDER BY sequence")?;
    let mut rows = query.query([last])?;
    while let Some(row) = rows.next()? {
        // The dispatcher's own replay has found it whole; one of a newer version is of no use here.
        let Ok(record) = serde_json::from_str::<Record>(row.get_ref(1)?.as_str()?) else { continue };
        let spec = row.get_ref(2)?.as_blob_or_null()?.and_then(|bytes| WireSpec::decode(bytes).ok());
        show(row.get(0)?, &record, spec.as_ref().map_or("", |spec| &spec.account));
    }
    Ok(())
}

/// What is the case after the events up to one, which are about to be dropped, as a text that [`books`] reads.
pub(super) fn books_until(connection: &Connection, last: i64) -> rusqlite::Result<String> {
    let (mut books, _) = books(connection)?;
    each(connection, last, &mut |time_s, record, account| {
        books.fold(time_s, record, account, &mut NoLedger)
    })?;
    serde_json::to_string(&books).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}
