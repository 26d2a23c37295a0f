"""Draw memberships many times, and take the eigenvalues of sum_c H_c H_c'."""

from __future__ import annotations

import numpy as np

from dbmd.data.synthetic import bernoulli_memberships, dirichlet_memberships
from dbmd.experiments.eigenvalues import second_moment
from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.model.statistics import Float

KINDS = ("bernoulli", "dirichlet")


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each distribution and number of samples."""
    return [{"kind": kind, "n_per_source": n} for kind in KINDS for n in setting["n_per_source"]]


def run(task: Task, setting: Setting) -> list[Record]:
    """Return the largest eigenvalue and the condition number of each repeat, and what theory says of them."""
    n = setting["sources"] * task["n_per_source"]
    rng = np.random.default_rng([setting["seed"], KINDS.index(task["kind"]), n])
    values = np.array([eigenvalues(task["kind"], rng, n, setting) for _ in range(setting["repeats"])])
    limit = np.linalg.eigvalsh(_limit(task["kind"], setting))
    return [
        {
            "samples": n,
            "components": setting["components"],
            "largest": values[:, -1],
            "condition": values[:, -1] / values[:, 0],
            "expected_largest": n * limit[-1],
            "limit_of_condition": limit[-1] / limit[0],
            "empty": second_moment.empty(setting["components"], setting["p"]) if task["kind"] == "bernoulli" else 0.0,
        }
    ]


def eigenvalues(kind: str, rng: np.random.Generator, n: int, setting: Setting) -> Float:
    """Return the eigenvalues of H H' in ascending order, shape (r,), for the samples of all sources together."""
    r = setting["components"]
    if kind == "bernoulli":
        H = bernoulli_memberships(rng, r, n, setting["p"])
    else:
        H = dirichlet_memberships(rng, r, n, setting["alpha0"])
    return np.asarray(np.linalg.eigvalsh(H @ H.T), float)


def _limit(kind: str, setting: Setting) -> Float:
    if kind == "bernoulli":
        return second_moment.bernoulli(setting["components"], setting["p"])
    return second_moment.dirichlet(setting["components"], setting["alpha0"])
