"""Missing entries: only observed entries count in J, and statistics with expectations in gaps bring it down."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dbmd.data.block import Block
from dbmd.data.partition import partition
from dbmd.engines.local import Engine
from dbmd.memberships import MembershipModel, memberships
from dbmd.model.evidence import Evidence
from dbmd.model.lasso import minimise
from dbmd.model.noise import Noise
from dbmd.model.objective import objective
from dbmd.model.statistics import Quadratic
from dbmd.registry import load
from dbmd.survey import survey
from dbmd.sweep import sweep
from gaps import WithGaps, nodes_with_gaps
from profiles import examples
from strategies import generators

M, N = 8, 40
SIGMA2 = np.array([0.3, 2.0])
SOURCE = np.arange(N) % 2
PRIOR = 0.5


def data(rng, fraction=0.3, m=M, n=N):
    """Return samples with NaN in gaps; two features of each are observed at least."""
    X = rng.normal(size=(n, m))
    gaps = rng.random((n, m)) < fraction
    gaps[np.arange(n)[:, None], rng.permuted(np.tile(np.arange(m), (n, 1)), axis=1)[:, :2]] = False
    X[gaps] = np.nan
    return X


def passed(nodes, W, sigma2=SIGMA2, evidence=None, prior=0.0, **options):
    with Engine(nodes) as engine:
        step = partial(sweep, sigma2=sigma2, prior=np.full(W.shape[1], prior), evidence=evidence, **options)
        return engine.ask(step, W)


def peaks(X, W, a):
    """Return the memberships of each sample, from its observed features alone."""
    solve = load("kernels", "cpu").solve_h
    Ht = np.empty((len(X), W.shape[1]))
    for i, x in enumerate(X):
        seen = ~np.isnan(x)
        V = W[seen]
        Ht[i] = solve(V.T @ V, (x[seen] @ V)[None], np.full(W.shape[1], a[i]))
    return Ht


def J(X, source, W, sigma2, Ht, excess, prior=0.0):
    """Return J for memberships on the faces of Ht, by its definition; for ``excess`` None at the peaks."""
    value = -prior * np.log(Ht).sum() if prior else 0.0
    for x, c, h in zip(X, source, Ht, strict=True):
        seen = ~np.isnan(x)
        V = W[seen]
        value += 0.5 * np.sum((x[seen] - V @ h) ** 2) / sigma2[c] + 0.5 * seen.sum() * np.log(sigma2[c])
        if excess is None:
            continue
        face = np.flatnonzero(h > 1e-6)
        f = len(face)
        V = V[:, face] - V[:, face].mean(axis=1, keepdims=True)
        G = V.T @ V / (excess * sigma2[c]) + f * (f + 1) * np.eye(f)
        log_det = np.linalg.slogdet(G)[1] + np.log(np.linalg.inv(G).sum() / f) - (f - 1) * np.log(f * (f + 1))
        value += 0.5 * excess * log_det
    return value


KINDS = st.sampled_from([(None, 0.0), (None, PRIOR), (1.0, 0.0), (7.0, 0.0)])  # noise excess, None for peaks; prior


def evidence_of(excess):
    return None if excess is None else Evidence((excess, excess))


@examples(usual=8, thorough=20)
@given(generators(), st.sampled_from([1, 2, 3]), KINDS, st.sampled_from([0.1, 0.5]))
def test_a_pass_brings_the_objective_of_what_is_observed(rng, r, kind, fraction):
    excess, prior = kind
    X, W = data(rng, fraction), rng.normal(size=(M, r))
    stats = passed(nodes_with_gaps(X, SOURCE, 2), W, evidence=evidence_of(excess), prior=prior)
    found = objective(stats.map(lambda s: s.summary(W)), W, SIGMA2, 0.0).value
    assert_allclose(found, J(X, SOURCE, W, SIGMA2, peaks(X, W, prior * SIGMA2[SOURCE]), excess, prior), rtol=1e-6)


@examples(usual=8, thorough=20)
@given(generators(), st.sampled_from([2, 3]), KINDS, st.sampled_from([0.1, 0.5]))
def test_with_faces_fixed_neither_w_step_nor_noise_step_raises_the_objective(rng, r, kind, fraction):
    excess, prior = kind
    X, W = data(rng, fraction), rng.normal(size=(M, r))
    Ht = peaks(X, W, prior * SIGMA2[SOURCE])
    stats = passed(nodes_with_gaps(X, SOURCE, 2), W, evidence=evidence_of(excess), prior=prior)
    V = minimise(Quadratic.of(stats, SIGMA2), 0.0, W)
    levels = Noise("source", 2, 1e-12).levels(stats.map(lambda s: s.summary(V)), V)
    values = [J(X, SOURCE, at, sigma2, Ht, excess, prior) for at, sigma2 in ((W, SIGMA2), (V, SIGMA2), (V, levels))]
    assert np.diff(values).max() <= 1e-8 * X.size
    assert values[0] - values[-1] > 1e-3  # it does fall
    # What the driver computes is an upper bound, wherever W and sigma are.
    for at, sigma2 in ((V, levels), (W + rng.normal(size=W.shape), rng.uniform(0.1, 3.0, 2))):
        bound = objective(stats.map(lambda s: s.summary(at)), at, sigma2, 0.0).value  # noqa: B023
        assert J(X, SOURCE, at, sigma2, Ht, excess, prior) <= bound + 1e-8 * X.size


@examples(usual=4, thorough=12)
@given(generators(), st.sampled_from([2, 3]), KINDS)
def test_the_gradient_is_that_of_the_objective(rng, r, kind):
    excess, prior = kind
    X, W, D = data(rng), rng.normal(size=(M, r)), rng.normal(size=(M, r))
    Ht = peaks(X, W, prior * SIGMA2[SOURCE])
    stats = passed(nodes_with_gaps(X, SOURCE), W, evidence=evidence_of(excess), prior=prior)
    gradient = Quadratic.of(stats, SIGMA2).gradient(W)
    e = 1e-5
    slope = np.subtract(*(J(X, SOURCE, W + t * D, SIGMA2, Ht, excess, prior) for t in (e, -e))) / (2 * e)
    assert_allclose(np.vdot(gradient, D), slope, rtol=1e-5, atol=1e-4)


# -- what must not matter --------------------------------------------------------------------------------------------


def assert_same(found, expected, **tolerance):
    assert found.keys() == expected.keys()
    for c, s in expected.items():
        for name in ("XHt", "HHt", "sq_norm", "n", "h_cost"):
            assert_allclose(getattr(found[c], name), getattr(s, name), err_msg=name, **tolerance)


@pytest.mark.parametrize("evidence", [None, Evidence((1.0, 1.0))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_mask_without_gaps_is_no_mask(rng, dtype, evidence):
    X, W = rng.normal(size=(N, M)).astype(dtype), rng.normal(size=(M, 3))
    found = passed(nodes_with_gaps(X, SOURCE, 2, mark_all=True), W, evidence=evidence)
    expected = passed(partition(X, SOURCE, 2), W, evidence=evidence)
    assert_same(found, expected, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("evidence", [None, Evidence((1.0, 1.0))])
@pytest.mark.parametrize("near_zero", [False, True])
def test_neither_nodes_nor_what_stands_in_for_gaps_nor_the_last_pass_matter(rng, near_zero, evidence):
    X, W, origin = data(rng), rng.normal(size=(M, 3)), rng.normal(size=M)
    options = {"evidence": evidence, "origin": origin, "near_zero": near_zero}
    expected = passed(nodes_with_gaps(X, SOURCE), W, **options)
    assert_same(passed(nodes_with_gaps(X, SOURCE, 4, fill=rng.normal(size=M)), W, **options), expected, rtol=1e-9)
    with Engine(nodes_with_gaps(X, SOURCE, 2)) as engine:
        step = partial(sweep, sigma2=SIGMA2, prior=np.zeros(3), **options)
        engine.ask(step, W + 0.3 * rng.normal(size=W.shape))  # leaves memberships, and norms were there none missing
        assert_same(engine.ask(step, W), expected, rtol=1e-9)


def test_the_origin_does_not_matter(rng):
    X, W, origin, evidence = data(rng), rng.normal(size=(M, 3)), rng.normal(size=M), Evidence((1.0, 1.0))
    here = passed(nodes_with_gaps(X, SOURCE), W, evidence=evidence)
    there = passed(nodes_with_gaps(X + origin, SOURCE), W + origin[:, None], evidence=evidence, origin=origin)
    assert_same(there, here, rtol=1e-7, atol=1e-7)


def test_weights_count_samples(rng):
    X, W, evidence = data(rng), rng.normal(size=(M, 3)), Evidence((1.0, 1.0))
    weights = rng.integers(0, 4, N)
    weights[:2] = 1
    repeated = np.repeat(np.arange(N), weights)
    (node,) = partition(X, SOURCE, 1, weights=weights.astype(float))
    for options in ({"evidence": evidence}, {"prior": PRIOR}):
        found = passed([type(node)("", WithGaps(node.samples))], W, **options)
        assert_same(found, passed(nodes_with_gaps(X[repeated], SOURCE[repeated]), W, **options), rtol=1e-9)


def test_float32_is_float64_to_its_precision(rng):
    X, W, evidence = data(rng), rng.normal(size=(M, 3)), Evidence((1.0, 1.0))
    X = X.astype(np.float32)
    found, expected = (
        passed(nodes_with_gaps(X.astype(dtype), SOURCE), W, evidence=evidence) for dtype in (np.float32, np.float64)
    )
    assert_same(found, expected, rtol=1e-4, atol=1e-3)


def test_memberships_are_those_of_the_observed_features(rng):
    X, W = data(rng), rng.normal(size=(M, 3)) + 5.0
    X += 5.0
    expected = peaks(X - 5.0, W - 5.0, np.zeros(N))
    samples = WithGaps(Block(X, SOURCE))
    assert_allclose(memberships(samples, MembershipModel.plain(W, SIGMA2, np.zeros(3))), expected, atol=1e-6)
    (node,) = nodes_with_gaps(X, SOURCE)
    node, _ = survey(node, W, sigma2=SIGMA2, prior=np.zeros(3), origin=np.full(M, 5.0))
    assert_allclose(node.Ht, expected, atol=1e-6)
