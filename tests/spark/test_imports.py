"""What is imported, and what is said where pyspark is missing."""

import subprocess
import sys

from spark.shared import MARKS

pytestmark = MARKS


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_pyspark_the_import_says_what_to_install():
    done = run("import sys; sys.modules['pyspark'] = None\nimport dbmd.spark")
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: The module 'dbmd.spark' needs the package 'pyspark'. Install it with: pip install 'dbmd[spark]'"
    )


def test_dbmd_does_not_import_it():
    done = run("import sys, dbmd; dbmd.DBMD; print('dbmd.spark' in sys.modules, 'pyspark' in sys.modules)")
    assert done.stdout.split() == ["False", "False"], done.stderr
