"""Objects in files whose arrays are mapped into memory, for all processes of a machine: blocks and caches of nodes.

A file is a pickle with out-of-band buffers (PEP 574): first the arrays, each at a multiple of 64 bytes, then the
pickle, then an index of both. It is only for files that this program wrote itself, in a directory of its own: nobody
else may read the samples, and a pickle from somebody else could run code. So folders and files are accessible to their
owner only.
"""

from __future__ import annotations

import mmap
import os
import pickle
from pathlib import Path
from typing import Any

ALIGNMENT = 64


def dump(value: Any, path: Path) -> None:
    """Write an object atomically."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(value, 5, buffer_callback=buffers.append)
    _make_private(path.parent)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb", opener=_private) as file:
            positions = []
            for buffer in buffers:
                file.write(b"\0" * (-file.tell() % ALIGNMENT))
                with buffer.raw() as raw:
                    positions.append((file.tell(), raw.nbytes))
                    file.write(raw)
            index = pickle.dumps((packed, positions), 5)
            file.write(index)
            file.write(len(index).to_bytes(8, "little"))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _make_private(folder: Path) -> None:
    """Make a folder and its missing parents, accessible to their owner only."""
    if not folder.exists():
        _make_private(folder.parent)  # not mkdir(parents=True), which makes them as the umask says
        folder.mkdir(mode=0o700, exist_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def load(path: Path) -> Any:
    """Return an object that :func:`dump` wrote. Changes of its arrays do not change the file."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    view = memoryview(mapped)
    size = int.from_bytes(view[-8:], "little")
    packed, positions = pickle.loads(view[-8 - size : -8])
    return pickle.loads(packed, buffers=[view[start : start + length] for start, length in positions])
