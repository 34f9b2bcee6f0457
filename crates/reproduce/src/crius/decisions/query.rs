//! How fast jobs run, asked once for every combination, so that a search can ask as often as it likes.

use std::collections::BTreeMap;

pub use wharf_perf::cells::{INFEASIBLE, Mode};

use super::site::{Kind, Shape};

/// Seconds of an iteration where a job cannot run.
pub const NEVER_S: f64 = 1e9;

/// Which figures, and whether a data-parallel copy must fit the memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which figures.
    pub mode: Mode,
    /// Whether memory counts.
    pub checks_memory: bool,
}

impl Question {
    /// What jobs are billed by: the best plan, whatever the memory.
    pub const BILLED: Self = Self { mode: Mode::Best, checks_memory: false };

    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::BILLED,
        Self { mode: Mode::Best, checks_memory: true },
        Self { mode: Mode::DataParallel, checks_memory: false },
        Self { mode: Mode::DataParallel, checks_memory: true },
    ];

    #[inline]
    fn index(self) -> usize {
        let mode = match self.mode {
            Mode::Best => 0,
            Mode::DataParallel => 2,
        };
        mode + usize::from(self.checks_memory)
    }
}

/// Something that knows how fast one workload runs.
pub trait Source {
    /// Samples per second; 0 or less where it cannot run.
    fn throughput(&self, question: Question, kind: Kind, shape: Shape) -> f64;
}

/// One more than the largest exponent of two that has a place in the dense part.
const SIDE: usize = 7;
const SHAPES: usize = SIDE * SIDE;

/// The answers for every workload.
#[derive(Clone, Debug)]
pub struct Lookup {
    kinds: usize,
    /// By workload, question, type and shape, for shapes of powers of two.
    dense: Vec<f64>,
    /// Other shapes.
    odd: BTreeMap<(u32, usize, Kind, Shape), f64>,
    workloads: u32,
}

impl Lookup {
    /// For a cluster of so many types.
    pub fn new(kinds: usize) -> Self {
        Self { kinds, dense: Vec::new(), odd: BTreeMap::new(), workloads: 0 }
    }

    /// Asks for a workload in all these shapes, on every type. What is not asked for now cannot run.
    pub fn add(&mut self, shapes: &[Shape], source: &dyn Source) -> u32 {
        let workload = self.workloads;
        self.workloads += 1;
        self.dense.resize(self.workloads as usize * self.row(), INFEASIBLE);
        for question in Question::ALL {
            for kind in (0..self.kinds).map(|kind| Kind(kind as u8)) {
                for &shape in shapes {
                    let throughput = source.throughput(question, kind, shape);
                    match self.index(workload, question, kind, shape) {
                        Some(index) => self.dense[index] = throughput,
                        None => {
                            self.odd.insert((workload, question.index(), kind, shape), throughput);
                        }
                    }
                }
            }
        }
        workload
    }

    fn row(&self) -> usize {
        Question::ALL.len() * self.kinds * SHAPES
    }

    #[inline]
    fn index(&self, workload: u32, question: Question, kind: Kind, shape: Shape) -> Option<usize> {
        if !shape.hosts.is_power_of_two() || !shape.per_host.is_power_of_two() {
            return None;
        }
        let (hosts, per_host) =
            (shape.hosts.trailing_zeros() as usize, shape.per_host.trailing_zeros() as usize);
        if hosts >= SIDE || per_host >= SIDE {
            return None;
        }
        let row = workload as usize * Question::ALL.len() + question.index();
        Some(((row * self.kinds) + kind.index()) * SHAPES + hosts * SIDE + per_host)
    }

    /// Samples per second; 0 or less where it cannot run.
    #[inline]
    pub fn throughput(&self, workload: u32, question: Question, kind: Kind, shape: Shape) -> f64 {
        match self.index(workload, question, kind, shape) {
            Some(index) => self.dense[index],
            None => {
                let key = (workload, question.index(), kind, shape);
                self.odd.get(&key).copied().unwrap_or(INFEASIBLE)
            }
        }
    }
}

/// All shapes of powers of two with at most so many devices.
pub fn doubling_shapes(devices_max: u32) -> Vec<Shape> {
    let powers = || (0..SIDE as u32).map(|exponent| 1 << exponent);
    powers()
        .flat_map(|hosts| powers().map(move |per_host| Shape { hosts, per_host }))
        .filter(|shape| shape.devices() <= devices_max)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Code;

    impl Source for Code {
        fn throughput(&self, question: Question, kind: Kind, shape: Shape) -> f64 {
            let index = question.index() as f64;
            1000.0 * index + 100.0 * f64::from(kind.0) + f64::from(shape.hosts * 10 + shape.per_host)
        }
    }

    #[test]
    fn every_combination_has_its_own_answer() {
        let mut lookup = Lookup::new(2);
        let mut shapes = doubling_shapes(16);
        assert_eq!(shapes.len(), 15);
        shapes.push(Shape { hosts: 3, per_host: 2 });
        assert_eq!((lookup.add(&shapes, &Code), lookup.add(&shapes, &Code)), (0, 1));
        for question in Question::ALL {
            for kind in [Kind(0), Kind(1)] {
                for &shape in &shapes {
                    let found = lookup.throughput(1, question, kind, shape);
                    assert_eq!(found, Code.throughput(question, kind, shape));
                }
            }
        }
        let unasked = Shape { hosts: 3, per_host: 3 };
        assert_eq!(lookup.throughput(0, Question::BILLED, Kind(0), unasked), INFEASIBLE);
    }
}
