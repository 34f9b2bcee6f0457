#!/usr/bin/env python3
"""Linear regression by stochastic gradient descent: finds the plane behind noisy points."""

import common
from common import wharf

FEATURES = 8
BATCH = 32
RATE = 0.02


def batch(rng, truth):
    """Points on the plane `truth`, with a little noise."""
    points = [[rng.uniform(-1, 1) for _ in range(FEATURES)] for _ in range(BATCH)]
    return [(x, sum(a * b for a, b in zip(truth, x)) + rng.gauss(0, 0.05)) for x in points]


def train(weights, data):
    """One step down the gradient; gives the mean squared error before it."""
    gradient, loss = [0.0] * FEATURES, 0.0
    for x, y in data:
        error = sum(w * v for w, v in zip(weights, x)) - y
        loss += error * error / BATCH
        for i, v in enumerate(x):
            gradient[i] += 2 * error * v / BATCH
    for i in range(FEATURES):
        weights[i] -= RATE * gradient[i]
    return loss


def main():
    args = common.arguments(__doc__, iterations=1000)
    path = common.checkpoint_file("linear")
    state = common.load(path) or {"step": 0, "weights": [0.0] * FEATURES}
    truth = [common.generator(args.seed, -1 - i).uniform(-3, 3) for i in range(FEATURES)]
    for step in wharf.steps(args.iterations, start=state["step"], checkpoint_every=args.checkpoint_every):
        with common.paced(args.iteration_ms):
            loss = train(state["weights"], batch(common.generator(args.seed, step), truth))
        wharf.report(loss=loss)
        common.tell(step, args.iterations, loss)
        if wharf.should_checkpoint():
            state["step"] = step + 1
            common.save(path, state)
            wharf.checkpointed()
    off = max(abs(a - b) for a, b in zip(truth, state["weights"]))
    print(f"done: the worst weight is {off:.6f} off the truth")


if __name__ == "__main__":
    main()
