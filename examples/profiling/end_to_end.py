#!/usr/bin/env python3
"""Profile, plan, measure: does the planner rank the plans of a small transformer as this machine does?

Captures the model, measures operators, layers and collectives on 8 host devices, plans with that alone, then runs the best plans, all other
ways to split, and three that the planner thinks bad. Fails unless every bad plan is slower than all the best ones, and Kendall's tau is at least
0.8 over the pairs whose measured times differ by more than a tenth.

    examples/profiling/end_to_end.py --wharf target/release/wharf --python jax/bin/python --figure plans.svg
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any, Dict, List, Tuple

MODEL = f"{Path(__file__).resolve().parent}/transformer.py:transformer"
TYPE, TOP, BAD = "host", 3, 3

#: A plan's name, and seconds: estimated, measured.
Row = Tuple[str, float, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wharf", default="wharf", help="the program")
    parser.add_argument("--python", default=sys.executable, help="a Python that has JAX")
    parser.add_argument("--model", default=MODEL, help="FILE.py:FUNCTION, of a wharf.profiler.Stack")
    parser.add_argument("--devices", type=int, default=8, help="host devices")
    parser.add_argument("--batch", type=int, default=16, help="samples of an iteration")
    parser.add_argument("--rounds", type=int, default=5, help="come back so often to every plan")
    parser.add_argument("--work", type=Path, help="a folder to keep, and to go on from")
    parser.add_argument("--figure", type=Path, help="where to draw it")
    parser.add_argument("--trial", action="store_true", help="do not fail because of the order")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        return check(args, args.work or Path(temporary))


def check(args: Any, work: Path) -> int:
    work.mkdir(parents=True, exist_ok=True)
    model, hardware, profile = work / "model.json", work / "hardware.json", work / "lab.db"
    wharf(args, "profile", "capture", args.model, "--to", model, "--force", "--python", args.python)
    devices = ["--into", profile, "--type", TYPE, "--host-devices", args.devices, "--rounds", args.rounds, "--python", args.python]
    run = ["profile", "run", args.model, *devices, "--batch", args.batch]
    wharf(args, *run, "--hardware", hardware)
    estimates = estimated(args, ["--model", model, "--hardware", hardware, "--profile", profile])
    best, bad, others = chosen(estimates)
    plans = best + others + bad
    wharf(args, *run, "--what", "plans", *(f"--plan={plan}" for plan in plans))
    found = measured(args, profile)
    rows = [(plan, estimates[plan], found[plan]) for plan in plans]
    return judge(args, rows, best, bad)


def wharf(args: Any, *words: Any) -> str:
    command = [args.wharf, *map(str, words)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        sys.exit(f"failed: {' '.join(command)}")
    return ran.stdout


def estimated(args: Any, words: List[Any]) -> Dict[str, float]:
    """Of every way to split, with every number of microbatches; from the parts, which no measured plan has corrected."""
    found = {}
    for power in range(int(math.log2(args.batch)) + 1):
        more = ["--gpus", f"{TYPE}:{args.devices}", "--batch", args.batch, "--microbatches", 1 << power, "--top", 1000, "--output", "json"]
        for plan in json.loads(wharf(args, "plan", *words, *more))["gangs"][0]["plans"]:
            name = f"pp{plan['pipeline']}.dp{plan['data']}.tp{plan['tensor']}.mb{plan['microbatches']}"
            found[name] = sum(plan["estimate_s"].values())
    return found


def chosen(estimates: Dict[str, float]) -> Tuple[List[str], List[str], List[str]]:
    """The best plans, the worst of all, and the best of every other way to split."""
    degrees = lambda plan: plan.rsplit(".", 1)[0]
    order = sorted(estimates, key=lambda plan: (estimates[plan], plan))
    firsts = [plan for at, plan in enumerate(order) if degrees(plan) not in map(degrees, order[:at])]
    lasts = [plan for at, plan in enumerate(order) if degrees(plan) not in map(degrees, order[at + 1 :])]
    bad = lasts[-BAD:]
    return firsts[:TOP], bad, [plan for plan in firsts[TOP:] if plan not in bad]


def measured(args: Any, profile: Path) -> Dict[str, float]:
    """Of this model and batch: a folder that is kept may have others."""
    file, _, function = args.model.rpartition(":")
    show = ["profile", "show", profile, "--measured", "--model", f"{Path(file).stem}.{function}", "--type", TYPE]
    rows = json.loads(wharf(args, *show, "--output", "json"))["measured"]
    keys = [(row["key"].split(", "), row["seconds"]) for row in rows if row["kind"] == "plan"]
    return {key[0]: seconds for key, seconds in keys if key[1:] == [f"{args.batch} samples"]}


def judge(args: Any, rows: List[Row], best: List[str], bad: List[str]) -> int:
    pairs = [(one, two) for one, two in combinations(rows, 2) if max(one[2], two[2]) > 1.1 * min(one[2], two[2])]
    right = sum((one[1] < two[1]) == (one[2] < two[2]) for one, two in pairs)
    tau = (2 * right - len(pairs)) / len(pairs) if pairs else 0.0
    times = {plan: took for plan, _, took in rows}
    slowest, quickest = max(times[plan] for plan in best), min(times[plan] for plan in bad)
    factor = math.exp(sum(math.log(took / thought) for _, thought, took in rows) / len(rows))
    print(f"{'plan':20} {'estimated':>10} {'measured':>10}  (seconds)")
    for plan, thought, took in sorted(rows, key=lambda row: row[1]):
        print(f"{plan:20} {thought:10.3f} {took:10.3f}  {'best' if plan in best else 'bad' if plan in bad else ''}")
    print(f"measured is {factor:.2f} x estimated in the geometric mean")
    print(f"{len(pairs)} pairs differ by more than a tenth, {right} are ordered right: tau {tau:.2f}")
    print(f"slowest of the best {slowest:.3f} s, quickest of the bad {quickest:.3f} s")
    if args.figure:
        args.figure.write_text(figure(rows, best, bad, tau))
    if (tau < 0.8 or quickest <= slowest) and not args.trial:
        print("FAILED: the planner does not rank plans as this machine does", file=sys.stderr)
        return 1
    return 0


def figure(rows: List[Row], best: List[str], bad: List[str], tau: float) -> str:
    """Estimated against measured times, both axes logarithmic."""
    width, height, left, bottom, edge = 640, 460, 70, 60, 20
    values = [value for _, thought, took in rows for value in (thought, took)]
    low, high = math.log(min(values) / 1.3), math.log(max(values) * 1.3)
    scale = lambda value: (math.log(value) - low) / (high - low)
    x = lambda value: left + scale(value) * (width - left - edge)
    y = lambda value: height - bottom - scale(value) * (height - bottom - edge)
    ticks = [base * 10.0**power for power in range(-4, 4) for base in (1, 2, 5) if low < math.log(base * 10.0**power) < high]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<line x1="{x(math.exp(low)):.1f}" y1="{y(math.exp(low)):.1f}" x2="{x(math.exp(high)):.1f}" y2="{y(math.exp(high)):.1f}" stroke="#bbb" stroke-dasharray="4"/>',
    ]
    for tick in ticks:
        parts.append(f'<line x1="{x(tick):.1f}" y1="{edge}" x2="{x(tick):.1f}" y2="{height - bottom}" stroke="#eee"/>')
        parts.append(f'<line x1="{left}" y1="{y(tick):.1f}" x2="{width - edge}" y2="{y(tick):.1f}" stroke="#eee"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{height - bottom + 16}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for plan, thought, took in rows:
        colour = "#1a7f37" if plan in best else "#cf222e" if plan in bad else "#57606a"
        parts.append(f'<circle cx="{x(thought):.1f}" cy="{y(took):.1f}" r="5" fill="{colour}"><title>{plan}</title></circle>')
        anchor, away = ("end", -9) if scale(thought) > 0.75 else ("start", 9)
        parts.append(f'<text x="{x(thought) + away:.1f}" y="{y(took) + 4:.1f}" text-anchor="{anchor}" font-size="10" fill="{colour}">{plan}</text>')
    middle = (left + width - edge) / 2
    parts.append(f'<text x="{middle}" y="{height - 22}" text-anchor="middle">estimated, seconds of an iteration (tau {tau:.2f})</text>')
    parts.append(f'<text transform="translate(18 {(height - bottom + edge) / 2}) rotate(-90)" text-anchor="middle">measured, seconds of an iteration</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    sys.exit(main())
