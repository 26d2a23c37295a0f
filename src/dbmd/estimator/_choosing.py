"""How many components: the largest number that two halves of the data agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from dbmd.config import Config
from dbmd.dataset import Dataset
from dbmd.estimator._halves import agreement, check_enough, default_samples, draw, fit_half, quiet, side_by_side
from dbmd.estimator._opening import opened

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD

Float = NDArray[np.float64]
OnStep = Callable[[int, int], object]
SPLITS = 3
LIMIT = 0.95


@dataclass(frozen=True, eq=False)
class Choice:
    """How many components to take, and why; :func:`dbmd.choose_components` returns it.

    Attributes
    ----------
    n_components : int
        The number that is proposed: the largest whose components are all found by either half of the data. If there is
        none, the smallest that was tried.
    is_stable : bool
        Whether there is such a number.
    tried : tuple of int
        The numbers that were tried, in rising order.
    agreement : tuple of arrays of shape (n_splits, r)
        For each number, and each way to split the data, the correlations between the memberships by either half in
        the r matched components, in falling order. Rows of NaN: this split was not needed.
    explained : array of shape (n_tried,)
        The fraction of the variance that fits of a half explain, on average.
    limit : float
        Components with at least this correlation agree.
    n_samples : int
        Number of samples that were drawn.
    """

    n_components: int
    is_stable: bool
    tried: tuple[int, ...]
    agreement: tuple[Float, ...]
    explained: Float
    limit: float
    n_samples: int

    @property
    def worst(self) -> Float:
        """The correlation of the worst pair, shape (n_tried, n_splits)."""
        return np.array([each[:, -1] for each in self.agreement])

    @property
    def mean(self) -> Float:
        """The mean correlation of the pairs, shape (n_tried, n_splits)."""
        return np.array([each.mean(axis=1) for each in self.agreement])

    @property
    def sentence(self) -> str:
        """One sentence that says what it means."""
        return f"Two halves of the data agree on {self.n_components} patterns."

    def asdict(self) -> dict[str, Any]:
        """Return all of it as numbers, text and lists, which JSON can hold; None where a split was not needed."""
        return {
            "n_components": self.n_components,
            "is_stable": self.is_stable,
            "tried": list(self.tried),
            "agreement": [_listed(each) for each in self.agreement],
            "worst": _listed(self.worst),
            "mean": _listed(self.mean),
            "explained": _listed(self.explained),
            "limit": self.limit,
            "n_samples": self.n_samples,
            "sentence": self.sentence,
        }


def _listed(values: Float) -> Any:
    """Return an array as nested lists, with None for NaN."""
    return np.where(np.isnan(values), np.array(None), values).tolist()


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
        In how many ways the data are split into halves.
    n_samples : int, optional
        How many samples to draw at most; by default 6,000, or 200 for each component if that is more.
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
    config = Config.of(model, n_components=tried[-1])
    rows = draw(model, data, n_samples or default_samples(tried[-1]), seed)
    check_enough(rows, config)
    found = [np.full((n_splits, r), np.nan) for r in tried]
    explained = np.zeros(len(tried))
    splits = [rows.split(seed + 1 + s) for s in range(n_splits)]
    steps = [(s, i) for s in range(n_splits) for i in range(len(tried))]
    with quiet(), side_by_side(2 * len(steps)) as pool:
        fits = {
            (s, i): [
                pool.submit(fit_half, model, rows, chosen, tried[i], seed + 1000 * (2 * s + half))
                for half, chosen in enumerate(splits[s])
            ]
            for s, i in steps
        }
        for s, i in steps:
            first, second = (each.result() for each in fits.pop((s, i)))
            both = agreement(first.memberships, second.memberships, rows.weights, config.n_known)
            found[i][s] = np.sort(both)[::-1]
            explained[i] += (first.explained + second.explained) / (2 * n_splits)
            on_step(tried[i], s)
    typical = np.array([np.median(each[:, -1]) for each in found])
    stable = np.flatnonzero(typical >= LIMIT)
    best = int(stable[-1]) if len(stable) else 0
    return Choice(tried[best], bool(len(stable)), tuple(tried), tuple(found), explained, LIMIT, rows.n)
