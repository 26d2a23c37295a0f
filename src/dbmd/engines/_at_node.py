"""Running a function at a node: the same in a thread, a worker of Spark and a worker of Dask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def run(node_function: Callable[..., Any], node: Any, broadcast: tuple[Any, ...], engine: str) -> tuple[Any, Any]:
    """Return node_function(node, *broadcast); an exception gets a note that names the node."""
    try:
        # OpenBLAS now and then raises the flag "invalid" for padding that is no part of a product of finite
        # float32 arrays. Data are checked before they get here.
        with np.errstate(invalid="ignore"):
            answer: tuple[Any, Any] = node_function(node, *broadcast)
            return answer
    except Exception as error:
        error.add_note(f"at node {node.name!r} of the {engine} engine")
        raise
