"""What (P) asks of W beside the fit to the samples: few large entries, and in some columns no negative ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.statistics import Float

Lam = float | Float


def soft(W: Float, threshold: Float | float) -> Float:
    """Return sign(W) max(|W| - threshold, 0): soft thresholding."""
    return np.sign(W) * np.maximum(np.abs(W) - threshold, 0.0)


@dataclass(frozen=True)
class Penalty:
    """sum_k lam_k ||w_k||_1 over the columns of W, and w_k >= 0 for some of them.

    Attributes
    ----------
    lam : float or array of shape (r,)
        Weight of the L1 norm of each column, or of all.
    nonnegative : array of bool of shape (r,), optional
        Columns without negative entries; by default none.
    """

    lam: Lam
    nonnegative: NDArray[np.bool_] | None = None

    @property
    def is_nil(self) -> bool:
        """Whether every W is as good as any other."""
        return not np.any(self.lam) and (self.nonnegative is None or not self.nonnegative.any())

    def is_free(self, r: int) -> NDArray[np.bool_]:
        """Return which of r columns may have any entries at no cost, shape (r,)."""
        free = np.broadcast_to(np.asarray(self.lam) == 0.0, r)
        return free if self.nonnegative is None else free & ~self.nonnegative

    def of(self, columns: NDArray[np.bool_]) -> Penalty:
        """Return the penalty of some columns, an array of bool of shape (r,)."""
        lam = self.lam if np.ndim(self.lam) == 0 else np.asarray(self.lam)[columns]
        return Penalty(lam, None if self.nonnegative is None else self.nonnegative[columns])

    def value(self, W: Float) -> float:
        """Return sum_k lam_k ||w_k||_1; W, shape (m, r), has the signs that it must have."""
        if np.ndim(self.lam) == 0:
            return float(self.lam) * float(np.abs(W).sum())
        return float(np.abs(W).sum(axis=0) @ self.lam)

    def feasible(self, W: Float) -> Float:
        """Return W, shape (m, r), with zeros in place of entries that must not be negative."""
        return W if self.nonnegative is None else np.where(self.nonnegative & (W < 0.0), 0.0, W)

    def proximal(self, V: Float, d: Float | float) -> Float:
        """Return argmin_W 1/2 ||W - V||_d^2 + the penalty, shape (m, r).

        Parameters
        ----------
        V : array of shape (m, r)
            Where to be near.
        d : array of shape (r,), or one that broadcasts to V
            Weights of the columns in the distance.
        """
        return self.feasible(soft(V, self.lam / d))

    def violation(self, G: Float, W: Float) -> Float:
        """Return how far each entry of W is from optimal, shape (m, r), where the smooth part has the gradient G.

        It is the distance of -G from the subgradients of the penalty.
        """
        violated = np.where(W != 0.0, np.abs(G + self.lam * np.sign(W)), np.maximum(np.abs(G) - self.lam, 0.0))
        if self.nonnegative is None:
            return violated
        # At zero there is no limit to how strongly the fit may ask for less; below, nothing is right.
        at_zero: Any = np.maximum(-G - self.lam, 0.0)
        signed = np.where(W > 0.0, violated, np.where(W < 0.0, np.inf, at_zero))
        return np.where(self.nonnegative, signed, violated)
