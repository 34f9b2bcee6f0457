//! Waiting until machines can be reached, each for itself.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Doing, Machine, Made, ProviderError, Waits};

/// A machine, and what its provider says of it.
pub(super) struct Seen {
    pub(super) machine: Machine,
    pub(super) state: String,
}

/// How machines are waited for.
pub(super) struct Waiting<'a> {
    /// Between two looks.
    pub(super) pause: Duration,
    /// How long at most.
    pub(super) limit: Duration,
    /// Who is told why one is not there yet; once for each reason.
    pub(super) waits: &'a Waits,
    /// Why one that is not seen will not come; `None` where it may just not be known everywhere yet.
    pub(super) unseen: Option<ProviderError>,
}

impl Waiting<'_> {
    /// Looks until nodes have machines, or will not have one.
    pub(super) async fn until_ready<'a>(
        &self,
        mut missing: Vec<String>,
        look: impl Fn() -> Doing<'a, Vec<Seen>>,
    ) -> Result<Made, ProviderError> {
        let start = Instant::now();
        let mut made = Made::new();
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        loop {
            let seen = look().await?;
            let is_late = start.elapsed() > self.limit;
            let mut waited_for = Vec::new();
            for name in missing {
                match self.of(&seen, &name) {
                    Ok(machine) if machine.is_ready() => made.push((name, Ok(machine))),
                    Err(Some(error)) => made.push((name, Err(error))),
                    other => {
                        let why = other.map_or_else(
                            |_| "its machine does not show up".to_owned(),
                            |machine| state(&seen, &machine),
                        );
                        if is_late {
                            let seconds = self.limit.as_secs();
                            made.push((name, Err(ProviderError::Late { seconds, why })));
                            continue;
                        }
                        if told.insert(name.clone(), why.clone()).as_ref() != Some(&why) {
                            (self.waits)(&name, why);
                        }
                        waited_for.push(name);
                    }
                }
            }
            if waited_for.is_empty() {
                return Ok(made);
            }
            missing = waited_for;
            tokio::time::sleep(self.pause).await;
        }
    }

    /// A node's machine; where there is none, why there will not be one.
    fn of(&self, seen: &[Seen], name: &str) -> Result<Machine, Option<ProviderError>> {
        let machine = seen.iter().map(|seen| &seen.machine).find(|machine| machine.name == name);
        machine.cloned().ok_or_else(|| self.unseen.clone())
    }
}

fn state(seen: &[Seen], machine: &Machine) -> String {
    let state = seen.iter().find(|seen| seen.machine.id == machine.id).map_or("", |seen| &seen.state);
    format!("{} is {state}", machine.id)
}
