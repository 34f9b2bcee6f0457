//! Sweep files, good and bad.

use std::path::PathBuf;

use super::*;
use crate::document::Format;
use crate::tests::rendered;

fn context(folder: PathBuf) -> Context {
    Context {
        account: String::new(),
        workdir: "/here".into(),
        folder,
        user: "ann".into(),
        now_s: 1000.0,
        shell: Default::default(),
        no_container: false,
    }
}

fn read(text: &str) -> Result<Sweep, String> {
    let source = Source { name: "sweep", text, format: Format::Yaml };
    sweep(source, &Job::default(), &context("/files".into())).map_err(|error| rendered(&error))
}

fn rows(text: &str) -> Vec<String> {
    let sweep = read(&format!("{text}\njob: {{command: train --all-of WHARF_PARAM_}}\n"))
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    sweep.parameters().1.iter().map(|row| row.values.join(" ")).collect()
}

#[test]
fn configurations_come_in_a_stable_order() {
    for (text, expected) in [
        ("parameters: {lr: [0.10, 1e-2], n: [1, 2]}", vec!["0.10 1", "0.10 2", "1e-2 1", "1e-2 2"]),
        ("parameters: {lr: [a, b], n: 7}\nsearch: list", vec!["a 7", "b 7"]),
        ("parameters: {lr: {from: 0, to: 0.3, step: 0.1}}", vec!["0", "0.1", "0.2", "0.3"]),
        (
            "parameters: {n: {from: 2, to: 6, step: 2}, flag: [true, false]}\nsearch: grid",
            vec!["2 true", "2 false", "4 true", "4 false", "6 true", "6 false"],
        ),
    ] {
        assert_eq!(rows(text), expected, "{text}");
    }
}

#[test]
fn draws_follow_from_the_seed_within_bounds() {
    let text = |seed| {
        format!(
            "parameters: {{lr: {{min: 1e-5, max: 1e-1, scale: log}}, n: {{min: 1, max: 3, whole: true}}, act: [relu, tanh]}}\n\
             search: random\ncount: 200\nseed: {seed}"
        )
    };
    let drawn = rows(&text(7));
    assert_eq!(drawn, rows(&text(7)));
    assert_ne!(drawn, rows(&text(8)));
    let small = drawn.iter().filter(|row| {
        let words: Vec<&str> = row.split(' ').collect();
        let (lr, n): (f64, u32) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        assert!(
            (1e-5..=1e-1).contains(&lr) && (1..=3).contains(&n) && ["relu", "tanh"].contains(&words[2]),
            "{row}"
        );
        lr < 1e-3
    });
    let small = small.count();
    assert!((60..=140).contains(&small), "half of a logarithmic scale: {small} of 200");
}

#[test]
fn sweep_without_a_name_is_called_as_its_script() {
    for (fields, expected) in [
        ("job: {command: 'python3 src/tf.py --lr {lr}'}", "tf"),
        ("job: {command: './train.v2 {lr}'}", "train.v2"),
        ("job: {name: tf.py, command: 'python3 tf.py {lr}'}", "tf.py"),
        ("name: rates.py\njob: {command: 'python3 tf.py {lr}'}", "rates.py"),
    ] {
        assert_eq!(
            read(&format!("parameters: {{lr: [1, 2]}}\n{fields}\n")).unwrap().name,
            expected,
            "{fields}"
        );
    }
}

#[test]
fn a_sweep_is_an_array_with_its_parameters() {
    let sweep = read(
        "name: rates\nparameters: {lr: [1, 2, 3]}\njob: {command: 'train --lr {lr}', output: '{lr}.txt'}\n",
    )
    .unwrap();
    assert_eq!((sweep.name.as_str(), sweep.spec.array.as_slice()), ("rates", &[0, 1, 2][..]));
    assert_eq!(sweep.spec.command, ["train", "--lr", "{lr}"]);
    assert_eq!(sweep.parameters().0, ["lr"]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("c.csv"), "lr, note\n0.1,\"a, b\"\n0.2,c\n").unwrap();
    let source = Source {
        name: "sweep",
        text: "csv: c.csv\njob: {command: 'train {lr} {note}'}\n",
        format: Format::Yaml,
    };
    let sweep = super::sweep(source, &Job::default(), &context(folder.path().to_owned())).ok().unwrap();
    let values: Vec<&[String]> = sweep.parameters().1.iter().map(|row| row.values.as_slice()).collect();
    assert_eq!(values, [["0.1", "a, b"], ["0.2", "c"]]);
}

#[test]
fn invalid_sweep_is_rejected_with_its_position() {
    for (text, expected) in [
        (
            "job: {command: x}",
            "error: sweep:1:1: the sweep has no parameters; set `parameters`, or a file with `csv`\n",
        ),
        ("parameters: {lr: 1}", "error: sweep:1:1: the sweep has no job; add `job`\n"),
        (
            "parameters: {lr: []}\njob: {command: x}",
            "error: sweep:1:18: parameters.lr: it has no values; name one, or leave it out\n",
        ),
        (
            "parameters: {lr: {min: 1, max: 2}}\njob: {command: x}",
            "error: sweep:1:14: parameters.lr: no list of values; give one, or set `search: random`\n",
        ),
        (
            "parameters: {lr: [1, 2], n: [1, 2, 3]}\nsearch: list\njob: {command: x}",
            "error: sweep:1:1: parameters: `search: list` needs as many values of each parameter, or a single one\n",
        ),
        (
            "parameters: {lr: 1}\nsearch: random\njob: {command: x}",
            "error: sweep:1:1: count: `search: random` needs the number of elements, as in `count: 20`\n",
        ),
        (
            "parameters: {lr: 1}\njob: {command: x, array: 0-3}",
            "error: sweep:2:19: job.array: a sweep is an array already; leave it out\n",
        ),
        (
            "parameters: {a b: 1}\njob: {command: x}",
            "error: sweep:1:1: parameters: `a b` is not a valid parameter name; expected up to 64 letters, digits, `_`, `-` and `.`\n",
        ),
        (
            "parameters: {lr: 1}\njob: {command: 'x {learning_rate}'}",
            "error: sweep:1:14: parameters.lr: nothing uses it, and `{learning_rate}` is no parameter; put `{lr}` into the command, or into a variable as in `env: {X: '{lr}'}`\n",
        ),
        (
            "parameters: {lr: 1}\njob: {command: 'x {lr} {n}'}",
            "error: sweep:2:7: job.command: `{n}` is no parameter; name it in `parameters`, or leave the braces out\n",
        ),
        (
            "parameters: {lr: [1, 2]}\njob: {command: 'x {lr}', checkpoint: {dir: here}}",
            "error: sweep:2:39: job.checkpoint.dir: several elements would overwrite each other's checkpoints there; put %a into it, or leave it out: each element then gets a directory of its own\n",
        ),
        (
            "parameters: {lr: 1}\njob: {command: x, gnag: 3}",
            "error: sweep:2:19: job.gnag: unknown field `gnag`\nhint: did you mean `gang`?\n",
        ),
    ] {
        assert_eq!(read(text).expect_err(text), expected);
    }
}

#[test]
fn elements_that_write_the_same_file_are_noticed() {
    let found = |job: &str| {
        let text = format!(
            "parameters: {{lr: [1, 2], n: [1, 2], out-dir: [x]}}\njob: {{command: 'train {{lr}} {{n}} {{out-dir}}', {job}}}\n"
        );
        clashes(&read(&text).unwrap().spec)
    };
    let usual = "4 elements have `out-dir` x, and may write the same file";
    assert_eq!(found("output: '%x-%a.txt'"), [usual]);
    assert_eq!(found("output: '{lr}-{n}.txt'"), [usual]);
    assert_eq!(
        found("output: '{lr}.txt'"),
        ["several elements have the same `output`, /here/{lr}.txt; put %a into it", usual]
    );
    let told = |command: &str| {
        let text =
            format!("parameters: {{lr: [1, 2]}}\njob: {{command: {command:?}, env: {{LR: '{{lr}}'}}}}\n");
        clashes(&read(&text).unwrap().spec)
    };
    for (command, count) in [
        ("train --save-dir models/{lr}", 0),
        ("train --save-dir models", 1),
        ("train --output=r.json --dropout 0.5", 1),
        ("train --data-dir d --layout wide --verbose", 0),
        ("sh -c 'train --out $WHARF_ARRAY_INDEX'", 0),
    ] {
        assert_eq!(told(command).len(), count, "{command}: {:?}", told(command));
    }
}
