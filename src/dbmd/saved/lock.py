"""One process at a time writes a model directory: a lock file beside it names the process.

The operating system releases its lock on that file when the process ends, however it ends, so a fit that was killed
never blocks the next one. Where files cannot be locked, and between machines, the content of the file decides.
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
    """A context in which no other process may write a directory.

    Parameters
    ----------
    directory : Path
        What is to be written. The lock file is beside it, with ``.lock`` after its name.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = lock_path(directory)
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
            os.write(self._handle, json.dumps(_this_process(), indent=1).encode())
        except OSError as error:
            self.release()
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock."""
        if self._handle is not None:
            # First: a process that locks the file from now on sees that it was removed, and creates a new one.
            self.path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None

    def _can_be_taken(self, handle: int) -> bool:
        """Return whether the file is still there and free; raise a FileExistsError if another process has it."""
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FileExistsError(f"{self.path} is in the way: it is no regular file. Remove it.")
        is_locked = _lock(handle)
        owner = _owner(os.read(handle, 10_000))
        if is_locked is False:
            raise FileExistsError(self._refusal(owner))
        try:
            is_there = os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            is_there = False
        if owner and is_there and (_is_elsewhere(owner) or (is_locked is None and _is_alive(owner))):
            raise FileExistsError(self._refusal(owner))
        return is_there

    def _refusal(self, owner: dict[str, Any]) -> str:
        who = f"process {owner['process']} on {owner['host']}, since {owner['since']}" if owner else "another process"
        if owner and _is_elsewhere(owner):
            todo = f"If it is not running any more, which cannot be seen from here, remove {self.path}."
        else:
            todo = "Wait for it, or choose another name."
        return f"{self.directory} is being written by {who}. {todo}"


def _flag(name: str) -> int:
    return int(getattr(os, name, 0))


def _lock(handle: int) -> bool | None:
    """Lock an open file, and return whether that was possible; None if the system cannot lock it at all."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _this_process() -> dict[str, Any]:
    pid = os.getpid()
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    return {"process": pid, "started": _started(pid), "host": socket.gethostname(), "boot": _boot(), "since": since}


def _owner(content: bytes) -> dict[str, Any]:
    """Return the process that a lock file names; an empty dict if it names none."""
    try:
        found = json.loads(content)
        return found if {*_this_process()} <= {*found} and isinstance(found["process"], int) else {}
    except (ValueError, TypeError, RecursionError):
        return {}


def _is_elsewhere(owner: dict[str, Any]) -> bool:
    """Return whether a process is on another machine: containers of one machine have several names, but one boot."""
    return owner["host"] != socket.gethostname() and (owner["boot"] is None or owner["boot"] != _boot())


def _is_alive(owner: dict[str, Any]) -> bool:
    """Return whether a process of this machine is running; a later one with the same number has another start time."""
    pid = owner["process"]
    return pid != os.getpid() and is_running(pid) and owner["started"] == _started(pid)


def _started(pid: int) -> str | None:
    """Return when a process was started, in ticks of the system's clock; None where that is unknown."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _boot() -> str | None:
    """Return the identifier of the boot of this machine; None where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
