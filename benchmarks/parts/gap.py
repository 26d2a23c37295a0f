"""How near to its end the default ``tol`` stops, and after how many passes a fit is within a thousandth.

    gap = (F - F_best) / (F_start - F_best)

F_start     the objective at the centres that k-means finds in 20,000 samples, with the memberships that are best there
F_best      the lowest that is known: of the fit, and of a long run that goes on from it
F_bound     no fit is lower: the simplex lies in an affine space of r - 1 dimensions, of which PCA finds the best
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

from benchmarks import sets
from benchmarks.counted import Count, counted
from benchmarks.plan import Plan, Record, Task
from benchmarks.sets import Samples

START = {"samples": 20_000, "max_iter": 50}
LONG = 300  # iterations beyond the default fit
CONVERGED = 1e-3

Step = tuple[float, int, float]  # objective after an iteration, passes and seconds so far


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each data set and seed."""
    long = 20 if plan.quick else LONG
    return [
        {"data": data, "seed": seed, "start": START, "long": long, **sets.place(plan)}
        for data in plan.data
        for seed in range(plan.repeats)
    ]


def run(task: Task) -> Record:
    """Return objectives, the gap at which the fit stops, and passes and seconds to a gap of a thousandth."""
    from dbmd import DBMD

    samples = sets.of_task(task)
    X, n = samples.X, samples.X.shape[0]
    centres = _start(samples, task["seed"], task["start"])
    F_start = objective(squares_at(centres, X), X.shape)
    F_bound = objective(pca_residual(X, samples.r - 1), X.shape)
    model = DBMD(n_components=samples.r, random_state=task["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DBMD(samples.r, max_iter=3, random_state=0).fit(X[:2_000])
        with counted(n) as count:
            course, seconds = _followed(model, X, count)
            at_stop = count.record()
            stop = {"F_stop": model.objective_, "iterations": model.n_iter_, "seconds": seconds}
            stop |= {"tol": model.tol, "stopped_by_itself": model.fit_info_["converged"]}
            model.set_params(warm_start=True, tol=0.0, max_iter=task["long"])
            longer, _ = _followed(model, X, count)
    course = _joined(course, longer)
    F_best = min(stop["F_stop"], model.objective_, *(F for F, _, _ in course))
    fall = F_start - F_best
    within = next(((k, *entry) for k, entry in enumerate(course, 1) if entry[0] - F_best <= CONVERGED * fall), None)
    return {
        "F_start": F_start,
        "F_best": F_best,
        "F_bound": F_bound,
        **stop,
        **at_stop,
        "gap_at_stop": (stop["F_stop"] - F_best) / fall,
        "converged_after_iterations": within and within[0],
        "converged_after_passes": within and within[2],
        "converged_after_seconds": within and within[3],
        "default_converges": within is not None and within[0] <= stop["iterations"],
        "long_iterations": model.n_iter_,
        "gaps": [(F - F_best) / fall for F, _, _ in course],
        "passes_so_far": [passes for _, passes, _ in course],
    }


def _joined(course: list[Step], longer: list[Step]) -> list[Step]:
    """Return two descents as one.

    At the end of the one and the start of the other the data are read, which a fit that runs on would not do. So the
    first iteration of the other is taken to last as long as those after it, and to read the data once.
    """
    if not longer:
        return course
    (_, passes, seconds), (_, first_pass, first_second) = course[-1], longer[0]
    each = (longer[-1][2] - first_second) / max(len(longer) - 1, 1)
    return course + [(F, passes + p - first_pass + 1, seconds + s - first_second + each) for F, p, s in longer]


def _followed(model: Any, X: Any, count: Count) -> tuple[list[Step], float]:
    """Fit; return what each iteration leads to, and the seconds of all."""
    from dbmd.dataset import in_memory

    course: list[Step] = []
    clock = time.perf_counter()

    def note(state: Any) -> None:
        course.append((state.history[-1].objective, count.passes, time.perf_counter() - clock))

    model.fit_data(in_memory(X), on_iteration=note)
    seconds = time.perf_counter() - clock
    return course[len(course) - len(model.history_) :], seconds  # should others come before, those of this descent


def _start(samples: Samples, seed: int, how: dict[str, int]) -> NDArray[np.float64]:
    """Return centres, shape (r, m), that k-means finds in some of the samples."""
    from sklearn.cluster import KMeans

    n = samples.X.shape[0]
    rows = np.sort(np.random.default_rng(seed).permutation(n)[: how["samples"]])
    model = KMeans(samples.r, n_init=1, max_iter=how["max_iter"], random_state=seed)
    return model.fit(samples.X[rows]).cluster_centers_.astype(np.float64)


def squares_at(centres: NDArray[np.float64], X: Any) -> float:
    """Return the residual sum of squares with the best memberships at fixed components, shape (r, m)."""
    from dbmd.data import partition
    from dbmd.engines.local import Engine, available_threads
    from dbmd.sweep import origin_of, sweep

    W = centres.T.copy()
    # Without a prior on the memberships the noise does not move them: any will do.
    step = partial(sweep, sigma2=np.ones(1), prior=np.zeros(W.shape[1]), origin=origin_of(W, X.dtype), gather=False)
    with Engine(partition(X, 0, available_threads())) as engine:
        return float(engine.ask(step, W)[0].squares)


def objective(squares: float, shape: tuple[int, int]) -> float:
    """Return the objective at a residual, sigma^2 being its mean square; one source, alpha = 1, lam = 0."""
    numbers = shape[0] * shape[1]
    return 0.5 * numbers * (1.0 + np.log(squares / numbers))


def pca_residual(X: Any, k: int) -> float:
    """Return the sum of squares that k principal components about the mean leave."""
    n, m = X.shape
    mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
    if sparse.issparse(X):
        total = float((X.data.astype(np.float64) ** 2).sum() - n * mean @ mean)
        centred = LinearOperator(
            (n, m),
            matvec=lambda v: X @ v.ravel() - mean @ v.ravel(),
            rmatvec=lambda u: X.T @ u.ravel() - mean * u.sum(),
            dtype=np.float64,
        )
        return total - float((svds(centred, k, return_singular_vectors=False, rng=0) ** 2).sum())
    gram = np.zeros((m, m))
    for start in range(0, n, 20_000):
        piece = X[start : start + 20_000] - mean
        gram += piece.T @ piece
    return float(np.linalg.eigvalsh(gram)[: m - k].sum())
