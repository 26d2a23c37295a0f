"""Passes over samples in coordinates give the statistics of other passes, bit by bit the same for any threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dbmd import in_coordinates, sweep
from dbmd._utils.parallel import Threads
from dbmd.data.block import Block
from dbmd.model import start
from dbmd.model.evidence import Evidence
from dbmd.model.node import Node
from dbmd.model.parts import Parts

M, R = 13, 4


def a_node(rng, n_sources, *, weighted=True):
    """Return a node with samples of each source, and a basis."""
    n = 3_000
    V = rng.normal(size=(M, R))
    Xt = rng.dirichlet(np.full(R, 0.4), n) @ V.T + 0.2 * rng.normal(size=(n, M))
    codes = np.sort(rng.integers(0, n_sources, n)) if n_sources > 1 else 0
    weights, off = rng.uniform(0.5, 3.0, n) if weighted else None, {c: 10.0 + c for c in range(n_sources)}
    return Node("the driver", Block(Xt, codes, weights=weights, off=off)), V


def memberships(node):
    """Return the memberships of all samples of a node, in the order in which it has them."""
    return np.concatenate([source.loop.Ht for source in node.scratch])


def n_not_found(node):
    """Return for how many samples the kernel has found no memberships; those of all others sum to one."""
    totals = memberships(node).sum(axis=1)
    assert_allclose(totals[~np.isnan(totals)], 1.0)
    return int(np.isnan(totals).sum())


def assert_same(found, expected):
    assert set(found) == set(expected)
    for c, one in found.items():
        other = expected[c]
        assert_allclose(one.XHt, other.XHt, rtol=1e-8, atol=1e-8 * other.n)
        assert_allclose(one.HHt, other.HHt, rtol=1e-8, atol=1e-8 * other.n)
        assert_allclose([one.sq_norm, one.n, one.h_cost], [other.sq_norm, other.n, other.h_cost], rtol=1e-8)


@pytest.mark.parametrize("n_sources", [1, 3])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("has_evidence", [True, False])
def test_a_sweep_gives_the_statistics_of_any_other(has_evidence, dependent, weighted, n_sources, rng):
    node, V = a_node(rng, n_sources, weighted=weighted)
    if dependent:  # then there are faces on which the kernel finds no memberships
        V[:, -1] = V[:, 0]
    model = {
        "sigma2": np.linspace(0.03, 0.06, n_sources),
        "prior": np.zeros(R),
        "parts": Parts(R),
        "evidence": Evidence((1.2,) * n_sources) if has_evidence else None,
        "origin": rng.normal(size=M),
    }
    one = other = node
    for warm in (True, True, False):
        one, found = in_coordinates.sweep(one, V, **model, warm=warm)
        other, expected = sweep.sweep(other, V, **model, warm=warm)
        if not dependent:
            assert_same(found, expected)
        else:  # memberships of components that are the same are not unique, but what they stand for is
            assert n_not_found(one)
            assert_same(_merged(found), _merged(expected)) if not has_evidence else None
        assert dependent or not n_not_found(one)
        V = V + 0.05 * rng.normal(size=V.shape) * (not dependent)


def test_samples_that_were_sorted_are_known_where_the_kernel_finds_no_memberships(rng):
    r = 8
    V = rng.normal(size=(M, r))
    Xt = rng.dirichlet(np.full(r, 0.4), 2000) @ V.T + 0.2 * rng.normal(size=(2000, M))
    one = other = Node("the driver", Block(Xt, 0, weights=rng.uniform(0.5, 3.0, 2000)))
    model = {"sigma2": np.full(1, 0.04), "prior": np.zeros(r), "parts": Parts(r), "evidence": None}
    for number in range(6):
        V = V + 0.05 * rng.normal(size=(M, r))
        if number == 5:
            V[:, -1] = V[:, 0]
            assert (np.diff(one.scratch[0].loop.order) != 1).any()
        one, found = in_coordinates.sweep(one, V, **model, origin=np.zeros(M))
        other, expected = sweep.sweep(other, V, **model, origin=np.zeros(M))
        assert_same(*((found, expected) if number < 5 else (_merged(found), _merged(expected))))
    assert n_not_found(one)


def _merged(stats):
    """Return statistics with the last component added to the first, which is the same."""
    r = len(next(iter(stats.values())).HHt)
    T = np.eye(r)[:, :-1]
    T[-1, 0] = 1.0
    return {c: type(s)(s.XHt @ T, T.T @ s.HHt @ T, s.sq_norm, s.n, s.h_cost) for c, s in stats.items()}


@pytest.mark.parametrize("n_sources", [1, 3])
def test_the_first_pass_gives_the_statistics_of_any_other(n_sources, rng):
    node, V = a_node(rng, n_sources)
    origin = rng.normal(size=M)
    assert_same(
        in_coordinates.nearest(node, V, origin=origin, parts=Parts(R))[1],
        start.nearest(node, V, origin=origin, parts=Parts(R))[1],
    )


def test_threads_do_not_change_a_digit(rng):
    node, V = a_node(rng, 1)
    model = {"sigma2": np.full(1, 0.04), "prior": np.zeros(R), "parts": Parts(R), "evidence": Evidence((1.2,))}
    alone, expected = in_coordinates.sweep(node, V, **model, origin=np.zeros(M))
    with Threads(3) as threads:
        together, found = in_coordinates.sweep(node, V, **model, origin=np.zeros(M), parallel_map=threads.map)
    assert_array_equal(memberships(together), memberships(alone))
    assert_array_equal(found[0].XHt, expected[0].XHt)
    assert_array_equal(found[0].HHt, expected[0].HHt)
    assert found[0].h_cost == expected[0].h_cost
