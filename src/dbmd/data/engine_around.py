"""An engine around another one, whose nodes hold samples in another form than node functions take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from dbmd.protocols import Engine, NodeFunction, Reply


class EngineAround:
    """An engine that runs every node function in another function, which changes the form of the samples.

    Parameters
    ----------
    engine : Engine
        Has the nodes.
    wrap : callable
        Returns for a node function the one that the nodes run: picklable, with the attribute ``func``.
    """

    def __init__(self, engine: Engine, wrap: Callable[[NodeFunction[Any]], NodeFunction[Any]]) -> None:
        self.engine, self.wrap, self.n_nodes = engine, wrap, engine.n_nodes

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run a function at every node and add the replies."""
        reply: Reply = self.engine.ask(self.wrap(node_function), *broadcast)
        return reply

    @property
    def work_on(self) -> Any:
        """What the engine offers for work on the driver, see :class:`~dbmd.protocols.Engine`; None if nothing."""
        return getattr(self.engine, "work_on", None)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
