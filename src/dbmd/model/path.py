"""Where to look next: a quasi-Newton step on the objective as a function of W alone.

F(W), the objective minimised over H and sigma, is smooth, and a pass over the data at V gives its value and its
gradient (V - W) A, where W is the outcome of the W-step from V and A its Gram matrix. Alternation moves on to W: that
is Newton's method as if H stayed as it is, and along the directions in which H follows W it crawls. How the gradient
changed between the last passes tells these directions, and limited-memory BFGS makes use of it, with A^-1 to begin
with. Nothing but matrices of the size of W is needed, whatever solver found W.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dbmd.model.statistics import Float

DEPTH = 5  # steps that are remembered; ten do no better
# The least curvature along a step, relative to that of the W-step (Powell's damping): a step goes at most 1 / damping
# times as far as alternation. Where W is hardly determined by the data, as when its simplex holds most samples, bold
# steps go far for next to nothing, and away from the clusters; so be bold only where little is left to gain.
GENTLE, BOLD = 0.5, 0.2
LITTLE = 1e-3  # relative decrease of the objective in the last iteration


@dataclass(frozen=True)
class Path:
    """The last steps of a descent, and how the gradient changed along each.

    Attributes
    ----------
    steps, changes : tuple of arrays of shape (m, r)
        Differences of consecutive points and of the gradients there, oldest first.
    point : array of shape (m, r), optional
        The last point.
    A : array of shape (r, r), optional
        Gram matrix of the memberships there, sum_c HHt_c / sigma_c^2.
    gradient : array of shape (m, r), optional
        The gradient there.
    weakest : array of shape (r, r), optional
        What A would be if all sources were as noisy as the noisiest.
    """

    steps: tuple[Float, ...] = ()
    changes: tuple[Float, ...] = ()
    point: Float | None = None
    A: Float | None = None
    gradient: Float | None = None
    weakest: Float | None = None

    def to(self, point: Float, W: Float, A: Float, weakest: Float) -> Path:
        """Return the path that goes on to a point, from where the W-step went to W with the Gram matrix A."""
        gradient = (point - W) @ A
        path = replace(self, point=point, A=A, gradient=gradient, weakest=weakest)
        if self.point is None or self.gradient is None:
            return path
        step, change = point - self.point, gradient - self.gradient
        if not np.vdot(step @ A, step) > 0.0:
            return path
        return replace(path, steps=(*self.steps, step)[-DEPTH:], changes=(*self.changes, change)[-DEPTH:])

    def elsewhere(self) -> Path:
        """Return what of the path holds for the same model and other samples: steps and changes, not the place."""
        return Path(self.steps, self.changes)

    def ahead(self, W: Float, lam: float, damping: float) -> Float:
        """Return the next point, shape (m, r): W itself, the outcome of the W-step, as long as nothing else is known.

        With lam > 0 what is zero in W stays zero, and nothing changes its sign: there, the objective is smooth.

        Parameters
        ----------
        W : array of shape (m, r)
            The outcome of the W-step from the last point.
        lam : float
            Weight of the L1 norm.
        damping : float
            The least curvature along a step, relative to that of the W-step.
        """
        if not self.steps or self.point is None or self.A is None or self.gradient is None or self.weakest is None:
            return W
        pairs = [*self._pairs(damping * self.weakest)]
        rest, along = self.gradient.copy(), []
        for step, change, curvature in reversed(pairs):
            along.append(np.vdot(step, rest) / curvature)
            rest -= along[-1] * change
        # From W instead of from the point: the W-step itself is exact where A is singular, its inverse is not.
        unit = 1e-12 * np.trace(self.A) / len(self.A)
        move = (rest - self.gradient) @ np.linalg.inv(self.A + unit * np.eye(len(self.A))) + (self.point - W)
        for (step, change, curvature), part in zip(pairs, reversed(along), strict=True):
            move += (part - np.vdot(change, move) / curvature) * step
        ahead = self.point - move
        return np.where(ahead * W > 0.0, ahead, 0.0) if lam > 0.0 else ahead

    def _pairs(self, least: Float) -> Iterator[tuple[Float, Float, float]]:
        """Yield steps with changes, damped to the least Gram matrix that is believed, and the curvature along each."""
        for step, change in zip(self.steps, self.changes, strict=True):
            plain = step @ self.A  # type: ignore[operator]
            curvature, bound, most = (float(np.vdot(step, each)) for each in (change, step @ least, plain))
            if curvature < bound:
                share = (bound - curvature) / (most - curvature)
                change, curvature = (1.0 - share) * change + share * plain, bound
            if curvature > 0.0:
                yield step, change, curvature
