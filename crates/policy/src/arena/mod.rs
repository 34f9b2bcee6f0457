//! The decisions of the simulator published with Crius (Arena), defects included, as code without accounting.
//!
//! A [`World`] holds what those decisions see: devices in the published order, jobs, queues. [`Rules`] change it: who runs where.
//! Whoever keeps the clock and the books (the preset `crius` as published, or Wharf's own engine through an adapter) tells the rules
//! in rounds which jobs ended and which came. What is wrong with the published decisions is listed where they are made.

mod fcfs;
mod job;
pub mod numbers;
mod query;
mod site;
mod table;
mod world;

pub use job::{Job, Quota};
pub use query::{INFEASIBLE, Lookup, Mode, NEVER_S, Question, Source, doubling_shapes};
pub use site::{Kind, KindInfo, Shape, Site};
pub use table::{Owner, Share, Table};
pub use world::{Options, Tuning, World};

/// What decides, in rounds.
pub trait Rules: Send {
    /// Comes before everything else of a round.
    fn before(&mut self, _world: &mut World) {}
    /// Jobs ended: `world.ended`, which still own their devices.
    fn on_ends(&mut self, world: &mut World);
    /// Jobs came: `world.submitted`. Each is put into a queue, or dropped.
    fn on_arrivals(&mut self, world: &mut World);
    /// Comes last, when the clock shows the next round.
    fn after(&mut self, _world: &mut World) {}
}

/// One of the published policies.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Its name under the preset.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Whether it is one of Crius's own, with a pruned tuning and without a look at data-parallel memory.
    pub is_crius: bool,
    /// Decides by data parallelism alone, unless told otherwise.
    pub force_dp: bool,
    /// Deadlines count.
    pub has_deadlines: bool,
    /// Jobs have all the time in the world.
    pub is_loose: bool,
    /// Makes one.
    pub build: fn(&Options) -> Box<dyn Rules>,
}

impl std::fmt::Debug for Variant {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// A policy that is none of Crius's own.
const BASELINE: Variant = Variant {
    name: "",
    summary: "",
    is_crius: false,
    force_dp: true,
    has_deadlines: false,
    is_loose: false,
    build: |_| Box::new(fcfs::Fcfs { is_relaxed: false }),
};

/// All of them.
pub static VARIANTS: &[Variant] = &[
    Variant {
        name: "fcfs",
        summary: "first come, first served on the type asked for, packed on as few nodes as hold a job",
        ..BASELINE
    },
    Variant {
        name: "fcfs-r",
        summary: "the same; a job may also lie on more nodes",
        build: |_| Box::new(fcfs::Fcfs { is_relaxed: true }),
        ..BASELINE
    },
];

impl Variant {
    /// The policy of that name, which may be qualified: `crius/fcfs`.
    pub fn find(name: &str) -> Option<&'static Self> {
        let name = name.strip_prefix("crius/").unwrap_or(name);
        VARIANTS.iter().find(|variant| variant.name == name)
    }

    /// Options with what this policy is.
    pub fn options(&self, options: Options) -> Options {
        Options {
            force_dp: self.force_dp,
            // Of Crius's own only the one that knows nothing but data parallelism looks at its memory.
            checks_memory: !self.is_crius || self.force_dp,
            has_deadlines: self.has_deadlines,
            ..options
        }
    }
}
