"""What a fit returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.fields import COUNT, FLAG, NOT_NEGATIVE, NUMBER, check_fields, check_known
from dbmd.model.evidence import Evidence
from dbmd.model.lbfgs import LBFGS
from dbmd.model.objective import Objective
from dbmd.model.offsets import OffsetPrior
from dbmd.model.past import PastStatistics
from dbmd.model.peaks import PeaksOfModel
from dbmd.model.profile import Profile
from dbmd.model.statistics import Float
from dbmd.model.uncertainty import Uncertainty


@dataclass(frozen=True)
class Iteration(Mapping[str, Any]):
    """The record of one iteration. It is also a mapping of its fields.

    Attributes
    ----------
    iteration : int
        From 1.
    objective : float
        The objective after the iteration.
    seconds : float
        Time that the iteration took.
    rounds : int
        Rounds of the W-step over the nodes.
    floats_up, floats_down : int
        Numbers that a node sent and received for the W-step (the node that sent most): Table 1 of the paper, or for
        ``exact`` m r + r^2 + 3 for each source of the node up, m r down.
    total_floats_up, total_floats_down : int
        The same for the whole iteration, including the H-step and the noise step.
    w_change : float
        Relative change of W in the last round of the W-step.
    w_converged : bool
        Whether that was below the solver's tolerance.
    passes : int
        Passes over the data: two if the step to the first point was too long.
    change : float, optional
        What ``tol`` is compared with: an estimate of the distance of W from its limit, relative to the size of its
        simplex; with ``inference="map"`` the decrease of the objective, relative to its scale. None if unknown.
    """

    iteration: int
    objective: float
    seconds: float
    rounds: int
    floats_up: int
    floats_down: int
    total_floats_up: int
    total_floats_down: int
    w_change: float
    w_converged: bool
    passes: int = 1
    change: float | None = None

    def __getitem__(self, name: str) -> Any:
        if name in self:
            return getattr(self, name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(field.name == name for field in fields(self))

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    def asdict(self) -> dict[str, Any]:
        """Return a plain dictionary."""
        return asdict(self)


def check_iteration(record: Mapping[str, Any], where: str) -> None:
    """Raise a ValueError that names what is wrong with an iteration that was read from a file.

    Parameters
    ----------
    record : dict
        The iteration.
    where : str
        Where it stands, for the message.
    """
    # Floats that are not finite are written as null.
    kinds = {"int": COUNT, "float": NUMBER.or_none, "bool": FLAG, "float | None": NUMBER.or_none}
    wanted = {f.name: kinds[str(f.type)] for f in fields(Iteration)} | {"seconds": NOT_NEGATIVE}
    check_fields(record, wanted, f"{where}.", optional=("passes", "change"))
    check_known(record, wanted, where)


@dataclass(frozen=True)
class State:
    """The state of a fit after an iteration. With the data and the parameters it is all that is needed to continue.

    Memberships are not part of it: they follow from W.

    Attributes
    ----------
    V : array of shape (m, n_columns)
        The components, and what else is found with them (:mod:`dbmd.model.parts`).
    sigma2 : array of shape (n_sources,)
        The noise levels.
    origin : array of shape (m,)
        The point statistics are taken about.
    floor : float
        The least noise level.
    evidence : Evidence, optional
        How the memberships are integrated out; None with ``map``.
    offset_prior : OffsetPrior, optional
        The prior of the offsets of sources; None if they have none.
    objective : Objective, optional
        After the last iteration.
    history : tuple of Iteration
        One for each iteration.
    lbfgs : LBFGS
        The last steps of W, from which the next one is found.
    converged : bool
        Whether the last change was below the tolerance.
    attempt : int
        Number of the start, of ``n_init``.
    best : State, optional
        The last state of the best attempt so far.
    """

    V: Float
    sigma2: Float
    origin: Float
    floor: float
    evidence: Evidence | None = None
    offset_prior: OffsetPrior | None = None
    objective: Objective | None = None
    history: tuple[Iteration, ...] = ()
    lbfgs: LBFGS = field(default_factory=LBFGS)
    converged: bool = False
    attempt: int = 0
    best: State | None = None


@dataclass(frozen=True)
class Result:
    """The outcome of a fit.

    Attributes
    ----------
    W : array of shape (m, r)
        The components.
    sigma2 : array of shape (n_sources,)
        The noise levels.
    evidence : Evidence, optional
        How the memberships are integrated out; None with ``map``.
    objective : float
        At W, sigma2 and the memberships that belong to them.
    history : list of Iteration
        One for each iteration.
    converged : bool, optional
        Whether the last change was below the tolerance; None after a single step.
    profile : Profile
        Counts and histograms of the memberships.
    sample : PeaksOfModel
        Memberships of some samples; their standard deviations are found when somebody looks at them.
    explained : array of shape (n_sources + 1,)
        Fraction of the variance about the mean that the model explains: of each source, and of all data.
    past : PastStatistics
        Statistics of these samples, for batches that follow.
    offsets : array of shape (n_sources, m), optional
        The offset of each source; None if they have none.
    offset_variance : float, optional
        The variance of their prior, t^2.
    is_at_floor : array of bool of shape (n_sources,), optional
        Which noise levels are as low as they can be; None after a single step.
    uncertainty : Uncertainty, optional
        How uncertain W is; None with ``map`` and after a single step.
    """

    W: Float
    sigma2: Float
    evidence: Evidence | None
    objective: float
    history: list[Iteration]
    converged: bool | None
    profile: Profile
    sample: PeaksOfModel
    explained: Float
    past: PastStatistics
    offsets: Float | None = None
    offset_variance: float | None = None
    is_at_floor: NDArray[np.bool_] | None = None
    uncertainty: Uncertainty | None = None
