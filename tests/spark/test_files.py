"""Estimators and models in files, which each face opens of the other."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dbmd
from spark.shared import MARKS, SOURCE, VALUES, X, memberships, same

pytestmark = MARKS
ml = pytest.importorskip("dbmd.spark")
from dbmd.spark.files import local_path  # noqa: E402


def test_an_estimator_is_saved_and_loaded(spark, tmp_path):
    estimator = ml.DBMD(**VALUES)
    estimator.save(str(tmp_path / "estimator"))
    loaded = ml.DBMD.load(str(tmp_path / "estimator"))
    assert loaded.uid == estimator.uid
    assert {p.name: v for p, v in loaded.extractParamMap().items()} == VALUES
    assert type(loaded) is ml.DBMD


def test_a_model_is_saved_and_loaded(frame, model, tmp_path):
    path = tmp_path / "model of iris"
    renamed = model.copy().setProbabilityCol("h").setPredictionCol("")
    renamed.save(str(path))
    assert sorted(entry.name for entry in path.iterdir()) == ["arrays.npz", "metadata", "model.json"]
    loaded = ml.DBMDModel.load(str(path))
    assert loaded.uid == model.uid
    assert loaded.extractParamMap() == renamed.extractParamMap()
    assert loaded.isSet("k")
    assert not loaded.isSet("tol")
    same(loaded.setProbabilityCol("probability"), model, frame)


@pytest.mark.parametrize("make", [lambda path: path.as_uri(), lambda path: f"file:{path}", lambda path: path])
def test_a_path_may_be_written_in_other_ways(model, tmp_path, make):
    path = tmp_path / "model of iris"
    model.save(make(path))
    assert (path / "model.json").exists()
    assert_array_equal(ml.DBMDModel.load(make(path)).clusterCenters(), model.clusterCenters())


def test_a_model_is_replaced_only_if_that_is_allowed(model, tmp_path):
    path = str(tmp_path / "model")
    model.save(path)
    with pytest.raises(FileExistsError):
        model.save(path)
    model.copy().setPredictionCol("cluster").write().overwrite().save(path)
    assert ml.DBMDModel.load(path).getPredictionCol() == "cluster"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    model.model.save(path, overwrite=True)  # and by the other face, which leaves no metadata of another model behind
    assert not (tmp_path / "model" / "metadata").exists()
    (tmp_path / "model" / "metadata").mkdir()
    (tmp_path / "model" / "metadata" / "mine").touch()
    with pytest.raises(FileExistsError, match="mine"):
        model.write().overwrite().save(path)


def test_each_face_opens_what_the_other_saved(frame, model, tmp_path):
    model.save(str(tmp_path / "here"))
    there = dbmd.load(tmp_path / "here")
    assert_array_equal(there.transform(X, source=SOURCE), model.model.transform(X, source=SOURCE))
    fitted = dbmd.DBMD(3, random_state=0, inference="map", alpha=[2.0, 1.0, 1.5]).fit(X, source=SOURCE)
    fitted.save(tmp_path / "there")
    here = ml.DBMDModel.load(str(tmp_path / "there")).setSourceCol("where")
    assert here.getAlpha() == [2.0, 1.0, 1.5]
    assert_allclose(memberships(here.transform(frame)), fitted.transform(X, source=SOURCE), atol=1e-9)


def test_metadata_gone_wrong_is_named(model, tmp_path):
    model.save(str(tmp_path / "model"))
    (tmp_path / "model" / "metadata" / "part-00000").write_text("{")
    with pytest.raises(ValueError, match="part-00000 cannot be read"):
        ml.DBMDModel.load(str(tmp_path / "model"))


def test_other_places_than_the_driver_s_files_are_refused_with_what_to_do(model):
    for path in ("hdfs:///models/a", "s3a://bucket/a", "file://elsewhere/a"):
        with pytest.raises(ValueError, match=r"driver's own file system: a path, or file:/path"):
            model.save(path)
        with pytest.raises(ValueError, match=r"driver's own file system"):
            ml.DBMDModel.load(path)
    assert str(local_path("file:/a%20b/c")) == "/a b/c"


def test_no_file_has_a_pickle_in_it(model, tmp_path):
    model.save(str(tmp_path / "model"))
    np.load(tmp_path / "model" / "arrays.npz", allow_pickle=False)
    metadata = json.loads((tmp_path / "model" / "metadata" / "part-00000").read_text())
    assert metadata["class"] == "dbmd.spark.DBMDModel"
    assert metadata["paramMap"]["k"] == 3
