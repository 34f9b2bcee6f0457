//! Places for many jobs: machines of one type at one position are one group.

use super::{Method, Place, Placement, Queues};

pub(super) fn places(queues: &Queues<'_>) -> Placement {
    Placement { places: name_machines(queues, &greedy(queues)), method: Method::Greedy }
}

/// Jobs from the longest to the shortest, each where it costs least; per job its type and position.
fn greedy(queues: &Queues<'_>) -> Vec<Option<(usize, usize)>> {
    let types = queues.machines.len();
    let shortest =
        |job: usize| (0..types).map(|kind| queues.duration_s(job, kind)).fold(f64::INFINITY, f64::min);
    let mut order: Vec<usize> = (0..queues.jobs()).collect();
    order.sort_by(|&a, &b| shortest(b).total_cmp(&shortest(a)));
    let mut filled = vec![0; types];
    let mut groups = vec![None; queues.jobs()];
    for job in order {
        let open = (0..types).filter(|&kind| queues.machines[kind] > 0);
        let cost =
            |kind: usize| (filled[kind] / queues.machines[kind] + 1) as f64 * queues.duration_s(job, kind);
        if let Some(kind) = open.min_by(|&a, &b| cost(a).total_cmp(&cost(b))) {
            groups[job] = Some((kind, filled[kind] / queues.machines[kind]));
            filled[kind] += 1;
        }
    }
    groups
}

/// Gives the jobs of each group different machines, in the order of the jobs.
fn name_machines(queues: &Queues<'_>, groups: &[Option<(usize, usize)>]) -> Vec<Option<Place>> {
    let mut first_machine = vec![0];
    for count in queues.machines {
        first_machine.push(first_machine[first_machine.len() - 1] + count);
    }
    let mut used: Vec<Vec<usize>> = vec![Vec::new(); queues.machines.len()];
    let mut name = |(device_type, position): (usize, usize)| {
        let used = &mut used[device_type];
        used.resize(used.len().max(position + 1), 0);
        let machine = first_machine[device_type] + used[position];
        used[position] += 1;
        Place { device_type, machine, position }
    };
    groups.iter().map(|group| group.map(&mut name)).collect()
}
