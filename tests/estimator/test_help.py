"""What ``help(DBMD)`` shows."""

import inspect
import pickle
import pydoc

import pytest
from sklearn import config_context
from sklearn.base import clone

from dbmd import DBMD

REQUESTS = [name for name in dir(DBMD) if name.startswith("set_") and name.endswith("_request")]


class Mine(DBMD):
    """A subclass, with a method whose metadata are its own."""

    def fit(self, X, y=None, *, colour=None):
        """Do nothing."""
        return self


def test_texts_of_scikit_learn_take_less_room_than_ours():
    page = pydoc.render_doc(DBMD, renderer=pydoc.plaintext).splitlines()
    of_requests = [len(inspect.getdoc(getattr(DBMD, name)).splitlines()) for name in REQUESTS]
    assert len(REQUESTS) >= 5
    assert max(of_requests) <= 4
    assert sum(of_requests) < len(page) / 10
    assert not any("metadata should be passed to the meta-estimator" in line for line in page)


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_say_what_they_are_for_and_have_their_signature(name):
    method = name.removeprefix("set_").removesuffix("_request")
    assert f"passes on to ``{method}``" in getattr(DBMD, name).__doc__
    assert set(inspect.signature(getattr(DBMD, name)).parameters) - {"self"} <= set(
        inspect.signature(getattr(DBMD, method)).parameters
    )


def test_requests_work_as_before_also_in_copies_and_subclasses():
    with config_context(enable_metadata_routing=True):
        model = DBMD().set_fit_request(source=True, sample_weight="times").set_score_request(source=False)
        for each in (model, clone(model), pickle.loads(pickle.dumps(model))):
            asked = each.get_metadata_routing()
            assert asked.fit.requests == {"source": True, "sample_weight": "times"}
            assert asked.score.requests["source"] is False
        assert DBMD().get_metadata_routing().fit.requests == {"source": None, "sample_weight": None}
        assert Mine().set_fit_request(colour=True).get_metadata_routing().fit.requests == {"colour": True}
        with pytest.raises(TypeError, match="colour"):
            DBMD().set_fit_request(colour=True)
    assert len(inspect.getdoc(Mine.set_fit_request).splitlines()) <= 4
