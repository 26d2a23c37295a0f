"""What some kernels offer beside what all must: memberships and sums over the samples at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dbmd.model.statistics import Float, SampleSums

__all__ = ["LoopSums", "OneLoop", "Pass", "Passed"]


class Passed(NamedTuple):
    """What a :class:`dbmd.protocols.Pass` finds.

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

    Samples are dense, of few components, without gaps and weights, and their memberships have no prior. Covariances are
    those of all samples.
    """

    MAX_RANK: int  # components that there may be

    @staticmethod
    def load(W: Float, offset: Float | None, dtype: np.dtype[Any]) -> tuple[Any, Any]:
        """Return W, shape (m, r), and the offset, shape (r,) or (n_sources, r), or None, where passes take them.

        Their entries become those of a type, that of the samples.
        """

    def __init__(self, W: Any, offset: Any, gram: Callable[[], Float], noise: float | None, *, norms: bool) -> None:
        """Begin a pass.

        Parameters
        ----------
        W : array of shape (m, r)
            The basis, from :meth:`load`.
        offset : array of shape (r,), optional
            What is subtracted from x'W, from :meth:`load`.
        gram : callable
            Returns W'W, shape (r, r). It is called when the products of samples with W are on their way.
        noise : float, optional
            Variance of the noise in the plane of W; None: covariances are not needed.
        norms : bool
            Whether the sums of the samples and of their squares are needed as well.
        """

    def over(self, Xt: Any, Ht0: Any, out: Any) -> None:
        """Write memberships of samples, and add the samples to the sums.

        Parameters
        ----------
        Xt : array of the kernel's kind, shape (n, m)
            The samples, at least one.
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
    """Passes over samples of one source, of few features, on the driver: the kernel ``cpu`` has it.

    Parameters
    ----------
    Xt : array of shape (n, m), float64, contiguous
        The samples.
    weights : array of shape (n,)
        How often each counts.
    r : int
        Number of components.
    n_pieces : int
        How many pieces the samples are worked on in. The last digits of the sums depend on it.

    Attributes
    ----------
    Xt, weights : arrays of shape (n, m) and (n,)
        As they were given.
    order : array of int of shape (n,)
        The order of the memberships, by the positions of their samples. It may change from pass to pass.
    Ht : array of shape (n, r)
        The memberships, NaN where they were not found.
    """

    MAX_RANK: int  # components that there may be
    Xt: Float
    weights: Float
    order: NDArray[np.intp]
    Ht: Float

    def __init__(self, Xt: Float, weights: Float, r: int, n_pieces: int) -> None: ...

    def prepare(self, W: Float, offset: Float, Q: Float, noise: float | None) -> list[Callable[[], None]]:
        """Return what to call, each once, in any order or side by side, for a pass at W.

        It starts from the memberships of the last pass, on which the result does not depend.

        Parameters
        ----------
        W : array of shape (m, r)
            The basis.
        offset : array of shape (r,)
            What is subtracted from W'x: for b = W'x - offset, memberships minimise 1/2 h'Qh - b'h on the simplex.
        Q : array of shape (r, r)
            W'W.
        noise : float, optional
            Variance of the noise in the plane of W; None: covariances are not needed.
        """

    def total(self) -> LoopSums:
        """Return what the last pass has found, after all of it was called."""


class LoopSums(NamedTuple):
    """What a pass over samples of one source finds, in one loop.

    Attributes
    ----------
    XHt : array of shape (m, r)
        Sum of x h'.
    HHt : array of shape (r, r)
        Sum of h h'.
    S : array of shape (r, r)
        Sum of the covariances of the memberships.
    log_det : float
        Sum of their gains in log-determinant, see :class:`dbmd.protocols.FaceCovariance`.
    left : array of int
        The rows of the memberships that were not found: their samples are in none of the sums.
    """

    XHt: Float
    HHt: Float
    S: Float
    log_det: float
    left: NDArray[np.intp]
