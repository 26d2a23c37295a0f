"""Public data sets with known classes, for experiments: from the folder named by DBMD_DATA, or by scikit-learn.

    load("covtype")                 all samples, in the order of the file
    load("mnist-400k", n=1000)      1000 random samples; only these are made

A set whose original is not available is replaced by a surrogate, and ``about`` says of what.
"""

from __future__ import annotations

from collections.abc import Callable

from dbmd.data.datasets import cellmix, covtype, digits, kdd99, mnist
from dbmd.data.datasets.labelled import Draw, Labelled

__all__ = ["NAMES", "Labelled", "load"]

_LOADERS: dict[str, Callable[[Draw], Labelled]] = {
    "digits": digits.load,
    "covtype": covtype.load,
    "kdd99": kdd99.load,
    "kdd99-full": kdd99.load_full,
    "mnist": mnist.load,
    "mnist-400k": mnist.load_400k,
    "cellmix": cellmix.load,
}
NAMES = tuple(_LOADERS)  #: Names of the data sets, a tuple of str.


def load(name: str, *, n: int | None = None, seed: int = 0) -> Labelled:
    """Return a data set, or a random part of it.

    Parameters
    ----------
    name : str
        One of ``NAMES``.
    n : int, optional
        Number of samples, drawn at random without replacement and in random order; with the same seed, a smaller
        sample is the beginning of a larger one. None: all, in the order of the file.
    seed : int, default=0
        Of what is drawn, and of the deformed images of "mnist-400k".

    Returns
    -------
    Labelled

    Raises
    ------
    DataError
        If the files are damaged, or are not there and cannot be downloaded.

    Examples
    --------
    >>> from dbmd.data.datasets import load
    >>> load("digits", n=100).X.shape
    (100, 64)
    """
    if name not in _LOADERS:
        raise ValueError(f"Unknown data set {name!r}. Known: {', '.join(NAMES)}.")
    return _LOADERS[name](Draw(n, seed))
