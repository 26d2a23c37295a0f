"""Data larger than memory: what a fit holds, and what a pass over a file costs beside one over an array.

    python benchmarks/larger_than_memory.py                 # 6 GB as npy and as Parquet, in a temporary folder
    python benchmarks/larger_than_memory.py --gigabytes 1.5 --features 784 --no-fits

The whole fits run as ``dbmd fit`` in processes of their own, with their anonymous memory (page cache aside) sampled.
The passes are timed in one process, side by side, and take turns; the files are in the page cache.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dbmd.data import partition
from dbmd.dataset import open_data
from dbmd.engines.local import Engine, available_threads
from dbmd.h_step import origin_of
from dbmd.sweep import sweep

R, FILE_ROWS_BYTES = 10, 60_000_000


def write(folder: Path, gigabytes: float, m: int, dictionary: bool) -> tuple[Path, Path]:
    """Write mixtures of R patterns as an npy file and as a folder of Parquet files of a row group each."""
    n = int(gigabytes * 1e9 / (4 * m))
    rng = np.random.default_rng(0)
    W = rng.normal(size=(R, m)).astype(np.float32)
    npy, parquet = folder / "data.npy", folder / "parquet"
    parquet.mkdir()
    X = np.lib.format.open_memmap(npy, "w+", np.float32, (n, m))
    step = FILE_ROWS_BYTES // (4 * m)
    for number, i in enumerate(range(0, n, step)):
        rows = min(step, n - i)
        part = rng.dirichlet(np.full(R, 0.3), rows).astype(np.float32) @ W
        part += 0.3 * rng.standard_normal((rows, m), dtype=np.float32)
        X[i : i + rows] = part
        table = pa.table({f"x{j}": np.ascontiguousarray(part[:, j]) for j in range(m)})
        pq.write_table(table, parquet / f"part-{number}.parquet", use_dictionary=dictionary)
    X.flush()
    return npy, parquet


def fit_and_watch(data: Path, model: Path, iterations: int) -> tuple[float, float, float]:
    """Return the peaks of anonymous and of all resident memory in MB, and the seconds, of ``dbmd fit``."""
    command = [sys.executable, "-m", "dbmd", "fit", str(data), "-k", str(R), "-o", str(model), "--no-report", "--quiet"]
    clock = time.perf_counter()
    process = subprocess.Popen([*command, "--max-iter", str(iterations), "--tol", "0"], stderr=subprocess.DEVNULL)
    anonymous = resident = 0.0
    while process.poll() is None:
        try:
            status = dict(
                line.split(":", 1)
                for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
                if ":" in line
            )
        except OSError:
            break
        if "RssAnon" in status:
            anonymous = max(anonymous, int(status["RssAnon"].split()[0]) / 1e3)
            resident = max(resident, int(status["VmHWM"].split()[0]) / 1e3)
        time.sleep(0.02)
    assert process.wait() == 0
    return anonymous, resident, time.perf_counter() - clock


def one_pass(engine: Engine, W: np.ndarray) -> float:
    step = partial(sweep, sigma2=np.ones(1), prior=np.zeros(R), origin=origin_of(W, np.dtype(np.float32)))
    clock = time.perf_counter()
    engine.ask(step, W)
    return time.perf_counter() - clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--features", type=int, default=200)
    parser.add_argument("--dictionary", action="store_true", help="pyarrow's default, which makes such data larger")
    parser.add_argument("--fits", action=argparse.BooleanOptionalAction, default=True, help="whole fits, too")
    parser.add_argument("--folder", type=Path, help="where to put the files; by default a temporary folder")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        npy, parquet = write(folder, options.gigabytes, options.features, options.dictionary)
        n, m = np.load(npy, mmap_mode="r").shape
        size = sum(file.stat().st_size for file in parquet.iterdir()) / 1e9
        print(
            f"{n:,} x {m} float32, {npy.stat().st_size / 1e9:.1f} GB as npy, {size:.1f} GB as Parquet; r = {R}",
            flush=True,
        )
        for path in (npy, parquet) if options.fits else ():
            anonymous, resident, seconds = fit_and_watch(path, folder / f"model-{path.name}", options.iterations)
            print(
                f"dbmd fit {path.name}: {anonymous:.0f} MB anonymous memory at most ({resident:.0f} MB with mapped "
                f"pages), {seconds:.1f} s for the start and {options.iterations} iterations",
                flush=True,
            )
        W = np.random.default_rng(1).normal(size=(m, R))
        X = np.load(npy)
        nodes = partition(X, 0, available_threads())
        engines = {
            "in memory": Engine(nodes),
            "in memory, memberships not kept": Engine([replace(node, keeps_rows=False) for node in nodes]),
            "npy": Engine(open_data(npy).nodes(None, R)),
            "Parquet": Engine(open_data(parquet).nodes(None, R)),
        }
        times: dict[str, list[float]] = {kind: [] for kind in engines}
        for _ in range(options.repeats + 1):
            for kind, engine in engines.items():
                times[kind].append(one_pass(engine, W))
        best = {kind: min(seconds[1:]) for kind, seconds in times.items()}
        for kind, seconds in best.items():
            print(f"a pass, {kind}: {seconds:.2f} s, {seconds / best['in memory']:.2f} times the one in memory")


if __name__ == "__main__":
    main()
