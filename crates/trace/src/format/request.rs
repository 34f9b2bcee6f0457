//! Columns of requests beside devices: CPUs, memory, parts of devices, named resources, licences.

use std::sync::Arc;

use wharf_core::{Amounts, Gang, Level, Request, WHOLE_MILLI, Within};

use super::Shared;
use crate::finding::{Note, Rule};
use crate::row::RowCheck;
use crate::text::shown;

/// Where a schema has these columns.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub(super) devices: usize,
    /// Tasks; one for each device where there is no number, one where there is no device.
    pub(super) tasks: usize,
    /// CPUs of each task.
    pub(super) cpus: usize,
    /// Memory of each task.
    pub(super) memory_mib: usize,
    /// The part of one device, in thousandths.
    pub(super) device_milli: usize,
    /// Named resources of each task: `scratch:100;fpga:1`.
    pub(super) resources: usize,
    /// Licences of the job: `matlab:2`.
    pub(super) licences: usize,
    /// 1 where no other job may run on its nodes.
    pub(super) exclusive: usize,
    /// The level of the topology that it is to stay within if it can.
    pub(super) prefer_within: usize,
    /// The level that it waits for.
    pub(super) require_within: usize,
}

/// A cell.
pub(super) enum Field {
    Number(f64),
    Text(String),
}

impl Columns {
    /// Whether a row asks for no devices, but for something else.
    pub(super) fn is_without_devices(&self, row: &RowCheck<'_>) -> bool {
        row.raw(self.devices) == Some("0")
            && (row.has(self.tasks) || row.has(self.cpus) || row.has(self.memory_mib))
    }

    /// The request of a row with so many devices.
    pub(super) fn decode(
        &self,
        row: &mut RowCheck<'_>,
        shared: &mut Shared,
        devices: u32,
    ) -> Option<Request> {
        let tasks = if row.has(self.tasks) { self.tasks_of(row, devices) } else { None };
        let cpu_milli = row.has(self.cpus).then(|| row.length(self.cpus)).flatten();
        let memory_mib = row.count(self.memory_mib).unwrap_or(0);
        let device_milli = if row.has(self.device_milli) { self.part(row, devices) } else { Some(0) };
        let named = counts(row, self.resources, shared);
        let licences = counts(row, self.licences, shared);
        let is_exclusive = row.count(self.exclusive).unwrap_or(0) > 0;
        let within = self.within(row);
        if row.is_bad {
            return None;
        }
        let cpu_milli = (cpu_milli.unwrap_or(0.0) * f64::from(WHOLE_MILLI)).round() as u64;
        let task = Amounts { cpu_milli, memory_mib: memory_mib.into(), named };
        let (devices, tasks) = match (devices, tasks) {
            (0, tasks) => (0, tasks.unwrap_or(1)),
            (_, None) => (1, 0),
            (devices, Some(tasks)) => (devices / tasks, 0),
        };
        let device_milli = device_milli?;
        Some(Request {
            devices,
            tasks,
            device_milli,
            task,
            licences,
            is_exclusive,
            within,
            ..Request::default()
        })
    }

    fn tasks_of(&self, row: &mut RowCheck<'_>, devices: u32) -> Option<u32> {
        let tasks = row.required_count(self.tasks)?;
        if tasks == 0 {
            row.error(self.tasks, Note::error(Rule::ZeroCount, "found 0, expected at least 1"));
            return None;
        }
        if devices % tasks != 0 {
            let message =
                format!("found {tasks} tasks for {devices} devices, expected a number that divides them");
            row.error(self.tasks, Note::error(Rule::GangRange, message));
            return None;
        }
        Some(tasks)
    }

    fn part(&self, row: &mut RowCheck<'_>, devices: u32) -> Option<u32> {
        let milli = row.required_count(self.device_milli)?;
        let problem = match (devices, milli) {
            (1, 1..=WHOLE_MILLI) => return Some(milli % WHOLE_MILLI),
            (1, _) => format!("found {milli}, expected 1 to {WHOLE_MILLI}: thousandths of one device"),
            _ => format!("found {milli} of {devices} devices: a part is of one device"),
        };
        let note = Note::error(Rule::DevicePart, problem).hint("a part is of one device: set `devices` to 1");
        row.error(self.device_milli, note);
        None
    }

    fn within(&self, row: &mut RowCheck<'_>) -> Option<Within> {
        let columns = [(self.require_within, true), (self.prefer_within, false)];
        let (column, is_required) = columns.into_iter().find(|&(column, _)| row.has(column))?;
        let name = row.text(column)?;
        match Level::ALL.iter().find(|(known, _)| *known == name) {
            Some(&(_, level)) => Some(Within { level, is_required }),
            None => {
                let names = Level::ALL.map(|(name, _)| name).join(", ");
                let message = format!("found {}, expected one of {names}", shown(name));
                row.error(column, Note::error(Rule::MissingValue, message));
                None
            }
        }
    }

    /// The cells of a gang, those that it does not need empty.
    pub(super) fn encode(&self, gang: &Gang) -> [(usize, Option<Field>); 9] {
        let plain = Request::default();
        let request = gang.request().unwrap_or(&plain);
        let number = |value: u64| (value > 0).then_some(Field::Number(value as f64));
        let list = |counts: &[(Arc<str>, u64)]| {
            let items: Vec<String> = counts.iter().map(|(name, count)| format!("{name}:{count}")).collect();
            (!items.is_empty()).then(|| Field::Text(items.join(";")))
        };
        let tasks = match request.devices {
            0 => request.tasks,
            1 => 0,
            each => gang.devices / each,
        };
        let level = |is_required| {
            let within = request.within.filter(|within| within.is_required == is_required);
            within.map(|within| Field::Text(within.level.name().to_owned()))
        };
        let cpus = request.task.cpu_milli as f64 / f64::from(WHOLE_MILLI);
        [
            (self.tasks, number(tasks.into())),
            (self.cpus, (cpus > 0.0).then_some(Field::Number(cpus))),
            (self.memory_mib, number(request.task.memory_mib)),
            (self.device_milli, number(request.device_milli.into())),
            (self.resources, list(&request.task.named)),
            (self.licences, list(&request.licences)),
            (self.exclusive, number(request.is_exclusive.into())),
            (self.prefer_within, level(false)),
            (self.require_within, level(true)),
        ]
    }
}

/// Named counts: `name:count` with `;` between them; a name alone is one.
fn counts(row: &mut RowCheck<'_>, column: usize, shared: &mut Shared) -> Vec<(Arc<str>, u64)> {
    let Some(text) = row.list(column) else { return Vec::new() };
    let mut counts: Vec<(Arc<str>, u64)> = Vec::new();
    for item in text.split(';') {
        let (name, count) = item.trim().split_once(':').unwrap_or((item.trim(), "1"));
        match count.parse::<u64>() {
            Ok(count)
                if count > 0 && !name.is_empty() && counts.iter().all(|(known, _)| **known != *name) =>
            {
                counts.push((shared.names.get(name), count));
            }
            _ => {
                let message = format!("found {}, expected NAME:COUNT with each name once", shown(item));
                row.error(column, Note::error(Rule::NotAnInteger, message));
            }
        }
    }
    counts
}
