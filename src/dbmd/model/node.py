"""A node: some of the samples, and a cache."""

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
    """Some of the samples, and a cache of what was computed from them.

    ``block`` has the data. All else is a cache: it follows from the data and the last node functions, and is lost with
    the machine that had it. A node function must not need it unless it :func:`continues`.

    Attributes
    ----------
    name : str
        For messages.
    block : Samples, optional
        The samples (see :mod:`dbmd.data.block`); a node that only takes part in a W-step has none.
    keeps_rows : bool
        Whether the cache may hold something for each sample: False if there are too many.
    Ht : array of shape (n_i, r), optional
        The memberships of the last sweep, from which the next sweep starts.
    norms : dict of int to float, optional
        Sum of ||x - origin||^2 for each source.
    origin : array of shape (m,), optional
        The point that norms and statistics are taken about.
    stats : PerSource[Statistics], optional
        Of the last sweep, if the node keeps them.
    quadratic : Quadratic, optional
        The node's term of problem (P), of the last sweep.
    scratch : object
        What a solver or a start keeps at the node between its rounds.
    """

    name: str
    block: Samples | None = None
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
    """Mark a node function that needs the cache which the functions before it left at the node.

    If the cache is lost, an engine runs those functions again, from the last one that needs the block only.
    """
    node_function.continues = True  # type: ignore[attr-defined]
    return node_function


def does_continue(node_function: Any) -> bool:
    """Return whether a node function is marked with :func:`continues`, bare or wrapped (``functools.partial``)."""
    while hasattr(node_function, "func"):
        node_function = node_function.func
    return getattr(node_function, "continues", False)
