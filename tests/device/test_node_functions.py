"""Every node function gives the same reply for samples here and for the same samples on a device."""

import pickle
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from dbmd._utils.arrays import is_sparse, to_host, with_data
from dbmd.data.block import Block
from dbmd.data.features import feature_moments
from dbmd.data.preparation import Preparation
from dbmd.estimator._memberships import count_gaps
from dbmd.h_step import origin_of
from dbmd.memberships import MembershipModel, memberships, write_memberships
from dbmd.model.draw import Chances, DrawnSamples, EvenChances, draw_fraction, draw_uniform, moments
from dbmd.model.evidence import Evidence
from dbmd.model.measure import draw_by_distance, measure, tally
from dbmd.model.node import Node
from dbmd.model.parts import Parts
from dbmd.model.start import nearest
from dbmd.registry import load_kernel
from dbmd.survey import survey
from dbmd.sweep import own_labels, summarise, sweep, sweep_and_keep
from strategies import generators

with_device = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-7}


@dataclass(frozen=True)
class Case:
    """A model, and samples of it.

    Attributes
    ----------
    nodes : tuple of Node
        The same samples here and on the device.
    V, parts, sigma2, prior
        The model.
    rtol : float
        How far replies may be apart, relative to the largest entry.
    """

    nodes: tuple[Node, Node]
    V: Any
    parts: Parts
    sigma2: Any
    prior: Any
    rtol: float

    @property
    def origin(self):
        """A point amidst the samples."""
        return origin_of(self.parts.W(self.V), self.nodes[0].samples.dtype)


@st.composite
def cases(draw, cupy, *, may_have_gaps=True):
    """Strategy: samples of any kind with a model of any parts."""
    rng, dtype = draw(generators()), draw(st.sampled_from([np.float32, np.float64]))
    n, r = draw(st.integers(1, 90)), draw(st.integers(1, 5))
    m = r + 2 + draw(st.integers(0, 8))  # or memberships would not be determined
    is_csr, has_weights, has_offsets = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    has_gaps = may_have_gaps and not is_csr and draw(st.booleans())
    n_sources = draw(st.integers(1, 3))
    W = rng.normal(size=(m, r)) + draw(st.sampled_from([0.0, 4.0]))
    D = 0.3 * rng.normal(size=(m, n_sources)) if has_offsets else None
    parts = Parts(r, has_dark=draw(st.booleans()), n_offsets=n_sources if has_offsets else 0)
    Xt = rng.dirichlet(np.full(r, 0.6), n) @ W.T + 0.3 * rng.normal(size=(n, m))
    if is_csr:
        Xt = Xt * (rng.random((n, m)) < 0.6)
    if has_gaps:
        Xt[:, r + 2 :][rng.random((n, m - r - 2)) < 0.3] = np.nan
    Xt = sparse.csr_array(Xt.astype(dtype)) if is_csr else Xt.astype(dtype)
    sources = {"one": 0, "sorted": np.sort(rng.integers(0, n_sources, n)), "mixed": rng.integers(0, n_sources, n)}
    codes = sources[draw(st.sampled_from(sorted(sources)))]
    weights = rng.integers(0, 3, n) * rng.uniform(0.5, 2.0, n) if has_weights else None
    here = Block(Xt, codes, draw(st.sampled_from([0, 1000])), None, rng.integers(0, 3, n), weights)
    there = replace(here, Xt=on_device(cupy, Xt), weights=None if weights is None else cupy.asarray(weights))
    preparation = Preparation()
    if has_gaps:
        drops = draw(st.booleans())
        scale = rng.uniform(0.5, 2.0, m) if draw(st.booleans()) else None
        preparation = Preparation(scale=scale, fill=W.mean(axis=1), drops=drops)
    elif draw(st.booleans()):
        preparation = Preparation(scale=rng.uniform(0.5, 2.0, m))
    nodes = tuple(Node(name, block=preparation.of(block)) for name, block in (("here", here), ("there", there)))
    prior = parts.prior(np.full(r, draw(st.sampled_from([0.0, 0.5]))))
    sigma2 = rng.uniform(0.05, 0.3, n_sources)
    return Case(nodes, parts.assemble(W, D), parts, sigma2, prior, TOLERANCE[dtype])


def on_device(cupy, Xt):
    """Return samples as arrays of the device."""
    if not sparse.issparse(Xt):
        return cupy.asarray(Xt)
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(tuple(cupy.asarray(x) for x in (Xt.data, Xt.indices, Xt.indptr)), shape=Xt.shape)


def assert_same(found, expected, rtol, where="reply"):
    """Check that a reply is of arrays of NumPy, and near another one."""
    if isinstance(found, DrawnSamples):  # its samples stay where they are until they are put in order
        found, expected = ((each.has_gaps, each.in_order() if each.pieces else None) for each in (found, expected))
    assert type(found) is type(expected), where
    if is_dataclass(found):
        for field in fields(found):
            assert_same(getattr(found, field.name), getattr(expected, field.name), rtol, f"{where}.{field.name}")
    elif isinstance(found, dict):
        assert sorted(found) == sorted(expected), where
        for key, value in found.items():
            assert_same(value, expected[key], rtol, f"{where}[{key}]")
    elif isinstance(found, (tuple, list)):
        assert len(found) == len(expected), where
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, rtol, f"{where}[{i}]")
    elif sparse.issparse(found):
        assert_same(found.toarray(), expected.toarray(), rtol, where)
    elif found is not None:
        assert np.shape(found) == np.shape(expected), where
        size = np.abs(np.asarray(expected)[np.isfinite(expected)]).max(initial=0.0)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * size + 1e-300, err_msg=where)


def assert_same_replies(case, function, *broadcast, rtol=None):
    """Run a node function on both nodes and compare its replies; return the nodes after it."""
    (here, expected), (there, found) = (function(node, *broadcast) for node in case.nodes)
    assert_same(found, expected, case.rtol if rtol is None else rtol)
    return replace(case, nodes=(here, there))


def is_there(array):
    return type(array).__module__.partition(".")[0] == "cupy"


@with_device
@given(data=st.data())
def test_a_sweep_and_what_continues_it(device, data):
    case = data.draw(cases(device))
    evidence = data.draw(st.sampled_from([None, Evidence((1.2,) * len(case.sigma2)), Evidence((1.0,) * 3, one_in=4)]))
    origin = data.draw(st.sampled_from([None, case.origin]))
    step = partial(
        sweep,
        sigma2=case.sigma2,
        prior=case.prior,
        parts=case.parts,
        evidence=evidence,
        origin=origin,
        near_zero=data.draw(st.booleans()),
    )
    case = assert_same_replies(case, step, case.V)
    assert is_there(case.nodes[1].Ht)
    ridge = np.ones(case.parts.n_offsets) if case.parts.n_offsets else None
    keep = partial(sweep_and_keep, sweep=step, sigma2=case.sigma2, parts=case.parts, ridge=ridge)
    case = assert_same_replies(case, keep, case.V)  # from the memberships of the first
    case = assert_same_replies(case, partial(summarise, parts=case.parts), case.V)
    here, there = (own_labels(node, parts=case.parts)[1].values for node in case.nodes)
    assert type(there) is np.ndarray
    assert (here == there).mean() >= 0.9  # of two that are equal, either may be the largest


@with_device
@given(data=st.data())
def test_a_survey(device, data):
    case = data.draw(cases(device))
    evidence = data.draw(st.sampled_from([None, Evidence((1.2,) * len(case.sigma2))]))
    step = partial(
        survey,
        sigma2=case.sigma2,
        prior=case.prior,
        parts=case.parts,
        evidence=evidence,
        origin=case.origin,
        n_classes=3,
        by_energy=data.draw(st.booleans()),
    )
    (_, here), (_, there) = (step(node, case.V) for node in case.nodes)
    for name in ("stats", "squares", "peaks"):
        assert_same(getattr(there, name), getattr(here, name), 10 * case.rtol, name)
    for name in ("n", "sizes"):
        assert_same(getattr(there.profile, name), getattr(here.profile, name), case.rtol, name)
    # Memberships that agree to the precision of the kernel may lie on two sides of the edge of a bin.
    for name in ("counts", "largest", "memberships", "contingency"):
        one, other = getattr(there.profile, name), getattr(here.profile, name)
        assert type(one) is np.ndarray
        assert one.sum() == other.sum()
        assert np.abs(one - other).sum() <= 0.1 * other.sum() + 4


@with_device
@given(data=st.data())
def test_memberships_here_and_on_the_device(device, data):
    case = data.draw(cases(device))
    is_mean, with_std = data.draw(st.booleans()), data.draw(st.booleans())
    prior = case.prior[: case.parts.n_components]
    model = MembershipModel(case.V, case.parts, case.sigma2, prior, is_mean=is_mean, with_std=with_std)
    blocks = [node.samples for node in case.nodes]
    n, dtype, rtol = blocks[0].shape[0], blocks[0].dtype, 30 * case.rtol
    expected = memberships(blocks[0], model)
    assert_same(memberships(blocks[1], model), expected, rtol)
    for kernel in ("cpu", "gpu"):
        first = blocks[1].first_row
        shape = (first + n, model.width)
        out, light = (load_kernel(kernel).empty(size, dtype) for size in (shape, shape[:1]))
        write_memberships(case.nodes[1], model, out=out, brightness=light)
        assert is_there(out) == (kernel == "gpu")
        bright = np.empty(first + n, dtype)
        write_memberships(case.nodes[0], model, out=np.empty(shape, dtype), brightness=bright)
        assert_same(to_host(out)[first:], expected, rtol)
        assert_same(to_host(light)[first:], bright[first:], rtol)


@with_device
@given(data=st.data())
def test_moments_and_draws(device, data):
    case = data.draw(cases(device))
    assert_same_replies(case, moments)
    known = moments(case.nodes[0])[1]
    seed, m = data.draw(st.integers(0, 2**31)), len(case.V)
    assert_same_replies(case, partial(draw_uniform, seed=seed, take=data.draw(st.integers(1, 20))))
    if known:
        fraction = data.draw(st.sampled_from([0.3, 1.0]))
        for chances in (Chances.of(known, fraction), EvenChances.of(known, fraction, 2)):
            assert_same_replies(case, partial(draw_fraction, seed=seed, chances=chances))
    candidates = np.random.default_rng(seed).normal(size=(3, m))
    precision = dict.fromkeys(range(len(case.sigma2)), 0.5)
    for k in (1, 3, 3):
        case = assert_same_replies(case, measure, candidates[:k])
    draw = partial(draw_by_distance, seed=seed, take=4, precision=precision)
    case = assert_same_replies(case, draw, candidates)
    assert_same_replies(case, partial(tally, precision=precision), candidates)


@with_device
@given(data=st.data())
def test_the_nearest_components(device, data):
    case = data.draw(cases(device))
    origin = data.draw(st.sampled_from([None, case.origin]))
    assert_same_replies(case, partial(nearest, origin=origin, parts=case.parts), case.V)
    assert_same_replies(case, partial(count_gaps, n_sources=len(case.sigma2)))


def positive_of(Xt):
    """Return the absolute values of samples."""
    return with_data(Xt, abs(Xt.data)) if is_sparse(Xt) else abs(Xt)


@with_device
@given(data=st.data())
@pytest.mark.parametrize("by_sample", [None, "sum", "l2"])
def test_features_and_preparation(device, by_sample, data):
    case = data.draw(cases(device, may_have_gaps=False))
    log, drops = data.draw(st.booleans()), data.draw(st.booleans())
    preparation = Preparation(log, by_sample, drops=drops)
    blocks = [getattr(node.samples, "samples", node.samples) for node in case.nodes]
    positive = [replace(block, Xt=positive_of(block.Xt)) for block in blocks]
    if not sparse.issparse(blocks[0].Xt):
        gaps = np.random.default_rng(0).random(blocks[0].shape) < 0.1
        for block in positive:
            block.Xt[gaps if block is positive[0] else device.asarray(gaps)] = np.nan
    case = replace(case, nodes=tuple(replace(node, block=own) for node, own in zip(case.nodes, positive, strict=True)))
    assert_same_replies(case, partial(feature_moments, preparation=preparation), rtol=1e-9)
    prepared = replace(preparation, scale=np.full(blocks[0].shape[1], 2.0), fill=np.full(blocks[0].shape[1], 0.5))
    shift = data.draw(st.sampled_from([None, np.full(blocks[0].shape[1], 0.3)]))
    for here, there in zip(*(prepared.of(block).chunks(shift) for block in positive), strict=True):
        assert to_host(there.numbers).tolist() == here.numbers.tolist()
        for name in ("Xt", "weights", "gaps", "dropped", "class_codes"):
            found, expected = getattr(there, name), getattr(here, name)
            assert_same(None if found is None else to_host(found), expected, 1e-6, name)
    here, there = (prepared.of(block).dropped() for block in positive)
    assert_same(there, here, 0.0)


def test_a_csr_matrix_on_a_device_is_prepared_once_for_each_preparation(device, rng):
    Xt = sparse.csr_array(rng.random((20, 5)) * (rng.random((20, 5)) < 0.5))
    block = Block(on_device(device, Xt))
    for scale in (np.full(5, 2.0), np.full(5, 4.0)):
        prepared = Preparation(log=True, scale=scale).of(block)
        first, again = (next(iter(prepared.chunks())).Xt for _ in range(2))
        assert first is again
        np.testing.assert_allclose(to_host(first).toarray(), np.log1p(Xt.toarray()) / scale)
    np.testing.assert_array_equal(to_host(block.Xt).toarray(), Xt.toarray())


@pytest.mark.parametrize("n_sources", [1, 2])
def test_what_is_drawn_from_chunks_of_a_source_comes_in_one_piece(n_sources, device, rng, monkeypatch):
    Xt, sources = rng.normal(size=(100, 3)), np.arange(100) // (120 // n_sources)
    known = Chances.of(moments(Node("here", Block(Xt, sources)))[1], 1.0)
    monkeypatch.setattr("dbmd.data.block.AWAY_BYTES", 0)
    monkeypatch.setattr("dbmd.data.block.AWAY_ROWS", 16)
    node = Node("there", Block(device.asarray(Xt), sources))
    assert len(list(node.samples.chunks())) > 4
    _, found = draw_fraction(node, seed=0, chances=known)
    assert [source_code for _, source_code, _, _ in found.pieces] == list(range(n_sources))
    assert all(type(array) is np.ndarray for rows, _, _, weights in found.pieces for array in (rows, weights))
    is_there = [type(X).__module__.startswith("cupy") for _, _, X, _ in found.pieces]
    assert is_there == ([True] if n_sources == 1 else [False, False])  # several would have to be put in order here
    for each in (found, pickle.loads(pickle.dumps(found))):
        assert type(each.in_order()[0]) is np.ndarray
        np.testing.assert_array_equal(each.in_order()[0], Xt)
    monkeypatch.setattr("dbmd.model.draw.JOINED", 3 * 40)  # samples of 48 and 52 entries do not wait for each other
    _, apart = draw_fraction(node, seed=0, chances=known)
    assert len(apart.pieces) > n_sources
    np.testing.assert_array_equal(apart.in_order()[0], Xt)
