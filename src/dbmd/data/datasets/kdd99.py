"""KDD Cup 1999: connections in a network, 41 features, normal or one of many attacks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.datasets.labelled import Draw, Labelled
from dbmd.data.datasets.origin import fetched, folder, reading

TEXT = ("protocol_type", "service", "flag")
N_FEATURES = 41
AT_LEAST = 100  # rows of a class that is kept
# The classes of which the 10 % file has a tenth. Of the others it has all.
SAMPLED = ("ipsweep", "neptune", "nmap", "normal", "portsweep", "satan", "smurf")
TREATMENT = (
    f"classes with fewer than {AT_LEAST} rows left out, text as integer codes in alphabetical order of the values"
)


def load(draw: Draw) -> Labelled:
    """Return the 10 % set, as float64: counts of bytes have more digits than float32."""
    return _labelled(draw, 1, "KDD-99 (10 %)", f"The 10 % file of the KDD Cup 1999; {TREATMENT}.")


def load_full(draw: Draw) -> Labelled:
    """Return a surrogate of the full set: rows of the classes that the 10 % set has a tenth of, ten times each."""
    about = (
        "A surrogate of the full KDD Cup 1999 set, for measuring speed: the 10 % file with the rows of "
        f"{', '.join(SAMPLED)} repeated ten times; {TREATMENT}."
    )
    return _labelled(draw, 10, "KDD-99, surrogate of the full set", about)


def _labelled(draw: Draw, times: int, name: str, about: str) -> Labelled:
    table = _read()
    classes, y = _coded(table.column(N_FEATURES))
    classes = np.array([text.rstrip(".") for text in classes])
    repeats = np.where(np.isin(classes, SAMPLED), times, 1)
    repeats[np.bincount(y) < AT_LEAST] = 0
    kept = np.repeat(np.arange(len(y)), repeats[y])
    rows = kept[draw.rows(len(kept))]

    names = tuple(table.column_names[:N_FEATURES])
    X = np.empty((len(rows), N_FEATURES))
    for j, column in enumerate(names):
        values = _coded(table.column(j))[1] if column in TEXT else table.column(j).to_numpy()
        X[:, j] = values[rows]
    return Labelled(name, X, classes[y[rows]], about, surrogate=times > 1, feature_names=names)


def _read() -> Any:
    """Return the file as a pyarrow.Table: 41 features and the class."""
    found = folder("kdd99")
    if found is None:
        return _fetch()
    import pyarrow as pa
    from pyarrow import csv

    path = found / "columns.txt"
    with reading(path):
        names = path.read_text().split()
        if len(names) != N_FEATURES + 1 or not set(TEXT) <= set(names[:N_FEATURES]):
            raise ValueError(f"it must name {N_FEATURES + 1} columns, {', '.join(TEXT)} among them")
    path = found / "kddcup.data_10_percent.gz"
    types = {name: pa.string() if name in (*TEXT, names[-1]) else pa.float64() for name in names}
    with reading(path):
        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=names),
            convert_options=csv.ConvertOptions(column_types=types, null_values=[]),
        )


def _fetch() -> Any:
    import pyarrow as pa
    from sklearn.datasets import fetch_kddcup99

    bunch = fetched(fetch_kddcup99, "kdd99", "kddcup.data_10_percent.gz and columns.txt", percent10=True)
    # All are arrays of objects: ints, floats, and bytes for text.
    columns = [*bunch.data.T, bunch.target]
    types = [pa.string() if isinstance(column[0], bytes) else pa.float64() for column in columns]
    return pa.table(
        [pa.array(column).cast(kind) for column, kind in zip(columns, types, strict=True)],
        names=[*bunch.feature_names, *bunch.target_names],
    )


def _coded(column: Any) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
    """Return the values of a column of text in alphabetical order, and for each row the index of its value."""
    encoded = column.combine_chunks().dictionary_encode()
    values = np.array(encoded.dictionary.to_pylist())
    order = np.argsort(values)
    index = np.empty(len(order), np.intp)
    index[order] = np.arange(len(order))
    return values[order], index[encoded.indices.to_numpy()]
