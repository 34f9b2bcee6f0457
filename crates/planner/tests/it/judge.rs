//! The planner against measured iterations that were published.

use wharf_planner::fit::{Errors, Fit};
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
    assert_eq!((figures.count, figures.impossible), (235, 0));
    assert!(figures.median <= 0.07 && figures.mean <= 0.10 && figures.p90 <= 0.20, "{figures:?}");
    assert!(figures.tau >= 0.85, "{figures:?}");
    // Of three measured cells of width, tensor parallelism and microbatch, none of which a cost model explains, the best plans of five
    // groups are chosen otherwise: the share is a regression check.
    assert!(figures.chosen >= 0.70, "{figures:?}");
    assert!(figures.coverage >= 0.80 && figures.half_width <= 0.20, "{figures:?}");
}

#[test]
fn iterations_on_many_nodes_are_near_what_was_measured() {
    needs!(REFERENCE);
    let figures = judge::figures(&judged("vtrain_multi.csv"));
    assert_eq!((figures.count, figures.impossible), (15, 0));
    assert!(figures.median <= 0.10 && figures.chosen >= 1.0, "{figures:?}");
    assert!(figures.coverage >= 0.80 && figures.half_width <= 0.20, "{figures:?}");
}

/// A published plan: hidden, heads, layers, key heads, inner, tokens, words.
fn model(
    name: &str,
    [hidden, heads, layers, key_heads, inner, tokens, vocabulary]: [u32; 7],
    is_gated: bool,
) -> wharf_planner::Model {
    use wharf_planner::families::{Architecture, Transformer};
    let base = Transformer {
        layers,
        hidden,
        heads,
        key_heads,
        tokens,
        vocabulary,
        inner,
        is_gated,
        is_tied: !is_gated,
    };
    Architecture::Transformer(base).model(name, if is_gated { "llama" } else { "gpt" })
}

/// Table 5 of arXiv 2205.05198: seconds of an iteration with full recomputation, and with selective and sequence parallelism.
#[test]
fn megatron_iterations_are_near_what_was_published() {
    let gpt = |name, hidden, heads, layers| {
        model(name, [hidden, heads, layers, heads, 4 * hidden, 2048, 51_200], false)
    };
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
            assert!(error.abs() <= 0.1, "{} {is_selective}: {error}", model.name);
            assert!(found[0].is_fitting, "{} {is_selective}: {:?}", model.name, found[0].memory);
        }
    }
}

/// NVIDIA's published figures for Llama 3.1 405B pretraining.
#[test]
fn llama_iterations_in_8_bits_are_near_what_was_published() {
    let model =
        model("llama-405b", [16_384, 128, 126, 8, 53_248, 8192, 128_256], true).in_precision(Precision::Fp8);
    for (devices, time_s) in [(512, 50.0), (1024, 25.4)] {
        let options = Options {
            framework: Framework::Megatron,
            recompute: Recompute::None,
            zero: 1,
            fixed: Fixed {
                tensor: Some(4),
                pipeline: Some(8),
                context: Some(2),
                samples: Some(1),
                ..Fixed::default()
            },
            ..Options::default()
        };
        let hardware = Hardware::builtin("h200").unwrap();
        let found = plans(&model, &hardware, Gang { devices, per_node: 8 }, 1152, options).unwrap();
        let error = found[0].iteration_s / time_s - 1.0;
        assert!(error.abs() <= 0.15, "{devices}: {error}");
    }
}

/// Estimates as measurements leave everything as it is.
#[test]
fn fitting_its_own_estimates_changes_nothing() {
    needs!(REFERENCE);
    let text = std::fs::read_to_string(reference("planner").join("vtrain_single.csv")).unwrap();
    let mut all = judge::measurements(&text, &defaults()).unwrap();
    all.truncate(60);
    for one in &mut all {
        one.time_s = one.estimate().unwrap().iteration_s;
    }
    let fit = Errors::of(&all).unwrap().fit_all();
    assert!(!fit.is_used(), "{fit:?}");
}

/// Fits of half of the measurements do not make the other half worse, over 100 halves.
#[test]
fn fitting_half_of_the_measurements_does_not_harm_the_others() {
    needs!(REFERENCE);
    let text = std::fs::read_to_string(reference("planner").join("vtrain_single.csv")).unwrap();
    let all = judge::measurements(&text, &defaults()).unwrap();
    let errors = Errors::of(&all).unwrap();
    let mut state = 27_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut worst = f64::MIN;
    for _ in 0..100 {
        let mut order: Vec<usize> = (0..all.len()).collect();
        for place in (1..order.len()).rev() {
            order.swap(place, random() as usize % (place + 1));
        }
        let (teachers, others) = order.split_at(all.len() / 2);
        let median = |fit: &Fit| {
            let mut sizes = errors.sizes(fit, others);
            sizes.sort_by(f64::total_cmp);
            sizes[sizes.len() / 2]
        };
        worst = worst.max(median(&errors.fit(teachers)) - median(&Fit::NONE));
    }
    assert!(worst <= 0.005, "{worst}");
}

/// What a slow host and slow devices took is found, and corrects plans that were not among the measurements.
#[test]
fn fits_find_what_differs_and_hold_for_other_plans() {
    needs!(REFERENCE);
    let text = std::fs::read_to_string(reference("planner").join("vtrain_single.csv")).unwrap();
    let mut all = judge::measurements(&text, &defaults()).unwrap();
    let truth = Fit { host: 0.7, device: 0.8, ..Fit::NONE };
    for one in &mut all {
        let hardware = truth.apply(&one.hardware);
        one.time_s = judge::Measurement { hardware, ..one.clone() }.estimate().unwrap().iteration_s;
    }
    let (teachers, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.line % 2 == 0);
    let fit = Errors::of(&teachers).unwrap().fit_all();
    assert_eq!((fit.host, fit.device), (0.7, 0.8), "{fit:?}");
    for one in others {
        let hardware = fit.apply(&one.hardware);
        let corrected = judge::Measurement { hardware, ..one.clone() }.estimate().unwrap();
        assert!((corrected.iteration_s / one.time_s - 1.0).abs() < 0.05, "line {}", one.line);
    }
}

/// A table that makes no sense is refused with what would be valid.
#[test]
fn tables_that_make_no_sense_are_refused() {
    let header = "devices,batch,mb,hidden,heads,layers,tokens,tp,dp,pp,time_s,precision";
    let row = "8,8,1,2048,16,20,1024,2,4,1,0.16,fp16";
    let good = format!("{header}\n{row}\n");
    assert_eq!(judge::measurements(&good, &defaults()).unwrap().len(), 1);
    for (text, part) in [
        (String::new(), "a header and a row"),
        (format!("{header}\n"), "a header and a row"),
        (format!("{header},colour\n{row},red\n"), "unknown column `colour`; known are time_s, devices"),
        (good.replace("0.16", "-1"), "line 2: `time_s` is `-1`, expected a number above 0"),
        (good.replace("0.16", "nan"), "expected a number above 0"),
        (good.replace("0.16", ""), "line 2: `time_s` is missing"),
        (good.replace("fp16", "fp8"), "a100-80gb has no products of fp8; it has fp32, bf16 and fp16"),
        (good.replace("fp16", "int3"), "expected fp32, tf32, bf16"),
        (
            format!("{good}{}\n", row.replace("0.16", "0.32")),
            "lines 2 and 3 measure the same plan and differ",
        ),
    ] {
        let error = judge::measurements(&text, &defaults()).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    for (row, part) in [
        (row.replace(",2,4,1,", ",3,4,1,"), "need 12 devices"),
        (row.replace(",2,4,1,", ",2,2,1,"), "dp=4 would use them"),
        (row.replace("8,8,1,", "8,8,3,"), "mb=3 does not divide 2 samples of a replica; valid are 1, 2"),
        (row.replace("20,1024,2,4,1", "2,1024,1,1,8"), "pp=8 needs 8 layers"),
    ] {
        let text = format!("{header}\n{row}\n");
        let error = judge::judge(judge::measurements(&text, &defaults()).unwrap()).unwrap_err().to_string();
        assert!(error.contains(part), "{row}: {error}");
    }
}
