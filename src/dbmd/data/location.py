"""Where files are: a path on this machine, or an address that pyarrow or fsspec can open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from dbmd.errors import DataError, first_line


@dataclass(frozen=True)
class Location:
    """A file.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where it is.
    path : str
        Its path there.
    shown : str
        What to call it in messages.
    constants : dict of str to str
        Columns that its folders stand for: ``year=2020/lab=b`` (hive partitions).
    """

    filesystem: Any
    path: str
    shown: str
    constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def local(self) -> Path | None:
        """The path, if it is on this machine."""
        return Path(self.path) if isinstance(self.filesystem, fs.LocalFileSystem) else None

    @property
    def size(self) -> int:
        """Number of bytes."""
        return int(self.filesystem.get_file_info(self.path).size or 0)

    def open(self) -> Any:
        """Return the file, open for reading at any place."""
        try:
            return self.filesystem.open_input_file(self.path)
        except OSError as error:
            raise DataError(f"{self}: cannot be read ({first_line(error)}).") from error

    def __str__(self) -> str:
        return self.shown


def locate(text: str | Path) -> list[Location]:
    """Return the files that a path or an address stands for: itself, or all files in and below a folder, in order."""
    text = str(text)
    filesystem, path = _filesystem(text)
    try:
        info = filesystem.get_file_info(path)
    except OSError as error:
        raise DataError(f"{text}: cannot be read ({first_line(error)}).") from error
    if info.type == fs.FileType.NotFound:
        raise DataError(f"{text}: no such file or folder.")
    if info.type == fs.FileType.File:
        return [Location(filesystem, path, text)]
    found = []
    entries = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    models = {entry.path.rpartition("/")[0] for entry in entries if entry.path.endswith("/model.json")}
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        if folder in models and name in ("model.json", "arrays.npz", "report.html"):
            continue  # a model that was put beside the data it was made from
        inside = entry.path[len(path.rstrip("/")) + 1 :]
        # What tools put beside their data (_SUCCESS, .crc files) is named so that readers pass it over.
        if entry.type == fs.FileType.File and not any(part[0] in "._" for part in inside.split("/")):
            constants = dict(pair.split("=", 1) for pair in inside.split("/")[:-1] if "=" in pair)
            constants = {unquote(name): unquote(value) for name, value in constants.items()}
            found.append(Location(filesystem, entry.path, f"{text.rstrip('/')}/{inside}", constants))
    if not found:
        raise DataError(f"{text}: the folder is empty.")
    return sorted(found, key=lambda location: _natural(location.path))


def _filesystem(text: str) -> tuple[Any, str]:
    if "://" not in text:
        return fs.LocalFileSystem(), Path(text).expanduser().absolute().as_posix()
    try:
        return fs.FileSystem.from_uri(text)
    except (pa.ArrowInvalid, NotImplementedError):
        pass  # not one of pyarrow's own
    except OSError as error:
        raise DataError(f"{text}: cannot be reached ({first_line(error)}).") from error
    try:
        import fsspec
    except ModuleNotFoundError:
        raise DataError(
            f"{text}: opening this address needs fsspec. Install it with: pip install 'dbmd[remote]'"
        ) from None
    try:
        filesystem, path = fsspec.core.url_to_fs(text)
    except (ImportError, ValueError) as error:
        raise DataError(f"{text}: cannot be reached ({first_line(error)}).") from error
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path


def _natural(path: str) -> list[Any]:
    """Sort part-2 before part-10."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", path)]
