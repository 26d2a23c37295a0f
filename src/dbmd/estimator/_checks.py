"""Checks of what is passed to an estimator against what it knows: features, sources."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def number_among(known: NDArray[Any], found: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the known source names followed by the new ones, and the code of each source that was found.

    Parameters
    ----------
    known : array of shape (n_known,)
        The sources of the model.
    found : array of shape (n_found,), optional
        The sources of a dataset; None if it has no names, for a model of one source.

    Returns
    -------
    source_names : array of shape (n_sources,)
        The known sources, then the new ones.
    source_codes : array of int of shape (n_found,)
        The position of each source that was found among them.
    """
    if found is None:
        if len(known) > 1:
            raise ValueError(f"The model knows {len(known)} sources: say in source= which samples are of which.")
        return known, np.zeros(1, np.intp)
    kinds = {"number" if labels.dtype.kind in "iuf" else labels.dtype.kind for labels in (known, found)}
    if len(kinds - {"O"}) > 1:
        raise TypeError(
            f"source must have labels of the kind that the model knows, such as {known[0]!r}. Got {found[0]!r}."
        )
    both = np.concatenate([known, found])  # of a type that holds both
    if both.tolist() != [*known.tolist(), *found.tolist()]:  # there is no such type
        both = np.concatenate([known.astype(object), found.astype(object)])
    already = set(both[: len(known)].tolist())
    new = [label not in already for label in both[len(known) :].tolist()]
    names = np.concatenate([both[: len(known)], both[len(known) :][new]])
    number = {label: i for i, label in enumerate(names.tolist())}
    return names, np.array([number[label] for label in both[len(known) :].tolist()], dtype=np.intp)


def check_feature_names(found: list[str], known: list[str]) -> None:
    """Raise a ValueError if a dataset has other features than the model, or in another order."""
    numbered = [str(i) for i in range(len(known))]  # the names of columns that have none
    if numbered not in (found, known) and found != known:
        i = next(i for i in range(len(known)) if found[i] != known[i])
        raise ValueError(
            f"The data must have the features of the model, in the same order. Got {found[i]!r} where the model has "
            f"{known[i]!r}: name them in open_data(..., columns=)."
        )
