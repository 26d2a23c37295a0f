"""An engine, kernel, solver or format is one file, which the conformance suites try without a change."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SUITES = ("data/formats", "engines", "kernels", "solvers")
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}

FIT = """
import numpy as np
import dbmd, toys
options = {"n_components": 2, "init": np.eye(2, 3), "max_iter": 3, "tol": 0.0}
X = np.random.default_rng(0).normal(size=(40, 3))
with open("x.toy", "wb") as file:
    np.save(file, X)
expected = dbmd.DBMD(**options).fit(X).components_
assert np.array_equal(dbmd.DBMD(engine="toy", solver="toy", **options).fit(X).components_, expected)
np.testing.assert_allclose(dbmd.DBMD(**options).fit("x.toy").components_, expected, rtol=1e-10)
from_file = dbmd.DBMD(engine="toy", **options).fit("x.toy")
np.testing.assert_allclose(from_file.components_, expected, rtol=1e-10)
assert len(from_file.labels_) == len(X)
"""


@pytest.mark.slow
def test_the_suites_try_a_module_that_is_new():
    files = [TESTS / suite / "test_conformance.py" for suite in SUITES]
    command = [sys.executable, "-m", "pytest", "-p", "toys", "-p", "no:cacheprovider", "-v", "-k", "toy", *files]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, cwd=TESTS.parent)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    for suite in SUITES:
        assert len(re.findall(rf"^tests/{suite}/test_conformance.py::.*toy.* PASSED", done.stdout, re.MULTILINE)) >= 10


def test_what_is_new_is_used_by_its_name(tmp_path):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FIT], env=ENVIRONMENT, cwd=tmp_path, check=False)
    assert done.returncode == 0
