"""Objects in files whose arrays are not read but mapped: what nodes of one machine hold, for all of its processes.

Pickle with buffers out of band (PEP 574): arrays first, each at a multiple of 64 bytes, then the pickle, then where
both are. Only for files that this program wrote itself, in a directory of its own: samples are nobody else's to read,
and a pickle that somebody else wrote could run code. So folders and files are for their owner alone.
"""

from __future__ import annotations

import mmap
import os
import pickle
from pathlib import Path
from typing import Any

ALIGNMENT = 64


def dump(value: Any, path: Path) -> None:
    """Write an object; whoever reads sees the whole of it or nothing."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(value, 5, buffer_callback=buffers.append)
    _make_private(path.parent)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb", opener=_private) as file:
            places = []
            for buffer in buffers:
                file.write(b"\0" * (-file.tell() % ALIGNMENT))
                with buffer.raw() as raw:
                    places.append((file.tell(), raw.nbytes))
                    file.write(raw)
            index = pickle.dumps((packed, places), 5)
            file.write(index)
            file.write(len(index).to_bytes(8, "little"))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _make_private(folder: Path) -> None:
    """Make a folder, and those that it is in, for their owner alone; those that are there stay as they are."""
    if not folder.exists():
        _make_private(folder.parent)  # not mkdir(parents=True), which makes them as the umask says
        folder.mkdir(mode=0o700, exist_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def load(path: Path) -> Any:
    """Return an object that :func:`dump` wrote, with arrays that may be changed in memory, but not in the file."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    view = memoryview(mapped)
    size = int.from_bytes(view[-8:], "little")
    packed, places = pickle.loads(view[-8 - size : -8])
    return pickle.loads(packed, buffers=[view[start : start + length] for start, length in places])
