from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dbmd import DBMD
from dbmd.metrics import Agreement, agreement, agreement_score, clustering_accuracy, match

labellings = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, 3), min_size=n, max_size=n) for _ in range(2)))
)


@given(labellings)
def test_it_is_the_best_of_all_matchings(labels):
    """Four classes and four clusters at most: all 24 ways to match them."""
    true, predicted = map(np.array, labels)
    best = max(np.mean(true == np.array(order)[predicted]) for order in permutations(range(4)))
    assert clustering_accuracy(true, predicted) == pytest.approx(best, abs=1e-15)


@given(labellings)
def test_it_is_symmetric_and_in_the_unit_interval(labels):
    true, predicted = labels
    value = clustering_accuracy(true, predicted)
    assert 0.0 < value <= 1.0
    assert value == clustering_accuracy(predicted, true)
    assert isinstance(value, float)


@given(labellings)
def test_the_order_of_the_samples_and_the_names_of_the_clusters_do_not_matter(labels):
    true, predicted = map(np.array, labels)
    value = clustering_accuracy(true, predicted)
    order = np.random.default_rng(0).permutation(len(true))
    assert clustering_accuracy(true[order], predicted[order]) == value
    assert clustering_accuracy(np.array(list("dacb"))[true], np.array([7, -1, 3, 100])[predicted]) == value


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20))
def test_it_is_one_for_the_same_partition_and_only_then(labels):
    renamed = [{"a": 9, "b": 4, "c": 7}[label] for label in labels]
    assert clustering_accuracy(labels, renamed) == 1.0
    if len(set(labels)) > 1:
        assert clustering_accuracy(labels, [0] * len(labels)) < 1.0


def test_what_is_left_over_counts_as_wrong():
    # A cluster for each sample matches one sample of each class.
    assert clustering_accuracy([0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]) == pytest.approx(2 / 6)
    # One cluster for all matches the largest class.
    assert clustering_accuracy([0, 0, 0, 1, 1, 2], [5] * 6) == pytest.approx(3 / 6)


def test_the_matched_count_is_maximised():
    """docs/paper.md, point 20: the authors' cost 1 / (1 + frequency) picks the other matching, of 48 samples."""
    counts = np.array([[50, 24], [24, 0]])
    cost = 1 / (1 + counts / counts.sum())
    assert cost[0, 1] + cost[1, 0] < cost[0, 0] + cost[1, 1]
    true = np.repeat([0, 0, 1, 1], counts.ravel())
    predicted = np.repeat([0, 1, 0, 1], counts.ravel())
    assert clustering_accuracy(true, predicted) == pytest.approx(50 / 98)


@pytest.mark.parametrize(
    ("true", "predicted"),
    [([0, 1], [0]), ([], []), ([[0, 1]], [[0, 1]]), ([0, 1], [[0], [1]])],
    ids=["lengths", "empty", "two-dimensional", "column"],
)
def test_what_cannot_be_compared_is_refused_with_the_shapes(true, predicted):
    with pytest.raises(ValueError, match=r"must be one-dimensional, of the same length and not empty\. Got shapes \("):
        clustering_accuracy(true, predicted)


tables = arrays(np.int64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.integers(0, 12)).filter(
    lambda counts: counts.sum() > 0
)


@given(tables)
def test_agreement_from_counts_is_that_of_scikit_learn_from_labels(counts):
    true, predicted = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    found = agreement(counts)
    assert found.accuracy == clustering_accuracy(true, predicted)
    assert found.ari == pytest.approx(adjusted_rand_score(true, predicted), abs=1e-12)
    assert found.nmi == pytest.approx(normalized_mutual_info_score(true, predicted), abs=1e-12)


def test_agreement_of_a_billion_samples_does_not_overflow():
    assert agreement(np.diag([4 * 10**9] * 3)) == Agreement(1.0, 1.0, 1.0)


@given(tables)
def test_a_matching_is_one_to_one_and_as_large_as_can_be(counts):
    classes, clusters = match(counts)
    assert len(set(classes)) == len(set(clusters)) == min(counts.shape)
    assert counts[classes, clusters].sum() == pytest.approx(agreement(counts).accuracy * counts.sum())


@pytest.mark.parametrize("counts", [np.zeros((2, 2), int), np.zeros((0, 3), int), np.ones(3, int)])
def test_agreement_of_nothing_is_refused(counts):
    with pytest.raises(ValueError, match="contingency must have shape"):
        agreement(counts)


class Given:
    """An estimator that finds given memberships, whatever it is fitted to; a copy finds others."""

    def __init__(self, first=None, second=None):
        self.first, self.second = first, second

    def get_params(self, deep=True):
        return {"first": self.first, "second": self.second}

    def fit(self, X):
        self.found = self.second
        return self

    def transform(self, X):
        return self.first if not hasattr(self, "found") else self.found


@given(st.integers(2, 6), st.integers(0, 6), st.randoms(use_true_random=False))
def test_each_component_that_both_fits_have_counts_one_and_each_other_takes_one_off(r, n_other, random):
    n_other = min(n_other, r)
    rng = np.random.default_rng(random.randrange(2**32))
    # Columns that are orthogonal to each other and to a constant: other components have nothing in common.
    Q = np.linalg.qr(np.column_stack([np.ones(60), rng.normal(size=(60, 2 * r))]))[0][:, 1:]
    first = Q[:, :r]
    second = np.column_stack([Q[:, : r - n_other], Q[:, r : r + n_other]])[:, rng.permutation(r)]
    assert agreement_score(Given(first, second), None) == pytest.approx(r - 2 * n_other)


def test_what_a_pair_counts_by_its_correlation():
    x, y = np.linalg.qr(np.column_stack([np.ones(50), np.arange(50.0), np.cos(np.arange(50.0))]))[0][:, 1:].T
    for correlation, counts in ((1.0, 1.0), (0.975, 0.5), (0.95, 0.0), (0.925, -0.5), (0.5, -1.0), (-1.0, -1.0)):
        other = correlation * x + np.sqrt(1 - correlation**2) * y
        assert agreement_score(Given(x[:, None], other[:, None]), None) == pytest.approx(counts)


def test_a_search_takes_the_largest_number_that_is_stable():
    """Neither the smallest nor the largest, of a pipeline as well; score takes the largest."""
    rng = np.random.default_rng(3)
    X = rng.dirichlet(np.full(4, 0.3), 300) @ rng.normal(size=(4, 6)) + 0.05 * rng.normal(size=(300, 6))
    model, halves = DBMD(random_state=0), KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(model, {"n_components": [2, 4, 6]}, scoring=agreement_score, cv=halves).fit(X)
    assert search.best_params_ == {"n_components": 4}
    assert search.best_score_ > 3.5
    assert search.best_estimator_.n_components_ == 4
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(pipeline, {"dbmd__n_components": [4, 5]}, scoring=agreement_score, cv=halves).fit(X)
    assert search.best_params_ == {"dbmd__n_components": 4}


def test_it_leaves_the_estimator_as_it_is_and_takes_sources():
    rng = np.random.default_rng(3)
    X = rng.dirichlet(np.full(3, 0.3), 200) @ rng.normal(size=(3, 3)) + 0.05 * rng.normal(size=(200, 3))
    source = np.arange(200) % 2
    model = DBMD(3, random_state=0).fit(X[::2], source=source[::2])
    before = model.components_.copy()
    score = agreement_score(model, X[1::2], source=source[1::2])
    np.testing.assert_array_equal(model.components_, before)
    model.n_components = "auto"  # a copy has as many as this one found
    assert agreement_score(model, X[1::2], source=source[1::2]) == score > 2.5
