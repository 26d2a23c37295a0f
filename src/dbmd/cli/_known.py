"""Reading known components from a table: ``dbmd fit --known FILE``."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dbmd.data.files import open_readers
from dbmd.errors import DataError
from dbmd.model.known import Known


def read_known(path: str) -> Known:
    """Return the components in the rows of a file, in any format that data can be in.

    The first column of text, if there is one, has the names of the components; all others are features.

    Parameters
    ----------
    path : str
        The file.

    Returns
    -------
    Known
    """
    reader, *more = open_readers([path])
    if more:
        raise DataError(f"{path}: is a folder. Name one table of known components.")
    text = [name for name, kind in reader.columns.items() if kind is None] or list(reader.annotations)
    features = [name for name, kind in reader.columns.items() if name not in (*text, *reader.index)]
    if len(text) > 1 and text[1] in reader.columns:
        raise DataError(
            f"{reader.location}: the columns {text[0]!r} and {text[1]!r} hold text. One of them may name the "
            "components; all others must be features."
        )
    if not features:
        raise DataError(f"{reader.location}: has no columns of numbers.")
    rows, names = [], []
    for batch in reader.read(0, None, features, text[:1]):
        rows.append(batch.Xt.toarray() if sparse.issparse(batch.Xt) else np.asarray(batch.Xt))
        names += [name for column in batch.others.values() for name in column.to_pylist()]
    if not rows:
        raise DataError(f"{reader.location}: has no rows.")
    nameless = [i for i, name in enumerate(names) if name is None or not str(name).strip()]
    if nameless:
        raise DataError(f"{reader.location}: the component in row {nameless[0] + 1} has no name in column {text[0]!r}.")
    return Known(np.concatenate(rows).astype(np.float64), tuple(map(str, names)) or None, tuple(features))
