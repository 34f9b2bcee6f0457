//! What the planner answers, in tables and as a document.

use serde_json::{Value, json};
use wharf_planner::cells::Cost;
use wharf_planner::families::FAMILIES;
use wharf_planner::links::{Link, Links};
use wharf_planner::nodes::{self, Node};
use wharf_planner::{Degrees, Estimate, Gang, Hardware, Model, Parts, cells};

use super::curves::{cost, misfit};
use super::question::{Answer, Question};
use crate::args::OutputFormat;
use crate::error::CliError;
use crate::output::Terminal;
use crate::output::grid::Grid;

/// The best plans for some devices.
pub(super) fn plans(
    question: &Question,
    answer: &Answer,
    top: usize,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let mut grid =
        Grid::new(["plan", "microbatches", "s/iteration", "samples/s", "GiB", "bubble", "of peak", "why"]);
    for plan in answer.plans.iter().take(top.max(1)) {
        let iteration_s = answer.iteration_s(plan);
        grid.push([
            &name(plan.degrees),
            &plan.microbatches.to_string(),
            &format!("{iteration_s:.3}"),
            &format!("{:.1}", f64::from(question.batch) / iteration_s),
            &format!("{:.1}", plan.memory_gib),
            &percent(plan.parts.bubble_s / plan.iteration_s),
            &percent(of_peak(question, answer, plan)),
            &why(plan, answer),
        ]);
    }
    terminal.note(&format!(
        "{} ({}) with {} samples on {} x {}, {} to a node",
        question.model.name,
        size(question.model.parameters()),
        question.batch,
        answer.devices.count,
        answer.devices.device_type,
        answer.gang.per_node
    ));
    terminal.grid(&grid)?;
    terminal.note(&sureness(answer));
    for note in question.notes(answer) {
        terminal.note(&note);
    }
    if let Some(best) = answer.best() {
        terminal.note(&format!("torchrun: {}", torchrun(answer)));
        terminal.note(&format!("jax:      {}", mesh(best.degrees)));
    }
    Ok(())
}

/// The best plan for every number of devices.
pub(super) fn sweep(answers: &[Answer], terminal: &Terminal) -> Result<(), CliError> {
    let mut grid =
        Grid::new(["type", "devices", "plan", "s/iteration", "speed-up", "GiB", "cost of 1000", "how sure"]);
    let mut first: Option<(&str, f64)> = None;
    for answer in answers {
        let name_of_type = answer.devices.device_type.as_str();
        let count = answer.devices.count.to_string();
        let Some(best) = answer.best() else {
            let needed = answer.plans.first().map(|plan| format!("{:.1}", plan.memory_gib));
            grid.push([name_of_type, &count, misfit(answer), "", "", &needed.unwrap_or_default(), "", ""]);
            continue;
        };
        let iteration_s = answer.iteration_s(best);
        let base_s = match first {
            Some((of, base_s)) if of == name_of_type => base_s,
            _ => iteration_s,
        };
        first = Some((name_of_type, base_s));
        grid.push([
            name_of_type,
            &count,
            &name(best.degrees),
            &format!("{iteration_s:.3}"),
            &format!("{:.2}", base_s / iteration_s),
            &format!("{:.1}", best.memory_gib),
            &format!("{:.2}", cost(answer, best)),
            answer.source_of(best),
        ]);
    }
    terminal.grid(&grid)?;
    answers.iter().filter_map(|answer| answer.refusal.as_ref()).for_each(|refusal| terminal.note(refusal));
    Ok(())
}

/// The best plan for each number of stages, and whether another beats it.
pub(super) fn cells(answers: &[Answer], terminal: &Terminal) -> Result<(), CliError> {
    let mut grid =
        Grid::new(["type", "devices", "stages", "plan", "s/iteration", "GiB", "efficient", "how sure"]);
    for (answer, plan, is_efficient) in efficient_cells(answers) {
        grid.push([
            answer.devices.device_type.as_str(),
            &answer.devices.count.to_string(),
            &plan.degrees.pipeline.to_string(),
            &name(plan.degrees),
            &format!("{:.3}", answer.iteration_s(plan)),
            &format!("{:.1}", plan.memory_gib),
            if is_efficient { "yes" } else { "" },
            answer.source_of(plan),
        ]);
    }
    terminal.grid(&grid)
}

/// All cells, with whether no other of their type beats them.
fn efficient_cells(answers: &[Answer]) -> Vec<(&Answer, &Estimate, bool)> {
    let all: Vec<(&Answer, &Estimate)> = answers
        .iter()
        .flat_map(|answer| cells::cells(&answer.plans).into_iter().map(move |cell| (answer, cell)))
        .collect();
    let cost = |&(answer, plan): &(&Answer, &Estimate)| Cost {
        devices: plan.degrees.devices(),
        iteration_s: answer.iteration_s(plan),
        memory_gib: plan.memory_gib,
    };
    let is_efficient = |&(answer, plan): &(&Answer, &Estimate)| {
        let is_same =
            |(other, _): &&(&Answer, &Estimate)| other.devices.device_type == answer.devices.device_type;
        let same: Vec<&(&Answer, &Estimate)> = all.iter().filter(is_same).collect();
        let costs: Vec<Cost> = same.iter().map(|cell| cost(cell)).collect();
        let position = same.iter().position(|(_, cell)| std::ptr::eq(*cell, plan));
        position.is_some_and(|position| cells::efficient(&costs)[position])
    };
    all.iter().map(|cell| (cell.0, cell.1, is_efficient(cell))).collect()
}

/// Everything for programs.
pub(super) fn document(question: &Question, answers: &[Answer], top: usize) -> Value {
    let all_cells = efficient_cells(answers);
    let one = |answer: &Answer| {
        let own = all_cells.iter().filter(|(of, ..)| std::ptr::eq(*of, answer));
        let cells: Vec<Value> = own
            .map(|&(_, plan, is_efficient)| {
                json!({
                    "stages": plan.degrees.pipeline,
                    "plan": name(plan.degrees),
                    "iteration_s": answer.iteration_s(plan),
                    "memory_gib": plan.memory_gib,
                    "is_efficient": is_efficient,
                })
            })
            .collect();
        let plans: Vec<Value> =
            answer.plans.iter().take(top.max(1)).map(|plan| shown(question, answer, plan)).collect();
        json!({
            "device_type": answer.devices.device_type,
            "devices": answer.devices.count,
            "per_node": answer.gang.per_node,
            "source": answer.source(),
            "error": answer.correction.error,
            "runs": answer.correction.runs,
            "refusal": answer.refusal,
            "network_gb_per_s": answer.hardware.links.far.gb_per_s,
            "warnings": question.notes(answer),
            "measured_s": answer.measured_s,
            "price_per_h": answer.hardware.price_per_h,
            "launch": { "torchrun": torchrun(answer), "jax": answer.best().map(|plan| mesh(plan.degrees)) },
            "cells": cells,
            "plans": plans,
        })
    };
    json!({
        "schema": 1,
        "model": &*question.model.name,
        "parameters": question.model.parameters(),
        "forward_flop_per_sample": question.model.flop(),
        "batch": question.batch,
        "gangs": answers.iter().map(one).collect::<Vec<_>>(),
    })
}

fn shown(question: &Question, answer: &Answer, plan: &Estimate) -> Value {
    let iteration_s = answer.iteration_s(plan);
    let Parts { compute_s, tensor_s, expert_s, context_s, data_s, pipeline_s, bubble_s, update_s } =
        plan.parts;
    let (low, high) = answer.interval_s(plan);
    let memory = plan.memory;
    let stages: Vec<[usize; 2]> = plan.stages.iter().map(|layers| [layers.start, layers.end]).collect();
    json!({
        "plan": name(plan.degrees),
        "pipeline": plan.degrees.pipeline,
        "data": plan.degrees.data,
        "tensor": plan.degrees.tensor,
        "context": plan.degrees.context,
        "expert": plan.degrees.expert,
        "microbatches": plan.microbatches,
        "stages": stages,
        "fits": plan.is_fitting,
        "memory_gib": plan.memory_gib,
        "shortfall_gib": answer.shortfall_gib(plan),
        "memory": {
            "weights": memory.weights_gib, "gradients": memory.gradients_gib, "optimizer": memory.optimizer_gib,
            "activations": memory.activations_gib, "workspace": memory.workspace_gib,
        },
        "interval_s": [low, high],
        "tokens_per_s": question.model.tokens().map(|tokens| tokens * f64::from(question.batch) / iteration_s),
        "iteration_s": iteration_s,
        "source": answer.source_of(plan),
        "samples_per_s": f64::from(question.batch) / iteration_s,
        "of_peak": of_peak(question, answer, plan),
        "estimate_s": {
            "compute": compute_s, "tensor": tensor_s, "expert": expert_s, "context": context_s, "data": data_s,
            "pipeline": pipeline_s, "bubble": bubble_s, "update": update_s,
        },
        "why": why(plan, answer),
    })
}

/// What there is to ask about: what is built in, and what files describe.
pub(super) fn list(
    named: Option<&Model>,
    described: &[Hardware],
    terminal: &Terminal,
) -> Result<(), CliError> {
    let sizes = FAMILIES.iter().flat_map(|(family, sizes)| sizes.iter().map(move |size| (family, size)));
    let builtin = sizes.map(|(family, (size, shape))| shape.model(&format!("{family}-{size}"), family));
    let models: Vec<Model> =
        builtin.filter(|model| named.is_none_or(|named| named.name != model.name)).collect();
    let models: Vec<&Model> = models.iter().chain(named).collect();
    let is_new = |name: &&str| described.iter().all(|device| *device.name != **name);
    let builtin = Hardware::names().into_iter().filter(is_new).filter_map(Hardware::builtin);
    let devices: Vec<Hardware> = builtin.chain(described.iter().cloned()).collect();
    if terminal.format == OutputFormat::Json {
        return terminal.json(&json!({
            "schema": 1,
            "models": models.into_iter().map(listed_model).collect::<Vec<_>>(),
            "device_types": devices.iter().map(|device| &*device.name).collect::<Vec<_>>(),
            "devices": devices.iter().map(listed_device).collect::<Vec<_>>(),
            "nodes": nodes::nodes().iter().map(listed_node).collect::<Vec<_>>(),
        }));
    }
    let mut grid = Grid::new(["model", "parameters", "10¹² operations a sample", "layers"]);
    for model in models {
        let (parameters, flop) = (size(model.parameters()), format!("{:.3}", model.flop() / 1e12));
        grid.push([&model.name, &parameters, &flop, &model.layers.len().to_string()]);
    }
    terminal.grid(&grid)?;
    let mut grid = Grid::new([
        "type",
        "TFLOPS (16 bits)",
        "(32 bits)",
        "GiB",
        "memory GB/s",
        "link GB/s",
        "network GB/s",
    ]);
    for device in &devices {
        let Hardware { half_tflops, single_tflops, memory_gib, memory_gb_per_s, links, .. } = device;
        let (near, far) = (links.near.gb_per_s, links.far.gb_per_s);
        let numbers = [half_tflops, single_tflops, memory_gib, memory_gb_per_s, &near, &far];
        let [half, single, memory, bandwidth, near, far] = numbers.map(ToString::to_string);
        grid.push([&*device.name, &half, &single, &memory, &bandwidth, &near, &far]);
    }
    terminal.grid(&grid)?;
    let designs: Vec<&str> = nodes::nodes().iter().map(|node| node.name).collect();
    terminal.note(&format!("node designs (`--node`): {}", designs.join(", ")));
    terminal.note(
        "files describe others: `--model FILE`, `--hardware FILE`; see examples/planner and docs/planner.md",
    );
    Ok(())
}

fn listed_node(node: &Node) -> Value {
    json!({
        "node": node.name,
        "device_type": node.device_type,
        "per_node": node.per_node,
        "network_gb_per_s": node.network_gb_per_s,
    })
}

fn listed_model(model: &Model) -> Value {
    json!({
        "model": &*model.name,
        "parameters": model.parameters(),
        "forward_flop_per_sample": model.flop(),
        "layers": model.layers.len(),
    })
}

fn listed_device(device: &Hardware) -> Value {
    let link = |link: &Link| json!({ "gb_per_s": link.gb_per_s, "latency_us": link.latency_s * 1e6 });
    let Links { near, far, send_near, send_far, .. } = &device.links;
    json!({
        "device_type": &*device.name,
        "half_tflops": device.half_tflops,
        "single_tflops": device.single_tflops,
        "memory_gb_per_s": device.memory_gb_per_s,
        "memory_gib": device.memory_gib,
        "price_per_h": device.price_per_h,
        "per_node": device.per_node,
        "links": {
            "near": link(near), "far": link(far), "send_near": link(send_near), "send_far": link(send_far),
        },
    })
}

/// `p4 d2 t1`, with the experts' degree where there is one.
pub(super) fn name(degrees: Degrees) -> String {
    let Degrees { pipeline, data, tensor, context, expert } = degrees;
    let more = |name: &str, degree: u32| if degree > 1 { format!(" {name}{degree}") } else { String::new() };
    format!("p{pipeline} d{data} t{tensor}{}{}", more("c", context), more("e", expert))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn size(parameters: f64) -> String {
    if parameters >= 1e9 {
        format!("{:.2} B", parameters / 1e9)
    } else {
        format!("{:.0} M", parameters / 1e6)
    }
}

/// What of the devices' peak goes into the model: three forward passes a sample, whatever is computed twice.
fn of_peak(question: &Question, answer: &Answer, plan: &Estimate) -> f64 {
    let tflops = answer.hardware.tflops(question.model.precision);
    let work = 3.0 * question.model.flop() * f64::from(question.batch);
    work / (answer.iteration_s(plan) * tflops * 1e12 * f64::from(answer.devices.count))
}

/// What keeps a plan from being faster, in a few words.
fn why(plan: &Estimate, answer: &Answer) -> String {
    if !plan.is_fitting {
        return format!("needs {:.1} GiB, {}", plan.memory_gib, answer.allowed());
    }
    let Parts { tensor_s, expert_s, data_s, pipeline_s, bubble_s, update_s, .. } = plan.parts;
    let mut costs = [
        (bubble_s, "waiting for stages"),
        (tensor_s, "summing within layers"),
        (expert_s, "tokens to experts"),
        (data_s, "summing gradients"),
        (pipeline_s, "between stages"),
        (update_s, "the optimizer"),
    ];
    costs.sort_by(|one, two| two.0.total_cmp(&one.0));
    let share = |time_s: f64| time_s / plan.iteration_s;
    let named = costs.iter().filter(|(time_s, _)| share(*time_s) >= 0.03).take(2);
    let named: Vec<String> =
        named.map(|(time_s, what)| format!("{} {what}", percent(share(*time_s)))).collect();
    if named.is_empty() { "computing nearly all the time".to_owned() } else { named.join(", ") }
}

fn sureness(answer: &Answer) -> String {
    let error = percent(answer.correction.error);
    match (answer.measured_s, answer.correction.runs) {
        (Some(measured_s), _) => format!("measured: the best plan took {measured_s:.3} s"),
        (None, 0) => {
            format!("estimated from data sheets: usually within {error}; --profile uses measurements")
        }
        (None, runs) => {
            format!("corrected by {runs} measured runs of the family on this type: usually within {error}")
        }
    }
}

/// The line that starts the plan's processes; they read its degrees from the variables that Wharf sets, too.
fn torchrun(answer: &Answer) -> String {
    let tensor = answer.best().map_or(1, |plan| plan.degrees.tensor);
    let (nodes, each) = processes(answer.gang, tensor);
    let degrees = answer.best().map_or_else(String::new, |plan| {
        let Degrees { pipeline, data, tensor, .. } = plan.degrees;
        format!("WHARF_PIPELINE_STAGES={pipeline} WHARF_DATA_PARALLEL={data} WHARF_TENSOR_PARALLEL={tensor} ")
    });
    format!("{degrees}torchrun --nnodes={nodes} --nproc-per-node={each} train.py")
}

/// Nodes, and processes on each, for a gang. torchrun starts equally many everywhere: where devices do not fill all nodes, fewer of each node
/// are used, and layers are still shared within a node.
fn processes(gang: Gang, tensor: u32) -> (u32, u32) {
    let can = |each: &u32| gang.devices.is_multiple_of(*each);
    let all = || (1..=gang.per_node).rev().filter(can);
    let each = all().find(|each| each.is_multiple_of(tensor)).or_else(|| all().next()).unwrap_or(1);
    (gang.devices / each, each)
}

fn mesh(degrees: Degrees) -> String {
    let Degrees { pipeline, data, tensor, .. } = degrees;
    format!(
        "Mesh(np.array(jax.devices()).reshape({pipeline}, {data}, {tensor}), ('pipeline', 'data', 'tensor'))"
    )
}
