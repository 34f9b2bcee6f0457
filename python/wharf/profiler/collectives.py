"""What it takes devices to talk: every operation, in the groups that meshes have, in several sizes."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import jax.numpy as jnp
from jax import lax

from .timing import Loop

#: Elements of 32 bits on each device.
SIZES = (64, 1 << 10, 1 << 14, 1 << 17, 1 << 20)
OPERATIONS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
#: How often within one program, so that starting it hardly counts.
REPEATS = 8


def groups(devices: int) -> List[List[List[int]]]:
    """Those of the axes of all meshes of so many devices: of equal size, and equally far apart."""
    found = []
    for size in range(2, devices + 1):
        for stride in range(1, devices // size + 1):
            if devices % (size * stride) == 0:
                firsts = [start for start in range(devices) if start // stride % size == 0]
                found.append([[start + stride * at for at in range(size)] for start in firsts])
    return found


def tasks(devices: int) -> List[Dict[str, Any]]:
    """What can be measured, smallest first."""
    if devices < 2:
        return []
    each = [(operation, _text(group), len(group[0])) for group in groups(devices) for operation in OPERATIONS]
    # All of a group get equally many: the next multiple.
    return [
        {"kind": "collective", "operation": operation, "groups": text, "elements": -(-size // parts) * parts}
        for operation, text, parts in [("send", "", 1)] + each
        for size in SIZES
    ]


def _text(group: List[List[int]]) -> str:
    return str(group).replace(" ", "")


def seconds(task: Dict[str, Any], devices: List[Any], ready: Dict[Any, Any]) -> float:
    """Of one operation."""
    key = ("collective", task["operation"], task["groups"], task["elements"])
    if key not in ready:
        inputs = lambda: jnp.arange(task["elements"], dtype=jnp.float32) % 7
        ready[key] = Loop(devices, _body(task, len(devices)), inputs)
    return ready[key].seconds(REPEATS)


def _body(task: Dict[str, Any], count: int) -> Callable[[Any], Any]:
    """The operation, with something behind it that makes its output its next input."""
    ring = [(at, (at + 1) % count) for at in range(count)]
    text = task["groups"]
    members = [list(map(int, part.split(","))) for part in text[2:-2].split("],[")] if text else None
    size = len(members[0]) if members else 2
    together = {"axis_name": "all", "axis_index_groups": members}
    return {
        # As stages of a pipeline do: all at once.
        "send": lambda x: lax.ppermute(x, "all", ring),
        "all-reduce": lambda x: lax.psum(x, **together) * (1.0 / size),
        "all-gather": lambda x: lax.all_gather(x, tiled=True, **together)[: x.shape[0]],
        "reduce-scatter": lambda x: jnp.tile(lax.psum_scatter(x, tiled=True, **together) * (1.0 / size), size),
        "all-to-all": lambda x: lax.all_to_all(x, split_axis=0, concat_axis=0, tiled=True, **together),
    }[task["operation"]]
