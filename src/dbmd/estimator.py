"""The scikit-learn face."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from dbmd.algorithm import fit
from dbmd.callbacks import CallbackSupportMixin, Task, with_callbacks
from dbmd.config import Config
from dbmd.data import partition
from dbmd.engines.local import Engine as LocalEngine
from dbmd.engines.local import available_threads
from dbmd.model.noise import Noise
from dbmd.model.start import nearest
from dbmd.registry import load
from dbmd.result import Iteration, Result
from dbmd.sweep import memberships, origin_of, sweep

__all__ = ["DBMD"]


class DBMD(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, CallbackSupportMixin, BaseEstimator):
    """Distributed Bayesian matrix decomposition: soft clusters of samples from sources of different noise.

    Every sample x of source c is a mixture of r basis vectors and noise, x = W h + N(0, sigma_c^2), with h on the
    simplex: its soft membership in r clusters. W has a Laplace prior (sparsity), h a Dirichlet prior, and each source
    a noise level of its own that is inferred with them, so that noisy sources count for less. The fit is the maximum
    a posteriori, found by alternating exact minimisations; the objective never rises.

    Parameters
    ----------
    n_components : int, default=8
        Number of clusters, r.
    solver : {"exact", "agd", "admm", "cease"}, default="exact"
        How W is found from the statistics of the nodes. All find the same minimiser: "exact" in one round, the others,
        which are the paper's, in several.
    noise : {"source", "shared"} or float, default="source"
        A noise level for each source, one for all, or a fixed sigma^2 (1.0 is the paper's simplified model).
    alpha : float or array-like of shape (n_components,), default=1.0
        Concentration alpha0 >= 1 of the Dirichlet prior. 1 is uniform on the simplex; larger values pull memberships to
        its centre (2 is what the paper calls alpha = 1).
    lam : float, default=0.0
        Weight lambda >= 0 of the L1 norm of W: larger is sparser.
    init : {"k-means||", "random"} or array-like of shape (n_components, n_features), default="k-means||"
        Where W starts: k-means||, random samples, or given.
    n_init : int, default=1
        Number of starts; the fit with the lowest objective is kept.
    max_iter : int, default=200
        Largest number of iterations.
    tol : float, default=1e-3
        Stop when the objective falls by less than this, relative to its misfit and penalty terms.
    solver_options : dict, optional
        Options of the solver: ``tol`` (relative change of W), ``max_rounds``, ``rho`` of "admm", ``gamma`` of "cease".
    engine : str or callable, default="local"
        Where the nodes live: a name, or a callable that makes an engine of a list of nodes.
    n_nodes : int, optional
        Into how many nodes the samples are cut; by default one for each thread. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the start. One seed gives one result, whatever the number of nodes and threads.
    warm_start : bool, default=False
        Start from the components of the last fit.
    verbose : int, default=0
        Print a line for each iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The basis, W transposed.
    sources_ : ndarray of shape (n_sources,)
        The labels of the sources.
    noise_variance_ : ndarray of shape (n_sources,)
        sigma^2 of each source.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each sample: its largest membership.
    cluster_sizes_ : ndarray of shape (n_components,)
        Sums of the memberships.
    objective_ : float
        Negative log posterior, up to constants, at the components, noise levels and memberships of this model.
    history_ : list of Iteration
        For each iteration: iteration, objective, seconds, rounds, floats_up, floats_down, ...
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
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
    array([2.3, 7.8])
    """

    def __init__(
        self,
        n_components: int = 8,
        *,
        solver: str = "exact",
        noise: Literal["source", "shared"] | float = "source",
        alpha: float | ArrayLike = 1.0,
        lam: float = 0.0,
        init: str | ArrayLike = "k-means||",
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-3,
        solver_options: Mapping[str, Any] | None = None,
        engine: Any = "local",
        n_nodes: int | None = None,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
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
        self.verbose = verbose

    sources_: NDArray[Any]
    noise_variance_: NDArray[np.float64]
    components_: NDArray[Any]

    # -- fitting ---------------------------------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any = None, *, source: ArrayLike | None = None) -> Self:
        """Find components, noise levels and memberships.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples. CSR stays sparse, float32 stays float32, a memory map stays on disk.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), optional
            The source of each sample, any labels. Without it all samples are of one source.

        Returns
        -------
        self : DBMD
        """
        config = self._config()
        given = {"X": X, "y": y, "metadata": None if source is None else {"source": source}}
        X = self._validated(X, reset=True)
        n, m = X.shape
        if config.n_components > n:
            raise ValueError(
                f"The 'n_components' parameter of DBMD must be at most the number of samples. "
                f"Got n_components={config.n_components} with n_samples = {n}."
            )
        labels, codes = _number_sources(source, n)
        start = None
        if self.warm_start and hasattr(self, "components_"):
            config = self._config(init=self.components_)
            W = config.start(m)
            if W is not None and np.array_equal(labels, self.sources_):
                start = W, self.noise_variance_
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        task = Task(self, given, config.n_init * config.max_iter)

        def fitted(W: NDArray[Any], sigma2: NDArray[Any]) -> dict[str, Any]:
            return {"components_": W.T.astype(X.dtype), "noise_variance_": sigma2, "sources_": labels}

        def on_iteration(record: Iteration, W: NDArray[Any], sigma2: NDArray[Any]) -> bool:
            if self.verbose:
                print(
                    f"[DBMD] iteration {record.iteration}: objective {record.objective:.8g}, "
                    f"{record.rounds} rounds, {record.seconds:.2f} s",
                    flush=True,
                )
            return task.iteration(partial(fitted, W, sigma2))

        make_engine = load("engines", config.engine).Engine if isinstance(config.engine, str) else config.engine
        with make_engine(partition(X, codes, config.n_nodes or available_threads())) as engine:
            result = fit(
                engine,
                config,
                n_sources=len(labels),
                n_features=m,
                dtype=X.dtype,
                seed=seed,
                start=start,
                on_iteration=on_iteration,
            )
            found = _collect_labels(engine.nodes, n)
        if isinstance(config.init, str) and np.ndim(config.alpha) == 0:
            result, found = _used_first(result, found)
        self.labels_, self.sources_ = found, labels
        self._keep(result, X.dtype)
        task.end(partial(fitted, result.W, result.sigma2))
        self._warn_if_unconverged(result, config)
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
        self.fit(X, source=source)
        return self.transform(X, source=source)

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
        """Return the samples that memberships stand for, H @ components_.

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
        X = self._validated(X, reset=False)
        codes, sigma2 = self._noise_for(X, source)
        n, m = X.shape
        W = self.components_.T.astype(float)
        step = partial(sweep, sigma2=sigma2, prior=self._prior, origin=origin_of(W, X.dtype), gather=False)
        with LocalEngine(partition(X, codes, self.n_nodes or available_threads())) as engine:
            found = engine.ask(step, W)
        log_likelihood = -0.5 * sum(
            s.squares / sigma2[c] + m * s.n * np.log(2 * np.pi * sigma2[c]) for c, s in found.items()
        )
        return float(log_likelihood / n)

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

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
        _check_finite(X)
        return X

    def _keep(self, result: Result, dtype: np.dtype[Any]) -> None:
        self.components_ = result.W.T.astype(dtype)
        self.noise_variance_ = result.sigma2
        self.cluster_sizes_ = result.sizes
        self.objective_ = result.objective
        self.history_ = result.history
        self.n_iter_ = len(result.history)

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

    def _transform(self, X: Any, source: ArrayLike | None) -> NDArray[Any]:
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        codes, sigma2 = self._noise_for(X, source)
        out = np.empty((X.shape[0], len(self.components_)), X.dtype)
        with LocalEngine(partition(X, codes, self.n_nodes or available_threads())) as engine:
            engine.ask(
                partial(memberships, sigma2=sigma2, prior=self._prior, out=out),
                self.components_.T.astype(float),
            )
        return out

    def _noise_for(self, X: Any, source: ArrayLike | None) -> tuple[Any, NDArray[np.float64]]:
        """Return the number of each sample's source and the noise levels by these numbers."""
        if source is None and len(self.sources_) == 1:
            return 0, self.noise_variance_
        labels, codes = _number_sources(source, X.shape[0])
        if not isinstance(self.noise, str) or self.noise == "shared":
            return codes, np.full(len(labels), self.noise_variance_[0])
        levels = dict(zip(self.sources_.tolist(), self.noise_variance_, strict=True))
        # Without labels, nothing is known of the source.
        known = np.array([source is not None and label in levels for label in labels.tolist()])
        sigma2 = np.array([levels.get(label, np.nan) for label in labels.tolist()])
        for c in np.flatnonzero(~known):
            rows = slice(None) if isinstance(codes, int) else np.flatnonzero(codes == c)
            sigma2[c] = self._estimate_noise(X[rows])
        return codes, sigma2

    def _estimate_noise(self, X: Any) -> float:
        """Return sigma^2 of samples of a new source: the objective minimised over it and the memberships, W fixed."""
        W = self.components_.T.astype(float)
        m, origin = len(W), origin_of(W, X.dtype)
        step = partial(sweep, prior=self._prior, origin=origin, gather=False)
        with LocalEngine(partition(X, 0, self.n_nodes or available_threads())) as engine:
            hard = engine.ask(partial(nearest, origin=origin), W)
            noise = Noise.for_data("shared", 1, hard, X.dtype)
            sigma2 = noise.levels(hard.map(lambda s: s.summary(W, origin)), m)
            for _ in range(100):
                before = sigma2
                found = engine.ask(partial(step, sigma2=sigma2), W)
                sigma2 = noise.levels(found, m)
                if abs(sigma2[0] - before[0]) <= 1e-6 * before[0]:
                    break
        return float(sigma2[0])


def _used_first(result: Result, labels: NDArray[np.intp]) -> tuple[Result, NDArray[np.intp]]:
    """Move components that are no sample's largest behind the others, so that the labels in use are consecutive."""
    unused = np.bincount(labels, minlength=len(result.sizes)) == 0
    order = np.argsort(unused, kind="stable")
    moved = replace(result, W=result.W[:, order], sizes=result.sizes[order])
    return moved, np.argsort(order)[labels]


def _number_sources(source: ArrayLike | None, n: int) -> tuple[NDArray[Any], NDArray[np.intp] | int]:
    """Return the sorted labels of the sources, and the number of each sample's own (one int if there is but one)."""
    if source is None:
        return np.array([0]), 0
    values = np.asarray(source)
    if isinstance(source, list | tuple) and len({type(label) for label in source}) > 1:
        values = np.array(source, dtype=object)  # else NumPy would make text of everything
    if values.shape != (n,):
        raise ValueError(
            f"source must have one label for each of the {n} samples, shape ({n},). Got shape {values.shape}."
        )
    if values.dtype.kind == "O":
        missing = [i for i, label in enumerate(values) if _is_missing(label)]
    else:
        missing = np.flatnonzero(values != values).tolist()
    if missing:
        raise ValueError(
            f"source must have no missing labels. Got {values[missing[0]]} for sample {missing[0]} "
            f"and {len(missing) - 1} more."
        )
    try:
        labels, codes = np.unique(values, return_inverse=True)
    except TypeError:
        raise TypeError(
            "source must have labels of one kind that can be sorted. "
            f"Got {', '.join(sorted({type(v).__name__ for v in values.tolist()}))}."
        ) from None
    return labels, codes.astype(np.intp) if len(labels) > 1 else 0


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA knows not whether it equals itself
        return True


def _check_finite(X: Any) -> None:
    """Raise a ValueError that names the first entry that is not a finite number."""
    values = X.data if sparse.issparse(X) else X
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # one fast pass; a sum may also overflow, then look closer
            return
    if sparse.issparse(X):
        entries = np.flatnonzero(~np.isfinite(values))
        if len(entries):
            row = int(np.searchsorted(X.indptr, entries[0], side="right")) - 1
            _raise_not_finite(values[entries[0]], row, int(X.indices[entries[0]]))
        return
    for start in range(0, len(X), 4096):
        bad = np.argwhere(~np.isfinite(X[start : start + 4096]))
        if len(bad):
            row, column = int(bad[0][0]) + start, int(bad[0][1])
            _raise_not_finite(X[row, column], row, column)


def _raise_not_finite(value: Any, row: int, column: int) -> None:
    name = "NaN" if np.isnan(value) else "infinity (inf)"
    raise ValueError(
        f"Input X contains {name} in row {row}, column {column}. DBMD takes finite numbers only: "
        "drop or impute such rows first."
    )


def _collect_labels(nodes: list[Any], n: int) -> NDArray[np.intp]:
    """Return the largest membership of every sample, from the last sweep of local nodes."""
    labels = np.empty(n, np.intp)
    for node in nodes:
        own = labels[node.block.first_row :][: len(node.Ht)]
        own[node.block.rows_at(slice(0, len(node.Ht)))] = node.Ht.argmax(axis=1)
    return labels
