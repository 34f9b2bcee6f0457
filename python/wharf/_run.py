"""One run of a training loop: what it tells, and when it has to stop."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Union

from ._checkpoints import check_shared
from ._lease import Lease
from ._link import BYTES_MAX, Link
from ._plan import Plan
from ._points import Points
from ._signals import StopSignal

#: Iterations are told at most this often, and answers searched for.
TELL_INTERVAL_S = 0.1
#: A loop whose lease seems over waits this long for the supervisor to state whether it was renewed; a supervisor that is away is
#: noticed without waiting.
ASK_PATIENCE_S = 2.0
#: A message that matters waits this long for room in the supervisor's queue.
SEND_PATIENCE_S = 0.5
#: The same for the last messages of a program: nothing follows that could replace them.
END_PATIENCE_S = 10.0
#: What a datagram has beside metrics: the task's name and secret, iterations.
FRAME_BYTES = 512


class Run:
    """What `wharf.steps` and the other functions work on; a process has one of its own, and rarely needs another."""

    def __init__(self, environment: Optional[Mapping[str, str]] = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._link = Link.open(self._environment)
        # Of several processes of a task, the first one reports; all of them listen.
        self._speaks = self._environment.get("LOCAL_RANK", "0") == "0"
        self._signal = StopSignal(self._environment)
        self._lease = Lease.from_environment(self._environment) if self._link else Lease()
        self._told_to_stop = False
        self._done = 0.0
        # The last number of iterations that was sent.
        self._told = 0.0
        # What will be done when the iteration at hand is over.
        self._ahead = 0.0
        self._checkpointed: Optional[float] = None
        self._points = Points()
        # Values that were reported before the first iteration: they belong to it, as the first iteration of this run is not known before.
        self._early: Optional[Dict[str, Any]] = {}
        # Messages with points that the supervisor has not taken.
        self._unsent: List[Dict[str, Any]] = []
        self._total: Optional[int] = None
        self._checkpoint_every = 0
        self._agree: Optional[Callable[[bool], bool]] = None
        self._asks_for_checkpoints = False
        self._stopping = False
        self._next_tell = 0.0
        self._next_listen = 0.0

    @property
    def active(self) -> bool:
        """Whether there is a Wharf to talk to."""
        return self._link is not None

    @property
    def lease(self) -> Lease:
        """How long this process may run, as far as is known."""
        self._listen()
        return self._lease

    @property
    def plan(self) -> Plan:
        """The devices that this run was given, and how it is to divide its work among them."""
        return Plan.from_environment(self._environment)

    def steps(
        self,
        total: Optional[int],
        start: int = 0,
        checkpoint_every: int = 0,
        agree: Optional[Callable[[bool], bool]] = None,
        exit_on_stop: bool = True,
    ) -> Iterator[int]:
        """The loop's iterations from `start` to `total` (None: indefinitely).

        When it is time to stop, `should_checkpoint` says yes, and after that iteration the process exits with 0, so that
        what follows the loop happens only when training is complete; with `exit_on_stop=False` the loop just ends. A loop
        that never asks `should_checkpoint` ends after the iteration at hand.

        `checkpoint_every` has `should_checkpoint` say yes every so many iterations, and after the last one.

        `agree` makes one decision of what the processes of a gang would each do; it is called once an iteration by each,
        for example with an all-reduce that takes the maximum. Without it a process decides alone, and may leave others
        waiting for it.
        """
        if total is not None and math.isnan(total):
            raise ValueError(f"total must be a number of iterations, not {total}")
        first = _count("start", start)
        self._signal.install()
        self._total, self._checkpoint_every, self._agree = total, checkpoint_every, agree
        self._asks_for_checkpoints = self._stopping = False
        if self._checkpointed is None and start > 0:
            self._checkpointed = first
        self._done = self._ahead = first
        try:
            self._tell(force=True)
            at = start
            while total is None or at < total:
                if at == start or not self._asks_for_checkpoints:
                    self._stopping = self._decide()
                if self._stopping:
                    self._leave(exit_on_stop)
                    return
                self._ahead = at + 1.0
                self._begin()
                yield at
                at += 1
                self._done = float(at)
                self._tell()
        finally:
            self._tell(force=True)
            self._signal.uninstall()

    def _leave(self, exit_on_stop: bool) -> None:
        self._tell(force=True, stopped=True)
        if exit_on_stop:
            raise SystemExit(0)

    def step(self, done: float, **metrics: Any) -> bool:
        """Tells that `done` iterations are done, in a loop of any form; false: checkpoint and exit with 0.

        Raises `ValueError` for a number of iterations that is NaN or infinite, and reports nothing of that call.
        """
        done = _count("done", done)
        self._signal.install()
        self._done = self._ahead = done
        self._begin()
        self.report(**metrics)
        self._tell()
        if not self.should_stop():
            return True
        self._tell(force=True, stopped=True)
        return False

    def flush(self) -> None:
        """Sends reports that were not sent yet."""
        if self._early:
            # No iteration began in this run: the values belong to those of the checkpoint.
            self._done = self._ahead = _number_of(self._environment.get("WHARF_ITERATIONS_DONE"))
            self._begin()
        if self._points.is_waiting or self._unsent or self._told != self._done:
            self._tell(force=True, patience_s=END_PATIENCE_S)

    def close(self) -> None:
        """Sends the last reports and restores the handler of the stop signal; a loop of `steps` does that by itself."""
        self._tell(force=True, patience_s=END_PATIENCE_S)
        self._signal.uninstall()

    def report(self, **metrics: Any) -> None:
        """Values of metrics at this iteration; NaN and infinity are stored as well.

        They are read only when something is sent, so a tensor costs nothing here. A job has at most 64 metrics, whose names have at most
        64 bytes and no control characters; others are not stored, and a warning states this.
        """
        now = time.time()
        for name, value in metrics.items():
            if not hasattr(value, "__float__"):
                raise TypeError(f"metric {name!r} is not a number but {type(value).__name__}")
            # A loss must not keep its graph alive until the next one comes.
            detach = getattr(value, "detach", None)
            value = detach() if callable(detach) else value
            if self._early is not None:
                self._early[name] = value
            else:
                self._points.add(name, max(int(self._ahead), 0), now, value)

    def _begin(self) -> None:
        """The first iteration is at hand."""
        early, self._early = self._early, None
        if early:
            self.report(**early)

    def should_checkpoint(self) -> bool:
        """Whether to save a checkpoint at the end of this iteration: it is time for one, or the loop is about to stop."""
        self._asks_for_checkpoints = True
        self._stopping = self._decide()
        if self._stopping:
            return True
        if self._total is not None and self._ahead >= self._total:
            return True
        return self._checkpoint_every > 0 and self._ahead % self._checkpoint_every == 0

    def checkpointed(self, iterations: Optional[float] = None) -> None:
        """Tells that a checkpoint is safe on disk; it holds all iterations so far, or as many as given."""
        saved = self._ahead if iterations is None else _count("iterations", iterations)
        self._begin()
        if iterations is None:
            self._done = self._ahead
        self._checkpointed = saved
        self._tell(force=True)

    def should_stop(self) -> bool:
        """Whether this process is to checkpoint and exit with 0: the stop signal came, or the lease has ended."""
        if self._signal.came or self._told_to_stop:
            return True
        if time.monotonic() >= self._next_listen:
            self._listen()
        if self._lease.is_over(self._ahead):
            # It may have been renewed a moment ago.
            self._hear(self._link.ask(self._message(query=True), ASK_PATIENCE_S) if self._link else None)
        return self._told_to_stop or self._lease.is_over(self._ahead)

    def checkpoint_dir(self, default: Union[str, Path] = "checkpoints") -> Path:
        """The directory for this job's checkpoints: Wharf's choice, or `default`. It exists when this returns.

        Raises `RuntimeError` where a directory that Wharf chose is not shared between the nodes that need it.
        """
        folder = Path(self._environment.get("WHARF_CHECKPOINT_DIR") or default)
        folder.mkdir(parents=True, exist_ok=True)
        if self._environment.get("WHARF_CHECKPOINT_DEFAULT"):
            check_shared(folder, self._environment)
        return folder

    def _decide(self) -> bool:
        mine = self.should_stop()
        return mine if self._agree is None else bool(self._agree(mine))

    def _message(self, stopped: bool = False, query: bool = False) -> Dict[str, Any]:
        message: Dict[str, Any] = {}
        if self._speaks:
            message["iterations"] = self._done
            if self._checkpointed is not None:
                message["checkpointed"] = self._checkpointed
            # An infinite total is a loop without an end.
            if self._total is not None and self._total != math.inf:
                message["total"] = float(self._total)
            if stopped:
                message["stopped"] = True
        if query:
            message["query"] = "lease"
        return message

    def _tell(self, force: bool = False, stopped: bool = False, patience_s: float = SEND_PATIENCE_S) -> None:
        if self._link is None:
            return
        now = time.monotonic()
        if now < self._next_tell and not force:
            return
        self._next_tell = now + TELL_INTERVAL_S
        done = self._done
        if not self._speaks or self._send(self._message(stopped=stopped), patience_s if force else 0.0):
            self._told = done
        self._listen()

    def _send(self, message: Dict[str, Any], patience_s: float) -> bool:
        """Sends a message and all points that wait; those that the supervisor does not take are sent with the next one."""
        if self._link is None:
            return False
        while True:
            # Points that were reported while earlier ones waited go with the same call: it may be the last one.
            self._unsent = self._unsent or self._points.messages(BYTES_MAX - FRAME_BYTES)
            if not self._unsent:
                break
            if not self._link.send({**self._unsent[0], **message}, patience_s):
                return False
            message = {}
            self._unsent.pop(0)
        return not message or self._link.send(message, patience_s)

    def _listen(self) -> None:
        if self._link is not None:
            self._next_listen = time.monotonic() + TELL_INTERVAL_S
            self._hear(self._link.receive())

    def _hear(self, answer: Optional[Dict[str, Any]]) -> None:
        if answer is None:
            return
        if answer.get("stop") is True:
            self._told_to_stop = True
        lease = Lease.from_reply(answer.get("lease"))
        if lease is not None:
            self._lease = lease


def _count(name: str, value: float) -> float:
    """A number of iterations."""
    try:
        count = float(value)
    except OverflowError:
        count = math.inf
    if not math.isfinite(count):
        raise ValueError(f"{name} must be a finite number of iterations, not {count}")
    return count


def _number_of(text: Optional[str]) -> float:
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) else 0.0
