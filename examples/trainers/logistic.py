#!/usr/bin/env python3
"""Logistic regression with momentum: tells two overlapping clouds of points apart."""

import math

import common
from common import wharf

FEATURES = 6
BATCH = 48
RATE = 0.01
MOMENTUM = 0.5


def batch(rng, centre):
    """Points around `centre` (label 1) or its mirror image (label 0)."""
    data = []
    for _ in range(BATCH):
        label = rng.randrange(2)
        sign = 1 if label else -1
        data.append(([sign * c + rng.gauss(0, 1) for c in centre] + [1.0], label))
    return data


def probability(weights, x):
    score = sum(w * v for w, v in zip(weights, x))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))


def train(weights, velocity, data):
    """One step; gives the mean cross-entropy before it and the share of right answers."""
    gradient, loss, right = [0.0] * len(weights), 0.0, 0
    for x, label in data:
        p = probability(weights, x)
        loss -= math.log(p if label else 1 - p) / BATCH
        right += (p > 0.5) == bool(label)
        for i, v in enumerate(x):
            gradient[i] += (p - label) * v / BATCH
    for i, g in enumerate(gradient):
        velocity[i] = MOMENTUM * velocity[i] - RATE * g
        weights[i] += velocity[i]
    return loss, right / BATCH


def main():
    args = common.arguments(__doc__, iterations=800)
    path = common.checkpoint_file("logistic")
    zeros = [0.0] * (FEATURES + 1)
    state = common.load(path) or {"step": 0, "weights": zeros[:], "velocity": zeros[:]}
    centre = [common.generator(args.seed, -1 - i).uniform(0.2, 0.8) for i in range(FEATURES)]
    for step in wharf.steps(args.iterations, start=state["step"], checkpoint_every=args.checkpoint_every):
        with common.paced(args.iteration_ms):
            data = batch(common.generator(args.seed, step), centre)
            # The momentum is part of the checkpoint, or a resumed run would differ.
            loss, accuracy = train(state["weights"], state["velocity"], data)
        wharf.report(loss=loss, accuracy=accuracy)
        common.tell(step, args.iterations, loss)
        if wharf.should_checkpoint():
            state["step"] = step + 1
            common.save(path, state)
            wharf.checkpointed()
    test = batch(common.generator(args.seed, -1000), centre)
    right = sum((probability(state["weights"], x) > 0.5) == bool(label) for x, label in test)
    print(f"done: {right} of {BATCH} unseen points are distinguished")


if __name__ == "__main__":
    main()
