"""Seeds and starts: random, several, from a sample, and from a sample of wide data."""

import multiprocessing
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd._utils.parallel import kept_threads
from dbmd.algorithm import descend
from dbmd.config import Config
from dbmd.data import partition
from dbmd.engines.local import Engine
from dbmd.model import reduce, start
from dbmd.model.low_rank import LowRank
from dbmd.start import Setting, find_start

from .fits import SOLVERS, difference, fitted, mixture


@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
def test_one_seed_gives_one_result_and_another_seed_another_start(init):
    X, source, _, _ = mixture(7)
    parameters = {"n_components": 4, "init": init, "max_iter": 1}
    first = fitted(X, source, **parameters)
    assert_array_equal(first.components_, fitted(X, source, **parameters).components_)
    others = [fitted(X, source, random_state=seed, **parameters) for seed in (1, 2, 3)]
    assert max(difference(other.components_, first.components_) for other in others) > 1e-3


def test_a_random_state_object_moves_on():
    X, _, _, _ = mixture(7)
    state = np.random.RandomState(0)
    first = fitted(X, n_components=4, init="random", random_state=state, max_iter=1)
    second = fitted(X, n_components=4, init="random", random_state=state, max_iter=1)
    assert difference(first.components_, second.components_) > 1e-3


def test_a_random_start_is_of_samples():
    X, _, _, _ = mixture(8)
    starts = []

    def engine(nodes):
        from dbmd.engines.local import Engine

        class Spy(Engine):
            def ask(self, function, *broadcast):
                if broadcast and not starts:
                    starts.append(broadcast[0])
                return super().ask(function, *broadcast)

        return Spy(nodes)

    fitted(X, n_components=5, init="random", max_iter=1, engine=engine)
    rows = [int(np.flatnonzero((w == X).all(axis=1))[0]) for w in starts[0].T]
    assert len(set(rows)) == 5


def test_of_several_starts_the_labels_are_those_of_the_one_that_is_kept():
    X, source, _, _ = mixture(3, n=60)
    for seed in range(6):
        model = fitted(X, source, n_components=4, init="random", n_init=3, random_state=seed, max_iter=5)
        assert_array_equal(model.labels_, model.predict(X, source=source))


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(("inference", "rise"), [("map", 0.0), ("evidence", 1e-2)])
def test_of_several_starts_the_lowest_objective_is_kept(inference, rise):
    gains = []
    for seed in range(6):
        X, source, _, _ = mixture(seed, n=60, r=5)
        parameters = {"n_components": 5, "init": "random", "random_state": seed, "inference": inference}
        once = fitted(X, source, **parameters)
        often = fitted(X, source, n_init=6, **parameters)
        gains.append((once.objective_ - often.objective_) / X.size)
        # With evidence J is a little off its last bound where samples have changed faces since.
        assert often.objective_ <= often.history_[-1].objective + (1e-9 + rise) * X.size
    assert min(gains) >= -rise  # the first of the six is the one alone
    assert max(gains) > rise


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
def test_every_solver_may_be_started_several_times(solver, init):
    X, source, _, _ = mixture(seed=6)
    one = fitted(X, source, n_components=3, solver=solver, init=init, max_iter=30)
    three = fitted(X, source, n_components=3, solver=solver, init=init, max_iter=30, n_init=3)
    assert three.objective_ <= one.objective_ + 1e-9 * abs(one.objective_)


def test_a_given_start_at_the_optimum_is_kept():
    """The minimiser is known: noise-free data, and a start at the truth."""
    X, _, W, _ = mixture(9, sigmas=(0.0,))
    model = fitted(X, n_components=3, init=W.T, noise=1.0, inference="map")
    assert difference(model.components_, W.T) < 1e-6


@pytest.mark.parametrize("offset", [0.0, 300.0])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_from_a_sample_float32_ends_where_float64_does(form, offset, monkeypatch):
    """The sample is fitted in float64; the origin and the least noise are those of the type of the data again."""
    monkeypatch.setattr("dbmd.model.start.SAMPLE", 300)
    monkeypatch.setattr("dbmd.model.start.SAMPLE_EACH", 1)
    X, _, _, _ = mixture(seed=3, n=2000, sigmas=(0.5,), dtype=np.float32)
    X += np.float32(offset)
    one, other = (fitted(form(X.astype(dtype)), n_components=3, tol=1e-4) for dtype in (np.float32, np.float64))
    assert one.n_iter_ <= 15
    # Rounding puts a few samples on other faces.
    assert_allclose(one.objective_, other.objective_, atol=1e-3 * X.size)
    assert difference(one.components_ - offset, other.components_ - offset) < 0.02


def test_a_sample_saves_passes_and_ends_as_low(monkeypatch):
    X, _, _, _ = mixture(seed=5, n=4000, m=8, r=4, sigmas=(0.5,))
    centres = start.k_means_of_a_sample(Engine(partition(X, 0, 1)).ask, 4, 0).T
    whole = fitted(X, n_components=4, effective_features=8, init=centres)
    monkeypatch.setattr("dbmd.model.start.SAMPLE", 500)
    monkeypatch.setattr("dbmd.model.start.SAMPLE_EACH", 1)
    part = fitted(X, n_components=4, effective_features=8)
    assert part.n_iter_ < whole.n_iter_
    assert abs(part.objective_ - whole.objective_) <= 1e-3 * X.size


def start_of_wide_samples(X, source, n_nodes=2, n_threads=1, **parameters):
    """Return the state that a fit of a sample leads to, where there are many more features than components."""
    config = Config(n_components=3, **parameters)
    with (
        pytest.MonkeyPatch.context() as patch,
        Engine(partition(X, source, n_nodes), n_threads) as engine,
    ):
        patch.setattr(start, "SAMPLE", 600)
        patch.setenv("DBMD_NUM_THREADS", str(n_threads))
        sample = start.draw_sample(engine.ask, engine.ask(start.moments), 3, 0)
        assert sample.is_worth_a_peak_fit
        assert isinstance(start.k_means(sample, 3, 0)[1], LowRank)
        return find_start(Setting(engine, config, 3, X.dtype), engine.ask(start.moments), 0, None, descend)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_the_start_of_wide_samples_knows_the_noise_in_all_directions(lam, dtype):
    X, source, *_ = mixture(n=2000, m=60, dtype=dtype)
    found = start_of_wide_samples(X, source, lam=lam)
    assert_allclose(np.sqrt(found.sigma2), (0.2, 0.6, 1.5), rtol=0.1)


def test_the_start_of_wide_samples_is_the_same_however_they_are_cut_stored_or_shared_by_threads():
    X, source, *_ = mixture(n=2000, m=60)
    X = X * (np.random.default_rng(1).random(X.shape) < 0.5)
    expected = start_of_wide_samples(X, source)
    for form, n_nodes, n_threads in ((np.asarray, 5, 3), (sparse.csr_array, 2, 1), (sparse.csr_array, 3, 2)):
        found = start_of_wide_samples(form(X), source, n_nodes, n_threads)
        assert difference(found.V, expected.V) < 1e-7
        assert_allclose(found.sigma2, expected.sigma2, rtol=1e-7)


def test_what_is_done_beside_the_clusters_ends_with_a_start_that_fails(monkeypatch):
    X, source, *_ = mixture(n=2000, m=60)
    begun, failed, after = threading.Event(), threading.Event(), []

    def clusters_of(*_):
        begun.set()
        failed.wait(30.0)
        time.sleep(0.1)
        after.append("clusters")

    def noise_excess(*_):
        assert begun.wait(30.0)
        failed.set()
        raise MemoryError

    monkeypatch.setattr("dbmd.start.clusters_of", clusters_of)
    monkeypatch.setattr("dbmd.start.noise_excess", noise_excess)
    with pytest.raises(MemoryError):
        start_of_wide_samples(X, source, n_threads=3)
    assert after == ["clusters"]


def _fitted_in_a_fork(X, answers):
    found = fitted(X, n_components=3).components_
    meeting = threading.Barrier(2, timeout=60.0)
    kept_threads().map(lambda _: meeting.wait(), range(2))  # there is another thread
    answers.put(found)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # which is what is tested
def test_a_process_that_was_forked_after_a_fit_has_threads_of_its_own(monkeypatch):
    monkeypatch.setenv("DBMD_NUM_THREADS", "3")
    monkeypatch.setattr(start, "SAMPLE", 600)
    X, *_ = mixture(n=2000, m=60)
    expected = fitted(X, n_components=3).components_
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=_fitted_in_a_fork, args=(X, answers))
    process.start()
    try:
        assert_array_equal(answers.get(timeout=120.0), expected)
    finally:
        process.kill()
        process.join()


def test_the_start_of_wide_samples_moves_and_grows_with_them():
    X, source, *_ = mixture(n=2000, m=60)
    vector = 100.0 * np.random.default_rng(1).normal(size=60)
    one, other = start_of_wide_samples(X, source), start_of_wide_samples(7.0 * X + vector, source)
    assert difference(other.V - vector[:, None], 7.0 * one.V) < 1e-5
    assert_allclose(other.sigma2, 49.0 * one.sigma2, rtol=1e-6)


def test_a_fit_of_wide_samples_gets_as_low_as_from_the_samples_themselves(monkeypatch):
    X, *_ = mixture(n=2000, m=60, sigmas=(0.5,))
    monkeypatch.setattr(start, "SAMPLE", 600)
    values = []
    for wide in (reduce.WIDE, 1000):
        monkeypatch.setattr(reduce, "WIDE", wide)
        values.append(fitted(X, n_components=3, tol=1e-7, effective_features=60).objective_)
    assert abs(values[0] - values[1]) < 1e-4 * X.size
