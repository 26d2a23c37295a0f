"""What plug-ins must offer: engines, solvers, kernels and file formats.

A plug-in is one module in ``dbmd.engines``, ``dbmd.solvers``, ``dbmd.kernels`` or ``dbmd.data.formats``. The name of
the module is the name of the plug-in, and the suites ``test_conformance.py`` test every plug-in that they find there.

Shapes use the letters of the model: m features, r components, n samples, n_i samples of node i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dbmd.data.formats import Reader
    from dbmd.data.location import Location
    from dbmd.model.gaps import Gaps
    from dbmd.model.node import Node
    from dbmd.model.problem import Problem
    from dbmd.model.statistics import Float, SampleSums
    from dbmd.solvers import WStep

__all__ = [
    "Ask",
    "Cluster",
    "Engine",
    "FaceCovariance",
    "Format",
    "GapCovariance",
    "Kernel",
    "NodeFunction",
    "Placement",
    "Session",
    "Solver",
    "Sums",
]

Reply = TypeVar("Reply")
Reply_co = TypeVar("Reply_co", covariant=True)

# -- the algorithm -------------------------------------------------------------------------------------------------


class NodeFunction(Protocol[Reply_co]):
    """A function that an engine runs at every node.

    It must be picklable (a function of a module, or a ``functools.partial`` of one) and must not change its arguments.
    It may rely on ``node.block`` only: everything else at a node is a cache that may be lost. A function that needs the
    cache is marked with :func:`dbmd.model.node.continues`.
    """

    def __call__(self, node: Node, /, *broadcast: Any, **options: Any) -> tuple[Node, Reply_co]:
        """Return the node with its cache renewed, and a reply.

        Parameters
        ----------
        node : Node
            Some of the samples, and a cache.
        *broadcast : arrays
            What the driver sends to all nodes, usually W of shape (m, r). Their entries are counted as traffic.
        **options
            Parameters that are bound by ``functools.partial``. They are not counted.

        Returns
        -------
        Node
            The same node, or one with another cache; its block is the same.
        reply
            Anything that supports ``+`` and pickling. Replies of a size that does not depend on the number of samples
            are what makes an engine scale.
        """


class Ask(Protocol):
    """The one verb between the driver and the nodes: the method ``ask`` of an engine."""

    def __call__(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run ``node_function(node, *broadcast)`` at every node and return the sum of the replies.

        Replies are added in the order of the nodes, so that the sum does not depend on which node is the first to
        reply. An exception in a node function is raised here, with a note that names the node.
        """


class Engine(Protocol):
    """Where the nodes are: threads, or the workers of a cluster.

    An engine is a module with a class ``Engine`` that satisfies this Protocol and is made from a list of nodes,
    ``Engine(nodes)``. It keeps the node that a function returns and passes it to the next function. It may lose
    everything but the block of a node; then it must run a function that :func:`~dbmd.model.node.continues` only after
    the functions that filled the cache (:mod:`dbmd.engines._remote` does this for engines whose nodes are in other
    processes).

    An engine with a faster processor than the driver's may lend it: ``engine.work_on(Xt, work, there)`` returns
    ``work(Xt)``, where work takes dense samples of the driver as an array of any kind, and returns arrays of NumPy;
    ``there`` are the same samples where the engine computes, or None. Others have no such method.
    """

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""

    def ask(self, node_function: NodeFunction[Reply], /, *broadcast: Any) -> Reply:
        """Run a function at every node and return the sum of the replies; see :class:`Ask`."""

    def close(self) -> None:
        """Release all that the engine holds. It is not used again."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...


MakeEngine = Callable[[list["Node"]], Engine]


class Solver(Protocol):
    """A method for the W-step: a module of :mod:`dbmd.solvers`.

    It solves (P),  min_W sum_i f_i(W) + lam ||W||_1,  where f_i, the term of node i, is ``node.quadratic``. Columns of
    W may have a lam of their own, and some may have to be nonnegative: ``problem.penalty.proximal`` takes care of both.
    """

    @property
    def GATHERS(self) -> bool:
        """Whether the driver has all statistics after a pass (True), or they stay at the nodes (False)."""

    def solve(
        self,
        W: Float,
        ask: Ask,
        problem: Problem,
        *,
        tol: float = ...,
        max_rounds: int = ...,
        on_round: Callable[[Float], object] = ...,
    ) -> WStep:
        """Return the minimiser of (P). A method may have further parameters, as keywords with defaults.

        Parameters
        ----------
        W : array of shape (m, r)
            Where to start.
        ask : Ask
            Runs a function at the nodes, which have ``node.quadratic``. If the solver gathers, there is one node with
            the sum of all terms.
        problem : Problem
            What the driver knows of (P).
        tol : float
            Relative change of W at which to stop.
        max_rounds : int
            Largest number of rounds over the nodes.
        on_round : callable
            To be called with W after each round.

        Returns
        -------
        WStep
        """


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


class Passed(NamedTuple):
    """What a :class:`Pass` finds.

    Attributes
    ----------
    sums : SampleSums
        Over the samples and their memberships.
    covariance : tuple, optional
        Sums of the covariances of the memberships, see :meth:`FaceCovariance.total`.
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


# -- data ---------------------------------------------------------------------------------------------------------


class Format(Protocol):
    """A file format: a module of :mod:`dbmd.data.formats`."""

    @property
    def SUFFIXES(self) -> tuple[str, ...]:
        """Endings of file names, with the dot and in lower case: ``(".csv", ".csv.gz")``. No two formats share one."""

    def open_file(
        self,
        location: Location,
        /,
        *,
        header: bool | None = ...,
        delimiter: str | None = ...,
        transpose: bool = ...,
        memory: int = ...,
    ) -> Reader:
        """Open a file and return a reader, which can be pickled and read by several threads at once.

        Parameters
        ----------
        location : Location
            The file, on this machine or elsewhere: ``location.open()`` returns it open for reading.
        header : bool or None
            Whether the first line has the names of the columns; None: to be found out. Only csv needs it.
        delimiter : str or None
            What separates fields; None: to be found out. Only csv needs it.
        transpose : bool
            Whether the file has features in rows and samples in columns. A format that can read columns one after the
            other returns a reader with ``is_transposed``; of any other, the table is held in memory and transposed.
        memory : int
            Bytes. A damaged file may claim any size: before something of that size is allocated, it must be compared
            with this. A format takes the keywords that it needs, and ``**hints``, which it ignores.

        Returns
        -------
        Reader
            A subclass of :class:`dbmd.data.formats.Reader` with ``columns`` and ``_batches``.

        Raises
        ------
        DataError
            If the file cannot be read: with its name, what is wrong, and a remedy. Errors of libraries may pass: the
            caller turns them into a DataError.
        """


class Session(Protocol):
    """A connection to a cluster: the user's own, or one that was started and ends with :meth:`close`."""

    @property
    def n_cores(self) -> int:
        """Number of tasks that run at once."""

    def read(self, paths: Any, /) -> Any:
        """Return the collection of files that only the cluster can read; other paths as they are."""

    def close(self) -> None:
        """Close the connection, and end the cluster if it was started for it."""


class Placement(Protocol):
    """Nodes that were made on the workers of a cluster, one for each partition of a collection."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""

    def engine(self) -> Engine:
        """Return an engine on these nodes. Closing it leaves the nodes where they are."""

    def close(self) -> None:
        """Release the nodes."""


class Cluster(Protocol):
    """An engine whose collections can be fitted where they are: a module of :mod:`dbmd.engines`.

    It has the class ``Engine`` of every engine, and what follows.
    """

    def Session(self) -> Session:
        """Return a connection to the cluster that is in use, or to a new one on this machine."""

    def columns_of(self, data: Any, /) -> Mapping[str, str] | None:
        """Return for each column of a DataFrame "number", "vector", or the name of its type; None for arrays."""

    def distribute(
        self,
        data: Any,
        to_node: Callable[..., Node],
        /,
        *,
        n_nodes: int | None,
        names: Sequence[str] = ...,
        sources: Any = ...,
        weights: Any = ...,
    ) -> Placement:
        """Make a node of each partition of a collection, on the worker that has or computes it.

        Parameters
        ----------
        data : collection
            A DataFrame, or whatever arrays the cluster has.
        to_node : callable
            ``to_node(table, index)`` makes a node of a ``pyarrow.Table``, ``to_node(array, index, sources, weights)``
            of an array of shape (n_i, m). It runs on the workers. What it raises is raised here.
        n_nodes : int or None
            Number of nodes; None: one for each partition.
        names : sequence of str
            The columns of a DataFrame that are needed. Empty for arrays.
        sources : array of shape (n,), optional
            The source of each row of an array.
        weights : array of shape (n,), optional
            The weight of each row of an array.
        """
