import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dbmd.data.formats import Batch
from dbmd.data.options import EACH_FILE
from dbmd.data.recipe import Recipe, Selection, codes_among, distinct, sorted_names
from dbmd.errors import DataError


class File:
    """As much of a reader as a recipe needs: a name, and what to call a row."""

    location = "data.csv"

    def where(self, row):
        return f"line {row + 2}"


FILE = File()


def window(recipe, X, others, row=0, first=0):
    return recipe.window(Batch(X, {name: pa.array(values) for name, values in others.items()}), FILE, row, first)


# -- names ---------------------------------------------------------------------------------------------------------

# What an array of NumPy's own types would not tell apart.
ALIKE = [[-1, 2**63 - 1, 2**63], ["a", "a\0"], ["1", "a\0", "a\0\0"], [2**53, 2**53 + 1, 0.5]]


@pytest.mark.parametrize("values", ALIKE)
def test_names_are_told_apart(values):
    names = sorted_names(set(values), "names")
    assert names.tolist() == sorted(values)
    for i, value in enumerate(names.tolist()):
        kind = pa.uint64() if value == 2**63 else None
        assert codes_among(pa.array([value], kind), names, FILE, 0, "lab").tolist() == [i]


@given(st.sets(st.integers(-(10**12), 10**12), min_size=1))
def test_whole_numbers_are_numbers_even_if_they_come_as_text(values):
    for given_as in (values, {str(v) for v in values}, {v if v % 2 else str(v) for v in values}):
        names = sorted_names(given_as, "names")
        assert names.dtype.kind == "i"
        assert names.tolist() == sorted(values)


@given(st.sets(st.text(min_size=1), min_size=1))
def test_names_are_sorted_and_each_value_finds_its_own(values):
    values = {value.replace("\0", "0") for value in values}
    names = sorted_names(values, "names")
    asked = sorted(values, key=hash) * 2
    places = codes_among(pa.array(asked), names, FILE, 0, "lab")
    assert [str(names[place]) for place in places] == [
        value if names.dtype.kind == "U" else str(int(value)) for value in asked
    ]


@pytest.mark.parametrize("text", ["01", "1.0", "+1", "-0", "1e3", "²", "٣", "1_000", " 1", "--1", "-", "0x1"])
def test_what_is_not_written_as_a_whole_number_stays_text(text):
    assert sorted_names({text, "1"}, "names").tolist() == sorted({text, "1"})


def test_names_of_numbers_and_text_are_refused():
    with pytest.raises(DataError, match=r"^The labels must be of one kind in all files. Got float, str.$"):
        sorted_names({1.5, "a"}, "labels")


@pytest.mark.parametrize("values", [{1, 2.5}, {True, False}, {0.5, 1.5}])
def test_numbers_of_several_types_go_together(values):
    assert sorted_names(values, "names").tolist() == sorted(values)


# -- columns -------------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["a", "b", "c", "NA", "nan"]), min_size=1), st.booleans())
def test_distinct_values_and_their_places_give_back_the_column(values, as_dictionary):
    column = pa.array(values)
    found, codes = distinct(column.dictionary_encode() if as_dictionary else column, FILE, 0, "lab")
    assert [found[code] for code in codes] == values
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", None]),
        pa.array(["a", "b", ""]),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.array([1.0, 2.0, np.nan]),
        pa.array([1, 2, None]),
        pa.DictionaryArray.from_arrays(pa.array([0, 0, 1]), pa.array(["a", None])),
        pa.DictionaryArray.from_arrays(pa.array([1, 1, 0]), pa.array(["", "a"])),
    ],
    ids=["null", "nothing", "null code", "NaN", "null number", "null in the dictionary", "nothing in the dictionary"],
)
def test_the_first_missing_value_is_said_by_file_line_and_column(column):
    with pytest.raises(DataError, match=r"^data.csv: line 12, column 'lab' is empty.$"):
        distinct(column, FILE, 8, "lab")


def test_a_missing_value_that_no_row_has_is_not_missing():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", "b", None]))
    values, codes = distinct(column, FILE, 0, "lab")
    assert [values[code] for code in codes] == ["a", "b", "a"]


def test_dates_are_text():
    values, _ = distinct(pa.array([0, 1], pa.date32()), FILE, 0, "day")
    assert values == ["1970-01-01", "1970-01-02"]


# -- recipes -------------------------------------------------------------------------------------------------------


def test_without_source_and_label_there_is_one_source_and_no_class():
    X = np.arange(6.0).reshape(3, 2)
    found = window(Recipe(Selection(("x", "y"))), X, {}, first=7)
    assert found.first == 7
    assert found.Xt is X
    assert found.source_codes == 0
    assert found.class_codes is None


def test_sources_and_classes_are_numbered_by_their_place_among_all_names():
    selection = Selection(("x",), source="lab", label="kind")
    assert selection.others == ("lab", "kind")
    recipe = Recipe(selection, source_names=np.array(["a", "b", "c"]), class_names=np.array([3, 5, 8]))
    found = window(recipe, np.ones((3, 1)), {"lab": ["c", "a", "c"], "kind": ["8", "3", "5"]})
    assert_array_equal(found.source_codes, [2, 0, 2])
    assert_array_equal(found.class_codes, [2, 0, 1])


def test_a_file_may_be_a_source():
    files = {"data.csv": "data.csv", "more.csv": "more.csv", "a.csv": "a.csv"}
    selection = Selection(("x",), source=EACH_FILE, file_sources=files)
    assert selection.others == ()
    recipe = Recipe(selection, source_names=np.array(sorted(files)))
    assert window(recipe, np.ones((3, 1)), {}).source_codes == 1


def test_one_column_may_be_source_and_label_and_is_read_once():
    assert Selection(("x",), source="lab", label="lab").others == ("lab",)


def one_hot(values, categories):
    """Return the indicator of each category, by hand."""
    return np.array([[1.0 if str(value) == str(category) else 0.0 for category in categories] for value in values])


KINDS = {
    "text": (["b", "a", "c", "a"], np.array(["a", "b", "c"])),
    "numbers": ([3, 1, 2, 1], np.array([1, 2, 3])),
    "numbers as text": (["3", "1", "2", "1"], np.array([1, 2, 3])),
    "unknown categories": (["b", "z", "y", "a"], np.array(["a", "b", "c"])),
    "a category that none has": (["b", "b", "a", "a"], np.array(["a", "b", "c"])),
    "truth": ([True, False, True, True], np.array([False, True])),
}


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
@pytest.mark.parametrize("kind", KINDS)
def test_encoded_columns_come_behind_the_others_one_for_each_category(kind, dtype, form):
    values, categories = KINDS[kind]
    X = np.arange(8.0).reshape(4, 2).astype(dtype)
    recipe = Recipe(Selection(("x", "y"), ("e", "f")), {"e": categories, "f": np.array(["u", "v"])})
    found = window(recipe, form(X), {"e": values, "f": ["v", "u", "u", "v"]}).Xt
    assert sparse.issparse(found) == (form is sparse.csr_array)
    assert found.dtype == dtype
    expected = np.hstack([X, one_hot(values, categories), one_hot("vuuv", "uv")])
    assert_array_equal(found.toarray() if sparse.issparse(found) else found, expected)
    assert recipe.feature_names == ["x", "y", *(f"e={c}" for c in categories), "f=u", "f=v"]
    assert len(recipe.feature_names) == found.shape[1]


def test_encoded_columns_alone_will_do():
    recipe = Recipe(Selection((), ("e",)), {"e": np.array(["a", "b"])})
    found = window(recipe, np.zeros((3, 0), np.float32), {"e": ["b", "a", "b"]}).Xt
    assert_array_equal(found, [[0, 1], [1, 0], [0, 1]])
