//! `wharf profile comm`.

use serde_json::json;
use wharf_planner::comm::{Curve, Operation, Precision, Route};

use super::read;
use crate::args::{OutputFormat, ProfileCommArgs};
use crate::error::CliError;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// Lists communication times, and states what moving so many elements takes.
pub(super) fn comm(args: &ProfileCommArgs, terminal: &Terminal) -> Result<(), CliError> {
    let operation = args.op.as_deref().map(operation).transpose()?;
    let records = read(&args.profile, terminal)?;
    if records.comm.is_empty() {
        return Err(CliError::input("the profile has no communication times")
            .hint("`wharf profile import` takes in tables with `op`, `replica_groups`, `num_f32_elements` and `time_s`"));
    }
    let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    let is_wanted = |(route, _): &(&Route, &Curve)| {
        is(&args.device_type, &route.device_type)
            && args.hosts.is_none_or(|hosts| hosts == route.hosts)
            && args.per_host.is_none_or(|per_host| per_host == route.per_host)
            && operation.is_none_or(|operation| operation == route.operation)
            && is(&args.groups, &route.groups)
            && (!args.infiniband || route.is_infiniband)
    };
    let found: Vec<(&Route, &Curve)> = records.comm.curves().filter(is_wanted).collect();
    if found.is_empty() {
        return Err(CliError::input("no such measurements")
            .hint("`wharf profile comm PROFILE` lists the measured ones"));
    }
    show(args, &found, terminal)
}

fn operation(name: &str) -> Result<Operation, CliError> {
    let names = Operation::ALL.map(Operation::name);
    Operation::from_name(name).ok_or_else(|| {
        CliError::usage(format!("`{name}` is none of {}", names.join(", "))).hint_nearest(name, names)
    })
}

fn show(args: &ProfileCommArgs, found: &[(&Route, &Curve)], terminal: &Terminal) -> Result<(), CliError> {
    let precision = if args.half { Precision::Half } else { Precision::Single };
    let time_s =
        |curve: &Curve| args.elements.and_then(|elements| curve.time_s(precision.in_table(elements)));
    let ends = |curve: &Curve| {
        (curve.points().next().unwrap_or_default(), curve.points().last().unwrap_or_default())
    };
    if terminal.format == OutputFormat::Json {
        let curves: Vec<_> = found
            .iter()
            .map(|(route, curve)| {
                let (smallest, largest) = ends(curve);
                json!({
                    "device_type": &*route.device_type,
                    "hosts": route.hosts,
                    "per_host": route.per_host,
                    "is_infiniband": route.is_infiniband,
                    "operation": route.operation.name(),
                    "groups": &*route.groups,
                    "sizes": curve.points().len(),
                    "smallest": { "elements": smallest.0, "seconds": smallest.1 },
                    "largest": { "elements": largest.0, "seconds": largest.1 },
                    "seconds": time_s(curve),
                })
            })
            .collect();
        return terminal.json(&json!({
            "schema": 1,
            "elements": args.elements,
            "bits": if args.half { 16 } else { 32 },
            "operations": curves,
        }));
    }
    let last = if args.elements.is_some() { "ms" } else { "ms of the most" };
    let mut grid = Grid::new([
        "type",
        "hosts",
        "per host",
        "infiniband",
        "operation",
        "groups",
        "sizes",
        "most elements",
        last,
    ]);
    for (route, curve) in found {
        let (_, (elements, seconds)) = ends(curve);
        let seconds = time_s(curve).unwrap_or(seconds);
        grid.push([
            &route.device_type,
            &route.hosts.to_string(),
            &route.per_host.to_string(),
            if route.is_infiniband { "yes" } else { "no" },
            route.operation.name(),
            &route.groups,
            &curve.points().len().to_string(),
            &elements.to_string(),
            &format!("{:.4}", seconds * 1000.0),
        ]);
    }
    terminal.grid(&grid)
}
