"""What users may ask for when they open data, and the defaults that the interfaces share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dbmd.data.finite import Missing

DEFAULT_MEMORY = 512_000_000  # bytes: data up to this size are loaded once and kept
EACH_FILE = "@file"  # as the name of the source column: every file is a source of its own


class ColumnOptions(NamedTuple):
    """Which columns to take, and as what; see :func:`dbmd.open_data`.

    Attributes
    ----------
    source : str, array or list, optional
        Column with the source of each sample, or ``EACH_FILE``. For arrays of Dask, the sources themselves.
    label : str, optional
        Column with the known class of each sample.
    columns : sequence of str, optional
        Features; None: all other columns.
    drop, encode, keep : sequence of str
        Columns to leave out, to one-hot code, and to copy to the output.
    sample_weight : str, array or list, optional
        Column with the weight of each sample. For arrays of Dask, the weights themselves.
    missing : {"error", "allow", "drop"}
        What to do with missing entries.
    """

    source: Any
    label: str | None
    columns: Sequence[str] | None
    drop: Sequence[str]
    encode: Sequence[str]
    keep: Sequence[str]
    sample_weight: Any = None
    missing: Missing = "error"
