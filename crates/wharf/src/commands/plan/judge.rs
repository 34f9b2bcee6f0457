//! `wharf plan --judge`: how far off the planner is from a table of measurements.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use wharf_planner::Hardware;
use wharf_planner::fit::{Errors, Fit};
use wharf_planner::judge::{self, Defaults, Figures, JudgeError, Judged, Measurement};
use wharf_planner::model::Precision;

use super::question;
use crate::args::{OutputFormat, PlanArgs};
use crate::error::{CliError, ErrorKind};
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Devices of a node, where neither options nor the table tell.
const PER_NODE: u32 = 8;
/// Devices, where neither do.
const DEVICE_TYPE: &str = "a100-80gb";

pub(super) fn execute(args: &PlanArgs, file: &Path, terminal: &Terminal) -> Result<(), CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| CliError::read(file, error))?;
    let wrong =
        |error| CliError::from_error(ErrorKind::Input, &error).hint("docs/planner.md lists the columns");
    let mut measurements = judge::measurements(&text, &defaults(args)?).map_err(wrong)?;
    if let Some(table) = &args.calibrate {
        let fits = Fits::read(args, table)?;
        for one in &mut measurements {
            one.hardware = fits.of(&one.hardware.name).apply(&one.hardware);
        }
    }
    let judged = judge::judge(measurements).map_err(wrong)?;
    let figures = judge::figures(&judged);
    if terminal.format == OutputFormat::Json {
        return terminal.json(&document(&figures, &judged));
    }
    tell(&figures, terminal)
}

/// What was learnt of each device type from a table.
pub(super) struct Fits(BTreeMap<Arc<str>, Fit>);

impl Fits {
    pub(super) fn read(args: &PlanArgs, table: &Path) -> Result<Self, CliError> {
        let text = std::fs::read_to_string(table).map_err(|error| CliError::read(table, error))?;
        let all = judge::measurements(&text, &defaults(args)?).and_then(Self::learn);
        all.map_err(|error| CliError::from_error(ErrorKind::Input, &error))
    }

    fn learn(measurements: Vec<Measurement>) -> Result<Self, JudgeError> {
        let mut types: BTreeMap<Arc<str>, Vec<Measurement>> = BTreeMap::new();
        for one in measurements {
            types.entry(one.hardware.name.clone()).or_default().push(one);
        }
        let fits = types.into_iter().map(|(name, all)| Ok((name, Errors::of(&all)?.fit_all())));
        fits.collect::<Result<_, JudgeError>>().map(Self)
    }

    /// What was learnt of a type.
    pub(super) fn of(&self, device_type: &str) -> Fit {
        self.0.get(device_type).copied().unwrap_or(Fit::NONE)
    }
}

fn defaults(args: &PlanArgs) -> Result<Defaults, CliError> {
    let node = args.node.as_deref().map(question::node).transpose()?;
    let of_node = node.map(|node| node.device_type);
    let device_type =
        args.gpus.first().map(|devices| devices.device_type.as_str()).or(of_node).unwrap_or(DEVICE_TYPE);
    let described = question::described(args)?.into_iter().find(|known| *known.name == *device_type);
    let mut hardware = described.or_else(|| Hardware::builtin(device_type)).ok_or_else(|| {
        CliError::usage(format!("unknown device type `{device_type}`"))
            .hint_nearest(device_type, Hardware::names())
    })?;
    if let Some(gb_per_s) = args.network.or(node.map(|node| node.network_gb_per_s)) {
        hardware = hardware.on_network(gb_per_s);
    }
    let own = node.map(|node| node.per_node).or(hardware.per_node);
    Ok(Defaults {
        hardware,
        per_node: args.per_node.or(own).unwrap_or(PER_NODE),
        precision: args.precision.as_deref().map_or(Ok(Precision::Half), question::precision)?,
        options: question::options(args),
    })
}

fn tell(figures: &Figures, terminal: &Terminal) -> Result<(), CliError> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut grid = Grid::new(["figure", "value"]);
    let rows = [
        ("measurements", figures.count.to_string()),
        ("median error", percent(figures.median)),
        ("mean error", percent(figures.mean)),
        ("90 % of errors are below", percent(figures.p90)),
        ("bias (median with sign)", percent(figures.bias)),
        ("groups of at least 4 plans", figures.groups.to_string()),
        ("chosen plan within 5 % of the best", percent(figures.chosen)),
        ("Kendall's tau in groups", format!("{:.2}", figures.tau)),
        ("within the interval", percent(figures.coverage)),
        ("median half-width of intervals", percent(figures.half_width)),
        ("measured plans called impossible", figures.impossible.to_string()),
    ];
    for (name, value) in &rows {
        grid.push([*name, value]);
    }
    if let Some(memory) = figures.memory {
        grid.push(["median error of memory", &percent(memory)]);
    }
    terminal.grid(&grid)
}

fn document(figures: &Figures, judged: &[Judged]) -> Value {
    let row = |one: &Judged| {
        let (low, high) = one.estimate.interval_s();
        json!({
            "line": one.measurement.line,
            "measured_s": one.measurement.time_s,
            "estimated_s": one.estimate.iteration_s,
            "interval_s": [low, high],
            "error": one.error(),
            "memory_gib": one.estimate.memory_gib,
            "measured_memory_gib": one.measurement.memory_gib,
            "fits": one.estimate.is_fitting,
        })
    };
    json!({
        "schema": 1,
        "measurements": figures.count,
        "median_error": figures.median,
        "mean_error": figures.mean,
        "p90_error": figures.p90,
        "bias": figures.bias,
        "median_memory_error": figures.memory,
        "groups": figures.groups,
        "chosen_within_5_percent": figures.chosen,
        "kendall_tau": figures.tau,
        "coverage": figures.coverage,
        "median_half_width": figures.half_width,
        "impossible": figures.impossible,
        "rows": judged.iter().map(row).collect::<Vec<_>>(),
    })
}
