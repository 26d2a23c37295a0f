"""Figures of a model with matplotlib, in the manner of scanpy: each function draws one thing and returns its axes.

>>> import dbmd
>>> from sklearn.datasets import load_wine
>>> wine = load_wine(as_frame=True)
>>> model = dbmd.DBMD(n_components=3, scaling="standard", random_state=0).fit(wine.data)
>>> axes = dbmd.pl.patterns(model)
>>> ax = dbmd.pl.ternary(model)

Every function takes axes to draw on, and makes a figure of its own if there are none. Colours, fonts and sizes are
those of matplotlib's style: ``matplotlib.style.use`` changes them all. The page of :meth:`dbmd.DBMD.report` shows the
same, to look at and to share.
"""

from __future__ import annotations

from dbmd.pl._fits import agreement, choice, convergence, noise
from dbmd.pl._memberships import maps, simplex, sources, ternary
from dbmd.pl._patterns import patterns

__all__ = [
    "agreement",
    "choice",
    "convergence",
    "maps",
    "noise",
    "patterns",
    "simplex",
    "sources",
    "ternary",
]
