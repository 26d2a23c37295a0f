import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.data.datasets import NAMES, load
from dbmd.data.datasets.labelled import Draw

FETCHED = ("covtype", "kdd99", "kdd99-full", "mnist", "mnist-400k")
PER_SAMPLE = ("X", "y", "source", "truth")


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("name", NAMES)
def test_a_subset_has_rows_of_the_whole_each_at_most_once_with_all_that_belongs_to_them(name):
    whole, part = load(name, seed=5), load(name, n=7, seed=5)
    rows = Draw(7, 5).rows(len(whole.y))
    assert len(set(rows)) == len(part.y) == 7
    for field in PER_SAMPLE:
        if getattr(whole, field) is None:
            assert getattr(part, field) is None
        else:
            assert_array_equal(getattr(part, field), getattr(whole, field)[rows])
    assert (part.name, part.about, part.feature_names) == (whole.name, whole.about, whole.feature_names)


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_is_sound(name):
    data = load(name)
    assert data.X.dtype == (np.float64 if "kdd99" in name else np.float32)
    assert data.X.flags.c_contiguous
    assert np.isfinite(data.X).all()
    assert data.y.shape == (len(data.X),)
    assert data.y.dtype.kind in "iU"
    assert data.feature_names is None or len(data.feature_names) == data.X.shape[1]
    assert data.surrogate == (name in ("kdd99-full", "mnist-400k"))
    assert data.surrogate == ("surrogate" in data.about) == ("surrogate" in data.name)
    assert data.about.endswith(".")


@pytest.mark.parametrize("name", FETCHED)
def test_a_download_gives_the_same_as_the_files(name, request):
    request.getfixturevalue("online")
    downloaded = load(name)
    request.getfixturevalue("on_disk")
    read = load(name)
    assert_array_equal(downloaded.X, read.X)
    assert_array_equal(downloaded.y, read.y)
    assert (downloaded.X.dtype, downloaded.y.dtype) == (read.X.dtype, read.y.dtype)
    assert (downloaded.name, downloaded.feature_names) == (read.name, read.feature_names)


def test_a_subset_depends_on_the_seed_and_fewer_are_the_beginning_of_more():
    some = load("digits", n=100, seed=1)
    assert_array_equal(some.X, load("digits", n=100, seed=1).X)
    assert_array_equal(some.X[:30], load("digits", n=30, seed=1).X)
    assert not np.array_equal(some.X, load("digits", n=100, seed=2).X)


def test_all_at_random_is_a_permutation():
    whole, mixed = load("digits"), load("digits", n=1797)
    assert not np.array_equal(whole.X, mixed.X)
    assert_array_equal(np.unique(whole.X, axis=0), np.unique(mixed.X, axis=0))


@pytest.mark.parametrize("n", [0, -1, 1798])
def test_a_number_of_samples_that_there_are_not_is_refused(n):
    with pytest.raises(ValueError, match=rf"^The 'n' parameter of load .* from 1 to .*, 1,797. Got {n}.$"):
        load("digits", n=n)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=rf"^Unknown data set 'mnits'. Known: {', '.join(NAMES)}.$"):
        load("mnits")


def test_importing_the_loaders_is_light():
    code = "import sys, dbmd.data.datasets; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"sklearn.datasets", "pyarrow.csv", "pandas", "matplotlib"} & set(loaded)
