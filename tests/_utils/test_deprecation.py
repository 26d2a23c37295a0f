"""What users see of a name or a parameter that goes away."""

import inspect
import sys
import types
import warnings

import pytest
from sklearn.base import BaseEstimator, clone

from dbmd._utils.deprecation import Renamed, deprecated, renamed_name, renamed_parameter


@renamed_parameter("n_clusters", "n_components", since="0.2", removal="0.4")
def decompose(X, n_components=8, *, lam=0.0):
    """Return what came in."""
    return X, n_components, lam


class Estimator(BaseEstimator):
    @renamed_parameter("n_clusters", "n_components", since="0.2", removal="0.4")
    def __init__(self, n_components=8):
        self.n_components = n_components

    @deprecated("Use transform instead.", since="0.2", removal="0.4")
    def memberships(self, X):
        """Return memberships.

        Parameters
        ----------
        X : array
        """
        return X


def test_a_renamed_parameter_is_taken_with_a_warning_that_says_what_to_do():
    with pytest.warns(FutureWarning) as caught:
        assert decompose("X", n_clusters=3, lam=1.0) == ("X", 3, 1.0)
    assert str(caught[0].message) == (
        "The parameter 'n_clusters' of decompose was renamed to 'n_components' in 0.2. "
        "The old name will be removed in 0.4."
    )
    assert caught[0].filename == __file__  # where it is to be changed


def test_the_new_name_gives_no_warning():
    assert decompose("X", n_components=3) == decompose("X", 3) == ("X", 3, 0.0)


@pytest.mark.parametrize(
    "call", [lambda: decompose("X", 3, n_clusters=3), lambda: decompose("X", n_components=3, n_clusters=3)]
)
def test_both_names_at_once_are_refused(call):
    with pytest.raises(TypeError, match="got both 'n_components' and 'n_clusters', its old name"):
        call()


def test_a_parameter_cannot_be_renamed_to_one_that_is_not_there():
    with pytest.raises(TypeError, match="has no parameter 'n_components'"):

        @renamed_parameter("n_clusters", "n_components", since="0.2", removal="0.4")
        def nothing(X):
            return X


def test_an_estimator_knows_the_new_name_only():
    with pytest.warns(FutureWarning, match="The parameter 'n_clusters' of Estimator was renamed"):
        estimator = Estimator(n_clusters=3)
    assert estimator.get_params() == {"n_components": 3}
    assert clone(estimator).n_components == 3
    assert list(inspect.signature(Estimator).parameters) == ["n_components"]


def test_a_deprecated_method_works_with_a_warning():
    with pytest.warns(FutureWarning) as caught:
        assert Estimator().memberships("X") == "X"
    assert str(caught[0].message) == (
        "Estimator.memberships is deprecated since 0.2 and will be removed in 0.4. Use transform instead."
    )
    assert caught[0].filename == __file__


def test_the_documentation_says_that_it_is_deprecated_below_the_first_line():
    first, note, rest = Estimator.memberships.__doc__.split("\n\n")
    assert first == "Return memberships."
    assert note == ".. deprecated:: 0.2\n   It will be removed in 0.4. Use transform instead."
    assert rest.startswith("Parameters\n---")


@pytest.mark.parametrize(
    ("new", "home"), [("clustering_accuracy", "dbmd.metrics"), ("dbmd.errors.DataError", "dbmd.errors")]
)
def test_a_renamed_name_of_a_module_is_found_with_a_warning(monkeypatch, new, home):
    module = types.ModuleType("dbmd.metrics")
    module.clustering_accuracy = object()
    module.__getattr__ = lambda name: renamed_name("dbmd.metrics", name, {"old": Renamed(new, "0.2", "0.4")})
    monkeypatch.setitem(sys.modules, "dbmd.metrics", module)
    name = new.rpartition(".")[2]
    with pytest.warns(FutureWarning) as caught:
        found = module.old
    assert found is getattr(sys.modules[home], name)
    assert str(caught[0].message) == (
        f"dbmd.metrics.old was renamed to {home}.{name} in 0.2. The old name will be removed in 0.4."
    )
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match=r"module 'dbmd\.metrics' has no attribute 'other'"):
        module.other  # noqa: B018


def test_users_see_the_warning_by_default():
    """A DeprecationWarning is shown to developers only; a FutureWarning to all."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()
        decompose("X", n_clusters=3)
    assert [warning.category for warning in caught] == [FutureWarning]
