"""How long a process may run."""

from __future__ import annotations

import math
import time
from typing import Any, Mapping, NamedTuple, Optional


class Lease(NamedTuple):
    """The right to run until either is reached. None: no such end."""

    until_iteration: Optional[float] = None
    #: Seconds since the Unix epoch.
    until_s: Optional[float] = None

    def is_over(self, iterations: float, now: Optional[float] = None) -> bool:
        """Whether it has ended for a loop that has done so many iterations."""
        if self.until_iteration is not None and iterations >= self.until_iteration:
            return True
        return self.until_s is not None and (time.time() if now is None else now) >= self.until_s

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Lease":
        """The lease that a process was started with."""
        return cls(
            _number(environment.get("WHARF_LEASE_UNTIL_ITERATION")),
            _number(environment.get("WHARF_LEASE_UNTIL_S")),
        )

    @classmethod
    def from_reply(cls, reply: Any) -> Optional["Lease"]:
        """The lease in an answer of the supervisor's, if there is one."""
        if not isinstance(reply, dict):
            return None
        return cls(_number(reply.get("until_iteration")), _number(reply.get("until_s")))


def _number(value: Any) -> Optional[float]:
    """What cannot be understood is no limit: the supervisor enforces the lease anyway."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
