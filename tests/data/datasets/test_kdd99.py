from collections import Counter

import pytest
from numpy.testing import assert_array_equal

from dbmd.data.datasets import load
from labelled_files import CONNECTIONS, KDD_CLASSES, KDD_NAMES

KEPT = [row for row in CONNECTIONS if row[-1] != "spy."]


@pytest.mark.usefixtures("origin")
def test_classes_of_fewer_than_a_hundred_rows_are_left_out_and_the_others_keep_their_order():
    data = load("kdd99")
    assert [f"{label}." for label in data.y] == [row[-1] for row in KEPT]
    assert Counter(data.y.tolist()) == {name: size for name, size in KDD_CLASSES.items() if size >= 100}


@pytest.mark.usefixtures("origin")
def test_numbers_are_those_of_the_file_to_the_last_digit():
    data = load("kdd99")
    for j, name in enumerate(KDD_NAMES):
        if name not in ("protocol_type", "service", "flag"):
            assert data.X[:, j].tolist() == [row[j] for row in KEPT]
    assert data.feature_names == tuple(KDD_NAMES)


@pytest.mark.usefixtures("origin")
def test_text_becomes_its_place_in_alphabetical_order():
    X = load("kdd99").X
    for j in (1, 2, 3):
        values = sorted({row[j] for row in CONNECTIONS})
        assert_array_equal(X[:, j], [values.index(row[j]) for row in KEPT])


@pytest.mark.usefixtures("on_disk")
def test_the_surrogate_of_the_full_set_repeats_the_classes_of_which_the_file_has_a_tenth():
    part, full = load("kdd99"), load("kdd99-full")
    times = [10 if label in ("normal", "smurf") else 1 for label in part.y]
    assert_array_equal(full.y, part.y.repeat(times))
    assert_array_equal(full.X, part.X.repeat(times, axis=0))
