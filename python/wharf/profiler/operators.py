"""What single operators of a training step take, and the whole step of one device without communication."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List

import jax
import jax.numpy as jnp
from jax import lax

from .capture import Layers, forward
from .model import Model
from .timing import Loop
from .walk import PRODUCTS, VIEWS, Operator, operators

#: How often in one program.
REPEATS = 16
#: Operators that touch less are not worth a measurement: starting them is all they cost.
BYTES_MIN = 4096


def sized(model: Model, samples: int) -> Model:
    """The same model with so many samples in its batch."""
    one = lambda leaf: jax.ShapeDtypeStruct((samples, *leaf.shape[1:]), leaf.dtype)
    return model._replace(batch=jax.tree.map(one, model.batch))


def gradient(model: Model, samples: int) -> Any:
    """The jaxpr of a step of so many samples."""
    own = sized(model, samples)
    return jax.make_jaxpr(jax.grad(forward(own)))(own.params, own.batch)


def tasks(model: Model, samples: int, devices: int) -> List[Dict[str, Any]]:
    """Each different operator of the step once, with how often the step has it; and the step itself."""
    own = sized(model, samples)
    row = operators(gradient(model, samples))
    found: Dict[str, Dict[str, Any]] = {}
    for one in row:
        if one.name in VIEWS or one.bytes() < BYTES_MIN or not _is_plain(one):
            continue
        task = found.setdefault(_key(one), {"kind": "operator", "key": _key(one), "times": 0, "equation": one.equation})
        task["times"] += one.times
        task.update(flop=one.flop(), bytes=one.bytes(), is_product=one.name in PRODUCTS)
    layers = Layers(own).layers()
    total = lambda name: 3.0 * samples * sum(layer[name] for layer in layers)
    step = {"kind": "step", "key": f"step of {samples} samples", "times": 1, "is_product": False}
    step.update(flop=total("flop"), bytes=total("traffic_bytes"), model=own)
    # By itself, too: devices may share a processor.
    alone = [{**step, "devices": 1}] if devices > 1 else []
    return [*found.values(), *alone, step]


def _is_plain(one: Operator) -> bool:
    """Whether it can be run by itself, on arrays."""
    return not any("jaxpr" in word for word in one.equation.params) and all(
        hasattr(atom.aval, "dtype") and jnp.issubdtype(atom.aval.dtype, jnp.number) or atom.aval.dtype == bool
        for atom in [*one.equation.invars, *one.equation.outvars]
    )


def _key(one: Operator) -> str:
    """Equal operators have equal keys."""
    kinds = " ".join(atom.aval.str_short(short_dtypes=True) for atom in one.equation.invars)
    given = " ".join(atom.aval.str_short(short_dtypes=True) for atom in one.equation.outvars)
    params = hashlib.sha256(str(sorted(one.equation.params.items(), key=str)).encode()).hexdigest()[:6]
    return f"{one.name} {kinds} -> {given} #{params}"


def seconds(task: Dict[str, Any], devices: List[Any], ready: Dict[Any, Any]) -> float:
    """Of one time, while all devices that are at work do the same."""
    devices = devices[: task.get("devices") or len(devices)]
    key = (task["key"], len(devices))
    if key not in ready:
        if task["kind"] == "step":
            function, shapes = jax.grad(forward(task["model"])), (task["model"].params, task["model"].batch)
        else:
            equation = task["equation"]
            function = lambda *inputs: equation.primitive.bind(*inputs, **equation.params)
            shapes = tuple(atom.aval for atom in equation.invars)
        ready[key] = _loop(devices, function, shapes)
    return ready[key].seconds(1 if task["kind"] == "step" else REPEATS)


def _loop(devices: List[Any], function: Any, shapes: Any) -> Loop:
    made = jax.eval_shape(function, *shapes)

    def body(held: Any) -> Any:
        # So that what does not change is not computed once and for all.
        inputs, _ = lax.optimization_barrier(held)
        return inputs, function(*inputs)

    return Loop(devices, body, lambda: jax.tree.map(_filled, (shapes, made)))


def _filled(kind: Any) -> Any:
    fill = 0.5 if jnp.issubdtype(kind.dtype, jnp.floating) else 0
    return jnp.full(kind.shape, fill, kind.dtype)
