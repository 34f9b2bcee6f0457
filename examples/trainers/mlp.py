#!/usr/bin/env python3
"""A small neural network with back-propagation by hand: learns which of two interleaved spirals a point is on."""

import math

import common
from common import wharf

HIDDEN = 16
BATCH = 24
RATE = 0.05
MOMENTUM = 0.9


def point(rng):
    """A point on one of two spirals, with features that make it learnable in a short time."""
    label = rng.randrange(2)
    turn = rng.uniform(0.3, 1.0)
    angle = turn * 2 * math.pi + label * math.pi
    x, y = turn * math.cos(angle) + rng.gauss(0, 0.02), turn * math.sin(angle) + rng.gauss(0, 0.02)
    return [x, y, x * x + y * y, x * y, 1.0], label


INPUTS = 5


def fresh(seed):
    rng = common.generator(seed, -1)
    first = [[rng.gauss(0, 0.7) for _ in range(INPUTS)] for _ in range(HIDDEN)]
    second = [rng.gauss(0, 0.4) for _ in range(HIDDEN + 1)]
    return {
        "step": 0,
        "first": first,
        "second": second,
        "first_velocity": [[0.0] * INPUTS for _ in range(HIDDEN)],
        "second_velocity": [0.0] * (HIDDEN + 1),
    }


def forward(state, x):
    hidden = [math.tanh(sum(w * v for w, v in zip(row, x))) for row in state["first"]] + [1.0]
    score = sum(w * h for w, h in zip(state["second"], hidden))
    return hidden, 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))


def gradients(state, data):
    """Of the mean cross-entropy, which comes with them."""
    first = [[0.0] * INPUTS for _ in range(HIDDEN)]
    second, loss = [0.0] * (HIDDEN + 1), 0.0
    for x, label in data:
        hidden, p = forward(state, x)
        loss -= math.log(p if label else 1 - p) / BATCH
        delta = (p - label) / BATCH
        for i, h in enumerate(hidden):
            second[i] += delta * h
        for i in range(HIDDEN):
            below = delta * state["second"][i] * (1 - hidden[i] ** 2)
            for j, v in enumerate(x):
                first[i][j] += below * v
    return first, second, loss


def descend(weights, velocity, gradient):
    for i, g in enumerate(gradient):
        velocity[i] = MOMENTUM * velocity[i] - RATE * g
        weights[i] += velocity[i]


def train(state, data):
    first, second, loss = gradients(state, data)
    for row, velocity, gradient in zip(state["first"], state["first_velocity"], first):
        descend(row, velocity, gradient)
    descend(state["second"], state["second_velocity"], second)
    return loss


def main():
    args = common.arguments(__doc__, iterations=2000)
    path = common.checkpoint_file("mlp")
    state = common.load(path) or fresh(args.seed)
    for step in wharf.steps(args.iterations, start=state["step"], checkpoint_every=args.checkpoint_every):
        with common.paced(args.iteration_ms):
            rng = common.generator(args.seed, step)
            loss = train(state, [point(rng) for _ in range(BATCH)])
        wharf.report(loss=loss)
        common.tell(step, args.iterations, loss)
        if wharf.should_checkpoint():
            state["step"] = step + 1
            common.save(path, state)
            wharf.checkpointed()
    rng = common.generator(args.seed, -2)
    right = sum((forward(state, x)[1] > 0.5) == bool(label) for x, label in (point(rng) for _ in range(500)))
    print(f"done: {right} of 500 unseen points are on the right spiral")


if __name__ == "__main__":
    main()
