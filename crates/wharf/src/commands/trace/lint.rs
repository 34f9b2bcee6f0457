//! `wharf trace lint`: what readers report, and what `wharf sim` rejects.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;
use wharf_core::ClusterSpec;
use wharf_perf::Profile;
use wharf_sim::{Preset, RunError, RunSpec, Settings, refusals};
use wharf_trace::{
    Finding, LintOptions, Linted, Rule, Severity, Subject, generator_models, lint, lint_reader,
};

use crate::args::{LintArgs, OutputFormat};
use crate::commands::policies;
use crate::error::{CliError, translate};
use crate::exit::Exit;
use crate::input::{self, is_standard};
use crate::output::grid::Grid;
use crate::output::{Terminal, counted};

#[derive(Serialize)]
struct LintDocument<'a> {
    schema: u32,
    errors: usize,
    warnings: usize,
    findings: &'a [Finding],
}

/// Lists the findings of all files.
///
/// # Errors
/// A file, cluster, preset or profile that cannot be read.
pub(super) fn execute(args: &LintArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    let models: Vec<&str> = generator_models().iter().map(|model| model.name).collect();
    let format = args.format.as_deref().map(input::format).transpose()?;
    let trial = Trial::new(args)?;
    let format = format.or_else(|| trial.as_ref()?.preset.trace_format());
    let options = LintOptions { format, known_models: Some(&models) };
    let mut findings = Vec::new();
    for file in &args.files {
        let linted = if is_standard(file) {
            lint_reader(io::stdin(), "stdin", &options)
        } else {
            lint(file, &options)
        };
        let mut linted = linted.map_err(|error| translate::trace(&error))?;
        // A simulation reads the file first, and stops at its errors.
        if let Some(trial) = trial.as_ref().filter(|_| !linted.has_errors()) {
            trial.check(&mut linted)?;
        }
        findings.append(&mut linted.findings);
    }
    show(&findings, terminal)
}

/// What a trace would be simulated with.
struct Trial {
    cluster: ClusterSpec,
    preset: Preset,
    profile: Option<Profile>,
    policy: String,
}

impl Trial {
    fn new(args: &LintArgs) -> Result<Option<Self>, CliError> {
        let Some(cluster) = &args.cluster else { return Ok(None) };
        let preset = input::preset(&args.preset)?;
        let policy = match &args.policy {
            Some(policy) => policy.clone(),
            None => policies::names(&preset).into_iter().next().unwrap_or_default(),
        };
        let (_, cluster) = input::cluster(cluster)?;
        let profile = args.profile.as_deref().map(input::profile).transpose()?;
        Ok(Some(Self { cluster, preset, profile, policy }))
    }

    /// Adds the jobs that `wharf sim` rejects.
    fn check(&self, linted: &mut Linted) -> Result<(), CliError> {
        let settings = Settings::default();
        let spec = RunSpec {
            trace: &linted.trace,
            cluster: &self.cluster,
            policy: &self.policy,
            preset: &self.preset,
            settings: &settings,
            seed: 0,
            profile: self.profile.as_ref(),
            rounds: None,
            failures: None,
        };
        let errors = refusals(&spec);
        if errors.is_empty() {
            return Ok(());
        }
        let places: HashMap<String, usize> =
            linted.trace.jobs.iter().enumerate().map(|(place, job)| (job.name.to_string(), place)).collect();
        for error in errors {
            match error.job().and_then(|job| places.get(job)) {
                Some(&place) => self.reject(linted, place, &error),
                None => return Err(translate::run(&error)),
            }
        }
        Ok(())
    }

    fn reject(&self, linted: &mut Linted, place: usize, error: &RunError) {
        let job = &linted.trace.jobs[place];
        let (subject, rule, message, hint) = match error {
            RunError::ImpossibleGang { most: 0, .. } if !job.gang.device_types.is_empty() => (
                Subject::DeviceTypes,
                Rule::ImpossibleGang,
                format!("the cluster has no device of type `{}`", job.gang.device_types.join(";")),
                Some(format!("it has {}", self.device_types().join(", "))),
            ),
            RunError::ImpossibleGang { devices, most, .. } => (
                Subject::Devices,
                Rule::ImpossibleGang,
                format!("needs {devices} devices, the cluster can give it at most {most}"),
                Some(
                    "a gang has devices of one type, under one switch: use another cluster, or drop the job"
                        .to_owned(),
                ),
            ),
            RunError::Unmet { unmet, .. } => (
                match unmet.field() {
                    "devices" | "device_milli" => Subject::Devices,
                    "device_types" => Subject::DeviceTypes,
                    _ => Subject::Job,
                },
                Rule::ImpossibleGang,
                format!("`{}`: {unmet}", unmet.field()),
                None,
            ),
            RunError::UnknownPool { pool, pools, .. } => (
                Subject::Job,
                Rule::UnknownPool,
                format!("the cluster has no pool `{pool}`"),
                Some(format!("it has {pools}")),
            ),
            RunError::NoSpeed(unresolved) => {
                let problem = unresolved.jobs.first().map(|job| job.problem.to_string()).unwrap_or_default();
                let hint = "give a throughput profile with `--profile FILE`".to_owned();
                (Subject::Model, Rule::NotSimulated, format!("the job {problem}"), Some(hint))
            }
            _ => (Subject::Job, Rule::NotSimulated, error.to_string(), None),
        };
        linted.reject(place, subject, rule, message, hint);
    }

    fn device_types(&self) -> Vec<String> {
        let mut types: Vec<String> =
            self.cluster.nodes.iter().map(|node| format!("`{}`", node.device_type)).collect();
        types.sort();
        types.dedup();
        types
    }
}

fn show(findings: &[Finding], terminal: &Terminal) -> Result<Exit, CliError> {
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    if terminal.format == OutputFormat::Json {
        terminal.json(&LintDocument { schema: 1, errors, warnings, findings })?;
    } else {
        match terminal.format {
            OutputFormat::Plain => terminal.grid(&findings_grid(findings))?,
            _ => terminal.stream(|out| print_findings(findings, out).map_err(CliError::stdout))?,
        }
        let verdict = if errors > 0 { "not valid" } else { "valid" };
        terminal.note(&format!("{verdict}: {}, {}", counted(errors, "error"), counted(warnings, "warning")));
    }
    Ok(if errors > 0 { Exit::Input } else { Exit::Ok })
}

fn findings_grid(findings: &[Finding]) -> Grid<7> {
    let mut grid = Grid::new(["file", "line", "column", "severity", "rule", "message", "hint"]);
    for finding in findings {
        let [line, severity, rule] =
            [finding.line.to_string(), finding.severity.to_string(), finding.rule.to_string()];
        let (column, hint) =
            (finding.column.as_deref().unwrap_or_default(), finding.hint.as_deref().unwrap_or_default());
        grid.push([&finding.file, &line, column, &severity, &rule, &finding.message, hint]);
    }
    grid
}

fn print_findings(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        writeln!(out, "{finding}")?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "  hint: {hint}")?;
        }
    }
    Ok(())
}
