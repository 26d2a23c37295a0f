"""Samples on a GPU, and engine="gpu": what an estimator finds is what the cores find, and is where the samples are."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from dbmd import DBMD, choose_components, load, open_data, tl
from dbmd.estimator.fitted import FittedArrays
from device.libraries import DataFrame, DeviceArray, library
from device.standin import installed

N, M, R = 400, 12, 3


def made(seed=0, n=N, dtype=np.float64, is_sparse=False):
    """Return samples of two sources, one of them noisy, and their sources."""
    rng = np.random.default_rng(seed)
    source = rng.integers(0, 2, n)
    W = rng.random((R, M)) * 4.0
    X = rng.dirichlet([0.4] * R, n) @ W + rng.normal(size=(n, M)) * np.where(source, 0.3, 0.05)[:, None]
    X[rng.random(X.shape) < (0.8 if is_sparse else 0.0)] = 0.0
    return X.astype(dtype), source


def on_device(cupy, X, *, is_sparse=False):
    if not is_sparse:
        return cupy.asarray(X)
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(sparse.csr_matrix(X))


def kind(array):
    return type(array).__module__.partition(".")[0]


def model_of(engine="gpu", **params):
    return DBMD(R, engine=engine, random_state=0, **params)


X, SOURCE = made()


@pytest.fixture(scope="module")
def local():
    return model_of("local").fit(X, source=SOURCE)


# -- fits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_fit_of_samples_on_the_gpu_or_here_is_that_of_the_cores(dtype, is_sparse, device):
    Xt, source = made(dtype=dtype, is_sparse=is_sparse)
    here = sparse.csr_array(Xt) if is_sparse else Xt
    expected = model_of("local").fit(here, source=source)
    tol = 1e-6 if dtype == np.float64 else 2e-4
    for data in (here, on_device(device, Xt, is_sparse=is_sparse)):
        found = model_of().fit(data, source=source)
        assert_allclose(found.components_, expected.components_, atol=tol)
        assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=1e-3)
        assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9 if dtype == np.float64 else 1e-5)
        assert found.components_.dtype == dtype
        assert_array_equal(found.labels_, expected.labels_)
        for name in ("components_", "labels_", "noise_variance_", "sources_", "cluster_sizes_"):
            assert type(getattr(found, name)) is np.ndarray


def test_samples_on_the_gpu_do_not_leave_it(device, monkeypatch):
    """What is brought here at a time is smaller than the samples."""
    data, largest = device.asarray(X), []
    get = type(data).get

    def counted(self, *args, **kwargs):
        largest.append(self.size)
        return get(self, *args, **kwargs)

    monkeypatch.setattr(type(data), "get", counted)
    model = model_of(init=X[:R], effective_features=M).fit(data)
    model.transform(data)
    assert max(largest) < X.size / 2


@pytest.mark.parametrize("engine", ["local", "dask", "spark"])
def test_other_engines_refuse_them_as_they_refuse_collections(engine, device):
    with pytest.raises(ValueError, match=rf"The data are on the GPU: fit them with engine='gpu'. Got '{engine}'"):
        model_of(engine).fit(device.asarray(X))


def test_sources_and_weights_may_be_on_the_gpu_for_samples_here_and_there(device):
    weights = np.random.default_rng(1).integers(0, 3, N).astype(float)
    expected = model_of("local").fit(X, source=SOURCE, sample_weight=weights)
    for engine, data in (("local", X), ("gpu", X), ("gpu", device.asarray(X))):
        found = model_of(engine).fit(data, source=device.asarray(SOURCE), sample_weight=device.asarray(weights))
        assert_allclose(found.components_, expected.components_, atol=1e-6)
        assert_array_equal(found.sources_, [0, 1])
        there = found.transform(data, source=device.asarray(SOURCE))
        assert kind(there) == kind(data)


def test_a_dataset_of_them_can_be_fitted_again(device):
    with open_data(device.asarray(X), source=SOURCE) as data:
        assert data.framework == "gpu"
        assert data.description == "on the GPU"
        assert data.dtype == np.float64
        first, second = (model_of().fit(data) for _ in range(2))
        assert_array_equal(first.components_, second.components_)
    assert open_data(device.asarray(X), dtype=np.float32).dtype == np.float32


def test_a_table_on_the_gpu_has_names_and_columns_of_sources(device, local):
    names = [f"f{i}" for i in range(M)]
    columns = dict(zip(names, X.T, strict=True))
    table = DataFrame(columns | {"lab": np.where(SOURCE, "b", "a")})
    found = model_of().fit(table, source="lab")
    assert_array_equal(found.feature_names_in_, names)
    assert_array_equal(found.sources_, ["a", "b"])
    assert_allclose(found.components_, local.components_, atol=1e-6)
    assert kind(found.transform(table)) == "cupy"
    other = DataFrame(dict(zip(reversed(names), X.T, strict=True)))
    with pytest.raises(ValueError, match="features of the model, in the same order"):
        found.transform(other)


def test_arrays_of_other_libraries_are_taken_and_come_back(device, local):
    with library() as tensors:
        tensor = tensors.Tensor(device.asarray(X))
        model = model_of()
        H = model.fit_transform(tensor, source=SOURCE)
        assert type(H) is tensors.Tensor
        assert_allclose(H.array.get(), local.transform(X, source=SOURCE), atol=1e-5)
        assert type(model.predict(tensor, source=SOURCE)) is tensors.Tensor
        assert type(model_of().fit_predict(tensor)) is tensors.Tensor
    assert kind(model.transform(DeviceArray(device.asarray(X)), source=SOURCE)) == "cupy"


# -- what is wrong with the samples --------------------------------------------------------------------------------

WRONG = {
    "Input X contains NaN in row 3, column 2": lambda X: np.where(np.arange(X.size).reshape(X.shape) == 38, np.nan, X),
    r"Input X contains infinity \(inf\) in row 0, column 1": lambda X: np.where(X[0, 1] == X, np.inf, X),
    "Expected 2D array, got 1D array": lambda X: X[0],
    r"Found array with 0 sample\(s\)": lambda X: X[:0],
    r"Found array with 0 feature\(s\)": lambda X: X[:, :0],
    "n_components": lambda X: X[:2],
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_with_them_is_said_as_of_samples_here(message, device):
    for engine, data in (("local", WRONG[message](X)), ("gpu", device.asarray(WRONG[message](X)))):
        with pytest.raises(ValueError, match=message):
            model_of(engine).fit(data)


def test_pictures_are_told_to_become_rows(device):
    with pytest.raises(ValueError, match=r"2D array, got 3D array .*X.reshape"):
        model_of().fit(device.asarray(X[None]))


def test_a_fitted_model_takes_as_many_features_as_it_has(device):
    model = model_of().fit(X)
    with pytest.raises(ValueError, match=f"The data have {M - 1} features, the model has {M}"):
        model.transform(device.asarray(X[:, 1:]))


def test_sources_must_be_one_for_each_sample(device):
    with pytest.raises(ValueError, match=rf"source must have one label for each of the {N} samples"):
        model_of().fit(device.asarray(X), source=device.asarray(SOURCE[1:]))


# -- memberships ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["local", "gpu"])
def test_memberships_are_where_the_samples_are_whatever_the_engine_was(engine, device, local):
    model = local if engine == "local" else model_of().fit(X, source=SOURCE)
    there = device.asarray(X)
    for method in ("transform", "predict", "predict_proba"):
        expected = getattr(local, method)(X, source=SOURCE)
        here, found = (getattr(model, method)(data, source=SOURCE) for data in (X, there))
        assert type(here) is np.ndarray
        assert kind(found) == "cupy"
        assert found.dtype == expected.dtype
        assert_allclose(found.get(), expected, atol=1e-5)
        assert_allclose(here, expected, atol=1e-5)
    assert model.score(there, source=SOURCE) == pytest.approx(local.score(X, source=SOURCE), rel=1e-6)


@pytest.mark.parametrize("kind_of", ["peak", "mean"])
def test_standard_deviations_and_brightness_are_there_too(kind_of, device):
    bright = np.abs(X) * np.random.default_rng(2).uniform(0.3, 1.0, N)[:, None]
    model = model_of(brightness=True).fit(bright)
    expected = model.transform(bright, return_std=True, return_brightness=True, kind=kind_of)
    found = model.transform(device.asarray(bright), return_std=True, return_brightness=True, kind=kind_of)
    for mine, theirs in zip(found, expected, strict=True):
        assert kind(mine) == "cupy"
        assert_allclose(mine.get(), theirs, atol=1e-6)


def test_memberships_become_samples_again_there(device, local):
    H = local.transform(device.asarray(X), source=SOURCE)
    found = local.inverse_transform(H)
    assert kind(found) == "cupy"
    assert_allclose(found.get(), H.get() @ local.components_, atol=1e-9)


def test_unknown_sources_are_estimated_there(device, local):
    model = model_of(alpha=1.0, offsets=True).fit(X, source=SOURCE)
    new = np.where(SOURCE, 7, 8)
    expected = model_of("local", offsets=True).fit(X, source=SOURCE).transform(X, source=new)
    assert_allclose(model.transform(device.asarray(X), source=new).get(), expected, atol=1e-4)


def test_a_model_that_was_fitted_on_a_gpu_is_used_without_one(tmp_path):
    with installed():
        model = model_of().fit(X, source=SOURCE)
        expected = model.transform(X, source=SOURCE)
        model.save(tmp_path / "model")
        pickled = pickle.dumps(model)
        assert FittedArrays.of(model).engine == "gpu"
    with installed(n_devices=0):
        for loaded in (load(tmp_path / "model"), pickle.loads(pickled)):
            assert loaded.engine == "gpu"
            assert FittedArrays.of(loaded).engine == "local"
            assert_allclose(loaded.transform(X, source=SOURCE), expected, atol=1e-6)
            assert_array_equal(loaded.predict(X, source=SOURCE), expected.argmax(axis=1))


# -- everything else that an estimator does ------------------------------------------------------------------------


def test_batches_may_be_here_and_there(device):
    expected, found = model_of("local"), model_of()
    for i in range(4):
        batch, source = made(i)
        expected.partial_fit(batch, source=source)
        found.partial_fit(device.asarray(batch) if i % 2 else batch, source=source)
    assert_allclose(found.components_, expected.components_, atol=1e-5)
    assert found.n_steps_ == 4
    assert type(found.labels_) is np.ndarray


def test_a_first_batch_there_needs_the_engine(device):
    with pytest.raises(ValueError, match="fit them with engine='gpu'"):
        model_of("local").partial_fit(device.asarray(X))


PARAMS = {
    "several starts": {"n_init": 2, "init": "random"},
    "k-means||": {"init": "k-means||"},
    "the paper's estimator": {"inference": "map", "alpha": 2.0, "max_iter": 30},
    "another solver": {"solver": "agd"},
    "one noise level": {"noise": "shared"},
    "scaled": {"scaling": "standard"},
    "scaled by samples": {"scaling": "l2"},
    "offsets": {"offsets": True},
    "signs": {"nonnegative": True, "lam": 0.1},
    "known": {"known": X[:2]},
    "halves": {"halves": True},
}


@pytest.mark.parametrize("what", PARAMS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_parameters_do_what_they_do_on_the_cores(what, device):
    expected = model_of("local", **PARAMS[what]).fit(X, source=SOURCE)
    for data in (X, device.asarray(X)):
        found = model_of(**PARAMS[what]).fit(data, source=SOURCE)
        assert_allclose(found.components_, expected.components_, atol=2e-4)
        if what == "halves":
            assert_allclose(found.agreement_, expected.agreement_, atol=1e-3)


@pytest.mark.parametrize("missing", ["allow", "drop"])
def test_missing_entries(missing, device):
    gaps = np.where(np.random.default_rng(3).random(X.shape) < 0.05, np.nan, X)
    expected = model_of("local", missing=missing).fit(gaps, source=SOURCE)
    for data in (gaps, device.asarray(gaps)):
        found = model_of(missing=missing).fit(data, source=SOURCE)
        assert_allclose(found.components_, expected.components_, atol=2e-4)
        H = found.transform(data, source=SOURCE)
        assert kind(H) == kind(data)
        dropped = np.isnan(gaps).any(axis=1) & (missing == "drop")
        assert_array_equal(np.isnan(H if kind(H) == "numpy" else H.get())[:, 0], dropped)
        labels = found.predict(data, source=SOURCE)
        assert_array_equal((labels if kind(labels) == "numpy" else labels.get()) == -1, dropped)


def test_the_number_of_components_is_chosen_from_samples_there(device):
    expected = choose_components(X, range(2, 5), random_state=0)
    found = choose_components(device.asarray(X), range(2, 5), random_state=0, engine="gpu")
    assert found.n_components == expected.n_components
    for mine, theirs in zip(found.agreement, expected.agreement, strict=True):
        assert_allclose(mine, theirs, atol=1e-6)
    model = DBMD("auto", engine="gpu", random_state=0).fit(device.asarray(X))
    assert model.n_components_ == model.choice_.n_components


def test_the_check_the_report_and_copies(device, tmp_path, local):
    there = device.asarray(X)
    model = model_of().fit(there, source=SOURCE)
    assert model.check(there, source=SOURCE).gains == pytest.approx(local.check(X, source=SOURCE).gains, abs=1e-6)
    page = model.report(tmp_path / "page.html", map_shape=(20, 20), memberships=model.transform(there, source=SOURCE))
    assert page.stat().st_size > 10_000
    assert_allclose(clone(model).fit(there, source=SOURCE).components_, model.components_)
    assert json.loads((model.save(tmp_path / "model") / "model.json").read_text("utf-8"))
    warm, here = (model_of(engine, warm_start=True) for engine in ("gpu", "local"))
    for _ in range(2):
        warm.fit(there, source=SOURCE)
        here.fit(X, source=SOURCE)
    assert warm.n_iter_ == here.n_iter_
    assert_allclose(warm.components_, here.components_, atol=1e-6)


@given(n=st.integers(20, 300), dtype=st.sampled_from(["f2", "f4", "f8", "i2", "u1", "i8"]))
@settings(deadline=None)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_type_of_number_is_computed_with_as_on_the_cores(n, dtype):
    Xt, source = made(1, n)
    Xt = np.round(10.0 * np.abs(Xt)).astype(dtype)
    # Not at samples: rounding would decide on which faces of the simplex those are, and faces differ in covariance.
    W = Xt[:R] + np.linspace(0.1, 0.9, R * M).reshape(R, M)
    with installed() as cupy:
        there = model_of(init=W, max_iter=3, tol=0.0)
        H = there.fit_transform(cupy.asarray(Xt), source=source)
    here = model_of("local", init=W, max_iter=3, tol=0.0)
    expected = here.fit_transform(Xt, source=source)
    assert H.dtype == expected.dtype
    assert there.components_.dtype == here.components_.dtype
    assert_allclose(there.components_, here.components_, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("params", [{}, {"scaling": "l2"}], ids=["as they are", "scaled"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_sparse_matrix_that_was_changed_after_a_fit_is_read_anew(params, device):
    """What kernels find out about a matrix is not kept with the caller's."""
    before, source = made(is_sparse=True)
    data = on_device(device, before, is_sparse=True)
    names, params = {*vars(data)}, {"max_iter": 5, **params}
    model_of(**params).fit(data, source=source)
    assert {*vars(data)} == names
    data.data = device.log1p(device.abs(data.data))
    after = np.log1p(np.abs(before))
    found = model_of(**params).fit(data, source=source)
    expected = model_of("local", **params).fit(sparse.csr_array(after), source=source)
    assert_allclose(found.components_, expected.components_, atol=1e-6)
    assert_allclose(found.transform(data).get(), expected.transform(sparse.csr_array(after)), atol=1e-6)


def test_room_behind_the_entries_of_a_sparse_matrix_does_not_matter(device):
    Xt, source = made(is_sparse=True)
    data = on_device(device, Xt, is_sparse=True)
    data.data = device.concatenate([data.data, device.full(50, 7.0)])
    data.indices = device.concatenate([data.indices, device.zeros(50, data.indices.dtype)])
    expected = model_of("local").fit(sparse.csr_array(Xt), source=source)
    assert_allclose(model_of().fit(data, source=source).components_, expected.components_, atol=1e-6)


@pytest.mark.parametrize("size", [1e-15, 1e10])
def test_weights_may_be_of_any_size(size, device):
    weights = size * np.random.default_rng(0).uniform(0.5, 2.0, N)
    found = model_of().fit(X, source=SOURCE, sample_weight=weights)
    expected = model_of("local").fit(X, source=SOURCE, sample_weight=weights)
    assert_allclose(found.components_, expected.components_, atol=1e-6)
    assert_allclose(found.noise_variance_, expected.noise_variance_, rtol=1e-6)


# -- other ways in -------------------------------------------------------------------------------------------------


class Cells:
    """What an AnnData is to dbmd, with X on a GPU: AnnData itself takes arrays of CuPy alone."""

    X = obs = var = obs_names = var_names = layers = obsm = None
    is_view = isbacked = False

    def __init__(self, X):
        n, m = X.shape
        self.X, self.layers, self.obsm, self.varm, self.uns = X, {}, {}, {}, {}
        self.obs = pd.DataFrame({"batch": np.where(SOURCE, "b", "a")})
        self.var_names = [f"gene {i}" for i in range(m)]
        self.var = pd.DataFrame({"highly_variable": np.arange(m) % 2 == 0}, index=self.var_names)
        self.n_obs, self.n_vars = n, m


@pytest.mark.parametrize("is_sparse", [False, True])
def test_cells_on_the_gpu_stay_there(is_sparse, device):
    cells = Cells(on_device(device, X, is_sparse=is_sparse))
    expected = model_of("local").fit(sparse.csr_array(X) if is_sparse else X, source=SOURCE)
    found = model_of().fit(cells, source="batch")
    assert_allclose(found.components_, expected.components_, atol=1e-6)
    assert_array_equal(found.feature_names_in_, cells.var_names)
    assert kind(found.transform(cells)) == "cupy"
    some = open_data(cells, hvg=True)
    assert some.framework == "gpu"
    assert some.shape == (N, M // 2)
    assert_array_equal((some.Xt.toarray() if is_sparse else some.Xt).get(), X[:, ::2])


def test_the_tool_for_cells_puts_its_results_here(device):
    there, here = Cells(device.asarray(X)), Cells(X)
    for cells, engine in ((there, "gpu"), (here, "local")):
        tl.dbmd(cells, R, batch_key="batch", random_state=0, engine=engine)
    assert type(there.obsm["X_dbmd"]) is np.ndarray
    assert_allclose(there.obsm["X_dbmd"], here.obsm["X_dbmd"], atol=1e-5)
    assert there.obs["dbmd"].tolist() == here.obs["dbmd"].tolist()


@pytest.mark.parametrize("option", [{"columns": ["a"]}, {"label": "a"}, {"transpose": True}, {"keep": ["a"]}])
def test_options_for_files_are_not_for_arrays(option, device):
    with pytest.raises(ValueError, match="are not for arrays on a GPU"):
        open_data(device.asarray(X), **option)


def test_the_type_to_compute_with_can_be_asked_for(device):
    with open_data(device.asarray(X), dtype=np.float32) as data:
        model = model_of().fit(data)
    assert model.components_.dtype == np.float32
    with pytest.raises(ValueError, match="must be float32 or float64"):
        open_data(device.asarray(X), dtype=np.float16)
