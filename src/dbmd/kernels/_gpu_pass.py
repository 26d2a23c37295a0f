"""A pass over dense samples of few components on a GPU, with few calls from the host.

Each part of the kernel by itself sends what it needs and brings home what it finds, and with a millisecond for a pass
the device would wait for the host half of the time. Here W goes there in one copy, all that is found comes home in one,
and what the host has to compute it computes while the device is busy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbmd.kernels._cuda import coming, cupy, going
from dbmd.kernels._gpu_covariance import FaceCovariance
from dbmd.kernels._gpu_h_step import FEW, solve_few
from dbmd.kernels._gpu_products import products
from dbmd.kernels._gpu_sums import Sums
from dbmd.kernels._tolerance import tolerances
from dbmd.model.statistics import Float
from dbmd.protocols import Passed

__all__ = ["Pass"]

N_COUNTS = 2  # numbers of what is counted, see _Room


class Pass:
    """A pass over samples of one source: see :class:`dbmd.protocols.Pass`."""

    MAX_RANK = FEW  # components that there may be

    @staticmethod
    def load(W: Float, offset: Float | None, dtype: np.dtype[Any]) -> tuple[Any, Any]:
        """Start to send W and the offset to the device, in one copy."""
        if offset is None:
            return going(W, dtype=dtype).reshape(W.shape), None
        both = going(W, offset, dtype=dtype)
        return both[: W.size].reshape(W.shape), both[W.size :].reshape(offset.shape)

    def __init__(self, W: Any, offset: Any, gram: Callable[[], Float], noise: float | None, *, norms: bool) -> None:
        self._W, self._offset, self._gram, self._noise, self._norms = W, offset, gram, noise, norms
        # From the first samples on: memory for all that is found, sums over the samples, and those of covariances.
        self._room: Any = None
        self._sums: Any = None
        self._covariance: FaceCovariance | None = None
        self._arrived: Callable[[], NDArray[np.float64]] | None = None

    def over(self, Xt: Any, Ht0: Any, out: Any) -> None:
        """Write memberships of samples, and add the samples to the sums."""
        Bt = products(Xt, self._W, self._offset)
        # From here on the host works while the device is busy with the products.
        m, r = self._W.shape
        if self._room is None:
            self._room = _Room.of(m, r, norms=self._norms)
            self._sums = Sums(m, r, Xt.dtype, self._room.sums, norms=self._norms)
        room, Q = self._room, self._gram()
        scale, weights, tol = tolerances(Q, np.zeros(r))
        per_noise = 0.0 if self._noise is None else scale / self._noise
        over_noise = solve_few(Q / scale, Bt, weights, Ht0, out, 1.0 / scale, tol, room.counted, per_noise)
        solved = cupy().cuda.get_current_stream().record()
        self._sums.add(Xt, out, norms=self._norms)
        if self._noise is not None:
            if self._covariance is None:
                self._covariance = FaceCovariance(Q, self._noise, (over_noise, room.of_covariance))
            self._covariance.add(out, after=solved)

    def send(self) -> None:
        """Start to bring the sums here; no samples are added afterwards, and :meth:`total` waits."""
        if self._covariance is not None:
            self._covariance.complete()
        self._arrived = coming(self._room.found)

    def total(self) -> Passed:
        """Return the sums over the samples so far."""
        if self._arrived is None:
            self.send()
        assert self._arrived is not None
        sums, (_, n_not_finite), of_covariance = self._room.cut(self._arrived())
        covariance = None if self._covariance is None else self._covariance.of_totals(of_covariance)
        return Passed(self._sums.of_total(sums), covariance, n_not_finite == 0)


class _Room(NamedTuple):
    """Memory for what a pass finds, at first zeros: one array, so that it is cleared once and comes home in one copy.

    Attributes
    ----------
    found : array
        What is to come home: sums, counts, and the sums of the covariances.
    sums : array
        Sums over the samples.
    counted : array of shape (N_COUNTS,), uint64
        How many samples had no face, and how many of their entries of b were not finite.
    of_covariance : array
        For :class:`FaceCovariance`: its sums, and what it counts.
    """

    found: Any
    sums: Any
    counted: Any
    of_covariance: Any

    @classmethod
    def of(cls, m: int, r: int, *, norms: bool) -> _Room:
        """Return it for W of shape (m, r), with sums of the samples and of their squares or not."""
        n_sums = Sums.length(m, r, norms=norms)
        n_found = n_sums + N_COUNTS + FaceCovariance.length(r)
        room = cupy().zeros(n_found + (1 << r))
        return cls(room[:n_found], *cls._parts(room, n_sums))

    def cut(self, found: NDArray[np.float64]) -> tuple[Any, Any, Any]:
        """Return the sums, the counts, and the sums of the covariances of what came home."""
        return self._parts(found, self.sums.size)

    @staticmethod
    def _parts(found: Any, n_sums: int) -> tuple[Any, Any, Any]:
        end = n_sums + N_COUNTS
        return found[:n_sums], found[n_sums:end].view(np.uint64), found[end:]
