"""Running commands in this process or in one of their own, and data for them."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

from dbmd.cli import main


def run(*arguments, code=0):
    """Run a command in this process; return the result, which must have this exit code."""
    result = CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.stdout + result.stderr
    return result


def refused(*arguments):
    """Run a command that must fail; return its one sentence."""
    result = run(*arguments, code=2)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("Error: ")
    assert lines[0].endswith((".", "?"))
    return lines[0].removeprefix("Error: ")


def process(*arguments, **options):
    """Start a command in a process of its own, with its messages and results in pipes."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "dbmd", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, **(pipes | options))


def wait_for(holds, running, seconds=60.0):
    """Wait until something holds; say whether it did before the process ended."""
    end = time.monotonic() + seconds
    while not holds():
        if running.poll() is not None:
            return holds()
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.002)
    return True


def samples(n=120, m=4, *, seed=0, r=3, dtype=np.float64):
    """Return samples about r points, shape (n, m), and for each the name of one of three sources."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(r, m)) * 4
    source = np.array(["berlin", "lima", "oslo"])[np.arange(n) % 3]
    noise = np.array([0.1, 0.5, 1.0])[np.arange(n) % 3]
    X = rng.dirichlet(np.full(r, 0.5), n) @ W + rng.normal(size=(n, m)) * noise[:, None]
    return X.astype(dtype), source


def names(m):
    return [f"x{i}" for i in range(m)]


def write_parquet(path, X, **others):
    pq.write_table(pa.table({**others, **dict(zip(names(X.shape[1]), np.asarray(X).T, strict=True))}), path)
    return path


def write_csv(path, X, **others):
    columns = {**others, **dict(zip(names(X.shape[1]), np.asarray(X).T.tolist(), strict=True))}
    rows = zip(*columns.values(), strict=True)
    text = [",".join(columns), *(",".join(str(v) for v in row) for row in rows)]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path
