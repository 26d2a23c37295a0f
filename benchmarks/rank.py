"""How often the number of components that two halves of the data agree on is the right one, and what it costs.

python benchmarks/rank.py                   all of it, some twenty minutes on two cores
python benchmarks/rank.py families          one of: families, limits, nothing, real, cost
python benchmarks/rank.py families smooth   one family of made-up problems, or several

Each family has five problems, whose numbers of components, features and samples, noise and concentration are drawn. The
rule (model/stability.py) was found on other seeds, and without the families "smooth" and "coloured" and the real sets.
The families of "limits" do not count: where the model is not quite right ("curved") no number is the right one, and
rare components ("rare": the smallest is a sixteenth of the largest) need more samples than some of the problems have.
Jasper Ridge and cellmix come from the folder that DBMD_DATA names; what cannot be had is left out, with a line that
says so.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dbmd import DBMD, choose_components
from dbmd.errors import DataError
from dbmd.experiments.truth.data import cellmix, jasper, mixtures

FAMILIES = ("equal", "unequal", "no pure", "clusters", "sources", "few", "many", "heavy", "smooth", "coloured")
LIMITS = ("curved", "rare")
SEEDS = range(2000, 2005)
RIGHT = 0.9  # of the problems
COST = 6.0  # times a fit of the largest number


@dataclass(frozen=True)
class Problem:
    """Samples with a known number of components.

    Attributes
    ----------
    X : array of shape (n, m)
        The samples.
    r : int
        The number.
    about : str
        What was drawn, in a few words.
    source : array of int of shape (n,), optional
        The source of each sample.
    """

    X: np.ndarray
    r: int
    about: str
    source: np.ndarray | None = None


def problem(family: str, seed: int) -> Problem:
    """Return a problem of a family."""
    rng = np.random.default_rng([seed, (*FAMILIES, *LIMITS).index(family)])
    r, n_most = int(rng.integers(2, 13)), 20_000
    if family == "many":
        r, n_most = int(rng.integers(13, 31)), 8_000
    m = round(np.exp(rng.uniform(np.log(max(20, 2 * r)), np.log(200 if family == "many" else 500))))
    n = round(np.exp(rng.uniform(np.log(max(1000, 100 * r)), np.log(n_most))))
    snr, alpha = rng.uniform(5.0, 25.0), np.exp(rng.uniform(np.log(0.1), 0.0))
    if family == "few":
        n, m, snr = round(50 * r * rng.uniform(1.0, 3.0)), min(m, 100), snr - 5.0
    W = smooth(rng, r, m) if family == "smooth" else rng.random((r, m))
    H = memberships(rng, family, r, n, alpha)
    clean, source = H @ W, None
    sigma = np.sqrt(clean.var(axis=0).mean() / 10 ** (snr / 10))
    E = rng.normal(size=(n, m))
    if family == "heavy":
        E = rng.standard_t(3, size=(n, m))
    elif family == "coloured":
        near = np.exp(-np.abs(np.subtract.outer(np.arange(m), np.arange(m))) / 5.0)
        E = E @ (near * rng.normal(size=(m, m)))
        E /= E.std()
    elif family == "sources":
        source = rng.integers(0, 3, n)
        E *= np.array([0.5, 1.0, 2.0])[source, None]
    elif family == "curved":
        clean = clean + 0.15 * np.sin(6.0 * clean)
    return Problem(clean + sigma * E, r, f"r={r} m={m} n={n} {snr:.0f} dB alpha={alpha:.2f}", source)


def memberships(rng: np.random.Generator, family: str, r: int, n: int, alpha: float) -> np.ndarray:
    """Return memberships, shape (n, r)."""
    if family == "clusters":
        return np.eye(r)[rng.choice(r, n, p=0.3 / r + 0.7 * rng.dirichlet(np.full(r, 5.0)))]
    most = {"unequal": 2.0, "rare": 4.0}.get(family, 1.0)  # the smallest component is one over its square of it
    alphas = alpha * np.geomspace(most, 1.0 / most, r)
    H = rng.dirichlet(alphas, n)
    while family == "no pure" and H.max() > 0.8:
        mixed = H.max(axis=1) <= 0.8
        H[~mixed] = rng.dirichlet(alphas, int((~mixed).sum()))
    return H


def smooth(rng: np.random.Generator, r: int, m: int) -> np.ndarray:
    """Return patterns like spectra, shape (r, m): sums of four bumps each, which overlap."""
    at = np.linspace(0.0, 1.0, m)
    heights, places = rng.random((r, 4, 1)), rng.random((r, 4, 1))
    return (heights * np.exp(-np.square(at - places) / 0.02)).sum(axis=1)


def families(chosen: list[str]) -> Iterator[str]:
    """Yield for each family how often the number is right."""
    return _families(chosen or FAMILIES)


def limits(chosen: list[str]) -> Iterator[str]:
    """Yield the same for families that have no right number, or too few samples of some components."""
    return _families(chosen or LIMITS)


def _families(chosen: Sequence[str]) -> Iterator[str]:
    yield "| family | right | of | found instead |\n|---|---|---|---|"
    right = total = 0
    for family in chosen:
        wrong = []
        for seed in SEEDS:
            given = problem(family, seed)
            tried = range(2, given.r + max(4, given.r // 3) + 1)
            choice = choose_components(given.X, tried, source=given.source, random_state=seed)
            found = choice.n_components if choice.is_stable else 0
            print(f"{family} {seed}: {given.about}; found {found}", flush=True)
            if found != given.r:
                near = [f"{q}: {c:.3f}" for q, c in zip(tried, choice.typical, strict=True) if abs(q - given.r) <= 2]
                wrong.append(f"{found} ({given.about}; {', '.join(near)})")
        right, total = right + len(SEEDS) - len(wrong), total + len(SEEDS)
        yield f"| {family} | {len(SEEDS) - len(wrong)} | {len(SEEDS)} | {'; '.join(wrong)} |"
    yield f"| all | {right} | {total} | {'holds' if right >= RIGHT * total else '**does not hold**'} |"


def nothing(chosen: list[str]) -> Iterator[str]:
    """Yield what is said of one Gaussian blob."""
    yield "| blob | stable | worst pair at best |\n|---|---|---|"
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(500, 5000)), int(rng.integers(10, 100))
        choice = choose_components(rng.normal(size=(n, m)), range(2, 9), random_state=seed)
        yield f"| {n} x {m} | {choice.is_stable} | {choice.typical.max():.2f} |"


def real(chosen: list[str]) -> Iterator[str]:
    """Yield what is found for Jasper Ridge, of four materials, and cellmix, of three kinds of cells."""
    yield "| set | parameters | right | found | limit | worst pairs, r = 2 to 8 |\n|---|---|---|---|---|---|"
    for name, r, load in (("Jasper Ridge", 4, jasper), ("cellmix", 3, lambda: cellmix(genes=1000))):
        try:
            data = load()
        except DataError as missing:
            print(f"Left out: {missing}")
            continue
        part = "offsets" if data.source is not None else "brightness"
        for params in ({}, {part: True}):
            found = {}
            for seed in range(3):
                choice = choose_components(data.X, range(2, 9), source=data.source, random_state=seed, **params)
                found[seed] = choice.n_components if choice.is_stable else 0
                curve = " ".join(f"{c:.3f}" for c in choice.typical)
                yield f"| {name} | {part if params else ''} | {r} | {found[seed]} | {choice.limit:.3f} | {curve} |"


def cost(chosen: list[str]) -> Iterator[str]:
    """Yield CPU times as multiples of that of one fit of the largest number, r = 12."""
    yield "| samples x features | samples drawn | times a fit | found, of 6 | |\n|---|---|---|---|---|"
    DBMD(3, random_state=0).fit(np.random.default_rng(0).random((300, 10)))  # imports and compilation
    for n, m in ((2_000, 50), (5_000, 50), (20_000, 100), (100_000, 50)):
        X = mixtures(0, alpha=0.3, snr=15.0, components=6, n=n, m=m).X
        clock = time.process_time()
        DBMD(12, random_state=0).fit(X)
        single, clock = time.process_time() - clock, time.process_time()
        choice = choose_components(X, range(2, 13), random_state=0)
        times = (time.process_time() - clock) / single
        verdict = "holds" if times <= COST else "**does not hold**"
        yield f"| {n} x {m} | {choice.n_samples} | {times:.1f} | {choice.n_components} | {verdict} |"


PARTS: dict[str, Callable[[list[str]], Iterator[str]]] = {
    part.__name__: part for part in (families, limits, nothing, real, cost)
}


def main() -> None:
    """Print a table for each part, or for the one named on the command line."""
    warnings.simplefilter("ignore")
    name, *chosen = sys.argv[1:] or [""]
    if name not in {"", *PARTS} or not {*chosen} <= {*FAMILIES, *LIMITS}:
        sys.exit(f"Unknown part or family. Parts: {', '.join(PARTS)}. Families: {', '.join(FAMILIES + LIMITS)}.")
    for part in [PARTS[name]] if name else PARTS.values():
        lines = list(part(chosen))
        print("\n" + "\n".join(lines) + "\n", flush=True)


if __name__ == "__main__":
    main()
