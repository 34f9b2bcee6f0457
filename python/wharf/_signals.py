"""The signal that tells a trainer to stop."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Callable, Mapping, Optional


class StopSignal:
    """Notes that the stop signal came, instead of dying of it; a handler that was there before is called as well."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.came = False
        self._number = _number(environment)
        self._owner = os.getpid()
        self._before: Any = None
        self._installed = False

    def install(self) -> None:
        """Python lets only the main thread do that; elsewhere the signal does what it did before."""
        if self._installed or threading.current_thread() is not threading.main_thread():
            return
        self._before = signal.getsignal(self._number)
        signal.signal(self._number, self._handle)
        self._installed = True

    def uninstall(self) -> None:
        """Leaves things as they were, unless they have been changed since."""
        if not self._installed or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(self._number) == self._handle:
            signal.signal(self._number, signal.SIG_DFL if self._before is None else self._before)
        self._installed = False

    def _handle(self, number: int, frame: Optional[FrameType]) -> None:
        if os.getpid() != self._owner:
            # A fork, such as a data loader: it has no loop to stop, and its parent expects it to die of this.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.came = True
        before: Optional[Callable[[int, Optional[FrameType]], Any]] = self._before
        if callable(before):
            before(number, frame)


def _number(environment: Mapping[str, str]) -> int:
    """The job's own stop signal, if it has one that can be caught."""
    try:
        number = int(environment.get("WHARF_STOP_SIGNAL", ""))
    except ValueError:
        return signal.SIGTERM
    catchable = number in signal.valid_signals() and number not in (0, signal.SIGKILL, signal.SIGSTOP)
    return number if catchable else signal.SIGTERM
