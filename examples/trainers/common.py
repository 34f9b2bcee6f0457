"""What the example trainers share: options, checkpoints as JSON, pacing, progress lines, and where to find the SDK."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

try:
    import wharf
except ImportError:
    # Not installed and not in PYTHONPATH: the one of this repository.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    import wharf

#: So many progress lines for a whole run.
LINES = 20


def arguments(description: str, iterations: int) -> argparse.Namespace:
    """The options that all trainers have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--iterations", type=int, default=iterations, help="how many to do (%(default)s)")
    parser.add_argument("--iteration-ms", type=float, default=0.0, help="let each take at least so long")
    parser.add_argument("--checkpoint-every", type=int, default=100, help="iterations between checkpoints (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="equal seeds give equal results (%(default)s)")
    return parser.parse_args()


def checkpoint_file(name: str) -> Path:
    """Where a trainer of this name keeps its checkpoint."""
    return wharf.checkpoint_dir(Path("checkpoints") / name) / f"{name}.json"


def load(path: Path) -> Optional[Dict[str, Any]]:
    """The last checkpoint, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        state: Dict[str, Any] = json.loads(path.read_text())
        print(f"resumed at iteration {state['step']} from {path}", flush=True)
        return state
    return None


def save(path: Path, state: Dict[str, Any]) -> None:
    """Writes a checkpoint. JSON keeps every bit of a float, so a resumed run ends as an uninterrupted one."""
    with wharf.atomic_write(path) as file:
        file.write(json.dumps(state).encode())
    if wharf.should_stop():
        print(f"checkpoint at iteration {state['step']}, stopping", flush=True)


def generator(seed: int, step: int) -> random.Random:
    """Random numbers of one iteration. They follow from its number, so there is no generator's state to save."""
    return random.Random(seed * 1_000_003 + step)


@contextlib.contextmanager
def paced(iteration_ms: float) -> Iterator[None]:
    """Lets what is inside take at least so long."""
    end = time.monotonic() + iteration_ms / 1000.0
    yield
    rest = end - time.monotonic()
    if rest > 0:
        time.sleep(rest)


def tell(step: int, total: int, loss: float) -> None:
    """A progress line now and then."""
    if (step + 1) % max(1, total // LINES) == 0 or step + 1 == total:
        print(f"iteration {step + 1}/{total} loss {loss:.6f}", flush=True)
