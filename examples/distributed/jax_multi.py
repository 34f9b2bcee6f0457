#!/usr/bin/env python3
"""Data-parallel training over several nodes with JAX's distributed runtime, checkpoint and resume."""

import pickle
import sys
import time

import gang
from gang import RANK, WORLD_SIZE, wharf

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.experimental import multihost_utils
except ImportError:
    gang.missing("JAX", "try `pip install jax`")

HIDDEN = 32
RATE = 0.02
MOMENTUM = 0.9


def fresh(seed):
    keys = jax.random.split(jax.random.PRNGKey(seed), 2)
    weights = {
        "first": jax.random.normal(keys[0], (gang.FEATURES, HIDDEN)) * 0.3,
        "bias": jnp.zeros(HIDDEN),
        "second": jax.random.normal(keys[1], (HIDDEN, 1)) * 0.2,
    }
    return {"weights": weights, "velocity": jax.tree_util.tree_map(jnp.zeros_like, weights)}


def mean_squared_error(weights, inputs, outputs):
    hidden = jnp.tanh(inputs @ weights["first"] + weights["bias"])
    return jnp.mean((hidden @ weights["second"] - outputs) ** 2)


@jax.jit
def descend(state, gradients):
    velocity = jax.tree_util.tree_map(lambda v, g: MOMENTUM * v - RATE * g, state["velocity"], gradients)
    weights = jax.tree_util.tree_map(lambda w, v: w + v, state["weights"], velocity)
    return {"weights": weights, "velocity": velocity}


def everyone(tree):
    """The values of all processes, with a first dimension for them."""
    if WORLD_SIZE == 1:
        return jax.tree_util.tree_map(lambda leaf: np.asarray(leaf)[None], tree)
    return multihost_utils.process_allgather(tree)


def agree(mine):
    """Stops all if one has to."""
    return bool(np.max(everyone(jnp.array(1.0 if mine else 0.0))) > 0)


def load(path, seed):
    """All ranks start from rank 0's state: its checkpoint, or its first weights."""
    start, state = 0, fresh(seed)
    if RANK == 0 and path.exists():
        saved = pickle.loads(path.read_bytes())
        start, state = saved["step"], saved["state"]
        print(f"resumed at iteration {start} of {WORLD_SIZE} processes from {path}", flush=True)
    start, state = jax.tree_util.tree_map(lambda leaf: leaf[0], everyone((jnp.array(float(start)), state)))
    return int(start), jax.tree_util.tree_map(jnp.asarray, state)


def save(path, step, state):
    if RANK == 0:
        with wharf.atomic_write(path) as file:
            pickle.dump({"step": step, "state": jax.tree_util.tree_map(np.asarray, state)}, file)
        wharf.checkpointed()
    # Wait until all ranks have saved.
    everyone(jnp.array(0.0))


def main():
    args = gang.arguments(__doc__)
    jax.config.update("jax_platforms", "cpu")
    if WORLD_SIZE > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"{gang.MASTER_ADDR}:{gang.MASTER_PORT}", WORLD_SIZE, RANK)
    path = gang.checkpoint_file("jax.pickle")
    start, state = load(path, args.seed)
    gradient_of = jax.jit(jax.value_and_grad(mean_squared_error))
    steps = wharf.steps(args.iterations, start=start, checkpoint_every=args.checkpoint_every, agree=agree)
    for step in steps:
        began = time.monotonic()
        inputs, outputs = gang.batch(args.seed, step)
        loss, gradients = gradient_of(state["weights"], jnp.array(inputs), jnp.array(outputs))
        means = jax.tree_util.tree_map(lambda leaf: jnp.mean(leaf, axis=0), everyone(gradients))
        state = descend(state, means)
        time.sleep(max(0.0, args.iteration_ms / 1000 - (time.monotonic() - began)))
        wharf.report(loss=loss)
        gang.tell(step, args.iterations, float(loss))
        if wharf.should_checkpoint():
            save(path, step + 1, state)
    print(f"done: rank {RANK} of {WORLD_SIZE}", flush=True)
    if WORLD_SIZE > 1:
        jax.distributed.shutdown()


if __name__ == "__main__":
    sys.exit(main())
