"""Running a function at a node, in the same way in a thread, a worker of Spark and a worker of Dask."""

from __future__ import annotations

from typing import Any

import numpy as np

from dbmd.model.node import Node
from dbmd.protocols import NodeFunction, Reply


def run(node_function: NodeFunction[Reply], node: Node, broadcast: tuple[Any, ...], engine: str) -> tuple[Node, Reply]:
    """Return ``node_function(node, *broadcast)``; an exception gets a note that names the node."""
    try:
        # OpenBLAS sometimes raises the flag "invalid" for padding that is no part of a product of finite float32
        # arrays. The data were checked before.
        with np.errstate(invalid="ignore"):
            return node_function(node, *broadcast)
    except Exception as error:
        error.add_note(f"at node {node.name!r} of the {engine} engine")
        raise
