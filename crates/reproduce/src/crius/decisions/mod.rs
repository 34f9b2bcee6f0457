//! The decisions of the simulator published with Crius (Arena), defects included, as code without accounting.
//!
//! A [`World`] holds what those decisions see: devices in the published order, jobs, queues. [`Rules`] change it: who runs where.
//! The caller, which keeps the clock and the books (the preset `crius` as published, or Wharf's own engine through an adapter) tells the rules
//! in rounds which jobs ended and which came. What is wrong with the published decisions is listed where they are made.

mod adjust;
mod crius;
mod elasticflow;
mod fcfs;
mod gandiva;
mod gavel;
mod job;
pub mod numbers;
mod query;
mod sia;
mod site;
mod table;
mod world;

pub use adjust::{Adjustment, Holder, adjust};
pub use job::{Job, Quota};
pub use query::{INFEASIBLE, Lookup, Mode, NEVER_S, Question, Source, doubling_shapes};
pub use site::{Kind, KindInfo, Shape, Site};
pub use table::{Owner, Share, Table};
pub use world::{Fixes, Options, Tuning, World};

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
    /// Decides by data parallelism alone, by default.
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

/// One of Crius's own.
const CRIUS: Variant = Variant {
    is_crius: true,
    force_dp: false,
    build: |_| Box::new(crius::Crius::new(crius::Flags::ALL)),
    ..BASELINE
};

/// All of them.
pub static VARIANTS: &[Variant] = &[
    Variant {
        name: "crius",
        summary: "shrinks, grows and moves jobs between types wherever the cluster's throughput gains; later jobs run while earlier ones wait",
        ..CRIUS
    },
    Variant {
        name: "crius-dp",
        summary: "the same; data parallelism only, if it fits the memory",
        force_dp: true,
        ..CRIUS
    },
    Variant {
        name: "crius-ns",
        summary: "the same; never changes the number of devices",
        build: |_| Box::new(crius::Crius::new(crius::Flags { can_scale: false, ..crius::Flags::ALL })),
        ..CRIUS
    },
    Variant {
        name: "crius-nh",
        summary: "the same; never changes the type of devices",
        build: |_| Box::new(crius::Crius::new(crius::Flags { can_change_type: false, ..crius::Flags::ALL })),
        ..CRIUS
    },
    Variant {
        name: "crius-no",
        summary: "the same; no job runs while an earlier one waits for the same type",
        build: |_| Box::new(crius::Crius::new(crius::Flags { has_opportunism: false, ..crius::Flags::ALL })),
        ..CRIUS
    },
    Variant { name: "crius-nm", summary: "meant to go without migration, and the same as `crius`", ..CRIUS },
    Variant {
        name: "crius-ddl",
        summary: "the same; gives a job only devices with which it meets its deadline",
        has_deadlines: true,
        ..CRIUS
    },
    Variant {
        name: "fcfs",
        summary: "first come, first served on the requested type, packed on the fewest nodes",
        ..BASELINE
    },
    Variant {
        name: "fcfs-r",
        summary: "the same; a job may also be spread over more nodes",
        build: |_| Box::new(fcfs::Fcfs { is_relaxed: true }),
        ..BASELINE
    },
    Variant {
        name: "gavel",
        summary: "the type for each job that maximizes the sum of throughputs, three changes at a time",
        build: |_| Box::<gavel::Gavel>::default(),
        ..BASELINE
    },
    Variant {
        name: "sia",
        summary: "type and number of devices for each new job by goodput, three changes at a time",
        build: |_| Box::<sia::Sia>::default(),
        ..BASELINE
    },
    Variant {
        name: "gandiva",
        summary: "the same; jobs are gathered on fewer nodes, and grow into idle devices of their node until another job needs them",
        build: |_| Box::<gandiva::Gandiva>::default(),
        ..BASELINE
    },
    Variant {
        name: "elasticflow",
        summary: "admits a job if all deadlines of its type hold, and doubles the job with the largest gain; places all jobs again",
        has_deadlines: true,
        build: |_| Box::<elasticflow::ElasticFlow>::default(),
        ..BASELINE
    },
    Variant {
        name: "elasticflow-l",
        summary: "the same, without a limit on solver time",
        is_loose: true,
        build: |_| Box::<elasticflow::ElasticFlow>::default(),
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
            // Of Crius's own only the one that knows nothing but data parallelism checks its memory.
            checks_memory: !self.is_crius || self.force_dp,
            has_deadlines: self.has_deadlines,
            ..options
        }
    }
}
