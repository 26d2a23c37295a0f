"""Fits of two halves of the data, and whether they found the same components.

Some samples are drawn to this process as they are, of every source. Each half of them is fitted by an estimator of its
own, with its own preparation; both then give the memberships of all drawn samples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from dbmd._utils.threads import one_thread
from dbmd.config import Config
from dbmd.data.preparation import Preparation
from dbmd.data.weights import NOTHING_LEFT
from dbmd.dataset import Dataset, InMemory, in_memory
from dbmd.engines.local import available_threads
from dbmd.errors import DataError
from dbmd.estimator._memberships import memberships_of
from dbmd.estimator.fitted import FittedArrays
from dbmd.model.agreement import correlations, matched
from dbmd.model.draw import EvenChances, draw_fraction, moments
from dbmd.model.statistics import Float

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD

FRACTION, LEAST_DRAWN, MOST_DRAWN = 0.25, 4_000, 10_000  # how many samples are drawn by default
EACH = 150  # and at least so many for each component
NUMBERS = 24_000_000  # largest number of entries that are drawn; zeros of sparse samples do not count
EACH_SOURCE = 100  # least number of samples of a source, if it has so many
LEAST = 2  # samples of a half for each component
MOST_THREADS = 8  # each fit has copies of its samples


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples that were drawn to this process, as they are, in the order of their rows.

    Attributes
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples, not scaled; NaN where an entry is missing.
    source_codes : array of int of shape (n,)
        Their sources.
    weights : array of shape (n,), optional
        For how many samples each stands; None: all for one.
    data : Dataset
        What they were drawn from.
    """

    Xt: Any
    source_codes: NDArray[np.intp]
    weights: Float | None
    data: Dataset

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.source_codes)

    def dataset(self, chosen: NDArray[np.intp] | None = None) -> InMemory:
        """Return all samples, or those with the given numbers, as a dataset of the sources that they have."""
        take: Any = slice(None) if chosen is None else chosen
        names, codes = self.data.source_names, self.source_codes[take]
        if names is not None:
            present, codes = np.unique(codes, return_inverse=True)
            names = names[present]
        return in_memory(
            self.Xt[take],
            names,
            codes.astype(np.intp) if names is not None and len(names) > 1 else 0,
            self.data.feature_names,
            None if self.weights is None else self.weights[take],
            self.data.missing,
        )

    def split(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the numbers of the samples of two halves, each with half of the samples of every source."""
        rng = np.random.default_rng(seed)
        in_first = np.zeros(self.n, bool)
        more_in_first = True
        for source_code in np.unique(self.source_codes):
            own = rng.permutation(np.flatnonzero(self.source_codes == source_code))
            half = (len(own) + more_in_first) // 2
            more_in_first ^= bool(len(own) % 2)  # sources of odd size favour either half in turn
            in_first[own[:half]] = True
        return np.flatnonzero(in_first), np.flatnonzero(~in_first)


def draw(model: DBMD, data: Dataset, most: int, seed: int) -> Rows:
    """Draw about so many samples of a dataset, of every source in proportion, but not too few.

    It takes two light passes, and only the drawn samples are sent. The same seed draws the same samples, however the
    data are divided into nodes.

    Parameters
    ----------
    model : DBMD
        Its engine, and what it does with missing values.
    data : Dataset
        The samples.
    most, seed : int
        Samples to draw, seed of the draw.

    Returns
    -------
    Rows
    """
    with data.on(model.engine, model.n_nodes, 1) as given:
        engine = Preparation(drops=True).around(given) if model.missing == "drop" else given
        with np.errstate(invalid="ignore"):  # of missing entries
            known = engine.ask(moments)
        n, stored = sum(each.rows for each in known.values()), sum(each.stored for each in known.values())
        if not n:
            raise DataError(NOTHING_LEFT)
        fraction = min(most, NUMBERS * n / max(stored, 1)) / n
        chances = EvenChances.of(known, fraction if fraction <= 0.8 else 1.0, EACH_SOURCE)
        Xt, source_codes, weights = engine.ask(partial(draw_fraction, seed=seed, chances=chances)).in_order()
    weights = weights * (n / sum(each.n for each in known.values()) * min(fraction, 1.0))
    is_weighted = bool(np.ptp(weights) > 1e-9 * weights.max())
    return Rows(Xt, source_codes.astype(np.intp), weights if is_weighted else None, data)


def check_enough(rows: Rows, config: Config) -> None:
    """Raise a DataError if the halves of drawn samples are too few to be fitted."""
    half = rows.n // 2
    if half < LEAST * config.r:
        raise DataError(
            f"Two halves of the data cannot be compared for {config.r} components: each must have at least "
            f"{LEAST * config.r} samples, {LEAST} for each component. Got {half}: lower n_components to at "
            f"most {half // LEAST}."
        )
    if config.offsets and (np.unique(rows.source_codes, return_counts=True)[1] >= 2).sum() < 2:
        raise DataError(
            "Two halves of the data cannot be compared with offsets: at least two sources must have samples in both "
            "halves, two each. Leave out offsets, or the sources with one sample."
        )


@dataclass(frozen=True, eq=False)
class Half:
    """What the fit of a half found.

    Attributes
    ----------
    memberships : array of shape (n, r)
        Of all drawn samples; NaN for those that are left out.
    explained : float
        Fraction of the variance of the half that is explained.
    """

    memberships: NDArray[Any]
    explained: float


def fit_half(
    model: DBMD, rows: Rows, chosen: NDArray[np.intp], n_components: int, seed: int, least_tol: float = 0.0
) -> Half:
    """Return what a fit of some of the drawn samples says about all of them.

    Parameters
    ----------
    model : DBMD
        Its parameters are those of the fit, but for the ones that only say where and how it is computed.
    rows : Rows
        The drawn samples.
    chosen : array of int
        The numbers of those that are fitted.
    n_components, seed : int
        Components, seed of the start.
    least_tol : float
        How near to its limit W has to come, if the parameter asks for more.
    """
    own = type(model)(**model.get_params(deep=False))
    # One node: the fits run side by side, and the result does not depend on the machine.
    own.set_params(
        n_components=n_components,
        random_state=seed,
        engine="local",
        n_nodes=1,
        warm_start=False,
        verbose=0,
        halves=False,
        tol=max(model.tol, least_tol) if model.inference == "evidence" else model.tol,
    )
    own.fit_data(rows.dataset(chosen))
    return Half(memberships_of(FittedArrays.of(own), rows.dataset())[0], own.fit_info_["explained"])


def agreement(first: NDArray[Any], second: NDArray[Any], weights: Float | None, n_known: int) -> Float:
    """Return the correlation of each component of a fit with its partner in another, shape (r,).

    Known components, and one that is alone, agree by definition: 1.
    """
    found = matched(first, second, weights, n_known=n_known)[1]
    return _where_found(found, n_known)


def _where_found(correlation: Float, n_known: int) -> Float:
    found = correlation.copy()
    found[: len(found) if len(found) == 1 else n_known] = 1.0
    return found


def agreement_of(model: DBMD, data: Dataset, *, n_samples: int | None = None) -> Float:
    """Return how well two halves of the data agree on each component of a fitted model.

    Parameters
    ----------
    model : DBMD
        Fitted to the data.
    data : Dataset
        The data.
    n_samples : int, optional
        How many samples to draw at most; by default as for :func:`dbmd.choose_components`.

    Returns
    -------
    array of shape (r,)
        For each component of the model, the correlation between the memberships by either half in the component that
        was matched with it. 1 for known components.
    """
    config, r = Config.of(model, n_components=len(model.components_), halves=False), len(model.components_)
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    rows = draw(model, data, n_samples or default_samples(r, data.shape[0]), seed)
    check_enough(rows, config)
    full = memberships_of(FittedArrays.of(model), rows.dataset())[0]
    with quiet(), side_by_side(2) as pool:
        tasks = enumerate(rows.split(seed + 1))
        fits = [pool.submit(fit_half, model, rows, chosen, r, seed + 2 + i) for i, chosen in tasks]
        halves = [each.result().memberships for each in fits]
    n_known = config.n_known
    first, second = (H[:, matched(full, H, rows.weights, n_known=n_known)[0]] for H in halves)
    return _where_found(np.diagonal(correlations(first, second, rows.weights)), n_known)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings, and let fits run side by side.

    Neither filters of warnings nor limits of threads belong to a thread: set here, they are right for all fits inside,
    and right again afterwards, in whatever order these end.
    """
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def side_by_side(n_tasks: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads. If something fails, what has not begun never begins."""
    pool = ThreadPoolExecutor(min(available_threads(), n_tasks, MOST_THREADS), thread_name_prefix="dbmd-half")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def default_samples(r: int, n: int) -> int:
    """Return how many of n samples are drawn for r components."""
    return int(max(np.clip(FRACTION * n, LEAST_DRAWN, MOST_DRAWN), EACH * r))
