"""Writing so that a kill at any moment leaves the old or the new, never a piece: a temporary name, then a rename."""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import os
import re
import shutil
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.npy import read_member

Arrays = Mapping[str, NDArray[Any]]
MOST_UNPACKED, MOST_RATIO = 10**9, 100  # bytes that any archive may hold, and times its size if that is more
CHECKSUM = "checksum"  # its name in a record


def write_file(path: Path, content: bytes) -> None:
    """Write a file, or replace it."""
    with _said_of(path):
        remove_leftovers(path)
        temporary = temporary_name(path)
        try:
            _write(temporary, content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync(path.parent)


def write_directory(path: Path, files: Mapping[str, bytes], *, overwrite: bool, owned: frozenset[str]) -> None:
    """Write a directory of files, or replace one.

    Parameters
    ----------
    path : Path
        The directory.
    files : dict of str to bytes
        Its files. A name may have one folder before it.
    overwrite : bool
        Whether it may replace one that is there.
    owned : frozenset of str
        Names of files that may be lost with the old one. If it has any other, it is not replaced.
    """
    check_can_write(path, overwrite=overwrite, owned=owned)
    with _said_of(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path = path.resolve()  # a link stays one
        remove_leftovers(path)
        temporary = temporary_name(path)
        temporary.mkdir()
        try:
            for name, content in files.items():
                (temporary / name).parent.mkdir(exist_ok=True)
                _write(temporary / name, content)
                _sync((temporary / name).parent)
            _sync(temporary)
            if path.exists():
                _exchange(temporary, path)
            else:
                os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        remove_leftovers(path)
        _sync(path.parent)


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """Let what the system says of a temporary file, or of none, be said of what is to be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # not the system's
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def check_can_write(path: Path, *, overwrite: bool, owned: frozenset[str]) -> None:
    """Raise a FileExistsError, with what to do, if a directory must not be written."""
    if not path.exists():
        return
    if not path.is_dir():
        raise FileExistsError(f"{path} is there and is a file. Choose another name.")
    # What a killed writer of one of our files left is not a stranger's.
    ours = owned | {".DS_Store"}
    names = set(_names(path, {name.split("/")[0] for name in owned if "/" in name}))
    strangers = sorted(name for name in names - ours if not name.startswith(tuple(f".{own}.writing-" for own in owned)))
    if strangers:
        raise FileExistsError(
            f"{path} is there and has files that are no part of a model ({', '.join(strangers[:3])}). "
            "Choose another name, or move them away."
        )
    if not overwrite and any(path.iterdir()):
        raise FileExistsError(f"{path} is there. Choose another name, or allow it to be overwritten (overwrite=True).")


def _names(path: Path, folders: set[str]) -> Iterator[str]:
    """Yield the names in a directory, for some of its folders those in them."""
    for entry in path.iterdir():
        if entry.name in folders and entry.is_dir() and not entry.is_symlink():
            yield from (f"{entry.name}/{inner.name}" for inner in entry.iterdir())
        else:
            yield entry.name


def to_json(record: Mapping[str, Any]) -> bytes:
    """Return a record as JSON; numbers of NumPy become plain ones, what is not finite becomes null."""
    text = json.dumps(plain(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace")  # bytes of file names that are no characters: \udcff is JSON


def signed(record: Mapping[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return a record, as JSON holds it, with a checksum of itself and of the arrays that belong to it."""
    record = plain(record)
    return {**record, CHECKSUM: _checksum(record, arrays)}


def is_as_signed(record: Mapping[str, Any], arrays: Arrays) -> bool:
    """Say whether a record and its arrays have not changed since they were signed."""
    others = {name: entry for name, entry in record.items() if name != CHECKSUM}
    return record.get(CHECKSUM) == _checksum(others, arrays)


def _checksum(record: Mapping[str, Any], arrays: Arrays) -> str:
    """Return what is different for different contents, however they are laid out in files."""
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return f"sha256:{digest.hexdigest()}"


def to_npz(arrays: Arrays) -> bytes:
    """Return arrays as an npz archive. None of them may need pickle."""
    objects = [name for name, array in arrays.items() if np.asarray(array).dtype.hasobject]
    if objects:
        raise TypeError(f"The array {objects[0]!r} holds objects, which cannot be written without pickle.")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


@contextmanager
def open_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read. Anything else might never begin, or never end: a ValueError."""
    # Without O_NONBLOCK, opening a pipe waits for someone to write to it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device"
            raise ValueError(f"{path} cannot be read: it is {kind}, not a regular file.")
        with open(handle, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(handle)


def read_file(path: Path) -> bytes:
    """Return the content of a regular file."""
    with open_file(path) as file:
        return file.read()


def from_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an npz archive. Pickles, which could run code, are refused."""
    with open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                most = max(MOST_UNPACKED, MOST_RATIO * sum(member.compress_size for member in members))
                if sum(member.file_size for member in members) > most:
                    raise ValueError(f"its arrays would take more than {most} bytes")
                return {name.removesuffix(".npy"): read_member(archive, name, most) for name in archive.namelist()}
        except Exception as error:  # what zipfile and NumPy raise on bytes gone wrong is not written down anywhere
            reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
            raise ValueError(f"{path} cannot be read: {reason}.") from error


def _write(path: Path, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Make names last: a rename is safe on disk only when its directory is."""
    if os.name == "posix":
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def temporary_name(path: Path) -> Path:
    """Return where to write what is to be renamed to path."""
    return path.with_name(f".{path.name}.writing-{os.getpid()}")


def remove_leftovers(path: Path) -> None:
    """Remove what earlier writers of the same path left behind when they were killed."""
    kinds = ("writing", "before") if path.exists() else ("writing",)
    for leftover in _beside(path, *kinds):
        pid = int(leftover.name.rsplit("-", 1)[-1])
        # In a container, a process may well have the number of the one that was killed.
        if pid != os.getpid() and is_running(pid):
            continue
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def left_aside(path: Path) -> Path | None:
    """Return where the old one is, if its replacement was interrupted where names cannot be exchanged at once."""
    return None if path.exists() else next(_beside(path, "before"), None)


def _beside(path: Path, *kinds: str) -> Iterator[Path]:
    names = re.compile(rf"\.{re.escape(path.name)}\.({'|'.join(kinds)})-\d+")
    folder = path.parent
    return (entry for entry in (folder.iterdir() if folder.is_dir() else ()) if names.fullmatch(entry.name))


def is_running(pid: int) -> bool:
    """Say whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _exchange(new: Path, old: Path) -> None:
    """Let two directories change names, at once where the system can."""
    libc = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if sys.platform == "linux" and hasattr(libc, "renameat2"):
        at_current, exchange = -100, 2
        if libc.renameat2(at_current, os.fsencode(new), at_current, os.fsencode(old), exchange) == 0:  # type: ignore[union-attr]
            return
    elif sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        swap = 2
        if libc.renamex_np(os.fsencode(new), os.fsencode(old), swap) == 0:
            return
    # In steps: killed between them, the old one is there under its other name.
    aside = old.with_name(f".{old.name}.before-{os.getpid()}")
    os.rename(old, aside)
    os.rename(new, old)
    os.rename(aside, new)


def plain(value: Any) -> Any:
    """Return what JSON can hold: numbers of NumPy as plain ones, None for what is not finite, texts of the rest."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
