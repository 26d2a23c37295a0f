"""A model as a directory: what is saved comes back, and nothing else is taken for a model."""

import json
import multiprocessing
import os
import shutil
import stat

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbmd
from dbmd import DBMD
from dbmd._utils.model_files import OWNED


def samples(n=60, m=4, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.dirichlet(np.full(3, 0.4), n) @ rng.normal(size=(3, m)) * 5 + rng.normal(size=(n, m)) / 3).astype(dtype)


def learned(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_") and not name.startswith("_")}


def assert_same(mine, other):
    """Compare to the bit, types included."""
    assert type(mine) is type(other)
    if isinstance(mine, np.ndarray):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        assert mine.tolist() == other.tolist()
    elif isinstance(mine, dict):
        assert mine.keys() == other.keys()
        for name in mine:
            assert_same(mine[name], other[name])
    elif isinstance(mine, dbmd.model.profile.Profile):
        assert_same(vars(mine), vars(other))
    elif isinstance(mine, list):
        assert len(mine) == len(other)
        for a, b in zip(mine, other, strict=True):
            assert_same(a, b)
    else:
        assert mine == other


def there_and_back(model, path):
    model.save(path)
    return dbmd.load(path)


@pytest.fixture(scope="module")
def model():
    X = pd.DataFrame(samples(), columns=["a", "b", "c", "d e"])
    return DBMD(3, inference="map", alpha=1.5, random_state=0).fit(X, source=np.arange(60) % 2)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    return model.save(tmp_path_factory.mktemp("saved") / "model")


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


# -- what is no model ----------------------------------------------------------------------------------------------


def refusal(path):
    """Return why a directory is not loaded: a sentence that names it."""
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        dbmd.load(path)
    assert type(caught.value) in (ValueError, FileNotFoundError)
    said = str(caught.value)
    assert str(path) in said
    assert "\n" not in said
    return said


def test_what_is_not_there_or_not_complete_is_said(saved, tmp_path):
    assert "no model.json" in refusal(tmp_path / "none")
    assert "no model.json" in refusal(tmp_path)
    assert "no model.json" in refusal(saved / "model.json")
    shutil.copy(saved / "model.json", tmp_path)
    assert "arrays.npz is missing" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["model.json", "arrays.npz"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(name, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "model")
    (tmp_path / "model" / name).unlink()
    os.mkfifo(tmp_path / "model" / name)
    assert f"{name} cannot be read: it is a pipe" in refusal(tmp_path / "model")


def test_a_model_of_a_newer_version_is_refused_with_what_to_do(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "model")
    record = json.loads((saved / "model.json").read_text("utf-8")) | {"format_version": 99}
    (tmp_path / "model" / "model.json").write_text(json.dumps(record))
    assert "Update dbmd" in refusal(tmp_path / "model")


def test_pickles_are_refused_wherever_they_are(saved, tmp_path):
    with np.load(saved / "arrays.npz") as archive:
        arrays = dict(archive)
    for name in arrays:
        path = tmp_path / name
        shutil.copytree(saved, path)
        np.savez(path / "arrays.npz", **arrays | {name: np.array([{"code": 1}], object)})
        assert "allow_pickle" in refusal(path)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture
def edited(saved, tmp_path):
    """Return a function that writes the model with changed entries and arrays, and returns where it is."""

    def edit(*, changes=(), arrays=(), is_known=True):
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        record = json.loads((saved / "model.json").read_text("utf-8"))
        for way, value in dict(changes).items():
            *outer, last = way.split(".")
            inner = record
            for key in outer:
                inner = inner[int(key) if isinstance(inner, list) else key]
            inner[last] = value
        if is_known:  # as one does who edits on purpose, and as models of earlier releases are
            del record["checksum"]
        path.mkdir()
        (path / "model.json").write_text(json.dumps(record))
        with np.load(saved / "arrays.npz") as archive:
            np.savez(path / "arrays.npz", **dict(archive) | dict(arrays))
        return path

    return edit


def test_models_of_earlier_releases_have_no_checksum_and_are_loaded(edited, model):
    assert_same(learned(dbmd.load(edited())), learned(model))


def test_what_was_changed_after_it_was_saved_is_refused_with_what_to_do(edited, model):
    assert_same(learned(dbmd.load(edited(is_known=False))), learned(model))  # laid out in another way
    components = np.array(model.components_)
    components[0, 0] += 1e-12
    for change in (
        {"arrays": {"components": components}},
        {"arrays": {"more": np.zeros(1)}},
        {"changes": {"objective": 0.5}},
        {"changes": {"history.0.objective": 0.5}},
        {"changes": {"fit.converged": None}},
        {"changes": {"fit.versions.dbmd": "9"}},
        {"changes": {"checksum": None}},
    ):
        said = refusal(edited(**change, is_known=False))
        assert "changed after it was saved" in said
        assert "remove 'checksum'" in said
        if "checksum" not in change.get("changes", {}):
            dbmd.load(edited(**change))


@pytest.mark.parametrize(
    ("way", "value"),
    [
        ("params.colour", "red"),
        ("params.random_state", "x"),
        ("params.verbose", [1]),
        ("params.warm_start", "no"),
        ("params.engine", None),
        ("n_features", 4.0),
        ("feature_names", ["a", {}, "c", "d"]),
        ("feature_names", ["a", "b"]),
        ("sources", []),
        ("sources.dtype", 3),
        ("objective", "low"),
        ("history", []),
        ("history", [3]),
        ("history.0.objective", "low"),
        ("history.0.iteration", -1),
        ("history.0.w_converged", "yes"),
        ("history.0.colour", "red"),
        ("n_samples_seen", -1),
        ("n_steps", 1.5),
        ("fit", 3),
        ("fit.n_samples", "many"),
        ("fit.seconds", -1.0),
        ("fit.converged", "yes"),
        ("fit.seed", 0.5),
        ("fit.dtype", "complex"),
        ("fit.explained", "all"),
        ("fit.explained_by_source", [0.5]),
        ("fit.classes", "ab"),
        ("fit.classes", [["a"], {}]),
        ("fit.classes", ["a", "b", "c"]),
        ("fit.data", ["x.csv"]),
        ("fit.data", {"paths": "x.csv"}),
        ("fit.data", {"source": 3}),
        ("fit.data", {"encode": {"a": "b"}}),
        ("fit.data", {"delimiter": 1}),
        ("fit.data", {"fingerprint": None}),
        ("fit.versions", ["1"]),
        ("fit.versions", {"dbmd": 1}),
        ("fit.created", 2020),
    ],
)
def test_every_entry_that_is_not_what_it_must_be_is_named(way, value, edited):
    said = refusal(edited(changes={way: value}))
    inner = f".{next(iter(value))}" if way == "fit.data" and isinstance(value, dict) else ""
    assert way.rpartition(".")[2] + inner in said
    assert "is not a sound model" in said


def bad_noise(value):
    return {"noise_variance": np.array([1.0, value])}


@pytest.mark.parametrize(
    "arrays",
    [
        *(bad_noise(value) for value in (-1.0, 0.0, np.nan, np.inf)),
        {"noise_variance": np.array([1, 2])},
        {"components": np.full((3, 4), np.nan)},
        {"components": np.zeros((3, 4), complex)},
        {"profile_n": np.array([-1, 61])},
        {"profile_n": np.array([30.0, 30.0])},
        {"profile_sizes": np.full((2, 3), np.inf)},
        {"labels": np.full(60, 3)},
        {"labels": np.full(59, 0)},
        {"labels": np.full(60, 0.5)},
        {"sources": np.zeros((2, 1))},
        {"param_init": np.zeros((2, 2))},
        {"param_alpha": np.array([0.5, 1.0, 1.0])},
    ],
    ids=lambda arrays: next(iter(arrays)),
)
def test_every_array_that_holds_what_it_must_not_is_named(arrays, edited):
    said = refusal(edited(arrays=arrays))
    assert next(iter(arrays)).removeprefix("param_") in said


def places(record, path=()):
    """Yield the path of every entry of a nested record."""
    for key, value in record.items() if isinstance(record, dict) else enumerate(record[:2]):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


@given(data=st.data())
def test_json_that_is_wrong_anywhere_is_refused_in_a_sentence_or_makes_a_model(saved, tmp_path_factory, data):
    path = tmp_path_factory.mktemp("wrong") / "model"
    shutil.copytree(saved, path)
    record = json.loads((saved / "model.json").read_text("utf-8"))
    del record["checksum"]
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(sorted(places(record), key=str)))
        inner = record
        try:
            for key in way:
                inner = inner[key]
            if data.draw(st.booleans()):
                inner[last] = data.draw(ANYTHING)
            else:
                del inner[last]
        except (KeyError, IndexError, TypeError):
            continue  # what it would be is gone by the first change
    (path / "model.json").write_text(json.dumps(record))
    try:
        loaded = dbmd.load(path)
    except (ValueError, FileNotFoundError) as error:
        kind, said = type(error), str(error)
    else:
        assert isinstance(loaded, DBMD)
        return
    assert kind in (ValueError, FileNotFoundError)
    assert str(path) in said
    assert "\n" not in said


@given(st.text(max_size=30) | ANYTHING.map(json.dumps))
def test_any_other_text_is_refused_in_a_sentence(saved, tmp_path_factory, text):
    path = tmp_path_factory.mktemp("text")
    shutil.copy(saved / "arrays.npz", path)
    (path / "model.json").write_text(text, "utf-8", errors="replace")
    refusal(path)


@pytest.mark.parametrize("content", [b"\xff\xfe{}", b"[" * 100_000, b"1" * 5000], ids=["no text", "deep", "long"])
def test_bytes_that_are_no_sound_json_are_refused(content, saved, tmp_path):
    shutil.copy(saved / "arrays.npz", tmp_path)
    (tmp_path / "model.json").write_bytes(content)
    refusal(tmp_path)


ODD = [np.zeros(0), np.zeros((2, 2)), np.array("text"), np.array(3.0), np.zeros((3, 4, 2)), np.array([True])]


@pytest.mark.parametrize("name", ["components", "noise_variance", "profile_n", "profile_counts", "profile_sizes"])
def test_arrays_that_are_missing_or_do_not_fit_are_refused(name, saved, tmp_path):
    with np.load(saved / "arrays.npz") as archive:
        arrays = dict(archive)
    for i, odd in enumerate([None, *ODD]):
        path = tmp_path / str(i)
        shutil.copytree(saved, path)
        changed = {key: value for key, value in arrays.items() if key != name} | ({} if odd is None else {name: odd})
        np.savez(path / "arrays.npz", **changed)
        refusal(path)
