"""What a solver of the W-step must offer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from dbmd.protocols.engines import Ask

if TYPE_CHECKING:
    from dbmd.model.problem import Problem
    from dbmd.model.statistics import Float
    from dbmd.solvers import WStep

__all__ = ["Solver"]


class Solver(Protocol):
    """A method for the W-step: a module of :mod:`dbmd.solvers`.

    It solves (P),  min_W sum_i f_i(W) + lam ||W||_1,  where f_i, the term of node i, is ``node.quadratic``. Columns of
    W may have a lam of their own, and some may have to be nonnegative: ``problem.penalty.proximal`` takes care of both.
    """

    @property
    def GATHERS(self) -> bool:
        """Whether the driver has all statistics after a pass (True), or they stay at the nodes (False)."""

    def solve(
        self,
        W: Float,
        ask: Ask,
        problem: Problem,
        *,
        tol: float = ...,
        max_rounds: int = ...,
        on_round: Callable[[Float], object] = ...,
    ) -> WStep:
        """Return the minimiser of (P). A method may have further parameters, as keywords with defaults.

        Parameters
        ----------
        W : array of shape (m, r)
            Where to start.
        ask : Ask
            Runs a function at the nodes, which have ``node.quadratic``. If the solver gathers, there is one node with
            the sum of all terms.
        problem : Problem
            What the driver knows of (P).
        tol : float
            Relative change of W at which to stop.
        max_rounds : int
            Largest number of rounds over the nodes.
        on_round : callable
            To be called with W after each round.

        Returns
        -------
        WStep
        """
