#!/usr/bin/env python3
"""A trainer that knows nothing of Wharf: no SDK, its own checkpoints, its own handler for SIGTERM.

Wharf runs it all the same; it only cannot show how far it has come. Fits a polynomial to a sine by gradient descent.
"""

import argparse
import json
import math
import os
import random
import signal
import sys
import time

DEGREE = 5
BATCH = 32
RATE = 0.05


def train(weights, rng):
    gradient, loss = [0.0] * (DEGREE + 1), 0.0
    for _ in range(BATCH):
        x = rng.uniform(-1, 1)
        powers = [x**i for i in range(DEGREE + 1)]
        error = sum(w * p for w, p in zip(weights, powers)) - math.sin(3 * x)
        loss += error * error / BATCH
        for i, p in enumerate(powers):
            gradient[i] += 2 * error * p / BATCH
    for i, g in enumerate(gradient):
        weights[i] -= RATE * g
    return loss


def save(path, state):
    with open(path + ".new", "w") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--iteration-ms", type=float, default=0.0)
    parser.add_argument("--checkpoint-every", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    folder = os.environ.get("WHARF_CHECKPOINT_DIR") or os.path.join("checkpoints", "plain")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "plain.json")
    state = {"step": 0, "weights": [0.0] * (DEGREE + 1)}
    if os.path.exists(path):
        with open(path) as file:
            state = json.load(file)
        print(f"resumed at iteration {state['step']} from {path}", flush=True)

    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    for step in range(state["step"], args.iterations):
        began = time.monotonic()
        loss = train(state["weights"], random.Random(args.seed * 1_000_003 + step))
        time.sleep(max(0.0, args.iteration_ms / 1000 - (time.monotonic() - began)))
        state["step"] = step + 1
        if (step + 1) % max(1, args.iterations // 20) == 0:
            print(f"iteration {step + 1}/{args.iterations} loss {loss:.6f}", flush=True)
        if stop or (step + 1) % args.checkpoint_every == 0 or step + 1 == args.iterations:
            save(path, state)
        if stop:
            print(f"checkpoint at iteration {step + 1}, stopping", flush=True)
            sys.exit(0)
    print("done: weights " + " ".join(f"{w:.3f}" for w in state["weights"]))


if __name__ == "__main__":
    main()
