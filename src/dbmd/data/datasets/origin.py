"""Where the files of a data set come from: the folder named by DBMD_DATA, or a download by scikit-learn."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from dbmd.errors import DataError, first_line

VARIABLE = "DBMD_DATA"


def folder(name: str) -> Path | None:
    """Return the folder of a data set in the folder named by DBMD_DATA, if it is there."""
    data = os.environ.get(VARIABLE)
    path = Path(data).expanduser() / name if data else None
    return path if path is not None and path.is_dir() else None


def fetched(fetch: Callable[..., Any], name: str, files: str, /, **options: Any) -> Any:
    """Return what a fetcher of scikit-learn returns. It downloads once and keeps the files.

    Parameters
    ----------
    fetch : callable
        The fetcher.
    name : str
        The folder that was not found, for messages.
    files : str
        The files that it should have, for messages.
    **options
        For the fetcher.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about retries; if they fail, there is an error
            return fetch(**options)
    except (OSError, ValueError, ImportError, HTTPException) as error:
        instead = f"and {fetch.__name__} of scikit-learn failed ({first_line(error)})"
        raise missing(name, files, instead, ", or let scikit-learn download it") from error


def missing(name: str, files: str, instead: str, remedy: str = "") -> DataError:
    """Return the error for a data set that was not found: where it was looked for, why, and a remedy."""
    data = os.environ.get(VARIABLE)
    looked = f"there is no folder {Path(data).expanduser() / name}" if data else f"{VARIABLE} is not set"
    return DataError(
        f"The data set {name!r} was not found: {looked}, {instead}. "
        f"Set {VARIABLE} to a folder that has a folder {name} with {files}{remedy}."
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise errors of reading a file as a DataError that names it."""
    try:
        yield
    except (OSError, EOFError, ValueError, KeyError, zlib.error, BadZipFile) as error:
        what = "it is not there" if isinstance(error, FileNotFoundError) else first_line(error)
        raise DataError(f"{path}: cannot be read ({what}). Put a good copy of the file in its place.") from error
