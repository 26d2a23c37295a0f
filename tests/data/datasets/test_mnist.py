import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.data.datasets import load, mnist
from labelled_files import DIGITS, IMAGES


@pytest.mark.usefixtures("origin")
def test_pixels_are_shares_of_the_brightest_and_training_images_come_first():
    data = load("mnist")
    assert_array_equal(data.X, (IMAGES.reshape(-1, 784) / 255).astype(np.float32))
    assert_array_equal(data.y, DIGITS)


# -- the surrogate -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_disk")
def test_the_surrogate_begins_with_the_originals():
    original, surrogate = load("mnist"), load("mnist-400k", seed=3)
    assert len(surrogate.y) == mnist.N_400K
    assert_array_equal(surrogate.X[: len(original.y)], original.X)


@pytest.mark.usefixtures("on_disk")
def test_copies_keep_their_class_and_all_differ():
    X, y = load("mnist-400k").X, load("mnist-400k").y
    assert_array_equal(y, np.resize(DIGITS, len(y)))
    assert len(np.unique(X, axis=0)) == len(X)
    assert X.min() >= 0.0
    assert X.max() <= 1.0


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_an_image_does_not_depend_on_those_made_with_it(batch, monkeypatch):
    whole = load("mnist-400k")
    monkeypatch.setattr(mnist, "BATCH", batch)
    assert_array_equal(load("mnist-400k").X, whole.X)


@pytest.mark.usefixtures("on_disk")
def test_another_seed_deforms_otherwise():
    first, second = load("mnist-400k", seed=0).X, load("mnist-400k", seed=1).X
    assert (first != second).any(axis=1)[len(DIGITS) :].all()


@pytest.mark.usefixtures("on_disk")
def test_only_the_images_drawn_are_made(monkeypatch):
    made = []
    deform = mnist.deform
    monkeypatch.setattr(mnist, "deform", lambda images, numbers: made.append(len(images)) or deform(images, numbers))
    load("mnist-400k", n=3)
    assert made == [3]
