"""A sample whose gaps were filled looks as if nothing had been missing."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.model.evidence import noise_excess
from dbmd.model.impute import completed, completed_by_source

KINDS = [{}, {"m": 8, "r": 3}, {"n": 150}, {"n": 300, "m": 600}, {"decibels": 0.0}, {"decibels": 40.0}]


def mixtures(seed, n=2000, m=50, r=4, decibels=15.0):
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.full(r, 0.3), n) @ rng.uniform(size=(r, m))
    return X + np.sqrt(X.var(axis=0).mean() / 10 ** (decibels / 10)) * rng.normal(size=X.shape)


def with_gaps(X, fraction, seed=0):
    gaps = np.random.default_rng(seed).random(X.shape) < fraction
    gaps[gaps.all(axis=1), 0] = False
    return np.where(gaps, np.nan, X), gaps


def excess(X, r):
    return float(noise_excess(X, np.ones(len(X)), np.zeros(len(X), int), 1, r)[0])


def filled(X, r, source=None, seed=0):
    return completed(X, np.zeros(len(X), int) if source is None else source, r, seed)


@pytest.mark.parametrize("fraction", [0.1, 0.5])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_white_noise_stays_white(kind, fraction):
    Y, _ = with_gaps(mixtures(1, **kind), fraction)
    assert excess(filled(Y, kind.get("r", 4)), kind.get("r", 4)) <= 1.15


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_noise_of_few_directions_keeps_its_excess(fraction):
    rng, X = np.random.default_rng(0), mixtures(2)
    X += rng.normal(size=(len(X), 6)) @ rng.normal(scale=0.15, size=(6, 50))
    Y, _ = with_gaps(X, fraction)
    assert 0.8 <= excess(filled(Y, 4), 4) / excess(X, 4) <= 1.25


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.5])
def test_what_is_filled_in_is_off_by_noise_alone(fraction):
    X = mixtures(3)
    Y, gaps = with_gaps(X, fraction)
    found = filled(Y, 4)
    assert_array_equal(found[~gaps], X[~gaps])
    # Noise of 15 dB twice: that of the entry itself, and that which was added.
    noise = np.sqrt(2.0 / 10**1.5 * X.var(axis=0).mean())
    assert np.sqrt(np.mean((found - X)[gaps] ** 2)) <= 1.1 * noise


def test_noise_is_that_of_the_source():
    X, source = mixtures(4, decibels=60.0), np.arange(2000) % 2
    rng = np.random.default_rng(0)
    X += np.array([0.01, 0.3])[source, None] * rng.normal(size=X.shape)
    Y, gaps = with_gaps(X, 0.3)
    off = filled(Y, 4, source) - X
    quiet, loud = (np.sqrt(np.mean(np.square(off)[gaps & (source == c)[:, None]])) for c in (0, 1))
    assert loud > 3.0 * quiet


def test_noise_along_offsets_is_not_larger_than_elsewhere():
    X, source = mixtures(5, n=1000), np.arange(1000) % 3
    X += np.random.default_rng(0).normal(size=(3, 50))[source]
    Y, gaps = with_gaps(X, 0.4)
    found = completed_by_source(Y, source, 4, 0)
    assert_array_equal(found[~gaps], X[~gaps])
    means = np.array([found[source == c].mean(axis=0) for c in range(3)])
    assert excess(found - means[source], 4) <= 1.15


def test_a_feature_that_is_never_seen_and_data_without_variance_are_filled():
    X = np.ones((30, 5))
    X[:, 0] = np.nan
    X[::3, 1] = np.nan
    found = filled(X, 2)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 1:], 1.0)
