"""What an engine keeps for each part of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from dbmd.model.statistics import Float, PerSource, Quadratic, Statistics

if TYPE_CHECKING:
    from dbmd.data.block import Samples

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Node:
    """A part of the samples, and what was last computed from it.

    Only ``block`` and ``weights`` are data. The rest is a cache that follows from them and the last questions, and may
    be lost with the machine that held it. A node function has to do without it, unless it :func:`continues`.

    Attributes
    ----------
    name : str
        For messages.
    block : Samples, optional
        The samples (see :mod:`dbmd.data.block`); a node that only takes part in a W-step has none.
    weights : array of shape (n_i,), optional
        For how many samples of the whole each stands.
    keeps_rows : bool
        Whether it may keep anything for each of its samples: not if they are too many.
    Ht : array of shape (n_i, r), optional
        The memberships of the last sweep: where the next sweep starts.
    norms : dict, optional
        sum of ||x - origin||^2 for each source.
    origin : array of shape (m,), optional
        What norms and statistics are about.
    stats : PerSource[Statistics], optional
        Of the last sweep, if it did not send them.
    quadratic : Quadratic, optional
        This node's share of the W-problem (P), of the last sweep.
    scratch : object
        What a solver or a start keeps between its own rounds.
    """

    name: str
    block: Samples | None = None
    weights: Float | None = None
    keeps_rows: bool = True
    Ht: NDArray[Any] | None = None
    norms: dict[int, float] | None = None
    origin: Float | None = None
    stats: PerSource[Statistics] | None = None
    quadratic: Quadratic | None = None
    scratch: Any = None

    @property
    def samples(self) -> Samples:
        """The block of a node that has one."""
        assert self.block is not None
        return self.block


def continues(node_function: F) -> F:
    """Mark a node function that goes on from what the questions before it left at the node.

    Where that is lost, an engine asks them again: from the last one that needs nothing but the block.
    """
    node_function.continues = True  # type: ignore[attr-defined]
    return node_function


def does_continue(node_function: Any) -> bool:
    """Say whether a node function is marked so, be it bare or wrapped (``functools.partial`` and the like)."""
    while hasattr(node_function, "func"):
        node_function = node_function.func
    return getattr(node_function, "continues", False)
