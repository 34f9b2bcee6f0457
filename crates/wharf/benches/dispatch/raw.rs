//! What the machine can do at best: several parents that do nothing but spawn.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The word that makes this program a parent.
pub(crate) const COMMAND: &str = "raw-parent";

/// What is spawned where nothing else is said.
pub(crate) const TRUE: &[&str] = &["/bin/true"];

/// Spawns a program so many times, so many of them at once. Its words: both numbers, then those of the program.
pub(crate) fn parent(words: &[String]) {
    let (count, at_once): (u32, u32) = (words[0].parse().unwrap(), words[1].parse().unwrap());
    // ch-run does not start without it.
    let user = std::env::var_os("USER").unwrap_or_else(|| "root".into());
    let spawn = || Command::new(&words[2]).args(&words[3..]).env("USER", &user).spawn().unwrap();
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

/// Lets so many parents spawn so many children each, so many of them at once, and states how long that took.
pub(crate) fn parents(parents: u32, each: u32, at_once: u32, words: &[&str]) -> Duration {
    let began = Instant::now();
    let program = std::env::current_exe().unwrap();
    let numbers = [each.to_string(), at_once.to_string()];
    let start = |_| Command::new(&program).arg(COMMAND).args(&numbers).args(words).spawn().unwrap();
    let running: Vec<Child> = (0..parents).map(start).collect();
    for mut parent in running {
        assert!(parent.wait().unwrap().success());
    }
    began.elapsed()
}
