//! Parallel plans in a profile: under which plan a speed holds, and what plain data parallelism makes.

use wharf_core::Plan;

use super::{Entry, Locality, Place, Profile, TypeId, Workload, WorkloadId};

/// What is known of the plans of a workload in a place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Planned {
    /// The plan that the speed holds for.
    plan: Option<Plan>,
    /// The speed where the gang is divided by samples only.
    data_parallel: Option<Entry>,
}

impl Profile {
    /// Notes the plan that the speed of a workload in a place holds for.
    pub fn insert_plan(&mut self, workload: Workload, place: Place, plan: Plan) {
        self.planned(workload, place).plan = Some(plan);
    }

    /// Notes the speed of a workload that is divided by samples only.
    pub fn insert_data_parallel(&mut self, workload: Workload, place: Place, entry: Entry) {
        self.planned(workload, place).data_parallel = Some(entry);
    }

    fn planned(&mut self, workload: Workload, place: Place) -> &mut Planned {
        let tables = std::sync::Arc::make_mut(&mut self.0);
        let key = (tables.add_workload(workload), tables.add_place(place));
        tables.planned.entry(key).or_default()
    }

    /// The plan that the speed of a workload on so many devices holds for, where that is known.
    #[inline]
    pub fn plan(
        &self,
        workload: WorkloadId,
        device_type: TypeId,
        devices: u32,
        locality: Locality,
    ) -> Option<Plan> {
        let place = self.0.place(device_type, devices, locality)?;
        self.0.planned.get(&(workload.0, place))?.plan
    }

    /// The speed of a workload whose gang is divided by samples only, where that is known apart from its best plan.
    #[inline]
    pub fn data_parallel(
        &self,
        workload: WorkloadId,
        device_type: TypeId,
        devices: u32,
        locality: Locality,
    ) -> Option<Entry> {
        let place = self.0.place(device_type, devices, locality)?;
        self.0.planned.get(&(workload.0, place))?.data_parallel
    }

    /// All plans and data-parallel speeds, by workload and place.
    pub fn all_plans(&self) -> impl Iterator<Item = (&Workload, &Place, Option<Plan>, Option<Entry>)> {
        let tables = &*self.0;
        let mut all: Vec<_> = tables
            .planned
            .iter()
            .map(|(&(workload, place), known)| {
                let workload = &tables.workloads[workload as usize];
                (workload, &tables.places[place as usize], known.plan, known.data_parallel)
            })
            .collect();
        all.sort_by_key(|&(workload, place, ..)| (workload, place));
        all.into_iter()
    }
}

/// A plan in words: `pp2.dp4.tp1` is two pipeline stages, four copies of each, each on one device.
pub fn plan_name(plan: Plan) -> String {
    format!("pp{}.dp{}.tp{}", plan.stages, plan.data, plan.tensor)
}

/// The plan for so many devices that a text means; what it does not name is 1. Any other text is only a name.
pub fn parse_plan(text: &str, devices: u32) -> Option<Plan> {
    let mut degrees: [Option<u32>; 3] = [None; 3];
    for part in text.split('.') {
        let index = ["pp", "dp", "tp"].iter().position(|name| part.starts_with(name))?;
        let digits = &part[2..];
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let degree = digits.parse().ok().filter(|degree| is_number && *degree > 0)?;
        if degrees[index].replace(degree).is_some() {
            return None;
        }
    }
    let [stages, data, tensor] = degrees.map(|degree| degree.unwrap_or(1));
    let product = stages.checked_mul(data)?.checked_mul(tensor)?;
    (product == devices).then_some(Plan { stages, data, tensor })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_have_names_that_mean_them() {
        for (stages, data, tensor) in [(1, 1, 1), (2, 4, 1), (1, 16, 1), (4, 2, 8)] {
            let plan = Plan { stages, data, tensor };
            assert_eq!(parse_plan(&plan_name(plan), stages * data * tensor), Some(plan));
        }
        assert_eq!(parse_plan("dp4", 4), Some(Plan { stages: 1, data: 4, tensor: 1 }));
        assert_eq!(parse_plan("tp2.pp4", 8), Some(Plan { stages: 4, data: 1, tensor: 2 }));
    }

    #[test]
    fn other_texts_are_only_names() {
        for text in ["", "zero-3", "pp2-dp2", "dp", "dp0", "dp+4", "dp4.dp1", "pp4294967295.dp2", "dp8", "é"]
        {
            assert_eq!(parse_plan(text, 4), None, "{text}");
        }
    }
}
