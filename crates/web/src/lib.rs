//! What Wharf looks like in a browser: style, widgets and the dashboard's pages, as files within the program.
//!
//! `style.css`, `dom.js`, `format.js` and the files in `widgets/` know no head: a page that is opened from disk can have them,
//! too. The rest is the dashboard. All of it is plain CSS and ECMAScript modules; nothing is fetched from elsewhere, and nothing
//! has to be built. A page that is opened from disk cannot ask for modules: for it they are put into one script ([`bundle`]).

mod bundle;
mod policy;

pub use bundle::{report_script, sweep_script};
pub use policy::{base64, security_policy};

/// A file for the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name, as it is asked for.
    pub name: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE_SHEET: &str = "text/css; charset=utf-8";
const PAGE: &str = "text/html; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// The files under `assets/`, by name.
macro_rules! files {
    ($(($name:literal, $kind:expr)),* $(,)?) => {
        /// All files.
        pub const FILES: &[File] =
            &[$(File { name: $name, kind: $kind, text: include_str!(concat!("../assets/", $name)) }),*];
    };
}

files![
    ("index.html", PAGE),
    ("logo.svg", PICTURE),
    ("style.css", STYLE_SHEET),
    ("app.css", STYLE_SHEET),
    ("dom.js", SCRIPT),
    ("format.js", SCRIPT),
    ("widgets/chart.js", SCRIPT),
    ("widgets/gantt.js", SCRIPT),
    ("widgets/map.js", SCRIPT),
    ("widgets/table.js", SCRIPT),
    ("widgets/timeline.js", SCRIPT),
    ("app.js", SCRIPT),
    ("head.js", SCRIPT),
    ("store.js", SCRIPT),
    ("login.js", SCRIPT),
    ("theme.js", SCRIPT),
    ("toast.js", SCRIPT),
    ("parts.js", SCRIPT),
    ("events.js", SCRIPT),
    ("pages/cluster.js", SCRIPT),
    ("pages/jobs.js", SCRIPT),
    ("pages/job.js", SCRIPT),
    ("pages/logs.js", SCRIPT),
    ("pages/curves.js", SCRIPT),
    ("pages/sweep.js", SCRIPT),
    ("widgets/curves.js", SCRIPT),
    ("widgets/parallel.js", SCRIPT),
    ("widgets/segments.js", SCRIPT),
    ("widgets/sweep.js", SCRIPT),
    ("ansi.js", SCRIPT),
    ("pages/policy.js", SCRIPT),
    ("pages/users.js", SCRIPT),
    ("pages/events.js", SCRIPT),
    ("report/report.css", STYLE_SHEET),
    ("report/report.js", SCRIPT),
    ("report/sweep.js", SCRIPT),
];

/// The style of a page that is opened from disk: that of the dashboard, and what only reports have.
pub const REPORT_STYLE: [&str; 3] = [
    include_str!("../assets/style.css"),
    include_str!("../assets/app.css"),
    include_str!("../assets/report/report.css"),
];

/// Wharf's sign, as a drawing.
pub const LOGO: &str = include_str!("../assets/logo.svg");

/// The file of that name; names are compared as a whole.
#[must_use]
pub fn file(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }

    #[test]
    fn every_asset_is_served_and_every_import_is_an_asset() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let mut found = Vec::new();
        walk(&folder, &mut found);
        assert_eq!(found.len(), FILES.len());
        for file in FILES.iter().filter(|file| file.kind == SCRIPT) {
            let imports =
                file.text.lines().filter_map(|line| line.split_once(" from '")).map(|(_, name)| name);
            for import in imports {
                let name = import.trim_end_matches(['\'', ';']).trim_start_matches('/');
                assert!(self::file(name).is_some(), "{} imports {name}", file.name);
            }
        }
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere_and_no_text_becomes_markup() {
        for file in FILES {
            // Names of namespaces are no addresses.
            let text = file.text.replace("http://www.w3.org/", "");
            for banned in [
                "http://",
                "https://",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "document.write",
            ] {
                assert!(!text.contains(banned), "{}: {banned}", file.name);
            }
        }
    }

    #[test]
    fn tricks_with_paths_find_nothing() {
        for name in
            ["", "../Cargo.toml", "./style.css", "pages", "pages/../app.js", "style.css/", "%2e%2e/app.js"]
        {
            assert_eq!(file(name), None, "{name}");
        }
    }
}
