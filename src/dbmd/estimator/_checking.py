"""Whether scaling, offsets or brightness would pay, before a fit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from dbmd._utils.logs import log_phase, progress_log
from dbmd._utils.phases import OnPhase, ignore_phase
from dbmd.advice.check import Comparison, compare
from dbmd.config import Config
from dbmd.data.features import find_preparation
from dbmd.dataset import Dataset
from dbmd.estimator._opening import opened
from dbmd.estimator._units import known_in_scaled_units
from dbmd.estimator.fitted import prepared
from dbmd.model.draw import check_magnitude, moments
from dbmd.model.start import draw_sample

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD


class CheckMixin:
    """The method of an estimator that compares models before a fit."""

    def check(self, X: Any, *, source: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Comparison:
        """Compare fits of some thousand samples with and without scaling, offsets and brightness.

        It takes seconds, whatever the size of the data, and changes nothing. What this estimator has already, such as
        ``brightness=True``, is not tried. With ``n_components="auto"`` the fits have as many components as the last fit
        of this estimator, or 8.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features); or anything that :func:`dbmd.open_data` takes
            The samples.
        source : array-like of shape (n_samples,), or str, optional
            The source of each sample, as for :meth:`fit`.
        sample_weight : array-like of shape (n_samples,), or str, optional
            How often each sample counts, as for :meth:`fit`.

        Returns
        -------
        Comparison
            ``gains``, a dictionary: for "offsets" (if there are several sources), "scaling" and "brightness", by how
            much the negative log evidence is lower with it, divided by the number of samples. ``pays``, a tuple: those
            that lower it by a clear margin.

        Examples
        --------
        >>> from dbmd import DBMD
        >>> from sklearn.datasets import load_wine
        >>> DBMD(n_components=3, random_state=0).check(load_wine().data).pays
        ('scaling',)
        """
        model = cast("DBMD", self)
        # Names of features are those of a fit: a check sets nothing.
        with (
            opened(_copy(model), X, source, sample_weight, reset=True) as data,
            progress_log(model.verbose) as log,
        ):
            return check_dataset(model, data, partial(log_phase, log))


def check_dataset(model: DBMD, data: Dataset, on_phase: OnPhase = ignore_phase) -> Comparison:
    """Compare fits of some samples of a dataset; see :meth:`DBMD.check`. ``on_phase`` is told what is done next."""
    config = _config(model)
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    parts, names = config.parts(data.n_sources), data.feature_names
    with data.on(config.engine, config.n_nodes, parts.n_patterns) as engine:
        preparation = find_preparation(
            engine,
            scaling=config.scaling,
            log=config.log,
            missing=config.missing,
            feature_names=names,
            on_phase=on_phase,
        )
        engine = prepared(engine, preparation)
        on_phase("finding means and variances")
        sums = engine.ask(moments)
        check_magnitude(sums, data.dtype)
        on_phase("drawing samples to compare")
        sample = draw_sample(engine.ask, sums, parts.n_patterns, seed)
    known = known_in_scaled_units(config, data.shape[1], names, preparation)
    return compare(sample, config, data.n_sources, seed, known, on_phase)


def _config(model: DBMD) -> Config:
    """Return the parameters of the fits that are compared: a number of components need not be chosen for that."""
    config = Config.of(model)
    if not config.is_auto:
        return config
    return Config.of(model, n_components=getattr(model, "n_components_", max(Config.n_components, config.n_known)))


def _copy(model: DBMD) -> DBMD:
    return type(model)(**model.get_params(deep=False))
