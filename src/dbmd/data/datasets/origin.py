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
    """Return what a fetcher of scikit-learn returns, which downloads once and keeps.

    Parameters
    ----------
    fetch : callable
        The fetcher.
    name : str
        The folder that was looked for in vain: for messages.
    files : str
        What it should have: for messages.
    **options
        For the fetcher.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it tries again; if in vain, the error says so
            return fetch(**options)
    except (OSError, ValueError, ImportError, HTTPException) as error:
        instead = f"and {fetch.__name__} of scikit-learn failed ({first_line(error)})"
        raise missing(name, files, instead, ", or let scikit-learn download it") from error


def missing(name: str, files: str, instead: str, remedy: str = "") -> DataError:
    """Return the error that a data set is nowhere: where it was looked for, what came instead, and what to do."""
    data = os.environ.get(VARIABLE)
    looked = f"there is no folder {Path(data).expanduser() / name}" if data else f"{VARIABLE} is not set"
    return DataError(
        f"The data set {name!r} was not found: {looked}, {instead}. "
        f"Set {VARIABLE} to a folder that has a folder {name} with {files}{remedy}."
    )


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around the reading of a file: if it is damaged, or not there, say which it is."""
    try:
        yield
    except (OSError, EOFError, ValueError, KeyError, zlib.error, BadZipFile) as error:
        what = "it is not there" if isinstance(error, FileNotFoundError) else first_line(error)
        raise DataError(f"{path}: cannot be read ({what}). Put a good copy of the file in its place.") from error
