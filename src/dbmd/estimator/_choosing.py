"""How many components: the largest number that two halves of the data agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from dbmd.config import Config
from dbmd.dataset import Dataset
from dbmd.estimator._choice import Choice
from dbmd.estimator._halves import agreement, check_enough, default_samples, draw, fit_half, quiet, side_by_side
from dbmd.estimator._opening import opened
from dbmd.model.stability import largest_stable, limit_of, worth_another_split

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD

Float = NDArray[np.float64]
OnStep = Callable[[int, int], object]
SPLITS = 3
TOL = 1e-2  # of the fits of halves: what is nearer to its limit does not change the correlations


def choose_components(
    X: Any,
    n_components: Iterable[int] = range(2, 13),
    *,
    source: ArrayLike | None = None,
    random_state: Any = None,
    sample_weight: ArrayLike | None = None,
    n_splits: int = SPLITS,
    n_samples: int | None = None,
    on_step: OnStep = lambda r, split: None,
    **params: Any,
) -> Choice:
    """Find how many components to take: the largest number that two halves of the data agree on.

    For each number, both halves of the data are fitted. Where there are so many components in the data, both fits find
    the same ones, and the memberships of the same samples correlate; a component too many is another one in each half.
    Of large data, some thousand samples are drawn, of every source, so that it takes a few times as long as a fit.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features); or anything that :func:`dbmd.open_data` takes
        The samples.
    n_components : iterable of int, default=range(2, 13)
        The numbers to try. Only a number below the largest can be told from one that is too small.
    source : array-like of shape (n_samples,), or str, optional
        The source of each sample, as for :meth:`DBMD.fit`.
    random_state : int, RandomState instance or None
        Seed of the draws: the same seed gives the same result.
    sample_weight : array-like of shape (n_samples,), or str, optional
        How often each sample counts, as for :meth:`DBMD.fit`.
    n_splits : int, default=3
        In how many ways the data are split into halves. All are made for the number that is proposed and the one above
        it, and one where that is enough to see that the halves differ.
    n_samples : int, optional
        How many samples to draw at most; by default a quarter of them, but 4,000 to 10,000, and at least 150 for each
        component.
    on_step : callable
        Called with r and the number of the split after both halves were fitted.
    **params
        Parameters of :class:`DBMD`, such as ``scaling`` and ``brightness``.

    Returns
    -------
    Choice
        ``n_components``, and the curve that it was found from.

    Examples
    --------
    >>> import numpy as np
    >>> from dbmd import choose_components
    >>> rng = np.random.default_rng(0)
    >>> X = rng.dirichlet([0.3] * 3, 400) @ rng.random((3, 10)) + 0.05 * rng.normal(size=(400, 10))
    >>> choose_components(X, range(2, 6), random_state=0).n_components
    3
    """
    from dbmd.estimator._dbmd import DBMD

    tried = numbers_to_try(n_components)
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    model = DBMD(tried[-1], random_state=seed, **params)
    with opened(model, X, source, sample_weight, reset=True) as data:
        return choose(model, data, tried, seed=seed, n_splits=n_splits, n_samples=n_samples, on_step=on_step)


def numbers_to_try(n_components: Any) -> tuple[int, ...]:
    """Return numbers of components in rising order, each once; raises if they are none."""
    try:
        tried: list[Any] = sorted({*n_components})
    except TypeError:
        tried = []
    if not tried or not all(_is_count(r) for r in tried):
        raise ValueError(
            "n_components must be the numbers of components to try, ints >= 1 such as range(2, 13). "
            f"Got {n_components!r}."
        )
    return tuple(int(r) for r in tried)


def _is_count(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 1


def choose(
    model: DBMD,
    data: Dataset,
    tried: Sequence[int],
    *,
    seed: int,
    n_splits: int = SPLITS,
    n_samples: int | None = None,
    on_step: OnStep = lambda r, split: None,
) -> Choice:
    """Find how many components to take for a dataset; see :func:`choose_components`.

    Parameters
    ----------
    model : DBMD
        Its parameters are those of the fits, but for ``n_components``; it is not changed.
    data : Dataset
        The samples.
    tried : sequence of int
        The numbers to try, in rising order.
    seed, n_splits, n_samples, on_step
        See :func:`choose_components`.
    """
    if not _is_count(n_splits):
        raise ValueError(f"n_splits must be an int >= 1. Got {n_splits!r}.")
    if n_samples is not None and not _is_count(n_samples):
        raise ValueError(f"n_samples must be an int >= 1, or None. Got {n_samples!r}.")
    if not isinstance(model.init, str):
        raise ValueError("init must be the name of a start, not an array, whose rows are for one n_components only.")
    config = Config.of(model, n_components=tried[-1])
    rows = draw(model, data, n_samples or default_samples(tried[-1], data.shape[0]), seed)
    check_enough(rows, config)
    splits = [rows.split(seed + 1 + s) for s in range(n_splits)]
    found = [np.full((n_splits, r), np.nan) for r in tried]
    explained = np.full((len(tried), n_splits), np.nan)

    def step(i: int, s: int) -> tuple[Float, float]:
        seeds = seed + 2000 * s, seed + 2000 * s + 1000
        first, second = (
            fit_half(model, rows, chosen, tried[i], own, least_tol=TOL)
            for chosen, own in zip(splits[s], seeds, strict=True)
        )
        both = agreement(first.memberships, second.memberships, rows.weights, config.n_known)
        return both, (first.explained + second.explained) / 2

    wanted = [(i, 0) for i in range(len(tried))]
    with quiet(), side_by_side(len(wanted)) as pool:
        while wanted:
            for (i, s), (both, part) in zip(wanted, pool.map(lambda each: step(*each), wanted), strict=True):
                found[i][s], explained[i, s] = np.sort(both)[::-1], part
                on_step(tried[i], s)
            worst = np.array([each[:, -1] for each in found])
            wanted = [(i, s) for i in worth_another_split(worst) for s in np.flatnonzero(np.isnan(worst[i])).tolist()]
    best = largest_stable(worst)
    return Choice(
        tried[best or 0],
        best is not None,
        tuple(tried),
        tuple(found),
        np.nanmean(explained, axis=1),
        limit_of(worst),
        rows.n,
    )
