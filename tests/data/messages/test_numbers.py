"""Messages about entries that are not finite numbers."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dbmd.dataset import open_data
from dbmd.errors import DataError
from tables import VARIANTS, table

from .cases import NO_NUMBER, NO_NUMBER_IF_SPARSE, NOT_FINITE, check

NULLS = {
    "floats": pa.array([1.5, None, 3.0]),
    "int8": pa.array([1, None, 3], pa.int8()),
    "bool": pa.array([True, None, False]),
    "decimals": pa.array([1, None, 3], pa.decimal128(5, 2)),
    "a dictionary": pa.array([1.0, None, 3.0]).dictionary_encode(),
}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize(
    "variant", [name for name, variant in VARIANTS.items() if variant.kind == "quarters" and name != "decimals"]
)
def test_an_entry_that_is_no_finite_number_is_said_by_file_row_and_column(variant, value, tmp_path):
    data = table(np.random.default_rng(0), 50)
    data.X[7, 1] = value
    data.X[20, 3] = value
    written = VARIANTS[variant].write(data, tmp_path, "data")
    with pytest.raises(DataError) as caught:
        open_data(written.path, columns=written.features)
    row = {"csv": r"line \d+"}.get(VARIANTS[variant].format, "row 8")
    what = f"is {value}. {NOT_FINITE}"
    if np.isnan(value):
        what = NO_NUMBER_IF_SPARSE if VARIANTS[variant].sparse else NO_NUMBER
    pattern = f"{re.escape(written.path)}: {row}, column '{written.features[1]}' {re.escape(what)}"
    assert re.fullmatch(pattern, str(caught.value))


@pytest.mark.parametrize("kind", NULLS)
def test_a_missing_number_in_parquet_is_said_by_row_and_column(kind, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array([1, 2, 3], pa.int8()), "y": NULLS[kind]}), path)
    check(path, f"{path}: row 2, column 'y' {NO_NUMBER}", {})


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_of_several_faults_in_a_file_the_first_is_said_whatever_the_number_of_threads(threads, tmp_path, monkeypatch):
    monkeypatch.setenv("DBMD_NUM_THREADS", threads)
    X = np.ones((1000, 3))
    X[[300, 600, 900], 1] = np.nan
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(DataError, match="row 301, column '1'"):
        open_data(tmp_path / "a.npy")
