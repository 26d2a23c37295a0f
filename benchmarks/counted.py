"""How often a fit of dbmd reads the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbmd.engines.local import Engine
from dbmd.model.node import does_continue

# Questions that need no sample: how many there are.
SHAPES = {"count"}


class Count:
    """Questions that read samples, by name.

    Parameters
    ----------
    n : int
        All samples.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.full: Counter[str] = Counter()  # over all samples
        self.partial: Counter[str] = Counter()  # over some
        self.partial_rows = 0

    def take(self, node_function: Any, nodes: list[Any]) -> None:
        """Count a question to nodes."""
        name = name_of(node_function)
        rows = sum(node.block.shape[0] for node in nodes if node.block is not None)
        if not rows or name in SHAPES or does_continue(node_function):
            return
        if rows >= self.n:
            self.full[name] += 1
        else:
            self.partial[name] += 1
            self.partial_rows += rows

    @property
    def passes(self) -> int:
        """Questions that read all samples."""
        return self.full.total()

    def record(self) -> dict[str, Any]:
        """Return the counts for a JSON file; questions over a part of the samples also as a share of a pass."""
        return {
            "passes": self.passes,
            "passes_by_name": dict(self.full),
            "over_a_part": dict(self.partial),
            "over_a_part_in_passes": self.partial_rows / self.n,
        }


def name_of(node_function: Any) -> str:
    """Return the name of a node function, be it bare or wrapped."""
    while hasattr(node_function, "func"):
        node_function = node_function.func
    return str(getattr(node_function, "__name__", type(node_function).__name__))


@contextmanager
def counted(n: int) -> Iterator[Count]:
    """Count what is asked of local engines meanwhile.

    The class is changed rather than an engine handed over, so that the fit is the one that defaults give, and fits of
    samples on engines of their own are seen, too.
    """
    count, ask = Count(n), Engine.ask

    def counting(self: Engine, node_function: Any, *broadcast: Any) -> Any:
        count.take(node_function, self.nodes)
        return ask(self, node_function, *broadcast)

    Engine.ask = counting  # type: ignore[method-assign]
    try:
        yield count
    finally:
        Engine.ask = ask  # type: ignore[method-assign]
