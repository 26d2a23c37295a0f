"""What a kernel must offer: memberships of many samples, and sums over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dbmd.model.gaps import Gaps
    from dbmd.model.statistics import Float, SampleSums

__all__ = ["FaceCovariance", "GapCovariance", "Kernel", "Sums"]


class FaceCovariance(Protocol):
    """The sum of the covariances of memberships, over samples with the same noise level."""

    def add(self, Ht: NDArray[Any], weights: Float | None = None) -> None:
        """Add samples.

        Parameters
        ----------
        Ht : array of shape (n, r), float32 or float64
            Their memberships. A membership above 1e-6 is on the face.
        weights : array of shape (n,), optional
            How often each sample counts; by default once.
        """

    def send(self) -> None:
        """Start to bring the sums here if they are elsewhere; nothing is added afterwards, and :meth:`total` waits."""

    def total(self) -> tuple[Float, float]:
        """Return the sums over the samples so far.

        Returns
        -------
        S : array of shape (r, r)
            Sum of the covariances S_F, where F is the face of a sample. Memberships have no unit, nor has S.
        log_det : float
            Sum of ln det(precision of the posterior) - ln det(precision of the prior), both on the face.
        """


class GapCovariance(Protocol):
    """The sum of the covariances of memberships, over samples with gaps of the same noise level."""

    def add(self, Ht: NDArray[Any], gaps: Gaps | NDArray[np.bool_], weights: Float | None = None) -> None:
        """Add samples.

        Parameters
        ----------
        Ht : array of shape (n, r), float32 or float64
            Their memberships. A membership above 1e-6 is on the face.
        gaps : Gaps, or array of bool of shape (n, m)
            Which of their entries are missing.
        weights : array of shape (n,), optional
            How often each sample counts; by default once.
        """

    def total(self) -> tuple[Float, float, Float]:
        """Return the sums over the samples so far.

        Returns
        -------
        S : array of shape (r, r)
            Sum of the covariances S_i: as in :class:`FaceCovariance`, with the Gram matrix of W over the observed
            features of each sample.
        log_det : float
            Sum of ln det(precision of the posterior) - ln det(precision of the prior), both on the face.
        WS : array of shape (m, r)
            Row j is the sum of w_j'S_i over the samples i whose feature j is missing, in the unit of the data.
        """


class Sums(Protocol):
    """Sums over samples and their memberships, which statistics are made of. They do not depend on how samples are cut.

    Sums of float32 are in float64, but for short ones.
    """

    def add(self, Xt: Any, Ht: Any, weights: Any = None, *, norms: bool = False) -> None:
        """Add samples.

        Parameters
        ----------
        Xt : array or CSR array of shape (n, m), float32 or float64
            The samples.
        Ht : array of shape (n, r), of the same type
            Their memberships.
        weights : array of shape (n,), float64, optional
            How often each sample counts; by default once.
        norms : bool
            Whether the sums of the samples and of their squares are needed as well: for all samples, or for none.
        """

    def send(self) -> None:
        """Start to bring the sums here if they are elsewhere; nothing is added afterwards, and :meth:`total` waits."""

    def total(self) -> SampleSums:
        """Return the sums over the samples so far, as arrays of NumPy."""


class Kernel(Protocol):
    """The H-step for many samples on plain arrays: a module of :mod:`dbmd.kernels`.

    Functions must release the GIL or be short, must not start threads, and must treat each sample by itself: the result
    of a sample does not depend on the others.

    What there is one of for each sample (Bt, Ht, weights, gaps, Xt) are arrays of the kernel's own kind, which
    :meth:`asarray` makes; all else (Q, a, W, noise) are arrays of NumPy, unless said otherwise.
    """

    def asarray(self, array: Any, dtype: Any = None) -> Any:
        """Return an array or CSR array of NumPy, or of the kernel's own kind, as one of the kernel's kind."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return a new array of the kernel's kind, whose entries may be anything."""

    def coming(self, array: Any) -> Callable[[], NDArray[Any]]:
        """Start to bring an array of the kernel's kind here; return a function that waits for it and returns it."""

    def products(self, Xt: Any, W: Any, offset: Any = None) -> Any:
        """Return Xt W - offset, shape (n, r): the linear term of the H-step.

        Parameters
        ----------
        Xt : array, CSR array or LowRank of shape (n, m)
            The samples.
        W : array of the kernel's kind, shape (m, r), of the type of the samples
            The basis.
        offset : array of the kernel's kind, shape (r,), of the same type, optional
            What is subtracted from each row.
        """

    def Sums(self, m: int, r: int, dtype: Any) -> Sums:
        """Return sums of no samples, of m features of a type with r memberships."""

    def solve_h(
        self,
        Q: NDArray[Any],
        Bt: NDArray[Any],
        a: NDArray[Any],
        Ht0: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return for each row b of Bt the minimiser of 1/2 h'Qh - b'h - sum_k a_k ln h_k on the simplex.

        Parameters
        ----------
        Q : array of shape (r, r), float64
            W'W, positive semidefinite, in squared units of the data.
        Bt : array of shape (n, r), float32 or float64
            Rows x'W, in squared units of the data.
        a : array of shape (r,), float64
            Weights >= 0 of the logarithms, sigma^2 (alpha0 - 1), in squared units of the data.
        Ht0 : array of shape (n, r), optional
            Where to start, rows on the simplex. By default the centre of the simplex.
        out : array of shape (n, r), optional
            Where to write the result. May be ``Ht0`` itself.

        Returns
        -------
        array of shape (n, r), of the type of Bt
            Memberships: all positive, rows sum to one.
        """

    def solve_h_with_gaps(
        self,
        Q: NDArray[Any],
        W: Float,
        gaps: Gaps | NDArray[np.bool_],
        Bt: NDArray[Any],
        a: NDArray[Any],
        Ht0: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]:
        """Return for each row b of Bt the minimiser of 1/2 h'Q_i h - b'h - sum_k a_k ln h_k on the simplex.

        Q_i is the Gram matrix of W over the observed features of sample i: Q less w_j w_j' for each gap j. Where it
        leaves the memberships open, any minimiser is right that does not depend on Ht0.

        Parameters
        ----------
        Q : array of shape (r, r), float64
            W'W, in squared units of the data.
        W : array of shape (m, r), float64
            The basis, about the point that Bt is taken about, in units of the data.
        gaps : Gaps, or array of bool of shape (n, m)
            Which entries are missing.
        Bt : array of shape (n, r), float32 or float64
            Rows x'W over the observed features, in squared units of the data.
        a : array of shape (r,), float64
            Weights >= 0 of the logarithms, sigma^2 (alpha0 - 1), in squared units of the data.
        Ht0 : array of shape (n, r), optional
            Where to start, rows on the simplex. By default the centre of the simplex.
        out : array of shape (n, r), optional
            Where to write the result. May be ``Ht0`` itself.

        Returns
        -------
        array of shape (n, r), of the type of Bt
            Memberships: all positive, rows sum to one.
        """

    def locate(self, mask: NDArray[np.bool_]) -> Gaps:
        """Return the gaps of samples from a mask, shape (n, m), True where an entry is missing."""

    def put(self, Xt: NDArray[Any], gaps: Gaps, values: NDArray[Any]) -> None:
        """Write a number for each feature, shape (m,), into the gaps of samples, shape (n, m), in place."""

    def put_products(self, Xt: NDArray[Any], gaps: Gaps, Ht: NDArray[Any], W: Float, centre: Float) -> None:
        """Write w_j'h + centre_j, what is expected there, into each gap of samples, in place.

        Parameters
        ----------
        Xt : array of shape (n, m), float32 or float64, changed in place
            The samples.
        gaps : Gaps
            Their gaps.
        Ht : array of shape (n, r)
            Their memberships.
        W : array of shape (m, r)
            The basis.
        centre : array of shape (m,)
            What is added.
        """

    def sum_log(self, Ht: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sums over the samples of ln Ht, shape (r,), float64; Ht is of shape (n, r) and positive."""

    def FaceCovariance(self, Q: Float, noise: float) -> FaceCovariance:
        """Return an accumulator without samples.

        Parameters
        ----------
        Q : array of shape (r, r)
            W'W, where W is taken about any origin, in squared units of the data.
        noise : float
            Variance of the noise in the plane of the components, in squared units of the data.
        """

    def GapCovariance(self, Q: Float, W: Float, noise: float) -> GapCovariance:
        """Return an accumulator without samples, for samples with gaps.

        Parameters
        ----------
        Q : array of shape (r, r)
            W'W, in squared units of the data.
        W : array of shape (m, r)
            The basis, about any origin, in units of the data.
        noise : float
            Variance of the noise in the plane of the components, in squared units of the data.
        """
