"""Problem (P) of the W-step as the driver knows it, without the statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbmd.model.statistics import Float, PerSource, Quadratic, Summary, gram


@dataclass(frozen=True)
class Problem:
    """min_W sum_i f_i(W) + lam ||W||_1 over the nodes i, f_i(W) = 1/2 <W A_i, W> - <B_i, W>.

    Attributes
    ----------
    lam : float
        Weight of the L1 norm.
    metric : array of shape (r,)
        Step sizes d with diag(d) >= A = sum_i A_i, see :func:`metric`.
    precision : float
        sum_c n_c / sigma_c^2.
    S : float
        Sum over the nodes of their mean precision: the paper's sum_c 1 / sigma_c^2, where a node is a source.
    """

    lam: float
    metric: Float
    precision: float
    S: float

    @classmethod
    def of(cls, per_source: PerSource[Summary], sigma2: Float, lam: float, n_nodes: int) -> Problem:
        """Return the problem, from summaries of all sources after a sweep."""
        A = gram(per_source, sigma2)
        n = sum(s.n for s in per_source.values())
        return cls(lam, metric(A), float(A.sum()), n_nodes * float(A.sum()) / n)

    def share(self, f: Quadratic) -> float:
        """Return the share of a node in the precision, from its term of (P). The shares of all nodes sum to one."""
        return f.precision / self.precision

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
    return np.asarray(d + 1e-3 * d.mean())
