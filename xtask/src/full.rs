//! What takes minutes: results of reference systems, faults at random moments, replays with real processes, scale, benches.
//!
//! Every step runs, whatever failed before. The lines of a step that carry its figures come back in the table at the end, with
//! the CPU time of the step.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use wharf_testing::SKIPPED_FOLDER;
use wharf_testing::component::python_with_jax;

use crate::deviations::{self, Deviation};
use crate::phases::{Outcome, Phases, succeeds};
use crate::{Complaints, ci, components, flows, root, target, tell};

/// More lines of one step are not figures but a listing.
const FIGURES_MAX: usize = 40;

/// CPU time of all but one in 10,000 requests.
const REQUEST_MS_MAX: f64 = 100.0;

/// One step.
struct Step {
    name: &'static str,
    work: fn(&Site) -> Outcome,
}

/// Where the run takes place.
struct Site {
    /// Results that are not kept.
    work: PathBuf,
    is_long: bool,
}

/// Hides files, then runs the tests that a filter selects.
const HIDE: &str = "cargo=$0; filter=$1; shift; for file in \"$@\"; do mount --bind /dev/null \"$file\"; done; \
     exec \"$cargo\" nextest run --workspace --profile full --ignore-default-filter --test-threads 4 --filterset \"$filter\"";
/// Programs of components; those of Python are elsewhere and are not searched for.
const PROGRAMS: &[&str] = &[
    "slurmctld",
    "slurmrestd",
    "podman",
    "dockerd",
    "docker-registry",
    "ch-run",
    "mksquashfs",
    "busybox",
    "sshd",
    "tmux",
    "chromium",
    "prometheus",
    "systemd-analyze",
    "man",
    "moto_server",
];
const WITH_COMPONENTS: &str = "package(wharf) & test(/^(pilot|slurm_real|slurm_steps|slurm_clients|image|registry|containers|dashboard|install|launch)::/) \
     | package(wharf-worker) & test(/^(containers|docker|apptainer)::/) | package(wharf-launch) & test(/^providers::/)";
const LAUNCHING: &str = "package(wharf) & test(/^launch::(containers|machines|trouble)::/) | package(wharf-launch) & test(/^providers::/)";
const COMPUTING: &str = "package(wharf-sim) & test(starts_fall_into_their_intervals) \
     | package(wharf-solver) & test(/^sharing_large::(programs_clusters|split_parts)/) | package(wharf) & test(demo_compares)";

/// Runs of Crius's simulator that depend on its solvers' choices, which no rule predicts: docs/policies.md has the evidence.
const CRIUS_DEVIATIONS: &[Deviation] = &[
    Deviation { run: "sia_tiny", distance: 0.10, cause: "GLPK stops within its tolerance of the optimum" },
    Deviation { run: "gavel_small", distance: 0.094, cause: "CPLEX exchanges equal jobs" },
];

const STEPS: &[Step] = &[
    Step { name: "components", work: |_| Ok(components::install()) },
    Step { name: "release build", work: |_| build().map(|()| Vec::new()) },
    Step { name: "muri, job by job", work: |_| against("muri") },
    Step { name: "gavel, job by job", work: |_| against("gavel") },
    Step { name: "crius, aggregates", work: |_| crius() },
    Step { name: "fgd, tables", work: |_| against("fgd") },
    Step { name: "sweep of crius' traces", work: |site| sweep(site, "crius", true) },
    Step { name: "sweep of muri's figures", work: |site| sweep(site, "muri-figures", false) },
    Step { name: "sweep of mixed devices", work: |site| sweep(site, "mixed", false) },
    Step { name: "generated requests", work: requests },
    Step { name: "oracles", work: oracles },
    Step { name: "chaos", work: chaos },
    Step { name: "machines", work: |_| tests("package(wharf) & test(/^netns::/)", &[]) },
    Step { name: "pilots", work: |_| tests("package(wharf) & test(/^pilot::/)", &[("WHARF_PILOT", "full")]) },
    Step {
        name: "live equals simulated",
        work: |_| tests("package(wharf) & test(/^live::/)", &[("WHARF_LIVE", "full")]),
    },
    Step { name: "workflows", work: |_| flows::run() },
    Step { name: "trainers with JAX", work: |_| jax_trainers() },
    Step { name: "Slurm clients", work: |_| tests("package(wharf) & test(/^slurm_clients::/)", &[]) },
    Step { name: "Ray clusters", work: |_| tests("package(wharf) & test(/^ray::/)", &[]) },
    Step { name: "measuring", work: |_| tests("package(wharf) & test(/^measure::/)", &[]) },
    Step { name: "launching", work: |_| tests(LAUNCHING, &[]) },
    Step { name: "forecasts, shares, demo", work: |_| tests(COMPUTING, &[]) },
    Step { name: "nothing installed", work: |site| hidden(site, "nothing", PROGRAMS) },
    Step { name: "plugins missing", work: |site| hidden(site, "plugins", &["auth_jwt.so", "catatonit"]) },
    Step {
        name: "browser",
        work: |_| tests("package(wharf) & test(/^dashboard::/)", &[("WHARF_BROWSER", "full")]),
    },
    Step {
        name: "static program",
        work: |_| run(&mut Command::new(root().join(".ci/static")), |line| line.starts_with("-- ")),
    },
    Step { name: "scale", work: scale },
    Step {
        name: "benches",
        work: |_| {
            run(cargo(&["bench", "--workspace"]).env_remove("CI"), |line| {
                line.contains("ratio") || line.contains("/s")
            })
        },
    },
    // Last, because it needs a machine that does nothing else.
    Step { name: "plans ranked as measured", work: plans },
];

/// Runs the steps whose name contains the word among the options, else all.
pub(crate) fn run_steps(options: &[&str]) -> Complaints {
    let is_long = options.contains(&"--long");
    let words: Vec<&&str> = options.iter().filter(|word| !word.starts_with("--")).collect();
    if let Some(unknown) = options.iter().find(|word| word.starts_with("--") && **word != "--long") {
        return vec![format!("unknown option `{unknown}`; there is `--long`")];
    }
    let chosen = |step: &&Step| words.is_empty() || words.iter().any(|word| step.name.contains(**word));
    let steps: Vec<&Step> = STEPS.iter().filter(chosen).collect();
    if steps.is_empty() {
        let names = STEPS.iter().map(|step| step.name).collect::<Vec<_>>().join("\n  ");
        return vec![format!("no step has such a name; there are:\n  {names}")];
    }
    let work = target().join("full");
    if let Err(error) = fs::create_dir_all(&work) {
        return vec![format!("{}: {error}", work.display())];
    }
    let site = Site { work, is_long };
    let mut phases = Phases::begin(&format!("full: {} steps", steps.len()));
    for step in steps {
        phases.phase(step.name, || {
            let before = children_cpu_s();
            let mut figures = (step.work)(&site)?;
            figures.insert(0, format!("CPU {:.0} s", children_cpu_s() - before));
            Ok(figures)
        });
    }
    phases.end()
}

fn wharf() -> PathBuf {
    target().join("release/wharf")
}

/// The reference data and its checks.
fn shared(path: &str) -> PathBuf {
    root().join("../shared").join(path)
}

fn build() -> Result<(), String> {
    succeeds(&mut cargo(&["build", "--release", "--package", "wharf"]))
}

/// Cargo, with tests that fail where a component is missing.
fn cargo(words: &[&str]) -> Command {
    let mut command = crate::cargo();
    command.args(words).env("CI", "true");
    command
}

/// Runs a command and passes its output on; the lines that `is_figure` finds are the step's figures.
fn run(command: &mut Command, is_figure: fn(&str) -> bool) -> Outcome {
    let name = command.get_program().to_string_lossy().into_owned();
    let (mut figures, status) = output(command, is_figure)?;
    if status.success() {
        return Ok(figures);
    }
    figures.push(format!("{name}: {status}"));
    Err(figures.join("\n"))
}

/// Runs a command to its end, whatever its status; passes its output on and returns the lines that `is_figure` finds.
fn output(command: &mut Command, is_figure: fn(&str) -> bool) -> Result<(Vec<String>, ExitStatus), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let (output, writer) = std::io::pipe().map_err(failed)?;
    let both = writer.try_clone().map_err(failed)?;
    let mut child = command.current_dir(root()).stdout(writer).stderr(both).spawn().map_err(failed)?;
    // The command's own ends of the pipe are closed, or its end would never come.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut figures = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(failed)?;
        tell(&line);
        if is_figure(line.trim()) && figures.len() < FIGURES_MAX {
            figures.push(line.trim().to_owned());
        }
    }
    let status = child.wait().map_err(failed)?;
    Ok((figures, status))
}

/// A check of the reference data against the release build.
fn against(system: &str) -> Outcome {
    run(Command::new(shared("check").join(system)).arg(wharf()), |line| {
        line.ends_with("hold") || line.starts_with("FAIL")
    })
}

/// The check of Crius's results, in which the recorded deviations may fail.
fn crius() -> Outcome {
    let (lines, _) = output(Command::new(shared("check/crius")).arg(wharf()), deviations::is_relevant)?;
    deviations::judge(&lines, CRIUS_DEVIATIONS)
}

fn sweep(site: &Site, name: &str, needs_profile: bool) -> Outcome {
    let mut command = Command::new(wharf());
    command.arg("sweep").arg(format!("scenarios/{name}.toml")).arg("--quiet");
    command.arg("--out").arg(site.work.join(name));
    let data = shared("data").join(name.split('-').next().unwrap_or(name));
    if data.is_dir() {
        command.arg("--data").arg(&data);
    }
    if needs_profile {
        command.arg("--profile").arg(&data);
    }
    run(&mut command, |_| false)
}

/// Tests that a filter of cargo-nextest selects, one at a time; lines with figures are those that tests print.
fn tests(filter: &str, env: &[(&str, &str)]) -> Outcome {
    let words =
        ["nextest", "run", "--workspace", "--profile", "full", "--ignore-default-filter", "--success-output"];
    let mut command = cargo(&words);
    command.args(["immediate", "--filterset", filter]).envs(env.iter().copied());
    let is_figure = |line: &str| {
        let is_count = line.starts_with("Summary");
        let is_failure = ["FAIL", "TIMEOUT", "SIG"].iter().any(|word| line.starts_with(word));
        let is_told = [" ms", " s,", " s ", " %", "seed "].iter().any(|unit| line.contains(unit));
        is_count || is_failure || is_told && !line.starts_with("PASS") && !line.starts_with("SLOW")
    };
    run(&mut command, is_figure)
}

/// Tests with real components on a machine that lacks these programs or plugins: none fails, and each that cannot run is recorded as
/// skipped. Files are hidden in a namespace of mounts, where a device is in their place.
fn hidden(site: &Site, state: &str, names: &[&str]) -> Outcome {
    let files: Vec<PathBuf> = names.iter().flat_map(|name| wharf_testing::installed_files(name)).collect();
    if files.is_empty() {
        return Err(format!("none of {} is installed, so that nothing can be hidden", names.join(", ")));
    }
    let skipped = site.work.join(format!("skipped-{state}"));
    let _ = fs::remove_dir_all(&skipped);
    fs::create_dir_all(&skipped).map_err(|error| format!("{}: {error}", skipped.display()))?;
    let mut command = Command::new("unshare");
    crate::forget_package(&mut command);
    command.args(["--mount", "sh", "-c", HIDE, env!("CARGO"), WITH_COMPONENTS]).args(&files);
    command.env_remove("CI").env(SKIPPED_FOLDER, &skipped).env("WHARF_TEST_COMPONENTS", "/nonexistent");
    let mut figures = run(&mut command, |line| line.starts_with("Summary") || line.starts_with("FAIL"))?;
    let count = fs::read_dir(&skipped).map_err(|error| error.to_string())?.count();
    figures.push(format!("{count} of them skipped"));
    if count == 0 { Err("no test was skipped".to_owned()) } else { Ok(figures) }
}

fn requests(_: &Site) -> Outcome {
    let mut command = cargo(&["test", "--workspace", "--lib", "--", "--nocapture", "generated_requests"]);
    let figures = run(command.env("WHARF_FUZZ_REQUESTS", "1000000"), |line| line.starts_with("all "))?;
    let line = figures.first().ok_or("no figures were printed")?;
    let part = line.split("p99.99 ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    match part {
        Some(ms) if ms <= REQUEST_MS_MAX => Ok(figures),
        _ => Err(format!("{line}: p99.99 is to be at most {REQUEST_MS_MAX} ms")),
    }
}

fn oracles(site: &Site) -> Outcome {
    let cases = if site.is_long { "10000" } else { "1000" };
    tests("package(wharf-sim) & test(/^oracle::/)", &[("WHARF_ORACLE_CASES", cases)])
}

fn chaos(site: &Site) -> Outcome {
    let seeds = if site.is_long { "50" } else { "12" };
    tests("package(wharf) & test(/^chaos::/)", &[("WHARF_CHAOS_SEEDS", seeds)])
}

/// The SDK's tests and the example trainer, with JAX.
fn jax_trainers() -> Outcome {
    let mut figures = ci::python_tests(&python_with_jax())?;
    figures.extend(tests("package(wharf) & test(/^trainer_examples::jax/)", &[])?);
    Ok(figures)
}

/// Jobs on a tenth as many devices, under four policies.
fn scale(site: &Site) -> Outcome {
    let mut figures = vec!["jobs, policy, events, milliseconds".to_owned()];
    let sizes: &[u32] = if site.is_long { &[1_000, 10_000, 100_000, 1_000_000] } else { &[1_000, 100_000] };
    for jobs in sizes {
        let trace = site.work.join("scale.csv");
        let _ = fs::remove_file(&trace);
        let devices = jobs / 10;
        let mut generate = Command::new(wharf());
        generate.args(["trace", "generate", "--load", "0.9", "--seed", "1", "--quiet"]);
        generate.args(["--jobs", &jobs.to_string(), "--devices", &devices.to_string(), "--to"]).arg(&trace);
        succeeds(&mut generate)?;
        let mut simulate = Command::new(wharf());
        simulate.args(["sim", "--policy", "fifo,srtf,srsf,tiresias", "--output", "plain"]);
        simulate.args(["--cluster", &format!("{}x4", devices / 4), "--trace"]).arg(&trace);
        for line in run(&mut simulate, |line| line.contains('\t'))? {
            let cells: Vec<&str> = line.split('\t').collect();
            let cell = |index: usize| cells.get(index).copied().unwrap_or_default();
            figures.push(format!("{jobs}, {}, {}, {}", cell(0), cell(16), cell(17)));
        }
    }
    Ok(figures)
}

fn plans(site: &Site) -> Outcome {
    let mut command = Command::new("examples/profiling/end_to_end.py");
    command.arg("--wharf").arg(wharf()).args(["--python", &python_with_jax()]);
    command.arg("--figure").arg(site.work.join("plans.svg"));
    run(&mut command, |line| line.contains("tau"))
}

/// CPU seconds of all children that have ended, as the kernel counts them in hundredths.
fn children_cpu_s() -> f64 {
    let stat = fs::read_to_string(Path::new("/proc/self/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    // Fields 16 and 17 of proc_pid_stat(5), of which the first two are before the parenthesis.
    (ticks(13) + ticks(14)) / 100.0
}
