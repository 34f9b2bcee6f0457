//! What has become of the tasks of a supervisor that died.
//!
//! Their processes continue, but are not children that could be waited for: they are polled until they are gone, and their
//! exit codes are not known.

use std::collections::BTreeMap;
use std::path::Path;

use super::journal::{Place, Recorded, Records};
use super::strays::is_of_task;
use crate::supervisor::protocol::progress_socket;
use crate::task::{Exit, TaskKey};

/// Decides for each recorded task whether it still runs; those that do keep their place, all others have an exit.
pub(crate) fn reconcile(state_dir: &Path, records: Records) -> BTreeMap<TaskKey, Recorded> {
    let mut tasks = records.tasks;
    if tasks.values().all(|task| task.exit.is_some()) {
        return tasks;
    }
    if records.rebooted {
        for task in tasks.values_mut().filter(|task| task.exit.is_none()) {
            task.exit = Some(Exit::of_node("the machine restarted while it ran"));
        }
        return tasks;
    }
    let processes = processes();
    let socket = progress_socket(state_dir);
    for (&key, task) in tasks.iter_mut().filter(|(_, task)| task.exit.is_none()) {
        task.places.retain(|place| processes.iter().any(|process| process.place == *place));
        if task.places.is_empty() {
            // Spawned, perhaps, but not recorded: its environment tells.
            let of_task = processes.iter().filter(|process| is_of_task(process.pid, key, &socket));
            task.places = of_task.map(|process| process.place).collect();
            task.places.dedup();
        }
        if task.places.is_empty() {
            task.exit = Some(Exit::lost("its supervisor died first: the exit code is unknown"));
        }
    }
    tasks
}

struct Process {
    pid: i32,
    place: Place,
}

/// All living processes of the machine.
fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Process { pid, place: living_place(&stat)? })
    })
    .collect()
}

/// Group and session from `/proc/PID/stat`; none for a zombie.
fn living_place(stat: &str) -> Option<Place> {
    // The name, in parentheses, may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let _parent = fields.next()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(Place { group, session })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trainer::Trainer;

    #[test]
    fn living_place_odd_name_is_read() {
        let place = Place { group: 7, session: 5 };
        assert_eq!(living_place("12 (a) b) S 1 7 5 0 -1"), Some(place));
        assert_eq!(living_place("12 (a) Z 1 7 5 0 -1"), None);
    }

    #[test]
    fn reconcile_gone_and_running_are_distinguished() {
        let own = processes().into_iter().find(|process| process.pid == std::process::id().cast_signed());
        let place = own.map(|process| process.place).unwrap();
        let task = |group| Recorded {
            stop_signal: 15,
            grace_ms: 0,
            trainer: Trainer::default(),
            account: None,
            denied_devices: Vec::new(),
            places: vec![Place { group, ..place }],
            exit: None,
        };
        let (lives, gone) = (TaskKey { job: 1, generation: 1 }, TaskKey { job: 2, generation: 1 });
        let tasks = BTreeMap::from([(lives, task(place.group)), (gone, task(i32::MAX))]);
        let found = reconcile(Path::new("/"), Records { tasks: tasks.clone(), ..Records::default() });
        assert_eq!((found[&lives].exit.is_none(), found[&gone].exit.is_none()), (true, false));
        let rebooted = reconcile(Path::new("/"), Records { tasks, rebooted: true, ..Records::default() });
        assert!(rebooted.values().all(|task| task.exit.is_some()));
    }
}
