"""The quasi-Newton path, on quadratics whose minimiser is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dbmd.model.path import BOLD, DEPTH, GENTLE, Path
from strategies import generators


def positive(rng, size, least=0.1):
    Q = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return (Q * rng.uniform(least, 1.0, size)) @ Q.T


class Reduced:
    """F(W) = 1/2 <W, C W> with a curvature C <= the one that a W-step sees, which is A on the right."""

    def __init__(self, rng, m=4, r=3, share=0.1):
        self.A = positive(rng, r)
        root = np.linalg.cholesky(np.kron(np.eye(m), self.A))
        self.C = root @ positive(rng, m * r, share) @ root.T
        self.shape = m, r

    def value(self, W):
        return 0.5 * W.ravel() @ self.C @ W.ravel()

    def gradient(self, W):
        return (self.C @ W.ravel()).reshape(self.shape)

    def w_step(self, W):
        return W - self.gradient(W) @ np.linalg.inv(self.A)


def descend(reduced, W, steps, damping=BOLD):
    path = Path()
    for _ in range(steps):
        after = reduced.w_step(W)
        path = path.to(W, after, reduced.A, reduced.A)
        W = path.ahead(after, 0.0, damping)
    return W, path


@given(generators())
def test_without_a_step_behind_it_the_path_goes_on_to_the_w_step(rng):
    point, W, A = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), positive(rng, 3)
    assert Path().ahead(W, 0.0, BOLD) is W
    assert Path().to(point, W, A, A).ahead(W, 0.0, BOLD) is W


@given(generators())
def test_the_gradient_is_that_of_the_reduced_objective(rng):
    reduced, point = Reduced(rng), rng.normal(size=(4, 3))
    found = Path().to(point, reduced.w_step(point), reduced.A, reduced.A).gradient
    assert_allclose(found, reduced.gradient(point), atol=1e-9)


@given(generators())
def test_the_next_point_is_downhill(rng):
    reduced, W = Reduced(rng), rng.normal(size=(4, 3))
    for steps in range(1, 8):
        ahead, path = descend(reduced, W, steps)
        assert np.vdot(path.gradient, ahead - path.point) < 0.0


@pytest.mark.parametrize(("damping", "ratio"), [(BOLD, 0.01), (GENTLE, 0.5)])
def test_it_gets_on_faster_than_alternation(damping, ratio):
    ratios = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        reduced, start = Reduced(rng, share=0.02), rng.normal(size=(4, 3))
        plain = start
        for _ in range(12):
            plain = reduced.w_step(plain)
        ratios.append(reduced.value(descend(reduced, start, 12, damping)[0]) / reduced.value(plain))
    assert np.median(ratios) < ratio


@given(generators(), st.sampled_from([GENTLE, BOLD]), st.sampled_from([1.0, 0.01]))
def test_a_step_goes_only_so_much_further_than_alternation(rng, damping, weight):
    """Along a direction in which the gradient does not change, the damped curvature of the noisiest source decides."""
    A, direction = np.eye(2), rng.normal(size=(3, 2))
    gradient = -rng.uniform(0.1, 1.0) * direction
    weakest = weight * A
    path = Path().to(np.zeros((3, 2)), -gradient, A, weakest).to(direction, direction - gradient, A, weakest)
    move = path.ahead(direction - gradient, 0.0, damping) - direction
    assert_allclose(move, -gradient / (damping * weight), rtol=1e-9)


@given(generators())
def test_the_path_follows_the_units_of_the_data(rng):
    """X and W in other units: the same path in these units."""
    reduced, W = Reduced(rng), rng.normal(size=(4, 3))
    ahead, _ = descend(reduced, W, 5)
    scaled, _ = descend(reduced, 1e3 * W, 5)
    assert_allclose(scaled, 1e3 * ahead, rtol=1e-6, atol=1e-6 * np.abs(scaled).max())


@given(generators())
def test_sparse_components_keep_their_zeros_and_signs(rng):
    reduced, W = Reduced(rng), rng.normal(size=(4, 3))
    _, path = descend(reduced, W, 4)
    after = np.where(rng.random(W.shape) < 0.5, 0.0, reduced.w_step(path.point))
    ahead = path.ahead(after, 0.5, BOLD)
    assert (ahead[after == 0.0] == 0.0).all()
    assert (ahead * after >= 0.0).all()


def test_so_many_steps_are_remembered_and_paths_are_left_alone(rng):
    reduced = Reduced(rng)
    _, path = descend(reduced, rng.normal(size=(4, 3)), DEPTH + 3)
    assert len(path.steps) == len(path.changes) == DEPTH
    copies = [step.copy() for step in path.steps], path.gradient.copy()
    path.ahead(reduced.w_step(path.point), 0.0, BOLD)
    assert_array_equal(path.steps, copies[0])
    assert_array_equal(path.gradient, copies[1])


def test_elsewhere_the_steps_hold_but_not_the_place(rng):
    reduced = Reduced(rng)
    _, path = descend(reduced, rng.normal(size=(4, 3)), 4)
    moved = path.elsewhere()
    assert_array_equal(moved.steps, path.steps)
    W = rng.normal(size=(4, 3))
    assert moved.ahead(W, 0.0, BOLD) is W
    assert len(moved.to(W, reduced.w_step(W), reduced.A, reduced.A).steps) == len(path.steps)


def test_a_component_without_samples_does_not_spoil_the_others(rng):
    A = np.zeros((3, 3))
    A[:2, :2] = positive(rng, 2)
    points = [rng.normal(size=(4, 3)) for _ in range(3)]
    path, W = Path(), points[0]
    for point in points:
        point[:, 2] = 7.0
        W = point - np.column_stack([0.3 * rng.normal(size=(4, 2)), np.zeros(4)])
        path = path.to(point, W, A, A)
    ahead = path.ahead(W, 0.0, BOLD)
    assert np.isfinite(ahead).all()
    assert_allclose(ahead[:, 2], 7.0, atol=1e-6)
