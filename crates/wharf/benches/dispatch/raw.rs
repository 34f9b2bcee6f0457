//! What the machine can do at best: several parents that do nothing but spawn.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The word that makes this program a parent.
pub(crate) const COMMAND: &str = "raw-parent";

/// Spawns `/bin/true` so many times, so many of them at once.
pub(crate) fn parent(count: u32, at_once: u32) {
    let spawn = || Command::new("/bin/true").spawn().unwrap();
    let mut running: std::collections::VecDeque<Child> = (0..at_once.min(count)).map(|_| spawn()).collect();
    let mut left = count - running.len() as u32;
    while let Some(mut oldest) = running.pop_front() {
        assert!(oldest.wait().unwrap().success());
        if left > 0 {
            left -= 1;
            running.push_back(spawn());
        }
    }
}

/// Lets so many parents spawn so many children each, and tells how long that took.
pub(crate) fn parents(parents: u32, each: u32) -> Duration {
    let began = Instant::now();
    let program = std::env::current_exe().unwrap();
    let start = |_| Command::new(&program).args([COMMAND, &each.to_string()]).spawn().unwrap();
    let running: Vec<Child> = (0..parents).map(start).collect();
    for mut parent in running {
        assert!(parent.wait().unwrap().success());
    }
    began.elapsed()
}
