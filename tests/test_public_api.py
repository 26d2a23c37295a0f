"""What ``import dbmd`` offers, and that it is light."""

import ast
import inspect
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import dbmd
from dbmd.config import Config

ROOT = Path(__file__).parents[1]
PUBLIC = re.findall(r"^    (dbmd[.\w]*)  ", dbmd.__doc__, re.MULTILINE)  # the table in the docstring of the package


def test_all_is_sorted_and_everything_in_it_is_there():
    assert dbmd.__all__ == sorted(dbmd.__all__)
    assert len(set(dbmd.__all__)) == len(dbmd.__all__)
    for name in dbmd.__all__:
        assert getattr(dbmd, name) is not None
    assert dir(dbmd) == dbmd.__all__


def test_all_is_complete():
    """Type checkers see what is imported for them; readers see ``__all__``: both are told the same."""
    tree = ast.parse(Path(dbmd.__file__).read_text())
    for_type_checkers = next(
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    told = {alias.asname or alias.name for node in for_type_checkers.body for alias in node.names}
    assert told | {"__version__"} == set(dbmd.__all__)
    assert {"DBMD", "metrics", "__version__"} <= set(dbmd.__all__)


def test_star_import():
    namespace = {}
    exec("from dbmd import *", namespace)
    assert set(dbmd.__all__) <= set(namespace)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'dbmd' has no attribute 'nonsense'"):
        dbmd.nonsense  # noqa: B018


def test_the_public_modules_are_the_ones_that_the_package_names():
    expected = {"metrics", "pl", "tl", "spark", "engines", "errors", "data.datasets", "protocols"}
    assert set(PUBLIC) == {"dbmd"} | {f"dbmd.{name}" for name in expected}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_declares_what_is_public(name):
    module = import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        assert getattr(module, public).__doc__
        assert public == "__version__" or not public.startswith("_")
        value = getattr(module, public)
        assert not inspect.ismodule(value) or value.__name__ in PUBLIC


def test_the_version_stands_in_one_place_and_is_the_same_everywhere(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/dbmd/__init__.py"
    assert version("dbmd") == dbmd.__version__
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == dbmd.__version__
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## (\S+)", changes, re.MULTILINE).group(1) == dbmd.__version__
    shown = subprocess.run([sys.executable, "-m", "dbmd", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.split()[-1] == dbmd.__version__
    dbmd.DBMD(2, random_state=0).fit([[0.0], [1.0], [5.0]]).save(tmp_path / "model")
    saved = json.loads((tmp_path / "model" / "model.json").read_text("utf-8"))
    assert saved["fit"]["versions"]["dbmd"] == dbmd.__version__


def test_the_fixed_names():
    from dbmd import DBMD
    from dbmd.metrics import clustering_accuracy

    assert dbmd.metrics.clustering_accuracy is clustering_accuracy
    assert DBMD.__module__ == "dbmd.estimator"
    for method in ("fit", "transform", "predict", "predict_proba", "inverse_transform", "score"):
        assert callable(getattr(DBMD, method))
    for method in ("fit", "transform", "predict", "predict_proba", "score"):
        assert inspect.signature(getattr(DBMD, method)).parameters["source"].kind is inspect.Parameter.KEYWORD_ONLY


def test_the_estimator_has_the_parameters_of_the_table():
    parameters = inspect.signature(dbmd.DBMD).parameters.values()
    assert [(p.name, p.default) for p in parameters] == [(f.name, f.default) for f in fields(Config)]


def loaded_by(code):
    """Return the names of the modules that a fresh interpreter has loaded after some code."""
    code += "\nimport sys; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


HEAVY = {"numba", "sklearn.cluster", "pyspark", "dask", "matplotlib", "pandas", "polars", "pyarrow", "cvxpy"}


def test_importing_the_package_is_light():
    loaded = loaded_by("import dbmd")
    assert "dbmd" in loaded
    assert not loaded & (HEAVY | {"sklearn", "scipy", "numpy"})


def test_importing_the_estimator_loads_nothing_heavy():
    loaded = loaded_by("from dbmd import DBMD")
    assert {"dbmd.estimator", "sklearn.base"} <= loaded
    assert not loaded & {"numba", "sklearn.cluster", "matplotlib", "pyspark", "dask"}


def test_naming_the_solvers_and_making_an_estimator_loads_no_numba():
    loaded = loaded_by(
        "from dbmd import DBMD; DBMD(solver='admm').get_params(); from dbmd.registry import names; names('kernels')"
    )
    assert "numba" not in loaded


def test_a_fit_loads_what_it_needs_and_no_plotting():
    """So that the tests above can fail: numba does get loaded."""
    loaded = loaded_by("from dbmd import DBMD; DBMD(2, init='random', random_state=0).fit([[0.0], [1.0], [5.0]])")
    assert "numba" in loaded
    assert not loaded & {"matplotlib", "pyspark", "dask"}
