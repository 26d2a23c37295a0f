"""The estimator: its parameters, and the methods that fit and save it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dbmd._utils.logs import progress_log
from dbmd.config import Config, Inference, NoiseKind
from dbmd.dataset import Dataset, framework_of
from dbmd.estimator._callbacks import CallbackSupportMixin, Task, with_callbacks
from dbmd.estimator._fitting import fit_dataset, update
from dbmd.estimator._learned import usable_attributes
from dbmd.estimator._memberships import check_can_transform
from dbmd.estimator._opening import opened
from dbmd.estimator._prediction import PredictionMixin
from dbmd.model.memory import Memory
from dbmd.model.result import State
from dbmd.saved import directory

__all__ = ["DBMD", "load"]


class DBMD(PredictionMixin, ClusterMixin, CallbackSupportMixin, BaseEstimator):
    """Distributed Bayesian matrix decomposition: soft clusters of samples from sources of different noise.

    Every sample x of source c is a mixture of r basis vectors and noise, x = W h + N(0, sigma_c^2), with h on the
    simplex: its soft membership in r clusters. W has a Laplace prior (sparsity), and each source a noise level of its
    own that is inferred with it, so that noisy sources count for less. W and the noise levels maximise the evidence:
    the memberships are integrated out. ``inference="map"`` is the maximum a posteriori of the paper.

    Parameters
    ----------
    n_components : int, default=8
        Number of clusters, r.
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
        Where the samples are processed: "local", "spark", "dask", or a callable that makes an engine from a list of
        nodes.
    n_nodes : int, optional
        Number of nodes that the samples are divided among; by default one for each thread. The result does not depend
        on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisation. The same seed gives the same result, whatever the number of nodes and threads.
    warm_start : bool, default=False
        Start from the components of the last fit.
    forget_factor : float, default=0.7
        In :meth:`partial_fit`, the weight of earlier batches is multiplied by this, > 0 and <= 1, with each batch; 1
        forgets nothing.
    verbose : int, default=0
        If not 0, log a line for each iteration and each further batch at the level INFO of the logger "dbmd", and print
        it where logging is not configured.
    effective_features : float, optional
        How many features with independent noise of equal variance a sample is worth, with ``inference="evidence"``.
        Estimated by default: real noise is larger along some directions, and these matter most.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, W transposed.
    sources_ : ndarray of shape (n_sources,)
        The labels of the sources.
    noise_variance_ : ndarray of shape (n_sources,)
        sigma^2 of each source.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each sample: its largest membership. Available if the memberships of all samples fit in memory.
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
    fit_info_ : dict
        Facts about the fit: n_samples, seconds, converged, seed, dtype, the fraction of the variance that is explained
        (of all data, and by source), classes, and where the data come from.
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
        n_components: int = 8,
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

    feature_names_in_: NDArray[Any]
    labels_: NDArray[np.intp]
    sources_: NDArray[Any]
    noise_variance_: NDArray[np.float64]
    noise_excess_: NDArray[np.float64]
    components_: NDArray[Any]
    _memory: PastStatistics

    # -- fitting ---------------------------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any = None, *, source: ArrayLike | None = None) -> Self:
        """Estimate components, noise levels and memberships.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features); or anything that :func:`dbmd.open_data` takes
            The samples. CSR stays sparse, float32 stays float32, a memory map stays on disk, and with engine="spark" or
            "dask" a DataFrame or an array of theirs stays on the cluster.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), or str, optional
            The source of each sample, as labels of any kind; for files and DataFrames, the name of the column that has
            them. By default all samples are of one source.

        Returns
        -------
        self : DBMD
        """
        given = {"X": X, "y": y, "metadata": None if source is None else {"source": source}}
        config = Config.of(self)
        with opened(self, X, source, reset=True) as data, progress_log(self.verbose) as log:
            task = Task(self, given, config.n_init * config.max_iter)

            def on_iteration(state: State) -> bool:
                log(_iteration_line(state))
                return task.iteration(partial(usable_attributes, data, state.W, state.sigma2))

            self.fit_data(data, on_iteration=on_iteration)
            task.end(partial(usable_attributes, data, self.components_.T, self.noise_variance_))
        return self

    def fit_data(
        self,
        data: Dataset,
        *,
        resume: State | None = None,
        on_iteration: Callable[[State], object] = lambda state: None,
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

        Returns
        -------
        self : DBMD
        """
        fit_dataset(self, data, resume, on_iteration)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, source: ArrayLike | None = None) -> Self:
        """Fit the first batch of a stream of samples, or update a fitted model with a further batch.

        The first batch is fitted as by :meth:`fit`. A further batch takes two passes: its memberships are computed with
        the present model, then components and noise levels are updated from them and from statistics of earlier
        batches, whose weight decreases with each batch (``forget_factor``). After :meth:`fit`, its data count as the
        first batch. Pickles and copies of a model keep the statistics; a directory written by :meth:`save` does not, so
        that a loaded model continues from its components alone.

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

        Returns
        -------
        self : DBMD
        """
        home = X.framework if isinstance(X, Dataset) else framework_of(X)
        if home is not None:
            raise TypeError(f"partial_fit takes batches that are here, not on {home}. Hand them over one by one.")
        is_first = not hasattr(self, "components_")
        with opened(self, X, source, reset=is_first) as data, progress_log(self.verbose) as log:
            if is_first:
                return self.fit_data(data, on_iteration=lambda state: log(_iteration_line(state)))
            update(self, data)
            log(f"batch {self.n_steps_}: objective {self.objective_:.8g}, {self.fit_info_['seconds']:.2f} s")
        return self

    def fit_transform(self, X: Any, y: Any = None, *, source: ArrayLike | None = None) -> NDArray[Any]:
        """Fit, and return the memberships of the samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), optional
            The source of each sample.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Rows on the simplex.
        """
        check_can_transform(X)
        self.fit(X, source=source)
        return self.transform(X, source=source)

    def fit_predict(self, X: Any, y: Any = None, *, source: ArrayLike | None = None) -> NDArray[np.intp]:
        """Fit, and return the cluster of each sample.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), optional
            The source of each sample.

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        check_can_transform(X)
        self.fit(X, source=source)
        return self.labels_ if hasattr(self, "labels_") else self.predict(X, source=source)

    # -- using a fitted model --------------------------------------------------------------------------------------

    def transform(self, X: Any, *, source: ArrayLike | None = None) -> NDArray[Any]:
        """Return the memberships of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), optional
            Their sources. One that the fit knew has its noise level; that of any other is estimated from these samples.
            Without it the samples are of the one source of the fit, or, if that had several, of an unknown one.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Rows on the simplex.
        """
        return self._transform(X, source)

    def predict(self, X: Any, *, source: ArrayLike | None = None) -> NDArray[np.intp]:
        """Return the cluster of each sample: its largest membership.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), optional
            Their sources, as for :meth:`transform`.

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return self._transform(X, source).argmax(axis=1)

    def predict_proba(self, X: Any, *, source: ArrayLike | None = None) -> NDArray[Any]:
        """Return the memberships of samples, as :meth:`transform` does, for dense data and always as an array.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), optional
            Their sources, as for :meth:`transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        if sparse.issparse(X):
            # scikit-learn's checks take whatever has predict_proba and accepts sparse data for a classifier, and want
            # a column for each class.
            raise TypeError("predict_proba takes no sparse data. Call transform: it returns the same memberships.")
        return self._transform(X, source)

    def inverse_transform(self, H: Any) -> NDArray[Any]:
        """Return the samples that memberships stand for, ``H @ components_``.

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components)
            Memberships.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        H = check_array(H, dtype=[np.float64, np.float32])
        if H.shape[1] != len(self.components_):
            raise ValueError(f"H must have n_components = {len(self.components_)} columns. Got shape {H.shape}.")
        return np.asarray(H @ self.components_)

    def score(self, X: Any, y: Any = None, *, source: ArrayLike | None = None) -> float:
        """Return the mean log-likelihood of the samples, given their memberships.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), optional
            Their sources, as for :meth:`transform`.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        with self._opened(X, source, reset=False) as data:
            sigma2 = self._noise_for(data)
            n, m = data.shape
            W = self.components_.T.astype(float)
            step = partial(sweep, sigma2=sigma2, prior=self._prior, origin=origin_of(W, data.dtype), gather=False)
            with self._engine(data) as engine:
                found = engine.ask(step, W)
        log_likelihood = -0.5 * sum(
            s.squares / sigma2[c] + m * s.n * np.log(2 * np.pi * sigma2[c]) for c, s in found.items()
        )
        return float(log_likelihood / n)

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
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # -- inside ----------------------------------------------------------------------------------------------------

    def _config(self, **changes: Any) -> Config:
        return Config(**{field.name: getattr(self, field.name) for field in fields(Config)} | changes)

    @property
    def _prior(self) -> NDArray[np.float64]:
        alpha = np.asarray(self.alpha, float)
        return np.broadcast_to(alpha, (len(self.components_),)) - 1.0

    def _evidence(self, data: Dataset) -> Evidence | None:
        """Return how the memberships of a dataset are integrated out; None if the model is of ``map``."""
        if not hasattr(self, "noise_excess_"):
            return None
        n, m = data.shape
        known = dict(zip(self.sources_.tolist(), self.noise_excess_, strict=True))
        of_all = m / self.effective_features_
        if data.source_names is not None:
            excess = [known.get(label, of_all) for label in data.source_names.tolist()]
        else:  # without labels, nothing is known of the source, unless there is only one
            excess = list(known.values()) if len(known) == 1 else [of_all]
        return Evidence.of(excess, n, len(self.components_))

    def _keep_excess(self, excess: NDArray[np.float64] | None, sigma2: NDArray[np.float64]) -> None:
        """Set what is known of the noise in the plane of the components, both of shape (n_sources,)."""
        if excess is not None:
            self.noise_excess_ = excess
            self.effective_features_ = self.n_features_in_ / pooled(excess, sigma2)
        elif hasattr(self, "noise_excess_"):
            del self.noise_excess_, self.effective_features_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    @contextmanager
    def _opened(self, X: Any, source: Any, *, reset: bool) -> Iterator[Dataset]:
        """Give samples as a dataset that fits this model; what is opened here is closed in the end."""
        data = self._dataset(X, source, reset=reset)
        try:
            yield data
        finally:
            if data is not X:
                data.close()

    def _dataset(self, X: Any, source: Any, *, reset: bool) -> Dataset:
        """Return samples as a dataset that fits this model."""
        if is_path(X) or framework_of(X) in ("spark", self.engine):
            X, source = self._open(X, source, reset=reset), None
        if not isinstance(X, Dataset):
            X = self._validated(X, reset=reset)
            names, codes = (None, 0) if source is None else number_sources(source, X.shape[0])
            return in_memory(X, names, codes, getattr(self, "feature_names_in_", None))
        if source is not None:
            raise ValueError("A dataset has its own sources: name them in open_data(..., source=).")
        if reset:
            return X
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"The data have {X.shape[1]} features, the model has {self.n_features_in_}.")
        if X.feature_names is not None:
            check_feature_names(list(X.feature_names), list(getattr(self, "feature_names_in_", X.feature_names)))
        return X

    def _open(self, X: Any, source: Any, *, reset: bool) -> Dataset:
        """Return files, or a collection that lives on the engine, as a dataset."""
        names = getattr(self, "feature_names_in_", None)
        columns = None if reset or names is None else list(names)
        if is_path(X):
            # Only a fit is worth a cluster: memberships are computed here.
            engine = self.engine if reset and isinstance(self.engine, str) else "local"
            return open_data(X, source=source, columns=columns, engine=engine)
        framework = framework_of(X)
        if framework != self.engine:
            raise ValueError(f"The data are on {framework}: fit them with engine={framework!r}. Got {self.engine!r}.")
        return open_data(X, source=source, columns=columns, n_nodes=self.n_nodes)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        # Narrow types stay as they are: chunks are converted one by one.
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
        if X.dtype.kind == "f":
            check_finite(X)
        return X

    def _so_far(self, data: Dataset, W: NDArray[Any], sigma2: NDArray[Any]) -> dict[str, Any]:
        """Return the attributes that a model needs to be used."""
        return {"components_": W.T.astype(data.dtype), "noise_variance_": sigma2, "sources_": data.model_sources}

    def _tell(self, state: State) -> None:
        """Print a line about an iteration, if that is wanted."""
        record = state.history[-1]
        if self.verbose:
            print(
                f"[DBMD] iteration {record.iteration}: objective {record.objective:.8g}, "
                f"{record.rounds} rounds, {record.seconds:.2f} s",
                flush=True,
            )

    def _update(self, data: Dataset) -> Self:
        """Take in a further batch."""
        clock, config = time.perf_counter(), self._config()
        r, m = self.components_.shape
        if config.n_components != r:
            raise ValueError(
                f"The 'n_components' parameter of DBMD must not change between batches: the model has {r}. "
                f"Got {config.n_components}."
            )
        sources, numbers = number_among(self.sources_, data.source_names)
        sigma2 = np.resize(self.noise_variance_, len(sources))
        sigma2[numbers] = self._noise_for(data)
        with self._engine(data) as engine:
            result = update(
                engine,
                config,
                getattr(self, "_memory", PastStatistics.of_nothing(m)),
                self.components_.T.astype(float),
                sigma2,
                self._evidence(data),
                numbers=numbers,
                n_classes=0 if data.classes is None else len(data.classes),
                dtype=data.dtype,
            )
            labels = _labels(engine, data, r)
        if result.evidence is not None:
            excess = np.resize(self.noise_excess_, len(sources))
            excess[numbers] = result.evidence.excess
            self._keep_excess(excess, result.sigma2)
        self.n_steps_, self.n_samples_seen_ = self.n_steps_ + 1, self.n_samples_seen_ + data.shape[0]
        self._keep(result, data, sources, np.arange(r), labels, time.perf_counter() - clock)
        if self.verbose:
            seconds = self.fit_info_["seconds"]
            print(f"[DBMD] batch {self.n_steps_}: objective {self.objective_:.8g}, {seconds:.2f} s", flush=True)
        return self

    def _keep(
        self,
        result: Result,
        data: Dataset,
        sources: NDArray[Any],
        order: NDArray[np.intp],
        labels: NDArray[np.intp] | None,
        seconds: float,
    ) -> None:
        """Set what was learned, with the components in an order."""
        self.components_ = result.W.T.astype(data.dtype)[order]
        self.sources_ = sources
        self.noise_variance_ = result.sigma2
        self.profile_ = result.profile.reordered(order)
        self.cluster_sizes_ = self.profile_.sizes.sum(axis=0)
        self.objective_ = result.objective
        self.history_ = result.history
        self.n_iter_ = len(result.history)
        self.fit_info_ = self._info(result, data, seconds)
        self._memory = result.past.reordered(order)
        if hasattr(self, "labels_"):
            del self.labels_
        if labels is not None:
            self.labels_ = np.argsort(order)[labels]

    def _info(self, result: Result, data: Dataset, seconds: float) -> dict[str, Any]:
        """Return what a report tells beside the model itself, ready for JSON."""
        return {
            "n_samples": data.shape[0],
            "seconds": seconds,
            "converged": result.converged,
            "seed": int(self.random_state) if isinstance(self.random_state, int | np.integer) else None,
            "dtype": data.dtype.name,
            "explained": float(result.explained[-1]),
            "explained_by_source": [None if np.isnan(part) else float(part) for part in result.explained[:-1]],
            "classes": None if data.classes is None else data.classes.tolist(),
            "data": None if data.about is None else dict(data.about),
        }

    def _warn_if_unconverged(self, result: Result, config: Config) -> None:
        if not result.converged and self.n_iter_ == config.max_iter:
            warnings.warn(
                f"DBMD did not converge in {config.max_iter} iterations (tol={config.tol}). Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        slow = [record for record in result.history if not record.w_converged]
        if slow:
            warnings.warn(
                f"The solver {config.solver!r} did not converge in {slow[-1].rounds} rounds in {len(slow)} of "
                f"{self.n_iter_} iterations (last change {slow[-1].w_change:.1e}). "
                "Raise max_rounds or tol in solver_options, or take the solver 'exact'.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _transform(self, X: Any, source: Any) -> Any:
        check_is_fitted(self)
        _check_can_transform(X)
        if framework_of(X) == "dask":
            return self._lazy_transform(X, source)
        with self._opened(X, source, reset=False) as data:
            out = np.empty((data.shape[0], len(self.components_)), data.dtype)
            step = partial(write_memberships, sigma2=self.noise_levels(data), prior=self._prior, out=out)
            with LocalEngine(data.nodes(self.n_nodes, len(self.components_))) as engine:
                engine.ask(step, self.components_.T.astype(float))
        return out

    def _lazy_transform(self, X: Any, source: Any) -> Any:
        """Return the memberships of a collection of Dask as a dask.array."""
        if source is None and self._prior.any() and self.noise == "source" and len(self.sources_) > 1:
            raise ValueError(
                f"The model knows {len(self.sources_)} sources: say in source= which samples are of which. A noise "
                "level can be estimated for samples that are here, transform(X.compute()), not for such as are not yet."
            )
        model = DBMD(**self.get_params(deep=False) | {"engine": "local", "n_nodes": 1})
        model.components_, model.sources_, model.noise_variance_ = (
            self.components_,
            self.sources_,
            self.noise_variance_,
        )
        model.n_features_in_ = self.n_features_in_
        names = list(getattr(self, "feature_names_in_", ()))
        return load_module("engines", "dask").map_rows(partial(_rows, model), X, source, names, len(self.components_))

    def noise_levels(self, data: Dataset) -> NDArray[np.float64]:
        """Return the noise levels that the memberships of a dataset are found with.

        Parameters
        ----------
        data : Dataset
            Samples, perhaps of sources that the fit did not know.

        Returns
        -------
        ndarray of shape (n_sources,)
            sigma^2 of each of its sources.
        """
        if not self._prior.any():
            return np.ones(data.n_sources)  # without a prior on H, noise does not move the memberships
        return self._noise_for(data)

    def _noise_for(self, data: Dataset) -> NDArray[np.float64]:
        """Return sigma^2 of each source of a dataset, shape (n_sources,): as known, or estimated."""
        if data.source_names is None and len(self.sources_) == 1:
            return self.noise_variance_
        if not isinstance(self.noise, str) or self.noise == "shared":
            return np.full(data.n_sources, self.noise_variance_[0])
        levels = dict(zip(self.sources_.tolist(), self.noise_variance_, strict=True))
        # Without labels, nothing is known of the source.
        labels = [] if data.source_names is None else data.source_names.tolist()
        sigma2 = np.array([levels.get(label, np.nan) for label in labels] or [np.nan])
        return self._estimate_noise(data, sigma2) if np.isnan(sigma2).any() else sigma2

    def _estimate_noise(self, data: Dataset, sigma2: NDArray[np.float64]) -> NDArray[np.float64]:
        """Fill in what is NaN in sigma2: the objective minimised over it and the memberships, W fixed."""
        W = self.components_.T.astype(float)
        origin, unknown = origin_of(W, data.dtype), np.isnan(sigma2)
        step = partial(sweep, prior=self._prior, evidence=self._evidence(data), origin=origin)
        with self._engine(data) as engine:
            hard = engine.ask(partial(nearest, origin=origin), W)
            noise = Noise.for_data("source", data.n_sources, hard, origin, data.dtype)
            levels = noise.levels(hard.map(lambda s: s.summary(W, origin)), W)
            sigma2 = np.where(unknown, levels, sigma2)
            for _ in range(100):
                before = sigma2
                at = partial(sweep_and_keep, sweep=partial(step, sigma2=sigma2), sigma2=sigma2)
                levels = noise.levels(engine.ask(at, W), W)
                sigma2 = np.where(unknown, levels, sigma2)
                if (abs(sigma2 - before) <= 1e-6 * before).all():
                    break
        return sigma2

    def _engine(self, data: Dataset) -> Any:
        return data.on(data.framework or "local", self.n_nodes, len(self.components_))


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
    return directory.restore(DBMD, path)
