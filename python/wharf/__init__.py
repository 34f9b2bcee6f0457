"""Wharf's trainer side: a training loop states how far it has come, and learns when to checkpoint and stop.

A change of three lines to an existing loop::

    import wharf

    for step in wharf.steps(total, start=start, checkpoint_every=500):
        loss = train(step)
        wharf.report(loss=loss)
        if wharf.should_checkpoint():
            save(step + 1)
            wharf.checkpointed()

Without Wharf around it, the same loop just runs to its end. Nothing here raises because Wharf is away.
"""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any, Callable, Iterator, Optional, Union

from ._files import atomic_write
from ._lease import Lease
from ._plan import Plan
from ._run import Run

__all__ = [
    "Lease",
    "Plan",
    "Run",
    "active",
    "atomic_write",
    "checkpoint_dir",
    "checkpointed",
    "lease",
    "plan",
    "report",
    "should_checkpoint",
    "should_stop",
    "step",
    "steps",
]

_default: Optional[Run] = None


def _current() -> Run:
    """The run of this process; made when it is first needed, so that importing has no effect."""
    global _default
    if _default is None:
        _default = Run()
        # A program may end less than a message's interval after its last report.
        atexit.register(_default.flush)
    return _default


def active() -> bool:
    """Whether this process is a task of Wharf's."""
    return _current().active


def steps(
    total: Optional[int],
    start: int = 0,
    checkpoint_every: int = 0,
    agree: Optional[Callable[[bool], bool]] = None,
    exit_on_stop: bool = True,
) -> Iterator[int]:
    """The loop's iterations from `start` to `total`; see `Run.steps`."""
    return _current().steps(total, start, checkpoint_every, agree, exit_on_stop)


def step(done: int, **metrics: Any) -> bool:
    """Tells that `done` iterations are done, in a loop of any form; false: checkpoint and exit with 0."""
    return _current().step(done, **metrics)


def report(**metrics: Any) -> None:
    """Values to show beside the iterations, such as `loss=...`."""
    _current().report(**metrics)


def should_checkpoint() -> bool:
    """Whether to save a checkpoint at the end of this iteration."""
    return _current().should_checkpoint()


def checkpointed(iterations: Optional[int] = None) -> None:
    """Tells that a checkpoint is safe on disk; it holds all iterations so far, or as many as given."""
    _current().checkpointed(iterations)


def should_stop() -> bool:
    """Whether the loop is to checkpoint and exit with 0: the stop signal came, or the lease has ended."""
    return _current().should_stop()


def lease() -> Lease:
    """How long this process may run."""
    return _current().lease


def plan() -> Plan:
    """The devices that this run was given, and how it is to divide its work among them."""
    return _current().plan


def checkpoint_dir(default: Union[str, Path] = "checkpoints") -> Path:
    """The folder for this job's checkpoints: Wharf's choice, or `default`. It is there when this returns."""
    return _current().checkpoint_dir(default)
