"""The docstrings of the public faces, by numpydoc's own checks."""

import inspect
import re

import numpy as np
import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

from dbmd import DBMD

# What must not be found; the codes are numpydoc's.
FORBIDDEN = {
    "GL02",  # text does not end on a line of its own
    "GL03",  # double blank lines
    "GL06",  # unknown section
    "GL07",  # sections in the wrong order
    "GL08",  # no docstring
    "SS01",  # no summary
    "SS02",  # summary does not start with a capital letter
    "SS03",  # summary does not end with a period
    "SS04",  # summary contains heading whitespace
    "SS06",  # summary of several lines
    "PR01",  # parameter not documented
    "PR02",  # documented parameter unknown
    "PR03",  # parameters in the wrong order
    "PR04",  # parameter without a type
    "PR07",  # parameter without a description
    "PR08",  # parameter description does not start with a capital letter
    "PR09",  # parameter description does not end with a period
    "PR10",  # no space before the colon
    "RT01",  # no Returns section
    "YD01",  # no Yields section
}

METHODS = sorted(
    name
    for name, value in inspect.getmembers(DBMD, inspect.isfunction)
    if not name.startswith("_") and value.__module__.startswith("dbmd.")
)
FACES = [
    "dbmd.estimator.DBMD",
    *(f"dbmd.estimator.DBMD.{name}" for name in METHODS),
    "dbmd.metrics.clustering_accuracy",
]


def test_the_faces_are_all_there():
    fixed = {"fit", "transform", "predict", "predict_proba", "inverse_transform", "score", "fit_transform"}
    assert fixed <= set(METHODS)


@pytest.mark.parametrize("name", FACES)
def test_the_docstring_of_a_face_is_in_order(name):
    errors = [(code, message) for code, message in validate(name)["errors"] if code in FORBIDDEN]
    assert not errors


@pytest.mark.parametrize("name", ["dbmd.estimator.DBMD", "dbmd.metrics.clustering_accuracy"])
def test_a_face_has_an_example(name):
    assert "EX01" not in {code for code, _ in validate(name)["errors"]}


def test_the_check_finds_what_is_missing():
    """It would not do to ask for codes that numpydoc never gives."""
    found = {code for code, _ in validate("dbmd.registry.load")["errors"]}
    assert {"PR01", "RT01"} <= found


def test_the_documented_attributes_are_those_of_a_fitted_model():
    documented = {attribute.name for attribute in NumpyDocString(inspect.getdoc(DBMD))["Attributes"]}
    parts = {"scaling": "standard", "offsets": True, "known": {"one": [1.0, 0.0]}}
    X, source = np.random.default_rng(0).random((30, 2)), np.arange(30) % 2
    model = DBMD(2, random_state=0, **parts).fit(X, source=source)
    fitted = {name for name in vars(model) if re.fullmatch(r"[a-z]\w*[a-z]_", name)}
    others = {"feature_names_in_", "agreement_", "n_components_", "choice_"}
    others |= {"scaled_components_", "components_std_", "membership_sample_"}
    assert fitted | others == documented


def test_the_documented_defaults_are_the_defaults():
    documented = {parameter.name: parameter.type for parameter in NumpyDocString(inspect.getdoc(DBMD))["Parameters"]}
    for name, parameter in inspect.signature(DBMD).parameters.items():
        if parameter.default is None:
            assert "optional" in documented[name] or "default=None" in documented[name]
        else:
            default = re.search(r"default=(.+)$", documented[name]).group(1)
            assert eval(default) == parameter.default, name


def test_the_names_of_the_known_solvers_are_in_the_documentation():
    from dbmd.config import INITS
    from dbmd.registry import names

    documented = {parameter.name: parameter.type for parameter in NumpyDocString(inspect.getdoc(DBMD))["Parameters"]}
    for known, name in ((names("solvers"), "solver"), (INITS, "init"), (("source", "shared"), "noise")):
        assert set(re.findall(r'"([^"]+)"', documented[name].split("default=")[0])) == set(known)
