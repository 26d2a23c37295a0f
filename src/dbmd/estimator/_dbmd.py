"""The estimator: its parameters, and the methods that fit and save it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dbmd._utils.logs import log_phase, progress_log
from dbmd._utils.phases import OnPhase, ignore_phase
from dbmd.config import Auto, Config, Inference, Missing, NoiseKind, Scaling, Shares
from dbmd.data.preparation import Preparation
from dbmd.dataset import Dataset, framework_of
from dbmd.estimator._callbacks import CallbackSupportMixin, Task, with_callbacks
from dbmd.estimator._checking import CheckMixin
from dbmd.estimator._choice import Choice
from dbmd.estimator._fitting import fit_dataset, update
from dbmd.estimator._learned import usable_attributes
from dbmd.estimator._number import choice_for, choice_from, config_for
from dbmd.estimator._opening import opened
from dbmd.estimator._prediction import PredictionMixin
from dbmd.estimator._reporting import ReportMixin
from dbmd.estimator._requests import BriefRequestsMixin
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.past import PastStatistics
from dbmd.model.peaks import PeaksOfModel
from dbmd.model.profile import Profile
from dbmd.model.result import Iteration, State
from dbmd.model.uncertainty import Uncertainty
from dbmd.protocols import MakeEngine
from dbmd.saved import directory

__all__ = ["DBMD", "load"]


class DBMD(
    BriefRequestsMixin, PredictionMixin, ReportMixin, CheckMixin, ClusterMixin, CallbackSupportMixin, BaseEstimator
):
    """Distributed Bayesian matrix decomposition: soft clusters of samples from sources of different noise.

    Every sample x of source c is a mixture of r basis vectors and noise, x = W h + N(0, sigma_c^2), with h on the
    simplex: its soft membership in r clusters. W has a Laplace prior (sparsity), and each source a noise level of its
    own that is inferred with it, so that noisy sources count for less. W and the noise levels maximise the evidence:
    the memberships are integrated out. ``inference="map"`` is the maximum a posteriori of the paper.

    Parameters
    ----------
    n_components : int or "auto", default=8
        Number of clusters, r. "auto" chooses it within the fit, from 2 to 12: the largest number such that fits of two
        halves of the data agree on every component (:func:`dbmd.choose_components`). ``n_components_`` and ``choice_``
        say what was found.
    inference : {"evidence", "map"}, default="evidence"
        "evidence" integrates the memberships out to estimate W and the noise levels. "map" maximises the posterior over
        W and all memberships together, as the paper does; the simplex of W then keeps growing until ``tol`` stops it.
    solver : {"exact", "agd", "admm", "cease"}, default="exact"
        How W is computed from the statistics of the nodes. All solvers find the same minimiser: "exact" in one round,
        the others, which are the paper's, in several.
    noise : {"source", "shared"} or float, default="source"
        A noise level for each source, one for all, or a fixed sigma^2 (1.0 is the paper's simplified model).
    alpha : float or array-like of shape (n_components,), default=1.0
        Concentration alpha0 >= 1 of the Dirichlet prior. 1 is uniform on the simplex; larger values pull memberships to
        its centre (2 is what the paper calls alpha = 1). With ``inference="evidence"`` it is 1.
    lam : float, default=0.0
        Weight lambda >= 0 of the L1 norm of W: larger is sparser.
    init : {"k-means++", "k-means||", "random"} or array-like of shape (n_components, n_features), default="k-means++"
        How W is initialised: "k-means++" clusters and fits some thousand samples, "k-means||" clusters all samples,
        "random" draws samples, and an array gives the components. Unless it is an array, and to estimate
        ``effective_features``, some samples are sent to this process.
    n_init : int, default=1
        Number of starts; the fit with the lowest objective is kept.
    max_iter : int, default=200
        Largest number of iterations.
    tol : float, default=2e-3
        Stop when W is estimated to be this close to its limit, relative to the size of its simplex. With
        ``inference="map"``: when the objective decreases by less than this, relative to its misfit and penalty terms.
    solver_options : dict, optional
        Options of the solver: ``tol`` (relative change of W), ``max_rounds``, ``rho`` of "admm", ``gamma`` of "cease".
    engine : str or callable, default="local"
        Where the samples are processed: "local", "gpu", "spark", "dask", or a callable that makes an engine from a list
        of nodes. A model that was fitted with "gpu" computes memberships there, too, where there is a GPU, and else as
        "local" does.
    n_nodes : int, optional
        Number of nodes that the samples are divided among; by default one for each thread, or for each GPU. The result
        does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisation. The same seed gives the same result, whatever the number of nodes and threads.
    warm_start : bool, default=False
        Start from the components of the last fit; with ``n_components="auto"`` their number stays.
    forget_factor : float, default=0.7
        In :meth:`partial_fit`, the weight of earlier batches is multiplied by this, > 0 and <= 1, with each batch; 1
        forgets nothing.
    verbose : int, default=0
        If not 0, log a line for each phase of a fit, each iteration and each further batch at the level INFO of the
        logger "dbmd", and print it where logging is not configured.
    effective_features : float, optional
        How many features with independent noise of equal variance a sample is worth, with ``inference="evidence"``.
        Estimated by default: real noise is larger along some directions, and these matter most.
    scaling : {"standard", "minmax", "sum", "l2"}, optional
        How the data are scaled: features divided by their standard deviation or their range, or samples divided by
        their sum or their Euclidean norm. Nothing is subtracted, so sparse data stay sparse. ``components_`` are in the
        units of the data; noise levels are those of the scaled data.
    log : bool, default=False
        Whether to take log(1 + x) of the data, before they are scaled.
    brightness : bool, default=False
        Whether each sample has a brightness s, 0 <= s <= 1 relative to the brightest, with x = s W h + noise.
    shares : {"simplex", "energy"}, default="simplex"
        With brightness, what memberships are: the coefficients of the components, scaled to sum to one, or these
        multiplied by the norms of the components ("energy"), which does not depend on how components are scaled.
    offsets : bool, default=False
        Whether each source has an offset d_c, with x = W h + d_c + noise: batches, labs, instruments.
    missing : {"error", "allow", "drop"}, default="error"
        What to do with missing values (NaN): refuse them, fit the entries that are there, or leave out samples that
        have any: these get the label -1 and memberships of NaN.
    nonnegative : bool, default=False
        Whether the components have no negative entries: spectra, counts.
    known : array-like of shape (n_known, n_features) or dict of vectors, optional
        Components that are known, in the units of the data: the first rows of ``components_``. The others are found. If
        all are known, only noise levels and memberships are, and ``max_iter`` may be 0. The names in the index of a
        DataFrame, or the keys of a dict, are kept in ``component_names_``; the columns of a DataFrame are matched to
        the features of the data by name, where both have names.
    halves : bool, default=False
        Whether to fit two halves of the data as well, to see which components both of them have (``agreement_``).

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, W transposed, in the units of the data: known components first, then those that were found.
    scaled_components_ : ndarray of shape (n_components, n_features)
        The same in the units of the scaled data, from which memberships are computed. Without ``scaling`` and ``log``
        they are ``components_``.
    components_std_ : ndarray of shape (n_components, n_features)
        Standard deviations of ``components_``, in the same units. Not available with ``inference="map"``, and after
        further batches.
    scale_ : ndarray of shape (n_features,)
        What the features are divided by, if ``scaling`` is "standard" or "minmax".
    component_names_ : ndarray of str of shape (n_components,)
        Names of the components, if ``known`` has names; those that were found are "pattern 1", "pattern 2", ...
    offsets_ : ndarray of shape (n_sources, n_features)
        The offset of each source, with ``offsets=True``: in the units of the data, but with ``log``, or samples that
        are divided by their sum or norm, in those of the scaled data.
    agreement_ : ndarray of shape (n_components,)
        With ``halves=True``, the correlation of the memberships in each component between fits of two halves of the
        data: near 1 for a component that does not depend on which samples were seen. A further batch removes it.
    n_components_ : int
        The number of components, as given or as chosen.
    choice_ : Choice
        With ``n_components="auto"``, how the number was chosen: the numbers that were ``tried``, the ``agreement`` of
        halves for each, the variance ``explained``, and a ``sentence`` that says what it means. If ``is_stable`` is
        False, halves of the data agree on no number of components, and the smallest was taken.
    offset_variance_ : float
        The variance of the prior of offsets, in the units of the scaled data.
    sources_ : ndarray of shape (n_sources,)
        The labels of the sources.
    noise_variance_ : ndarray of shape (n_sources,)
        sigma^2 of each source, in the units of the scaled data (``fit_info_["noise_unit"]``).
    labels_ : ndarray of shape (n_samples,)
        The cluster of each sample: its largest membership; -1 if it was left out (``missing="drop"``). Available if the
        memberships of all samples fit in memory. An array of NumPy, as all attributes, wherever the samples are.
    cluster_sizes_ : ndarray of shape (n_components,)
        Sums of the memberships. Clusters are numbered by size, the largest first, unless ``init`` is an array or the
        fit continues another one; clusters that are no sample's largest membership come last.
    objective_ : float
        The negative log evidence J (docs/model.md), or with ``inference="map"`` the negative log posterior, up to
        constants, at the components and noise levels of this model.
    effective_features_ : float
        As given or estimated; not available with ``inference="map"``.
    noise_excess_ : ndarray of shape (n_sources,)
        For each source the variance of its noise in the plane of the components, relative to its mean over all
        directions. The number of features divided by its mean, weighted by precision, is ``effective_features_``.
    history_ : list of Iteration
        For each iteration: iteration, objective, seconds, rounds, floats_up, floats_down, ...
    n_iter_ : int
        Number of iterations.
    n_steps_ : int
        Number of batches; a fit takes its data as one.
    n_samples_seen_ : int
        Number of samples in all of them.
    profile_ : Profile
        A summary of the memberships: counts, sizes and histograms for each source and cluster, and how the clusters
        agree with known classes.
    membership_sample_ : MembershipSample
        Memberships of up to 3,000 samples, of all sources alike, with their standard deviations (for the components as
        they are), row numbers, sources and known classes.
    fit_info_ : dict
        Facts about the fit: n_samples, seconds, converged, seed, dtype, the fraction of the variance that is explained
        (of all data, and by source), classes, where the data come from, what noise levels are measured in,
        and ``warnings``, what was warned of.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if the data had any.

    References
    ----------
    .. [1] C. Zhang, Y. Yang, W. Zhou, S. Zhang, Distributed Bayesian matrix decomposition for big data mining
       and clustering, IEEE TKDE 2020.

    Examples
    --------
    Two sources of the same digits, one of them noisy:

    >>> import numpy as np
    >>> from dbmd import DBMD
    >>> from sklearn.datasets import load_digits
    >>> X = load_digits().data
    >>> source = np.arange(len(X)) % 2
    >>> X = X + np.random.default_rng(0).normal(size=X.shape) * np.where(source, 8.0, 0.0)[:, None]
    >>> model = DBMD(n_components=10, random_state=0).fit(X, source=source)
    >>> np.sqrt(model.noise_variance_).round(1)
    array([2.8, 8.3])
    """

    def __init__(
        self,
        n_components: int | Auto = 8,
        *,
        inference: Inference = "evidence",
        solver: str = "exact",
        noise: NoiseKind | float = "source",
        alpha: float | ArrayLike = 1.0,
        lam: float = 0.0,
        init: str | ArrayLike = "k-means++",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 2e-3,
        solver_options: Mapping[str, Any] | None = None,
        engine: str | MakeEngine = "local",
        n_nodes: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        forget_factor: float = 0.7,
        verbose: int = 0,
        effective_features: float | None = None,
        scaling: Scaling | None = None,
        log: bool = False,
        brightness: bool = False,
        shares: Shares = "simplex",
        offsets: bool = False,
        missing: Missing = "error",
        nonnegative: bool = False,
        known: Any = None,
        halves: bool = False,
    ) -> None:
        self.n_components = n_components
        self.inference = inference
        self.solver = solver
        self.noise = noise
        self.alpha = alpha
        self.lam = lam
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.solver_options = solver_options
        self.engine = engine
        self.n_nodes = n_nodes
        self.random_state = random_state
        self.warm_start = warm_start
        self.forget_factor = forget_factor
        self.verbose = verbose
        self.effective_features = effective_features
        self.scaling = scaling
        self.log = log
        self.brightness = brightness
        self.shares = shares
        self.offsets = offsets
        self.missing = missing
        self.nonnegative = nonnegative
        self.known = known
        self.halves = halves

    n_features_in_: int
    feature_names_in_: NDArray[Any]
    components_: NDArray[Any]
    component_names_: NDArray[Any]
    labels_: NDArray[np.intp]
    cluster_sizes_: NDArray[np.float64]
    sources_: NDArray[Any]
    noise_variance_: NDArray[np.float64]
    noise_excess_: NDArray[np.float64]
    effective_features_: float
    scale_: NDArray[np.float64]
    offsets_: NDArray[np.float64]
    offset_variance_: float
    agreement_: NDArray[np.float64]
    choice_: Choice
    objective_: float
    history_: list[Iteration]
    n_iter_: int
    n_steps_: int
    n_samples_seen_: int
    profile_: Profile
    _membership_sample: MembershipSample | PeaksOfModel
    fit_info_: dict[str, Any]
    _past: PastStatistics
    _uncertainty: Uncertainty
    _w_errors: NDArray[np.float64]
    _preparation: Preparation
    _scaled_components: NDArray[Any]
    _scaled_offsets: NDArray[np.float64]

    # -- fitting ---------------------------------------------------------------------------------------------------

    @with_callbacks
    def fit(
        self, X: Any, y: Any = None, *, source: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Estimate components, noise levels and memberships.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features); or anything that :func:`dbmd.open_data` takes
            The samples. CSR stays sparse, float32 stays float32, a memory map stays on disk, and with engine="spark" or
            "dask" a DataFrame or an array of theirs stays on the cluster. With engine="gpu", arrays of CuPy, and those
            of other libraries in the memory of the GPU, stay there. Of an AnnData, all variables of ``X`` are taken;
            ``open_data(adata, layer=..., hvg=True)`` takes others.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), or str, optional
            The source of each sample, as labels of any kind; for files and DataFrames, the name of the column that has
            them. By default all samples are of one source.
        sample_weight : array-like of shape (n_samples,), or str, optional
            How often each sample counts, >= 0; for files and DataFrames, the name of the column that says so. A weight
            of 2 is as good as the same sample twice, a weight of 0 as if it were not there.

        Returns
        -------
        self : DBMD
        """
        metadata = {"source": source, "sample_weight": sample_weight}
        metadata = {name: value for name, value in metadata.items() if value is not None}
        given = {"X": X, "y": y, "metadata": metadata or None}
        Config.of(self)  # what is wrong with the parameters is said before the data are touched
        with opened(self, X, source, sample_weight, reset=True) as data, progress_log(self.verbose) as log:
            on_phase = partial(log_phase, log)
            choice = choice_for(self, data, on_phase)
            config = config_for(self, choice)
            task = Task(self, given, config.n_init * config.max_iter)

            parts, preparation = config.parts(data.n_sources), None

            def on_preparation(found: Preparation | None) -> None:
                nonlocal preparation
                preparation = found

            def on_iteration(state: State) -> bool:
                log(_iteration_line(state))
                W, D = parts.components(state.V).T, parts.offsets(state.V).T if parts.n_offsets else None
                return task.iteration(partial(usable_attributes, data, W, state.sigma2, D, preparation))

            fit_dataset(self, data, None, on_iteration, on_preparation, on_phase, choice)
            found = self.scaled_components_, self.noise_variance_, getattr(self, "_scaled_offsets", None)
            task.end(partial(usable_attributes, data, *found, preparation))
        return self

    def fit_data(
        self,
        data: Dataset,
        *,
        resume: State | None = None,
        on_iteration: Callable[[State], object] = lambda state: None,
        on_phase: OnPhase = ignore_phase,
        choice: Choice | None = None,
    ) -> Self:
        """Fit a dataset, or resume an interrupted fit of it.

        Parameters
        ----------
        data : Dataset
            From :func:`dbmd.open_data`.
        resume : State, optional
            The state of the interrupted fit.
        on_iteration : callable
            Called with the state after each iteration; the fit stops when it returns a true value.
        on_phase : callable
            Called with what is done next, in words, as ``on_phase(phase)``, and in a phase that has iterations of its
            own as ``on_phase(phase, iteration)``.
        choice : Choice, optional
            With ``n_components="auto"``, how the number was chosen, from :func:`dbmd.choose_components`: it is not
            chosen again.

        Returns
        -------
        self : DBMD
        """
        fit_dataset(self, data, resume, on_iteration, on_phase=on_phase, choice=choice)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, source: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the first batch of a stream of samples, or update a fitted model with a further batch.

        The first batch is fitted as by :meth:`fit`. A further batch takes two passes: its memberships are computed with
        the present model, then components and noise levels are updated from them and from statistics of earlier
        batches, whose weight decreases with each batch (``forget_factor``). After :meth:`fit`, its data count as the
        first batch. Pickles and copies of a model keep the statistics; a directory written by :meth:`save` does not, so
        that a loaded model continues from its components alone. All batches are scaled as the first.

        Labels, sizes, objective and ``fit_info_`` are those of the last batch.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features); or what :func:`dbmd.open_data` takes
            The samples of the batch, in memory or in files. The first batch has at least ``n_components``.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), or str, optional
            The source of each sample, as for :meth:`fit`. New sources are appended to ``sources_``; a source that is
            not in the batch keeps its noise level, unless there is one level for all.
        sample_weight : array-like of shape (n_samples,), or str, optional
            How often each sample counts, as for :meth:`fit`.

        Returns
        -------
        self : DBMD
        """
        home = X.framework if isinstance(X, Dataset) else framework_of(X)
        if home not in (None, "gpu"):
            raise TypeError(f"partial_fit takes batches that are here, not on {home}. Hand them over one by one.")
        is_first = not hasattr(self, "components_")
        with opened(self, X, source, sample_weight, reset=is_first) as data, progress_log(self.verbose) as log:
            if is_first:
                on_phase = partial(log_phase, log)
                return self.fit_data(data, on_iteration=lambda state: log(_iteration_line(state)), on_phase=on_phase)
            update(self, data)
            log(f"batch {self.n_steps_}: objective {self.objective_:.8g}, {self.fit_info_['seconds']:.2f} s")
        return self

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the fitted model to a directory: ``model.json`` and ``arrays.npz``, no pickle.

        The directory is written under a temporary name and renamed, so that a process that is killed leaves either the
        old model or the new one. The statistics of earlier batches (:meth:`partial_fit`) are not saved.

        Parameters
        ----------
        path : str or Path
            The directory.
        overwrite : bool, default=False
            Whether an existing model may be replaced.

        Returns
        -------
        Path
            The directory. :func:`dbmd.load` reads it.
        """
        check_is_fitted(self)
        return directory.save(self, path, overwrite=overwrite)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # -- inside ----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "_membership_sample" in state:
            state["_membership_sample"] = self.membership_sample_  # what it follows from may be other in later releases
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        renamed = {"_memory": "_past", "membership_sample_": "_membership_sample"}  # as early pickles have them
        later = {field.name: field.default for field in fields(Config)} | {"inference": "map"}  # the first had no other
        super().__setstate__(later | {renamed.get(name, name): value for name, value in state.items()})


def _iteration_line(state: State) -> str:
    """Return a line about the last iteration."""
    last = state.history[-1]
    return f"iteration {last.iteration}: objective {last.objective:.8g}, {last.rounds} rounds, {last.seconds:.2f} s"


def load(path: str | Path) -> DBMD:
    """Load a model that :meth:`DBMD.save` or ``dbmd fit`` wrote. Never runs code from the files.

    Parameters
    ----------
    path : str or Path
        The directory.

    Returns
    -------
    DBMD
        Fitted.
    """
    return directory.restore(DBMD, path, choice_from)
