"""What some kernels offer beside what all must: memberships and sums over the samples at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dbmd.model.statistics import Float, SampleSums

__all__ = ["OneLoop", "Pass", "Passed"]


class Passed(NamedTuple):
    """What a :class:`Pass` finds.

    Attributes
    ----------
    sums : SampleSums
        Over the samples and their memberships.
    covariance : tuple, optional
        Sums of the covariances of the memberships, see :meth:`dbmd.protocols.FaceCovariance.total`.
    is_finite : bool
        Whether all products with W were; else the rest means nothing.
    """

    sums: SampleSums
    covariance: tuple[Float, float] | None
    is_finite: bool


class Pass(Protocol):
    """Memberships of samples of one source, and sums over them, at once: kernels that work elsewhere may have it.

    Samples are dense, of few components, without gaps and weights, and their memberships have no prior.
    """

    MAX_RANK: int  # components that there may be

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
        """Begin a pass.

        Parameters
        ----------
        W : array of shape (m, r)
            The basis.
        offset : array of shape (r,), optional
            What is subtracted from x'W.
        gram : callable
            Returns W'W, shape (r, r). It is called when the products of samples with W are on their way.
        noise : float, optional
            Variance of the noise in the plane of W; None: covariances are not needed.
        dtype : dtype
            Of the samples.
        norms : bool
            Whether the sums of the samples and of their squares are needed as well.
        """

    def over(self, Xt: Any, Ht0: Any, out: Any) -> None:
        """Write memberships of samples, and add the samples to the sums.

        Parameters
        ----------
        Xt : array of the kernel's kind, shape (n, m)
            The samples.
        Ht0 : array of the kernel's kind, shape (n, r), contiguous, optional
            Where to start, rows on the simplex.
        out : array of the kernel's kind, shape (n, r), contiguous
            Where to write their memberships; may be ``Ht0`` itself.
        """

    def send(self) -> None:
        """Start to bring the sums here; nothing is added afterwards, and :meth:`total` waits."""

    def total(self) -> Passed:
        """Return the sums over the samples so far, as arrays of NumPy."""


class OneLoop(Protocol):
    """A pass at one basis over samples of few features, on the driver: the kernel ``cpu`` has it.

    It is made of W, shape (m, r), of what is to be subtracted from W'x, shape (r,), and of W'W, shape (r, r). Several
    threads may use it at a time.
    """

    MAX_RANK: int  # components that there may be

    def __init__(self, W: Float, offset: Float, Q: Float) -> None: ...

    @property
    def size(self) -> int:
        """How many numbers the sums are."""

    def parts_of(self, sums: Float) -> tuple[Float, Float, Float, float]:
        """Return what sums, shape (size,), are.

        Returns
        -------
        XHt : array of shape (m, r)
            Sum of x h'.
        HHt : array of shape (r, r)
            Sum of h h'.
        S : array of shape (r, r)
            Sum of the covariances of the memberships.
        log_det : float
            Sum of their gains in log-determinant, see :class:`dbmd.protocols.FaceCovariance`.
        """

    def over(
        self, Xt: Float, roots: Float, Ht: Float, noise: float | None, out: Float, *, warm: bool
    ) -> NDArray[np.intp]:
        """Write memberships of samples to Ht, and sums over the samples to ``out``.

        Parameters
        ----------
        Xt : array of shape (n, m), float64, contiguous
            The samples.
        roots : array of shape (n,)
            Square root of how often each counts.
        Ht : array of shape (n, r), float64, contiguous, changed in place
            The memberships: for b = W'x - offset, what minimises 1/2 h'Qh - b'h on the simplex.
        noise : float, optional
            Variance of the noise in the plane of W; None: covariances are not needed.
        out : array of shape (size,), zeros, changed in place
            The sums.
        warm : bool
            Whether those in Ht are where to start.

        Returns
        -------
        array of int
            The positions of the samples whose memberships were not found, which are in none of the sums.
        """
