"""The page of a model in the browser."""

from __future__ import annotations

import os
import tempfile
import warnings
import webbrowser
from pathlib import Path
from typing import Any

from dbmd._utils.model_files import REPORT
from dbmd.estimator import DBMD, load
from dbmd.report.page import write
from dbmd.saved.membership_map import read_map

__all__ = ["open_report"]


def open_report(report: str | os.PathLike[str] | DBMD, **options: Any) -> Path:
    """Show the page about a model in the browser, and write it first if there is none.

    Parameters
    ----------
    report : path-like or DBMD
        A page, an html file; the directory of a saved model, whose page is ``report.html`` in it; or a fitted model,
        whose page is written to a temporary file.
    **options
        ``image_shape``, ``patterns``, ``title`` and the like, as for :meth:`dbmd.DBMD.report`. If any is given, the
        page of a model is written again.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import dbmd
    >>> dbmd.open_report("digits-model", image_shape=(8, 8))  # doctest: +SKIP
    PosixPath('digits-model/report.html')
    """
    page = _page(report, options)
    if not webbrowser.open(page.resolve().as_uri()):
        warnings.warn(f"No browser could be started. The page is {page}.", UserWarning, stacklevel=2)
    return page


def _page(report: Any, options: dict[str, Any]) -> Path:
    if isinstance(report, DBMD):
        return write(report, Path(tempfile.mkdtemp(prefix="dbmd-")) / REPORT, **options)
    if not isinstance(report, str | os.PathLike):
        raise TypeError(
            "open_report takes the path of a page or of a model directory, or a fitted DBMD. Got "
            f"{type(report).__name__}."
        )
    path = Path(report)
    if path.is_dir():
        page = path / REPORT
        if options or not page.is_file():
            model = load(path)
            options.setdefault("memberships", read_map(path, len(model.components_), int(model.fit_info_["n_samples"])))
            write(model, page, **options)
        return page
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such page or model directory.")
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path} is no page: it must be an html file, or the directory of a model.")
    if options:
        raise ValueError(
            f"{path} is written already: give the model or its directory, to write it with {min(options)}."
        )
    return path
