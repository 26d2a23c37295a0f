"""Where to look next: a quasi-Newton step towards the point where nothing moves any more.

A pass over the data at a point and the W-step that follows lead to W; call W - point the move. The fit ends where the
move is zero. Alternation, which goes on to W, crawls along directions in which the memberships follow W. How the moves
changed between the last points tells these directions, and limited-memory BFGS makes use of it: it begins with the move
itself, which is Newton's step as if the memberships stayed as they are. Nothing but matrices of the size of W is
needed, whatever solver found W.

With evidence the objective may rise where samples change faces, so it does not guard the steps. What does is the moves:
a step was too long if they point back from where it led, or have become much larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dbmd.model.statistics import Float

DEPTH = 15  # steps that are remembered
LONGEST = 100.0  # times the move, no step goes further
LONGEST_AT_FIRST = 20.0  # times the move, in the plane of the simplex, before single steps are looked at
BACK, GROWTH = 0.5, 2.0  # how far moves may point back after a step, or grow, relative to the move before it
BLIND = 1e3  # times the move the limit may be away, where nothing else is known
PATIENCE, SMALL = 20, 1e-3  # points without a smaller move, and how small moves must be, to call it an end
UNKNOWN = float("inf")


@dataclass(frozen=True)
class Path:
    """The last points of a descent, where each led to, and where to look next.

    Lengths are in the metric of the last Gram matrix A of the memberships.

    Attributes
    ----------
    steps, changes : tuple of arrays of shape (m, r)
        Differences of consecutive points and of the moves there, oldest first.
    point, move : array of shape (m, r), optional
        The last point, and where the W-step led from it.
    ahead : array of shape (m, r), optional
        The next point.
    residual : float
        Length of the last move, relative to the size of the simplex of W.
    distance : float
        How far the quasi-Newton step goes, in the same units: an estimate of how far the limit is.
    least : float
        The smallest residual so far.
    stuck : int
        For how many points it has not become smaller.
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
        """How far W may be from its limit, relative to the size of its simplex.

        Without steps behind it, a path knows only the move, and the limit may be a thousand times as far.
        """
        return max(self.residual, self.distance) if self.steps else BLIND * self.residual

    def is_stuck(self, n: float) -> bool:
        """Say whether moves are small and no longer become smaller: one of n samples goes to and fro between faces."""
        return self.stuck >= PATIENCE and self.least <= max(SMALL, 1.0 / n)

    def to(self, point: Float, W: Float, A: Float, origin: Float, lam: float) -> Path:
        """Return the path that goes on to a point, from where the W-step leads to W.

        Parameters
        ----------
        point, W : array of shape (m, r)
            Where the last pass was made, and the outcome of the W-step.
        A : array of shape (r, r)
            Gram matrix of the memberships there, sum_c HHt_c / sigma_c^2.
        origin : array of shape (m,)
            A point amidst the samples.
        lam : float
            Weight of the L1 norm. If it is positive, what is zero in W stays zero, and nothing changes its sign: there,
            the outcome of the W-step is smooth.
        """
        V, move = W - origin[:, None], W - point
        size, length = _length(V, A), _length(move, A)
        if size == 0.0:
            return Path(ahead=W, residual=0.0, distance=0.0, least=0.0)
        steps, changes = self.steps, self.changes
        if self.point is not None and self.move is not None:
            steps, changes = (*steps, point - self.point)[-DEPTH:], (*changes, move - self.move)[-DEPTH:]
        residual = length / size
        stuck = 0 if residual < 0.9 * self.least else self.stuck + 1
        path = Path(steps, changes, point, move, W, residual, UNKNOWN, min(self.least, residual), stuck)
        if not steps:
            return path
        plane = np.linalg.svd(V, full_matrices=False)[0][:, : V.shape[1] - 1]
        step = _quasi_newton(move, steps, changes, A, plane)
        far = _length(step, A)
        if far > LONGEST * length:
            step *= LONGEST * length / far
        ahead = point + step
        return replace(path, ahead=np.where(ahead * W > 0.0, ahead, 0.0) if lam > 0.0 else ahead, distance=far / size)

    def leads_to(self, onward: Path, A: Float) -> bool:
        """Say whether the step to the last point of a longer path was not too long; alternation never is."""
        if not self.steps or self.point is None or self.move is None or onward.point is None or onward.move is None:
            return True
        step = (onward.point - self.point) @ A
        points_back = np.vdot(step, onward.move) < -BACK * np.vdot(step, self.move)
        return not points_back and onward.residual <= GROWTH * self.residual

    def anew(self) -> Path:
        """Return a path that has forgotten all steps, for they led too far."""
        return Path(least=self.least, stuck=self.stuck)

    def elsewhere(self) -> Path:
        """Return what of the path holds for the same model and other samples: steps and changes, not the place."""
        return Path(self.steps, self.changes)


def _length(D: Float, A: Float) -> float:
    return float(np.sqrt(max(0.0, float(np.vdot(D @ A, D)))))


def _quasi_newton(move: Float, steps: tuple[Float, ...], changes: tuple[Float, ...], A: Float, plane: Float) -> Float:
    """Return the step to where nothing would move any more, shape (m, r).

    Only in the plane of the simplex do memberships follow W, and there the move is too short. How much so on the whole
    is told by all steps together, before BFGS looks at them one by one.

    Parameters
    ----------
    move : array of shape (m, r)
        Where the W-step leads, from the last point.
    steps, changes : tuple of arrays of shape (m, r)
        Differences of consecutive points, and of the moves there.
    A : array of shape (r, r)
        The metric.
    plane : array of shape (m, r - 1)
        Orthonormal directions of the plane.
    """
    pairs = []
    for step, change in zip(steps, changes, strict=True):
        curvature = -float(np.vdot(step @ A, change))
        # Where moves grow along a step, as near a saddle, there is no end ahead.
        if curvature * LONGEST >= float(np.vdot(step @ A, step)) > 0.0:
            pairs.append((step, -change, curvature))
    rest, along = move.copy(), []
    for step, change, curvature in reversed(pairs):
        along.append(float(np.vdot(step @ A, rest)) / curvature)
        rest -= along[-1] * change
    inside = [(plane.T @ step, plane.T @ change) for step, change, _ in pairs]
    squares = sum(float(np.vdot(change @ A, change)) for _, change in inside)
    if squares > 0.0:
        longer = sum(float(np.vdot(step @ A, change)) for step, change in inside) / squares
        rest += (min(max(longer, 1.0), LONGEST_AT_FIRST) - 1.0) * (plane @ (plane.T @ rest))
    for (step, change, curvature), part in zip(pairs, reversed(along), strict=True):
        rest += (part - float(np.vdot(change @ A, rest)) / curvature) * step
    return rest
