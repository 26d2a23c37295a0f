"""Nothing else is taken for a model: what is damaged or edited is refused in one sentence."""

import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dbmd
from dbmd import DBMD
from saved.models import assert_same, learned, samples


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


@pytest.mark.parametrize("name", ["scale", "fill", "scaled_components", "offsets", "scaled_offsets", "param_known"])
def test_parts_of_a_model_that_are_damaged_or_missing_are_said(name, tmp_path):
    X, known = np.abs(samples()), {"clay": np.ones(4)}
    params = {"scaling": "standard", "offsets": True, "missing": "allow", "known": known}
    path = DBMD(3, random_state=0, **params).fit(X, source=np.arange(60) % 2).save(tmp_path / "model")
    record = json.loads((path / "model.json").read_text("utf-8"))
    del record["checksum"]  # it would tell that something was changed
    (path / "model.json").write_text(json.dumps(record))
    with np.load(path / "arrays.npz") as archive:
        arrays = dict(archive)
    np.savez(path / "arrays.npz", **arrays)
    dbmd.load(path)
    bad = {"of another shape": arrays[name][:-1], "not finite": np.full_like(arrays[name], np.nan)}
    for changed in bad.values():
        np.savez(path / "arrays.npz", **arrays | {name: changed})
        assert name.removeprefix("param_") in refusal(path)
    if name != "fill":
        np.savez(path / "arrays.npz", **{each: array for each, array in arrays.items() if each != name})
        assert f"'{name.removeprefix('param_')}' is missing" in refusal(path)
