"""The parts of a model: what the columns of the matrix that a fit looks for stand for.

A sample of source c is x = W h + d_c + noise. Components W and offsets d_c are found together, as the columns of one
matrix V = [W, D]: an offset is a component in which every sample of its source has the membership one. Some columns may
be fixed: known components, and with brightness a component of zeros, whose membership is what a sample lacks of the
brightness of the brightest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import namespace
from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics, Summary


@dataclass(frozen=True)
class Parts:
    """The columns of V, in this order: known components, free ones, the dark one, offsets.

    Attributes
    ----------
    n_components : int
        Number of components, r, without the dark one.
    n_known : int
        How many of them are known.
    has_dark : bool
        Whether there is a component of zeros, the dark one: with brightness.
    n_offsets : int
        Number of sources, if they have offsets, else 0.
    nonnegative : bool
        Whether components have no negative entries.
    """

    n_components: int
    n_known: int = 0
    has_dark: bool = False
    n_offsets: int = 0
    nonnegative: bool = False

    @property
    def n_patterns(self) -> int:
        """Number of columns of W: the components and the dark one."""
        return self.n_components + self.has_dark

    @property
    def n_columns(self) -> int:
        """Number of columns of V."""
        return self.n_patterns + self.n_offsets

    @cached_property
    def is_free(self) -> NDArray[np.bool_]:
        """Which columns of V are to be found, shape (n_columns,)."""
        column = np.arange(self.n_columns)
        is_dark = self.has_dark & (column == self.n_components)
        return (column >= self.n_known) & ~is_dark

    @property
    def is_component(self) -> NDArray[np.bool_]:
        """Which columns of V are components, which the prior and the sign are about, shape (n_columns,)."""
        return np.arange(self.n_columns) < self.n_components

    @classmethod
    def plain(cls, V: Float) -> Parts:
        """Return the parts of a model of components only, all of them free: the columns of V, shape (m, r)."""
        return cls(V.shape[1])

    def assemble(self, W: Float, D: Float | None = None) -> Float:
        """Return V, shape (m, n_columns), from components, shape (m, r), and offsets, shape (m, n_sources)."""
        columns = [W]
        if self.has_dark:
            columns.append(np.zeros((len(W), 1)))
        if self.n_offsets:
            columns.append(np.zeros((len(W), self.n_offsets)) if D is None else D)
        return np.hstack(columns) if len(columns) > 1 else W

    def components(self, V: Float) -> Float:
        """Return the components, without the dark one, shape (m, r)."""
        return V[:, : self.n_components]

    def offsets(self, V: Float) -> Float:
        """Return the offsets, shape (m, n_offsets)."""
        return V[:, self.n_patterns :]

    def prior(self, prior: Float) -> Float:
        """Return alpha0 - 1 of all columns of W, shape (n_patterns,), from that of the components, shape (r,)."""
        return np.append(prior, 0.0) if self.has_dark else prior

    def among(self, V: Float, source_codes: NDArray[np.intp]) -> tuple[Parts, Float]:
        """Return parts and V for some of the sources: the offset of source i there is that of source_codes[i] here."""
        if not self.n_offsets:
            return self, V
        offsets = self.offsets(V)[:, source_codes]
        return replace(self, n_offsets=len(source_codes)), np.hstack([self.W(V), offsets])

    def of_free(self, f: Quadratic, V: Float) -> Quadratic:
        """Return (P), or the term of a node, as a function of the free columns, with the others as in V."""
        free = self.is_free
        if free.all():
            return f
        B = f.B[:, free] - V[:, ~free] @ f.A[np.ix_(~free, free)]
        return Quadratic(f.A[np.ix_(free, free)], B)

    def free(self, V: Float) -> Float:
        """Return the free columns of V, shape (m, number of free columns)."""
        return V if self.is_free.all() else V[:, self.is_free]

    def with_free(self, V: Float, free: Float) -> Float:
        """Return V with new free columns, shape (m, number of free columns)."""
        if free.shape[1] == self.n_columns:
            return free
        V = V.copy()
        V[:, self.is_free] = free
        return V

    def lam(self, lam: float) -> Float | float:
        """Return the weight of the L1 norm of each column, shape (n_columns,), or a float: of all."""
        return np.where(self.is_component, lam, 0.0) if self.n_offsets else lam

    @property
    def signs(self) -> NDArray[np.bool_] | None:
        """Which columns have no negative entries, shape (n_columns,); None: all may have some."""
        return self.is_component if self.nonnegative else None

    def bounds_of_free(self, lam: float) -> tuple[Float | float, NDArray[np.bool_] | None]:
        """Return :meth:`lam` and :attr:`signs` of the free columns."""
        free, weights, signs = self.is_free, self.lam(lam), self.signs
        return weights[free] if isinstance(weights, np.ndarray) else weights, None if signs is None else signs[free]

    def summaries(self, stats: PerSource[Statistics], V: Float, origin: Float | None) -> PerSource[Summary]:
        """Return summaries of the sources at V from their statistics about an origin."""
        W = self.W(V)
        return PerSource({c: s.summary(W, origin, self.offset(V, c)) for c, s in stats.items()})

    def W(self, V: Float) -> Float:
        """Return the components, with the dark one last, shape (m, n_patterns)."""
        return V[:, : self.n_patterns]

    def offset(self, V: Float, source_code: int) -> Float | None:
        """Return the offset of a source, shape (m,); None if there are no offsets."""
        return V[:, self.n_patterns + source_code] if self.n_offsets else None

    def norms(self, V: Float) -> Float:
        """Return the Euclidean norms of the components, shape (r,)."""
        return np.asarray(np.linalg.norm(self.components(V), axis=0))

    def brightness(self, Ht: NDArray[Any]) -> NDArray[Any]:
        """Return the brightness of samples, shape (n,), from their memberships, shape (n, n_patterns)."""
        return 1.0 - Ht[:, -1] if self.has_dark else np.ones_like(Ht[:, 0])

    def shares(self, Ht: NDArray[Any], norms: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return memberships without the dark component, shape (n, r), rows that sum to one.

        Parameters
        ----------
        Ht : array of shape (n, n_patterns)
            Memberships.
        norms : array of shape (r,), optional
            Norms of the components, if memberships are to be multiplied by them.
        """
        if not self.has_dark:
            return Ht
        parts = Ht[:, :-1] if norms is None else Ht[:, :-1] * namespace(Ht).asarray(norms, Ht.dtype)
        total = parts.sum(axis=1, keepdims=True)
        is_dark = total <= np.finfo(Ht.dtype).tiny  # a sample without any light may be anything; NaN stays NaN
        equal = Ht.dtype.type(1.0 / self.n_components)
        return np.where(is_dark, equal, parts / np.where(is_dark, Ht.dtype.type(1), total))
