"""The table of parameters: every wrong value gets a sentence that says which, what is allowed and what came."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dbmd.config import Config
from dbmd.registry import names

WRONG = [
    ("n_components", 0, ValueError, r"must be an int >= 1 or 'auto'\. Got 0\."),
    ("n_components", -3, ValueError, r"must be an int >= 1 or 'auto'\. Got -3\."),
    ("n_components", 2.5, TypeError, r"must be an int >= 1 or 'auto'\. Got 2\.5\."),
    ("n_components", "3", TypeError, r"must be an int >= 1 or 'auto'\. Got '3'\."),
    ("n_components", True, TypeError, r"must be an int >= 1 or 'auto'\. Got True\."),
    ("n_components", None, TypeError, r"must be an int >= 1 or 'auto'\. Got None\."),
    ("solver", "newton", ValueError, r"must be one of 'admm', 'agd', 'cease', 'exact'\. Got 'newton'\."),
    ("solver", None, ValueError, r"must be one of 'admm', 'agd', 'cease', 'exact'\. Got None\."),
    ("noise", "each", ValueError, r"must be one of 'source', 'shared', or a float > 0.*Got 'each'\."),
    ("noise", 0.0, ValueError, r"must be 'source', 'shared' or a float > 0\. Got 0\.0\."),
    ("noise", -1.0, ValueError, r"must be 'source', 'shared' or a float > 0\. Got -1\.0\."),
    ("noise", np.nan, ValueError, r"must be 'source', 'shared' or a float > 0\. Got nan\."),
    ("noise", np.inf, ValueError, r"must be 'source', 'shared' or a float > 0\. Got inf\."),
    ("noise", None, TypeError, r"must be 'source', 'shared' or a float > 0\. Got None\."),
    ("alpha", 0.5, ValueError, r"must be a float >= 1 or an array of n_components such floats\. Got 0\.5\."),
    ("alpha", np.nan, ValueError, r"must be a float >= 1 or .* Got nan\."),
    ("alpha", np.inf, ValueError, r"must be a float >= 1 or .* Got inf\."),
    ("alpha", "flat", TypeError, r"must be a float >= 1 or .* Got 'flat'\."),
    (
        "alpha",
        [1.0, 2.0],
        ValueError,
        r"must be .*array of n_components such floats.*shape \(2,\) with n_components=8\.",
    ),
    ("alpha", [1.0] * 7 + [0.9], ValueError, r"must be a float >= 1 or an array.* Got \[1\.0, .*0\.9\]\."),
    ("lam", -0.1, ValueError, r"must be a float >= 0\. Got -0\.1\."),
    ("lam", np.nan, ValueError, r"must be a float >= 0\. Got nan\."),
    ("lam", np.inf, ValueError, r"must be a float >= 0\. Got inf\."),
    ("lam", "much", TypeError, r"must be a float >= 0\. Got 'much'\."),
    ("init", "kmeans", ValueError, r"must be one of 'k-means\+\+', 'k-means\|\|', 'random', or an array.*'kmeans'\."),
    ("n_init", 0, ValueError, r"must be an int >= 1\. Got 0\."),
    ("n_init", 1.5, TypeError, r"must be an int >= 1\. Got 1\.5\."),
    ("max_iter", 0, ValueError, r"must be an int >= 1, unless all components are known\. Got 0 with 0 of 8 known\."),
    ("max_iter", 10.0, TypeError, r"must be an int >= 0\. Got 10\.0\."),
    ("tol", -1e-3, ValueError, r"must be a float >= 0\. Got -0\.001\."),
    ("tol", np.nan, ValueError, r"must be a float >= 0\. Got nan\."),
    ("tol", "1e-3", TypeError, r"must be a float >= 0\. Got '1e-3'\."),
    ("inference", "mcmc", ValueError, r"must be one of 'evidence', 'map'\. Got 'mcmc'\."),
    (
        "alpha",
        2.0,
        ValueError,
        r"must be 1 with the inference 'evidence'.*Got 2\.0: leave it out, or take the inference 'map'\.",
    ),
    ("effective_features", 0.0, ValueError, r"must be None or a float > 0\. Got 0\.0\."),
    ("effective_features", np.inf, ValueError, r"must be None or a float > 0\. Got inf\."),
    ("effective_features", "all", TypeError, r"must be None or a float > 0\. Got 'all'\."),
    ("engine", "cloud", ValueError, r"must be one of 'dask', 'gpu', 'local', 'spark', or.*Got 'cloud'\."),
    ("engine", 3, TypeError, r"must be a name, or a callable that makes an engine of nodes\. Got 3\."),
    ("n_nodes", 0, ValueError, r"must be None or an int >= 1\. Got 0\."),
    ("forget_factor", 0.0, ValueError, r"must be a float > 0 and <= 1\. Got 0\.0\."),
    ("forget_factor", 1.5, ValueError, r"must be a float > 0 and <= 1\. Got 1\.5\."),
    ("forget_factor", np.nan, ValueError, r"must be a float > 0 and <= 1\. Got nan\."),
    ("forget_factor", None, TypeError, r"must be a float > 0 and <= 1\. Got None\."),
    ("n_nodes", 2.0, TypeError, r"must be None or an int >= 1\. Got 2\.0\."),
    ("scaling", "robust", ValueError, r"must be one of 'standard', 'minmax', 'sum', 'l2', or None\. Got 'robust'\."),
    ("log", 1, TypeError, r"must be True or False\. Got 1\."),
    ("brightness", "yes", TypeError, r"must be True or False\. Got 'yes'\."),
    ("offsets", None, TypeError, r"must be True or False\. Got None\."),
    ("nonnegative", 0, TypeError, r"must be True or False\. Got 0\."),
    ("shares", "area", ValueError, r"must be one of 'simplex', 'energy'\. Got 'area'\."),
    ("missing", "impute", ValueError, r"must be one of 'error', 'allow', 'drop'\. Got 'impute'\."),
    ("known", "refs", TypeError, r"must be None or an array of numbers of shape .* Got 'refs'\."),
    ("known", [1.0, 2.0], ValueError, r"must be None or an array .* Got shape \(2,\) with n_components=8\."),
    ("known", np.ones((9, 2)), ValueError, r"must not have more components than n_components. Got 9 known of 8\."),
    ("known", [[1.0, np.nan]], ValueError, r"must be finite\. Got nan in row 0, column 1\."),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), WRONG, ids=[f"{w[0]}={w[1]!r}" for w in WRONG])
def test_a_wrong_value_is_named(name, value, error, message):
    with pytest.raises(error, match=rf"^The '{name}' parameter of DBMD {message}"):
        Config(**{name: value})


WRONG_OPTIONS = [
    ("exact", {"rho": 1.0}, ValueError, r"Unknown option 'rho' .*for the solver 'exact'\. Known: tol, max_rounds\."),
    ("agd", {"gamma": 1.0}, ValueError, r"Unknown option 'gamma' .*for the solver 'agd'\. Known: tol, max_rounds\."),
    ("admm", {"gamma": 1}, ValueError, r"Unknown option 'gamma' .*solver 'admm'\. Known: rho, tol, max_rounds\."),
    ("cease", {"rho": 1}, ValueError, r"Unknown option 'rho' .*solver 'cease'\. Known: gamma, tol, max_rounds\."),
    ("admm", {"rho": -1.0}, ValueError, r"solver_options\['rho'\].* must be a number >.* Got -1\.0\."),
    ("admm", {"rho": 0.0}, ValueError, r"solver_options\['rho'\].* must be a number > 0.* Got 0\.0\."),
    ("admm", {"rho": np.nan}, ValueError, r"solver_options\['rho'\].* must be .* Got nan\."),
    ("admm", {"rho": np.inf}, ValueError, r"solver_options\['rho'\].* must be .* Got inf\."),
    ("admm", {"rho": "auto"}, TypeError, r"solver_options\['rho'\].* must be .* Got 'auto'\."),
    ("cease", {"gamma": -1.0}, ValueError, r"solver_options\['gamma'\].* must be a number >= 0.* Got -1\.0\."),
    ("cease", {"gamma": np.inf}, ValueError, r"solver_options\['gamma'\].* must be .* Got inf\."),
    ("agd", {"tol": -1e-9}, ValueError, r"solver_options\['tol'\].* must be a number >= 0.* Got -1e-09\."),
    ("agd", {"max_rounds": 0}, ValueError, r"solver_options\['max_rounds'\].* must be .*>= 1.* Got 0\."),
    ("agd", {"max_rounds": 2.5}, TypeError, r"solver_options\['max_rounds'\].* must be an int >= 1.* Got 2\.5\."),
    ("agd", {1: 2}, ValueError, r"Unknown option 1 .*Known: tol, max_rounds\."),
    ("agd", "tol", TypeError, r"'solver_options' parameter of DBMD must be .* Got 'tol'\."),
    ("agd", 3, TypeError, r"'solver_options' parameter of DBMD must be .* Got 3\."),
]


@pytest.mark.parametrize(
    ("solver", "options", "error", "message"), WRONG_OPTIONS, ids=[f"{wrong[0]} {wrong[1]}" for wrong in WRONG_OPTIONS]
)
def test_a_wrong_option_of_a_solver_is_named(solver, options, error, message):
    with pytest.raises(error, match=message):
        Config(solver=solver, solver_options=options)


@pytest.mark.parametrize("solver", names("solvers"))
def test_every_solver_takes_a_tolerance_and_a_number_of_rounds(solver):
    config = Config(solver=solver, solver_options={"tol": 1e-6, "max_rounds": 7})
    assert config.solver_options == {"tol": 1e-6, "max_rounds": 7}


@pytest.mark.parametrize(
    "good",
    [
        {},
        {"n_components": np.int64(3), "max_iter": np.int32(5)},
        {"noise": 1, "lam": 0, "tol": 0},
        {"noise": np.float32(0.5)},
        {"alpha": 1},
        {"inference": "map", "alpha": [1.0, 2.0, 3.0], "n_components": 3},
        {"inference": "map", "alpha": (2, 2), "n_components": 2},
        {"engine": list},
        {"n_nodes": 5},
        {"forget_factor": 1},
        {"solver": "admm", "solver_options": {"rho": 50}},
        {"solver": "cease", "solver_options": {"gamma": 0.001}},
    ],
    ids=str,
)
def test_good_values_are_taken(good):
    config = Config(**good)
    for name, value in good.items():
        assert getattr(config, name) is value


def test_the_fixed_names_are_there_in_order():
    assert [field.name for field in fields(Config)] == [
        "n_components", "inference", "solver", "noise", "alpha", "lam", "init", "n_init", "max_iter", "tol",
        "solver_options", "engine", "n_nodes", "random_state", "warm_start", "forget_factor", "verbose",
        "effective_features", "scaling", "log", "brightness", "shares", "offsets", "missing", "nonnegative", "known",
        "halves",
    ]  # fmt: skip
    defaults = {field.name: field.default for field in fields(Config)}
    fixed = {
        "inference": "evidence",
        "n_components": 8,
        "solver": "exact",
        "noise": "source",
        "lam": 0.0,
        "init": "k-means++",
        "n_init": 1,
    }
    assert fixed.items() <= defaults.items()


def test_a_config_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Config().lam = 1.0


def test_the_prior_is_the_concentration_less_one_for_each_component():
    assert_array_equal(Config(n_components=3, alpha=1).prior, [0.0, 0.0, 0.0])
    assert_array_equal(Config(n_components=3, inference="map", alpha=2.5).prior, [1.5, 1.5, 1.5])
    assert_array_equal(Config(n_components=3, inference="map", alpha=[1, 2, 4]).prior, [0.0, 1.0, 3.0])


def test_a_start_is_turned_and_copied():
    init = np.arange(6.0).reshape(2, 3)
    W = Config(n_components=2, init=init).start(n_features=3)
    assert_array_equal(W, init.T)
    W[:] = 0.0
    assert init.sum() == 15.0
    assert_array_equal(Config(n_components=2, init=init.tolist()).start(3), init.T)
    assert Config(init="random").start(3) is None


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (2,), (1, 2, 3)])
def test_a_start_of_the_wrong_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"'init' array must have shape \(n_components, n_features\) = \(2, 3\)\. Got"):
        Config(n_components=2, init=np.zeros(shape)).start(n_features=3)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_start_that_is_not_finite_is_refused_with_its_place(value):
    init = np.zeros((2, 3))
    init[1, 2] = value
    with pytest.raises(ValueError, match=rf"'init' array must be finite\. Got {value} in row 1, column 2\."):
        Config(n_components=2, init=init).start(n_features=3)


@pytest.mark.parametrize("init", [None, [["a", "b"], ["c", "d"]], np.full((2, 2), "a"), np.ones((2, 2)) + 1j])
def test_a_start_that_is_no_array_of_numbers_is_refused(init):
    with pytest.raises((TypeError, ValueError), match="'init'") as caught:
        Config(n_components=2, init=init).start(n_features=2)
    assert "\n" not in str(caught.value)


def test_a_number_that_is_to_be_chosen():
    config = Config("auto", known=np.ones((3, 2)))
    assert config.is_auto
    assert not Config(3).is_auto
    with pytest.raises(ValueError, match="must be chosen first"):
        config.parts(1)
    for wrong, message in (
        ({"init": np.ones((3, 2))}, "'init' parameter of DBMD must be a name with n_components='auto'.*Got an array"),
        ({"alpha": [1.0, 1.0]}, r"'alpha' parameter of DBMD must be one number with n_components='auto'.*shape \(2,\)"),
        ({"max_iter": 0}, "must be an int >= 1, unless all components are known"),
    ):
        with pytest.raises(ValueError, match=message):
            Config("auto", **wrong)
