//! The needs of a test, and what happens where they are not met.

use std::io::Write as _;
use std::path::Path;

use crate::component::Component;

/// The variable that names the folder in which skipped tests are recorded, one file each.
pub const SKIPPED_FOLDER: &str = "WHARF_SKIPPED_FOLDER";

/// Whether a test can run: all its components are here. Otherwise the test fails under `CI=true`, and is recorded as skipped
/// elsewhere.
#[track_caller]
pub fn are_met(components: &[&Component]) -> bool {
    let Some(text) = missing(components) else { return true };
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{text}");
    skip(&text);
    false
}

/// The first component that is missing, why, and how to get it.
fn missing(components: &[&Component]) -> Option<String> {
    components.iter().find_map(|component| {
        let why = component.probe().err()?;
        Some(format!("{} is missing: {why}; to get it: {}", component.name, component.advice()))
    })
}

/// Records the present test as skipped.
fn skip(text: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // Past the harness, which shows nothing of tests that end well.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {text}");
    let Some(folder) = std::env::var_os(SKIPPED_FOLDER) else { return };
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_string_lossy().into_owned();
    let name = format!("{program}--{}", test.replace("::", "--"));
    std::fs::write(Path::new(&folder).join(name), format!("{test}\n{text}\n")).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component::{self, Source};

    #[test]
    fn first_missing_component_is_named_with_its_package() {
        let here = Component::new("here", Source::Machine("no way"), || Ok(()));
        let gone =
            Component::new("gone", Source::Debian(&["gone-bin", "gone-data"]), || Err("no `gone`".into()));
        assert_eq!(missing(&[&here]), None);
        let text = "gone is missing: no `gone`; to get it: apt-get install gone-bin gone-data";
        assert_eq!(missing(&[&here, &gone]).as_deref(), Some(text));
    }

    #[test]
    fn names_of_components_differ() {
        let mut names: Vec<&str> = component::ALL.iter().map(|component| component.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), component::ALL.len());
    }
}
