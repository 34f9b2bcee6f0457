//! What is replayed, and what the simulator says will come of it.

use std::borrow::Cow;
use std::path::PathBuf;

use wharf_core::ClusterSpec;
use wharf_perf::Profile;
use wharf_policy::PolicyInfo;
use wharf_report::{RunLabels, Summary};
use wharf_reproduce::{PublishedPolicy, System};
use wharf_sim::{Outcome, Preset, RunSpec, Settings, run, scale_settings, scale_trace};
use wharf_trace::{Format, Trace};

use super::acts::{Moment, Simulated};
use crate::args::ReplayArgs;
use crate::error::{CliError, ErrorKind, translate};
use crate::input;
use crate::output::Terminal;

/// What happens by itself on real machines, or is measured there.
const REFUSED: [&str; 5] = ["restart_s", "checkpoint_interval_s", "node_mtbf_h", "node_repair_h", "failures"];

/// A workload, made shorter, and who is to decide about it.
pub(super) struct Plan {
    pub(super) trace: Trace,
    pub(super) cluster_name: String,
    pub(super) cluster: ClusterSpec,
    pub(super) policy: &'static PolicyInfo,
    /// Without the start cost.
    settings: Settings,
    preset: Preset,
    pub(super) seed: u64,
    pub(super) time_scale: f64,
    /// How fast models run, and the file that states this.
    pub(super) profile: Option<(PathBuf, Profile)>,
    /// Seconds after the beginning at which it has ended, whatever still runs.
    pub(super) cutoff_s: Option<f64>,
    /// Network interface of all workers.
    pub(super) network_interface: Option<String>,
    /// Seconds between the moments at which the policy is called, where that is not after every event.
    pub(super) period_s: Option<f64>,
}

/// What the simulator says.
pub(super) struct Prediction {
    pub(super) outcome: Outcome,
    pub(super) acts: Vec<Moment>,
    pub(super) summary: Summary,
}

impl Plan {
    /// What the arguments mean on a cluster.
    pub(super) fn resolve(
        args: &ReplayArgs,
        cluster_name: String,
        cluster: ClusterSpec,
        terminal: &Terminal,
    ) -> Result<Self, CliError> {
        let usage = |error: &dyn std::error::Error| CliError::from_error(ErrorKind::Usage, error);
        let mut settings = input::settings(&args.set)?;
        check_numbers(args)?;
        if let Some(key) = REFUSED.iter().find(|key| settings.get(key).is_some()) {
            let wrong = CliError::usage(format!("`{key}` cannot be set: it is a property of the machines"));
            return Err(if *key == "restart_s" { wrong.hint("see `--start-cost`") } else { wrong });
        }
        let format = args.format.as_deref().map(input::format).transpose()?;
        let (mut trace, format) = input::formatted_trace(&args.trace, format, terminal)?;
        if !args.keep_offset {
            input::start_at_first(&mut trace)?;
        }
        let policy = find_policy(&args.policy, format, &mut settings, terminal)?;
        let preset = input::preset("wharf")?;
        let Some(rules) = preset.rules() else {
            return Err(CliError::new(ErrorKind::Internal, "the default preset is not Wharf's own"));
        };
        let mut settings = scale_settings(policy, rules, &settings, args.time_scale);
        // A head has another default for this one.
        for knob in policy.knobs.iter().filter(|knob| knob.name == "backfill") {
            let given = settings.get(knob.name).unwrap_or(knob.default).to_owned();
            settings.set(knob.name, &given);
        }
        let rules = rules.with(&settings).map_err(|error| usage(&error))?;
        let profile = match &args.profile {
            Some(path) => Some((path.clone(), input::profile(path)?)),
            None => None,
        };
        let mut plan = Self {
            trace: scale_trace(&trace, args.time_scale),
            profile,
            cluster_name,
            cluster,
            policy,
            cutoff_s: args.rounds.map(|rounds| f64::from(rounds) * rules.round_s),
            period_s: rules.in_rounds.then_some(rules.round_s),
            network_interface: args.network_interface.clone(),
            settings,
            seed: args.seed,
            time_scale: args.time_scale,
            preset,
        };
        plan.with_spec(0.0, wharf_sim::check).map_err(|error| translate::run(&error))?;
        // The head is told what a simulation finds out by itself.
        let jobs = plan.with_spec(0.0, |spec| wharf_sim::resolved(spec).map(Cow::into_owned));
        plan.trace.jobs = jobs.map_err(|error| translate::run(&error))?;
        Ok(plan)
    }

    /// The settings of head and simulator.
    pub(super) fn settings(&self, start_cost_s: f64) -> Settings {
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
            profile: self.profile.as_ref().map(|(_, profile)| profile),
            rounds: None,
            failures: None,
        })
    }

    /// Simulates it with a start cost.
    ///
    /// # Errors
    /// What cannot be simulated, and a plan under which no job starts.
    pub(super) fn predict(&self, start_cost_s: f64) -> Result<Prediction, CliError> {
        let mut simulated = Simulated::default();
        let outcome = self.with_spec(start_cost_s, |spec| run(spec, &mut simulated));
        let mut outcome = outcome.map_err(|error| translate::run(&error))?;
        let mut acts = simulated.0;
        if let Some(cutoff_s) = self.cutoff_s {
            cut(&mut outcome, &mut acts, cutoff_s);
        }
        if acts.is_empty() {
            return Err(self.launches_nothing());
        }
        let summary = self.summary("simulated", &outcome);
        Ok(Prediction { outcome, acts, summary })
    }

    /// The error for a plan under which no job starts.
    fn launches_nothing(&self) -> CliError {
        let jobs = &self.trace.jobs;
        let first_s = jobs.first().map_or(0.0, |job| job.submit.seconds());
        match self.cutoff_s {
            Some(cutoff_s) if first_s > cutoff_s => CliError::usage(format!(
                "the replay starts no job: its rounds end after {cutoff_s:.1} s, the first job is submitted at {first_s:.1} s"
            ))
            .hint("omit `--keep-offset` to start at the first submission, or increase `--rounds`"),
            Some(cutoff_s) => CliError::usage(format!(
                "the replay starts no job: policy `{}` starts no job within {cutoff_s:.1} s, when its rounds end",
                self.policy.name
            ))
            .hint("raise `--rounds`"),
            None => CliError::input(format!(
                "the replay starts no job: policy `{}` starts none of the {} jobs",
                self.policy.name,
                jobs.len()
            ))
            .hint("`wharf sim --explain JOB` with the same options shows why a job waits"),
        }
    }

    /// The metrics of a run.
    pub(super) fn summary(&self, how: &str, outcome: &Outcome) -> Summary {
        let labels = RunLabels {
            policy: self.policy.name.to_owned(),
            trace: self.trace.name.clone(),
            preset: how.to_owned(),
            cluster: self.cluster_name.clone(),
            seed: self.seed,
        };
        Summary::new(labels, outcome, 0.0)
    }
}

/// The policy of that name. On a trace of a published system, a name that only that system has is its policy, with the settings that
/// it needs.
fn find_policy(
    name: &str,
    format: Format,
    settings: &mut Settings,
    terminal: &Terminal,
) -> Result<&'static PolicyInfo, CliError> {
    let published = system_of(format).and_then(|system| system.find(name));
    match (wharf_reproduce::find(name), published) {
        (Ok(policy), Some(PublishedPolicy { system, policy: other, .. })) if *other != policy.name => {
            terminal
                .note(&format!("policy `{name}` is Wharf's own; `{name}` of {system} is `--policy {other}`"));
            Ok(policy)
        }
        (Ok(policy), _) => Ok(policy),
        (Err(unknown), None) => Err(translate::policy(&unknown)),
        (Err(_), Some(published)) => {
            terminal.note(&format!("policy `{name}` of {} is `{}`", published.system, published.options()));
            for (key, value) in published.settings.iter().filter_map(|setting| setting.split_once('=')) {
                if settings.get(key).is_none() {
                    settings.set(key, value);
                }
            }
            wharf_reproduce::find(published.policy).map_err(|error| translate::policy(&error))
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

fn check_numbers(args: &ReplayArgs) -> Result<(), CliError> {
    if !args.time_scale.is_finite() || args.time_scale <= 0.0 {
        return Err(CliError::usage("`--time-scale` takes a number above 0"));
    }
    if args.rounds == Some(0) {
        return Err(CliError::usage("`--rounds` takes a number from 1 on"));
    }
    match args.start_cost {
        Some(cost_s) if !cost_s.is_finite() || cost_s < 0.0 => {
            Err(CliError::usage("`--start-cost` takes seconds of at least 0"))
        }
        _ => Ok(()),
    }
}

/// Leaves what happened before.
fn cut(outcome: &mut Outcome, acts: &mut Vec<Moment>, cutoff_s: f64) {
    use super::acts::Act;
    acts.retain(|(at_s, _)| *at_s <= cutoff_s);
    for (index, record) in outcome.jobs.iter_mut().enumerate() {
        record.end = record.end.filter(|end| end.seconds() <= cutoff_s);
        let stopped = acts.iter().filter(|(_, act)| *act == Act::Preempt { job: index });
        record.preemptions = u32::try_from(stopped.count()).unwrap_or(u32::MAX);
    }
    outcome.tally.over = wharf_core::Time::try_new(cutoff_s);
    outcome.timeline.retain(|sample| sample.time.seconds() <= cutoff_s);
    outcome.spans.retain(|span| span.start.seconds() <= cutoff_s);
    let ends = outcome.timeline.iter().skip(1).map(|sample| sample.time.seconds()).chain([cutoff_s]);
    let busy = outcome.timeline.iter().zip(ends);
    outcome.busy_device_s =
        busy.map(|(sample, end)| f64::from(sample.busy_devices) * (end - sample.time.seconds())).sum();
}
