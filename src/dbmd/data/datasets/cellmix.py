"""Mixtures of nine cells of three cell lines: gene counts in four batches, with the proportions known."""

from __future__ import annotations

import gzip
from functools import reduce
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.datasets.labelled import Draw, Labelled
from dbmd.data.datasets.origin import folder, missing, reading

LINES = ("H1975", "H2228", "HCC827")
BATCHES = (1, 2, 3, 4)


def load(draw: Draw) -> Labelled:
    """Return raw counts of the genes that all batches have; the batch is the source, the mixture the class."""
    found = folder("cellmix")
    if found is None:
        files = "cellmix1.count.csv.gz, cellmix1.metadata.csv.gz and so on to 4"
        raise missing("cellmix", files, "and there is no download of it")
    batches = [_batch(found, number) for number in BATCHES]
    genes = reduce(np.intersect1d, [names for names, _, _ in batches])
    X = np.vstack([counts[:, np.searchsorted(names, genes)] for names, counts, _ in batches])
    cells = np.vstack([numbers for _, _, numbers in batches])
    source = np.repeat([f"batch {number}" for number in BATCHES], [len(numbers) for _, _, numbers in batches])
    rows = draw.rows(len(X))
    return Labelled(
        name="cellmix",
        X=X[rows],
        y=np.array(["_".join(map(str, numbers)) for numbers in cells])[rows],
        about=(
            "Raw gene counts of mixtures of cells (Tian et al. 2019, GSE118767) in four batches, the genes common to "
            f"all; classes are numbers of cells of {', '.join(LINES)}."
        ),
        surrogate=False,
        feature_names=tuple(genes.tolist()),
        source=source[rows],
        truth=(cells / cells.sum(axis=1, keepdims=True))[rows],
    )


def _batch(found: Path, number: int) -> tuple[NDArray[np.str_], NDArray[np.float32], NDArray[np.int64]]:
    """Return genes in alphabetical order, counts, shape (cells, genes), and cells of each line, shape (cells, 3)."""
    import pyarrow as pa

    path = found / f"cellmix{number}.count.csv.gz"
    with reading(path):
        table = _read(path, pa.float32())
        names, genes = table.column_names[1:], np.array(table.column(0).to_pylist())
        counts = np.array([table.column(name).to_numpy() for name in names])
    order = np.argsort(genes)

    path = found / f"cellmix{number}.metadata.csv.gz"
    with reading(path):
        table = _read(path, pa.int64(), LINES)
        row_of = {name: row for row, name in enumerate(table.column(0).to_pylist())}
        unknown = [name for name in names if name not in row_of]
        if unknown:
            raise ValueError(f"it has no row {unknown[0]!r}, which is a column of the counts")
        numbers = np.column_stack([table.column(line).to_numpy() for line in LINES])[[row_of[name] for name in names]]
    return genes[order], counts[:, order], numbers


def _read(path: Path, kind: Any, columns: tuple[str, ...] | None = None) -> Any:
    """Return a table as R writes it: the first column, with the names of the rows, has itself no name in the header."""
    import pyarrow as pa
    from pyarrow import csv

    text = gzip.decompress(path.read_bytes())
    header, _, body = text.partition(b"\n")
    names = ["", *(name.strip('"\r') for name in header.decode().split(","))]
    columns = ("", *(columns or names[1:]))
    return csv.read_csv(
        BytesIO(body),
        read_options=csv.ReadOptions(column_names=names),
        convert_options=csv.ConvertOptions(
            include_columns=columns,
            column_types={name: kind if name else pa.string() for name in columns},
            null_values=[],
        ),
    )
