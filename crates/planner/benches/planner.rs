//! How long planning takes: one model on 64 devices of one type, every built-in type on 1 to 1,024 devices,
//! a large model on 16,384 devices, and a model of 4,000 layers.
//!
//! `cargo bench -p wharf-planner --bench planner`
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has failed")]
#![expect(clippy::disallowed_types, reason = "a benchmark needs a clock")]

use std::time::Instant;

use wharf_planner::{Gang, Hardware, Model, Options, families, plans};

const TYPES: [&str; 7] = ["v100", "a10", "a40", "a100", "h100", "l20", "cpu"];
const ROUNDS: u32 = 5;

fn one(model: &Model, hardware: &Hardware, devices: u32) -> usize {
    let gang = Gang { devices, per_node: devices.min(8) };
    plans(model, hardware, gang, devices.max(1024), Options::usual()).unwrap().len()
}

fn main() {
    for name in ["gpt-2.6b", "llama-70b", "moe-10b", "wide_resnet-2b"] {
        let model = families::find(name).unwrap();
        let hardware = Hardware::builtin("a100").unwrap();
        let began = Instant::now();
        let found: usize = (0..ROUNDS).map(|_| one(&model, &hardware, 64)).sum();
        let each = began.elapsed() / ROUNDS;
        println!("{name} on 64 x a100: {} plans in {each:.1?}", found / ROUNDS as usize);
        let began = Instant::now();
        let types = TYPES.map(|name| Hardware::builtin(name).unwrap());
        let all: usize =
            types.iter().flat_map(|hardware| (0..=10).map(|power| one(&model, hardware, 1 << power))).sum();
        println!("  7 types x 1 to 1,024 devices: {all} plans in {:.1?}", began.elapsed());
    }
    let large = families::find("gpt-175b").unwrap();
    let hardware = Hardware::builtin("h100").unwrap();
    let began = Instant::now();
    let found = one(&large, &hardware, 16_384);
    println!("gpt-175b on 16,384 x h100: {found} plans in {:.1?}", began.elapsed());
    let mut deep = families::find("gpt-2.6b").unwrap();
    deep.layers = deep.layers.iter().copied().cycle().take(4000).collect();
    let hardware = Hardware::builtin("h100").unwrap();
    let began = Instant::now();
    let found = one(&deep, &hardware, 16);
    println!("4,000 layers on 16 x h100: {found} plans in {:.1?}", began.elapsed());
}
