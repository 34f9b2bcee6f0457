//! The audit log: who has done what, from where, and with which result.
//!
//! Entries are lines of JSON that are appended before the reply is sent. Job changes have files of their own, so that a user who
//! submits without end cannot displace the entries about tokens, nodes, limits and refusals. The oldest file of a series is removed
//! when a new one begins, so that the size is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wharf_proto::tonic::{Code, Status};
use wharf_proto::{AuditEntry, ReadAuditReply, ReadAuditRequest};
use wharf_tls::is_missing;

use crate::auth::{Identity, role_name};
use crate::dispatcher::clock::unix_s;

/// Bytes of one file, and older files that are kept of each series.
const FILE_MAX: u64 = 32 << 20;
const OLDER_FILES: u32 = 8;
/// Characters of one text, and objects of one entry.
const TEXT_MAX: usize = 300;
const OBJECTS_MAX: usize = 64;
/// Refusals and logins of one origin that get an entry each within a window; more are counted.
const WINDOW: Duration = Duration::from_secs(60);
const WINDOW_ENTRIES: u32 = 20;
/// Origins that are counted; beyond them the counts begin again.
const ORIGINS_MAX: usize = 4096;
/// Entries of one reply.
const MOST_DEFAULT: u32 = 1000;
const MOST_MAX: u32 = 100_000;

/// What an entry is about, which chooses its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Jobs.
    Jobs,
    /// Tokens, nodes, policies, limits, refusals, logins.
    Access,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Entry {
    time_s: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    role: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    token: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    address: String,
    action: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    objects: Vec<String>,
    result: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    #[serde(skip_serializing_if = "is_zero")]
    suppressed: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Where failures to write are reported.
type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The log of a head.
pub(crate) struct Audit {
    jobs: Mutex<Series>,
    access: Mutex<Series>,
    origins: Mutex<BTreeMap<String, Origin>>,
    warn: OnceLock<Warn>,
}

/// The refusals of one address or token.
struct Origin {
    began: Instant,
    entries: u32,
    suppressed: u32,
}

impl Audit {
    /// Opens the log in a head's folder.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let folder = folder.join("audit");
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let series = |name: &str| Series::open(folder.join(name)).map(Mutex::new);
        Ok(Self {
            jobs: series("jobs.jsonl")?,
            access: series("access.jsonl")?,
            origins: Mutex::default(),
            warn: OnceLock::new(),
        })
    }

    /// Sets where failures to write are reported.
    pub(crate) fn report_to(&self, warn: Warn) {
        // The first head that uses it is the only one.
        let _ = self.warn.set(warn);
    }

    /// Records a request and its result.
    pub(crate) fn record<T>(
        &self,
        subject: Subject,
        identity: &Identity,
        action: &str,
        objects: Vec<String>,
        result: &Result<T, Status>,
    ) {
        let detail = result.as_ref().err().map(|status| status.message().to_owned()).unwrap_or_default();
        self.record_with(subject, identity, action, objects, result_name(result), &detail);
    }

    /// Records a request with details.
    pub(crate) fn record_with(
        &self,
        subject: Subject,
        identity: &Identity,
        action: &str,
        objects: Vec<String>,
        result: &str,
        detail: &str,
    ) {
        let entry = Entry { objects, ..Entry::of(identity, action, result, detail) };
        self.write(subject, entry, result == OK && subject == Subject::Access);
    }

    /// Records a login: a token is used from another address than before.
    pub(crate) fn login(&self, identity: &Identity) {
        self.limited(&identity.id, Entry::of(identity, "login", OK, ""));
    }

    /// Records a refused request, of an identity where there is one.
    pub(crate) fn refusal(
        &self,
        identity: Option<&Identity>,
        address: Option<std::net::IpAddr>,
        action: &str,
        status: &Status,
    ) {
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        tracing::info!(user = identity.map(|identity| &*identity.user), address, action, "request refused");
        let (origin, entry) = match identity {
            Some(identity) => (identity.id.clone(), Entry::of(identity, action, REFUSED, status.message())),
            None => {
                let detail = shortened(status.message());
                let (action, result) = (shortened(action), REFUSED.to_owned());
                (
                    address.clone(),
                    Entry { time_s: unix_s(), address, action, result, detail, ..Entry::default() },
                )
            }
        };
        self.limited(&origin, entry);
    }

    /// Writes an entry unless its origin has had too many of late.
    fn limited(&self, origin: &str, mut entry: Entry) {
        {
            let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
            if origins.len() >= ORIGINS_MAX && !origins.contains_key(origin) {
                origins.retain(|_, origin| origin.began.elapsed() < WINDOW);
                if origins.len() >= ORIGINS_MAX {
                    origins.clear();
                }
            }
            let fresh = || Origin { began: Instant::now(), entries: 0, suppressed: 0 };
            let counted = origins.entry(origin.to_owned()).or_insert_with(fresh);
            if counted.began.elapsed() >= WINDOW {
                entry.suppressed = counted.suppressed;
                *counted = fresh();
            }
            counted.entries += 1;
            if counted.entries > WINDOW_ENTRIES {
                counted.suppressed += 1;
                return;
            }
        }
        self.write(Subject::Access, entry, false);
    }

    fn series(&self, subject: Subject) -> MutexGuard<'_, Series> {
        let series = match subject {
            Subject::Jobs => &self.jobs,
            Subject::Access => &self.access,
        };
        // A line that was cut off is skipped by readers.
        series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, subject: Subject, entry: Entry, is_synced: bool) {
        let Ok(mut line) = serde_json::to_string(&entry) else { return };
        line.push('\n');
        let mut series = self.series(subject);
        let written = series.append(line.as_bytes(), is_synced);
        let was_failing = std::mem::replace(&mut series.is_failing, written.is_err());
        drop(series);
        if let (Err(error), false, Some(warn)) = (written, was_failing, self.warn.get()) {
            warn(&format!("cannot write the audit log: {error}; requests are served without an entry"));
        }
    }

    /// The entries that match a request, the latest of them in their order.
    pub(crate) fn read(&self, request: &ReadAuditRequest) -> io::Result<ReadAuditReply> {
        let most = if request.most == 0 { MOST_DEFAULT } else { request.most.min(MOST_MAX) } as usize;
        let mut found = Vec::new();
        for subject in [Subject::Jobs, Subject::Access] {
            let path = self.series(subject).path.clone();
            found.extend(matching(&path, request, most + 1)?);
        }
        found.sort_by(|one, other| one.time_s.total_cmp(&other.time_s));
        let has_more = found.len() > most;
        let first = found.len().saturating_sub(most);
        Ok(ReadAuditReply {
            entries: found.into_iter().skip(first).map(Entry::into_wire).collect(),
            has_more,
        })
    }
}

pub(crate) const OK: &str = "ok";
pub(crate) const REFUSED: &str = "refused";
const FAILED: &str = "failed";

fn result_name<T>(result: &Result<T, Status>) -> &'static str {
    match result {
        Ok(_) => OK,
        Err(status) if matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated) => REFUSED,
        Err(_) => FAILED,
    }
}

impl Entry {
    fn of(identity: &Identity, action: &str, result: &str, detail: &str) -> Self {
        // Workers are known by their node.
        let user = identity.node.as_ref().filter(|_| identity.user.is_empty()).unwrap_or(&identity.user);
        Self {
            time_s: unix_s(),
            user: user.clone(),
            role: role_name(identity.role).to_owned(),
            token: identity.id.clone(),
            address: identity.address.map(|address| address.to_string()).unwrap_or_default(),
            action: shortened(action),
            result: result.to_owned(),
            detail: shortened(detail),
            ..Self::default()
        }
    }

    fn matches(&self, request: &ReadAuditRequest) -> bool {
        let is_it = |wanted: &str, own: &str| wanted.is_empty() || wanted == own;
        is_it(&request.user, &self.user)
            && is_it(&request.action, &self.action)
            && is_it(&request.result, &self.result)
            && request.since_s.is_none_or(|since_s| self.time_s >= since_s)
            && request.until_s.is_none_or(|until_s| self.time_s < until_s)
            && request.job_id.is_none_or(|job| self.objects.iter().any(|object| names_job(object, job)))
    }

    fn into_wire(self) -> AuditEntry {
        AuditEntry {
            time_s: self.time_s,
            user: self.user,
            role: self.role,
            token: self.token,
            address: self.address,
            action: self.action,
            objects: self.objects,
            result: self.result,
            detail: self.detail,
            suppressed: self.suppressed,
        }
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Jobs as objects of an entry: consecutive ids are one object, `job 3-7`.
pub(crate) fn job_objects(ids: impl IntoIterator<Item = u32>) -> Vec<String> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(id) => *last = id,
            _ => runs.push((id, id)),
        }
    }
    let more = runs.len().saturating_sub(OBJECTS_MAX);
    let named = runs.into_iter().take(OBJECTS_MAX).map(|(first, last)| match first == last {
        true => format!("job {first}"),
        false => format!("job {first}-{last}"),
    });
    named.chain((more > 0).then(|| format!("{more} more"))).collect()
}

fn names_job(object: &str, job: u32) -> bool {
    let Some(ids) = object.strip_prefix("job ") else { return false };
    let (first, last) = ids.split_once('-').unwrap_or((ids, ids));
    let bounds = (first.parse::<u32>(), last.parse::<u32>());
    matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&job))
}

/// The files of one kind of entries.
struct Series {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// The last entry could not be written.
    is_failing: bool,
}

impl Series {
    fn open(path: PathBuf) -> io::Result<Self> {
        let mut file = appending(&path)?;
        let mut bytes = file.seek(SeekFrom::End(0))?;
        // A line that a crash has cut off must not swallow the next one.
        let mut last = [b'\n'];
        if bytes > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            bytes += 1;
        }
        Ok(Self { path, file, bytes, is_failing: false })
    }

    fn append(&mut self, line: &[u8], is_synced: bool) -> io::Result<()> {
        if self.bytes + line.len() as u64 > FILE_MAX {
            self.rotate()?;
        }
        if self.is_failing {
            // The last line may have been cut off.
            self.file.write_all(b"\n")?;
            self.bytes += 1;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        if is_synced { self.file.sync_data() } else { Ok(()) }
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (0..OLDER_FILES).rev() {
            match fs::rename(numbered(&self.path, number), numbered(&self.path, number + 1)) {
                Err(error) if !is_missing(&error) => return Err(error),
                _ => {}
            }
        }
        self.file = appending(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

fn appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

/// The file of a series: 0 is the one that grows, higher numbers are older.
fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 { path.to_owned() } else { path.with_added_extension(number.to_string()) }
}

/// The latest entries of a series that match, at most so many, in their order.
fn matching(path: &Path, request: &ReadAuditRequest, most: usize) -> io::Result<Vec<Entry>> {
    let mut found = VecDeque::new();
    for number in 0..=OLDER_FILES {
        let file = match File::open(numbered(path, number)) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => continue,
            Err(error) => return Err(error),
        };
        let mut of_file: VecDeque<Entry> = VecDeque::new();
        let mut oldest_s = f64::INFINITY;
        for line in BufReader::new(file).split(b'\n') {
            // A line that a crash has cut off.
            let Ok(entry) = serde_json::from_slice::<Entry>(&line?) else { continue };
            oldest_s = oldest_s.min(entry.time_s);
            if entry.matches(request) {
                of_file.push_back(entry);
                if of_file.len() > most {
                    of_file.pop_front();
                }
            }
        }
        of_file.append(&mut found);
        found = of_file;
        if found.len() >= most || request.since_s.is_some_and(|since_s| oldest_s < since_s) {
            break;
        }
    }
    Ok(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use wharf_proto::Role;

    use super::*;
    use crate::auth::Scope;

    fn identity(user: &str) -> Identity {
        Identity {
            role: Role::User,
            user: user.into(),
            node: None,
            is_certified: false,
            may_replace: false,
            scope: Scope::Submit,
            id: format!("id-{user}"),
            key: None,
            address: Some([10, 0, 0, 1].into()),
            task: None,
        }
    }

    fn submit(audit: &Audit, user: &str, jobs: std::ops::Range<u32>) {
        audit.record(Subject::Jobs, &identity(user), "submit", job_objects(jobs), &Ok::<_, Status>(()));
    }

    #[test]
    fn entries_survive_a_restart_and_are_found_by_what_they_are_about() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path()).unwrap();
        submit(&audit, "ann", 0..3);
        submit(&audit, "bob", 3..4);
        let refused: Result<(), Status> =
            Err(Status::permission_denied("permission denied: job 0 belongs to ann"));
        audit.record(Subject::Jobs, &identity("bob"), "cancel", job_objects([0]), &refused);
        drop(audit);
        let audit = Audit::open(folder.path()).unwrap();
        let read = |request: ReadAuditRequest| -> Vec<String> {
            let found = audit.read(&request).unwrap().entries;
            found.iter().map(|entry| format!("{} {} {}", entry.user, entry.action, entry.result)).collect()
        };
        let all = ReadAuditRequest::default;
        assert_eq!(read(all()), ["ann submit ok", "bob submit ok", "bob cancel refused"]);
        assert_eq!(read(ReadAuditRequest { user: "ann".into(), ..all() }), ["ann submit ok"]);
        let of_job = ReadAuditRequest { job_id: Some(0), ..all() };
        assert_eq!(read(of_job), ["ann submit ok", "bob cancel refused"]);
        assert_eq!(read(ReadAuditRequest { job_id: Some(2), ..all() }), ["ann submit ok"]);
        assert_eq!(read(ReadAuditRequest { result: REFUSED.into(), ..all() }), ["bob cancel refused"]);
        assert_eq!(read(ReadAuditRequest { most: 1, ..all() }), ["bob cancel refused"]);
        assert_eq!(read(ReadAuditRequest { until_s: Some(1.0), ..all() }), [""; 0]);
        assert_eq!(read(ReadAuditRequest { since_s: Some(1e12), ..all() }), [""; 0]);
    }

    #[test]
    fn text_with_line_breaks_forges_no_entry_and_a_torn_line_swallows_none() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path()).unwrap();
        let forged =
            "x\n{\"time_s\":1.0,\"user\":\"root\",\"action\":\"login\",\"result\":\"ok\"}\r\n\u{2028}";
        audit.record_with(Subject::Jobs, &identity("ann"), "cancel", vec![forged.into()], OK, forged);
        let path = folder.path().join("audit/jobs.jsonl");
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
        drop(audit);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"time_s\":").unwrap();
        let audit = Audit::open(folder.path()).unwrap();
        submit(&audit, "ann", 1..2);
        let found = audit.read(&ReadAuditRequest::default()).unwrap().entries;
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].detail, forged);
    }

    #[test]
    fn log_is_bounded_and_job_changes_displace_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path()).unwrap();
        audit.record(Subject::Access, &identity("root"), "token-create", vec![], &Ok::<_, Status>(()));
        for _ in 0..OLDER_FILES + 3 {
            audit.series(Subject::Jobs).bytes = FILE_MAX;
            submit(&audit, "ann", 0..1);
        }
        let files = fs::read_dir(folder.path().join("audit")).unwrap().count();
        assert_eq!(files, OLDER_FILES as usize + 1 + 1);
        let found = audit.read(&ReadAuditRequest::default()).unwrap().entries;
        assert_eq!(found.len(), OLDER_FILES as usize + 2);
        assert_eq!(found[0].action, "token-create");
    }

    #[test]
    fn refusals_of_one_origin_are_counted_beyond_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path()).unwrap();
        let status = Status::unauthenticated("unknown token");
        for _ in 0..1000 {
            audit.refusal(None, Some([10, 0, 0, 2].into()), "Submit", &status);
        }
        audit.refusal(None, Some([10, 0, 0, 3].into()), "Submit", &status);
        let found = audit.read(&ReadAuditRequest::default()).unwrap().entries;
        assert_eq!(found.len(), WINDOW_ENTRIES as usize + 1);
    }
}
