"""Cases: files that cannot be fitted, and the message that is due."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbmd.dataset import open_data
from dbmd.errors import DataError
from tables import table

NOT_FINITE = "Only finite numbers can be fitted: remove or impute such rows first."
NO_NUMBER = (
    "has no number (it is empty or NaN). Use the numbers that are there with missing='allow', or leave out such "
    "rows with missing='drop'."
)
NO_NUMBER_IF_SPARSE = (
    "has no number (it is empty or NaN). Entries of sparse data cannot be missing: remove or impute such rows first."
)
UNSOUND = "{name}: is not a sound {kind} file, or not a whole one: copy or write it anew ({said})."


class Cases(dict):
    """Cases by name: a function that puts files in a folder and returns their names, the message, and options."""

    def __call__(self, message, **options):
        """Return a decorator that adds a case. In the message, text in double braces is a pattern: not our words."""

        def add(make):
            self[make.__name__.replace("_", " ")] = make, message, options
            return make

        return add

    def test(self):
        """Return a test of all cases."""

        @pytest.mark.parametrize("name", self)
        def test_the_message_is_due(name, tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)
            make, message, options = self[name]
            check(make(), message, options)

        return test_the_message_is_due


def check(files, message, options):
    """Assert that opening files raises a DataError with a message."""
    with pytest.raises(DataError) as caught:
        open_data(files, **options)
    found = str(caught.value)
    parts = re.split(r"\{\{(.*?)\}\}", message)
    pattern = "".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts))
    assert re.fullmatch(pattern, found), found
    assert "\n" not in found


def text(path, content):
    Path(path).write_text(content)
    return path


def cut_short(path, keep=0.5):
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: int(keep * len(data))])
    return path


def parquet(path, **options):
    def write(columns):
        pq.write_table(pa.table(columns), path, **options)
        return path

    return write


def written(variant, name, n=50):
    """Write a table of a variant; return the name of the file."""
    return Path(variant.write(table(np.random.default_rng(0), n), Path(), name).path).name
