"""Whole fits on GPUs: the model of the local engine, whatever the samples are and however they get to the device.

The stand-in works as CuPy does where there is no GPU, kernels included.
"""

import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import dbmd
from dbmd.engines import _gpu_resident, _gpu_streams
from dbmd.engines._runs import ROWS
from dbmd.kernels._gpu_pass import Pass
from device import standin_cuda
from device.found import has_device

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
stands_in = pytest.mark.skipif(has_device(), reason="the number of devices and their memory are not the test's")
N, M, R = 700, 5, 3
TOLERANCE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}


def data(n=N, seed=3, far=0.0):
    """Return samples of three alternating sources, shape (n, m), their sources, and weights."""
    rng = np.random.default_rng(seed)
    W, codes = 4.0 * rng.normal(size=(M, R)), rng.integers(0, 3, n)
    Xt = rng.dirichlet(np.full(R, 0.5), n) @ W.T + np.array([0.4, 0.6, 0.9])[codes, None] * rng.normal(size=(n, M))
    return Xt + far, np.array(["a", "b", "c"])[codes], rng.uniform(0.5, 2.0, n)


X, SOURCE, WEIGHTS = data()


def fit(engine, Xt, source=None, weights=None, **parameters):
    """Return a fitted model, which may not have converged."""
    options = {"n_components": R, "random_state": 0, "max_iter": 15, **parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return dbmd.DBMD(engine=engine, **options).fit(Xt, source=source, sample_weight=weights)


def assert_same_model(found, expected, dtype):
    """Check that two fits have the same objective, components and noise."""
    assert_allclose(found.objective_, expected.objective_, rtol=TOLERANCE[np.dtype(dtype)])
    size = np.abs(expected.components_).max()
    far = 1e-6 if dtype == np.float64 else 1e-4
    assert np.abs(found.components_ - expected.components_).max() <= far * size
    assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=1e3 * TOLERANCE[np.dtype(dtype)])
    assert_array_equal(found.sources_, expected.sources_)


def assert_same_bits(one, other):
    """Check that two fits are the same to the last bit."""
    assert one.objective_ == other.objective_
    assert_array_equal(one.components_, other.components_)
    assert_array_equal(one.noise_variance_, other.noise_variance_)
    assert_array_equal(one.labels_, other.labels_)


SETTINGS = {
    "exact": {},
    "agd": {"solver": "agd"},
    "admm": {"solver": "admm"},
    "cease": {"solver": "cease", "lam": 0.5},
    "a prior": {
        "inference": "map",
        "alpha": 1.5,
        "lam": 0.5,
        "max_iter": 8,
    },  # later, in float32, rounding decides when it stops
    "two starts": {"n_init": 2, "init": "k-means++"},
    "k-means||": {"init": "k-means||", "noise": "shared"},
    "a start of the user's": {"init": X[:R] + 0.1},
    "scaled": {"scaling": "standard"},
    "scaled by samples": {"scaling": "l2"},
    "offsets": {"offsets": True},
    "brightness": {"brightness": True},
}


@cache
def local(setting, dtype):
    return fit("local", X.astype(dtype), SOURCE, n_nodes=2, **SETTINGS[setting])


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("setting", SETTINGS)
def test_all_settings_have_the_model_of_the_local_engine(device, setting, dtype):
    found, expected = fit("gpu", X.astype(dtype), SOURCE, n_nodes=2, **SETTINGS[setting]), local(setting, dtype)
    assert_same_model(found, expected, dtype)
    assert found.components_.dtype == expected.components_.dtype
    assert (found.labels_ == expected.labels_).mean() > 0.99


AT_ONCE = {
    "plain": (True, {}),
    "offsets": (True, {"offsets": True, "source": SOURCE}),
    "brightness": (True, {"brightness": True}),
    "at the peak": (True, {"inference": "map", "alpha": 1.0}),
    "weights": (False, {"weights": WEIGHTS}),
    "a prior": (False, {"inference": "map", "alpha": 1.5}),
    "gaps": (False, {"missing": "allow"}),
    "many components": (False, {"n_components": 13}),
}


@pytest.mark.parametrize("setting", AT_ONCE)
def test_passes_are_made_at_once_where_they_can_be(device, setting, monkeypatch):
    is_at_once, parameters = AT_ONCE[setting]
    passes, over = [], Pass.over
    monkeypatch.setattr(Pass, "over", lambda self, *args: passes.append(1) or over(self, *args))
    fit("gpu", X, **{"n_nodes": 1, "max_iter": 4, **parameters})
    assert (len(passes) > 2) == is_at_once
    assert is_at_once or not passes


KINDS = {
    "by rows": lambda Xt: Xt,
    "by columns": np.asfortranarray,
    "every second row": lambda Xt: np.repeat(Xt, 2, axis=0)[::2],
    "CSR": lambda Xt: sparse.csr_array(np.where(np.abs(Xt) > 1.0, Xt, 0.0)),
    "small numbers": lambda Xt: np.clip(np.round(10.0 * (Xt + 8.0)), 0, 255).astype(np.uint8),
    "far from zero": lambda Xt: Xt + 1000.0,
}


@pytest.fixture(params=["kept", "streamed", "pinned"])
def way(request, device, monkeypatch):
    """Make samples go to the device once, or in every pass."""
    if request.param != "kept":
        monkeypatch.setenv("DBMD_GPU_MEMORY", "0")
        monkeypatch.setattr(_gpu_streams, "WINDOW_BYTES", 8000)
        monkeypatch.setattr(_gpu_streams, "REGISTER_BYTES", 0 if request.param == "pinned" else 1 << 60)
    return request.param


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_arrays_however_they_get_there(way, kind):
    Xt = KINDS[kind](X)
    found, expected = fit("gpu", Xt, SOURCE, WEIGHTS), fit("local", Xt, SOURCE, WEIGHTS, n_nodes=1)
    # Small integers are computed with in float32; far from zero, digits are lost by the samples themselves.
    assert_same_model(found, expected, np.float32 if kind in ("small numbers", "far from zero") else np.float64)


@pytest.mark.parametrize("missing", ["allow", "drop"])
def test_missing_entries_however_they_get_there(way, missing):
    rng = np.random.default_rng(0)
    gaps = rng.random(X.shape) < 0.05
    gaps[:, 0] = False
    Xt = np.where(gaps, np.nan, X)
    found, expected = fit("gpu", Xt, SOURCE, missing=missing), fit("local", Xt, SOURCE, missing=missing, n_nodes=1)
    assert_same_model(found, expected, np.float64)
    assert_array_equal(found.labels_ == -1, expected.labels_ == -1)


def test_one_source_without_a_name(way):
    assert_same_model(fit("gpu", X), fit("local", X, n_nodes=1), np.float64)


def write(folder, suffix):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    if suffix == "npy":
        np.save(folder / "X.npy", X)
        return None
    table = pa.table({**{f"x{j}": X[:, j] for j in range(M)}, "lab": SOURCE})
    for i in range(2):
        part = table.slice(i * 400, 400)
        if suffix == "csv":
            pyarrow.csv.write_csv(part, folder / f"{i}.csv")
        else:
            pyarrow.parquet.write_table(part, folder / f"{i}.parquet", row_group_size=90)
    return "lab"


@pytest.mark.parametrize("memory", [None, 1], ids=["loaded", "read in every pass"])
@pytest.mark.parametrize("suffix", ["npy", "csv", "parquet"])
def test_files(device, tmp_path, suffix, memory):
    source = write(tmp_path, suffix)
    options = {} if memory is None else {"memory": memory}
    with dbmd.open_data(tmp_path, source=source, **options) as opened:
        found, expected = fit("gpu", opened), fit("local", opened, n_nodes=1)
    assert_same_model(found, expected, np.float64)
    assert found.n_features_in_ == M


@stands_in
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("kind", ["by rows", "CSR"])
def test_the_number_of_devices_changes_no_bit(device, kind, weights):
    Xt, models = KINDS[kind](X), []
    for n_devices in (1, 2, 4):
        standin_cuda.machine.n_devices = n_devices
        models.append(fit("gpu", Xt, SOURCE, weights, n_nodes=4))
    for each in models[1:]:
        assert_same_bits(each, models[0])


@pytest.mark.parametrize(
    ("dtype", "sources", "also"),
    [
        (np.float32, "alternating", "weights"),
        (np.float64, "one", "weights"),
        (np.float32, "one", ""),
        (np.float64, "alternating", ""),
        (np.float64, "one", "gaps"),
    ],
)
def test_the_size_of_chunks_and_the_way_to_the_device_change_no_bit(device, monkeypatch, dtype, sources, also):
    Xt, source, weights = data(3 * ROWS + 100)
    Xt, source = Xt.astype(dtype), source if sources == "alternating" else None
    weights, options = weights if also == "weights" else None, {"max_iter": 3}
    if also == "gaps":
        Xt[:50, 1] = np.nan  # in one of the chunks, where there are several
        options["missing"] = "allow"
    row = M * np.dtype(dtype).itemsize
    models = [fit("gpu", Xt, source, weights, **options)]
    for budget, size in (("1e9", ROWS), ("1e9", 2 * ROWS), ("0", ROWS), ("0", 2 * ROWS)):
        monkeypatch.setenv("DBMD_GPU_MEMORY", budget)
        monkeypatch.setattr(_gpu_streams, "WINDOW_BYTES", size * row)
        monkeypatch.setattr(_gpu_resident, "CHUNK", device.cuda.runtime.memGetInfo()[1] // (size * row))
        models.append(fit("gpu", Xt, source, weights, **options))
    for each in models[1:]:
        assert_same_bits(each, models[0])


@stands_in
@pytest.mark.parametrize("kind", ["by rows", "CSR"])
def test_memory_that_runs_out_in_the_middle_of_a_fit_changes_no_result(device, kind):
    Xt = KINDS[kind](X)
    expected = fit("gpu", Xt, SOURCE)
    pool = standin_cuda.machine.pool(0)
    total = pool.n_allocations
    for part in (0.1, 0.35, 0.6, 0.95):
        pool.fail_at = pool.n_allocations + int(part * total)
        found = fit("gpu", Xt, SOURCE)
        assert pool.fail_at is None  # it did run out
        assert_same_model(found, expected, np.float64)


@stands_in
def test_a_pass_that_is_made_again_does_not_race_with_what_was_left_of_it(device, monkeypatch):
    """Which part of it was under way when memory ran out depends on the moment; the stand-in tells of races."""
    monkeypatch.setattr(_gpu_resident, "CHUNK", device.cuda.runtime.memGetInfo()[1] // (256 * M * 8))
    pool, expected = standin_cuda.machine.pool(0), fit("gpu", X, max_iter=2)
    total = pool.n_allocations
    for part in np.linspace(0.3, 1.0, 40, endpoint=False):
        pool.fail_at = pool.n_allocations + int(part * total)
        assert_same_model(fit("gpu", X, max_iter=2), expected, np.float64)


@stands_in
def test_a_device_much_smaller_than_the_data_fits_them_all_the_same(device, monkeypatch):
    Xt, source, _ = data(20_000)
    monkeypatch.setattr(_gpu_streams, "WINDOW_BYTES", 100_000)
    expected = fit("local", Xt, source, n_nodes=1, max_iter=3, init=Xt[:R] + 0.1)
    peak = 0
    for memory in (16_000_000, 6_000_000, 3_000_000):
        standin_cuda.machine.memory = memory
        standin_cuda.machine.pool(0).peak = 0
        assert_same_model(fit("gpu", Xt, source, max_iter=3, init=Xt[:R] + 0.1), expected, np.float64)
        peak = standin_cuda.machine.pool(0).peak
        assert peak <= memory
    assert peak > 0
    assert standin_cuda.machine.pool(0).used == 0


def test_batches_and_further_fits(device):
    def batches(engine):
        model = dbmd.DBMD(R, engine=engine, random_state=0)
        for i in range(0, N, 200):
            model.partial_fit(X[i : i + 200], source=SOURCE[i : i + 200])
        return model

    found, expected = batches("gpu"), batches("local")
    assert_allclose(found.components_, expected.components_, atol=1e-6 * np.abs(expected.components_).max())
    again = fit("gpu", X, SOURCE, init=found.components_)
    assert_same_model(again, fit("local", X, SOURCE, init=expected.components_, n_nodes=1), np.float64)


def test_memberships_are_those_of_the_local_engine(way):
    found, expected = fit("gpu", X, SOURCE), fit("local", X, SOURCE, n_nodes=1)
    assert_allclose(found.transform(X, source=SOURCE), expected.transform(X, source=SOURCE), atol=1e-5)
    assert_array_equal(found.predict(X, source=SOURCE), found.labels_)
