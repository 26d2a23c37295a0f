"""What governs the rates: the curvature of the terms of the nodes, and the contraction factors that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dbmd.model.statistics import Float


@dataclass(frozen=True)
class Curvature:
    """Curvature of the terms of nodes with the same number of samples and the same noise: A_c = H_c H_c' / sigma^2.

    Attributes
    ----------
    mu, L : float
        The extreme eigenvalues of the mean of the A_c.
    least : float
        The smallest eigenvalue of any A_c.
    delta : float
        max_c ||mean - A_c||_2, how far from alike the nodes are. The mean, where the paper has the sum
        (docs/paper.md, point 13).
    """

    mu: float
    L: float
    least: float
    delta: float

    @classmethod
    def of(cls, A: Sequence[Float]) -> Curvature:
        """Take it from the A_c, each of shape (r, r)."""
        mean = np.mean(A, axis=0)
        values = np.linalg.eigvalsh(mean)
        least = min(float(np.linalg.eigvalsh(A_c)[0]) for A_c in A)
        delta = max(float(np.linalg.norm(mean - A_c, 2)) for A_c in A)
        return cls(float(values[0]), float(values[-1]), least, delta)

    @property
    def kappa(self) -> float:
        """The condition number of the whole."""
        return self.L / self.mu

    @property
    def best_rho(self) -> float:
        """The penalty with which ADMM is fastest in the long run."""
        return float(np.sqrt(self.mu * self.L))

    def cease(self, gamma: float) -> float:
        """Return tau_3, by which each round of CEASE shrinks ||W - W*|| at least (Theorem 2; docs/paper.md, point 13).

        gamma is on the scale of A_c, and held fast. From 1 on, it says nothing. A node is curved by ``least`` at least,
        which may be less than mu: with mu in both places the theorem would promise too much.
        """
        mu = self.mu
        apart = self.delta / (self.least + gamma)
        return float((apart * np.sqrt(mu**2 + 2.0 * gamma * mu) + gamma) / (mu + gamma))

    def admm(self, rho: float) -> float:
        """Return the factor that ADMM's slowest part shrinks by where the nodes are alike and lam = 0.

        With A_c = A the mean of the duals is zero, and the round falls apart into two. What the nodes have in common
        moves as W - W* = (W - W*) rho (A + rho)^-1: a large penalty holds it back. What they differ in moves as
        U_c = U_c A (A + rho)^-1: a small penalty leaves it alone. The slower of both is fastest with rho = sqrt(mu L).
        """
        return max(rho / (rho + self.mu), self.L / (self.L + rho))
