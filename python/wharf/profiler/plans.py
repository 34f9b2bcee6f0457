"""Runs a model under a parallel plan: stages x replicas x devices that share blocks, on a mesh of devices.

One program for all devices. Stages work in lockstep, each on its own microbatch, and hand it on to the next: a stage that has nothing
to do yet computes all the same, so that devices which share one processor take as long as devices of their own would.
"""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .model import PARTS, Loss, Model, Plan, Stack

AXES = ("pipeline", "data", "tensor")
#: Adam's numbers.
RATE, BETA1, BETA2, TINY = 1e-3, 0.9, 0.999, 1e-8


class Runner:
    """A plan that is ready to run."""

    def __init__(self, model: Model, plan: Plan, batch: int, recompute: bool, devices: List[Any]):
        self.mesh = Mesh(np.array(devices[: plan.devices()]).reshape(plan[:3]), AXES)
        self.model, self.plan, self.batch = model, plan, batch
        specs = _specs(model)
        values = _value(model, plan, recompute)
        state = (specs, specs, specs)
        data = jax.tree.map(lambda _: PartitionSpec("data"), model.batch)
        step = lambda state, batch: _step(values, state, batch)
        mapped = jax.shard_map(step, mesh=self.mesh, in_specs=(state, data), out_specs=(state, PartitionSpec()))
        named = lambda tree: jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), tree)
        self.step = jax.jit(mapped, donate_argnums=0)
        self.make = jax.jit(self._make, out_shardings=(named(state), named(data)))

    def _make(self) -> Tuple[Any, Any]:
        params = jax.tree.map(lambda leaf: _value_like(leaf.shape, leaf.dtype), self.model.params)
        zeros = lambda: jax.tree.map(jnp.zeros_like, params)
        sized = lambda leaf: _value_like((self.batch, *leaf.shape[1:]), leaf.dtype)
        return (params, zeros(), zeros()), jax.tree.map(sized, self.model.batch)


def _value_like(shape: Tuple[int, ...], dtype: Any) -> Any:
    """Numbers that are all different and small. Random ones would take longer to compile than most models."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return jnp.zeros(shape, dtype)
    phases = sum(lax.broadcasted_iota(jnp.float32, shape, axis) * (axis + 1.7) ** 2 for axis in range(len(shape)))
    return (0.03 * jnp.sin(phases)).astype(dtype)


def _specs(model: Model) -> Any:
    """How parameters lie on the devices."""
    everywhere = lambda tree: jax.tree.map(lambda _: PartitionSpec(), tree)
    if isinstance(model, Loss):
        return everywhere(model.params)

    def block(path: Any, leaf: Any) -> PartitionSpec:
        axes: List[Any] = ["pipeline"] + [None] * (leaf.ndim - 1)
        name = str(getattr(path[-1], "key", getattr(path[-1], "idx", path[-1])))
        if name in model.split:
            axes[1 + model.split[name]] = "tensor"
        return PartitionSpec(*axes)

    specs = {part: everywhere(model.params[part]) for part in PARTS}
    specs["blocks"] = jax.tree_util.tree_map_with_path(block, model.params["blocks"])
    return specs


def _step(value: Callable[[Any, Any], Any], state: Any, batch: Any) -> Any:
    """One iteration on one device: the gradient, and Adam's update of what the device has."""
    loss, slope = jax.value_and_grad(value)(state[0], batch)
    return adam(state, slope), loss


def adam(state: Any, slope: Any) -> Any:
    """Parameters and their moments after a step."""
    params, mean, square = state
    mean = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, mean, slope)
    square = jax.tree.map(lambda s, g: BETA2 * s + (1 - BETA2) * g * g, square, slope)
    params = jax.tree.map(lambda p, m, s: p - RATE * m / (jnp.sqrt(s) + TINY), params, mean, square)
    return params, mean, square


def _vary(tree: Any, axes: Tuple[str, ...]) -> Any:
    """The same values, to be summed over these axes when gradients come back: once, where this stands."""

    def one(leaf: Any) -> Any:
        known = _varying(jax.typeof(leaf))
        new = tuple(axis for axis in axes if axis not in known)
        return lax.pcast(leaf, new, to="varying") if new else leaf

    return jax.tree.map(one, tree)


def _varying(kind: Any) -> Any:
    """Over which axes a value differs; JAX has had two names for it."""
    return kind.vma if hasattr(kind, "vma") else kind.mat.varying


def _value(model: Model, plan: Plan, recompute: bool) -> Callable[[Any, Any], Any]:
    """The mean loss, as one device computes it."""

    def parts(batch: Any) -> Any:
        split = lambda leaf: leaf.reshape(plan.microbatches, -1, *leaf.shape[1:])
        return jax.tree.map(split, batch)

    def whole(params: Any, batch: Any) -> Any:
        params = _vary(params, AXES)
        own = jax.checkpoint(model.loss) if recompute else model.loss
        losses = lax.map(lambda part: own(params, part), _vary(parts(batch), AXES))
        return lax.psum(jnp.mean(losses), AXES) / plan.devices()

    def staged(params: Any, batch: Any) -> Any:
        params = _vary(params, ("pipeline", "data"))
        batch = _vary(parts(batch), ("pipeline", "data"))
        stage = lax.axis_index("pipeline")
        inputs = _only(stage == 0, lambda: lax.map(lambda part: model.first(params["first"], part), batch))
        outputs = _pipeline(model, plan, recompute, params["blocks"], inputs, stage)
        last = lambda: jnp.mean(lax.map(lambda pair: model.last(params["last"], *pair), (outputs, batch)))
        loss = _only(stage == plan.pipeline - 1, last)
        return lax.psum(loss, ("pipeline", "data")) / plan.data

    return whole if isinstance(model, Loss) else staged


def _only(condition: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives on devices where the condition holds, and zeros elsewhere, where it is not computed."""
    shape = jax.eval_shape(make)
    zeros = lambda: _vary(jnp.zeros(shape.shape, shape.dtype), ("pipeline", "data"))
    return lax.cond(condition, make, zeros)


def _pipeline(model: Stack, plan: Plan, recompute: bool, params: Any, inputs: Any, stage: Any) -> Any:
    """All microbatches through all stages; what the last stage has made of each."""
    total = lambda part: lax.psum(part, "tensor")
    one = lambda params, x: model.block(params, x, total)
    block = jax.checkpoint(one) if recompute else one
    onwards = [(at, at + 1) for at in range(plan.pipeline - 1)]

    def tick(held: Any, time: Any) -> Tuple[Any, Any]:
        fresh = inputs[jnp.minimum(time, plan.microbatches - 1)]
        x = jnp.where(stage == 0, fresh, held)
        x, _ = lax.scan(lambda x, params: (block(params, x), None), x, params)
        return (lax.ppermute(x, "pipeline", onwards) if onwards else x), x

    ticks = plan.microbatches + plan.pipeline - 1
    start = jnp.zeros_like(inputs[0])
    _, made = lax.scan(tick, _vary(start, ("pipeline", "data")), jnp.arange(ticks))
    return made[plan.pipeline - 1 :]
