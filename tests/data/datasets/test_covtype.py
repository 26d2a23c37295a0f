import pytest
from numpy.testing import assert_array_equal

from dbmd.data.datasets import load
from labelled_files import COVER, LAND, MEASURED


@pytest.mark.usefixtures("origin")
def test_features_and_classes_are_those_of_the_file():
    data = load("covtype")
    assert_array_equal(data.X, LAND)
    assert_array_equal(data.y, COVER)


@pytest.mark.usefixtures("origin")
def test_the_indicators_are_named_as_in_the_description_of_the_set():
    names = load("covtype").feature_names
    assert names[:10] == tuple(MEASURED)
    assert names[10:15] == (
        "Wilderness_Area1",
        "Wilderness_Area2",
        "Wilderness_Area3",
        "Wilderness_Area4",
        "Soil_Type1",
    )
    assert names[-1] == "Soil_Type40"
