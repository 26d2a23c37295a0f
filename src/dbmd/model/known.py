"""Components that are known: an array, a DataFrame or a mapping, with the names of components and features it has."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.statistics import Float

MOST_SHOWN = 3  # names in a message


@dataclass(frozen=True, eq=False)
class Known:
    """Known components, as the parameter ``known`` of :class:`dbmd.DBMD` has them.

    Attributes
    ----------
    values : array of shape (n_known, n_columns)
        The components.
    names : tuple of str, optional
        Their names.
    columns : tuple of str, optional
        Names of the features, by which columns are matched to those of the data.
    """

    values: Float
    names: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, known: Any) -> Known:
        """Return known components of any form: an array, a DataFrame, or a mapping from names to vectors.

        A DataFrame has the names of components in its index and those of features in its columns, where these are text.
        """
        if isinstance(known, Known):
            return known
        if isinstance(known, Mapping):
            return cls(np.array([np.asarray(row, np.float64) for row in known.values()]), _texts(known))
        values = np.asarray(known, np.float64)
        if hasattr(known, "columns"):
            return cls(values, _texts(getattr(known, "index", ())), _texts(known.columns))
        return cls(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype) if dtype is not None or copy else self.values

    def __len__(self) -> int:
        return len(self.values)

    def for_features(self, n_features: int, names: Sequence[str] | None = None) -> Float:
        """Return the components with a column for each feature of the data, shape (n_known, n_features).

        Parameters
        ----------
        n_features : int
            Number of features of the data.
        names : sequence of str of shape (n_features,), optional
            Their names. If the components have names of features, too, columns are put into this order.
        """
        numbered = [str(i) for i in range(n_features)]  # the names of columns that have none
        columns = None if self.columns is None or list(self.columns) == numbered else self.columns
        if columns is not None and names is not None and list(names) != numbered:
            number = {name: i for i, name in enumerate(columns)}
            missing = [name for name in names if name not in number]
            further = sorted({*columns} - {*names})
            if missing or further or len(number) < len(columns):
                what = f"Missing: {_listed(missing)}." if missing else f"No features of the data: {_listed(further)}."
                raise ValueError(
                    "The 'known' parameter of DBMD must have the features of the data as columns, each once. "
                    + (what if missing or further else "Some are there twice.")
                )
            return self.values[:, [number[name] for name in names]]
        if self.values.shape[1] != n_features:
            raise ValueError(
                f"The 'known' parameter of DBMD must have a column for each of the {n_features} features. "
                f"Got shape {self.values.shape}."
            )
        return self.values

    @property
    def fingerprint(self) -> str:
        """A short text that is the same for the same components."""
        content = hashlib.sha256(np.ascontiguousarray(self.values).tobytes())
        content.update(repr((self.values.shape, self.names, self.columns)).encode())
        return content.hexdigest()[:16]

    def component_names(self, n_components: int) -> NDArray[np.object_] | None:
        """Return a name for each component, shape (n_components,); None if the known ones have none.

        The others are called "pattern 1", "pattern 2", and so on.
        """
        if self.names is None:
            return None
        free = (f"pattern {i + 1}" for i in range(n_components - len(self)))
        return np.array([*self.names, *free], dtype=object)


def _texts(names: Iterable[Any]) -> tuple[str, ...] | None:
    """Return names, None if there are none or some are no text, such as the numbers of rows."""
    listed = tuple(names)
    return tuple(map(str, listed)) if listed and all(isinstance(name, str) for name in listed) else None


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(map(repr, names[:MOST_SHOWN])) + more
