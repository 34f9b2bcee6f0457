//! `events.jsonl`: a run's events as they happen, one JSON object a line.

use std::io::{self, Write};

use wharf_core::{Chosen, JobId, JobSpec, NodeId, NodeShare, Reshape, Time};
use wharf_outcome::{Allocation, Recorder, Round};

use super::rounds::RoundWriter;

/// Name of the file.
pub const EVENTS_JSONL: &str = "events.jsonl";

/// Called with a number of jobs that have finished since the last call.
pub type OnFinished<'a> = &'a (dyn Fn(u64) + Sync);

/// Writes events, and counts finished jobs for those who watch.
///
/// Lines have `t` (seconds), `event` and `job`; a start also has `nodes` (`[[node, [device, ...]], ...]`) and, where
/// jobs share the devices in lockstep, `group`; on other devices than the last time, also `change` (how they differ), `before` (those
/// devices) and `for` (a job that got some of them). A preemption has `for` (the job that gets the devices, where it is one) and
/// `chosen` (why this job had to make room). Where nodes fail, a job is `interrupted`, and there are lines with `node` instead of `job`.
pub struct EventWriter<'a, W: Write> {
    out: W,
    jobs: &'a [JobSpec],
    /// The first failure: a recorder cannot return it, and what comes after it is not written.
    error: Option<io::Error>,
    /// Who makes room for whom, told before it is stopped.
    gave_way: Option<(JobId, Option<JobId>, Chosen)>,
    /// Who is about to start on other devices, how they differ from which, and who got those.
    reshaped: Option<Reshaped>,
    finished: FinishedCounter<'a>,
    /// Where rounds go, if anywhere.
    rounds: Option<RoundWriter<'a>>,
}

/// A job that is about to start on other devices than the last time.
struct Reshaped {
    job: JobId,
    reshape: Reshape,
    before: Vec<NodeShare>,
    to: Option<JobId>,
}

impl<'a, W: Write> EventWriter<'a, W> {
    /// Writes to `out`; `jobs` have the names.
    pub fn new(out: W, jobs: &'a [JobSpec], on_finished: OnFinished<'a>) -> Self {
        Self {
            out,
            jobs,
            error: None,
            gave_way: None,
            reshaped: None,
            finished: FinishedCounter::new(on_finished),
            rounds: None,
        }
    }

    /// Writes rounds as well.
    pub fn with_rounds(self, rounds: RoundWriter<'a>) -> Self {
        Self { rounds: Some(rounds), ..self }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first failure of any write.
    pub fn finish(mut self) -> io::Result<W> {
        self.rounds.take().map_or(Ok(()), RoundWriter::finish)?;
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }

    /// Writes a line, unless one failed before.
    fn write(
        &mut self,
        time: Time,
        event: &str,
        job: JobId,
        rest: impl FnOnce(&mut W, &[JobSpec]) -> io::Result<()>,
    ) {
        if self.error.is_some() {
            return;
        }
        if let Err(error) = write_event(&mut self.out, self.jobs, time, event, job, rest) {
            self.error = Some(error);
        }
    }

    fn write_node(&mut self, time: Time, event: &str, node: NodeId) {
        if self.error.is_none() {
            self.error = write_node_event(&mut self.out, time, event, node).err();
        }
    }
}

fn write_node_event(out: &mut impl Write, time: Time, event: &str, node: NodeId) -> io::Result<()> {
    out.write_all(b"{\"t\":")?;
    serde_json::to_writer(&mut *out, &time.seconds())?;
    writeln!(out, ",\"event\":\"{event}\",\"node\":{}}}", node.0)
}

fn write_event<W: Write>(
    out: &mut W,
    jobs: &[JobSpec],
    time: Time,
    event: &str,
    job: JobId,
    rest: impl FnOnce(&mut W, &[JobSpec]) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"{\"t\":")?;
    serde_json::to_writer(&mut *out, &time.seconds())?;
    write!(out, ",\"event\":\"{event}\",\"job\":")?;
    write_name(out, jobs, job)?;
    rest(out, jobs)?;
    out.write_all(b"}\n")
}

pub(super) fn write_name(out: &mut impl Write, jobs: &[JobSpec], job: JobId) -> io::Result<()> {
    Ok(serde_json::to_writer(out, &*jobs[job.index()].name)?)
}

pub(super) fn write_placement(out: &mut impl Write, placement: &[NodeShare]) -> io::Result<()> {
    write_shares(out, "nodes", placement)
}

fn write_shares(out: &mut impl Write, key: &str, placement: &[NodeShare]) -> io::Result<()> {
    write!(out, ",\"{key}\":[")?;
    for (index, share) in placement.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}[{},[", share.node.0)?;
        for (index, device) in share.devices.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(out, "{comma}{device}")?;
        }
        out.write_all(b"]]")?;
    }
    out.write_all(b"]")
}

fn write_group(out: &mut impl Write, jobs: &[JobSpec], group: &[JobId]) -> io::Result<()> {
    out.write_all(b",\"group\":[")?;
    for (index, &member) in group.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        write_name(out, jobs, member)?;
    }
    out.write_all(b"]")
}

fn write_reshaped(out: &mut impl Write, jobs: &[JobSpec], reshaped: &Reshaped) -> io::Result<()> {
    write!(out, ",\"change\":\"{}\"", reshaped.reshape)?;
    write_shares(out, "before", &reshaped.before)?;
    write_for(out, jobs, reshaped.to)
}

fn write_for(out: &mut impl Write, jobs: &[JobSpec], to: Option<JobId>) -> io::Result<()> {
    let Some(to) = to else { return Ok(()) };
    out.write_all(b",\"for\":")?;
    write_name(out, jobs, to)
}

fn write_gave_way(
    out: &mut impl Write,
    jobs: &[JobSpec],
    to: Option<JobId>,
    chosen: Chosen,
) -> io::Result<()> {
    write_for(out, jobs, to)?;
    write!(out, ",\"chosen\":\"{chosen}\"")
}

impl<W: Write> Recorder for EventWriter<'_, W> {
    fn wants_timeline(&self) -> bool {
        true
    }

    fn wants_rounds(&self) -> bool {
        self.rounds.is_some()
    }

    fn round(&mut self, round: &Round) {
        if let Some(rounds) = &mut self.rounds {
            rounds.round(round);
        }
    }

    fn allocated(&mut self, allocation: &Allocation) {
        if let Some(rounds) = &mut self.rounds {
            rounds.allocated(allocation);
        }
    }

    fn submitted(&mut self, time: Time, job: JobId) {
        self.write(time, "submitted", job, |_, _| Ok(()));
    }

    fn started(&mut self, time: Time, job: JobId, placement: &[NodeShare], group: &[JobId]) {
        let reshaped = self.reshaped.take().filter(|reshaped| reshaped.job == job);
        self.write(time, "started", job, |out, jobs| {
            write_placement(out, placement)?;
            if group.len() > 1 {
                write_group(out, jobs, group)?;
            }
            reshaped.map_or(Ok(()), |reshaped| write_reshaped(out, jobs, &reshaped))
        });
    }

    fn reshaped(
        &mut self,
        _time: Time,
        job: JobId,
        reshape: Reshape,
        before: &[NodeShare],
        to: Option<JobId>,
    ) {
        self.reshaped = Some(Reshaped { job, reshape, before: before.to_vec(), to });
    }

    fn gave_way(&mut self, _time: Time, job: JobId, to: Option<JobId>, chosen: Chosen) {
        self.gave_way = Some((job, to, chosen));
    }

    fn preempted(&mut self, time: Time, job: JobId) {
        let gave_way = self.gave_way.take().filter(|&(giver, ..)| giver == job);
        self.write(time, "preempted", job, |out, jobs| match gave_way {
            Some((_, to, chosen)) => write_gave_way(out, jobs, to, chosen),
            None => Ok(()),
        });
    }

    fn interrupted(&mut self, time: Time, job: JobId) {
        self.write(time, "interrupted", job, |_, _| Ok(()));
    }

    fn node_lost(&mut self, time: Time, node: NodeId) {
        self.write_node(time, "node_lost", node);
    }

    fn node_returned(&mut self, time: Time, node: NodeId) {
        self.write_node(time, "node_returned", node);
    }

    fn finished(&mut self, time: Time, job: JobId) {
        self.write(time, "finished", job, |_, _| Ok(()));
        self.finished.finished(time, job);
    }
}

/// Counts finished jobs, and records nothing else.
pub struct FinishedCounter<'a> {
    on_finished: OnFinished<'a>,
    pending: u64,
    has_timeline: bool,
}

impl<'a> FinishedCounter<'a> {
    /// Jobs that are reported together: the callback is shared between threads.
    const BATCH: u64 = 64;

    /// Reports finished jobs to `on_finished`.
    pub fn new(on_finished: OnFinished<'a>) -> Self {
        Self { on_finished, pending: 0, has_timeline: false }
    }

    /// Lets the outcome have its timeline, or not.
    pub fn with_timeline(self, has_timeline: bool) -> Self {
        Self { has_timeline, ..self }
    }
}

impl Recorder for FinishedCounter<'_> {
    fn wants_timeline(&self) -> bool {
        self.has_timeline
    }

    fn finished(&mut self, _time: Time, _job: JobId) {
        self.pending += 1;
        if self.pending == Self::BATCH {
            (self.on_finished)(self.pending);
            self.pending = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::DeviceSet;

    use super::*;

    fn record(recorder: &mut impl Recorder) {
        let at = Time::from_seconds;
        recorder.submitted(at(0.0), JobId(0));
        recorder.submitted(at(0.1), JobId(1));
        let placement =
            [NodeShare::new(NodeId(0), DeviceSet(0b11)), NodeShare::new(NodeId(2), DeviceSet(0b100))];
        recorder.started(at(1.0), JobId(0), &placement, &[JobId(0)]);
        recorder.node_lost(at(1.5), NodeId(2));
        recorder.preempted(at(2.0), JobId(0));
        recorder.gave_way(at(3.0), JobId(0), Some(JobId(1)), Chosen::LowestPriority);
        recorder.preempted(at(3.0), JobId(0));
        recorder.started(at(3.0), JobId(1), &placement[1..], &[JobId(0), JobId(1)]);
        recorder.reshaped(at(4.0), JobId(0), Reshape::Shrunk, &placement, Some(JobId(1)));
        recorder.started(at(4.0), JobId(0), &placement[..1], &[JobId(0)]);
        recorder.finished(at(1.0e9 / 3.0), JobId(1));
    }

    fn jobs() -> Vec<JobSpec> {
        ["a", "b \"quoted\""].map(|name| JobSpec::new(name, Time::ZERO, 1, 1.0, 1.0)).to_vec()
    }

    #[test]
    fn events_are_one_object_a_line() {
        let jobs = jobs();
        let mut writer = EventWriter::new(Vec::new(), &jobs, &|_| ());
        record(&mut writer);
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        insta::assert_snapshot!(text, @r#"
        {"t":0.0,"event":"submitted","job":"a"}
        {"t":0.1,"event":"submitted","job":"b \"quoted\""}
        {"t":1.0,"event":"started","job":"a","nodes":[[0,[0,1]],[2,[2]]]}
        {"t":1.5,"event":"node_lost","node":2}
        {"t":2.0,"event":"preempted","job":"a"}
        {"t":3.0,"event":"preempted","job":"a","for":"b \"quoted\"","chosen":"lowest priority"}
        {"t":3.0,"event":"started","job":"b \"quoted\"","nodes":[[2,[2]]],"group":["a","b \"quoted\""]}
        {"t":4.0,"event":"started","job":"a","nodes":[[0,[0,1]]],"change":"shrunk","before":[[0,[0,1]],[2,[2]]],"for":"b \"quoted\""}
        {"t":333333333.3333333,"event":"finished","job":"b \"quoted\""}
        "#);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }

    #[test]
    fn first_failure_is_kept() {
        let jobs = jobs();
        let full =
            io::BufWriter::with_capacity(8, std::fs::File::options().write(true).open("/dev/full").unwrap());
        let mut writer = EventWriter::new(full, &jobs, &|_| ());
        record(&mut writer);
        assert_eq!(writer.finish().err().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
    }
}
