//! From times of classes to shares of jobs.
//!
//! The jobs of an even class get equal parts of everything. Those of another class come by falling need, and each takes
//! the neighbouring speeds whose mean is just what it needs: of all ways to serve it that leaves the others the most
//! spread-out speeds, so every job that can be served is (the shadow of a point in a measure: Beiglböck and Juillet, 2016).

use super::Share;
use super::classes::Class;
use super::level::{Combination, Usage};

/// Shares below this are dropped: they are rounding.
const NOTHING: f64 = 1e-12;

/// Parts of a combination's time, in the order of a class's jobs.
type Parts = Vec<(usize, f64)>;

/// `needs` are of all jobs, relative to the scales of their classes.
pub(super) fn shares(classes: &[Class], usage: &Usage, needs: &[f64]) -> Vec<Share> {
    // Per combination the parts of both sides.
    let mut parts: Vec<[Parts; 2]> = usage.iter().map(|_| [Vec::new(), Vec::new()]).collect();
    for (index, class) in classes.iter().enumerate() {
        deal(index, class, usage, needs, &mut parts);
    }
    let mut shares = Vec::new();
    for ((combination, time), [mut own, mut other]) in usage.iter().zip(parts) {
        match combination.partner {
            None => shares.extend(own.iter().map(|&(job, share)| single(job, combination, share))),
            Some(partner) => {
                if partner == combination.class {
                    (own, other) = halves(&own, *time);
                }
                pair(&own, &other, combination, &mut shares);
            }
        }
    }
    shares.retain(|share| share.share > NOTHING);
    shares.sort_by_key(|share| (share.job, share.partner, share.device_type));
    shares
}

const fn single(job: usize, combination: &Combination, share: f64) -> Share {
    Share { job, partner: None, device_type: combination.device_type, share }
}

/// Part of a side of a combination, for the jobs of a class that have no window of time yet.
struct Slice {
    combination: usize,
    side: usize,
    speed: f64,
    time: f64,
}

/// Deals out what a class has to its jobs.
fn deal(index: usize, class: &Class, usage: &Usage, needs: &[f64], parts: &mut [[Parts; 2]]) {
    let count = class.jobs.len() as f64;
    let (mut even_time, mut even_speed) = (0.0, 0.0);
    let mut slices = Vec::new();
    for (number, (combination, time)) in usage.iter().enumerate() {
        let sides = [
            (combination.class == index).then_some(combination.speed),
            (combination.partner == Some(index)).then_some(combination.partner_speed),
        ];
        let within = sides.iter().all(Option::is_some);
        for (side, speed) in sides.into_iter().enumerate().filter_map(|(side, speed)| Some((side, speed?))) {
            if class.even || within {
                // Both sides of a pair within the class are dealt out as one, and halved later.
                if side == 0 || !within {
                    let part = if within { 2.0 * time / count } else { time / count };
                    even_time += part;
                    even_speed += part * speed;
                    parts[number][side] = class.jobs.iter().map(|&job| (job, part)).collect();
                }
            } else {
                slices.push(Slice { combination: number, side, speed, time: *time });
            }
        }
    }
    if !class.even {
        let mut needs: Vec<(usize, f64)> =
            class.jobs.iter().map(|&job| (job, needs[job] - even_speed)).collect();
        needs.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        deal_windows(&needs, slices, (1.0 - even_time).max(0.0), parts);
    }
}

fn deal_windows(needs: &[(usize, f64)], mut slices: Vec<Slice>, time: f64, parts: &mut [[Parts; 2]]) {
    // What is left over is idle time, which is as good as a speed of zero.
    let busy: f64 = slices.iter().map(|slice| slice.time).sum();
    let idle = (time * needs.len() as f64 - busy).max(0.0);
    slices.push(Slice { combination: usize::MAX, side: 0, speed: 0.0, time: idle });
    slices.sort_by(|a, b| a.speed.total_cmp(&b.speed));
    let mut left: f64 = slices.iter().map(|slice| slice.time).sum();
    for &(job, need) in needs {
        let length = time.min(left);
        let start = window(&slices, length, (left - length).max(0.0), need);
        take(&mut slices, start, length, |slice, share| {
            if slice.combination != usize::MAX {
                parts[slice.combination][slice.side].push((job, share));
            }
        });
        slices.retain(|slice| slice.time > 0.0);
        left -= length;
    }
}

/// Where a window of time begins whose speeds add up to a need, as far to the slow side as possible.
fn window(slices: &[Slice], length: f64, last: f64, need: f64) -> f64 {
    let speed_from = |start: f64| {
        let (mut begin, mut sum) = (0.0, 0.0);
        for slice in slices {
            let end = begin + slice.time;
            let common = end.min(start + length) - begin.max(start);
            sum += common.max(0.0) * slice.speed;
            begin = end;
        }
        sum
    };
    if speed_from(0.0) >= need {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, last);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if speed_from(middle) >= need { high = middle } else { low = middle }
    }
    high
}

/// Takes a window out of the slices.
fn take(slices: &mut [Slice], start: f64, length: f64, mut give: impl FnMut(&Slice, f64)) {
    let mut begin = 0.0;
    for slice in slices {
        let end = begin + slice.time;
        let common = end.min(start + length) - begin.max(start);
        if common > 0.0 {
            give(slice, common);
            slice.time -= common;
        }
        begin = end;
    }
}

/// Cuts a row of parts in two of equal time, so that no job is at the same place in both.
fn halves(parts: &Parts, time: f64) -> (Parts, Parts) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let mut begin = 0.0;
    for &(job, share) in parts {
        let before = (time - begin).clamp(0.0, share);
        if before > 0.0 {
            first.push((job, before));
        }
        if share > before {
            second.push((job, share - before));
        }
        begin += share;
    }
    (first, second)
}

/// Joins two rows of parts.
fn pair(own: &Parts, other: &Parts, combination: &Combination, shares: &mut Vec<Share>) {
    let (mut own, mut other) = (own.iter().copied(), other.iter().copied());
    let (mut left, mut right) = (own.next(), other.next());
    while let (Some((job, time)), Some((partner, partner_time))) = (left, right) {
        let share = time.min(partner_time);
        if job != partner {
            let (job, partner) = (job.min(partner), Some(job.max(partner)));
            shares.push(Share { job, partner, device_type: combination.device_type, share });
        }
        left = if time > share { Some((job, time - share)) } else { own.next() };
        right = if partner_time > share { Some((partner, partner_time - share)) } else { other.next() };
    }
}
