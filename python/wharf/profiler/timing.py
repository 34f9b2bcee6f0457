"""Takes times. Other programs only ever make something slower, so the least time counts, and long measurements come back later to
what they have measured before."""

from __future__ import annotations

import time
from typing import Any, Callable, List

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

#: A visit takes at least so many times, and continues for so long.
TIMES_MIN, VISIT_S = 3, 0.1


def least_s(run: Callable[[], Any]) -> float:
    """The least time of several, after one that does not count."""
    jax.block_until_ready(run())
    best, spent_s, times = float("inf"), 0.0, 0
    while times < TIMES_MIN or spent_s < VISIT_S:
        start = time.perf_counter()
        jax.block_until_ready(run())
        took_s = time.perf_counter() - start
        best, spent_s, times = min(best, took_s), spent_s + took_s, times + 1
    return best


class Loop:
    """Something that every device does again and again in one program, all at the same time as in training: devices may share a
    processor or a bus. What is left of two runs that differ in how often they do it is the thing itself, without its start."""

    def __init__(self, devices: List[Any], body: Callable[[Any], Any], inputs: Any):
        mesh = Mesh(np.array(devices), ("all",))
        everywhere = PartitionSpec()
        loop = lambda times, carry: lax.fori_loop(0, times, lambda _, held: body(held), carry)
        mapped = jax.shard_map(loop, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
        self.program, self.inputs = jax.jit(mapped), inputs

    def seconds(self, repeats: int) -> float:
        """Of one time."""
        inputs = self.inputs()
        run = lambda times: least_s(lambda: self.program(times, inputs))
        more_s, less_s = run(repeats + 1), run(1)
        # Where the two cannot be distinguished, it takes less than what can be measured.
        return max(more_s - less_s, 0.02 * more_s) / repeats
