"""Whether samples in memory are finite numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dbmd._utils.arrays import is_sparse
from dbmd.data.finite import Missing, first_unusable


def check_finite(X: Any, missing: Missing = "error") -> None:
    """Raise a ValueError that names the first entry that is not a finite number.

    Parameters
    ----------
    X : array or CSR array of shape (n, m)
        The samples.
    missing : {"error", "allow", "drop"}
        What to do with NaN: unless it is "error", dense arrays may have some.
    """
    entry = first_unusable(X, missing, rows_may_be_empty=False)
    if entry is None:
        return
    place = f"in row {entry.row}, column {entry.column}"
    if not np.isnan(entry.value):
        name, remedy = "infinity (inf)", "DBMD takes finite numbers only: drop or impute such rows first"
    elif is_sparse(X):
        name, remedy = "NaN", "Sparse data must be finite: pass a dense array with missing='allow', or drop such rows"
    elif missing == "error":
        name = "NaN"
        remedy = "DBMD takes finite numbers only, unless missing='allow', or missing='drop' to leave out such rows"
    else:
        name, place, remedy = "NaN", f"in all of row {entry.row}", "Leave out such rows with missing='drop'"
    raise ValueError(f"Input X contains {name} {place}. {remedy}.")
