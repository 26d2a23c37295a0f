"""What is odd about columns is found, and what is not odd is left alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from dbmd.advice.columns import Columns, look_at


def looked(X, source=None, weights=None) -> Columns:
    n = X.shape[0]
    return look_at(X, np.zeros(n, int) if source is None else source, np.ones(n) if weights is None else weights)


def floats(n=300, m=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, m))


@given(st.integers(0, 4), st.sampled_from([0.85, 0.95]), st.integers(0, 1000))
def test_the_fraction_of_the_variance_is_exact_however_far_the_data_are_from_zero(j, fraction, shift):
    X = floats(m=5)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X[:, j] *= np.sqrt(4 * fraction / (1 - fraction))
    found = looked(X + shift)
    assert (found.leading, found.is_alone) == (j, False)
    assert found.fraction == pytest.approx(fraction, rel=1e-6)


def test_weights_count():
    X = floats(100)
    X[0, 2] = 1000.0
    assert looked(X).fraction > 0.99
    assert looked(X, weights=np.r_[1e-9, np.ones(99)]).fraction < 0.5


def test_sparse_columns_are_seen_as_dense_ones_are():
    X = floats(200) * (np.random.default_rng(1).random((200, 5)) < 0.3)
    X[:, 3] = np.arange(200)
    dense, csr = looked(X), looked(sparse.csr_array(X))
    assert (dense.leading, dense.rising, dense.distinct) == (csr.leading, csr.rising, csr.distinct) == (3, (3,), ())
    assert dense.fraction == pytest.approx(csr.fraction)


IDENTIFIERS = {
    "row numbers": lambda n, rng: np.arange(n),
    "falling": lambda n, rng: -np.arange(n) / 7.0,
    "time stamps": lambda n, rng: 1.7e9 + np.cumsum(rng.exponential(size=n)),
    "shuffled": lambda n, rng: rng.permutation(n) + 1000,
    "with gaps, shuffled": lambda n, rng: rng.permutation(np.cumsum(rng.integers(1, 5, n))),
    "drawn from a million": lambda n, rng: rng.choice(10**6, n, replace=False),
}


@pytest.mark.parametrize("kind", IDENTIFIERS)
@pytest.mark.parametrize("n", [50, 3000])
def test_identifiers_are_found(kind, n):
    X = floats(n)
    X[:, 2] = IDENTIFIERS[kind](n, np.random.default_rng(0))
    found = looked(X)
    assert (*found.rising, *found.distinct) == (2,)


def test_a_counter_that_starts_anew_in_each_source_is_found_also_where_sources_alternate():
    X, source = floats(300), np.arange(300) % 3
    X[:, 1] = np.arange(300) // 3
    assert looked(X, source).rising == (1,)
    assert looked(X).rising == ()


ORDINARY = {
    "floats that all differ": lambda rng: rng.normal(size=(500, 20)),
    "few samples": lambda rng: np.c_[np.arange(40), rng.normal(size=40)],
    "pixels": lambda rng: rng.integers(0, 256, (500, 20)),
    "a counter from 0 to 255 again and again": lambda rng: np.arange(2000)[:, None] % 256,
    "large counts": lambda rng: rng.poisson(rng.gamma(1.0, 1e5, (60, 200))),
    "two columns of large counts": lambda rng: rng.poisson(rng.gamma(1.0, 1e6, (100, 2))),
    "constants": lambda rng: np.c_[np.ones((100, 3)), rng.normal(size=100)],
    "one column of years": lambda rng: np.c_[rng.integers(1900, 2024, 500), rng.normal(size=500)],
    "sorted with repetitions": lambda rng: np.sort(rng.integers(0, 400, (500, 1)), axis=0),
    "codes": lambda rng: rng.integers(0, 2, (500, 3)),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_columns_are_no_identifiers(kind):
    X = np.asarray(ORDINARY[kind](np.random.default_rng(0)), float)
    found = looked(X)
    assert (*found.rising, *found.distinct) == ()


@pytest.mark.parametrize("load", [load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine])
def test_there_are_no_identifiers_in_the_data_of_scikit_learn(load):
    found = looked(load().data)
    assert (*found.rising, *found.distinct) == ()


def test_one_feature_and_constant_data_are_nothing_special():
    assert looked(floats(m=1)).is_alone
    assert looked(np.ones((100, 3))).fraction == 0.0
