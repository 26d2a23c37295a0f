"""The W-problem (P) as the centre knows it, without the statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dbmd.model.statistics import Float, PerSource, Quadratic, Summary


@dataclass(frozen=True)
class Problem:
    """min_W sum_i f_i(W) + lam ||W||_1 over the nodes i, f_i(W) = 1/2 <W A_i, W> - <B_i, W>.

    Attributes
    ----------
    lam : float
        Weight of the L1 norm.
    sizes : array of shape (r,)
        Sizes of the clusters weighted by precision, sum_c sum_j h_kj / sigma_c^2.
    S : float
        Sum over the nodes of their mean precision: the paper's sum_c 1 / sigma_c^2, where a node is a source.
    """

    lam: float
    sizes: Float
    S: float

    @classmethod
    def of(cls, per_source: PerSource[Summary], sigma2: Float, lam: float, n_nodes: int) -> Problem:
        """Form the problem from what the nodes said after a sweep."""
        sizes = np.sum([s.sizes / sigma2[c] for c, s in per_source.items()], axis=0)
        n = sum(s.n for s in per_source.values())
        return cls(lam, sizes, n_nodes * float(sizes.sum()) / n)

    @property
    def metric(self) -> Float:
        """Step sizes d, shape (r,), with diag(d) >= sum_i A_i.

        The columns of H sum to one, so A 1 = H 1 are the sizes of the clusters, and by Jensen's inequality
        x'H H'x = sum_j (sum_k h_kj x_k)^2 <= sum_jk h_kj x_k^2. So a step of 1 / d_k in component k is safe, and a
        small cluster is not held to the pace of a large one, as it would be by 1 / lambda_max(A). An empty
        component gets a thousandth of the mean, to stay above zero.
        """
        return metric(self.sizes)

    def share(self, f: Quadratic) -> float:
        """Return which part of the precision a node has; the shares of all nodes sum to one."""
        return f.precision / float(self.sizes.sum())

    def change(self, W: Float, before: Float) -> float:
        """Return ||W - before|| / ||W||, columns weighted by the sizes of their clusters."""
        size = float(np.sqrt((W**2 * self.metric).sum()))
        moved = float(np.sqrt(((W - before) ** 2 * self.metric).sum()))
        return moved / size if size > 0.0 else moved


def metric(sizes: Float) -> Float:
    """Return the step sizes for weighted cluster sizes, see :attr:`Problem.metric`."""
    return sizes + 1e-3 * sizes.mean()
