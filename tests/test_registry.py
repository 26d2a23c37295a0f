import inspect
import subprocess
import sys

import pytest

from dbmd.registry import load, names

KINDS = ("solvers", "engines", "kernels")


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_sorted_and_public(kind):
    found = names(kind)
    assert found
    assert list(found) == sorted(found)
    assert not any(name.startswith("_") for name in found)


def test_what_is_there_is_found():
    assert {"exact", "agd", "admm", "cease"} <= set(names("solvers"))
    assert {"cpu", "reference"} <= set(names("kernels"))
    assert "local" in names("engines")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in names(kind)])
def test_a_name_loads_the_module_of_that_name(kind, name):
    module = load(kind, name)
    assert module.__name__ == f"dbmd.{kind}.{name}"
    assert module.__doc__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["nonsense", "_private", "", "os.path"])
def test_an_unknown_name_is_refused_with_the_known_ones(kind, name):
    with pytest.raises(ValueError, match=f"Unknown {kind[:-1]}") as caught:
        load(kind, name)
    assert repr(name) in str(caught.value)
    for known in names(kind):
        assert known in str(caught.value)


def test_private_modules_cannot_be_loaded_by_name():
    for kind, name in [("engines", "_metered"), ("kernels", "_tolerance"), ("solvers", "_step")]:
        with pytest.raises(ValueError, match="Known:"):
            load(kind, name)


def test_listing_names_loads_none_of_them():
    script = (
        "import sys; from dbmd.registry import names\n"
        "found = [f'dbmd.{kind}.{name}' for kind in ('solvers', 'kernels') for name in names(kind)]\n"
        "assert len(found) >= 6\n"
        "sys.exit(', '.join(sorted({'numba', 'sklearn', *found} & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"loaded: {done.stderr}"


@pytest.mark.parametrize("name", names("kernels"))
def test_every_kernel_has_the_functions_of_a_kernel(name):
    kernel = load("kernels", name)
    assert list(inspect.signature(kernel.solve_h).parameters) == ["Q", "Bt", "a", "Ht0", "out"]
    assert list(inspect.signature(kernel.sum_log).parameters) == ["Ht"]


@pytest.mark.parametrize("name", names("solvers"))
def test_every_solver_has_the_face_of_a_solver(name):
    solver = load("solvers", name)
    parameters = inspect.signature(solver.solve).parameters
    assert isinstance(solver.GATHERS, bool)
    assert list(parameters)[:3] == ["W", "ask", "problem"]
    options = [p for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert {"tol", "max_rounds"} <= {p.name for p in options}
    assert all(p.default is not p.empty for p in options)


@pytest.mark.parametrize("name", names("engines"))
def test_every_engine_has_the_face_of_an_engine(name):
    engine = load("engines", name).Engine
    for attribute in ("ask", "n_nodes", "close", "__enter__", "__exit__"):
        assert hasattr(engine, attribute)
