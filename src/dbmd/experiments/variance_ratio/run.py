"""Simulate: many draws of the noise, W with weights and without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbmd.data.synthetic import banded_basis, bernoulli_memberships, observe
from dbmd.experiments.experiment import Record, Setting, Task
from dbmd.experiments.known_memberships import WProblem
from dbmd.model.statistics import Float


def tasks(setting: Setting) -> list[Task]:
    """Return a task for each noise level of the last source."""
    return [{"last_sigma": sigma} for sigma in setting["last_sigma"]]


def run(task: Task, setting: Setting) -> list[Record]:
    """Return for each method the squared errors of W over all repeats, and the formulas for their expectation.

    The memberships are drawn once, the same for all tasks; the noise for each task and repeat, the same for all
    methods.
    """
    shape = {name: setting[name] for name in ("height", "length", "coherence")}
    W = banded_basis(setting["components"], **shape)
    H = memberships(setting, setting["seed"])
    sigma2 = np.ones(setting["sources"])
    sigma2[-1] = task["last_sigma"] ** 2
    ones = np.ones_like(sigma2)

    errors: dict[str, list[tuple[float, float]]] = {name: [] for name in setting["methods"]}
    for repeat in range(setting["repeats"]):
        rng = np.random.default_rng([setting["seed"], repeat, round(1000 * task["last_sigma"])])
        X = [observe(rng, W, H_c, float(np.sqrt(s))) for H_c, s in zip(H, sigma2, strict=True)]
        weighted, plain = WProblem.of(X, H, sigma2), WProblem.of(X, H, ones)
        for name, options in setting["methods"].items():
            found = [p.solve(name, tol=setting["tol"], **options).W for p in (weighted, plain)]
            errors[name].append((float(((found[0] - W) ** 2).sum()), float(((found[1] - W) ** 2).sum())))

    means = (len(sigma2) / (1.0 / sigma2).sum()) / sigma2.mean()
    over_draws = [exact_ratio(memberships(setting, draw), sigma2) for draw in range(setting["repeats"])]
    return [
        {
            "method": name,
            "squared_errors": [e[0] for e in errors[name]],
            "squared_errors_unweighted": [e[1] for e in errors[name]],
            "exact_ratio": exact_ratio(H, sigma2),
            "exact_ratio_over_draws": over_draws,
            "ratio_of_means": means,
        }
        for name in setting["methods"]
    ]


def memberships(setting: Setting, seed: int) -> list[Float]:
    """Draw H_c for all sources."""
    rng = np.random.default_rng(seed)
    shape = setting["components"], setting["n_per_source"]
    return [bernoulli_memberships(rng, *shape, setting["p"]) for _ in range(setting["sources"])]


def exact_ratio(H: Sequence[Float], sigma2: Float) -> float:
    """Return the variance of W with the weights 1 / sigma_c^2 over that without."""
    return variance(H, sigma2, 1.0 / sigma2) / variance(H, sigma2, np.ones_like(sigma2))


def variance(H: Sequence[Float], sigma2: Float, weights: Float) -> float:
    """Return the summed variance of a row of (sum w_c B_c)(sum w_c A_c)^-1, the W-step with weights w_c.

    tr(M^-1 (sum w_c^2 sigma_c^2 A_c) M^-1) with M = sum w_c A_c: true for any H_c.
    """
    A = [H_c @ H_c.T for H_c in H]
    inverse = np.linalg.inv(sum(w * A_c for w, A_c in zip(weights, A, strict=True)))
    middle = sum(w**2 * s * A_c for w, s, A_c in zip(weights, sigma2, A, strict=True))
    return float(np.trace(inverse @ middle @ inverse))
