"""Everything that is measured on a GPU; see :mod:`benchmarks.gpu`."""

from __future__ import annotations

from benchmarks.gpu import ceilings, fits, h_step, passes, streamed
from benchmarks.plan import Plan, Record, Task

RUN = {
    "ceilings": ceilings.run,
    "pass": passes.dense,
    "pieces": passes.pieces,
    "h_step": h_step.run,
    "csr": passes.csr,
    "fit": fits.dbmd,
    "k_means": fits.k_means,
    "two_cores": fits.on_two_cores,
    "streamed": streamed.run,
}
GB = 1_000_000_000


def tasks(plan: Plan) -> list[Task]:
    """Return a task for each thing that is measured. Repetitions are within a task: data are made once."""
    small, repeats = plan.quick, 2 if plan.quick else 30
    n, m, sizes = (3_000, 20, (3, 14)) if small else (400_000, 784, (10, 50))
    few = {"n": n, "m": m, "seed": 0, "type": "float32", "repeats": repeats}
    first = sizes[0]
    largest = 100 * GB if plan.full else 16 * GB
    cells = {"n": 800, "m": 60, "r": 4} if small else {"n": 100_000, "m": 5_000, "r": 20}
    bus = 1_000_000 if small else GB
    peers = {"most": 5 if small else 100}

    def by_r(what: str) -> list[Task]:
        return [{"what": what, "r": r} for r in sizes]

    # A machine with a GPU may be there for minutes only: what there are targets for comes first.
    asked: list[Task] = [
        {"what": "ceilings", "bus_bytes": bus},
        *(each | {"repeats": repeats if small else 300} for each in by_r("pass")),
        *({"what": "fit", "where": where, "r": first, "repeats": min(repeats, 16)} for where in ("device", "host")),
        {"what": "csr", **cells},
        *by_r("h_step"),
        {"what": "streamed", "r": first, "bytes": 400_000 if small else largest, "bus_bytes": bus}
        | {"room": 200_000 if small else 6 * GB, "repeats": 2 if small else 4},
        {"what": "k_means", "r": first, **peers, "repeats": min(repeats, 3)},
        {"what": "two_cores", "r": first, **peers},
        *by_r("pieces"),
    ]
    return [few | {"threads": plan.threads} | task for task in asked]


def run(task: Task) -> Record:
    """Return the record of a task."""
    return RUN[task["what"]](task)
