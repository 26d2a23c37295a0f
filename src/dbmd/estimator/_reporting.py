"""The page about a fitted estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from dbmd.engines._device_arrays import brought_here


class ReportMixin:
    """What :class:`dbmd.DBMD` shows of itself."""

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        image_shape: Sequence[int] | None = None,
        map_shape: Sequence[int] | None = None,
        memberships: Any = None,
        patterns: Literal["auto", "lines", "images", "bars"] = "auto",
        title: str | None = None,
    ) -> Path:
        """Write a page about the fitted model: what was found, in words and charts.

        The page is one html file that needs no other file and no network. Every chart on it can be saved as SVG or PNG,
        and its numbers as CSV.

        Parameters
        ----------
        path : path-like
            The page, a file that ends in ``.html``; one that is there is replaced. In a folder that is there, it is
            called ``report.html``.
        image_shape : sequence of int, optional
            (height, width) or (height, width, 3), if the features are the pixels of a picture.
        map_shape : sequence of int, optional
            (height, width), if the samples are the pixels of a picture, row by row: their memberships are shown as
            maps.
        memberships : array-like of shape (n_samples, n_components), optional
            Memberships of all samples, as :meth:`transform` returns them; what ``map_shape`` needs.
        patterns : {"auto", "lines", "images", "bars"}, default="auto"
            How components are shown: along features in order (spectra, time), as pictures of ``image_shape``, or by the
            features that set each of them apart. "auto" looks at the features.
        title : str, optional
            The heading. By default it says how many clusters, samples and sources there are.

        Returns
        -------
        Path
            The page. :func:`dbmd.open_report` shows it in the browser.

        Examples
        --------
        >>> from dbmd import DBMD
        >>> from sklearn.datasets import load_iris
        >>> model = DBMD(n_components=3, random_state=0).fit(load_iris().data)
        >>> model.report("iris.html")  # doctest: +SKIP
        PosixPath('iris.html')
        """
        check_is_fitted(self)
        # By name: the page is made from a fitted estimator, which must not depend on it. It is loaded when wanted.
        page = import_module("dbmd.report.page")
        target: Path = page.page_path(path)
        found: Path = page.write(
            self,
            target,
            image_shape=image_shape,
            map_shape=map_shape,
            memberships=brought_here(memberships),
            patterns=patterns,
            title=title,
        )
        return found
