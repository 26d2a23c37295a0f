"""A fit in the coordinates of reduced samples is the fit of the samples."""

import numpy as np
import pytest

from clusters import clusters
from dbmd import algorithm, start
from dbmd.config import Config
from dbmd.data.partition import partition
from dbmd.engines.local import Engine
from dbmd.model.draw import moments
from dbmd.model.evidence import Evidence
from dbmd.start import Setting, find_start

R, N, M = 3, 600, 120


@pytest.mark.parametrize("inference", ["evidence", "map"])
@pytest.mark.parametrize("n_sources", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_start_is_the_same_in_coordinates_and_in_features(dtype, n_sources, inference, rng, monkeypatch):
    Xt = (clusters(rng, n=N, m=M, r=R, noise=0.5, distance=4.0)[0] + 3.0).astype(dtype)
    sources = rng.integers(0, n_sources, N)
    with Engine(partition(Xt, sources, 2)) as engine:
        known = engine.ask(moments)
        config = Config(n_components=R, inference=inference, tol=1e-6)
        evidence = Evidence((1.5,) * n_sources) if inference == "evidence" else None
        setting = Setting(engine, config, n_sources, np.dtype(dtype))
        monkeypatch.setattr("dbmd.model.start.Sample.is_worth_a_peak_fit", True)
        inside = find_start(setting, known, 0, evidence, algorithm.descend)
        widths = []
        monkeypatch.setattr(start, "_is_plain", lambda setting: widths.append(1))
        outside = find_start(setting, known, 0, evidence, algorithm.descend)
    assert widths
    size = np.linalg.norm(outside.V - outside.V.mean(axis=1, keepdims=True))
    assert np.linalg.norm(inside.V - outside.V) < 1e-5 * size
    np.testing.assert_allclose(inside.sigma2, outside.sigma2, rtol=1e-5)
    np.testing.assert_allclose(inside.floor, outside.floor, rtol=1e-5)
    np.testing.assert_allclose(inside.origin, outside.origin, rtol=1e-5)
    assert inside.evidence == outside.evidence
    if dtype == np.float32:
        return  # the last steps are rounding, and where they are, the quasi-Newton method may begin anew
    assert len(inside.lbfgs.steps) == len(outside.lbfgs.steps)
    for one, other in zip(inside.lbfgs.steps, outside.lbfgs.steps, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3 * np.abs(other).max() + 1e-4)
