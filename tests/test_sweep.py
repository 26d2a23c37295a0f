from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dbmd.data import Block, block, partition
from dbmd.engines.local import Engine
from dbmd.h_step import HStep
from dbmd.kernels import reference
from dbmd.memberships import MembershipModel, write_memberships
from dbmd.model.node import Node
from dbmd.model.profile import Profile
from dbmd.model.start import nearest
from dbmd.model.statistics import Quadratic, Statistics, Summary
from dbmd.survey import survey
from dbmd.sweep import summarise, sweep, sweep_and_keep
from strategies import statistics_of

N, M, R = 157, 6, 3
SIGMA2 = np.array([0.05, 0.5, 4.0])
PRIORS = {"none": np.zeros(R), "equal": np.full(R, 0.7), "a vector": np.array([0.2, 0.0, 1.5])}
SOURCES = {
    "one": np.zeros(N, int),
    "sorted": np.repeat([0, 1, 2], [50, 60, 47]),
    "alternating": np.arange(N) % 3,
}


def data(rng, offset=0.0):
    """Return samples with some zeros, and a basis near which they lie."""
    W = offset + rng.normal(size=(M, R))
    Xt = rng.dirichlet(np.ones(R), N) @ W.T + 0.3 * rng.normal(size=(N, M))
    return Xt * (rng.random((N, M)) < 0.8), W


def plain_memberships(Xt, W, sources, prior):
    """Return Ht by the formula: min 1/2 ||x - W h||^2 - sigma_c^2 sum_k prior_k ln h_k, by the reference kernel."""
    Ht = np.empty((len(Xt), W.shape[1]))
    for c in np.unique(sources):
        own = sources == c
        Ht[own] = reference.solve_h(W.T @ W, Xt[own] @ W, SIGMA2[c] * prior)
    return Ht


def a_pass(prior, *, gather=True, **options):
    """Return a sweep that sends its statistics, or keeps them and sends their summary."""
    step = partial(sweep, sigma2=SIGMA2, prior=prior, **options)
    return step if gather else partial(sweep_and_keep, sweep=step, sigma2=SIGMA2)


def asked(Xt, W, sources, prior, *, n_nodes=1, gather=True, passes=1):
    """Return the reply to the last of some sweeps, and the nodes after it."""
    with Engine(partition(Xt, sources, n_nodes), n_threads=1) as engine:
        for _ in range(passes):
            reply = engine.ask(a_pass(prior, gather=gather), W)
        return reply, engine.nodes


def assert_statistics_close(found, expected, rtol):
    assert sorted(found) == sorted(expected)
    for c, stats in found.items():
        other = expected[c]
        assert_allclose(stats.XHt, other.XHt, rtol=rtol, atol=rtol * np.abs(other.XHt).max())
        assert_allclose(stats.HHt, other.HHt, rtol=rtol, atol=rtol * np.abs(other.HHt).max())
        assert_allclose(stats.sq_norm, other.sq_norm, rtol=rtol)
        assert_allclose(stats.h_cost, other.h_cost, rtol=rtol, atol=rtol * other.n)
        assert stats.n == other.n


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("sources", SOURCES)
def test_statistics_are_those_of_a_plain_computation(sources, prior, rng):
    Xt, W = data(rng)
    prior, sources = PRIORS[prior], SOURCES[sources]
    Ht = plain_memberships(Xt, W, sources, prior)
    expected = {c: statistics_of(Xt[sources == c], Ht[sources == c], prior) for c in np.unique(sources)}
    found, _ = asked(Xt, W, sources, prior, n_nodes=2)
    assert all(isinstance(stats, Statistics) for stats in found.values())
    assert_statistics_close(found, expected, rtol=1e-5)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("sources", SOURCES)
def test_neither_nodes_nor_chunks_matter(sources, prior, rng, monkeypatch):
    Xt, W = data(rng)
    prior, sources = PRIORS[prior], SOURCES[sources]
    expected, _ = asked(Xt, W, sources, prior)
    for min_rows, chunk_bytes, n_nodes in [(1, 1, 1), (10, 1, 3), (7, 500, 7), (512, 10**9, 5), (1, 2000, N)]:
        monkeypatch.setattr(block, "MIN_ROWS", min_rows)
        monkeypatch.setattr(block, "CHUNK_BYTES", chunk_bytes)
        found, _ = asked(Xt, W, sources, prior, n_nodes=n_nodes)
        assert_statistics_close(found, expected, rtol=1e-11)


@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, np.asfortranarray])
def test_storage_does_not_matter(kind, sources, rng, monkeypatch):
    monkeypatch.setattr(block, "MIN_ROWS", 20)
    monkeypatch.setattr(block, "CHUNK_BYTES", 1)
    Xt, W = data(rng)
    expected, _ = asked(Xt, W, SOURCES[sources], PRIORS["equal"])
    found, _ = asked(kind(Xt), W, SOURCES[sources], PRIORS["equal"], n_nodes=2)
    assert_statistics_close(found, expected, rtol=1e-10)


@pytest.mark.parametrize("sources", SOURCES)
def test_float32_stays_float32_in_the_memberships_and_becomes_float64_in_the_sums(sources, rng):
    Xt, W = data(rng)
    expected, _ = asked(Xt, W, SOURCES[sources], PRIORS["equal"])
    found, nodes = asked(Xt.astype(np.float32), W, SOURCES[sources], PRIORS["equal"], n_nodes=2)
    assert_statistics_close(found, expected, rtol=1e-4)
    for stats in found.values():
        assert stats.XHt.dtype == stats.HHt.dtype == np.float64
    assert {node.Ht.dtype for node in nodes} == {np.dtype(np.float32)}


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_float32_data_are_accumulated_in_float64(kind, monkeypatch):
    monkeypatch.setattr(block, "MIN_ROWS", 1)
    monkeypatch.setattr(block, "MAX_ROWS", 1)
    Xt = np.ones((300, 2), np.float32)
    Xt[0] = 2.0**26  # in float32, adding one to this changes nothing
    found, _ = asked(kind(Xt), np.ones((2, 1)), np.zeros(300, int), np.zeros(1))
    assert_array_equal(found[0].XHt, 2.0**26 + 299.0)
    assert found[0].HHt[0, 0] == 300.0
    assert found[0].sq_norm == 2.0 * (2.0**52 + 299.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_offset_common_to_data_and_basis_does_not_change_the_memberships(dtype, rng):
    Xt, W = data(rng)
    shift = 100.0 * rng.normal(size=M)
    one = Block(Xt.astype(dtype), 1)
    other = Block((Xt + shift).astype(dtype), 1)
    found = []
    for held, basis in ((one, W), (other, W + shift[:, None])):
        h_step = HStep.prepare(held, basis, sigma2=SIGMA2, prior=PRIORS["equal"], origin=np.zeros(M))
        (chunk,) = held.chunks(h_step.shift)
        found.append(h_step.memberships(chunk))
    assert_allclose(found[1], found[0], atol=1e-3 if dtype is np.float32 else 1e-8)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("gather", [False, True])
def test_a_second_pass_from_the_memberships_of_the_first_gives_the_same(gather, prior, rng):
    Xt, W = data(rng)
    sources = SOURCES["alternating"]
    first, _ = asked(Xt, W, sources, PRIORS[prior], n_nodes=3, gather=gather)
    second, _ = asked(Xt, W, sources, PRIORS[prior], n_nodes=3, gather=gather, passes=3)
    for c in first:
        if gather:
            assert_statistics_close({c: second[c]}, {c: first[c]}, rtol=1e-6)
        else:
            assert_allclose(second[c].squares, first[c].squares, rtol=1e-6)
            assert_allclose(second[c].sizes, first[c].sizes, rtol=1e-6, atol=1e-6 * first[c].n)


@pytest.mark.parametrize("prior", PRIORS)
def test_a_pass_after_W_has_moved_does_not_remember_the_old_W(prior, rng):
    Xt, W = data(rng)
    sources, prior = SOURCES["sorted"], PRIORS[prior]
    expected, _ = asked(Xt, W, sources, prior)
    with Engine(partition(Xt, sources, 2), n_threads=1) as engine:
        engine.ask(a_pass(prior), rng.normal(size=W.shape))
        for warm in (True, False):
            found = engine.ask(a_pass(prior, warm=warm), W)
            assert_statistics_close(found, expected, rtol=1e-5)


@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize("n_nodes", [1, 4])
def test_nodes_keep_their_memberships_in_the_order_of_their_rows(n_nodes, sources, rng, monkeypatch):
    monkeypatch.setattr(block, "MIN_ROWS", 16)
    monkeypatch.setattr(block, "CHUNK_BYTES", 1)
    Xt, W = data(rng)
    _, nodes = asked(Xt, W, SOURCES[sources], PRIORS["equal"], n_nodes=n_nodes, passes=2)
    Ht = np.concatenate([node.Ht for node in nodes])
    assert_allclose(Ht, plain_memberships(Xt, W, SOURCES[sources], PRIORS["equal"]), atol=1e-6)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("gather", [False, True])
def test_a_node_that_keeps_no_rows_gives_what_every_cold_sweep_gives(gather, prior, rng):
    Xt, W = data(rng)
    step, cold_step = (a_pass(PRIORS[prior], gather=gather, warm=warm) for warm in (True, False))
    kept = Node("kept", block=Block(Xt, SOURCES["alternating"]))
    bare = replace(kept, keeps_rows=False)
    _, expected = step(kept, W)
    for basis in (rng.normal(size=W.shape), W):
        kept, cold = cold_step(kept, basis)
        bare, found = step(bare, basis)
        assert bare.Ht is None
        assert kept.Ht.shape == (N, R)
    for c in expected:
        for name in ("sizes", "squares") if not gather else ("XHt", "HHt", "sq_norm"):
            assert_array_equal(getattr(found[c], name), getattr(expected[c], name))
            assert_array_equal(getattr(cold[c], name), getattr(expected[c], name))


def test_squared_norms_are_those_about_the_origin_of_this_sweep(rng):
    Xt, W = data(rng)
    node = Node("one", block=Block(Xt, SOURCES["sorted"]))
    for origin in (np.zeros(M), np.ones(M), np.ones(M), np.zeros(M)):
        node, stats = sweep(node, W, sigma2=SIGMA2, prior=PRIORS["none"], origin=origin)
        for c, s in stats.items():
            assert_allclose(s.sq_norm, ((Xt[SOURCES["sorted"] == c] - origin) ** 2).sum(), rtol=1e-12)


@pytest.mark.parametrize("sources", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("n_nodes", [1, 4])
def test_samples_that_were_projected_are_as_far_from_W_as_before(n_nodes, sources, rng):
    """Along a direction in which W does not reach, only the squared lengths of samples count."""
    Xt, W = data(rng)
    along, weights = rng.normal(size=N), rng.random(N) + 0.5
    whole = partition(np.column_stack([Xt, along]), sources, n_nodes, weights=weights)
    inside = partition(Xt, sources, n_nodes, weights=weights, off=along**2)
    high = np.vstack([W, np.zeros(R)])
    for ask in (nearest, partial(a_pass(PRIORS["none"]), warm=False), a_pass(PRIORS["none"])):
        with Engine(whole) as features, Engine(inside) as coordinates:
            expected, found = features.ask(ask, high), coordinates.ask(ask, W)
            again = coordinates.ask(ask, W)
        for c in np.unique(sources):
            assert_allclose(found[c].sq_norm, expected[c].sq_norm)
            assert_allclose(again[c].sq_norm, expected[c].sq_norm)
            assert_allclose(found[c].squares(W), expected[c].squares(high))
            assert_allclose(found[c].XHt, expected[c].XHt[:M], atol=1e-10)
            assert_allclose(found[c].HHt, expected[c].HHt, atol=1e-10)


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("sources", SOURCES)
def test_a_survey_finds_statistics_and_profile_of_a_plain_computation(sources, prior, kind, keeps, rng, monkeypatch):
    monkeypatch.setattr(block, "MIN_ROWS", 16)
    monkeypatch.setattr(block, "CHUNK_BYTES", 1)
    Xt, W = data(rng, offset=3.0)
    prior, sources, classes = PRIORS[prior], SOURCES[sources], rng.integers(0, 4, N)
    origin = W.mean(axis=1)
    nodes = [replace(node, keeps_rows=keeps) for node in partition(kind(Xt), sources, 3, class_codes=classes)]
    with Engine(nodes, n_threads=1) as engine:
        engine.ask(a_pass(prior), rng.normal(size=W.shape))
        step = partial(survey, sigma2=SIGMA2, prior=prior, origin=origin, n_classes=4)
        found = engine.ask(step, W)
        kept = [node.Ht for node in engine.nodes]
    Ht = plain_memberships(Xt - origin, W - origin[:, None], sources, prior)
    plain = {c: statistics_of(Xt[sources == c] - origin, Ht[sources == c], prior) for c in np.unique(sources)}
    assert_statistics_close(found.stats, plain, rtol=1e-5)
    expected = Profile.zero(3, R, 4)
    for c in np.unique(sources):
        expected.count(Ht[sources == c], c, classes[sources == c])
    assert_array_equal(found.profile.n, expected.n)
    assert_allclose(found.profile.sizes, expected.sizes, atol=1e-5 * N)
    # Memberships that agree to the precision of the kernel may still lie on two sides of the edge of a bin.
    for name in ("counts", "largest", "memberships", "contingency"):
        assert np.abs(getattr(found.profile, name) - getattr(expected, name)).sum() <= 0.02 * N * R
    if keeps:
        assert_allclose(np.concatenate(kept), Ht, atol=1e-5)
    else:
        assert kept == [None, None, None]


def test_without_gathering_the_summary_at_W_is_sent(rng):
    Xt, W = data(rng)
    stats, _ = asked(Xt, W, SOURCES["sorted"], PRIORS["equal"])
    found, _ = asked(Xt, W, SOURCES["sorted"], PRIORS["equal"], gather=False)
    for c, summary in found.items():
        assert isinstance(summary, Summary)
        expected = stats[c].summary(W)
        assert_allclose(summary.squares, expected.squares, rtol=1e-10)
        assert_allclose(summary.sizes, expected.sizes, rtol=1e-10)
        assert_allclose(summary.h_cost, expected.h_cost, rtol=1e-10)
        assert summary.n == expected.n


def test_summarise_takes_the_memberships_of_the_last_sweep_and_a_new_W(rng):
    Xt, W = data(rng)
    V = rng.normal(size=W.shape)
    stats, _ = asked(Xt, W, SOURCES["alternating"], PRIORS["equal"], n_nodes=3)
    _, nodes = asked(Xt, W, SOURCES["alternating"], PRIORS["equal"], n_nodes=3, gather=False)
    found = Engine(nodes, n_threads=1).ask(summarise, V)
    for c, summary in found.items():
        assert_allclose(summary.squares, stats[c].squares(V), rtol=1e-10)
        assert_allclose(summary.sizes, stats[c].HHt.sum(axis=1), rtol=1e-10)


def test_the_nodes_keep_terms_of_the_problem_that_add_up_to_it(rng):
    Xt, W = data(rng)
    stats, _ = asked(Xt, W, SOURCES["alternating"], PRIORS["equal"], n_nodes=4)
    _, nodes = asked(Xt, W, SOURCES["alternating"], PRIORS["equal"], n_nodes=4, gather=False)
    total = sum((node.quadratic for node in nodes[1:]), nodes[0].quadratic)
    expected = Quadratic.of(stats, SIGMA2)
    assert_allclose(total.A, expected.A, rtol=1e-10)
    assert_allclose(total.B, expected.B, rtol=1e-9, atol=1e-10 * np.abs(expected.B).max())


def test_a_node_without_samples_sends_nothing_and_has_a_term_of_zero(rng):
    _, W = data(rng)
    node = Node("empty", block=Block(np.empty((0, M)), np.zeros(0, int)))
    for _ in range(2):
        node, reply = a_pass(PRIORS["equal"], gather=False)(node, W)
        assert reply == {}
        assert node.quadratic.precision == 0.0
        assert node.quadratic.B.shape == W.shape


def test_a_sweep_forgets_what_a_solver_kept(rng):
    Xt, W = data(rng)
    node = Node("one", block=Block(Xt), scratch="of another W")
    node, _ = a_pass(PRIORS["none"])(node, W)
    assert node.scratch is None


def test_data_and_W_are_not_modified(rng):
    Xt, W = data(rng)
    copies = Xt.copy(), W.copy()
    asked(Xt, W, SOURCES["alternating"], PRIORS["equal"], n_nodes=2, passes=2)
    assert_array_equal(Xt, copies[0])
    assert_array_equal(W, copies[1])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("sources", SOURCES)
@pytest.mark.parametrize("n_nodes", [1, 4])
def test_memberships_are_written_to_the_rows_of_their_samples(n_nodes, sources, kind, rng, monkeypatch):
    monkeypatch.setattr(block, "MIN_ROWS", 16)
    monkeypatch.setattr(block, "CHUNK_BYTES", 1)
    Xt, W = data(rng)
    out = np.full((N, R), np.nan)
    with Engine(partition(kind(Xt), SOURCES[sources], n_nodes), n_threads=2) as engine:
        engine.ask(partial(write_memberships, out=out), MembershipModel.plain(W, SIGMA2, PRIORS["equal"]))
    assert_allclose(out, plain_memberships(Xt, W, SOURCES[sources], PRIORS["equal"]), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1.0, 30.0, 1e4])
def test_far_from_zero_or_near_it_the_second_pass_sums_up_as_exactly_as_the_first(offset, dtype, rng):
    # The first pass takes the origin off the samples; the next ones off the sums, where nothing is lost by it.
    Xt, W = data(rng)
    Xt, W = (Xt + offset).astype(dtype), W + offset
    origin = W.mean(axis=1).astype(dtype).astype(float)
    node = Node("one", block=Block(Xt))
    found = []
    for _ in range(2):
        node, stats = sweep(node, W, sigma2=SIGMA2, prior=PRIORS["none"], origin=origin)
        Ht = node.Ht.astype(np.float64)
        expected = statistics_of(Xt.astype(np.float64) - origin, Ht, PRIORS["none"])
        rtol = 1e-12 if dtype is np.float64 else 1e-5
        assert_allclose(stats[0].XHt, expected.XHt, rtol=0.0, atol=rtol * np.abs(expected.XHt).max())
        assert_allclose(stats[0].sq_norm, expected.sq_norm, rtol=rtol)
        found.append(stats[0].squares(W, origin))
    assert_allclose(found[1], found[0], rtol=1e-10 if dtype is np.float64 else 1e-5)


@pytest.mark.parametrize("prior", [0.0, 0.7])
@pytest.mark.parametrize("kind", ["plain", "offset", "little noise", "many equal rows", "one component far out"])
def test_float32_and_float64_give_one_misfit_from_cold_and_from_warm(kind, prior, rng):
    n, m, r = 12_000, 20, 6
    W = rng.normal(size=(m, r))
    Xt = rng.dirichlet(np.full(r, 0.5), n) @ W.T + (0.03 if kind == "little noise" else 0.3) * rng.normal(size=(n, m))
    if kind == "offset":
        shift = 10.0 * rng.normal(size=m)
        Xt, W = Xt + shift, W + shift[:, None]
    elif kind == "many equal rows":
        Xt[rng.random(n) < 0.8] = Xt[0]  # whose rounding errors all go one way
    elif kind == "one component far out":  # as in standardised data with rare values: beside it, all others are small
        W[:, 0] *= 20.0
        Xt[::50] += W[:, 0]
    Xt = Xt.astype(np.float32)
    origin = W.mean(axis=1).astype(np.float32).astype(np.float64)
    step = partial(sweep, sigma2=np.array([0.01]), prior=np.full(r, prior), origin=origin)
    _, stats = step(Node("float64", block=Block(Xt.astype(np.float64))), W)
    expected = stats[0]
    node = Node("float32", block=Block(Xt))
    for basis in (W, W + 0.03 * rng.normal(size=W.shape), W):
        node, stats = step(node, basis)
        if basis is W:
            assert_allclose(stats[0].squares(W, origin), expected.squares(W, origin), rtol=1e-5)
            assert_allclose(stats[0].h_cost, expected.h_cost, rtol=1e-5)
