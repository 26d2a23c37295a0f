"""What travels: rounds, numbers and bytes of each solver on each engine, against Table 1 of the paper."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

from dbmd.algorithm import fit
from dbmd.config import Config
from dbmd.data import partition
from dbmd.engines import Metered
from dbmd.model.start import nearest
from dbmd.registry import load, names
from engine_params import on_clusters, params

from .data import M, R, model, samples

MR = M * R
SOURCES = 3
# Of the W-step, per round: numbers down to a node and up from it. "exact" sends for each source B, A and three scalars.
TABLE_1 = {
    "agd": (MR, MR),
    "admm": (MR, MR),
    "cease": (2 * MR, 2 * MR),
    "exact": (MR, SOURCES * (MR + R * R + 3)),
}
ASKS = {"agd": 1, "admm": 1, "cease": 2, "exact": 1}  # questions in a round
# Besides: the sweep, whose summaries are a few scalars and r sums for each source; the noise step asks for them again.
SUMMARY = SOURCES * (R * R + 3)
# What pickle adds to a message at most, in bytes: names of types, the wrapping of Metered; and to each array in it.
OVERHEAD, OVERHEAD_OF_ARRAY = 400, 160
ROUNDS, ITERATIONS = 3, 2


class Ledger:
    """An engine that notes after each question what another engine sent for it, in numbers and in bytes."""

    def __init__(self, engine):
        self.engine, self.metered, self.lines = engine, Metered(engine), []
        self.n_nodes = engine.n_nodes

    def ask(self, function, *broadcast):
        before = getattr(self.engine, "sent", None)
        reply = self.metered.ask(function, *broadcast)
        self.lines.append((self.metered.last, None if before is None else self.engine.sent - before))
        return reply


@pytest.fixture
def ledger(cluster):
    """Return a function that fits a solver on an engine: its history and what was sent for each question."""
    Xt, labs, start = samples()
    codes = np.unique(labs, return_inverse=True)[1]

    def keep(engine, solver):
        cluster(engine)
        config = Config(
            n_components=R,
            solver=solver,
            init=start,
            effective_features=M,  # else some samples travel to estimate it
            max_iter=ITERATIONS,
            tol=0.0,
            solver_options={} if solver == "exact" else {"max_rounds": ROUNDS},
        )
        with load("engines", engine).Engine(partition(Xt, codes, 3)) as running:
            book = Ledger(running)
            result = fit(book, config, n_sources=SOURCES, n_features=M, dtype=Xt.dtype, seed=0)
        return result.history, book.lines

    return keep


def most_bytes(floats):
    """Return how many bytes a message may have: one array, or several for each source."""
    return 8 * floats + OVERHEAD + OVERHEAD_OF_ARRAY * (1 if floats <= MR else 3 * SOURCES)


@pytest.mark.parametrize(
    ("engine", "solver"),
    # Spark and Dask send the same messages; a round of cease has most of them.
    [
        pytest.param(*engine.values, solver, marks=engine.marks)
        for engine in params(names("engines"))
        for solver in (["cease"] if engine.values == ("spark",) else TABLE_1)
    ],
)
def test_rounds_numbers_and_bytes_are_those_of_table_1(ledger, solver, engine):
    history, lines = ledger(engine, solver)
    down, up = TABLE_1[solver]
    rounds = 1 if solver == "exact" else ROUNDS
    assert [(record.rounds, record.floats_down, record.floats_up) for record in history] == [
        (rounds, rounds * down, rounds * up)
    ] * ITERATIONS

    # The whole iteration: for "exact" nothing besides; for the others the sweep, and the summaries at the new W.
    besides = (0, 0) if solver == "exact" else (2 * MR, 2 * SUMMARY)
    for record in history:
        assert record.total_floats_down == record.floats_down + besides[0]
        assert record.total_floats_up == record.floats_up + besides[1]

    # Questions: two for the start, those of the iterations, and one for the model as it is kept.
    asks = 1 if solver == "exact" else 2 + rounds * ASKS[solver]
    assert len(lines) == 2 + ITERATIONS * asks + 1

    # Bytes really sent: eight for each number, and what pickle adds.
    for traffic, sent in lines:
        if sent is None:
            continue
        assert sent.asks == 1
        assert 8 * traffic.floats_down <= sent.down <= most_bytes(traffic.floats_down)
        scalars = 3 * SOURCES  # a count takes less than eight bytes
        assert 8 * (traffic.floats_up - scalars) <= sent.up <= most_bytes(traffic.floats_up)


@on_clusters
def test_bytes_do_not_depend_on_the_number_of_samples(cluster, engine):
    cluster(engine)
    sizes = []
    for n in (30, 3000):
        Xt, labs, start = samples(n=n)
        codes = np.unique(labs, return_inverse=True)[1]
        with load("engines", engine).Engine(partition(Xt, codes, 2)) as running:
            running.ask(partial(nearest, origin=start.mean(axis=0)), start.T)
            sizes.append(running.sent)
    small, large = sizes
    assert small.down == large.down
    assert small.functions == large.functions
    assert abs(small.up - large.up) <= 2 * SOURCES  # a count of more digits
    assert large.up < Xt.nbytes / 50


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@on_clusters
def test_nothing_larger_than_statistics_comes_here_from_data_that_live_there(cluster, engine):
    there, peaks, sizes = cluster(engine), [], (20_000, 20_000, 400_000)  # the first loads what there is to load
    for n in sizes:
        if engine == "spark":
            numbers = ", ".join(f"randn({j})" for j in range(M))
            data = there.range(0, n, 1, 4).selectExpr(f"array({numbers}) AS x")
        else:
            import dask.array as da

            data = da.random.default_rng(0).normal(size=(n, M), chunks=(n // 4, -1))
        tracemalloc.start()
        try:
            model(engine, max_iter=1, effective_features=M).fit(data)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[2] - peaks[1] < (sizes[2] - sizes[1]) * M * 8 / 10
