"""The line to the supervisor of the task: datagrams over a local socket.

Each datagram is a JSON object with the task's name (`job`, `generation`) and its secret (`token`). The supervisor answers at this
side's own address, with the same secret, when the lease has changed or when asked. A supervisor that is away is no error: the next datagram may find its
successor.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from typing import Any, Dict, Mapping, Optional

#: The supervisor cuts off what is longer.
BYTES_MAX = 4096
#: Between attempts to send to a supervisor that has much to read.
RETRY_S = 0.01


class Link:
    """Sends to the supervisor and takes its answers. Belongs to the process that made it: a fork has none."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._path = environment["WHARF_PROGRESS_SOCKET"]
        self._name: Dict[str, Any] = {
            "job": int(environment["WHARF_JOB_ID"]),
            "generation": int(environment["WHARF_GENERATION"]),
            "token": environment.get("WHARF_PROGRESS_TOKEN", ""),
        }
        self._owner = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        # An empty name lets the kernel choose one: that is where answers come to.
        with contextlib.suppress(OSError):
            self._socket.bind("")

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            self._socket.close()

    @classmethod
    def open(cls, environment: Mapping[str, str]) -> Optional["Link"]:
        """None where there is no Wharf, or not one that can be understood."""
        try:
            return cls(environment)
        except (KeyError, ValueError, OSError, AttributeError):
            return None

    def send(self, message: Mapping[str, Any], patience_s: float = 0.0) -> bool:
        """Whether the supervisor has taken it; waits for room in its queue only on request."""
        if os.getpid() != self._owner:
            return False
        text = json.dumps({**self._name, **message}, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        data = text.encode(errors="replace")
        if len(data) > BYTES_MAX:
            return False
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._socket.sendto(data, self._path)
                return True
            except BlockingIOError:
                # Its queue is full. Nothing states when there is room, and the next datagram says all that this one does.
                if time.monotonic() >= deadline:
                    return False
                time.sleep(RETRY_S)
            except OSError:
                return False

    def receive(self) -> Optional[Dict[str, Any]]:
        """The newest answer that is there; does not wait."""
        newest = None
        while os.getpid() == self._owner:
            try:
                text = self._socket.recv(BYTES_MAX)
            except OSError:
                break
            with contextlib.suppress(ValueError):
                answer = json.loads(text)
                # Others may send to this address as well, but do not know the word.
                if isinstance(answer, dict) and answer.get("token") == self._name["token"]:
                    newest = answer
        return newest

    def ask(self, message: Mapping[str, Any], patience_s: float) -> Optional[Dict[str, Any]]:
        """Sends and waits for an answer, but not long."""
        self.receive()
        deadline = time.monotonic() + patience_s
        if not self.send(message, patience_s):
            return None
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            try:
                ready, _, _ = select.select([self._socket], [], [], left)
            except (OSError, ValueError):
                return None
            if ready:
                answer = self.receive()
                if answer is not None:
                    return answer
