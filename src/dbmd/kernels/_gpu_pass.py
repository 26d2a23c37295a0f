"""A pass over dense samples of few components on a GPU, with few calls from the host.

Each part of the kernel by itself sends what it needs and brings home what it finds, and with a millisecond for a pass
the device would wait for the host half of the time. Here W goes there in one copy, all that is found comes home in one,
and what the host has to compute it computes while the device is busy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


class Pass:
    """A pass over samples of one source: see :class:`dbmd.protocols.Pass`."""

    MAX_RANK = FEW  # components that there may be

    def __init__(
        self,
        W: Float,
        offset: Float | None,
        gram: Callable[[], Float],
        noise: float | None,
        dtype: np.dtype[Any],
        *,
        norms: bool,
    ) -> None:
        m, r = W.shape
        basis = going(np.concatenate([W.ravel(), [] if offset is None else offset], dtype=dtype, casting="same_kind"))
        self._W, self._offset = basis[: W.size].reshape(m, r), None if offset is None else basis[W.size :]
        self._gram, self._noise, self._norms = gram, noise, norms
        self._n_covariance = FaceCovariance.length(r)
        # Sums of the covariances, sums over the samples, and how many entries of b were not finite.
        self._found = cupy().zeros(self._n_covariance + Sums.length(m, r, norms=norms) + 1)
        self._sums = Sums(m, r, dtype, self._found[self._n_covariance : -1])
        self._covariance: FaceCovariance | None = None
        self._arrived: Callable[[], NDArray[np.float64]] | None = None

    def over(self, Xt: Any, Ht0: Any, out: Any) -> None:
        """Write memberships of samples, and add the samples to the sums."""
        Bt = products(Xt, self._W, self._offset)
        Q = self._gram()
        scale, weights, tol = tolerances(Q, np.zeros(len(Q)))
        not_finite = self._found[-1:].view(np.uint64)
        solve_few(Q / scale, Bt, weights, Ht0, out, 1.0 / scale, tol, not_finite)
        solved = cupy().cuda.get_current_stream().record()
        self._sums.add(Xt, out, norms=self._norms)
        if self._noise is not None:
            if self._covariance is None:
                self._covariance = FaceCovariance(Q, self._noise, self._found[: self._n_covariance])
            self._covariance.add(out, after=solved)

    def send(self) -> None:
        """Start to bring the sums here; no samples are added afterwards, and :meth:`total` waits."""
        if self._covariance is not None:
            self._covariance.complete()
        self._arrived = coming(self._found)

    def total(self) -> Passed:
        """Return the sums over the samples so far."""
        if self._arrived is None:
            self.send()
        assert self._arrived is not None
        found = self._arrived()
        covariance = None if self._covariance is None else self._covariance.of_totals(found[: self._n_covariance])
        is_finite = not found[-1:].view(np.uint64)[0]
        return Passed(self._sums.of_total(found[self._n_covariance : -1]), covariance, is_finite)
