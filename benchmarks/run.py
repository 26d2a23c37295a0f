"""Measure speed and memory: ``make bench``. Ratios are of things measured in the same run.

Every number is the best of several repetitions, since other work on a machine only ever adds time.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

ROWS: list[tuple[str, str, str]] = []


def best(action: Callable[[], object], repeats: int = 5) -> float:
    """Return the least of the times that an action takes, in seconds; one run before to warm up."""
    action()
    times = []
    for _ in range(repeats):
        clock = time.perf_counter()
        action()
        times.append(time.perf_counter() - clock)
    return min(times)


def note(what: str, reached: str, target: str = "") -> None:
    """Print a result and keep it for the table."""
    ROWS.append((what, reached, target))
    print(f"{what}: {reached}" + (f" (target {target})" if target else ""), flush=True)


def h_step() -> None:
    """Time the H-step alone on one thread, from cold."""
    from dbmd.kernels import cpu

    rng = np.random.default_rng(0)
    targets = {(10, "float32"): "0.4", (10, "float64"): "1.2"}
    for r, n in ((7, 40_000), (10, 40_000), (20, 20_000), (50, 4_000), (100, 1_000)):
        W = rng.normal(size=(200, r))
        H = rng.dirichlet(np.full(r, 0.3), n)
        X = H @ W.T + 0.3 * rng.normal(size=(n, 200))
        centred = W - W.mean(axis=1, keepdims=True)
        Q, B = centred.T @ centred, (X - W.mean(axis=1)) @ centred
        for dtype in (np.float32, np.float64):
            Bt = B.astype(dtype)
            for alpha in (1.0, 2.0):
                a = np.full(r, 0.09 * (alpha - 1.0))
                cold = best(partial(cpu.solve_h, Q, Bt, a)) / n * 1e6
                warm = best(partial(cpu.solve_h, Q, Bt, a, cpu.solve_h(Q, Bt, a))) / n * 1e6
                name = np.dtype(dtype).name
                target = targets.get((r, name))
                note(
                    f"H-step, r = {r}, {name}, alpha = {alpha:g}, one thread",
                    f"{cold:.2f} us a sample cold, {warm:.2f} warm",
                    f"{target} us cold" if target else "",
                )


def one_pass() -> None:
    """Time a whole pass over 400,000 x 784 float32 against the two bare products."""
    from dbmd.data import partition
    from dbmd.engines.local import Engine
    from dbmd.sweep import sweep

    rng = np.random.default_rng(0)
    n, m, r = 400_000, 784, 10
    W = rng.random((m, r))
    H = rng.dirichlet(np.full(r, 0.3), n).astype(np.float32)
    W32 = W.astype(np.float32)
    X = H @ W32.T
    X += 0.1 * rng.standard_normal(X.shape, dtype=np.float32)
    sigma2 = np.full(3, 0.01)
    seconds = {}
    for threads in (1, 2):
        with threadpool_limits(threads):
            bare = best(lambda: (X @ W32, H.T @ X))
        for alpha in (1.0, 2.0):
            step = partial(sweep, sigma2=sigma2, prior=np.full(r, alpha - 1.0), origin=W.mean(axis=1), gather=True)
            with Engine(partition(X, 0, threads), n_threads=threads) as engine:
                warm = best(lambda ask=engine.ask, step=step: ask(step, W))
                cold = best(lambda ask=engine.ask, step=step: ask(partial(step, warm=False), W))
            seconds[threads, alpha] = warm
            note(
                f"Pass, 400,000 x 784 float32, r = 10, alpha = {alpha:g}, {threads} thread(s)",
                f"{warm:.3f} s warm, {cold:.3f} s cold; bare X @ W and H.T @ X {bare:.3f} s; "
                f"ratio {warm / bare:.2f} warm, {cold / bare:.2f} cold",
                "1.6" if threads == 2 else "",
            )
    for alpha in (1.0, 2.0):
        note(
            f"Two threads over one, alpha = {alpha:g}",
            f"{seconds[1, alpha] / seconds[2, alpha]:.2f} times as fast",
            "1.8",
        )
    mixed = rng.integers(0, 3, n)
    step = partial(sweep, sigma2=sigma2, prior=np.zeros(r), origin=W.mean(axis=1), gather=True)
    with Engine(partition(X, mixed, 2), n_threads=2) as engine:
        gathered = best(lambda: engine.ask(step, W))
    note("The same with three sources in alternating rows, 2 threads", f"{gathered:.3f} s")


def start_up() -> None:
    """Time imports and the first fit in fresh interpreters."""

    def python(code: str) -> float:
        return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)

    timed = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
    note("import dbmd", f"{min(python(timed.format('import dbmd')) for _ in range(5)):.3f} s", "0.3 s")
    note("from dbmd import DBMD", f"{min(python(timed.format('from dbmd import DBMD')) for _ in range(3)):.2f} s")
    first = (
        "import numpy as np, time; from dbmd import DBMD; X = np.random.default_rng(0).random((100, 5));"
        "t = time.perf_counter(); DBMD(2, max_iter=5, tol=1.0).fit(X); print(time.perf_counter() - t)"
    )
    note("First fit of a process, kernels in the disk cache", f"{min(python(first) for _ in range(3)):.2f} s", "1.5 s")


def memory() -> None:
    """Measure the peak memory of a fit over that of X and H."""
    code = """
import resource, numpy as np, warnings
from dbmd import DBMD
warnings.simplefilter("ignore")
DBMD(3, max_iter=2).fit(np.random.default_rng(0).random((2000, 20), dtype=np.float32))
n, m, r = 400_000, 784, 10
X = np.empty((n, m), np.float32)
rng = np.random.default_rng(0)
for start in range(0, n, 10_000):
    X[start : start + 10_000] = rng.random((10_000, m), dtype=np.float32)
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()  # resident now, not at the peak
DBMD(r, max_iter=3, random_state=0).fit(X)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print((after - before - n * r * 4) / 2**20)
"""
    extra = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    note("Peak memory of a fit of 400,000 x 784 float32 beyond X and H", f"{float(extra):.0f} MB", "200 MB")


def peers() -> None:
    """Time whole fits beside scikit-learn's, on data of CoverType's shape (or itself, where it can be had)."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.decomposition import NMF

    from dbmd import DBMD
    from dbmd.data.datasets import load
    from dbmd.errors import DataError

    warnings.simplefilter("ignore")
    try:
        X, name = load("covtype").X, "CoverType, 581,012 x 54 float32"
    except DataError:
        X, name = np.random.default_rng(0).random((581_012, 54), dtype=np.float32), "random 581,012 x 54 float32"
    fits = {
        "dbmd (to tol 1e-3)": lambda: DBMD(7, random_state=0).fit(X),
        "scikit-learn KMeans (n_init=1)": lambda: KMeans(7, n_init=1, random_state=0).fit(X),
        "scikit-learn NMF (50 iterations)": lambda: NMF(7, max_iter=50, random_state=0).fit(np.maximum(X, 0.0)),
    }
    for fit_name, fit in fits.items():
        clock = time.perf_counter()
        model = fit()
        note(f"{name}, r = 7: {fit_name}", f"{time.perf_counter() - clock:.1f} s, {model.n_iter_} iterations")


PARTS = {f.__name__: f for f in (h_step, one_pass, start_up, memory, peers)}


def main() -> None:
    """Run the parts named on the command line, or all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="what to measure; all without it")
    parser.add_argument("--table", type=Path, default=Path(tempfile.gettempdir()) / "dbmd-bench.md")
    options = parser.parse_args()
    for part in options.part or PARTS:
        PARTS[part]()
    head = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, NumPy {np.__version__}"
    lines = [head, "", "| what | reached | target |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in ROWS)]
    options.table.write_text("\n".join(lines) + "\n")
    print(f"\nThe table is in {options.table}.")


if __name__ == "__main__":
    main()
