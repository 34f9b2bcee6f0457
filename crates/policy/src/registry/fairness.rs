//! Policies that give everybody a fair share.

use wharf_perf::Sharing;

use super::priority::is_positive;
use super::{KnobInfo, PolicyInfo};
use crate::themis::Themis;

pub(super) const THEMIS: PolicyInfo = PolicyInfo {
    name: "themis",
    summary: "finish-time fairness: devices are leased, the worst-off jobs are offered them first",
    paper: "Mahajan et al., Themis, NSDI'20",
    explanation: "A job's finish-time fairness is the time it will have taken if it runs from now on, divided by the time it \
        would have taken with its fair share of the cluster (devices / jobs) from the beginning. Devices are leased; leases \
        end at common boundaries. Then the worst-off jobs, a fraction of 1 - fairness_knob of those who wait or whose lease \
        is over, are offered free devices and the devices of those who are not among them. Who is not outbid keeps its \
        devices without a restart. What is left goes to waiting jobs, the worst-off first, at boundaries and in between.\n\n\
        The paper holds an auction in which applications bid with fairness values for many sizes of allocations, and \
        hides some of the gain to make bids truthful. Here jobs are rigid gangs and durations are known, so that a \
        bid is all or nothing, and the auction comes down to serving the invited jobs in order of need.",
    knobs: &[
        KnobInfo {
            name: "lease_s",
            values: "seconds",
            default: "1200",
            help: "how long devices are leased: the time between two boundaries",
        },
        KnobInfo {
            name: "fairness_knob",
            values: "0..1",
            default: "0.8",
            help: "the share of jobs that is not invited; larger is fairer, smaller gives more choice",
        },
    ],
    slots: 1,
    sharing: Sharing::None,
    build: |args| {
        let lease_s = args.settings.parsed("lease_s", 1200.0, "seconds above 0", is_positive)?;
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        let knob = args.settings.parsed("fairness_knob", 0.8, "a number from 0 to 1", is_share)?;
        Ok(Box::new(Themis::new(lease_s, knob, args.placer())))
    },
};
