"""How many components two halves of the data agree on."""

import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from threadpoolctl import threadpool_info

from dbmd import DBMD, choose_components, open_data
from dbmd.dataset import in_memory
from dbmd.errors import DataError
from dbmd.estimator import _halves
from dbmd.estimator._choice import Choice
from dbmd.estimator._halves import agreement_of, draw
from estimator.making import mixture


@pytest.fixture(scope="module")
def three():
    """Return samples of three components in three sources."""
    X, source, W, _ = mixture(seed=1, n=240, sigmas=(0.2, 0.4, 0.6))
    return X, source, W


def test_the_right_number(three):
    X, source, _ = three
    steps = []
    choice = choose_components(
        X, [5, 2, 3, 4], source=source, random_state=0, on_step=lambda r, split: steps.append((r, split))
    )
    assert choice.n_components == 3
    assert choice.is_stable
    assert choice.tried == (2, 3, 4, 5)
    assert choice.n_samples == len(X)
    assert steps[:4] == [(2, 0), (3, 0), (4, 0), (5, 0)]
    # All splits where the choice is made, and no more than needed.
    assert {(3, 1), (3, 2), (4, 1), (4, 2)} <= {*steps}
    assert (2, 1) not in steps
    assert len({*steps}) == len(steps)
    made = {
        (r, split) for r, row in zip(choice.tried, choice.worst, strict=True) for split in np.flatnonzero(row == row)
    }
    assert made == {*steps}
    for r, each in zip(choice.tried, choice.agreement, strict=True):
        assert each.shape == (3, r)
        assert (np.diff(each[0]) <= 0.0).all()
    assert_array_equal(choice.worst[:, 0], [each[0].min() for each in choice.agreement])
    assert_allclose(choice.mean[:, 0], [each[0].mean() for each in choice.agreement])
    assert (np.diff(choice.explained) > 0.0).all()
    told = json.loads(json.dumps(choice.asdict()))
    assert told["n_components"] == 3
    assert told["worst"][0][1] is None
    assert "the same 3 patterns" in told["sentence"]


def test_neither_nodes_nor_the_kind_of_data_change_the_choice(three, tmp_path):
    X, _, _ = three
    np.save(tmp_path / "x.npy", X)
    options = {"random_state": 3, "n_splits": 1, "n_samples": 150}
    curves = [
        choose_components(X, [3, 4], n_nodes=1, **options),
        choose_components(X, [3, 4], n_nodes=5, **options),
        choose_components(tmp_path / "x.npy", [3, 4], **options),
        choose_components(open_data(tmp_path / "x.npy", memory=0), [3, 4], **options),
        choose_components(sparse.csr_array(X), [3, 4], **options),
    ]
    for each in curves:
        assert 100 < each.n_samples < 200
        assert_allclose(each.worst, curves[0].worst, atol=0.02)
    assert_array_equal(curves[1].worst, curves[0].worst)


def test_halves_have_half_of_every_source():
    rng = np.random.default_rng(0)
    source = np.repeat(np.arange(5), [4000, 30, 7, 2, 1])
    X = rng.normal(size=(len(source), 3)) + 10.0 * source[:, None]
    data = in_memory(X, np.array(list("abcde")), source)
    rows = draw(DBMD(), data, 1000, seed=5)
    counts = np.bincount(rows.source_codes)
    assert 850 < counts[0] < 1150
    assert_array_equal(counts[1:], [30, 7, 2, 1])  # a small source is drawn whole, and counts for less
    assert rows.weights is not None
    stand_for = np.bincount(rows.source_codes, rows.weights)
    assert_allclose(stand_for[1:] / stand_for[1], [1, 7 / 30, 2 / 30, 1 / 30])
    assert stand_for[0] / stand_for[1] == pytest.approx(4000 / 30, rel=0.15)
    first, second = rows.split(7)
    assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(rows.n))
    in_first, in_second = (np.bincount(rows.source_codes[half], minlength=5) for half in (first, second))
    assert (np.abs(in_first - in_second) <= 1).all()
    assert abs(len(first) - len(second)) <= 1
    assert not np.array_equal(rows.split(8)[0], first)
    part = rows.dataset(np.flatnonzero(rows.source_codes % 2 == 1))
    assert part.source_names.tolist() == ["b", "d"]
    assert_array_equal(np.bincount(part.source_codes), [30, 2])


def test_samples_that_do_not_count_are_not_drawn():
    X = np.arange(120.0).reshape(40, 3)
    weights = np.repeat([0.0, 2.0, 6.0, 1.0], 10)
    X[30:, 1] = np.nan
    rows = draw(DBMD(missing="drop"), in_memory(X, sample_weight=weights, missing="drop"), 100, seed=0)
    assert_array_equal(rows.Xt, X[10:30])
    assert_allclose(rows.weights, weights[10:30] / 4.0)
    rows = draw(DBMD(missing="allow"), in_memory(X, missing="allow"), 100, seed=0)
    assert_array_equal(rows.Xt, X)
    assert rows.weights is None


def test_known_components_and_one_alone_agree(three):
    X, _, W = three
    choice = choose_components(X, [1, 2], known=W.T[:1], random_state=0, n_splits=1)
    assert_array_equal(choice.agreement[0], [[1.0]])
    assert choice.agreement[1][0, 0] == 1.0
    assert choice.agreement[1][0, 1] < 1.0


def test_nothing_is_stable_in_noise():
    X = np.random.default_rng(0).normal(size=(200, 6))
    choice = choose_components(X, range(2, 5), random_state=0, n_splits=1)
    assert not choice.is_stable
    assert choice.n_components == 2
    assert "do not find the same patterns" in choice.sentence


def test_agreement_of_the_components_of_a_model(three):
    X, source, _ = three
    right, many = (DBMD(r, random_state=0).fit(X, source=source) for r in (3, 4))
    data = in_memory(X, np.arange(3), source)
    assert (agreement_of(right, data) > 0.97).all()
    assert agreement_of(many, data).min() < 0.9


def test_agreement_is_in_the_order_of_the_model(three, monkeypatch):
    """Halves that have components in other orders, one of them at random: it is found in its place."""
    X, _, _ = three
    model = DBMD(3, random_state=0).fit(X)
    H = model.transform(X)
    noisy = H[:, [2, 0, 1]].copy()
    noisy[:, 1] = np.random.default_rng(0).permutation(noisy[:, 1])
    halves = iter([_halves.Half(H[:, [1, 2, 0]], 0.5), _halves.Half(noisy, 0.5)])
    monkeypatch.setattr(_halves, "fit_half", lambda *given, **options: next(halves))
    found = agreement_of(model, in_memory(X))
    assert_allclose(found[1:], 1.0)
    assert found[0] < 0.5


def test_nothing_is_left_behind(three):
    X, _, _ = three
    filters, threads = list(warnings.filters), [pool["num_threads"] for pool in threadpool_info()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose_components(X, [2, 3], random_state=0, n_splits=1, max_iter=1, tol=1e-9)
    assert list(warnings.filters) == filters
    assert [pool["num_threads"] for pool in threadpool_info()] == threads


def failing(r, split):
    raise RuntimeError("stopped")


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"n_components": []}, ValueError, "must be the numbers of components to try"),
        ({"n_components": 3}, ValueError, r"such as range\(2, 13\). Got 3"),
        ({"n_components": [2, 2.5]}, ValueError, "ints >= 1"),
        ({"n_components": [2, 70]}, DataError, "at least 140 samples.*Got 120: lower n_components to at most 60"),
        ({"n_splits": 0}, ValueError, "n_splits must be an int >= 1. Got 0"),
        ({"n_samples": 2.5}, ValueError, "n_samples must be an int >= 1, or None. Got 2.5"),
        ({"init": np.zeros((3, 8))}, ValueError, "init must be the name of a start"),
        ({"alpha": -1.0}, ValueError, "'alpha' parameter"),
        ({"on_step": failing, "n_components": [2]}, RuntimeError, "stopped"),
        ({"offsets": True, "source": [0] * 239 + [1]}, DataError, "at least two sources"),
    ],
)
def test_what_cannot_be_chosen_from(three, given, error, message):
    with pytest.raises(error, match=message):
        choose_components(three[0], **{"n_components": [2, 3]} | given)


def curve(*worst, **facts):
    agreement = tuple(np.array([[*np.ones(i + 1), w]]) for i, w in enumerate(worst))
    tried = tuple(range(2, 2 + len(worst)))
    return Choice(**{"n_components": 3, "is_stable": True, "tried": tried, "agreement": agreement,
                     "explained": np.ones(len(tried)), "limit": 0.985, "n_samples": 9} | facts)  # fmt: skip


def test_the_sentence():
    assert curve(0.99, 0.99996, 0.123).sentence == (
        "Two halves of the data find the same 3 patterns: the least stable one correlates 0.9999, but 0.12 with 4, "
        "where each half finds patterns of its own."
    )
    assert curve(0.99, 0.9876).sentence.endswith("0.9876; no larger number was tried, and there may be more.")
    assert curve(0.3, 0.2, is_stable=False, n_components=2, limit=0.9).sentence == (
        "Two halves of the data do not find the same patterns for any number that was tried, 2 to 3: at best the least "
        "stable pattern correlates 0.30, with 2, where 0.90 is wanted."
    )
