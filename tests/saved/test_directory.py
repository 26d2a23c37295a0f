"""A model as a directory: what is saved comes back."""

import json
import multiprocessing
import stat

import numpy as np
import pandas as pd
import pytest

import dbmd
from dbmd import DBMD
from dbmd._utils.model_files import OWNED
from saved.models import assert_same, learned, samples, there_and_back

# -- there and back ------------------------------------------------------------------------------------------------

PARAMETERS = {
    "defaults": {},
    "numbers": {
        "inference": "map",
        "alpha": 1.25,
        "lam": 0.1,
        "tol": 1e-2,
        "max_iter": 500,
        "n_init": 2,
        "n_nodes": 3,
        "verbose": 0,
    },
    "arrays": {"inference": "map", "alpha": np.array([1.0, 2.0, 1.1]), "init": samples(3)},
    "lists": {"inference": "map", "alpha": [1.0, 2.0, 1.1], "init": samples(3).tolist()},
    "fixed noise": {"noise": 0.25},
    "shared noise": {"noise": "shared", "init": "random"},
    "numbers of NumPy": {
        "inference": "map",
        "alpha": np.float64(1.5),
        "lam": np.float32(0.5),
        "noise": np.float64(1.5),
    },
    "options": {"solver": "admm", "solver_options": {"rho": 2.0, "max_rounds": 10_000, "tol": 1e-6}},
    "warm": {"warm_start": True},
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PARAMETERS)
def test_every_parameter_and_every_attribute_comes_back(name, dtype, tmp_path):
    params = {"random_state": 7} | PARAMETERS[name]
    model = DBMD(3, **params).fit(samples(dtype=dtype), source=np.arange(60) % 3)
    loaded = there_and_back(model, tmp_path / "model")
    for key, value in model.get_params().items():
        np.testing.assert_equal(loaded.get_params()[key], value)
    assert_same(learned(loaded), learned(model))
    assert loaded.components_.dtype == dtype


SOURCES = {
    "int": np.arange(60) % 3 - 1,
    "uint8": (np.arange(60) % 3).astype(np.uint8),
    "str": np.array(["ä", "b c", "x" * 40])[np.arange(60) % 3],
    "float": np.array([0.1, -2.5, 1e300])[np.arange(60) % 3],
    "float32": np.array([0.1, -2.5, 1e30], np.float32)[np.arange(60) % 3],
    "infinite": np.array([-np.inf, 0.0, np.inf])[np.arange(60) % 3],
    "bool": np.arange(60) % 2 == 0,
    "days": np.datetime64("2020-01-01") + np.arange(60) % 3,
    "nanoseconds": np.datetime64("2020-01-01T01:02:03.000000004", "ns") + np.arange(60) % 3,
    "durations": np.timedelta64(90, "s") * (1 + np.arange(60) % 3),
    "bytes": np.array([b"a", b"bc"])[np.arange(60) % 2],
    "objects that are text": np.array(["b", "a"], object)[np.arange(60) % 2],
    "objects that are numbers": np.array([1, 2.5, True], object)[[0, 1] * 30],
    "one": np.zeros(60, int),
}


@pytest.mark.parametrize("name", SOURCES)
def test_labels_of_sources_of_every_type_come_back_and_are_known(name, tmp_path):
    X, source = samples(), SOURCES[name]
    model = DBMD(3, inference="map", alpha=2.0, random_state=0).fit(X, source=source)
    loaded = there_and_back(model, tmp_path / "model")
    assert_same(loaded.sources_, model.sources_)
    # With alpha > 1 memberships depend on the noise level of the source: it must be found again.
    np.testing.assert_array_equal(loaded.transform(X, source=source), model.transform(X, source=source))


def test_switches_come_back_as_python_takes_them(tmp_path):
    model = DBMD(2, random_state=True, verbose=True, warm_start=1).fit(samples())
    assert there_and_back(model, tmp_path / "model").get_params() == model.get_params()


@pytest.mark.parametrize("seed", [None, 5, np.int64(5), np.random.RandomState(5)], ids=lambda seed: type(seed).__name__)
def test_seeds_come_back_if_they_are_numbers(seed, tmp_path):
    model = DBMD(2, random_state=seed).fit(samples())
    loaded = there_and_back(model, tmp_path / "model")
    assert loaded.random_state == (None if isinstance(seed, np.random.RandomState) else seed)
    assert_same(loaded.components_, model.components_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loaded_model_does_what_the_model_does(dtype, tmp_path):
    X, new = samples(dtype=dtype), samples(80, seed=1, dtype=dtype)
    model = DBMD(3, inference="map", alpha=1.5, random_state=0).fit(X, source=np.arange(60) % 2)
    loaded = there_and_back(model, tmp_path / "model")
    source = np.arange(80) % 3  # one that is not known
    H = model.transform(new, source=source)
    assert_same(loaded.transform(new, source=source), H)
    assert_same(loaded.predict(new, source=source), model.predict(new, source=source))
    assert_same(loaded.inverse_transform(H), model.inverse_transform(H))
    assert loaded.score(new, source=source) == model.score(new, source=source)
    assert_same(loaded.get_feature_names_out(), model.get_feature_names_out())


def test_names_of_features_come_back_and_are_asked_for(model, saved):
    loaded = dbmd.load(saved)
    assert_same(loaded.feature_names_in_, model.feature_names_in_)
    X = pd.DataFrame(samples(), columns=["a", "b", "c", "other"])
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(X)
    without = DBMD(2, random_state=0).fit(samples())
    assert not hasattr(there_and_back(without, saved.parent / "nameless"), "feature_names_in_")


def test_a_loaded_model_can_be_saved_and_fitted_again(saved, tmp_path):
    loaded = dbmd.load(saved)
    again = there_and_back(loaded, tmp_path / "again")
    assert_same(learned(again), learned(loaded))
    assert (tmp_path / "again" / "model.json").read_text() == (saved / "model.json").read_text()
    X = samples(50, m=3, seed=3)
    assert_same(loaded.fit(X).components_, DBMD(3, inference="map", alpha=1.5, random_state=0).fit(X).components_)


def test_a_model_that_was_saved_before_there_was_evidence_is_of_map(tmp_path):
    DBMD(3, inference="map", random_state=0).fit(samples()).save(tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    record = json.loads(path.read_text())
    del record["checksum"]
    for name in ("inference", "effective_features"):
        del record["params"][name]
    record["params"] |= {"extrapolate": None, "tol": None}
    record["history"] = [
        {name: value for name, value in entry.items() if name != "change"} for entry in record["history"]
    ]
    for name in ("effective_features", "noise_excess"):
        del record[name]
    path.write_text(json.dumps(record))
    model = dbmd.load(tmp_path / "model")
    assert model.inference == "map"
    assert not hasattr(model, "effective_features_")
    model.partial_fit(samples(seed=1))  # and goes on


def test_a_model_of_evidence_comes_back_with_the_excess_of_noise_of_each_source(tmp_path):
    X = samples()
    model = DBMD(3, random_state=0).fit(X, source=np.arange(len(X)) % 2)
    loaded = there_and_back(model, tmp_path / "model")
    assert loaded.inference == "evidence"
    assert loaded.effective_features_ == model.effective_features_
    np.testing.assert_array_equal(loaded.noise_excess_, model.noise_excess_)


def test_an_engine_that_is_an_object_becomes_the_usual_one(tmp_path):
    from dbmd.engines.local import Engine

    model = DBMD(2, engine=Engine, random_state=0).fit(samples())
    assert there_and_back(model, tmp_path / "model").engine == "local"


def test_a_model_of_files_comes_back(tmp_path):
    X = samples()
    pd.DataFrame({"lab": np.arange(60) % 2, "kind": np.arange(60) % 3, "x": X[:, 0], "y": X[:, 1]}).to_csv(
        tmp_path / "data.csv", index=False
    )
    data = dbmd.open_data(tmp_path / "data.csv", source="lab", label="kind")
    model = DBMD(3, random_state=0).fit(data)
    loaded = there_and_back(model, tmp_path / "model")
    assert not hasattr(loaded, "labels_")  # of files of any size
    assert_same(learned(loaded), {k: v for k, v in learned(model).items() if k != "labels_"})


def test_a_model_that_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        DBMD().save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


# -- the directory -------------------------------------------------------------------------------------------------


def test_the_directory_holds_json_for_people_and_plain_arrays(saved, model):
    assert {path.name for path in saved.iterdir()} == {"model.json", "arrays.npz"} < OWNED
    record = json.loads((saved / "model.json").read_text("utf-8"))
    assert record["params"]["alpha"] == 1.5
    assert record["feature_names"] == ["a", "b", "c", "d e"]
    assert record["objective"] == model.objective_
    assert record["fit"]["versions"]["dbmd"] == dbmd.__version__
    with np.load(saved / "arrays.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["components"], model.components_)


def test_permissions_are_ordinary(saved, tmp_path):
    (tmp_path / "usual").mkdir()
    (tmp_path / "usual" / "file").touch()
    for mine, usual in ((saved, tmp_path / "usual"), (saved / "model.json", tmp_path / "usual" / "file")):
        assert stat.S_IMODE(mine.stat().st_mode) == stat.S_IMODE(usual.stat().st_mode)


def test_a_model_is_replaced_only_on_demand_and_other_files_never(model, tmp_path):
    path = model.save(tmp_path / "model")
    before = (path / "arrays.npz").read_bytes()
    with pytest.raises(FileExistsError, match="overwrit"):
        model.save(path)
    (path / "report.html").write_text("made from it")
    other = DBMD(2, random_state=0).fit(samples())
    other.save(path, overwrite=True)
    assert (path / "arrays.npz").read_bytes() != before
    assert {file.name for file in path.iterdir()} == {"model.json", "arrays.npz"}
    (path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"notes\.txt"):
        model.save(path, overwrite=True)
    assert dbmd.load(path).n_components == 2


def _save_on_and_on(models, path, ready):
    for i in range(10**6):
        models[i % 2].save(path, overwrite=True)
        ready.set()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # the fork does nothing but write
def test_kills_while_saving_leave_one_whole_model_or_the_other(tmp_path, rng):
    models = [DBMD(k, random_state=0).fit(samples(m=50 * k)) for k in (2, 3)]
    context = multiprocessing.get_context("fork")
    for _ in range(20):
        ready = context.Event()
        writer = context.Process(target=_save_on_and_on, args=(models, tmp_path / "model", ready))
        writer.start()
        assert ready.wait(30)
        writer.join(rng.uniform(0, 0.03))
        writer.kill()
        writer.join()
        loaded = dbmd.load(tmp_path / "model")
        assert_same(loaded.components_, models[loaded.n_components - 2].components_)
    models[0].save(tmp_path / "model", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_arrays_that_are_as_others_are_not_written_twice(tmp_path):
    X, source = np.abs(samples()), np.arange(60) % 2
    for params, expected in (({}, set()), ({"scaling": "standard"}, {"scale", "scaled_components"})):
        DBMD(3, random_state=0, **params).fit(X, source=source).save(tmp_path / "model", overwrite=True)
        with np.load(tmp_path / "model" / "arrays.npz") as arrays:
            assert {"scale", "fill", "scaled_components", "offsets", "scaled_offsets"}.intersection(arrays) == expected
