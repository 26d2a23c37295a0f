"""Warnings of a fit: what is odd about the data and the result, told once and kept with the model."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from dbmd.advice.columns import Columns, look_at
from dbmd.advice.findings import Finding, of_columns, of_result
from dbmd.config import Config
from dbmd.dataset import Dataset
from dbmd.errors import DataWarning
from dbmd.model.draw import moments
from dbmd.model.result import Result, State
from dbmd.model.start import Sample, draw_sample
from dbmd.protocols import Engine

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD

OF_DATA = ("variance", "identifier")  # kinds of findings that do not depend on the result


class Advisor:
    """Looks at the data and the result of a fit, and tells what a user should know.

    Parameters
    ----------
    config : Config
        The parameters of the fit.
    data : Dataset
        The samples.
    """

    def __init__(self, config: Config, data: Dataset) -> None:
        self._config, self._data = config, data
        self._columns: Columns | None = None
        self._missing: float | None = None

    def look_at(self, sample: Sample) -> None:
        """Look at the samples that the first start was found from."""
        if self._columns is None:
            self._columns = look_at(sample.Xt, sample.source_codes, sample.weights)
            if self._config.missing == "allow" and not sparse.issparse(sample.Xt):
                self._missing = float(np.average(np.isnan(sample.Xt).mean(axis=1), weights=sample.weights))

    def look_at_what_was_drawn(self, engine: Engine, resume: State | None, seed: int) -> None:
        """Draw the samples again that a fit which is resumed has drawn, so that it tells what it would have told.

        Where no samples were drawn, none are sent now: parameters may have been chosen so that none leave their place.
        """
        config = self._config
        evidence = config.inference == "evidence" and config.effective_features is None
        if resume is not None and self._columns is None and (evidence or config.init == "k-means++"):
            parts = config.parts(self._data.n_sources)
            sums = engine.ask(moments)
            self.look_at(draw_sample(engine.ask, sums, parts.n_patterns, seed, is_dense=bool(parts.n_offsets)))

    def advise(self, model: DBMD, result: Result) -> None:
        """Warn of what was found, and keep it in ``fit_info_["warnings"]``."""
        found: list[Finding] = []
        if self._columns is not None:
            found += of_columns(self._columns, self._config, self._data.feature_names)
        at_floor = np.zeros(len(model.sources_), bool) if result.is_at_floor is None else result.is_at_floor
        found += of_result(model.profile_, at_floor, self._config, model.sources_.tolist())
        if self._missing is not None:
            model.fit_info_["missing_fraction"] = self._missing
        model.fit_info_["warnings"] = [finding.asdict() for finding in found]
        for finding in found:
            warnings.warn(finding.text, DataWarning, stacklevel=_levels_up())


def _levels_up() -> int:
    """Return how many calls up the line is that asked for the fit: neither in dbmd nor in scikit-learn."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("dbmd", "sklearn"):
        level, frame = level + 1, frame.f_back
    return level
