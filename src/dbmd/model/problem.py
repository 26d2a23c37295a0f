"""Problem (P) of the W-step as the driver knows it, without the statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbmd.model.penalty import Lam, Penalty
from dbmd.model.statistics import Float, PerSource, Quadratic, Summary, gram


@dataclass(frozen=True)
class Problem:
    """min_W sum_i f_i(W) + lam ||W||_1 over the nodes i, f_i(W) = 1/2 <W A_i, W> - <B_i, W>.

    Each column of W may have a weight of its own in the L1 norm, and some may have to be nonnegative. The columns need
    not be components: (P) knows of columns only.

    Attributes
    ----------
    lam : float or array of shape (r,)
        Weight of the L1 norm of each column, or of all.
    metric : array of shape (r,)
        Step sizes d with diag(d) >= A = sum_i A_i, see :func:`metric`.
    precision : float
        Sum of the entries of A: sum_c n_c / sigma_c^2, where the columns are all components.
    S : float
        Sum over the nodes of their mean precision: the paper's sum_c 1 / sigma_c^2, where a node is a source.
    n_nodes : int
        Number of nodes.
    nonnegative : array of bool of shape (r,), optional
        Columns of W without negative entries; by default none.
    """

    lam: Lam
    metric: Float
    precision: float
    S: float
    n_nodes: int = 1
    nonnegative: NDArray[np.bool_] | None = None

    @classmethod
    def of(
        cls,
        per_source: PerSource[Summary],
        sigma2: Float,
        lam: Lam,
        n_nodes: int,
        *,
        nonnegative: NDArray[np.bool_] | None = None,
    ) -> Problem:
        """Return the problem, from summaries of all sources after a sweep."""
        n = sum(s.n for s in per_source.values())
        return cls.of_gram(gram(per_source, sigma2), n, lam, n_nodes, nonnegative=nonnegative)

    @classmethod
    def of_gram(
        cls, A: Float, n: float, lam: Lam, n_nodes: int, *, nonnegative: NDArray[np.bool_] | None = None
    ) -> Problem:
        """Return the problem, from its curvature.

        Parameters
        ----------
        A : array of shape (r, r)
            sum_i A_i, for the columns that are to be found.
        n : float
            Number of samples.
        lam : float or array of shape (r,)
            Weight of the L1 norm.
        n_nodes : int
            Number of nodes.
        nonnegative : array of bool of shape (r,), optional
            Columns without negative entries.
        """
        precision = float(A.sum())
        return cls(lam, metric(A), precision, n_nodes * precision / n if n else 0.0, n_nodes, nonnegative)

    @property
    def penalty(self) -> Penalty:
        """The part of the problem that is not smooth."""
        return Penalty(self.lam, self.nonnegative)

    def share(self, f: Quadratic) -> float:
        """Return the share of a node in the precision, from its term of (P). The shares of all nodes sum to one."""
        if not self.precision > 0.0:  # no sample has a membership in any of the columns
            return 1.0 / self.n_nodes
        return max(0.0, f.precision / self.precision)

    def change(self, W: Float, before: Float) -> float:
        """Return ||W - before|| / ||W|| with columns weighted by the sizes of their clusters."""
        size = float(np.sqrt((W**2 * self.metric).sum()))
        moved = float(np.sqrt(((W - before) ** 2 * self.metric).sum()))
        return moved / size if size > 0.0 else moved


def metric(A: Float) -> Float:
    """Return step sizes d, shape (r,), with diag(d) >= A: the sums of the absolute entries of its rows.

    The columns of H sum to one, so for A = H H' these are the sizes of the clusters. A step of 1 / d_k in component k
    is safe (Gershgorin), and longer for a small cluster than the common step 1 / lambda_max(A). A thousandth of the
    mean is added, so that d_k of an empty component is positive.
    """
    d = np.abs(A).sum(axis=1)
    return np.asarray(d + 1e-3 * d.mean()) if d.any() else np.ones_like(d)
