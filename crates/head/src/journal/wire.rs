//! Events of jobs as clients receive them.

use wharf_proto::job_event::Event;
use wharf_proto::{
    ArraySubmitted, Cause, GaveWay, IndexRange, JobAmended, JobCaused, JobEvent, JobLaunched, JobMeasured,
    JobPlaced, JobPlanned, JobStopping, JobTimed, JobWatched, NoDetails, NodeDevices, Plan, RecordedEnd,
    RequestedChange, gave_way, job_stopping, recorded_end,
};

use crate::journal::record::{EndRecord, Record, WhyRecord};
use crate::journal::victim_record::ChosenRecord;

/// The event of a job's history; `None` for records that are not about a job.
pub(crate) fn event(record: &Record) -> Option<JobEvent> {
    let change = |change: &str, by: &str| RequestedChange { change: change.to_owned(), by: by.to_owned() };
    let event = match record {
        Record::NodeJoined { .. }
        | Record::NodeLost { .. }
        | Record::NodeReturned { .. }
        | Record::NodeCordoned { .. }
        | Record::NodeOpened { .. }
        | Record::NodeClosed { .. }
        | Record::NodeReopened { .. }
        | Record::DeviceLost { .. }
        | Record::DeviceReturned { .. }
        | Record::NodeNoted { .. }
        | Record::NodeLeft { .. }
        | Record::NodeCame { .. }
        | Record::PolicySet { .. }
        | Record::LimitsSet { .. }
        | Record::RequestAccepted { .. }
        | Record::IncarnationBegan { .. }
        | Record::IdsSkipped { .. } => return None,
        Record::JobSubmitted { spec, .. } => Event::JobSubmitted(spec.to_wire()),
        Record::ArraySubmitted { spec, indexes, .. } => Event::ArraySubmitted(ArraySubmitted {
            spec: Some(spec.to_wire()),
            indexes: indexes.iter().map(|&(first, last)| IndexRange { first, last }).collect(),
        }),
        Record::JobPlaced { generation, shares, .. } => {
            Event::JobPlaced(JobPlaced { generation: *generation, shares: to_devices(shares) })
        }
        &Record::JobLaunched { ready, iteration_s, .. } => {
            Event::JobLaunched(JobLaunched { ready_s: ready, iteration_s })
        }
        &Record::JobRated { iteration_s, .. } => Event::JobRated(iteration_s),
        &Record::JobSaved { done, .. } => Event::JobSaved(done),
        &Record::JobGaveWay { to, chosen, .. } => {
            Event::JobGaveWay(GaveWay { to, chosen: to_chosen(chosen).into() })
        }
        &Record::JobStopping { why, .. } => Event::JobStopping(JobStopping { why: to_why(why).into() }),
        &Record::JobReplaced { by, .. } => Event::JobReplaced(by),
        &Record::JobStopped { done, .. } => Event::JobStopped(done),
        Record::JobHeld { .. } => Event::JobHeld(NoDetails {}),
        Record::JobReleased { .. } => Event::JobReleased(NoDetails {}),
        &Record::JobReprioritised { priority, .. } => Event::JobReprioritised(priority),
        &Record::JobEnded { end, .. } => Event::JobEnded(to_end(end)),
        Record::HoldWanted { .. } => Event::HoldWanted(NoDetails {}),
        Record::HoldLifted { .. } => Event::HoldLifted(NoDetails {}),
        Record::JobRetried { .. } => Event::JobRetried(NoDetails {}),
        Record::JobNoted { reason, .. } => Event::JobNoted(reason.clone()),
        Record::JobCaused { cause, node, code, .. } => Event::JobCaused(JobCaused {
            cause: Cause::of_word(cause).unwrap_or(Cause::NoCause).into(),
            node: *node,
            code: *code,
        }),
        &Record::JobSignalled { signal, .. } => Event::JobSignalled(signal),
        Record::JobStalled { reason, .. } => Event::JobStalled(reason.clone()),
        &Record::JobDelayed { until, .. } => Event::JobDelayed(until),
        &Record::JobWatched { watched_s, idle_s, iterations, total, .. } => {
            Event::JobWatched(JobWatched { watched_s, idle_s, iterations, total })
        }
        Record::JobMeasured { metrics, remarks, .. } => Event::JobMeasured(JobMeasured {
            metrics: metrics.iter().map(|(name, number)| (name.clone(), number.0)).collect(),
            remarks: remarks.clone(),
        }),
        Record::JobTimed { device_type, devices, nodes, plan, iterations, span_s, .. } => {
            Event::JobTimed(JobTimed {
                device_type: device_type.clone(),
                devices: *devices,
                nodes: *nodes,
                plan: plan.map(to_plan),
                iterations: *iterations,
                span_s: *span_s,
            })
        }
        Record::JobPlanned { plan, .. } => Event::JobPlanned(JobPlanned { plan: plan.map(to_plan) }),
        Record::JobAmended { amended, .. } => Event::JobAmended(JobAmended {
            time_limit_s: amended.time_limit_s,
            name: amended.name.clone(),
            steps: amended.steps(),
        }),
        Record::JobChanged { change: what, by, .. } => Event::JobChanged(change(what, by)),
        Record::ArrayChanged { change: what, by, .. } => Event::ArrayChanged(change(what, by)),
    };
    Some(JobEvent { job_id: record.jobs().start, event: Some(event) })
}

fn to_plan((stages, data, tensor): (u32, u32, u32)) -> Plan {
    Plan { stages, data, tensor }
}

pub(crate) fn to_devices(shares: &[(u32, Vec<u32>)]) -> Vec<NodeDevices> {
    shares.iter().map(|(node, devices)| NodeDevices { node: *node, devices: devices.clone() }).collect()
}

pub(crate) fn to_end(end: EndRecord) -> RecordedEnd {
    let outcome = match end {
        EndRecord::Finished => recorded_end::Outcome::Finished,
        EndRecord::Failed { .. } => recorded_end::Outcome::Failed,
        EndRecord::Cancelled => recorded_end::Outcome::Cancelled,
        EndRecord::TimedOut => recorded_end::Outcome::TimedOut,
        EndRecord::Rejected => recorded_end::Outcome::Rejected,
    };
    let exit_code = if let EndRecord::Failed { code } = end { code } else { 0 };
    RecordedEnd { outcome: outcome.into(), exit_code }
}

/// `None` for an end that this version does not have.
pub(crate) fn of_end(end: RecordedEnd) -> Option<EndRecord> {
    Some(match recorded_end::Outcome::try_from(end.outcome).ok()? {
        recorded_end::Outcome::Finished => EndRecord::Finished,
        recorded_end::Outcome::Failed => EndRecord::Failed { code: end.exit_code },
        recorded_end::Outcome::Cancelled => EndRecord::Cancelled,
        recorded_end::Outcome::TimedOut => EndRecord::TimedOut,
        recorded_end::Outcome::Rejected => EndRecord::Rejected,
    })
}

pub(crate) fn to_chosen(chosen: ChosenRecord) -> gave_way::Chosen {
    match chosen {
        ChosenRecord::LastInOrder => gave_way::Chosen::LastInOrder,
        ChosenRecord::LowestPriority => gave_way::Chosen::LowestPriority,
        ChosenRecord::LeastUnsavedWork => gave_way::Chosen::LeastUnsavedWork,
        ChosenRecord::FewestDevices => gave_way::Chosen::FewestDevices,
        ChosenRecord::AboveShare => gave_way::Chosen::AboveShare,
        ChosenRecord::NotInRound => gave_way::Chosen::NotInRound,
        ChosenRecord::Opportunistic => gave_way::Chosen::Opportunistic,
        ChosenRecord::Reshaped => gave_way::Chosen::Reshaped,
    }
}

/// `None` for a choice that this version does not have.
pub(crate) fn of_chosen(chosen: i32) -> Option<ChosenRecord> {
    Some(match gave_way::Chosen::try_from(chosen).ok()? {
        gave_way::Chosen::LastInOrder => ChosenRecord::LastInOrder,
        gave_way::Chosen::LowestPriority => ChosenRecord::LowestPriority,
        gave_way::Chosen::LeastUnsavedWork => ChosenRecord::LeastUnsavedWork,
        gave_way::Chosen::FewestDevices => ChosenRecord::FewestDevices,
        gave_way::Chosen::AboveShare => ChosenRecord::AboveShare,
        gave_way::Chosen::NotInRound => ChosenRecord::NotInRound,
        gave_way::Chosen::Opportunistic => ChosenRecord::Opportunistic,
        gave_way::Chosen::Reshaped => ChosenRecord::Reshaped,
    })
}

fn to_why(why: WhyRecord) -> job_stopping::Why {
    match why {
        WhyRecord::Preempted => job_stopping::Why::Preempted,
        WhyRecord::Moved => job_stopping::Why::Moved,
        WhyRecord::NodeLost => job_stopping::Why::NodeLost,
        WhyRecord::Cancelled => job_stopping::Why::Cancelled,
        WhyRecord::TimeLimit => job_stopping::Why::TimeLimit,
        WhyRecord::Requeued => job_stopping::Why::Requeued,
    }
}
