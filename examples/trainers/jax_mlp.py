#!/usr/bin/env python3
"""A JAX trainer: checkpoint, resume, metrics. A resumed run ends as an uninterrupted one."""

import sys

import common
from common import wharf

try:
    import jax
    import jax.numpy as jnp
    import numpy
except ImportError:
    sys.exit("jax_mlp.py needs JAX: try `pip install jax`")

WIDTH, HIDDEN, BATCH, RATE = 8, 32, 64, 0.05


def batch(seed, step):
    """The samples of one iteration follow from its number, so there is no data loader's state to save."""
    inputs = jax.random.normal(jax.random.fold_in(jax.random.PRNGKey(seed), step), (BATCH, WIDTH))
    return inputs, jnp.sin(inputs.sum(axis=1))


def error(weights, inputs, wanted):
    hidden = jnp.tanh(inputs @ weights["first"] + weights["bias"])
    return jnp.mean((hidden @ weights["second"] - wanted) ** 2)


@jax.jit
def update(weights, inputs, wanted):
    loss, gradient = jax.value_and_grad(error)(weights, inputs, wanted)
    return {name: weight - RATE * gradient[name] for name, weight in weights.items()}, loss


def main():
    args = common.arguments(__doc__, 500)
    keys = jax.random.split(jax.random.PRNGKey(args.seed), 2)
    weights = {
        "first": jax.random.normal(keys[0], (WIDTH, HIDDEN)) / WIDTH**0.5,
        "bias": jnp.zeros(HIDDEN),
        "second": jax.random.normal(keys[1], (HIDDEN,)) / HIDDEN**0.5,
    }

    path = wharf.checkpoint_dir("checkpoints/jax") / "weights.npz"
    start = 0
    if path.exists():
        with numpy.load(path) as state:
            start = int(state["step"])
            weights = {name: jnp.asarray(state[name]) for name in weights}
        print(f"resumed at iteration {start} from {path}", flush=True)

    for step in wharf.steps(args.iterations, start=start, checkpoint_every=args.checkpoint_every):
        with common.paced(args.iteration_ms):
            weights, loss = update(weights, *batch(args.seed, step))
        wharf.report(loss=loss)
        common.tell(step, args.iterations, float(loss))
        if wharf.should_checkpoint():
            with wharf.atomic_write(path) as file:
                numpy.savez(file, step=step + 1, **weights)
            wharf.checkpointed()


if __name__ == "__main__":
    main()
