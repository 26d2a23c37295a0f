"""Limited-memory BFGS for the fixed point of alternation: where to make the next pass over the data.

A pass at a point and the W-step that follows lead to W; W - point is the move. The fit ends where the move is zero.
Plain alternation continues at W, which is slow along directions in which the memberships follow W. Limited-memory BFGS
learns these directions from how the moves changed between the last points. Its first estimate is the move itself, which
is Newton's step if the memberships stay as they are. It needs matrices of the size of W only, whatever the solver.

With evidence the objective may rise where samples change faces, so it cannot decide whether a step was too long. The
moves decide: a step was too long if the moves after it point back or are much larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbmd.model.penalty import Lam, Penalty
from dbmd.model.statistics import Float

DEPTH = 15  # number of steps that are kept
LONGEST = 100.0  # largest length of a step, in lengths of the move
LONGEST_AT_FIRST = 20.0  # largest factor of the move in the plane of the simplex, before single steps are considered
BACK, GROWTH = 0.5, 2.0  # how far moves may point back after a step, and grow, relative to the move before it
BLIND = 1e3  # distance of the limit, in lengths of the move, that is assumed where nothing else is known
PATIENCE, SMALL = 20, 1e-3  # number of points without a smaller move, and how small moves must be, to stop
UNKNOWN = float("inf")


@dataclass(frozen=True)
class LBFGS:
    """The last points of a descent, the moves there, and the next point.

    Lengths are in the metric of the last Gram matrix A of the memberships.

    Attributes
    ----------
    steps, changes : tuple of arrays of shape (m, r)
        Differences of consecutive points, and of the moves there; the oldest is the first.
    point, move : array of shape (m, r), optional
        The last point, and the move there.
    ahead : array of shape (m, r), optional
        The next point.
    residual : float
        Length of the last move, relative to the size of the simplex of W.
    distance : float
        Length of the quasi-Newton step in the same units: an estimate of the distance to the limit.
    least : float
        The smallest residual so far.
    stuck : int
        Number of points since it became smaller.
    """

    steps: tuple[Float, ...] = ()
    changes: tuple[Float, ...] = ()
    point: Float | None = None
    move: Float | None = None
    ahead: Float | None = None
    residual: float = UNKNOWN
    distance: float = UNKNOWN
    least: float = UNKNOWN
    stuck: int = 0

    @property
    def change(self) -> float:
        """An estimate of the distance of W from its limit, relative to the size of its simplex.

        Without any steps only the move is known, and the limit may be a thousand times as far away.
        """
        return max(self.residual, self.distance) if self.steps else BLIND * self.residual

    def is_stuck(self, n: float) -> bool:
        """Return whether moves are small and do not shrink: a few of the n samples alternate between two faces."""
        return self.stuck >= PATIENCE and self.least <= max(SMALL, 1.0 / n)

    def update(
        self,
        point: Float,
        W: Float,
        A: Float,
        origin: Float,
        lam: Lam,
        nonnegative: NDArray[np.bool_] | None = None,
        n_patterns: int | None = None,
    ) -> LBFGS:
        """Return the descent after one more point.

        Parameters
        ----------
        point, W : array of shape (m, r)
            Where the last pass was made, and the outcome of the W-step.
        A : array of shape (r, r)
            Gram matrix of the memberships there, sum_c HHt_c / sigma_c^2.
        origin : array of shape (m,)
            A point amidst the samples.
        lam : float or array of shape (r,)
            Weight of the L1 norm of each column, or of all. Where it is positive, zeros of W stay zero and no entry
            changes its sign: within these bounds the outcome of the W-step is smooth.
        nonnegative : array of bool of shape (r,), optional
            Columns without negative entries, which have the same bounds.
        n_patterns : int, optional
            Number of columns that span the simplex, which come first; by default all. Other columns have no part in its
            size and its plane.
        """
        n_patterns = W.shape[1] if n_patterns is None else n_patterns
        V, move = W[:, :n_patterns] - origin[:, None], W - point
        size, length = _length(V, A[:n_patterns, :n_patterns]), _length(move, A)
        if size == 0.0:
            return LBFGS(ahead=W, residual=0.0, distance=0.0, least=0.0)
        steps, changes = self.steps, self.changes
        if self.point is not None and self.move is not None:
            steps, changes = (*steps, point - self.point)[-DEPTH:], (*changes, move - self.move)[-DEPTH:]
        residual = length / size
        stuck = 0 if residual < 0.9 * self.least else self.stuck + 1
        updated = LBFGS(steps, changes, point, move, W, residual, UNKNOWN, min(self.least, residual), stuck)
        if not steps:
            return updated
        plane = np.linalg.svd(V, full_matrices=False)[0][:, : V.shape[1] - 1]
        step = _two_loops(move, steps, changes, A, plane)
        far = _length(step, A)
        if far > LONGEST * length:
            step *= LONGEST * length / far
        ahead = point + step
        is_free = Penalty(lam, nonnegative).is_free(W.shape[1])
        if not is_free.all():
            ahead = np.where(is_free | (ahead * W > 0.0), ahead, 0.0)
        return replace(updated, ahead=ahead, distance=far / size)

    def accepts(self, updated: LBFGS, A: Float) -> bool:
        """Return whether the step to the last point of ``updated`` was not too long; the first steps never are."""
        if not self.steps or self.point is None or self.move is None or updated.point is None or updated.move is None:
            return True
        step = (updated.point - self.point) @ A
        points_back = np.vdot(step, updated.move) < -BACK * np.vdot(step, self.move)
        return not points_back and updated.residual <= GROWTH * self.residual

    def restart(self) -> LBFGS:
        """Return a descent without any steps, after one that was too long."""
        return LBFGS(least=self.least, stuck=self.stuck)

    def for_other_samples(self) -> LBFGS:
        """Return what holds for other samples of the same model: the steps and changes, but no point."""
        return LBFGS(self.steps, self.changes)


def _length(D: Float, A: Float) -> float:
    """Return the length of D, shape (m, r), in the metric A, shape (r, r)."""
    return float(np.sqrt(max(0.0, float(np.vdot(D @ A, D)))))


def _two_loops(move: Float, steps: tuple[Float, ...], changes: tuple[Float, ...], A: Float, plane: Float) -> Float:
    """Return the quasi-Newton step to where the move would be zero, shape (m, r), by the two loops of the method.

    Memberships follow W in the plane of the simplex only, and there the move is too short. All steps together give the
    factor by which it is, which is the first estimate of the inverse Hessian; then BFGS uses the steps one by one.

    Parameters
    ----------
    move : array of shape (m, r)
        The move at the last point.
    steps, changes : tuple of arrays of shape (m, r)
        Differences of consecutive points, and of the moves there.
    A : array of shape (r, r)
        The metric.
    plane : array of shape (m, r - 1)
        Orthonormal directions of the plane.
    """
    pairs = []
    for step, change in zip(steps, changes, strict=True):
        step_A = step @ A  # products with A are most of the work
        curvature = -float(np.vdot(step_A, change))
        # Along a step on which moves grow, as near a saddle, there is no minimum ahead.
        if curvature * LONGEST >= float(np.vdot(step_A, step)) > 0.0:
            pairs.append((step, change, step_A, curvature))
    rest, along = move.copy(), []
    for _, change, step_A, curvature in reversed(pairs):
        along.append(float(np.vdot(step_A, rest)) / curvature)
        rest += along[-1] * change
    if pairs:
        inside, changed = (np.concatenate([plane.T @ pair[i] for pair in pairs]) for i in (0, 1))
        changed_A = changed @ A
        squares = float(np.vdot(changed_A, changed))
        factor = -float(np.vdot(changed_A, inside)) / squares if squares > 0.0 else 0.0
        rest += (min(max(factor, 1.0), LONGEST_AT_FIRST) - 1.0) * (plane @ (plane.T @ rest))
    rest_A = rest @ A
    for (step, change, step_A, curvature), part in zip(pairs, reversed(along), strict=True):
        weight = part + float(np.vdot(change, rest_A)) / curvature
        rest += weight * step
        rest_A += weight * step_A
    return rest
