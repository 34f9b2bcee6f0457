"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO, Iterator, Union


@contextlib.contextmanager
def atomic_write(path: Union[str, Path]) -> Iterator[BinaryIO]:
    """A file to write a checkpoint to; it takes the place of `path` when it is complete and on disk.

    A trainer may be killed at any moment, also while it saves: then the checkpoint before this one is still there. ::

        with wharf.atomic_write(folder / "model.pt") as file:
            torch.save(state, file)
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with open(fresh, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the new name last; not every file system knows how, and the file itself is safe already."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
