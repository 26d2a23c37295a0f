"""Running a function at a node: the same in a thread, a worker of Spark and a worker of Dask."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController


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


def one_blas_thread() -> Any:
    """Hold BLAS to one thread, as a context: the nodes are the parallelism, and two levels of it would fight."""
    return _controller(len(sys.modules)).limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    # Looking for the loaded BLAS libraries takes milliseconds; a round of a solver may take microseconds. So it is done
    # again only when modules were imported: SciPy brings a BLAS of its own, often after the first question.
    return ThreadpoolController()
