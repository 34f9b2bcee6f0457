//! Policies that work out shares of time and hand them out in rounds.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use wharf_perf::Sharing;

use super::priority::{MIN_RUN, is_not_negative, is_positive, min_run_s};
use super::{BuildArgs, KnobInfo, PolicyInfo};
use crate::fractional::allocate::{Fifo, FifoChoice, Gandiva, Isolated};
use crate::fractional::{Allocator, Fractional, RoundOptions};
use crate::settings::BadSetting;

const GAVEL: &str = "Narayanan et al., Gavel, OSDI'20";

const ROUND: KnobInfo = KnobInfo {
    name: "lease_s",
    values: "seconds",
    default: "360",
    help: "how long devices are leased: the time between two rounds",
};

const STICKY: KnobInfo = KnobInfo {
    name: "sticky_s",
    values: "seconds",
    default: "60",
    help: "how much more than a running job somebody must be owed before that has to stop",
};

const ROUNDS: &[KnobInfo] = &[ROUND, STICKY, MIN_RUN];

fn build(
    args: &BuildArgs<'_>,
    allocator: Box<dyn Allocator>,
) -> Result<Box<dyn wharf_core::Policy>, BadSetting> {
    let settings = args.settings;
    let options = RoundOptions {
        round_s: settings.parsed("lease_s", 360.0, "seconds above 0", is_positive)?,
        min_run_s: min_run_s(settings)?,
        sticky_s: settings.parsed("sticky_s", 60.0, "seconds, 0 or more", is_not_negative)?,
    };
    Ok(Box::new(Fractional::new(allocator, options, args.placer())))
}

fn rng(args: &BuildArgs<'_>) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(args.seed)
}

pub(super) const GAVEL_FIFO: PolicyInfo = PolicyInfo {
    name: "gavel/fifo",
    summary: "strict order of submission on any device type that has room, by lot",
    paper: GAVEL,
    explanation: "Jobs are taken in the order of their submission. Each gets a device type that has enough free devices, by \
        lot, and keeps it until it is done. The first that fits nowhere holds up all that come after it. What devices \
        of different types are worth to a job is not looked at: this is what the policies that know it are compared with.",
    knobs: ROUNDS,
    slots: 1,
    sharing: Sharing::None,
    build: |args| build(args, Box::new(Fifo(FifoChoice::Any(Box::new(rng(args)))))),
};

pub(super) const FIFO_PERF: PolicyInfo = PolicyInfo {
    name: "fifo-perf",
    summary: "strict order of submission, each job on the free device type that is fastest for it",
    paper: GAVEL,
    explanation: "As gavel/fifo, but a job gets the type with enough free devices on which it is fastest.",
    knobs: ROUNDS,
    slots: 1,
    sharing: Sharing::None,
    build: |args| build(args, Box::new(Fifo(FifoChoice::Fastest))),
};

pub(super) const FIFO_PACKED: PolicyInfo = PolicyInfo {
    name: "fifo-packed",
    summary: "as fifo-perf, and where no device is free a job shares those of one that it goes well with",
    paper: GAVEL,
    explanation: "As fifo-perf. A job for which no type has room shares the devices of a running job with as many devices, if \
        both together get at least half as much more done as one after the other: with the one that it gains most with.",
    knobs: ROUNDS,
    slots: 2,
    sharing: Sharing::Interference,
    build: |args| build(args, Box::new(Fifo(FifoChoice::Packed))),
};

pub(super) const ISOLATED: PolicyInfo = PolicyInfo {
    name: "isolated",
    summary: "every job gets an equal part of every device type, whatever it makes of it",
    paper: GAVEL,
    explanation: "With n jobs each gets 1/n of the devices of each type, divided by its gang, as a share of time. It is what \
        finish-time fairness compares with. Rounds hand out devices in proportion; what is left over goes to whoever can use it.",
    knobs: ROUNDS,
    slots: 1,
    sharing: Sharing::None,
    build: |args| build(args, Box::new(Isolated)),
};

pub(super) const GANDIVA: PolicyInfo = PolicyInfo {
    name: "gandiva",
    summary: "where devices are short, random pairs of jobs share them, and stay together if that pays",
    paper: "Xiao et al., Gandiva, OSDI'18; restated in Gavel, OSDI'20",
    explanation: "As long as there are devices for all, every job gets an equal part of every type. Where there are not, jobs \
        with equal gangs are paired by lot, until the devices do; a pair is kept as long as both together get more done than one \
        after the other. Singles and pairs get equal parts. Gandiva itself also packs by utilisation, migrates and grows jobs; \
        this is the part that Gavel compares with.",
    knobs: ROUNDS,
    slots: 2,
    sharing: Sharing::Interference,
    build: |args| build(args, Box::new(Gandiva::new(rng(args)))),
};
