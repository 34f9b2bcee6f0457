"""What `wharf profile` measures with JAX: operators, collectives, and parallel plans of a user's model.

A model is a function of a file that returns a `Stack`, which can be run under every plan, or a `Loss`, which can be captured and run
on one device or on replicas::

    from wharf.profiler import Stack

    def transformer():
        return Stack(first=embed, block=block, last=loss, params=shapes, batch=batch, split={"up": 1, "down": 0})

Importing this needs no JAX; measuring does.
"""

from __future__ import annotations

from .model import Loss, Stack, Wrong

__all__ = ["Loss", "Stack", "Wrong"]
