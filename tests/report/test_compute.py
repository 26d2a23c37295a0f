"""Laws of what the report shows."""

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from dbmd import DBMD
from dbmd.metrics import agreement
from dbmd.report.classes import CLASSES
from dbmd.report.compute import CLUSTERS, ITERATIONS, SOURCES, describe
from report.models import info, made_up

models = st.builds(
    made_up,
    r=st.integers(1, 30),
    m=st.integers(1, 90),
    n=st.integers(1, 200),
    sources=st.integers(1, 9).map(lambda C: [f"lab {c}" for c in range(C)]),
    classes=st.sampled_from([None, ["x"], list("xyz")]),
    iterations=st.integers(1, 300),
    empty=st.integers(0, 1),
    seed=st.integers(0, 9),
)


@given(models)
def test_it_is_json_and_fractions_add_up(model):
    d = describe(model)
    assert json.loads(json.dumps(d, allow_nan=False)) == d
    assert sum(cluster["fraction"] for cluster in d["clusters"]) == pytest.approx(1, abs=1e-3)
    assert sum(cluster["count"] for cluster in d["clusters"]) == d["n_samples"] == sum(s["n"] for s in d["sources"])
    assert sum(d["memberships"]["histogram"]) == d["n_samples"]
    assert sum(d["memberships"]["crispness"].values()) == pytest.approx(1, abs=1e-4)
    for source, fractions in zip(d["sources"], d["mix"]["fractions"], strict=True):
        assert sum(fractions) == pytest.approx(1 if source["n"] else 0, abs=1e-3)
        assert (source["crispness"] is None) == (source["n"] == 0)
    assert all(0 <= distance <= 1 for distance in d["mix"]["distance"])


@given(models)
def test_sources_are_in_the_order_of_noise_and_clusters_in_that_of_size(model):
    d = describe(model)
    sigmas = [source["sigma"] for source in d["sources"]]
    assert sigmas == sorted(sigmas)
    assert d["sources"][0]["weight"] == 1
    for source in d["sources"]:
        assert source["weight"] == pytest.approx((sigmas[0] / source["sigma"]) ** 2, rel=1e-3)
        assert source["worth"] == pytest.approx(source["weight"] * source["n"], rel=1e-3)
    sizes = [cluster["size"] for cluster in d["clusters"]]
    assert sizes == sorted(sizes, reverse=True)
    for cluster in d["clusters"]:
        assert cluster["size"] == pytest.approx(model.cluster_sizes_[int(cluster["name"])], rel=1e-4)


@given(models)
def test_convergence_starts_and_ends_where_the_fit_did(model):
    found = describe(model)["convergence"]
    assert found["iteration"][0] == 1
    assert found["iteration"][-1] == found["total"] == model.n_iter_
    assert len(found["iteration"]) <= ITERATIONS
    assert found["iteration"] == sorted(set(found["iteration"]))
    assert found["objective"][-1] == pytest.approx(model.history_[-1].objective)
    assert (found["half"] is None) == (model.n_iter_ == 1)


@given(models)
def test_the_confusion_matrix_has_matched_pairs_on_its_diagonal(model):
    found = describe(model)["classes"]
    if not len(model.profile_.contingency):
        assert found is None
        return
    whole = agreement(model.profile_.contingency)
    assert found["accuracy"] == pytest.approx(whole.accuracy, abs=1e-4)
    counts = np.array(found["counts"])
    pairs = np.diag(counts)[: found["pairs"]]
    assert pairs.all()  # without a sample in common, a class and a cluster are no pair
    assert pairs.sum() == pytest.approx(whole.accuracy * found["n_labelled"])
    assert found["unmatched"] == found["rows"][found["pairs"] :]
    assert sorted(found["columns"], key=int) == [str(k) for k in range(counts.shape[1])]


def test_a_component_without_samples_does_not_set_the_scale():
    model = made_up(r=4, m=6, empty=1)
    model.components_[3] = 1e6
    d = describe(model)
    assert np.abs(d["basis"]["mean"]).max() < 10
    assert d["basis"]["used"] == [0, 1, 2]
    assert d["clusters"][-1]["count"] == 0


def test_every_component_puts_features_forward():
    """One component with a hundred large values must not push the others' features out."""
    model = made_up(r=6, m=500)
    model.components_ *= 0.01
    model.components_[0, :100] = 50.0
    for k in range(1, 6):
        model.components_[k, 300 + k] = 20.0
    shown = describe(model)["basis"]
    assert shown["total"] == 500 > len(shown["features"])
    assert {f"feature {300 + k}" for k in range(1, 6)} <= set(shown["features"])
    tops = {cluster["name"]: top for cluster, top in zip(describe(model)["clusters"], shown["top"], strict=True)}
    assert tops["0"][0]["difference"] > 0


def test_features_of_unequal_spread_have_scales_of_their_own():
    model = made_up(r=4, m=8, features=[f"x{j}" for j in range(8)])
    assert not describe(model)["basis"]["own_scale"]
    model.components_[:, 0] *= 1000
    shown = describe(model)["basis"]
    assert shown["own_scale"]
    assert {feature["name"] for top in shown["top"] for feature in top} == {f"x{j}" for j in range(8)}


def test_it_is_bounded_whatever_the_model(large):
    d = describe(large)
    assert len(json.dumps(d)) < 700_000
    assert len(d["sources"]) == SOURCES
    assert len(d["clusters"]) == CLUSTERS
    assert len(d["classes"]["rows"]) == CLASSES >= len(d["classes"]["columns"])
    assert d["n_sources"] == 500
    assert d["provenance"]["command"] is None
    # The extremes are what one looks for.
    assert d["sources"][0]["sigma"] == pytest.approx(0.1)
    assert d["sources"][-1]["sigma"] == pytest.approx(10.0)


@pytest.mark.parametrize("shape", [(8, 8), (300, 2), (200, 200), (40, 30, 3)])
def test_pictures_have_the_pixels_they_say(shape):
    model = made_up(r=7, m=int(np.prod(shape)), n=50)
    d = describe(model, shape)["basis"]
    size = 7 * d["height"] * d["width"] * d["channels"]
    assert d["height"] <= shape[0]
    assert d["width"] <= shape[1]
    for view in ("values", "difference"):
        if view in d:
            assert len(base64.b64decode(d[view]["data"])) == size
    assert ("difference" in d) == (len(shape) == 2)


def test_pictures_keep_values_and_mean():
    model = made_up(r=3, m=64)
    model.components_ = np.abs(model.components_)
    d = describe(model, (8, 8))
    low, high = d["basis"]["values"]["low"], d["basis"]["values"]["high"]
    pictures = np.frombuffer(base64.b64decode(d["basis"]["values"]["data"]), np.uint8).reshape(3, 64)
    order = [int(cluster["name"]) for cluster in d["clusters"]]
    np.testing.assert_allclose(low + pictures / 255 * (high - low), model.components_[order], atol=(high - low) / 500)


@pytest.mark.parametrize("r", [1, 120])
def test_pictures_are_bounded(r):
    model = made_up(r=r, m=180 * 180, n=200)
    assert len(json.dumps(describe(model, (180, 180)))) < 800_000


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((8, 9), r"\(8, 9\) makes 72 values, but the model has 64 features\. \(8, 8\) would fit"),
        ((8, 8, 4), r"must be \(height, width\) or \(height, width, 3\)\. Got \(8, 8, 4\)"),
        ((64,), r"must be \(height, width\)"),
        ((0, 8), r"must be \(height, width\)"),
    ],
)
def test_a_wrong_image_shape_is_refused_in_words(shape, message):
    with pytest.raises(ValueError, match=message):
        describe(made_up(m=64), shape)


def test_all_but_the_number_of_samples_may_be_missing():
    model = made_up()
    model.fit_info_ = {"n_samples": 200}
    d = describe(model)
    assert d["fit"]["converged"] is None
    assert d["provenance"]["paths"] == []
    model.fit_info_ = info(n_samples=200, data=None, command=None, versions=None, explained=float("nan"))
    assert describe(model)["fit"]["explained"] is None


def test_arrays_and_callables_among_the_parameters_are_said_in_a_few_words():
    model = made_up()
    model.init, model.engine, model.alpha = np.ones((5, 12)), made_up, [1.0, 2.0]
    said = {parameter["name"]: parameter["value"] for parameter in describe(model)["provenance"]["parameters"]}
    assert said["init"] == "array of shape (5, 12)"
    assert said["engine"] == "made_up"
    assert said["alpha"] == "[1.0, 2.0]"


def test_a_model_that_was_not_fitted_or_not_profiled_is_refused():
    with pytest.raises(NotFittedError):
        describe(DBMD())
    model = made_up()
    del model.profile_
    with pytest.raises(ValueError, match="needs the attribute 'profile_'"):
        describe(model)
