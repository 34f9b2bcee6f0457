//! The performance model of Wharf's own rules.

use std::sync::Arc;

use wharf_core::{DeviceTypeId, Gang, JobSpec, Level, NodeShare, PerfModel, Plan, Topology};

use crate::analytic;
use crate::estimates::{Estimates, Expected, Where};
use crate::interference;
use crate::interleave::{GROUP_SIZE_MAX, Interleaving, Order, Stages};
use crate::opportunistic::{BOTH_OPPORTUNISTIC_FACTOR, iteration_beside_s};
use crate::profile::{Locality, Profile, Workload};
use crate::speed::{Source, Speed, Speeds, iteration_ratio, network_share};
use wharf_planner::families;

/// What happens to jobs on the same devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It does not come to that.
    None,
    /// They interleave their stages and advance in lockstep (Muri).
    Lockstep,
    /// Guaranteed jobs run as if alone, opportunistic ones in the gaps (AntMan).
    Opportunistic,
    /// Each slows the other down by a ratio (FFS, BSBF).
    Interference,
}

/// What disturbances cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Seconds from a launch to the first iteration.
    pub restart_s: f64,
    /// How much slower a gang is that is spread over many more nodes than it needs: 0.3 means up to 30 %.
    pub spread_slowdown: f64,
    /// How much slower a gang is whose nodes hang on several switches; twice as much where these belong to several blocks.
    pub switch_slowdown: f64,
    /// How much longer than its stages tell a group of two, three or four interleaved jobs takes.
    pub interleave_factors: [f64; GROUP_SIZE_MAX - 1],
}

/// Jobs run at the speed that the profile says, or their specs tell, less what spreading and sharing cost.
#[derive(Clone, Debug)]
pub struct Model {
    costs: Costs,
    sharing: Sharing,
    order: Order,
    checkpoint_interval_s: Option<f64>,
    known: Known,
    /// The planner's estimates for otherwise unknown models.
    estimates: Option<Arc<Estimates>>,
}

/// Where speeds come from, beside what jobs tell.
#[derive(Clone, Debug)]
enum Known {
    /// Nowhere.
    Nothing,
    /// A given profile.
    Given(Arc<Speeds>),
    /// The built-in profile, where it tells types apart. It is made when it is first needed.
    Builtin,
}

/// Where a job runs, as far as its speed depends on it.
#[derive(Clone, Copy)]
struct Spot<'a> {
    speeds: Option<&'a Speeds>,
    estimates: Option<&'a Estimates>,
    /// Where nodes are known.
    topology: Option<&'a Topology>,
    device_type: &'a str,
    devices: u32,
    locality: Locality,
    /// How much longer an iteration takes because its devices are spread, if not measured.
    apart: f64,
}

impl Model {
    /// A model with these costs, for a policy that shares devices in this way.
    pub fn new(costs: Costs, sharing: Sharing, order: Order) -> Self {
        Self { costs, sharing, order, checkpoint_interval_s: None, known: Known::Nothing, estimates: None }
    }

    /// The same model, where all jobs save their work every so often.
    #[must_use]
    pub fn with_checkpoints(self, interval_s: f64) -> Self {
        Self { checkpoint_interval_s: Some(interval_s), ..self }
    }

    /// The same model, where a profile states how fast jobs are, and the planner of models that it does not know. Beside a profile
    /// that knows nothing the planner is silent, too.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Self {
        let estimates = (!profile.is_empty()).then(|| Arc::new(Estimates::new(profile.clone())));
        Self { estimates, known: Known::Given(Arc::new(Speeds::new(profile))), ..self }
    }

    /// The same model, where the built-in profile states how types compare, in clusters that mix types that it knows. In
    /// others, what jobs tell holds for whatever type there is.
    #[must_use]
    pub fn with_builtin(self) -> Self {
        let estimates = Some(Arc::new(Estimates::new(Profile::default())));
        Self { known: Known::Builtin, estimates, ..self }
    }

    /// The speeds that count in a cluster.
    fn speeds_in(&self, topology: &Topology) -> Option<&Speeds> {
        match &self.known {
            Known::Nothing => None,
            Known::Given(speeds) => Some(speeds),
            Known::Builtin => {
                let is_mixed = analytic::is_mixed(topology.types().iter().map(|name| &**name));
                is_mixed.then(analytic::speeds)
            }
        }
    }

    /// Devices of a type on as few nodes as hold them.
    fn spot<'a>(&'a self, topology: &'a Topology, device_type: &'a str, devices: u32) -> Spot<'a> {
        Spot {
            speeds: self.speeds_in(topology),
            estimates: self.estimates.as_deref(),
            topology: Some(topology),
            device_type,
            devices,
            locality: Locality::Packed,
            apart: 1.0,
        }
    }

    /// Whether the planner may know a job's model.
    fn is_planned(&self, job: &JobSpec) -> bool {
        self.estimates.is_some()
            && job.batch_size.is_some()
            && job.model.as_deref().is_some_and(families::is_known)
    }

    /// How fast a job runs on devices of a type beside others, and who reports this.
    pub fn estimate(
        &self,
        job: &JobSpec,
        device_type: &str,
        devices: u32,
        locality: Locality,
        neighbours: &[&JobSpec],
    ) -> Speed {
        let apart = match locality {
            Locality::Packed => 1.0,
            Locality::Spread => 1.0 + self.costs.spread_slowdown,
        };
        let speeds = match &self.known {
            Known::Nothing => None,
            Known::Given(speeds) => Some(&**speeds),
            Known::Builtin => Some(analytic::speeds()),
        };
        let estimates = self.estimates.as_deref();
        let spot = Spot { speeds, estimates, topology: None, device_type, devices, locality, apart };
        self.speed_at(job, spot, neighbours)
    }

    fn speed_at(&self, job: &JobSpec, spot: Spot<'_>, neighbours: &[&JobSpec]) -> Speed {
        let alone = alone(job, spot);
        if neighbours.is_empty() || alone.iterations_per_s <= 0.0 {
            return alone;
        }
        if matches!(self.sharing, Sharing::None | Sharing::Interference)
            && let Some(beside) = beside(job, alone, spot, neighbours)
        {
            return beside;
        }
        let beside_s = self.beside_s(job, 1.0 / alone.iterations_per_s, spot, neighbours);
        Speed::estimated(1.0 / beside_s)
    }

    /// Seconds per iteration beside others by the model of the way in which they share.
    fn beside_s(&self, job: &JobSpec, alone_s: f64, spot: Spot<'_>, neighbours: &[&JobSpec]) -> f64 {
        match self.sharing {
            Sharing::Lockstep => alone_s.max(self.lockstep_s(job, neighbours) * pace(job, spot, neighbours)),
            Sharing::Opportunistic => opportunistic_s(job, alone_s, neighbours, pace(job, spot, neighbours)),
            Sharing::None | Sharing::Interference => alone_s * interference::slowdown(job, neighbours),
        }
    }

    /// Seconds per iteration of jobs that take turns; one after the other where their stages are not known.
    fn lockstep_s(&self, job: &JobSpec, neighbours: &[&JobSpec]) -> f64 {
        let members = || std::iter::once(job).chain(neighbours.iter().copied());
        let stages: Option<Vec<Stages>> = members().map(|member| member.stages.map(Stages::from)).collect();
        match stages {
            Some(stages) if stages.len() <= GROUP_SIZE_MAX => {
                let interleaving = Interleaving { resources: 4, factors: self.costs.interleave_factors };
                interleaving.iteration_s(&stages, job.iteration_ms / 1000.0, self.order)
            }
            _ => members().map(|member| member.iteration_ms / 1000.0).sum(),
        }
    }

    /// How much longer an iteration takes because of where the devices are, and whether there are more nodes than needed.
    fn apart(&self, topology: &Topology, placement: &[NodeShare]) -> (f64, Locality) {
        if placement.len() <= 1 {
            return (1.0, Locality::Packed);
        }
        let given: u32 = placement.iter().map(|share| share.devices.len()).sum();
        let largest = placement.iter().map(|share| topology.node(share.node).spec.devices).max().unwrap_or(1);
        // Tasks without devices are where they have CPUs: no number of nodes is too many for them.
        let needed = if given == 0 { placement.len() } else { given.div_ceil(largest.max(1)) as usize };
        let excess = placement.len().saturating_sub(needed) as f64 / placement.len() as f64;
        let across = match topology.span(placement) {
            Some(Level::Domain | Level::Node | Level::Rack) => 0.0,
            Some(Level::Block) => self.costs.switch_slowdown,
            None => 2.0 * self.costs.switch_slowdown,
        };
        let locality = if placement.len() > needed { Locality::Spread } else { Locality::Packed };
        (1.0 + self.costs.spread_slowdown * excess + across, locality)
    }

    /// Seconds per iteration on devices of one type, where the profile knows better than the job.
    fn profiled_s(&self, job: &JobSpec, spot: Spot<'_>, neighbours: &[&JobSpec]) -> Option<f64> {
        let speed = self.speed_at(job, spot, neighbours);
        let speed = if speed.iterations_per_s > 0.0 {
            speed
        } else {
            // It is said not to fit, and was placed there nevertheless: it runs as if by itself, or as it tells.
            alone(job, spot)
        };
        (speed.iterations_per_s > 0.0 && speed.source != Source::Told).then(|| 1.0 / speed.iterations_per_s)
    }
}

impl PerfModel for Model {
    fn iteration_s(
        &self,
        topology: &Topology,
        job: &JobSpec,
        placement: &[NodeShare],
        neighbours: &[&JobSpec],
    ) -> f64 {
        let (apart, locality) = self.apart(topology, placement);
        let given: u32 = placement.iter().map(|share| share.devices.len()).sum();
        let devices = if placement.is_empty() { job.gang.devices } else { given };
        let counts = iteration_ratio(job.gang.devices, devices, network_share(job));
        let alone_s = job.iteration_ms / 1000.0 * apart * counts;
        let speeds = self.speeds_in(topology);
        let spot = |device_type| Spot { locality, apart, ..self.spot(topology, device_type, devices) };
        let told_s =
            if neighbours.is_empty() { alone_s } else { self.beside_s(job, alone_s, spot(""), neighbours) };
        if speeds.is_none() && !self.is_planned(job) {
            return told_s;
        }
        let on = |device_type| self.profiled_s(job, spot(device_type), neighbours).unwrap_or(told_s);
        let mut slowest_s = None;
        let mut before = "";
        for share in placement {
            let device_type = &*topology.node(share.node).spec.device_type;
            if device_type != before {
                slowest_s = Some(on(device_type).max(slowest_s.unwrap_or(0.0)));
                before = device_type;
            }
        }
        slowest_s.or_else(|| speeds?.reference_of(job).map(|name| on(name))).unwrap_or(told_s)
    }

    fn speed(
        &self,
        topology: &Topology,
        job: &JobSpec,
        device_type: DeviceTypeId,
        devices: u32,
        neighbours: &[&JobSpec],
    ) -> f64 {
        let device_type = &*topology.types()[device_type.index()];
        if !job.gang.allows(device_type) {
            return 0.0;
        }
        self.speed_at(job, self.spot(topology, device_type, devices), neighbours).iterations_per_s
    }

    fn plan(
        &self,
        topology: &Topology,
        job: &JobSpec,
        device_type: DeviceTypeId,
        devices: u32,
    ) -> Option<Plan> {
        let name = &topology.types()[device_type.index()];
        if let Some(expected) = expected(job, self.spot(topology, name, devices)) {
            return expected.plan;
        }
        let profile = self.speeds_in(topology)?.profile();
        let workload = profile.workload(job.model.as_deref()?, job.batch_size)?;
        profile.plan(workload, profile.device_type(name)?, devices, Locality::Packed)
    }

    fn data_parallel_speed(
        &self,
        topology: &Topology,
        job: &JobSpec,
        device_type: DeviceTypeId,
        devices: u32,
    ) -> f64 {
        let name = &topology.types()[device_type.index()];
        if !job.gang.allows(name) {
            return 0.0;
        }
        if let Some(expected) = expected(job, self.spot(topology, name, devices)) {
            let share = expected.data_parallel / expected.iterations_per_s;
            let best = self.speed(topology, job, device_type, devices, &[]);
            return if share > 0.0 { best * share } else { 0.0 };
        }
        let profile = self.speeds_in(topology).map(Speeds::profile);
        let fits = profile.and_then(Profile::cells).and_then(|cells| {
            let workload =
                Workload { model: job.model.clone().unwrap_or_default(), batch_size: job.batch_size };
            // Where the memory of copies is known at all, what is not in the table does not fit.
            let is_known = cells.memory().next().is_some();
            is_known.then(|| cells.data_parallel_fits(&workload, name, devices).unwrap_or(false))
        });
        if fits == Some(false) {
            return 0.0;
        }
        let known = || {
            let profile = profile?;
            let workload = profile.workload(job.model.as_deref()?, job.batch_size)?;
            profile.data_parallel(workload, profile.device_type(name)?, devices, Locality::Packed)
        };
        // A table of memory counts more than an estimate that states that it does not fit.
        match known().filter(|entry| fits.is_none() || entry.iterations_per_s > 0.0) {
            Some(entry) => entry.iterations_per_s,
            None => self.speed(topology, job, device_type, devices, &[]),
        }
    }

    fn price_per_h(&self, topology: &Topology, device_type: DeviceTypeId) -> Option<f64> {
        let name = &topology.types()[device_type.index()];
        match &self.known {
            Known::Nothing => None,
            Known::Given(speeds) => speeds.profile().price(name),
            Known::Builtin => wharf_planner::devices::find(name).map(|device| device.price_per_h),
        }
    }

    fn restart_s(&self, _job: &JobSpec) -> f64 {
        self.costs.restart_s
    }

    fn checkpoint_interval_s(&self) -> Option<f64> {
        self.checkpoint_interval_s
    }
}

/// What a job tells of its speed, on another number of devices by the model of [`iteration_ratio`].
fn told(job: &JobSpec, devices: u32) -> Speed {
    let counts = iteration_ratio(job.gang.devices, devices, network_share(job));
    let source = if devices == job.gang.devices { Source::Told } else { Source::Estimated };
    let iterations_per_s = if job.iteration_ms > 0.0 { 1000.0 / job.iteration_ms / counts } else { 0.0 };
    Speed { iterations_per_s, source }
}

/// A guaranteed job runs as if alone; an opportunistic one (with a negative priority) in the gaps of its neighbours, all
/// of them `pace` times slower than they tell.
fn opportunistic_s(job: &JobSpec, alone_s: f64, neighbours: &[&JobSpec], pace: f64) -> f64 {
    if job.priority >= 0 {
        return alone_s;
    }
    neighbours.iter().fold(alone_s, |slowest, other| {
        let beside = match (job.stages, other.stages) {
            (Some(own), Some(theirs)) if other.priority >= 0 => {
                pace * iteration_beside_s(own.into(), theirs.into(), other.iteration_ms / 1000.0)
            }
            _ => alone_s * BOTH_OPPORTUNISTIC_FACTOR,
        };
        slowest.max(beside)
    })
}

/// What the planner expects of a job whose model the profile does not know.
fn expected(job: &JobSpec, spot: Spot<'_>) -> Option<Expected> {
    let (model, batch) = (job.model.as_deref()?, job.batch_size?);
    let is_profiled = |speeds: &Speeds| speeds.profile().nearest_workload(model, job.batch_size).is_some();
    if !families::is_known(model) || spot.speeds.is_some_and(is_profiled) {
        return None;
    }
    let nodes = spot.topology.map(Topology::nodes).unwrap_or_default();
    let node = nodes.iter().find(|node| *node.spec.device_type == *spot.device_type);
    let per_node = node.map(|node| node.spec.devices);
    spot.estimates?.expect(
        model,
        batch,
        Where { device_type: spot.device_type, per_node, devices: spot.devices },
    )
}

/// How fast a job runs by the planner's estimate: as that states where the job states nothing; else what it tells, times what the
/// estimates for the two places say.
fn planned(job: &JobSpec, spot: Spot<'_>) -> Option<Speed> {
    let here = expected(job, spot)?;
    if job.iteration_ms <= 0.0 {
        return Some(Speed::estimated(here.iterations_per_s));
    }
    let told = Speed { iterations_per_s: 1000.0 / job.iteration_ms, source: Source::Told };
    let named = || job.gang.device_types.first().filter(|name| &***name != Gang::OTHERS);
    let there = spot.speeds.map_or_else(named, |speeds| speeds.reference_of(job));
    let there =
        Spot { device_type: there.map_or(spot.device_type, |name| name), devices: job.gang.devices, ..spot };
    if (there.device_type, there.devices) == (spot.device_type, spot.devices) {
        return Some(told);
    }
    let then = expected(job, there)?.iterations_per_s;
    (then > 0.0).then(|| Speed::estimated(told.iterations_per_s * here.iterations_per_s / then))
}

/// How fast a job runs by itself.
fn alone(job: &JobSpec, spot: Spot<'_>) -> Speed {
    let Spot { speeds, device_type, devices, locality, apart, .. } = spot;
    if let (Some(speeds), Locality::Spread) = (speeds, locality)
        && let Some(iterations_per_s) = speeds.spread(job, device_type, devices)
    {
        return Speed { iterations_per_s, source: Source::Measured };
    }
    let otherwise = || match speeds {
        Some(speeds) => speeds.alone(job, device_type, devices),
        None => told(job, devices),
    };
    let packed = planned(job, spot).unwrap_or_else(otherwise);
    if apart == 1.0 { packed } else { Speed::estimated(packed.iterations_per_s / apart) }
}

/// How fast a job runs beside others as the profile has it, where it knows all of them.
fn beside(job: &JobSpec, alone: Speed, spot: Spot<'_>, neighbours: &[&JobSpec]) -> Option<Speed> {
    let profile = spot.speeds?.profile();
    let workload = |job: &JobSpec| profile.workload(job.model.as_deref()?, job.batch_size);
    let (own, here) = (workload(job)?, profile.device_type(spot.device_type)?);
    let pair =
        |other: &JobSpec, locality| profile.pair_entry(own, workload(other)?, here, spot.devices, locality);
    if let &[other] = neighbours
        && let Some(entry) = pair(other, spot.locality).filter(|entry| !entry.is_estimate)
    {
        let apart = if spot.locality == Locality::Spread { 1.0 } else { spot.apart };
        let source = if apart == 1.0 { Source::Measured } else { Source::Estimated };
        return Some(Speed { iterations_per_s: entry.iterations_per_s[0] / apart, source });
    }
    let by_itself = profile.entry(own, here, spot.devices, Locality::Packed)?.iterations_per_s;
    let share = neighbours.iter().try_fold(1.0, |share, other| {
        let beside = pair(other, Locality::Packed)?.iterations_per_s[0];
        (by_itself > 0.0).then(|| share * (beside / by_itself))
    })?;
    Some(Speed::estimated(alone.iterations_per_s * share))
}

/// How much slower than they tell the slowest of several jobs is here: 1 by default.
fn pace(job: &JobSpec, spot: Spot<'_>, neighbours: &[&JobSpec]) -> f64 {
    let Some(speeds) = spot.speeds else { return 1.0 };
    let slower = |job: &JobSpec| {
        let here = speeds.alone(job, spot.device_type, spot.devices);
        match here.source {
            Source::Told => 1.0,
            _ if here.iterations_per_s > 0.0 && job.iteration_ms > 0.0 => {
                1000.0 / job.iteration_ms / here.iterations_per_s
            }
            _ => 1.0,
        }
    };
    neighbours.iter().fold(slower(job), |slowest, other| slowest.max(slower(other)))
}
