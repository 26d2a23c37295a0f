"""The parameters of a fit: one table, checked once, that every interface is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import signature
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbmd.model.known import Known
from dbmd.model.parts import Parts
from dbmd.model.start import STARTS
from dbmd.protocols import MakeEngine
from dbmd.registry import load, names

Inference = Literal["evidence", "map"]
NoiseKind = Literal["source", "shared"]
Auto = Literal["auto"]
Scaling = Literal["standard", "minmax", "sum", "l2"]
Shares = Literal["simplex", "energy"]
Missing = Literal["error", "allow", "drop"]
INFERENCES: tuple[str, ...] = get_args(Inference)
NOISES: tuple[str, ...] = get_args(NoiseKind)
SCALINGS: tuple[str, ...] = get_args(Scaling)
SHARES: tuple[str, ...] = get_args(Shares)
MISSING: tuple[str, ...] = get_args(Missing)
INITS = tuple(STARTS)
OPTIONS: dict[str, tuple[type, str, Callable[[Any], bool]]] = {
    "tol": (Real, "a number >= 0", lambda v: 0 <= v < np.inf),
    "max_rounds": (Integral, "an int >= 1", lambda v: v >= 1),
    "rho": (Real, "a number > 0", lambda v: 0 < v < np.inf),
    "gamma": (Real, "a number >= 0", lambda v: 0 <= v < np.inf),
}


@dataclass(frozen=True)
class Config:
    """The parameters of :class:`dbmd.DBMD`, by the same names and with the same defaults.

    Creating one checks them all. A wrong value raises a ValueError or a TypeError that names the parameter, what is
    allowed and what was given. The short texts are for interfaces that make their own parameters from this table.
    """

    n_components: int | Auto = field(
        default=8, metadata={"doc": "Number of clusters, r; 'auto' chooses it: the most that two halves agree on."}
    )
    inference: Inference = field(
        default="evidence",
        metadata={"doc": "Memberships integrated out ('evidence'), or taken at their peak ('map', the paper's)."},
    )
    solver: str = field(default="exact", metadata={"doc": "How W is found: exact, agd, admm or cease."})
    noise: NoiseKind | float = field(
        default="source",
        metadata={"doc": "A noise level for each source ('source'), one for all ('shared'), or a fixed sigma^2."},
    )
    alpha: float | ArrayLike = field(
        default=1.0,
        metadata={"doc": "Concentration >= 1 of the Dirichlet prior, or one for each cluster; above 1 for 'map' only."},
    )
    lam: float = field(default=0.0, metadata={"doc": "Weight >= 0 of the L1 norm of W: larger is sparser."})
    init: str | ArrayLike = field(
        default="k-means++",
        metadata={"doc": "Start of W: 'k-means++', 'k-means||', 'random', or an array with a row for each cluster."},
    )
    n_init: int = field(default=1, metadata={"doc": "Number of starts; the fit with the lowest objective is kept."})
    max_iter: int = field(default=200, metadata={"doc": "Largest number of iterations."})
    tol: float = field(
        default=2e-3,
        metadata={
            "doc": "Stop when W is this close to its limit, relatively; 'map': when the objective decreases so little."
        },
    )
    solver_options: Mapping[str, Any] | None = field(
        default=None, metadata={"doc": "Options of the solver: tol, max_rounds, rho, gamma."}
    )
    engine: str | MakeEngine = field(default="local", metadata={"doc": "Where the samples are processed."})
    n_nodes: int | None = field(default=None, metadata={"doc": "Number of nodes that the samples are divided among."})
    random_state: Any = field(default=None, metadata={"doc": "Seed of the start: the same seed gives the same result."})
    warm_start: bool = field(default=False, metadata={"doc": "Start from the components of the last fit."})
    forget_factor: float = field(
        default=0.7, metadata={"doc": "Factor by which the weight of earlier batches decreases with each further one."}
    )
    verbose: int = field(default=0, metadata={"doc": "If not 0, log a line for each iteration."})
    effective_features: float | None = field(
        default=None,
        metadata={"doc": "Number of features with independent noise that a sample is worth; estimated by default."},
    )
    scaling: Scaling | None = field(
        default=None,
        metadata={
            "doc": "Divide features by their 'standard' deviation or range ('minmax'), or samples by 'sum', 'l2'."
        },
    )
    log: bool = field(default=False, metadata={"doc": "Take log(1 + x) of the data, before they are scaled."})
    brightness: bool = field(
        default=False,
        metadata={"doc": "Each sample has a brightness, which its mixture of components is multiplied by."},
    )
    shares: Shares = field(
        default="simplex",
        metadata={"doc": "With brightness, memberships by coefficient ('simplex') or by size of the part ('energy')."},
    )
    offsets: bool = field(default=False, metadata={"doc": "Each source has an offset, which is added to its samples."})
    missing: Missing = field(
        default="error",
        metadata={
            "doc": "What to do with NaN: refuse ('error'), fit what is there ('allow'), leave samples out ('drop')."
        },
    )
    nonnegative: bool = field(default=False, metadata={"doc": "Whether components have no negative entries."})
    known: Any = field(
        default=None, metadata={"doc": "Components that are known, one in each row; the others are found."}
    )
    halves: bool = field(
        default=False, metadata={"doc": "Fit two halves of the data as well, to see which components both have."}
    )

    def __post_init__(self) -> None:
        if not self.is_auto:
            allowed = "an int >= 1 or 'auto'"
            _check_number("n_components", self.n_components, Integral, allowed, lambda v: v >= 1)
        _check_name("inference", self.inference, INFERENCES)
        _check_name("solver", self.solver, names("solvers"))
        if isinstance(self.noise, str):
            _check_name("noise", self.noise, NOISES, "or a float > 0, a fixed sigma^2")
        else:
            _check_number("noise", self.noise, Real, "'source', 'shared' or a float > 0", lambda v: 0 < v < np.inf)
        self._check_alpha()
        _check_number("lam", self.lam, Real, "a float >= 0", lambda v: 0 <= v < np.inf)
        if isinstance(self.init, str):
            _check_name("init", self.init, INITS, "or an array of shape (n_components, n_features)")
        elif self.is_auto:
            raise ValueError(
                "The 'init' parameter of DBMD must be a name with n_components='auto', which does not know how many "
                f"components there will be: one of {', '.join(map(repr, INITS))}. Got an array."
            )
        _check_number("n_init", self.n_init, Integral, "an int >= 1", lambda v: v >= 1)
        _check_number("max_iter", self.max_iter, Integral, "an int >= 0", lambda v: v >= 0)
        _check_number("tol", self.tol, Real, "a float >= 0", lambda v: 0 <= v < np.inf)
        if self.effective_features is not None:
            allowed = "None or a float > 0"
            _check_number("effective_features", self.effective_features, Real, allowed, lambda v: 0 < v < np.inf)
        self._check_solver_options()
        if isinstance(self.engine, str):
            _check_name("engine", self.engine, names("engines"), "or a callable that makes an engine of nodes")
        elif not callable(self.engine):
            raise TypeError(_message("engine", "a name, or a callable that makes an engine of nodes", self.engine))
        if self.n_nodes is not None:
            _check_number("n_nodes", self.n_nodes, Integral, "None or an int >= 1", lambda v: v >= 1)
        _check_number("forget_factor", self.forget_factor, Real, "a float > 0 and <= 1", lambda v: 0 < v <= 1)
        self._check_parts()
        self._check_known()

    @classmethod
    def of(cls, model: Any, **changes: Any) -> Config:
        """Return the parameters of an estimator, some of them changed."""
        return cls(**{field.name: getattr(model, field.name) for field in fields(cls)} | changes)

    @property
    def is_auto(self) -> bool:
        """Whether the number of components is to be chosen by the data."""
        return isinstance(self.n_components, str) and self.n_components == "auto"

    @property
    def r(self) -> int:
        """The number of components. With ``n_components="auto"`` there is none before it is chosen."""
        if isinstance(self.n_components, str):
            raise ValueError("The 'n_components' parameter of DBMD must be chosen first. Got 'auto'.")
        return int(self.n_components)

    @property
    def prior(self) -> NDArray[np.float64]:
        """alpha0 - 1 for each component, shape (n_components,)."""
        return prior_of(self.alpha, self.r)

    def parts(self, n_sources: int) -> Parts:
        """Return what a fit of data with so many sources looks for."""
        if self.offsets and n_sources == 1:
            raise ValueError(
                "The 'offsets' parameter of DBMD must be False for data of one source, whose offset is part of every "
                "component. Name the sources, or leave it out."
            )
        return Parts(
            self.r,
            n_known=self.n_known,
            has_dark=bool(self.brightness),
            n_offsets=n_sources if self.offsets else 0,
            nonnegative=bool(self.nonnegative),
        )

    @property
    def n_known(self) -> int:
        """Number of components that are known."""
        return 0 if self.known is None else len(Known.of(self.known))

    def known_components(
        self, n_features: int, feature_names: Sequence[str] | None = None
    ) -> NDArray[np.float64] | None:
        """Return the known components, shape (n_known, n_features), in the units of the data.

        Parameters
        ----------
        n_features : int
            Number of features of the data.
        feature_names : sequence of str of shape (n_features,), optional
            Their names, by which columns are matched if the known components have names of features, too.
        """
        return None if self.known is None else Known.of(self.known).for_features(n_features, feature_names)

    def start(self, n_features: int) -> NDArray[np.float64] | None:
        """Return the start W, shape (n_features, n_components), if ``init`` is an array."""
        if isinstance(self.init, str):
            return None
        try:
            W = np.array(self.init)
            if W.dtype.kind == "c":
                raise TypeError  # or NumPy would leave out the imaginary part
            W = W.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(_message("init", f"one of {INITS} or an array of numbers", self.init)) from None
        expected = (self.r, n_features)
        if W.shape != expected:
            raise ValueError(
                f"The 'init' array must have shape (n_components, n_features) = {expected}. Got {W.shape}."
            )
        if not np.isfinite(W).all():
            row, column = np.argwhere(~np.isfinite(W))[0]
            raise ValueError(f"The 'init' array must be finite. Got {W[row, column]} in row {row}, column {column}.")
        return W.T

    def _check_alpha(self) -> None:
        allowed = "a float >= 1 or an array of n_components such floats"
        try:
            alpha = np.asarray(self.alpha, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(_message("alpha", allowed, self.alpha)) from None
        if self.is_auto and alpha.shape != ():
            raise ValueError(
                "The 'alpha' parameter of DBMD must be one number with n_components='auto', which does not know how "
                f"many there will be. Got an array of shape {alpha.shape}."
            )
        if alpha.shape not in ((), (self.n_components,)):
            raise ValueError(
                f"The 'alpha' parameter of DBMD must be {allowed}. "
                f"Got an array of shape {alpha.shape} with n_components={self.n_components}."
            )
        if not (np.isfinite(alpha) & (alpha >= 1.0)).all():
            raise ValueError(_message("alpha", allowed, self.alpha))
        if self.inference == "evidence" and (alpha > 1.0).any():
            raise ValueError(
                "The 'alpha' parameter of DBMD must be 1 with the inference 'evidence', which integrates over "
                f"memberships that are equally likely. Got {self.alpha!r}: leave it out, or take the inference 'map'."
            )

    def _check_parts(self) -> None:
        if self.scaling is not None:
            _check_name("scaling", self.scaling, SCALINGS, "or None")
        _check_name("shares", self.shares, SHARES)
        _check_name("missing", self.missing, MISSING)
        for name in ("log", "brightness", "offsets", "nonnegative", "halves"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise TypeError(_message(name, "True or False", getattr(self, name)))
        if self.shares != "simplex" and not self.brightness:
            raise ValueError(
                "The 'shares' parameter of DBMD must be 'simplex' without brightness, where memberships sum to one as "
                f"they are. Got {self.shares!r}: set brightness=True, or leave it out."
            )
        if self.offsets and isinstance(self.init, str) and self.init != "k-means++":
            raise ValueError(
                "The 'init' parameter of DBMD must be 'k-means++' or an array with offsets, which other starts take "
                f"for clusters. Got {self.init!r}."
            )

    def _check_known(self) -> None:
        if self.known is not None:
            allowed = "None or an array of numbers of shape (at most n_components, n_features)"
            try:
                components = Known.of(self.known)
            except (TypeError, ValueError):
                raise TypeError(_message("known", allowed, self.known)) from None
            known = components.values
            if known.ndim == 2 and not self.is_auto and len(known) > self.r:
                raise ValueError(
                    "The 'known' parameter of DBMD must not have more components than n_components. "
                    f"Got {len(known)} known of {self.n_components}."
                )
            if known.ndim != 2 or not len(known):
                raise ValueError(
                    f"The 'known' parameter of DBMD must be {allowed}. "
                    f"Got shape {known.shape} with n_components={self.n_components}."
                )
            if not np.isfinite(known).all():
                row, column = np.argwhere(~np.isfinite(known))[0]
                raise ValueError(
                    f"The 'known' parameter of DBMD must be finite. Got {known[row, column]} in row {row}, "
                    f"column {column}."
                )
            if components.names is not None and len({*components.names}) != len(known):
                raise ValueError("The 'known' parameter of DBMD must have a different name for each component.")
            if components.columns is not None and len(components.columns) != known.shape[1]:
                raise ValueError("The 'known' parameter of DBMD must have a name for each of its columns.")
            if self.nonnegative and (known < 0.0).any():
                raise ValueError("The 'known' parameter of DBMD must not be negative with nonnegative=True.")
        if self.max_iter == 0 and (self.is_auto or self.n_known < self.r):
            raise ValueError(
                "The 'max_iter' parameter of DBMD must be an int >= 1, unless all components are known. Got 0 with "
                f"{self.n_known} of {self.n_components} known."
            )
        if self.max_iter == 0 and self.offsets:
            raise ValueError("The 'max_iter' parameter of DBMD must be an int >= 1 with offsets. Got 0.")

    def _check_solver_options(self) -> None:
        if self.solver_options is None:
            return
        if not isinstance(self.solver_options, Mapping):
            raise TypeError(_message("solver_options", "None or a dict of options of the solver", self.solver_options))
        known = [name for name in signature(load("solvers", self.solver).solve).parameters if name in OPTIONS]
        for name, value in self.solver_options.items():
            if name not in known:
                raise ValueError(
                    f"Unknown option {name!r} in 'solver_options' for the solver {self.solver!r}. "
                    f"Known: {', '.join(known)}."
                )
            kind, allowed, holds = OPTIONS[name]
            _check_number(f"solver_options[{name!r}]", value, kind, allowed, holds)


def prior_of(alpha: float | ArrayLike, n_components: int) -> NDArray[np.float64]:
    """Return alpha0 - 1 for each component, shape (n_components,): the exponents of the Dirichlet prior."""
    return np.broadcast_to(np.asarray(alpha, float), (n_components,)) - 1.0


def _check_number(name: str, value: Any, kind: type, allowed: str, holds: Callable[[Any], bool]) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(_message(name, allowed, value))
    if not holds(value):
        raise ValueError(_message(name, allowed, value))


def _check_name(name: str, value: Any, known: tuple[str, ...], otherwise: str = "") -> None:
    if value not in known:
        listed = "one of " + ", ".join(repr(k) for k in known) + (f", {otherwise}" if otherwise else "")
        raise ValueError(_message(name, listed, value))


def _message(name: str, allowed: str, value: Any) -> str:
    # Arrays and tables are shown in several lines, and errors are one.
    shown = " ".join(repr(value).split()) if hasattr(value, "__array__") else repr(value)
    return f"The {name!r} parameter of DBMD must be {allowed}. Got {shown}."
