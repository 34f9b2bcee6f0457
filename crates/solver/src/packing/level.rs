//! The highest level that all demands allow: a linear program over classes, and cuts.
//!
//! A variable is the time that all jobs of a class (or pairs of two classes) together spend on a type. Rows are the time
//! of each class, the devices of each type, and for each class that its jobs get what they need at the level.
//!
//! If the jobs of a class need the same, one row states that: together they get what they need together, and sharing evenly does the rest.
//! If they need different things, no job may have more than its whole time, so a job that needs much must have the fast
//! combinations. There is a way to deal out the combinations exactly if for every speed `θ` the needs above `θ` fit into
//! the speeds above `θ`: `Σ max(need - θ, 0) ≤ Σ time × max(speed - θ, 0)` (increasing convex order; the smallest is at a speed that is
//! in use, as the difference is concave in between). Such a row is added when it is violated, for the jobs with a need above `θ`.
//! Needs are convex in the level, so a tangent stands for them: rows never cut off what is possible.
//!
//! Pairs within one class are spread evenly over its jobs, so they count for a part of the jobs by that part.

use super::classes::Class;
use super::simplex::{Columns, Simplex, Stop};
use super::{Demand, Program};

/// Rounds of cuts; each brings the level closer by a multiple.
const ROUNDS: usize = 200;
/// How much a need or level may be missed by, relative.
const MISSED: f64 = 2e-9;

/// A class, alone or beside another, on a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Combination {
    pub(super) class: usize,
    pub(super) partner: Option<usize>,
    pub(super) device_type: usize,
    /// Speed of the class, and of the partner, relative to their scales.
    pub(super) speed: f64,
    pub(super) partner_speed: f64,
}

/// That some jobs of a class get what they need above a speed.
struct Cut {
    class: usize,
    row: usize,
    above: f64,
    jobs: Vec<usize>,
    /// Part of the class.
    part: f64,
    /// What they need more per level, what they need less above that, and the unit of the row.
    slope: f64,
    rhs: f64,
    unit: f64,
}

pub(super) struct Level<'a> {
    program: &'a Program<'a>,
    classes: &'a [Class],
    /// Per job, relative to its class's scale and the unit of levels.
    demands: Vec<Demand>,
    combinations: Vec<Combination>,
    cuts: Vec<Cut>,
    /// Per class.
    cuts_of: Vec<Vec<usize>>,
}

/// The time of each combination that is used.
pub(super) type Usage = Vec<(Combination, f64)>;

impl Columns for Level<'_> {
    fn count(&self) -> usize {
        1 + self.combinations.len()
    }

    fn dot(&self, column: usize, prices: &[f64]) -> f64 {
        if column == 0 {
            return self.cuts.iter().map(|cut| prices[cut.row] * cut.slope / cut.unit).sum();
        }
        let Combination { class, partner, device_type, speed, partner_speed } = self.combinations[column - 1];
        let devices = f64::from(self.classes[class].devices) * prices[self.classes.len() + device_type];
        match partner {
            None => prices[class] + devices - self.worth(class, speed, prices),
            Some(other) if other == class => {
                let worth =
                    |cut: &usize| prices[self.cuts[*cut].row] * self.even_worth(&self.cuts[*cut], speed);
                2.0 * prices[class] + devices - self.cuts_of[class].iter().map(worth).sum::<f64>()
            }
            Some(other) => {
                let worth = self.worth(class, speed, prices) + self.worth(other, partner_speed, prices);
                prices[class] + prices[other] + devices - worth
            }
        }
    }

    fn entries(&self, column: usize, into: &mut Vec<(usize, f64)>) {
        if column == 0 {
            into.extend(self.cuts.iter().map(|cut| (cut.row, cut.slope / cut.unit)));
            return;
        }
        let Combination { class, partner, device_type, speed, partner_speed } = self.combinations[column - 1];
        into.push((self.classes.len() + device_type, f64::from(self.classes[class].devices)));
        let within = partner == Some(class);
        into.push((class, if within { 2.0 } else { 1.0 }));
        for cut in self.cuts_of[class].iter().map(|&index| &self.cuts[index]) {
            let worth = if within { self.even_worth(cut, speed) } else { cut.worth(speed) };
            into.push((cut.row, -worth));
        }
        if let Some(other) = partner.filter(|_| !within) {
            into.push((other, 1.0));
            into.extend(
                self.cuts_of[other]
                    .iter()
                    .map(|&cut| (self.cuts[cut].row, -self.cuts[cut].worth(partner_speed))),
            );
        }
    }
}

impl Cut {
    fn worth(&self, speed: f64) -> f64 {
        (speed - self.above).max(0.0) / self.unit
    }
}

impl<'a> Level<'a> {
    /// `unit` is a level of about the right size, below all poles of the demands.
    pub(super) fn new(program: &'a Program<'a>, classes: &'a [Class], demands: &[Demand], unit: f64) -> Self {
        let mut scaled = demands.to_vec();
        for class in classes {
            for &job in &class.jobs {
                let demand = &demands[job];
                scaled[job] = Demand {
                    fixed: demand.fixed / class.scale,
                    amount: demand.amount * unit / class.scale,
                    elapsed: demand.elapsed * unit,
                };
            }
        }
        let mut level = Self {
            program,
            classes,
            demands: scaled,
            combinations: Vec::new(),
            cuts: Vec::new(),
            cuts_of: vec![Vec::new(); classes.len()],
        };
        for class in 0..classes.len() {
            level.combine(class);
        }
        level
    }

    fn worth(&self, class: usize, speed: f64, prices: &[f64]) -> f64 {
        self.cuts_of[class].iter().map(|&cut| prices[self.cuts[cut].row] * self.cuts[cut].worth(speed)).sum()
    }

    /// Of a pair within a class, spread evenly: also a speed below the cut's counts, because these jobs cannot avoid it.
    fn even_worth(&self, cut: &Cut, speed: f64) -> f64 {
        2.0 * cut.part * (speed - cut.above) / cut.unit
    }

    /// All combinations of a class with itself and those after it.
    fn combine(&mut self, class: usize) {
        let of = &self.classes[class];
        for device_type in (0..self.program.types()).filter(|&index| self.program.capacities[index] > 0.0) {
            let alone = self.program.speed(of.kind, device_type);
            let single = Combination {
                class,
                partner: None,
                device_type,
                speed: alone / of.scale,
                partner_speed: 0.0,
            };
            if alone > 0.0 {
                self.combinations.push(single);
            }
            for (partner, other) in self.classes.iter().enumerate().skip(class) {
                if other.devices != of.devices || (partner == class && of.jobs.len() < 2) {
                    continue;
                }
                let speed = self.program.speed_beside(of.kind, other.kind, device_type);
                let partner_speed = self.program.speed_beside(other.kind, of.kind, device_type);
                // Taking turns alone gives both as much and leaves them time, so slower pairs are of no use.
                let turns = speed / alone + partner_speed / self.program.speed(other.kind, device_type);
                if speed > 0.0 && partner_speed > 0.0 && turns > 1.0 {
                    let (speed, partner_speed) = (speed / of.scale, partner_speed / other.scale);
                    self.combinations.push(Combination {
                        partner: Some(partner),
                        speed,
                        partner_speed,
                        ..single
                    });
                }
            }
        }
    }

    /// Times and devices, a little less than there is: equal rows would make the method go in circles, and rounding must not
    /// make shares exceed them.
    fn rhs(&self) -> Vec<f64> {
        let classes = self.classes.iter().map(|class| class.jobs.len() as f64);
        let all = classes.chain(self.program.capacities.iter().map(|capacity| capacity.max(0.0)));
        let less =
            |(row, amount): (usize, f64)| amount * (1.0 - 1e-9 * (0.5 + (row as f64 * 0.618_034).fract()));
        let rows = all.enumerate().map(less);
        rows.chain(self.cuts.iter().map(|cut| cut.rhs)).collect()
    }

    /// A program with one row of needs per class, at its best.
    pub(super) fn start(&mut self) -> Result<Simplex, Stop> {
        for class in 0..self.classes.len() {
            self.cut(class, 0.0, self.classes[class].jobs.clone(), 1.0);
        }
        self.cut_hardest();
        let mut simplex = self.begin_anew(0);
        self.climb(&mut simplex)?;
        Ok(simplex)
    }

    /// That the job which is the first to need all of its time at its best speed has no more than that. Classes do not
    /// state this, and levels beyond need tangents that lead astray.
    fn cut_hardest(&mut self) {
        let jobs = self
            .classes
            .iter()
            .enumerate()
            .flat_map(|(index, class)| class.jobs.iter().map(move |&job| (index, job)));
        let limits = jobs.map(|(class, job)| (self.demands[job].reached(1.0), class, job));
        let first = limits.min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((level, class, job)) = first.filter(|(level, ..)| level.is_finite()) {
            self.cut(class, 1.0, vec![job], level);
        }
    }

    /// The program before anything is used, but for one combination per class, so that the level can rise at once.
    fn begin_anew(&self, pivots: usize) -> Simplex {
        let jobs: usize = self.classes.iter().map(|class| class.jobs.len()).sum();
        // Together all jobs can gain a hundred-millionth of a level.
        let tolerance = 1e-8 / jobs.max(1) as f64;
        let mut simplex = Simplex::new(self, self.rhs(), tolerance, self.program.pivots, pivots);
        let mut best: Vec<Option<(f64, usize)>> = vec![None; self.classes.len()];
        for (index, of) in self.combinations.iter().enumerate().filter(|(_, of)| of.partner.is_none()) {
            let worth = of.speed * self.program.capacities[of.device_type];
            if best[of.class].is_none_or(|(other, _)| worth > other) {
                best[of.class] = Some((worth, 1 + index));
            }
        }
        for (class, best) in best.iter().enumerate() {
            let cut = self.cuts_of[class].iter().map(|&index| &self.cuts[index]).find(|cut| cut.rhs == 0.0);
            if let (Some((_, column)), Some(cut)) = (best, cut) {
                simplex.crash(self, *column, cut.row);
            }
        }
        simplex
    }

    /// Writes down that some jobs of a class get what they need above a speed, by the tangents at a level.
    fn cut(&mut self, class: usize, above: f64, jobs: Vec<usize>, at: f64) -> Option<f64> {
        let slope: f64 = jobs.iter().map(|&job| self.demands[job].slope(at)).sum();
        let intercept: f64 = jobs.iter().map(|&job| self.demands[job].intercept(at)).sum();
        // Rows in units of levels, so that small classes are as exact as large ones.
        let unit = slope.max(intercept);
        if unit <= 0.0 {
            return None;
        }
        let part = jobs.len() as f64 / self.classes[class].jobs.len() as f64;
        let row = self.classes.len() + self.program.types() + self.cuts.len();
        let rhs = (above * jobs.len() as f64 - intercept) / unit;
        self.cuts_of[class].push(self.cuts.len());
        self.cuts.push(Cut { class, row, above, jobs, part, slope, rhs, unit });
        Some(rhs)
    }

    /// Solves, and adds cuts until nothing is violated.
    fn climb(&mut self, simplex: &mut Simplex) -> Result<(), Stop> {
        simplex.primal(self)?;
        let jobs = self.classes.iter().flat_map(|class| &class.jobs);
        let demands = jobs.map(|&job| &self.demands[job]).filter(|demand| demand.amount > 0.0);
        let pole = demands.map(|demand| 1.0 / demand.elapsed).fold(f64::INFINITY, f64::min);
        let mut low = 0.0;
        for _ in 0..ROUNDS {
            let level = simplex.objective();
            // Beyond the pole there are no tangents.
            let at = if level < pole * (1.0 - 1e-9) { level } else { 0.5 * (low + pole) };
            low = at;
            if self.separate(simplex, at) == 0 {
                if at == level {
                    return Ok(());
                }
                continue;
            }
            if simplex.dual(self).is_err() {
                // The dual method can go in circles. The primal one has not been seen to, but must begin again.
                if self.cuts.iter().any(|cut| cut.rhs < 0.0) {
                    return Err(Stop::Broken);
                }
                *simplex = self.begin_anew(simplex.pivots());
            }
            simplex.primal(self)?;
            self.drop_superseded(simplex);
        }
        Err(Stop::Limit)
    }

    /// Drops cuts that do not bind and have a later one above the same speed: tangents at levels that were too high.
    fn drop_superseded(&mut self, simplex: &mut Simplex) {
        for index in (0..self.cuts.len()).rev() {
            let Cut { class, row, above, .. } = self.cuts[index];
            let later = &self.cuts[index + 1..];
            if simplex.is_slack(row) && later.iter().any(|cut| cut.class == class && cut.above == above) {
                simplex.remove_row(row);
                self.cuts.remove(index);
                for cut in &mut self.cuts[index..] {
                    cut.row -= 1;
                }
            }
        }
        for cuts in &mut self.cuts_of {
            cuts.clear();
        }
        for (index, cut) in self.cuts.iter().enumerate() {
            self.cuts_of[cut.class].push(index);
        }
    }

    /// Fixes the needs of all who cannot have more, and climbs on with the others; whether there are any.
    pub(super) fn fill(&mut self, simplex: &mut Simplex) -> Result<bool, Stop> {
        let (level, prices) = (simplex.objective(), simplex.prices());
        for demand in &mut self.demands {
            // A little less, so that rounding does not make the present point impossible.
            demand.fixed = demand.at(level) * (1.0 - 1e-10);
        }
        // A need with a price cannot be raised without lowering another.
        for cut in self.cuts.iter().filter(|cut| prices[cut.row] * cut.slope / cut.unit > 1e-9) {
            for &job in &cut.jobs {
                self.demands[job].amount = 0.0;
            }
        }
        for cut in &mut self.cuts {
            cut.slope = cut.jobs.iter().map(|&job| self.demands[job].amount).sum();
            let fixed: f64 = cut.jobs.iter().map(|&job| self.demands[job].fixed).sum();
            cut.rhs = (cut.above * cut.jobs.len() as f64 - fixed) / cut.unit;
        }
        if self.cuts.iter().all(|cut| cut.slope == 0.0) {
            return Ok(false);
        }
        simplex.rebase(self, self.rhs())?;
        self.climb(simplex)?;
        Ok(true)
    }

    /// What each job needs at a level, relative to its class's scale.
    pub(super) fn needs(&self, level: f64) -> Vec<f64> {
        self.demands.iter().map(|demand| demand.at(level)).collect()
    }

    /// The times that are used.
    pub(super) fn usage(&self, simplex: &Simplex) -> Usage {
        let used = simplex.solution().filter(|&(column, time)| column > 0 && time > 1e-13);
        used.map(|(column, time)| (self.combinations[column - 1], time)).collect()
    }

    /// Adds the most violated row of each class; then how many there were.
    fn separate(&mut self, simplex: &mut Simplex, at: f64) -> usize {
        let mut used: Vec<Supply> = self.classes.iter().map(|_| Supply::default()).collect();
        for (combination, time) in self.usage(simplex) {
            let Combination { class, partner, speed, partner_speed, .. } = combination;
            if partner == Some(class) {
                let share = 2.0 * time / self.classes[class].jobs.len() as f64;
                used[class].even_time += share;
                used[class].even_speed += share * speed;
            } else {
                used[class].free.push((speed, time));
                if let Some(other) = partner {
                    used[other].free.push((partner_speed, time));
                }
            }
        }
        let mut found = 0;
        for (class, supply) in used.iter().enumerate() {
            if let Some((above, jobs)) = self.violated(class, supply, at)
                && let Some(rhs) = self.cut(class, above, jobs, at)
            {
                simplex.add_row(self, rhs);
                found += 1;
            }
        }
        found
    }

    fn violated(&self, class: usize, supply: &Supply, at: f64) -> Option<(f64, Vec<usize>)> {
        let class = &self.classes[class];
        let speeds = supply.free.iter().filter(|_| !class.even).map(|(speed, _)| *speed);
        let mut worst: (f64, Option<(f64, Vec<usize>)>) = (0.0, None);
        for above in std::iter::once(0.0).chain(speeds) {
            let threshold = supply.even_speed + above * (1.0 - supply.even_time);
            let needs = |&job: &usize| self.demands[job].at(at) > threshold;
            let jobs: Vec<usize> = class.jobs.iter().copied().filter(needs).collect();
            if jobs.is_empty() {
                continue;
            }
            let needed: f64 = jobs.iter().map(|&job| self.demands[job].at(at)).sum();
            let given: f64 = supply.free.iter().map(|(speed, time)| time * (speed - above).max(0.0)).sum();
            // Near a pole a need says little, but a level says a need.
            let slope: f64 = jobs.iter().map(|&job| self.demands[job].slope(at)).sum();
            let missing = (needed - threshold * jobs.len() as f64 - given) / needed.max(slope * at);
            if missing > MISSED && missing > worst.0 {
                worst = (missing, Some((above, jobs)));
            }
        }
        worst.1
    }
}

/// What the jobs of a class get.
#[derive(Default)]
struct Supply {
    /// Speed and time of what can be dealt out freely.
    free: Vec<(f64, f64)>,
    /// What every job gets from pairs within the class.
    even_time: f64,
    even_speed: f64,
}
