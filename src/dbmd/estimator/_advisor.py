"""Warnings of a fit: what is odd about the data and the result, told once and kept with the model."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbmd.advice.columns import Columns, look_at
from dbmd.advice.findings import Finding, of_columns, of_result
from dbmd.config import Config
from dbmd.data.preparation import Preparation
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
    preparation : Preparation, optional
        How they are scaled.
    """

    def __init__(self, config: Config, data: Dataset, preparation: Preparation | None) -> None:
        self._config, self._data = config, data
        self._preparation = preparation or Preparation()
        self._columns: Columns | None = None
        self._missing: float | None = None

    def look_at(self, sample: Sample) -> None:
        """Look at the samples that the first start was found from."""
        if self._columns is None:
            self._columns = look_at(sample.Xt, sample.source_codes, sample.weights, self._as_given)
            if sample.gaps is not None:
                self._missing = float(np.average(sample.gaps.mean(axis=1), weights=sample.weights))

    def look_at_what_was_drawn(self, engine: Engine, resume: State | None, seed: int) -> None:
        """Draw the samples again that a fit which is resumed has drawn, so that it tells what it would have told.

        Where no samples were drawn, none are sent now: parameters may have been chosen so that none leave their place.
        """
        config = self._config
        evidence = config.inference == "evidence" and config.effective_features is None
        if resume is not None and self._columns is None and (evidence or config.init == "k-means++"):
            self.look_at(self._drawn(engine, seed))

    def look_at_rows_as_given(self, engine: Engine, seed: int) -> None:
        """Look for identifiers in the data as they were given, if samples are divided by their sums or norms.

        What rises from row to row does so no more, once rows are divided. So this takes passes of its own.
        """
        if self._columns is not None and self._preparation.by_sample and self._config.missing == "error":
            sample = self._drawn(engine, seed)
            found = look_at(sample.Xt, sample.source_codes, sample.weights)
            self._columns = replace(self._columns, rising=found.rising, distinct=found.distinct)

    def _drawn(self, engine: Engine, seed: int) -> Sample:
        parts = self._config.parts(self._data.n_sources)
        return draw_sample(engine.ask, engine.ask(moments), parts.n_patterns, seed, has_offsets=bool(parts.n_offsets))

    def _as_given(self, values: NDArray[np.float64], columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return values of some columns in the units of the data; whole numbers are whole again."""
        how = self._preparation
        if how.scale is None and not how.log:
            return values
        values = values if how.scale is None else values * how.scale[columns]
        values = np.expm1(values) if how.log else values
        whole = np.rint(values)
        rounding = 100.0 * float(np.finfo(self._data.dtype).eps) * np.maximum(np.abs(values), 1.0)
        return np.where(np.abs(values - whole) <= rounding, whole, values)

    def advise(self, model: DBMD, result: Result) -> None:
        """Warn of what was found, and keep it in ``fit_info_["warnings"]``."""
        found: list[Finding] = []
        if self._columns is not None:
            found += of_columns(self._columns, self._config, self._data.feature_names)
        at_floor = np.zeros(len(model.sources_), bool) if result.is_at_floor is None else result.is_at_floor
        names = model.sources_.tolist()
        found += of_result(model.profile_, at_floor, self._config, names, result.W, result.offsets)
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
