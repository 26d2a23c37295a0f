"""What the parts of the model give on real and made-up data, beside what must hold.

python benchmarks/real_data.py              all of it, a few minutes on two cores
python benchmarks/real_data.py offsets      one of: brightness, offsets, gaps, scaling, known

Errors are root mean squares of memberships after matching the components, of three seeds each; the largest is judged.
Jasper Ridge, cellmix and KDD-99 come from the folder that DBMD_DATA names, or by a download where there is one; what
cannot be had is left out, with a line that says so.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from dbmd import DBMD, open_data
from dbmd._utils.threads import one_blas_thread
from dbmd.data.datasets import load
from dbmd.data.partition import partition
from dbmd.data.preparation import Preparation
from dbmd.engines.local import Engine as LocalEngine
from dbmd.errors import DataError
from dbmd.experiments.truth.data import cellmix, jasper, membership_error, mixtures
from dbmd.metrics import clustering_accuracy
from dbmd.model.evidence import Evidence
from dbmd.model.parts import Parts
from dbmd.sweep import sweep

SEEDS = range(3)
MADE_UP = {"alpha": 0.3, "snr": 15.0, "components": 4, "n": 5000}
GAPS = 0.3  # fraction of the entries


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes
    ----------
    what : str
        What was fitted.
    without : list of float
        What is found without the part, of each seed; empty if there is nothing to compare with.
    found : list of float
        What is found with it.
    limit : float, optional
        What must hold: the largest value that is allowed.
    """

    what: str
    without: list[float]
    found: list[float]
    limit: float | None = None


def error(model: DBMD, X: np.ndarray, truth: np.ndarray, source: np.ndarray | None = None) -> float:
    """Return the error of the memberships of a fitted model."""
    return membership_error(model.transform(X, source=source), truth)


def brightness() -> Iterator[Row]:
    """Yield Jasper Ridge, and made-up mixtures with a brightness from 0.3 to 1."""
    try:
        scene = jasper()
        settings: list[dict] = [{}, {"brightness": True}, {"brightness": True, "shares": "energy"}, {"scaling": "sum"}]
        plain, found, energy, divided = (
            [error(DBMD(4, random_state=seed, **part).fit(scene.X), scene.X, scene.memberships) for seed in SEEDS]
            for part in settings
        )
        yield Row("Jasper Ridge, brightness", plain, found, 0.11)
        yield Row("Jasper Ridge, brightness, shares of energy", plain, energy)
        yield Row("Jasper Ridge, scaling by the sum of each pixel", plain, divided)
    except DataError as missing:
        print(f"Left out: {missing}")
    without, found, relative, oracle, known = [], [], [], [], []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        W, H = rng.uniform(0.0, 1.0, (50, 4)), rng.dirichlet(np.full(4, 0.3), 5000)
        clean, light = H @ W.T, rng.uniform(0.3, 1.0, (5000, 1))
        noise = rng.normal(0.0, np.sqrt(clean.var(axis=0).mean() / 10**1.5), clean.shape)
        X, X_lit = light * clean + noise, clean + noise
        reference = error(DBMD(4, random_state=seed).fit(X_lit), X_lit, H)
        without.append(error(DBMD(4, random_state=seed).fit(X), X, H))
        found.append(error(DBMD(4, brightness=True, random_state=seed).fit(X), X, H))
        given = error(DBMD(4, brightness=True, known=W.T, random_state=seed).fit(X), X, H)
        relative.append(found[-1] / reference)
        oracle.append(found[-1] / given)
        known.append(given / reference)
    yield Row("made-up brightness 0.3 to 1: error", without, found)
    yield Row("the same, over the error on the same data without it", [], relative, 1.3)
    yield Row("the same, over the error with the true patterns known", [], oracle)
    yield Row("error with the true patterns known, over that on the data without brightness", [], known)


def offsets() -> Iterator[Row]:
    """Yield cellmix, and made-up batches with offsets of different size."""
    try:
        cells = cellmix(genes=1000)
        X, truth, source = cells.X, cells.memberships, cells.source
        models = [
            [DBMD(3, offsets=part, random_state=seed).fit(X, source=source) for seed in SEEDS] for part in (False, True)
        ]
        yield Row("cellmix, offsets", *([error(model, X, truth, source) for model in part] for part in models), 0.172)
        levels = np.sqrt([part[0].noise_variance_ for part in models]).round(3).tolist()
        print(f"cellmix: noise levels of the batches {levels[0]} without offsets, {levels[1]} with.")
    except DataError as missing:
        print(f"Left out: {missing}")
    for size, limits in ((1.0, (0.017, 0.028)), (0.0, (0.017, 0.026))):
        for is_rich, limit in zip((False, True), limits, strict=True):
            errors: dict[bool, list[float]] = {False: [], True: []}
            for seed in SEEDS:
                X, truth, source = batches(seed, is_rich, size)
                for part, list_of in errors.items():
                    model = DBMD(4, offsets=part, random_state=seed).fit(X, source=source)
                    list_of.append(error(model, X, truth, source))
            mixes = "each source rich in another pattern" if is_rich else "like mixtures"
            yield Row(f"made-up batches, offsets {size:.1f}, {mixes}", errors[False], errors[True], limit)


def batches(seed: int, is_rich: bool, size: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return samples of four sources, their memberships, and their sources.

    Parameters
    ----------
    seed : int
        Of everything.
    is_rich : bool
        Whether each source is rich in another pattern.
    size : float
        Standard deviation of the offsets, relative to that of the patterns about their mean.
    """
    rng = np.random.default_rng(seed)
    W, source = rng.uniform(0.0, 1.0, (50, 4)), np.arange(4000) % 4
    H = np.empty((4000, 4))
    for c in range(4):
        alpha = np.full(4, 0.3)
        alpha[c] = 1.2 if is_rich else 0.3
        H[source == c] = rng.dirichlet(alpha, 1000)
    X = H @ W.T
    X = X + rng.normal(0.0, np.sqrt(X.var(axis=0).mean() / 10**1.5), X.shape)
    D = rng.normal(0.0, size * (W - W.mean(axis=1, keepdims=True)).std(), (4, 50))
    return X + D[source], H, source


def gaps() -> Iterator[Row]:
    """Yield made-up mixtures of which some entries are missing, over the same without gaps."""
    relative, imputed = [], []
    for seed in SEEDS:
        data = mixtures(seed, **MADE_UP)
        X, H = data.X, data.memberships
        reference = error(DBMD(4, random_state=seed).fit(X), X, H)
        is_gap = np.random.default_rng(100 + seed).random(X.shape) < GAPS
        X = np.where(is_gap, np.nan, X)
        relative.append(error(DBMD(4, missing="allow", random_state=seed).fit(X), X, H) / reference)
        X = np.where(is_gap, np.nanmean(X, axis=0), X)
        imputed.append(error(DBMD(4, random_state=seed).fit(X), X, H) / reference)
    yield Row("30 % gaps, over the error of the full data (without: means in the gaps)", imputed, relative, 1.3)
    for fraction, limit in ((0.1, 2.0), (0.5, None)):
        sizes = ((100_000, 50, 4), (100_000, 100, 10), (20_000, 500, 10))
        costs = [pass_seconds(*size, fraction) / pass_seconds(*size, 0.0) for size in sizes]
        what = f"CPU time of a pass with {fraction:.0%} gaps, over one without; 50, 100 and 500 features"
        yield Row(what, [], costs, limit)


def pass_seconds(n: int, m: int, r: int, fraction: float) -> float:
    """Return the CPU time of a pass that starts from the last memberships, on one thread, with some entries missing."""
    rng = np.random.default_rng(0)
    W = rng.uniform(size=(m, r))
    X = rng.dirichlet(np.full(r, 0.3), n) @ W.T + 0.1 * rng.normal(size=(n, m))
    X[rng.random(X.shape) < fraction] = np.nan
    fill = np.nanmean(X, axis=0) if fraction else None
    evidence = Evidence.of(np.ones(1), n, r)
    options = {"sigma2": np.array([0.01]), "prior": np.zeros(r), "evidence": evidence, "origin": W.mean(axis=1)}
    seconds = []
    with LocalEngine(partition(X, 0, 1, X.dtype), 1) as engine, one_blas_thread():
        prepared = Preparation(fill=fill).around(engine)
        for number in range(6):
            clock = time.process_time()
            prepared.ask(partial(sweep, parts=Parts(r), warm=number > 0, **options), W)
            seconds.append(time.process_time() - clock)
    return min(seconds[2:])


def scaling() -> Iterator[Row]:
    """Yield KDD-99 from a csv file, scaled by the model, beside the same standardised beforehand."""
    from pyarrow import csv, table

    try:
        data = load("kdd99")
    except DataError as missing:
        print(f"Left out: {missing}")
        return
    names = [str(name) for name in data.feature_names or range(data.X.shape[1])]
    spread = data.X.std(axis=0)
    divided = data.X / np.where(spread > 0.0, spread, 1.0)
    by_hand = {"divided": divided, "centred and divided": divided - divided.mean(axis=0)}
    raw: list[float] = []
    accuracies: dict[str, list[float]] = {name: [] for name in by_hand}
    differences: dict[str, list[float]] = {name: [] for name in by_hand}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kdd99.csv"
        csv.write_csv(table(dict(zip(names, data.X.T, strict=True))), path)
        with open_data(path) as file:
            for seed in SEEDS:
                raw.append(clustering_accuracy(data.y, DBMD(11, random_state=seed).fit(file).labels_))
                model = DBMD(11, scaling="standard", random_state=seed).fit(file)
                found, H = clustering_accuracy(data.y, model.labels_), model.transform(data.X)
                for name, Z in by_hand.items():
                    own = DBMD(11, random_state=seed).fit(Z)
                    accuracies[name].append(abs(found - clustering_accuracy(data.y, own.labels_)))
                    differences[name].append(float(np.sqrt(np.square(H - own.transform(Z)).mean())))
                print(f"KDD-99, seed {seed}: accuracy {raw[-1]:.3f} raw, {found:.6f} with scaling.")
    for name in by_hand:
        yield Row(
            f"KDD-99 raw from csv, scaling: accuracy, less that of data {name} beforehand", [], accuracies[name], 1e-6
        )
        yield Row("root mean square difference of their memberships", [], differences[name])


def known() -> Iterator[Row]:
    """Yield made-up mixtures with all patterns known, over least squares on the simplex with the true patterns."""
    relative = []
    for seed in SEEDS:
        data = mixtures(seed, **MADE_UP)
        assert data.patterns is not None
        model = DBMD(4, known=data.patterns, max_iter=0, random_state=seed).fit(data.X)
        by_hand = membership_error(least_squares(data), data.memberships)
        relative.append(error(model, data.X, data.memberships) / by_hand)
    yield Row("4 of 4 references known, over the error of least squares with the true patterns", [], relative, 1.05)


def least_squares(data) -> np.ndarray:
    """Return memberships by non-negative least squares, with a row of large weight that makes them sum to one."""
    heavy = 1e4 * np.abs(data.patterns).max()
    A = np.vstack([data.patterns.T, np.full(len(data.patterns), heavy)])
    return np.array([nnls(A, np.append(x, heavy))[0] for x in data.X])


def shown(values: list[float]) -> str:
    """Return values as text, with three digits."""
    return " ".join(f"{value:.3g}" for value in values)


PARTS: dict[str, Callable[[], Iterator[Row]]] = {
    part.__name__: part for part in (brightness, offsets, gaps, scaling, known)
}


def main() -> None:
    """Print a table of all parts, or of those named on the command line."""
    warnings.simplefilter("ignore")  # that fits without the part are odd is what is shown
    chosen = sys.argv[1:] or list(PARTS)
    if not {*chosen} <= {*PARTS}:
        sys.exit(f"Unknown part. Known: {', '.join(PARTS)}.")
    rows = [row for name in chosen for row in PARTS[name]()]
    print("\n| what | without | must hold | found | |\n|---|---|---|---|---|")
    for row in rows:
        limit = "" if row.limit is None else f"<= {row.limit:g}"
        verdict = "" if row.limit is None else "holds" if max(row.found) <= row.limit else "**does not hold**"
        print(f"| {row.what} | {shown(row.without)} | {limit} | {shown(row.found)} | {verdict} |")


if __name__ == "__main__":
    main()
