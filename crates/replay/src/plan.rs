//! The plan of a replay, and the simulator's prediction.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use wharf_core::{ClusterSpec, Time};
use wharf_perf::Profile;
use wharf_policy::PolicyInfo;
use wharf_report::{RunLabels, Summary};
use wharf_reproduce::{PublishedPolicy, System};
use wharf_sim::{Outcome, Preset, RunSpec, Settings, run, scale_settings, scale_trace};
use wharf_trace::{Format, Trace};

use crate::acts::{Act, Moment, Simulated};
use crate::{NoLaunch, ReplayError, check_request};

/// Settings of events that happen by themselves on real machines, or are measured there.
const REFUSED: [&str; 5] = ["restart_s", "checkpoint_interval_s", "node_mtbf_h", "node_repair_h", "failures"];

/// The inputs of a plan.
pub struct ReplayRequest {
    /// The trace.
    pub trace: Trace,
    /// The name of the cluster.
    pub cluster_name: String,
    /// The nodes.
    pub cluster: ClusterSpec,
    /// The policy.
    pub policy: &'static PolicyInfo,
    /// Its settings, in times of the trace.
    pub settings: Settings,
    /// The throughput profile.
    pub profile: Option<Profile>,
    /// Number of scheduling rounds until the end; `None` for the end of all jobs.
    pub rounds: Option<u32>,
    /// Random seed.
    pub seed: u64,
    /// Speed-up factor.
    pub time_scale: f64,
}

/// A scaled trace with its policy.
pub struct ReplayPlan {
    /// The scaled trace.
    pub trace: Trace,
    cluster_name: String,
    /// The nodes.
    pub cluster: ClusterSpec,
    /// The policy.
    pub policy: &'static PolicyInfo,
    /// Without the start cost.
    settings: Settings,
    preset: Preset,
    /// Random seed.
    pub seed: u64,
    /// Speed-up factor.
    pub time_scale: f64,
    profile: Option<Profile>,
    /// Seconds after the beginning at which the replay ends, whatever still runs.
    pub cutoff_s: Option<f64>,
    /// Seconds between scheduling rounds, where the policy is not called after every event.
    pub period_s: Option<f64>,
}

/// The result of the simulator.
pub struct Prediction {
    /// The jobs.
    pub outcome: Outcome,
    /// Launches and preemptions.
    pub acts: Vec<Moment>,
    /// The metrics.
    pub summary: Summary,
}

/// A setting with which a head and a replay differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// The setting.
    pub key: String,
    /// Its value in the head.
    pub of_head: Option<String>,
    /// Its value in the replay.
    pub of_replay: String,
}

/// Refuses settings that are properties of the machines.
///
/// # Errors
/// [`ReplayError::MachineProperty`].
pub fn check_settings(settings: &Settings) -> Result<(), ReplayError> {
    match REFUSED.iter().find(|key| settings.get(key).is_some()) {
        Some(key) => Err(ReplayError::MachineProperty { key }),
        None => Ok(()),
    }
}

impl ReplayPlan {
    /// Scales a trace and checks that it can be simulated.
    ///
    /// # Errors
    /// [`ReplayError::Run`] where the simulator refuses it, [`ReplayError::Setting`] where a setting has a wrong value.
    pub fn new(request: ReplayRequest) -> Result<Self, ReplayError> {
        let ReplayRequest {
            trace,
            cluster_name,
            cluster,
            policy,
            settings,
            profile,
            rounds,
            seed,
            time_scale,
        } = request;
        if !cluster.is_plain() {
            return Err(ReplayError::MixedCluster);
        }
        trace.jobs.iter().try_for_each(check_request)?;
        let preset = Preset::load("wharf")?;
        let Some(rules) = preset.rules() else { return Err(ReplayError::ForeignPreset) };
        let mut settings = scale_settings(policy, rules, &settings, time_scale);
        // A head has another default for this one.
        for knob in policy.knobs.iter().filter(|knob| knob.name == "backfill") {
            let given = settings.get(knob.name).unwrap_or(knob.default).to_owned();
            settings.set(knob.name, &given);
        }
        let rules = rules.with(&settings)?;
        let mut plan = Self {
            trace: scale_trace(&trace, time_scale),
            profile,
            cluster_name,
            cluster,
            policy,
            cutoff_s: rounds.map(|rounds| f64::from(rounds) * rules.round_s),
            period_s: rules.in_rounds.then_some(rules.round_s),
            settings,
            seed,
            time_scale,
            preset,
        };
        plan.with_spec(0.0, wharf_sim::check)?;
        // A head needs the lengths that a simulation derives by itself.
        plan.trace.jobs = plan.with_spec(0.0, |spec| wharf_sim::resolved(spec).map(Cow::into_owned))?;
        Ok(plan)
    }

    /// The settings of head and simulator.
    pub fn settings(&self, start_cost_s: f64) -> Settings {
        let mut settings = self.settings.clone();
        settings.set("restart_s", &start_cost_s.to_string());
        settings
    }

    fn with_spec<T>(&self, start_cost_s: f64, with: impl FnOnce(&RunSpec<'_>) -> T) -> T {
        with(&RunSpec {
            trace: &self.trace,
            cluster: &self.cluster,
            policy: self.policy.name,
            preset: &self.preset,
            settings: &self.settings(start_cost_s),
            seed: self.seed,
            profile: self.profile.as_ref(),
            rounds: None,
            failures: None,
        })
    }

    /// Simulates it with a start cost.
    ///
    /// # Errors
    /// [`ReplayError::Run`] where the simulation fails, and [`ReplayError::NoLaunch`] where no job starts.
    pub fn predict(&self, start_cost_s: f64) -> Result<Prediction, ReplayError> {
        let mut simulated = Simulated::default();
        let outcome = self.with_spec(start_cost_s, |spec| run(spec, &mut simulated));
        let mut outcome = outcome?;
        let mut acts = simulated.0;
        if let Some(cutoff_s) = self.cutoff_s {
            cut(&mut outcome, &mut acts, cutoff_s);
        }
        if acts.is_empty() {
            return Err(self.no_launch());
        }
        let summary = self.summary("simulated", &outcome);
        Ok(Prediction { outcome, acts, summary })
    }

    /// The error of a plan in which no job starts.
    fn no_launch(&self) -> ReplayError {
        let jobs = &self.trace.jobs;
        let first_s = jobs.first().map_or(0.0, |job| job.submit.seconds());
        ReplayError::NoLaunch(match self.cutoff_s {
            Some(cutoff_s) if first_s > cutoff_s => NoLaunch::BeforeFirst { cutoff_s, first_s },
            Some(cutoff_s) => NoLaunch::WithinRounds { policy: self.policy.name, cutoff_s },
            None => NoLaunch::Never { policy: self.policy.name, jobs: jobs.len() },
        })
    }

    /// The metrics of a run.
    pub fn summary(&self, how: &str, outcome: &Outcome) -> Summary {
        let labels = RunLabels {
            policy: self.policy.name.to_owned(),
            trace: self.trace.name.clone(),
            preset: how.to_owned(),
            cluster: self.cluster_name.clone(),
            seed: self.seed,
        };
        Summary::new(labels, outcome, 0.0)
    }

    /// Expected seconds of a replay.
    pub fn wall_s(&self, prediction: &Prediction) -> f64 {
        let jobs = &prediction.outcome.jobs;
        let last = jobs.iter().filter_map(|job| job.end).max();
        let is_cut = jobs.iter().any(|job| job.end.is_none());
        self.cutoff_s.filter(|_| is_cut).or(last.map(Time::seconds)).unwrap_or(0.0)
    }

    /// Removes unknown users from the jobs, and returns whether there were any.
    pub fn drop_users(&mut self, is_known: impl Fn(&str) -> bool) -> bool {
        let mut is_changed = false;
        for job in &mut self.trace.jobs {
            if job.user.as_deref().is_some_and(|user| !is_known(user)) {
                job.user = None;
                is_changed = true;
            }
        }
        is_changed
    }

    /// The settings that differ from those of a head. An assumed start cost, `None`, is no difference.
    pub fn differences(
        &self,
        of_head: &BTreeMap<String, String>,
        start_cost_s: Option<f64>,
    ) -> Vec<SettingDifference> {
        let default =
            |key: &str| self.policy.knobs.iter().find(|knob| knob.name == key).map(|knob| knob.default);
        let own = |key: &str| of_head.get(key).map(String::as_str).or_else(|| default(key));
        let is_same = |one: &str, other: &str| match (one.parse::<f64>(), other.parse::<f64>()) {
            (Ok(one), Ok(other)) => one == other,
            _ => one == other,
        };
        let settings = self.settings(start_cost_s.unwrap_or(0.0));
        let compared = settings.iter().filter(|(key, _)| start_cost_s.is_some() || *key != "restart_s");
        let different = compared.filter(|(key, value)| !own(key).is_some_and(|own| is_same(own, value)));
        let difference = |(key, value): (&str, &str)| SettingDifference {
            key: key.to_owned(),
            of_head: own(key).map(str::to_owned),
            of_replay: value.to_owned(),
        };
        different.map(difference).collect()
    }
}

/// The policy of a name that several systems use.
#[derive(Clone, Copy, Debug)]
pub enum PolicyNote {
    /// Wharf's own policy is used; a published system has another one of that name.
    Own(&'static PublishedPolicy),
    /// The policy of the published system is used.
    Published(&'static PublishedPolicy),
}

impl fmt::Display for PolicyNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(PublishedPolicy { name, system, policy, .. }) => {
                write!(f, "policy `{name}` is Wharf's own; `{name}` of {system} is `--policy {policy}`")
            }
            Self::Published(published) => {
                let PublishedPolicy { name, system, .. } = published;
                write!(f, "policy `{name}` of {system} is `{}`", published.options())
            }
        }
    }
}

/// The policy of a name. On a trace of a published system, a name that only that system has is its policy, with the settings that it
/// needs, which are added to `settings`.
///
/// # Errors
/// [`ReplayError::Policy`] where neither Wharf nor the system has it.
pub fn find_policy(
    name: &str,
    format: Format,
    settings: &mut Settings,
) -> Result<(&'static PolicyInfo, Option<PolicyNote>), ReplayError> {
    let published = system_of(format).and_then(|system| system.find(name));
    match (wharf_reproduce::find(name), published) {
        (Ok(policy), Some(other)) if other.policy != policy.name => {
            Ok((policy, Some(PolicyNote::Own(other))))
        }
        (Ok(policy), _) => Ok((policy, None)),
        (Err(unknown), None) => Err(unknown.into()),
        (Err(_), Some(published)) => {
            for (key, value) in published.settings.iter().filter_map(|setting| setting.split_once('=')) {
                if settings.get(key).is_none() {
                    settings.set(key, value);
                }
            }
            Ok((wharf_reproduce::find(published.policy)?, Some(PolicyNote::Published(published))))
        }
    }
}

/// The published system that has traces of a format.
fn system_of(format: Format) -> Option<System> {
    match format.name() {
        "crius" => Some(System::Crius),
        "muri" => Some(System::Muri),
        "gavel" => Some(System::Gavel),
        _ => None,
    }
}

/// Removes everything after the cutoff.
fn cut(outcome: &mut Outcome, acts: &mut Vec<Moment>, cutoff_s: f64) {
    acts.retain(|(at_s, _)| *at_s <= cutoff_s);
    for (index, record) in outcome.jobs.iter_mut().enumerate() {
        record.end = record.end.filter(|end| end.seconds() <= cutoff_s);
        let stopped = acts.iter().filter(|(_, act)| *act == Act::Preempt { job: index });
        record.preemptions = u32::try_from(stopped.count()).unwrap_or(u32::MAX);
    }
    outcome.tally.over = Time::try_new(cutoff_s);
    outcome.timeline.retain(|sample| sample.time.seconds() <= cutoff_s);
    outcome.spans.retain(|span| span.start.seconds() <= cutoff_s);
    let ends = outcome.timeline.iter().skip(1).map(|sample| sample.time.seconds()).chain([cutoff_s]);
    let busy = outcome.timeline.iter().zip(ends);
    outcome.busy_device_s =
        busy.map(|(sample, end)| f64::from(sample.busy_devices) * (end - sample.time.seconds())).sum();
}
