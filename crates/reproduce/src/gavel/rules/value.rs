//! The largest sum of speeds for their price, of jobs and of pairs, with deadlines met: one program over groups of equal jobs.

use std::collections::BTreeMap;

use wharf_solver::lp::{Limits, Lp, Microlp, Relation, Solver};

use super::super::keys::Members;
use super::programs::deadline_demands;
use super::{Shares, Snapshot};

/// Jobs of one class without a deadline, or one job with one.
struct Group {
    class: u32,
    gang: u32,
    /// Places among the jobs in the system.
    jobs: Vec<usize>,
    demand: f64,
}

/// Time of a group, or of two, on a type: a column of the program.
struct Column {
    groups: [usize; 2],
    is_pair: bool,
    device_type: usize,
    speeds: [f64; 2],
}

/// Fills in the shares; false where deadlines could not be met, so that all are left out, or where nothing was found.
pub(super) fn fill(snapshot: &Snapshot<'_>, shares: &mut Shares) -> bool {
    let demands = deadline_demands(snapshot);
    let solved = solve(snapshot, &demands);
    let is_met = solved.is_some();
    let none = vec![0.0; demands.len()];
    if let Some((groups, columns, values)) = solved.or_else(|| solve(snapshot, &none)) {
        for (column, value) in columns.iter().zip(values) {
            spread(snapshot, &groups, column, value, shares);
        }
    }
    is_met
}

fn solve(snapshot: &Snapshot<'_>, demands: &[f64]) -> Option<(Vec<Group>, Vec<Column>, Vec<f64>)> {
    let groups = grouped(snapshot, demands);
    let columns = columns(snapshot, &groups);
    let workload = snapshot.workload;
    let price = |device_type: usize| workload.prices[device_type].unwrap_or(1.0);
    let mut program = Lp::new();
    for column in &columns {
        let speed = column.speeds[0] + if column.is_pair { column.speeds[1] } else { 0.0 };
        program.column(speed / price(column.device_type), 0.0, f64::INFINITY);
    }
    let terms = |coefficient: &dyn Fn(&Column) -> f64| -> Vec<(usize, f64)> {
        let all = columns.iter().enumerate().map(|(index, column)| (index, coefficient(column)));
        all.filter(|(_, value)| *value != 0.0).collect()
    };
    for (device_type, &capacity) in workload.capacities.iter().enumerate() {
        let gang = |column: &Column| f64::from(groups[column.groups[0]].gang);
        let row = terms(&|column| if column.device_type == device_type { gang(column) } else { 0.0 });
        program.row(&row, Relation::AtMost, f64::from(capacity));
    }
    for (index, group) in groups.iter().enumerate() {
        let members = |column: &Column| -> [bool; 2] {
            [column.groups[0] == index, column.is_pair && column.groups[1] == index]
        };
        let time = terms(&|column| members(column).into_iter().filter(|is_member| *is_member).count() as f64);
        program.row(&time, Relation::AtMost, group.jobs.len() as f64);
        if group.demand > 0.0 {
            let speed = |column: &Column| {
                let parts = members(column).into_iter().zip(column.speeds);
                parts.filter(|(is_member, _)| *is_member).map(|(_, speed)| speed).sum()
            };
            program.row(&terms(&speed), Relation::AtLeast, group.demand);
        }
    }
    let solution = Microlp.solve(&program, Limits::default()).optimal()?;
    Some((groups, columns, solution.values))
}

fn grouped(snapshot: &Snapshot<'_>, demands: &[f64]) -> Vec<Group> {
    let mut known: BTreeMap<u32, usize> = BTreeMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (place, (&job, &demand)) in snapshot.jobs.iter().zip(demands).enumerate() {
        let class = snapshot.workload.jobs[job as usize].class;
        match known.get(&class).filter(|_| demand == 0.0) {
            Some(&group) => groups[group].jobs.push(place),
            None => {
                if demand == 0.0 {
                    known.insert(class, groups.len());
                }
                groups.push(Group { class, gang: snapshot.gang(job), jobs: vec![place], demand });
            }
        }
    }
    groups
}

fn columns(snapshot: &Snapshot<'_>, groups: &[Group]) -> Vec<Column> {
    let workload = snapshot.workload;
    let mut columns = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        for (device_type, &speed) in workload.classes[group.class as usize].speeds.iter().enumerate() {
            if speed > 0.0 {
                columns.push(Column {
                    groups: [index; 2],
                    is_pair: false,
                    device_type,
                    speeds: [speed, 0.0],
                });
            }
        }
        for (other, partner) in groups.iter().enumerate().skip(index) {
            if partner.gang != group.gang || (other == index && group.jobs.len() < 2) {
                continue;
            }
            for (device_type, speeds) in
                workload.speeds_beside(group.class, partner.class).into_iter().enumerate()
            {
                if speeds[0] > 0.0 && speeds[1] > 0.0 {
                    columns.push(Column { groups: [index, other], is_pair: true, device_type, speeds });
                }
            }
        }
    }
    columns
}

/// Gives the time of a column to all jobs, or pairs of jobs, in equal parts.
fn spread(snapshot: &Snapshot<'_>, groups: &[Group], column: &Column, value: f64, shares: &mut Shares) {
    if value <= 0.0 {
        return;
    }
    let width = snapshot.workload.width();
    let [first, second] = column.groups.map(|group| &groups[group].jobs);
    if !column.is_pair {
        for &place in first {
            shares.singles[place * width + column.device_type] += value / first.len() as f64;
        }
        return;
    }
    let is_same = column.groups[0] == column.groups[1];
    let pairs: Vec<(usize, usize)> = first
        .iter()
        .flat_map(|&one| second.iter().map(move |&other| (one, other)))
        .filter(|(one, other)| !is_same || one < other)
        .collect();
    for &(one, other) in &pairs {
        let members: Members = [snapshot.jobs[one.min(other)], snapshot.jobs[one.max(other)]];
        let row = shares.pairs.entry(members).or_insert_with(|| vec![0.0; width]);
        row[column.device_type] += value / pairs.len() as f64;
    }
}
