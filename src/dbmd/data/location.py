"""Where files are: a path on this machine, or an address that pyarrow or fsspec can open."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from dbmd._utils.model_files import ARRAYS, MODEL, REPORT
from dbmd.data.address import Secrets, is_address, shown
from dbmd.errors import DataError, first_line

# Properties of a file that change with its content, by the names that filesystems of fsspec use.
TAGS = {"etag", "generation", "version_id", "versionid", "md5hash", "content-md5", "digest"}
TAGS |= {"mtime", "updated", "created", "lastmodified", "last_modified", "last-modified"}


class Stamp(NamedTuple):
    """Properties of a file by which a change is noticed.

    Attributes
    ----------
    size : int or None
        Number of bytes; None if there is no file.
    tags : frozenset of tuple
        Properties of a file in an object store that change with its content.
    host, time : str, int or None
        The machine, if it is a local file, and the time of its last change. Another machine may have a copy with
        another time.
    """

    size: int | None
    tags: frozenset[tuple[str, str]]
    host: str
    time: int | None

    def is_of(self, other: Stamp) -> bool:
        """Return whether the file is unchanged, as far as the two stamps tell."""
        return self[:2] == other[:2] and (self.host != other.host or self.time == other.time)


@dataclass(frozen=True)
class Location:
    """A file.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
        Where it is.
    path : str
        Its path there, by which it is opened. It may contain secrets: for http, it is the whole address.
    shown : str
        Its name in messages and records, without secrets.
    constants : dict of str to str
        Columns that are in the names of its folders: ``year=2020/lab=b`` (hive partitions).
    """

    filesystem: Any = field(repr=False)
    path: str = field(repr=False)
    shown: str
    constants: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of the path."""
        path = self.path.rstrip("/")
        last = path.rsplit("/", 1)[-1]
        if self.local is None and last not in self.shown:
            path = path.partition("?")[0]  # the query of an address, which is not shown
        return path.rsplit("/", 1)[-1]

    @property
    def local(self) -> Path | None:
        """The path, if it is on this machine."""
        return Path(self.path) if isinstance(self.filesystem, fs.LocalFileSystem) else None

    @property
    def size(self) -> int:
        """Number of bytes."""
        return int(self.filesystem.get_file_info(self.path).size or 0)

    def stamp(self) -> Stamp:
        """Return the stamp of the file as it is now."""
        try:
            tags: dict[str, Any] = {}
            if isinstance(self.filesystem, fs.PyFileSystem):
                store = self.filesystem.handler.fs
                store.invalidate_cache(self.path)
                tags = store.info(self.path)
            info = self.filesystem.get_file_info(self.path)
        except FileNotFoundError:
            return Stamp(None, frozenset(), "", None)
        except Exception as error:  # of any library, and its message may contain a key
            raise DataError(f"{self}: cannot be reached any more ({type(error).__name__}).") from None
        known = frozenset((name.lower(), str(value)) for name, value in tags.items() if name.lower() in TAGS)
        return Stamp(info.size, known, platform.node() if self.local else "", info.mtime_ns)

    def beside(self, name: str) -> Location | None:
        """Return the file of another name in the same folder; None if there is none."""
        folder = self.path.rpartition("/")[0]
        try:
            info = self.filesystem.get_file_info(f"{folder}/{name}")
        except OSError:  # of a server that does not say what is there
            return None
        if info.type != fs.FileType.File:
            return None
        shown_folder = self.shown.rpartition("/")[0]
        return Location(
            self.filesystem, f"{folder}/{name}", f"{shown_folder}/{name}" if shown_folder else name, self.constants
        )

    def open(self) -> Any:
        """Return the file, open for reading at any position."""
        try:
            return self.filesystem.open_input_file(self.path)
        except OSError as error:
            raise DataError(f"{self}: cannot be read ({first_line(error)}).") from error

    def __str__(self) -> str:
        return self.shown


def locate(text: str | Path) -> list[Location]:
    """Return the file of a path or an address, or if it is a folder, all files in and below it, in order."""
    address, text = str(text), shown(text)
    try:
        address.encode()
    except UnicodeEncodeError:
        raise DataError(f"{text}: the name is not text in UTF-8. Rename it.") from None
    filesystem, path = _filesystem(address)
    try:
        info = filesystem.get_file_info(path)
    except OSError as error:
        raise DataError(f"{text}: cannot be read ({first_line(error)}).") from error
    if info.type == fs.FileType.NotFound:
        raise DataError(f"{text}: no such file or folder.")
    if info.type == fs.FileType.Unknown:
        raise DataError(
            f"{text}: is neither a file nor a folder. Data are read several times, which a pipe or a device does not "
            "allow: write them to a file first."
        )
    if info.type == fs.FileType.File:
        return [Location(filesystem, path, text)]
    found = []
    try:
        entries = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    except OSError as error:
        raise DataError(f"{text}: the folder cannot be read ({first_line(error)}).") from error
    models = {entry.path.rpartition("/")[0] for entry in entries if entry.path.endswith(f"/{MODEL}")}
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        if folder in models and name in (MODEL, ARRAYS, REPORT):
            continue  # a model that was put beside the data it was made from
        inside = entry.path[len(path.rstrip("/")) + 1 :]
        # Names that begin with a dot or underscore (_SUCCESS, .crc files) mark files that are not data.
        if entry.type == fs.FileType.File and not any(part[0] in "._" for part in inside.split("/")):
            constants = dict(pair.split("=", 1) for pair in inside.split("/")[:-1] if "=" in pair)
            constants = {unquote(name): unquote(value) for name, value in constants.items()}
            found.append(Location(filesystem, entry.path, f"{text.rstrip('/')}/{inside}", constants))
    if not found:
        raise DataError(f"{text}: the folder is empty.")
    return sorted(found, key=lambda location: _natural(location.path))


def _filesystem(address: str) -> tuple[Any, str]:
    """Return the filesystem of an address, and the path there."""
    if not is_address(address):
        return fs.LocalFileSystem(), Path(address).expanduser().absolute().as_posix()
    text, secrets = shown(address), Secrets.of([address])
    try:
        return fs.FileSystem.from_uri(address)
    except (pa.ArrowInvalid, NotImplementedError):
        pass  # not one of pyarrow's own
    except OSError as error:
        raise DataError(f"{text}: cannot be reached ({secrets.removed(first_line(error))}).") from None
    try:
        import fsspec
    except ModuleNotFoundError:
        raise DataError(
            f"{text}: opening this address needs fsspec. Install it with: pip install 'dbmd[remote]'"
        ) from None
    try:
        filesystem, path = fsspec.core.url_to_fs(address)
    except Exception as error:  # of any library that fsspec uses
        raise DataError(f"{text}: cannot be reached ({secrets.removed(first_line(error))}).") from None
    return fs.PyFileSystem(_FilesystemWithoutSecrets(filesystem, secrets)), path


class _FilesystemWithoutSecrets(fs.FSSpecHandler):
    """A filesystem of fsspec that raises all errors as OSErrors without the secrets of an address."""

    def __init__(self, filesystem: Any, secrets: Secrets) -> None:
        super().__init__(filesystem)
        self.secrets = secrets

    def get_file_info(self, paths: list[str]) -> Any:
        with _without_secrets(self.secrets):
            return super().get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        with _without_secrets(self.secrets):
            return super().get_file_info_selector(selector)

    def open_input_file(self, path: str) -> Any:
        with _without_secrets(self.secrets):
            if not self.fs.isfile(path):
                raise FileNotFoundError("it is not there")
            return pa.PythonFile(_FileWithoutSecrets(self.fs.open(path, mode="rb"), self.secrets), mode="r")


class _FileWithoutSecrets:
    """A file of fsspec that raises all errors as OSErrors without the secrets of an address."""

    def __init__(self, file: Any, secrets: Secrets) -> None:
        self._file, self._secrets = file, secrets

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def close(self) -> None:
        self._file.close()

    __del__ = close  # readers of streams do not close it

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, position: int, whence: int = 0) -> int:
        with _without_secrets(self._secrets):
            return int(self._file.seek(position, whence))

    def read(self, size: int = -1) -> bytes:
        with _without_secrets(self._secrets):
            return bytes(self._file.read(size))


@contextmanager
def _without_secrets(secrets: Secrets) -> Iterator[None]:
    """Raise any error as an OSError without secrets."""
    try:
        yield
    except Exception as error:
        raise OSError(secrets.removed(first_line(error))) from None


def _natural(path: str) -> list[Any]:
    """Return a key that sorts part-2 before part-10."""
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", path)]
