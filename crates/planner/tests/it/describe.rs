//! Models and devices that files describe: what they mean, and how mistakes are told.

use std::path::{Path, PathBuf};

use wharf_planner::Model;
use wharf_planner::describe::{self, DescriptionError};
use wharf_planner::links::Link;
use wharf_planner::model::{Kind, Precision};
use wharf_planner::{Gang, Hardware, Options, families, plans};

fn model(path: &Path) -> Result<Model, DescriptionError> {
    describe::model(path, &std::fs::read_to_string(path).unwrap())
}

fn hardware(path: &Path) -> Result<Vec<Hardware>, DescriptionError> {
    describe::hardware(path, &std::fs::read_to_string(path).unwrap())
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/planner").join(name)
}

fn written(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// A built-in size that is written down is the built-in one, in all formats.
#[test]
fn a_family_in_a_size_of_ones_own() {
    let builtin = families::find("gpt-1.3b").unwrap();
    for (file, text) in [
        ("m.yaml", "name: gpt-1.3b\nfamily: gpt\nsize: {layers: 24, hidden: 2048, heads: 32}\n"),
        ("m.toml", "name = 'gpt-1.3b'\nfamily = 'gpt'\n[size]\nlayers = 24\nhidden = 2048\nheads = 32\n"),
        (
            "m.json",
            r#"{"name": "gpt-1.3b", "family": "gpt", "size": {"layers": 24, "hidden": 2048, "heads": 32}}"#,
        ),
    ] {
        let (_folder, path) = written(file, text);
        assert_eq!(model(&path).unwrap(), builtin, "{file}");
    }
    for (name, size) in [
        ("llama-8b", "{layers: 32, hidden: 4096, heads: 32, key_heads: 8, inner: 14336, vocabulary: 128256}"),
        ("moe-690m", "{layers: 8, hidden: 768, heads: 16, experts: 16}"),
        ("wide_resnet-6.8b", "{channels: 320, width: 16}"),
        ("vit-l", "{layers: 24, hidden: 1024, heads: 16}"),
    ] {
        let family = name.split('-').next().unwrap();
        let (_folder, path) = written("m.yml", &format!("name: {name}\nfamily: {family}\nsize: {size}\n"));
        assert_eq!(model(&path).unwrap(), families::find(name).unwrap());
    }
    let (_folder, path) = written(
        "m.yaml",
        "name: x\nfamily: gpt\nprecision: single\nsize: {layers: 24, hidden: 2048, heads: 32}\n",
    );
    let single = model(&path).unwrap();
    assert_eq!((single.precision, single.state_bytes), (Precision::Single, 16.0));
    assert_eq!(single.layers[3].output_bytes, 2.0 * builtin.layers[3].output_bytes);
    assert_eq!(single.layers[3].flop, builtin.layers[3].flop);
}

#[test]
fn examples_are_read_and_planned() {
    let layers = model(&example("layers.toml")).unwrap();
    assert_eq!((layers.layers.len(), layers.splits, layers.kind), (24, 16, Kind::Matrix));
    assert!((layers.parameters() - 12.0 * 16.6e6).abs() < 1.0);
    let own = model(&example("model.yaml")).unwrap();
    let devices = hardware(&example("hardware.yaml")).unwrap();
    let [rtx4090, large, host] = &devices[..] else { panic!("{devices:?}") };
    assert_eq!((&*rtx4090.name, rtx4090.per_node, rtx4090.is_rounding), ("rtx4090", Some(4), true));
    let Link { gb_per_s, latency_s } = rtx4090.links.send_far;
    assert!(gb_per_s == 2.5 && (latency_s - 80e-6).abs() < 1e-12, "{latency_s}");
    let usual = Hardware::builtin("a100").unwrap();
    assert_eq!((large.half_tflops, large.links, large.memory_gib), (usual.half_tflops, usual.links, 80.0));
    assert_eq!((host.at_once, rtx4090.at_once), (Some(4.0), None));
    for model in [&layers, &own] {
        for hardware in &devices {
            let gang = Gang { devices: 4, per_node: 4 };
            let found = plans(model, hardware, gang, 64, Options::default()).unwrap();
            assert!(found[0].iteration_s > 0.0 && found.len() >= 6);
        }
    }
}

/// What one stage has more to do than the others takes less where they share a processor and leave it to that stage.
#[test]
fn a_stage_alone_has_a_shared_processor_for_itself() {
    let mut model = model(&example("layers.toml")).unwrap();
    model.layers.last_mut().unwrap().flop *= 20.0;
    let mut host = hardware(&example("hardware.yaml")).unwrap().remove(2);
    let gang = Gang { devices: 8, per_node: 8 };
    let time_s = |host: &Hardware, pipeline: u32| {
        let found = plans(&model, host, gang, 64, Options::default()).unwrap();
        found.iter().find(|plan| plan.degrees.pipeline == pipeline).unwrap().iteration_s
    };
    let (shared_8, shared_1) = (time_s(&host, 8), time_s(&host, 1));
    host.at_once = None;
    assert!(shared_8 < 0.7 * time_s(&host, 8), "half as many devices as cores, each twice as fast");
    assert_eq!(shared_1, time_s(&host, 1), "all have the same to do");
}

#[test]
fn mistakes_are_reported_with_line_and_field() {
    let layer = "flop: 1\n    parameters: 1\n    output_bytes: 1\n    activation_bytes: 1";
    let model = |path: &Path| model(path).map(|_| ()).unwrap_err().to_string();
    let hardware = |path: &Path| hardware(path).map(|_| ()).unwrap_err().to_string();
    type Refusal = dyn Fn(&Path) -> String;
    for (read, file, text, told) in [
        (
            &model as &Refusal,
            "m.yaml",
            "name: x\nsizes: {}\n",
            "m.yaml:2:1: `sizes`: unknown field `sizes` (did you mean `size`?)",
        ),
        (&model, "m.yaml", "name: x\n", "neither `size` nor `layers` is given"),
        (&model, "m.yaml", "family: gpt\nsize: {}\n", "`name`: required"),
        (
            &model,
            "m.yaml",
            "name: x\nfamily: gtp\nsize: {}\n",
            "m.yaml:2:1: `family`: `gtp` is unknown; expected one of gpt, bert",
        ),
        (
            &model,
            "m.yaml",
            "name: x\nfamily: gpt\nsize:\n  layers: 2\n  hidden: 100\n  heads: 7\n",
            "m.yaml:6:3: `size.heads`: 100 is no multiple of 7",
        ),
        (
            &model,
            "m.yaml",
            "name: x\nfamily: gpt\nsize:\n  layers: 0\n  hidden: 64\n  heads: 8\n",
            "m.yaml:4:3: `size.layers`: expected a whole number from 1 to 4096, found 0",
        ),
        (
            &model,
            "m.toml",
            "name = 'x'\nfamily = 'gpt'\nsplits = 2\n[size]\nlayers = 2\n",
            "m.toml:3:1: `splits`: it follows from the family",
        ),
        (&model, "m.json", "{\"name\": \"x\", \"layers\": [{\"flop\": 1", "m.json:1:"),
        (
            &model,
            "m.yaml",
            "name: x\nlayers:\n  - flop: 1\n    parameters: -3\n    output_bytes: 1\n    activation_bytes: 1\n",
            "m.yaml:4:17: `layers[0].parameters`: expected a number from 0 on, found -3",
        ),
        (&model, "m.yaml", "name: x\nlayers:\n  - flop: 1\n", "`layers[0].output_bytes`: required"),
        (
            &model,
            "m.yaml",
            &format!("name: x\nlayers:\n  - {layer}\n    repeat: 9999\n"),
            "`layers[0].repeat`: expected a whole number from 1 to 4096",
        ),
        (
            &model,
            "m.yaml",
            &format!("name: x\nstate_bytes: 2\nlayers:\n  - {layer}\n"),
            "m.yaml:2:1: `state_bytes`: a parameter and its gradient alone take 4 bytes",
        ),
        (&model, "m.txt", "name: x\n", "the name must end with .yaml, .toml or .json"),
        (
            &hardware,
            "h.yaml",
            "devices:\n  - name: x\n    half_tflops: 1\n",
            "h.yaml:2:5: `devices[0].memory_gb_per_s`: required, unless `like` names a known device",
        ),
        (
            &hardware,
            "h.yaml",
            "devices:\n  - name: x\n    like: b100\n",
            "h.yaml:3:5: `devices[0].like`: unknown device `b100`",
        ),
        (
            &hardware,
            "h.yaml",
            "devices:\n  - name: x\n    like: a100\n    memory_gib: 0\n",
            "h.yaml:4:5: `devices[0].memory_gib`: expected a number above 0",
        ),
        (
            &hardware,
            "h.yaml",
            "devices:\n  - {name: x, like: a100}\n  - {name: X, like: h100}\n",
            "`x` is described twice",
        ),
        (
            &hardware,
            "h.yaml",
            "devices:\n  - {name: x, like: a100, links: {near: {latency_us: 3}}}\n",
            "`devices[0].links.near.gb_per_s`: required",
        ),
        (&hardware, "h.yaml", "models: []\n", "unknown field `models`"),
    ] {
        let (_folder, path) = written(file, text);
        let said = read(&path);
        assert!(said.contains(told), "{text}\n{said}");
    }
}
