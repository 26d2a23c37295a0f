"""A fit that is stopped and resumed ends, bit for bit, where an uninterrupted one ends."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dbmd import DBMD
from dbmd.algorithm import COLD_EVERY
from dbmd.dataset import in_memory

from .fits import SOLVERS, difference, mixture


def states_of(data, **parameters):
    """Return a model fitted to a dataset, and the state after each iteration."""
    states = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = DBMD(**{"random_state": 0} | parameters).fit_data(data, on_iteration=states.append)
    return model, states


def resumed(data, state, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DBMD(**{"random_state": 0} | parameters).fit_data(data, resume=state)


def without_times(history):
    return [{name: value for name, value in record.items() if name != "seconds"} for record in history]


def assert_same_fit(one, other):
    assert_array_equal(one.components_, other.components_)
    assert_array_equal(one.noise_variance_, other.noise_variance_)
    assert one.objective_ == other.objective_
    assert one.n_iter_ == other.n_iter_
    assert without_times(one.history_) == without_times(other.history_)
    assert one.fit_info_["converged"] == other.fit_info_["converged"]
    for name in ("n", "counts", "sizes", "largest", "memberships"):
        assert_array_equal(getattr(one.profile_, name), getattr(other.profile_, name))


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("keeps", [True, False], ids=["rows kept", "rows not kept"])
@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=4)
@given(data=st.data())
def test_a_resumed_fit_is_the_same_as_an_uninterrupted_one(solver, keeps, data):
    X, source, _, _ = mixture(
        seed=data.draw(st.integers(0, 1000), "seed"),
        n=60,
        dtype=data.draw(st.sampled_from([np.float64, np.float32]), "dtype"),
    )
    if data.draw(st.booleans(), "sparse"):
        X = sparse.csr_array(X)
    dataset = replace(in_memory(X, np.arange(3), source), memory=None if keeps else 0)
    parameters = {
        "n_components": 3,
        "solver": solver,
        "inference": data.draw(st.sampled_from(["evidence", "map"]), "inference"),
        "noise": data.draw(st.sampled_from(["source", "shared"]), "noise"),
        "init": data.draw(st.sampled_from(["k-means++", "k-means||", "random"]), "init"),
        "n_init": data.draw(st.sampled_from([1, 2]), "n_init"),
        "n_nodes": data.draw(st.integers(1, 3), "n_nodes"),
        "tol": data.draw(st.sampled_from([0.0, 1e-4]), "tol"),
        "max_iter": 23,
    }
    if parameters["inference"] == "map":
        parameters["alpha"] = data.draw(st.sampled_from([1.0, 1.5]), "alpha")
    expected, states = states_of(dataset, **parameters)
    allowed = [state for state in states if not keeps or len(state.history) % COLD_EVERY == 0] or states[-1:]
    state = data.draw(st.sampled_from(allowed), "state")
    if state is states[-1] and keeps and len(state.history) % COLD_EVERY:
        assume(state.converged)  # nothing is left to do
    assert_same_fit(resumed(dataset, state, **parameters), expected)


def test_what_resumes_is_the_attempt_that_was_interrupted_and_the_best_one_before_is_not_lost():
    X, source, _, _ = mixture(seed=1)
    dataset = in_memory(X, np.arange(3), source)
    parameters = {"n_components": 3, "init": "random", "n_init": 3, "max_iter": 12, "tol": 0.0}
    expected, states = states_of(dataset, **parameters)
    assert {state.attempt for state in states} == {0, 1, 2}
    for state in states:
        assert (state.best is None) == (state.attempt == 0)
        if len(state.history) == COLD_EVERY:
            assert_same_fit(resumed(dataset, state, **parameters), expected)


def test_a_fit_that_is_stopped_and_resumed_ends_where_it_would_have():
    X, source, _, _ = mixture(seed=2)
    dataset = in_memory(X, np.arange(3), source)
    parameters = {"n_components": 3, "max_iter": 40, "tol": 0.0, "random_state": 0}
    expected, _ = states_of(dataset, **parameters)
    states = []

    def stop_after_twenty(state):
        states.append(state)
        return len(state.history) == 2 * COLD_EVERY

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        DBMD(**parameters).fit_data(dataset, on_iteration=stop_after_twenty)
    assert len(states) == 2 * COLD_EVERY
    assert_same_fit(resumed(dataset, states[-1], **parameters), expected)


def test_a_state_in_between_ends_at_the_same_minimum():
    X, source, _, _ = mixture(seed=4)
    dataset = in_memory(X, np.arange(3), source)
    parameters = {"n_components": 3, "max_iter": 15, "tol": 0.0}
    expected, states = states_of(dataset, **parameters)
    for state in states:
        assert difference(resumed(dataset, state, **parameters).components_, expected.components_) < 1e-5


def test_resuming_what_has_converged_does_nothing_more():
    X, source, _, _ = mixture(seed=2)
    dataset = in_memory(X, np.arange(3), source)
    expected, states = states_of(dataset, n_components=3, tol=1e-2)
    assert states[-1].converged
    calls = []
    model = DBMD(n_components=3, tol=1e-2, random_state=0).fit_data(
        dataset, resume=states[-1], on_iteration=calls.append
    )
    assert calls == []
    assert_same_fit(model, expected)


def test_states_are_left_alone_by_what_goes_on_from_them():
    X, source, _, _ = mixture(seed=2)
    dataset = in_memory(X, np.arange(3), source)
    _, states = states_of(dataset, n_components=3, max_iter=12, tol=0.0)
    state = states[COLD_EVERY - 1]
    copies = state.V.copy(), state.sigma2.copy(), len(state.history)
    resumed(dataset, state, n_components=3, max_iter=15, tol=0.0)
    assert_array_equal(state.V, copies[0])
    assert_array_equal(state.sigma2, copies[1])
    assert len(state.history) == copies[2]
