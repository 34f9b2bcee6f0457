"""Whether a checkpoint directory is the same on all nodes that need it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable, Mapping

#: The file that the first node of a gang writes into the directory.
MARKER = ".wharf-gang"
#: File systems may show what another node wrote only after a while.
SHARED_PATIENCE_S = 120.0
LOOK_INTERVAL_S = 0.5

HINT = "set `checkpoint.dir` of the job, or `--checkpoint-root` of the head, to a directory on a shared file system"


def check_shared(
    folder: Path, environment: Mapping[str, str], patience_s: float = SHARED_PATIENCE_S
) -> None:
    """Raises `RuntimeError` where the directory lacks what an earlier run or the first node of the gang wrote."""
    node = environment.get("WHARF_NODE", "this node")
    deadline = time.monotonic() + patience_s
    done = _number(environment.get("WHARF_ITERATIONS_DONE"))
    if done > 0 and not _is_met(lambda: any(entry.name != MARKER for entry in folder.iterdir()), deadline):
        raise RuntimeError(
            f"the checkpoint of this job holds {done:.0f} iterations, but {folder} is empty on {node}: it was saved on "
            f"another node and the directory is not shared; {HINT}"
        )
    if _number(environment.get("WHARF_NODES")) > 1:
        expected = f"{environment.get('WHARF_JOB_ID')}-{environment.get('WHARF_GENERATION')}"
        if not _is_met(lambda: _text(folder / MARKER) == expected, deadline):
            raise RuntimeError(
                f"the checkpoint directory {folder} on {node} is not the one of the job's first node: it is not shared; {HINT}"
            )


def _is_met(condition: Callable[[], bool], deadline: float) -> bool:
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_INTERVAL_S)
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return 0.0
