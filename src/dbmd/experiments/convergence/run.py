"""Let the solvers run on the same problems, and note where they are after each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dbmd.data.synthetic import banded_basis, bernoulli_memberships, dirichlet_memberships, observe
from dbmd.experiments.convergence.theory import Curvature
from dbmd.experiments.convergence.trace import Trace, rounds_to
from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.experiments.known_memberships import WProblem
from dbmd.model.statistics import Float

KINDS = ("A", "B")  # the paper's synthetic data: Bernoulli and Dirichlet memberships
GAP = 1e-6  # that ADMM's rounds are counted to


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each study, kind of data, and number of samples."""
    return [
        {"study": study, "data": kind, "n_per_source": n}
        for study in STUDIES
        for kind in KINDS
        for n in setting["n_per_source"]
    ]


def run(task: Task, setting: Setting) -> list[Record]:
    """Return the records of a study of one problem, each with what theory needs to know of the problem."""
    problem = make(task["data"], task["n_per_source"], setting)
    curvature = Curvature.of([f.A for f in problem.terms])
    known = asdict(curvature)
    best = problem.solve("exact").W
    return [known | record for record in STUDIES[task["study"]](problem, best, curvature, setting)]


def make(kind: str, n: int, setting: Setting) -> WProblem:
    """Draw X_c, with noise of standard deviation 1, and H_c for all sources; the same for all studies."""
    rng = np.random.default_rng([setting["seed"], KINDS.index(kind), n])
    r = setting["components"]
    W = banded_basis(r, height=setting["height"], length=setting["length"], coherence=setting["coherence"])
    H = [memberships(rng, kind, n, setting) for _ in range(setting["sources"])]
    X = [observe(rng, W, H_c, 1.0) for H_c in H]
    return WProblem.of(X, H, np.ones(len(H)), setting["lam"])


def memberships(rng: np.random.Generator, kind: str, n: int, setting: Setting) -> Float:
    """Draw H_c, shape (r, n)."""
    if kind == "A":
        return bernoulli_memberships(rng, setting["components"], n, setting["p"])
    return dirichlet_memberships(rng, setting["components"], n, setting["alpha0"])


def methods(problem: WProblem, best: Float, curvature: Curvature, setting: Setting) -> list[Record]:
    """Return gap and log loss after each round, for each method."""
    records = []
    for method in setting["methods"]:
        trace = Trace.follow(problem, best, method["solver"], setting["rounds"], **method["options"])
        records.append(method | {"gaps": short(trace.gaps), "losses": short(trace.losses, 9)})
    return records


def cease(problem: WProblem, best: Float, curvature: Curvature, setting: Setting) -> list[Record]:
    """Return the rate of CEASE beside its bound, for each gamma."""
    records = []
    for gamma in [setting["gamma"], *(curvature.mu * part for part in setting["gamma_over_mu"])]:
        trace = Trace.follow(problem, best, "cease", setting["gamma_rounds"], gamma=gamma)
        bound = {"gamma": gamma, "bound": curvature.cease(gamma), "stepped_back": stepped_back(trace)}
        records.append(bound | trace.rate()._asdict())
    return records


def admm(problem: WProblem, best: Float, curvature: Curvature, setting: Setting) -> list[Record]:
    """Return the rate of ADMM beside the formula, for each rho and for the automatic penalty, where rho is None."""
    records: list[Record] = []
    for rho in [None, *setting["rho"]]:
        trace = Trace.follow(problem, best, "admm", setting["rho_rounds"], rho=rho)
        predicted = None if rho is None else curvature.admm(rho)
        counts = {"rounds": setting["rho_rounds"], "rounds_to_gap": rounds_to(trace.gaps, GAP)}
        records.append({"rho": rho, "predicted": predicted} | counts | trace.rate()._asdict())
    return records


STUDIES: dict[str, Callable[[WProblem, Float, Curvature, Setting], list[Any]]] = {
    "methods": methods,
    "cease": cease,
    "admm": admm,
}


def stepped_back(trace: Trace) -> bool:
    """Say whether a round went uphill, beyond rounding: then CEASE took it back, and raised gamma."""
    return bool((np.diff(trace.gaps) > 1e-12).any())


def short(values: Sequence[float] | Float, digits: int = 4) -> list[float]:
    """Return numbers with so many digits as a figure can show."""
    return [float(f"{value:.{digits}g}") for value in values]
