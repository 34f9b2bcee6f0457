"""Linear regression by stochastic gradient descent, on however many devices it is given.

The global batch is divided among the devices, and what they find is added up without rounding (`math.fsum`), so that the curve is
the same on any number of them. The losses of all iterations are part of the checkpoint.

Arguments: a folder, and without Wharf the iterations to make. With Wharf it continues until the file `until` in that folder states where
to end; each start is told in the pipe `given`, each iteration in the file `iterations`.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from pathlib import Path

import wharf

FEATURES = 4
BATCH = 24
RATE = 0.1
TRUTH = [1.5, -2.0, 0.5, 3.0]


def batch(step):
    rng = random.Random(step)
    points = [[rng.uniform(-1, 1) for _ in range(FEATURES)] for _ in range(BATCH)]
    return [(x, sum(a * b for a, b in zip(TRUTH, x)) + rng.gauss(0, 0.05)) for x in points]


def shard(weights, data):
    """What one device finds: for each of its samples the squared error and the gradient."""
    found = []
    for x, y in data:
        error = sum(w * v for w, v in zip(weights, x)) - y
        found.append([error * error] + [2 * error * v for v in x])
    return found


def train(weights, step, devices):
    data = batch(step)
    found = [terms for device in range(devices) for terms in shard(weights, data[device::devices])]
    loss, *gradient = [math.fsum(terms[column] for terms in found) / BATCH for column in range(FEATURES + 1)]
    return loss, [w - RATE * g for w, g in zip(weights, gradient)]


def tell_start(folder, start):
    plan = wharf.plan()
    given = {**plan._asdict(), "node": os.environ["WHARF_NODE"], "start": start}
    with open(folder / "given", "w") as pipe:
        pipe.write(json.dumps(given) + "\n")


def main():
    folder, total = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
    path = wharf.checkpoint_dir(folder / "checkpoints") / "state.json"
    state = {"losses": [], "weights": [0.0] * FEATURES}
    if path.exists():
        state = json.loads(path.read_text())
    if wharf.active():
        tell_start(folder, len(state["losses"]))
    log = open(folder / "iterations", "a")
    for step in wharf.steps(total, start=len(state["losses"]), checkpoint_every=7):
        until = folder / "until"
        if until.exists() and step >= int(until.read_text() or "0") > 0:
            break
        loss, state["weights"] = train(state["weights"], step, wharf.plan().devices)
        state["losses"].append(loss)
        print(os.environ.get("WHARF_GENERATION", "0"), step, file=log, flush=True)
        wharf.report(loss=loss)
        if wharf.active():
            time.sleep(0.01)
        if wharf.should_checkpoint():
            with wharf.atomic_write(path) as out:
                out.write(json.dumps(state).encode())
            wharf.checkpointed()
    with wharf.atomic_write(path) as out:
        out.write(json.dumps(state).encode())


if __name__ == "__main__":
    main()
