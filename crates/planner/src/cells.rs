//! Cells: the best plan for each device type, number of devices and number of stages, which is what Crius's scheduler chooses among;
//! and those of them that no other beats.

use crate::estimate::Estimate;

/// The best plan for each number of stages, by that number. Plans come as [`crate::plans`] has them; those that do not fit are left
/// out.
#[must_use]
pub fn cells(plans: &[Estimate]) -> Vec<&Estimate> {
    let mut best: Vec<&Estimate> = Vec::new();
    for plan in plans.iter().filter(|plan| plan.is_fitting) {
        if best.iter().all(|known| known.degrees.pipeline != plan.degrees.pipeline) {
            best.push(plan);
        }
    }
    best.sort_by_key(|plan| plan.degrees.pipeline);
    best
}

/// What a cell costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Devices.
    pub devices: u32,
    /// Seconds of an iteration, as far as is known: measured or corrected where it was.
    pub iteration_s: f64,
    /// Memory of the fullest device.
    pub memory_gib: f64,
}

/// Of cells of one device type, which are worth choosing: no other takes no more devices, time and memory, and less of one.
#[must_use]
pub fn efficient(cells: &[Cost]) -> Vec<bool> {
    let costs = |cell: &Cost| [f64::from(cell.devices), cell.iteration_s, cell.memory_gib];
    let is_beaten = |one: &Cost, other: &Cost| {
        let pairs = || costs(one).into_iter().zip(costs(other));
        pairs().all(|(own, theirs)| theirs <= own) && pairs().any(|(own, theirs)| theirs < own)
    };
    cells.iter().map(|one| !cells.iter().any(|other| is_beaten(one, other))).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::*;
    use crate::{Gang, Hardware, Options, families, plans};

    #[test]
    fn a_cell_is_the_best_of_its_stages_and_the_efficient_ones_are_not_beaten() {
        let model = families::find("gpt-2.6b").unwrap();
        let hardware = Hardware::builtin("a40").unwrap();
        let all: Vec<Vec<Estimate>> = [1, 2, 4, 8]
            .map(|devices| {
                let gang = Gang { devices, per_node: devices.min(2) };
                plans(&model, &hardware, gang, 256, Options::default()).unwrap()
            })
            .into();
        let found: Vec<&Estimate> = all.iter().flat_map(|plans| cells(plans)).collect();
        for plans in &all {
            for plan in plans.iter().filter(|plan| plan.is_fitting) {
                let same = |cell: &&&Estimate| {
                    (cell.degrees.devices(), cell.degrees.pipeline)
                        == (plan.degrees.devices(), plan.degrees.pipeline)
                };
                let cell = found.iter().find(same).unwrap();
                assert!(cell.iteration_s <= plan.iteration_s, "{plan:?}");
            }
        }
        let costs: Vec<Cost> = found
            .iter()
            .map(|plan| Cost {
                devices: plan.degrees.devices(),
                iteration_s: plan.iteration_s,
                memory_gib: plan.memory_gib,
            })
            .collect();
        let chosen = efficient(&costs);
        let fastest =
            found.iter().zip(&chosen).min_by(|one, two| one.0.iteration_s.total_cmp(&two.0.iteration_s));
        assert!(fastest.unwrap().1, "nothing is as fast");
        assert!(chosen.iter().any(|is_efficient| !is_efficient), "some are beaten");
        assert!(!efficient(&[costs[0], costs[0]]).contains(&false), "equals do not beat each other");
    }
}
