"""Known components in every form, and their names."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dbmd.model.known import Known

VALUES = np.arange(6.0).reshape(2, 3)
TABLE = pd.DataFrame(VALUES, index=["clay", "sand"], columns=["x", "y", "z"])


@pytest.mark.parametrize(
    ("form", "names", "columns"),
    [
        (VALUES, None, None),
        (VALUES.tolist(), None, None),
        (pd.DataFrame(VALUES), None, None),
        (TABLE, ("clay", "sand"), ("x", "y", "z")),
        ({"clay": VALUES[0], "sand": VALUES[1].tolist()}, ("clay", "sand"), None),
        (Known.of(TABLE), ("clay", "sand"), ("x", "y", "z")),
    ],
    ids=["array", "list", "frame of numbers", "frame", "dict", "itself"],
)
def test_every_form_is_the_same_components(form, names, columns):
    known = Known.of(form)
    assert_array_equal(known.values, VALUES)
    assert_array_equal(np.asarray(known, np.float32), VALUES.astype(np.float32))
    assert (known.names, known.columns) == (names, columns)


def test_columns_are_matched_by_name_where_both_have_names():
    known = Known.of(TABLE)
    assert_array_equal(known.for_features(3, ["z", "x", "y"]), VALUES[:, [2, 0, 1]])
    for names in (None, ["0", "1", "2"]):  # columns of files without names are numbered
        assert_array_equal(known.for_features(3, names), VALUES)
    assert_array_equal(Known.of(VALUES).for_features(3, ["z", "x", "y"]), VALUES)


@pytest.mark.parametrize(
    ("known", "names", "says"),
    [
        (TABLE, ["x", "y", "w"], "Missing: 'w'"),
        (TABLE, ["x", "y"], "No features of the data: 'z'"),
        (TABLE.set_axis(["x", "y", "y"], axis=1), ["x", "y"], "twice"),
        (VALUES, ["x", "y"], "column for each of the 2 features"),
    ],
)
def test_other_features_are_refused(known, names, says):
    with pytest.raises(ValueError, match=says):
        Known.of(known).for_features(len(names), names)


def test_components_that_are_found_are_numbered():
    assert Known.of(TABLE).component_names(4).tolist() == ["clay", "sand", "pattern 1", "pattern 2"]
    assert Known.of(VALUES).component_names(4) is None


def test_the_fingerprint_depends_on_values_and_names():
    others = [VALUES, VALUES + 1, TABLE, TABLE.set_axis(["clay", "silt"]), TABLE.set_axis(["x", "z", "y"], axis=1)]
    assert len({Known.of(each).fingerprint for each in others}) == len(others)
    assert Known.of(TABLE).fingerprint == Known.of(TABLE.copy()).fingerprint
