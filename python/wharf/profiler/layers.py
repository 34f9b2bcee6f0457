"""What parts of a stack take for one microbatch, and the optimizer for its parameters: as large as plans have them, shared out as plans do,
while all devices do the same.

Small products reach less of a device than large ones, and what every device of a shared block has to do itself does not get less:
neither follows from the operators of one size."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterator, List, Tuple

import jax
import jax.numpy as jnp

from .model import PARTS, Stack, divisors, splits
from .plans import adam
from .timing import Loop
from .walk import work

#: How often in one program, so that its start hardly counts; small ones more often.
REPEATS = 4


def tasks(model: Stack, batch: int, devices: int, recompute: bool) -> List[Dict[str, Any]]:
    """Every part, with every power of two of samples, in every number of parts that devices can share a block in."""
    shares = [share for share in divisors(devices) if splits(model) % share == 0]
    row = [(part, share) for part in ("first", "blocks", "last") for share in (shares if part == "blocks" else [1])]
    layers = [_task(model, part, samples, share, recompute) for part, share in row for samples in _powers(batch)]
    total = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model.params))
    counts = [total // share for share in divisors(devices)]
    return layers + [{"kind": "layer", "key": f"update, {count} parameters", "part": "update", "count": count} for count in counts]


def _task(model: Stack, part: str, samples: int, share: int, recompute: bool) -> Dict[str, Any]:
    """With the work that there is: the name does not state how wide the part is."""
    value, shapes = _part(model, part, samples, share, recompute)
    made = jax.eval_shape(value, *shapes)
    back = lambda params, x, batch, slope: jax.vjp(lambda params, x: value(params, x, batch), params, x)[1](slope)
    task = {"kind": "layer", "key": _key(part, samples, share, recompute), "part": part, "samples": samples, "share": share}
    return {**task, **work(jax.make_jaxpr(back)(*shapes, made))}


def _key(part: str, samples: int, share: int, recompute: bool) -> str:
    """As the planner reads it."""
    how = "" if recompute else ", nothing computed anew"
    return f"{part}, {samples} samples, 1/{share}{how}"


def _powers(most: int) -> Iterator[int]:
    power = 1
    while power <= most:
        yield power
        power *= 2


def seconds(task: Dict[str, Any], model: Stack, recompute: bool, devices: List[Any], ready: Dict[Any, Any]) -> float:
    """Of one microbatch: forward, and backward to its inputs and parameters, whose gradients are added up."""
    if task["key"] not in ready and task["part"] == "update":
        ready[task["key"]] = _update(devices, task["count"])
    if task["key"] not in ready:
        value, shapes = _part(model, task["part"], task["samples"], task["share"], recompute)
        ready[task["key"]] = _loop(devices, value, shapes)
    return ready[task["key"]].seconds(REPEATS)


def _part(model: Stack, part: str, samples: int, share: int, recompute: bool) -> Tuple[Callable[..., Any], Any]:
    """A part as a function of parameters, what comes in and the batch; and the shapes of these."""
    batch = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((samples, *leaf.shape[1:]), leaf.dtype), model.batch)
    x = jax.eval_shape(model.first, model.params["first"], batch)
    if part == "first":
        return (lambda params, _, batch: model.first(params, batch)), (model.params["first"], jnp.float32(0), batch)
    if part == "last":
        return model.last, (model.params["last"], x, batch)
    # Sums over devices are counted apart.
    one = lambda params, x: model.block(params, x, lambda part: part)
    block = jax.checkpoint(one) if recompute else one
    return (lambda params, x, _: block(params, x)), (_shared(model, share), x, batch)


def _shared(model: Stack, share: int) -> Any:
    """The shapes of one block's parameters, as far as one of so many devices has them."""

    def one(path: Any, leaf: Any) -> Any:
        shape = list(leaf.shape[1:])
        name = str(getattr(path[-1], "key", getattr(path[-1], "idx", path[-1])))
        if name in model.split:
            shape[model.split[name]] //= share
        return jax.ShapeDtypeStruct(tuple(shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(one, model.params["blocks"])


def _loop(devices: List[Any], value: Callable[..., Any], shapes: Any) -> Loop:
    params, x, batch = shapes
    made = jax.eval_shape(value, params, x, batch)

    def body(held: Any) -> Any:
        (params, x, batch, slope), sums, _, _ = jax.lax.optimization_barrier(held)
        out, back = jax.vjp(lambda params, x: value(params, x, batch), params, x)
        own, into = back(slope)
        return (params, x, batch, slope), jax.tree.map(jnp.add, sums, own), out, into

    inputs = ((params, x, batch, made), params, made, x)
    return Loop(devices, body, lambda: jax.tree.map(_filled, inputs))


def _update(devices: List[Any], count: int) -> Loop:
    """Adam's step of so many parameters."""

    def body(held: Any) -> Any:
        state, slope = jax.lax.optimization_barrier(held)
        return adam(state, slope), slope

    one = jax.ShapeDtypeStruct((count,), jnp.float32)
    return Loop(devices, body, lambda: jax.tree.map(_filled, ((one, one, one), one)))


def _filled(kind: Any) -> Any:
    kind = jax.typeof(kind)
    fill = 0.5 if jnp.issubdtype(kind.dtype, jnp.floating) else 0
    return jnp.full(kind.shape, fill, kind.dtype)
