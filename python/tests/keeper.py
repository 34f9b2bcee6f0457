"""What the tests need: a keeper's side of the socket, and an environment that leads to it."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

PACKAGE = Path(__file__).resolve().parents[1]
TRAINERS = PACKAGE.parent / "examples" / "trainers"


class Keeper:
    """Takes datagrams and answers them, as a worker's keeper does."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "progress.sock")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(10)
        self.sender: Optional[str] = None

    def environment(self, **more: str) -> Dict[str, str]:
        return {
            "WHARF_PROGRESS_SOCKET": self.path,
            "WHARF_JOB_ID": "7",
            "WHARF_GENERATION": "2",
            "WHARF_PROGRESS_TOKEN": "word",
            **more,
        }

    def receive(self) -> Dict[str, Any]:
        text, self.sender = self.socket.recvfrom(4096)
        return json.loads(text)

    def waiting(self) -> List[Dict[str, Any]]:
        """All that has come and was not received yet."""
        self.socket.setblocking(False)
        messages = []
        try:
            while True:
                messages.append(self.receive())
        except BlockingIOError:
            self.socket.settimeout(10)
            return messages

    def say(self, text: Any, token: str = "word") -> None:
        if isinstance(text, dict):
            text = {"token": token, **text}
        self.socket.sendto(json.dumps(text).encode(), self.sender)

    def close(self) -> None:
        self.socket.close()
        self.folder.cleanup()
