"""One fit at a time into one place: a file beside it says which process is at work there.

The system's own lock of that file ends with the process, however it ends, so what a killed fit leaves never blocks the
next. Where files cannot be locked, and between machines, what stands in the file counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
from datetime import datetime
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from dbmd._utils.model_files import lock_path
from dbmd.storage import is_running

fcntl: ModuleType | None = None
with contextlib.suppress(ImportError):  # there is none on Windows
    import fcntl


class Lock:
    """Keeps others from a place, from ``with`` to its end.

    Parameters
    ----------
    place : Path
        What is to be written. The file is beside it, with ``.lock`` after its name.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.path = lock_path(place)
        self._handle: int | None = None

    def __enter__(self) -> Lock:
        while self._handle is None:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | _flag("O_NOFOLLOW") | _flag("O_NONBLOCK"), 0o666)
            try:
                if self._can_be_taken(handle):
                    self._handle = handle
            finally:
                if self._handle is None:
                    os.close(handle)
        try:
            os.ftruncate(self._handle, 0)
            os.lseek(self._handle, 0, os.SEEK_SET)
            os.write(self._handle, json.dumps(_myself(), indent=1).encode())
        except OSError as error:
            self.release()
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let others in."""
        if self._handle is not None:
            self.path.unlink(
                missing_ok=True
            )  # first: who gets hold of it now sees that it is gone, and makes a new one
            os.close(self._handle)
            self._handle = None

    def _can_be_taken(self, handle: int) -> bool:
        """Say whether the file is still there and nobody's; if it is somebody's, raise a FileExistsError."""
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FileExistsError(f"{self.path} is in the way: it is no regular file. Remove it.")
        is_locked = _lock(handle)
        owner = _owner(os.read(handle, 10_000))
        if is_locked is False:
            raise FileExistsError(self._taken(owner))
        try:
            is_there = os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            is_there = False
        if owner and is_there and (_is_elsewhere(owner) or (is_locked is None and _is_alive(owner))):
            raise FileExistsError(self._taken(owner))
        return is_there

    def _taken(self, owner: dict[str, Any]) -> str:
        who = f"process {owner['process']} on {owner['host']}, since {owner['since']}" if owner else "another process"
        if owner and _is_elsewhere(owner):
            todo = f"If it is not running any more, which cannot be seen from here, remove {self.path}."
        else:
            todo = "Wait for it, or choose another name."
        return f"{self.place} is being written by {who}. {todo}"


def _flag(name: str) -> int:
    return int(getattr(os, name, 0))


def _lock(handle: int) -> bool | None:
    """Lock an open file; say whether that was possible. None: this system or file system cannot."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _myself() -> dict[str, Any]:
    pid = os.getpid()
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"process": pid, "started": _started(pid), "host": socket.gethostname(), "boot": _boot(), "since": since}


def _owner(content: bytes) -> dict[str, Any]:
    """Return who wrote the file; nothing if it was killed before it had, or it is no file of ours."""
    try:
        found = json.loads(content)
        return found if {*_myself()} <= {*found} and isinstance(found["process"], int) else {}
    except (ValueError, TypeError, RecursionError):
        return {}


def _is_elsewhere(owner: dict[str, Any]) -> bool:
    """Say whether someone is on another machine: containers of one have several names, but one system."""
    return owner["host"] != socket.gethostname() and (owner["boot"] is None or owner["boot"] != _boot())


def _is_alive(owner: dict[str, Any]) -> bool:
    """Say whether a process of this machine is running; another that has its number by now began at another time."""
    pid = owner["process"]
    return pid != os.getpid() and is_running(pid) and owner["started"] == _started(pid)


def _started(pid: int) -> str | None:
    """Return when a process began, in ticks of the system's clock; None where that is not told."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _boot() -> str | None:
    """Return what tells this run of this machine from all others; None where that is not told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
