"""What the kernel of the start offers: k-means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dbmd.model.statistics import Float

__all__ = ["Clustering"]


class Clustering(Protocol):
    """k-means of dense samples on the driver, for the start of a fit: the kernel ``cpu``, and ``reference`` to read.

    Functions release the GIL or are short, start no threads and draw nothing.
    """

    def k_means_plus_plus(self, Xt: Float, weights: Float, draws: Float) -> Float:
        """Return r centres, shape (r, m), by greedy k-means++.

        Parameters
        ----------
        Xt : array of shape (n, m), float64, contiguous
            Samples.
        weights : array of shape (n,), float64
            Weight of each in the draws.
        draws : array of shape (r, trials), float64
            Numbers from 0 to 1 that decide the draws. Of the first row only the first counts.
        """

    def k_means(self, Xt: Float, weights: Float, centres: Float, tol: float, max_iter: int) -> tuple[Float, float]:
        """Return centres, shape (r, m), after Lloyd's iterations, and the weighted sum of squared distances to them.

        They end when no sample changes its cluster, or the squared distances that centres move by sum to at most
        ``tol``. The samples that are farthest from their centres move into clusters that are empty.

        Parameters
        ----------
        Xt : array of shape (n, m), float64, contiguous
            Samples, about a point amidst them.
        weights : array of shape (n,), float64
            Weight of each.
        centres : array of shape (r, m), float64, contiguous
            Where to start.
        tol : float
            In squared units of the data.
        max_iter : int
            Most iterations.
        """

    def k_means_attempt(
        self, Xt: Float, weights: Float, draw_by: Float, draws: Float, tol: float, max_iter: int
    ) -> tuple[Float, float]:
        """Return what :meth:`k_means` does from the centres of :meth:`k_means_plus_plus`.

        Parameters
        ----------
        Xt : array of shape (n, m), float64, contiguous
            Samples, about a point amidst them.
        weights, draw_by : array of shape (n,), float64
            Weight of each in a centre, and in the draws.
        draws, tol, max_iter
            As there.
        """

    def sums_of_nearest(self, Xt: Float, weights: Float, centres: Float) -> tuple[Float, Float]:
        """Return the weighted sum of the samples nearest to each centre, shape (r, m), and that of their weights, (r,).

        Parameters
        ----------
        Xt : array of shape (n, m), float64, contiguous
            Samples.
        weights : array of shape (n,), float64
            Weight of each.
        centres : array of shape (r, m), float64, contiguous
            The centres.
        """
