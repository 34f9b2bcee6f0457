"""What both scripts share: options, the task to learn, checkpoints, and where to find the SDK."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path
from typing import List, NoReturn, Tuple

try:
    import wharf
except ImportError:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
    import wharf

#: What test runners take for "skipped".
SKIPPED = 77
FEATURES = 8
BATCH = 32

RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
MASTER_ADDR = os.environ.get("MASTER_ADDR", "127.0.0.1")
MASTER_PORT = int(os.environ.get("MASTER_PORT", "29500"))


def arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--iteration-ms", type=float, default=0.0, help="let each take at least so long")
    parser.add_argument("--checkpoint-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def missing(library: str, hint: str) -> NoReturn:
    print(f"{library} is not installed ({hint}): nothing was trained", file=sys.stderr)
    sys.exit(SKIPPED)


def checkpoint_file(name: str) -> Path:
    return wharf.checkpoint_dir(Path("checkpoints") / name.split(".")[0]) / name


def batch(seed: int, step: int) -> Tuple[List[List[float]], List[List[float]]]:
    """This rank's part of an iteration's data. It follows from the numbers alone, so resuming needs no generator's state."""
    rng = random.Random((seed * 1_000_003 + step) * 1009 + RANK)
    inputs = [[rng.uniform(-1, 1) for _ in range(FEATURES)] for _ in range(BATCH)]
    outputs = [[sum(x * (i - 3) for i, x in enumerate(row)) + row[0] * row[1]] for row in inputs]
    return inputs, outputs


def tell(step: int, total: int, loss: float) -> None:
    if RANK == 0 and ((step + 1) % max(1, total // 20) == 0 or step + 1 == total):
        print(f"iteration {step + 1}/{total} loss {loss:.6f}", flush=True)
