//! The planner against measured iterations that were published.

use wharf_planner::judge::{self, Defaults, Judged};
use wharf_planner::model::Precision;
use wharf_planner::{Fixed, Framework, Gang, Hardware, Options, Recompute, plans};
use wharf_testing::{needs, reference};

/// As the published measurements were made: A100 with 80 GB, four adapters of 200 Gb/s a node, full recomputation, no overlap.
fn defaults() -> Defaults {
    Defaults {
        hardware: Hardware::builtin("a100-80gb").unwrap().on_network(100.0),
        per_node: 8,
        precision: Precision::Half,
        options: Options { framework: Framework::Megatron, ..Options::default() },
    }
}

fn judged(file: &str) -> Vec<Judged> {
    let text = std::fs::read_to_string(reference("planner").join(file)).unwrap();
    judge::judge(judge::measurements(&text, &defaults()).unwrap()).unwrap()
}

#[test]
fn iterations_on_one_node_are_near_what_was_measured() {
    needs!(REFERENCE);
    let all = judged("vtrain_single.csv");
    let figures = judge::figures(&all);
    if std::env::var_os("WHARF_PLANNER_ROWS").is_some() { for one in &all { eprintln!("{:?} {:.1}% {:.1} {:?}", one.estimate.degrees, 100.0*one.error(), one.measurement.time_s*1e3, one.estimate.parts); } }
    eprintln!("{figures:?}");
}

#[test]
fn iterations_on_many_nodes_are_near_what_was_measured() {
    needs!(REFERENCE);
    let all = judged("vtrain_multi.csv");
    if std::env::var_os("WHARF_PLANNER_ROWS").is_some() { for one in &all { eprintln!("{:?} mb{} {:.1}% {:.1} {:?} {:?}", one.estimate.degrees, one.estimate.microbatches, 100.0*one.error(), one.measurement.time_s*1e3, one.estimate.parts, one.estimate.memory); } }
    let figures = judge::figures(&all);
    eprintln!("{figures:?}");
}

/// A published plan: hidden, heads, layers, key heads, inner, tokens, words.
fn model(name: &str, [hidden, heads, layers, key_heads, inner, tokens, vocabulary]: [u32; 7], is_gated: bool) -> wharf_planner::Model {
    use wharf_planner::families::{Architecture, Transformer};
    let base = Transformer { layers, hidden, heads, key_heads, tokens, vocabulary, inner, is_gated, is_tied: !is_gated };
    Architecture::Transformer(base).model(name, if is_gated { "llama" } else { "gpt" })
}

/// Table 5 of arXiv 2205.05198: seconds of an iteration with full recomputation, and with selective and sequence parallelism.
#[test]
fn megatron_iterations_are_near_what_was_published() {
    let gpt = |name, hidden, heads, layers| model(name, [hidden, heads, layers, heads, 4 * hidden, 2048, 51_200], false);
    for (model, [pipeline, chunks, devices, samples, batch], published) in [
        (gpt("22b", 6144, 64, 48), [1, 1, 8, 4, 4], [1.42, 1.10]),
        (gpt("175b", 12_288, 96, 96), [8, 3, 64, 1, 64], [18.13, 13.75]),
        (gpt("530b", 20_480, 128, 105), [35, 3, 280, 1, 280], [49.05, 37.83]),
        (gpt("1t", 25_600, 160, 128), [64, 1, 512, 1, 512], [94.42, 71.49]),
    ] {
        for (is_selective, time_s) in [(false, published[0]), (true, published[1])] {
            let options = Options {
                framework: Framework::Megatron,
                recompute: if is_selective { Recompute::Selective } else { Recompute::Full },
                is_sequence_parallel: Some(is_selective),
                chunks,
                fixed: Fixed {
                    tensor: Some(8),
                    pipeline: Some(pipeline),
                    data: Some(1),
                    samples: Some(samples),
                    ..Fixed::default()
                },
                ..Options::default()
            };
            let hardware = Hardware::builtin("a100-80gb").unwrap();
            let found = plans(&model, &hardware, Gang { devices, per_node: 8 }, batch, options).unwrap();
            let error = found[0].iteration_s / time_s - 1.0;
            eprintln!("{} {is_selective} {error} {:?} {:?}", model.name, found[0].parts, found[0].memory);
            assert!(error.abs() <= 0.1, "{} {is_selective}: {error}", model.name);
            assert!(found[0].is_fitting, "{} {is_selective}: {:?}", model.name, found[0].memory);
        }
    }
}

/// NVIDIA's published figures for Llama 3.1 405B pretraining.
#[test]
fn llama_iterations_in_8_bits_are_near_what_was_published() {
    let model = model("llama-405b", [16_384, 128, 126, 8, 53_248, 8192, 128_256], true).in_precision(Precision::Fp8);
    for (devices, time_s) in [(512, 50.0), (1024, 25.4)] {
        let options = Options {
            framework: Framework::Megatron,
            recompute: Recompute::None,
            zero: 1,
            fixed: Fixed { tensor: Some(4), pipeline: Some(8), context: Some(2), samples: Some(1), ..Fixed::default() },
            ..Options::default()
        };
        let hardware = Hardware::builtin("h200").unwrap();
        let found = plans(&model, &hardware, Gang { devices, per_node: 8 }, 1152, options).unwrap();
        let error = found[0].iteration_s / time_s - 1.0;
        eprintln!("{devices} {error} {:?} {:?}", found[0].parts, found[0].memory);
        assert!(error.abs() <= 0.15, "{devices}: {error}");
    }
}
