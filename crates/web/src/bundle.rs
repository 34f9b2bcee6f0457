//! Modules as one plain script: each becomes a function that is called once, and gives what the module exports.
//!
//! Our modules are simple enough for that to be done by line: imports are named and stand on one line each, and what is exported
//! is a declaration.

use std::fmt::Write as _;

use crate::file;

/// The script of reports.
#[must_use]
pub fn report_script() -> String {
    bundle("report/report.js")
}

/// The script of a sweep's report.
#[must_use]
pub fn sweep_script() -> String {
    bundle("report/sweep.js")
}

fn bundle(entry: &'static str) -> String {
    let mut script = String::from("'use strict';\n");
    add(entry, &mut Vec::new(), &mut script);
    script
}

/// Adds a module after those that it needs, each once.
fn add(name: &'static str, added: &mut Vec<&'static str>, script: &mut String) {
    if added.contains(&name) {
        return;
    }
    added.push(name);
    let text = file(name).map_or("", |file| file.text);
    let (mut body, mut exports) = (String::with_capacity(text.len()), Vec::new());
    for line in text.lines() {
        if let Some((names, from)) = import(line) {
            add(from, added, script);
            // Writing to a string cannot fail.
            let _ = writeln!(body, "const {names} = {};", variable(from));
        } else if let Some(declared) = line.strip_prefix("export ") {
            exports.extend(declared_name(declared));
            body.push_str(declared);
            body.push('\n');
        } else {
            body.push_str(line);
            body.push('\n');
        }
    }
    let _ = write!(
        script,
        "const {} = (() => {{\n{body}return {{ {} }};\n}})();\n",
        variable(name),
        exports.join(", ")
    );
}

/// The names and the module of an import.
fn import(line: &str) -> Option<(&str, &'static str)> {
    let (names, from) = line.strip_prefix("import ")?.split_once(" from '/")?;
    Some((names, file(from.trim_end_matches([';', '\'']))?.name))
}

/// The name of what is declared: `async function name(`, `const name =`, `class Name {`.
fn declared_name(declaration: &str) -> Option<&str> {
    let declaration = declaration.strip_prefix("async ").unwrap_or(declaration);
    let (_, rest) = declaration.split_once(' ')?;
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
}

/// What a module is called in the script.
fn variable(name: &str) -> String {
    let plain = |letter: char| if letter.is_alphanumeric() { letter } else { '_' };
    std::iter::once('$').chain(name.trim_end_matches(".js").chars().map(plain)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_become_one_script_in_order() {
        let script = report_script();
        let at = |text: &str| script.find(text).unwrap_or_else(|| panic!("{text} in {script}"));
        assert!(at("const $dom = ") < at("const { h, perFrame } = $dom;"));
        assert!(at("const $widgets_timeline = ") < at("const { Timeline } = $widgets_timeline;"));
        assert_eq!(script.matches("const $dom = ").count(), 1, "each once");
        assert!(script.contains("return { h, s, replace, perFrame, settled };"));
        for left in ["\nimport ", "\nexport ", "</script", "<!--"] {
            assert!(!script.contains(left), "{left}");
        }
    }

    #[test]
    fn declarations_have_names() {
        for (declaration, name) in [
            ("const percent = (share) => 1;", "percent"),
            ("function h(tag, ...children) {", "h"),
            ("async function later() {", "later"),
            ("class Timeline {", "Timeline"),
        ] {
            assert_eq!(declared_name(declaration), Some(name));
        }
    }
}
