//! `wharf presets`: the rules that runs can follow.

use serde::Serialize;
use wharf_sim::Preset;

use crate::args::{OutputFormat, PresetArgs, PresetCommand};
use crate::error::CliError;
use crate::exit::Exit;
use crate::input;
use crate::output::Terminal;
use crate::output::grid::Grid;

#[derive(Serialize)]
struct Document {
    schema: u32,
    presets: Vec<PresetDocument>,
}

#[derive(Serialize)]
struct PresetDocument {
    name: String,
    about: String,
}

/// Lists the presets, or shows one.
///
/// # Errors
/// Where there is no such preset.
pub(super) fn execute(args: &PresetArgs, terminal: &Terminal) -> Result<Exit, CliError> {
    match &args.command {
        None | Some(PresetCommand::List) => list(terminal)?,
        Some(PresetCommand::Show(args)) => terminal.data(&input::preset_text(&args.preset)?)?,
    }
    Ok(Exit::Ok)
}

fn list(terminal: &Terminal) -> Result<(), CliError> {
    let presets = Preset::BUILTIN.iter().map(|name| input::preset(name)).collect::<Result<Vec<_>, _>>()?;
    if terminal.format == OutputFormat::Json {
        let document = |preset: Preset| PresetDocument { name: preset.name, about: preset.about };
        let presets = presets.into_iter().map(document).collect();
        return terminal.json(&Document { schema: 1, presets });
    }
    let mut grid = Grid::new(["preset", "description"]);
    for preset in &presets {
        grid.push([&preset.name, &preset.about]);
    }
    terminal.grid(&grid)
}
