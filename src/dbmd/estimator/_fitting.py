"""Fitting a dataset, and updating a fitted model with a further batch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from dbmd import algorithm, online
from dbmd._utils.phases import OnPhase, ignore_phase
from dbmd.config import Config
from dbmd.data.features import find_preparation
from dbmd.data.preparation import Preparation
from dbmd.dataset import Dataset
from dbmd.estimator._advisor import OF_DATA, Advisor
from dbmd.estimator._checks import number_among
from dbmd.estimator._choice import Choice
from dbmd.estimator._halves import LEAST, agreement_of
from dbmd.estimator._learned import (
    excess_attributes,
    feature_attributes,
    learned_attributes,
    order_by_size,
    set_learned,
)
from dbmd.estimator._new_sources import source_levels
from dbmd.estimator._number import choice_for, config_for, keeps_number
from dbmd.estimator._units import (
    change_of_scale,
    in_scaled_units,
    known_in_scaled_units,
    noise_unit,
    unit_attributes,
)
from dbmd.estimator.fitted import FittedArrays, config_of_fitted, prepared
from dbmd.model.parts import Parts
from dbmd.model.past import PastStatistics
from dbmd.model.result import Result, State
from dbmd.model.statistics import Float
from dbmd.protocols import Engine
from dbmd.sweep import own_labels

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD


def fit_dataset(
    model: DBMD,
    data: Dataset,
    resume: State | None,
    on_iteration: Callable[[State], object],
    on_preparation: Callable[[Preparation | None], object] = lambda preparation: None,
    on_phase: OnPhase = ignore_phase,
    choice: Choice | None = None,
) -> None:
    """Fit a dataset, and set what was learned on the model; see :meth:`DBMD.fit_data`.

    ``on_preparation`` is called once with how the data are scaled, None if they are not, and ``on_phase`` with what is
    done next. ``choice`` says how the number of components was chosen, if that was done before.
    """
    if choice is None or model.n_components != "auto":
        choice = choice_for(model, data, on_phase)
    config = config_for(model, choice)
    n, m = data.shape
    if config.r > n:
        raise ValueError(
            f"The 'n_components' parameter of DBMD must be at most the number of samples. "
            f"Got n_components={config.r} with n_samples = {n}."
        )
    if config.halves and n // 2 < LEAST * config.r:
        raise ValueError(
            f"The 'halves' parameter of DBMD must be False for so few samples: two halves need {LEAST} for each of "
            f"{config.r} components, {2 * LEAST * config.r} in all. Got n_samples = {n}."
        )
    clock = time.perf_counter()
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    parts = config.parts(data.n_sources)
    config.known_components(m, data.feature_names)  # what is wrong with them is said before the data are read
    with data.on(config.engine, config.n_nodes, parts.n_patterns) as given:
        preparation = find_preparation(
            given,
            scaling=config.scaling,
            log=config.log,
            missing=config.missing,
            feature_names=data.feature_names,
            on_phase=on_phase,
        )
        on_preparation(preparation)
        engine, advisor = prepared(given, preparation), Advisor(config, data, preparation)
        config, start = _start(model, data, config, preparation)
        result = algorithm.fit(
            engine,
            config,
            n_sources=data.n_sources,
            n_features=m,
            dtype=data.dtype,
            seed=seed,
            n_classes=_n_classes(data),
            known=known_in_scaled_units(config, m, data.feature_names, preparation),
            start=start,
            resume=resume,
            on_iteration=on_iteration,
            on_sample=advisor.look_at,
            on_phase=on_phase,
        )
        advisor.look_at_what_was_drawn(engine, resume, seed)
        advisor.look_at_rows_as_given(given, seed)
        is_numbered_by_size = isinstance(config.init, str) and np.ndim(config.alpha) == 0
        order = order_by_size(result, n, parts.n_known) if is_numbered_by_size else np.arange(config.r)
        labels = _labels(engine, data, order, parts, result.W if config.shares == "energy" else None)
    before = sum(record.seconds for record in resume.history) if resume is not None else 0.0
    set_learned(
        model,
        feature_attributes(data)
        | {"n_steps_": 1, "n_samples_seen_": n, "agreement_": None}
        | excess_attributes(None if result.evidence is None else np.array(result.evidence.excess), result.sigma2, m)
        | learned_attributes(
            result,
            data,
            unit=noise_unit(config),
            source_names=data.model_sources,
            order=order,
            labels=labels,
            seconds=time.perf_counter() - clock + before,
            seed=_seed(model),
        )
        | unit_attributes(
            result,
            config,
            preparation,
            order=order,
            dtype=data.dtype,
            feature_names=data.feature_names,
        ),
    )
    if not keeps_number(model):
        set_learned(model, {"choice_": choice})
    _warn_if_unconverged(result, config)
    advisor.advise(model, result)
    if config.halves:
        on_phase("fitting two halves of the data")
        set_learned(model, {"agreement_": agreement_of(model, data)})


def update(model: DBMD, data: Dataset) -> None:
    """Update a fitted model with a further batch; see :meth:`DBMD.partial_fit`."""
    clock, config = time.perf_counter(), config_of_fitted(model)
    r, m = model.components_.shape
    if model.n_components not in (r, "auto"):
        raise ValueError(
            f"The 'n_components' parameter of DBMD must not change between batches: the model has {r}. "
            f"Got {model.n_components}."
        )
    fitted = FittedArrays.of(model)
    source_names, codes = number_among(model.sources_, data.source_names)
    levels = source_levels(fitted, data)
    sigma2 = np.resize(model.noise_variance_, len(source_names))
    sigma2[codes] = levels.sigma2
    parts, offsets = fitted.parts_for(len(source_names)), None
    if fitted.offsets is not None:
        offsets = np.zeros((m, len(source_names)))
        offsets[:, : len(fitted.offsets)] = fitted.offsets.T
        offsets[:, codes] = levels.parts.offsets(levels.V)
    with fitted.engine_for(data) as engine:
        result = online.update(
            engine,
            config,
            getattr(model, "_past", PastStatistics.of_nothing(m)),
            parts.assemble(fitted.W, offsets),
            sigma2,
            fitted.evidence_for(data),
            fitted.offset_variance if fitted.offsets is not None else None,
            numbers=codes,
            n_classes=_n_classes(data),
            dtype=data.dtype,
        )
        labels = _labels(engine, data, np.arange(r), parts, result.W if config.shares == "energy" else None)
    noise_excess, told = None, model.fit_info_.get("warnings", [])
    if result.evidence is not None:
        noise_excess = np.resize(model.noise_excess_, len(source_names))
        noise_excess[codes] = result.evidence.excess
    set_learned(
        model,
        {"n_steps_": model.n_steps_ + 1, "n_samples_seen_": model.n_samples_seen_ + data.shape[0], "agreement_": None}
        | excess_attributes(noise_excess, result.sigma2, m)
        | learned_attributes(
            result,
            data,
            unit=noise_unit(config),
            source_names=source_names,
            order=np.arange(r),
            labels=labels,
            seconds=time.perf_counter() - clock,
            seed=_seed(model),
        )
        | unit_attributes(
            result,
            config,
            fitted.preparation,
            order=np.arange(r),
            dtype=data.dtype,
            feature_names=getattr(model, "feature_names_in_", None),
        ),
    )
    # What the data of the first batch asked for, this one asks for, too. Small clusters are normal in a batch.
    model.fit_info_["warnings"] = [each for each in told if each["kind"] in OF_DATA]


def _n_classes(data: Dataset) -> int:
    return 0 if data.class_names is None else len(data.class_names)


def _labels(
    engine: Engine, data: Dataset, order: NDArray[np.intp], parts: Parts, W: Float | None
) -> NDArray[np.intp] | None:
    """Return the cluster of each sample by the last sweep, shape (n,), if its memberships were kept here.

    Clusters are numbered in an order, shape (r,). Memberships are multiplied by the norms of the components if W,
    shape (m, r), is given.
    """
    if not (data.returns_labels and data.keeps_rows(parts.n_patterns)):
        return None
    norms = None if W is None else parts.norms(W)
    return engine.ask(partial(own_labels, numbers=np.argsort(order), parts=parts, norms=norms)).values


def _start(
    model: DBMD, data: Dataset, config: Config, preparation: Preparation | None
) -> tuple[Config, tuple[Float, Float, Float | None] | None]:
    """Return the parameters, with components to start from in the units of the scaled data, and the start if warm."""
    m = data.shape[1]
    if model.warm_start and hasattr(model, "components_"):
        factor = change_of_scale(model, preparation)
        config = replace(config, init=model.scaled_components_.astype(np.float64) * factor)
        W = config.start(m)
        if W is not None and np.array_equal(data.model_sources, model.sources_):
            offsets = getattr(model, "_scaled_offsets", None)
            D = (offsets * factor).T if config.offsets and offsets is not None else None
            return config, (W, model.noise_variance_, D)
    elif preparation is not None:
        W = config.start(m)
        if W is not None:
            config = replace(config, init=in_scaled_units(W.T, preparation))
    return config, None


def _seed(model: DBMD) -> int | None:
    return int(model.random_state) if isinstance(model.random_state, int | np.integer) else None


def _warn_if_unconverged(result: Result, config: Config) -> None:
    n_iter = len(result.history)
    if not result.converged and n_iter == config.max_iter:
        warnings.warn(
            f"DBMD did not converge in {config.max_iter} iterations (tol={config.tol}). Raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
    slow = [record for record in result.history if not record.w_converged]
    if slow:
        warnings.warn(
            f"The solver {config.solver!r} did not converge in {slow[-1].rounds} rounds in {len(slow)} of "
            f"{n_iter} iterations (last change {slow[-1].w_change:.1e}). "
            "Raise max_rounds or tol in solver_options, or take the solver 'exact'.",
            ConvergenceWarning,
            stacklevel=4,
        )
