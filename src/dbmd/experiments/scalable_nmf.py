"""Scalable-NMF, a competitor: near-separable non-negative matrix factorisation of tall and skinny data, in one pass.

    X ~ X[:, K] C,    X >= 0 of shape (n, m), n >> m,    K: r of the features,    C >= 0 of shape (r, m)

Every feature is a non-negative combination of r picked ones. Which ones, and how, depends on X only through X'X = R'R,
so one pass over the nodes suffices (Benson, Lee, Rajwa and Gleich 2014; Gittens et al. 2016):

    R       at the nodes: QR of their samples, then of the triangles of two nodes; only triangles travel
    K       extreme rays of the cone of R: XRAY (Kumar, Sindhwani and Kambadur 2013) or SPA (Gillis and Vavasis 2014)
    C       non-negative least squares, each feature alone
    labels  at the nodes: the largest of the r memberships of a sample

Both ways to pick presume columns that sum to one: a linear or convex function of them is then largest at an extreme
ray. Features, labels and refined memberships are then the same in whatever units the features are measured. The copy
that the authors of the paper ran leaves the columns as they are, and so picks features of large numbers:
``normalise=False``. On exactly separable data it may miss the right ones. On real data it may do better: among columns
that sum to one those of the rarest features lie farthest out, and most samples have none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.optimize import nnls

from dbmd.data.block import MAX_ROWS
from dbmd.errors import DataError
from dbmd.model.node import Node
from dbmd.model.statistics import Float
from dbmd.protocols import Ask
from dbmd.sweep import Labels

ROUNDING = 1e-10  # what is left of a column, relative to it, when it is nothing but rounding


@dataclass(frozen=True)
class SeparableNMF:
    """X - origin ~ (X - origin)[:, features] weights.

    Attributes
    ----------
    features : array of int of shape (r,)
        The picked features, in the order they were picked.
    weights : array of shape (r, m)
        C, in the units of the data.
    residual : float
        ||X - X[:, features] weights|| / ||X||, both less the origin.
    origin : array of shape (m,)
        What was taken off the features to make them non-negative; zeros if nothing was.
    scale : array of shape (m,)
        What the features were divided by: their means, or ones.
    """

    features: NDArray[np.intp]
    weights: Float
    residual: float
    origin: Float
    scale: Float


def separable_nmf(
    ask: Ask, r: int, *, select: str = "xray", normalise: bool = True, shift: bool = False
) -> SeparableNMF:
    """Return the factorisation of the samples at the nodes, after one pass over them.

    Parameters
    ----------
    ask : callable
        Of an engine that holds the nodes.
    r : int
        Number of features to pick.
    select : {"xray", "spa"}
        How to pick them. XRAY takes the feature that is farthest out in the direction of the largest residual of
        non-negative least squares (its rule "max"); SPA the one that is farthest from the span of those picked. SPA is
        quicker, but the cone may have more extreme rays than dimensions, and it sees no more than those.
    normalise : bool
        Whether to give all features the same mean first, as the theory of both asks.
    shift : bool
        Whether to move features that go below zero up by their minimum. Otherwise they are refused.

    Returns
    -------
    SeparableNMF
    """
    pickers = {"xray": _xray, "spa": _spa}
    if select not in pickers:
        raise ValueError(f"select must be one of {', '.join(map(repr, pickers))}. Got {select!r}.")
    found: Triangle = ask(triangle)
    m = len(found.low)
    if not 1 <= r <= m:
        raise ValueError(f"r must be an int from 1 to the number of features, {m}. Got {r!r}.")
    negative = np.flatnonzero(found.low < 0.0)
    if len(negative) and not shift:
        first = negative[0]
        raise DataError(
            f"Near-separable NMF takes numbers >= 0 only. Got {found.low[first]:g} in column {first}; "
            f"{len(negative)} of {m} columns go below 0. Move them up by their minimum: shift=True."
        )
    origin = np.minimum(found.low, 0.0)
    R = found.less(origin)
    scale = np.ones(m)
    if normalise:
        means = R[0] / found.R[0, 0]
        scale[means > 0.0] = means[means > 0.0]  # a feature that is always zero has no other
    Y = R / scale
    features = np.array(pickers[select](Y, r))
    weights = _combinations(Y, features) * scale / scale[features, None]
    residual = float(np.linalg.norm(R - R[:, features] @ weights) / np.linalg.norm(R))
    return SeparableNMF(features, weights, residual, origin, scale)


def memberships(Xt: Any, model: SeparableNMF, *, refine: bool = False) -> Float:
    """Return the memberships of samples, shape (n, r): the factor that has a row for each of them.

    By the model they are the values of the picked features, x[features], in units of the scale. So it is in the paper,
    and a sample that has none of these features is a member of nothing. Refined, they take all features into account:
    argmin_{h >= 0} ||x - h' weights||, in units of the scale. Where X is exactly separable, both are the same.

    Parameters
    ----------
    Xt : array or CSR array of shape (n, m)
        The samples.
    model : SeparableNMF
        The factorisation.
    refine : bool
        Whether to find them by non-negative least squares, some ten microseconds a sample.

    Returns
    -------
    array of shape (n, r)
    """
    origin, scale, K = model.origin, model.scale, model.features
    if not refine:
        picked = Xt[:, K]
        return ((picked.toarray() if sparse.issparse(picked) else picked) - origin[K]) / scale[K]
    # ||x - B'h||^2 = ||Q'x - T h||^2 + what does not depend on h: r numbers a sample, whatever m.
    Q, T = linalg.qr((model.weights * scale[K, None] / scale).T, mode="economic")
    Q /= scale[:, None]
    return np.array([nnls(T, z)[0] for z in Xt @ Q - origin @ Q]).reshape(-1, len(K))


def labels(ask: Ask, model: SeparableNMF, *, refine: bool = False) -> NDArray[np.intp]:
    """Return the cluster of each sample at the nodes, shape (n,), in their order: the largest of its memberships.

    That is the rule of the paper. Equal memberships go to the feature that was picked first: among them all samples
    that have none of the picked features.

    Parameters
    ----------
    ask : callable
        Of an engine that holds the nodes.
    model : SeparableNMF
        The factorisation.
    refine : bool
        See :func:`memberships`.

    Returns
    -------
    array of int of shape (n,)
    """
    found: Labels = ask(partial(own_labels, model=model, refine=refine))
    return found.values


def own_labels(node: Node, *, model: SeparableNMF, refine: bool) -> tuple[Node, Labels]:
    """Node: send the cluster of each of its samples."""
    values = np.empty(node.samples.shape[0], np.intp)
    for chunk in node.samples.chunks():
        values[chunk.rows] = memberships(chunk.Xt, model, refine=refine).argmax(axis=1)
    return node, Labels(values)


@dataclass(frozen=True)
class Triangle:
    """What near-separable NMF needs of samples. Adding those of two nodes gives that of the samples of both.

    The column of ones brings the sums of the features, and lets them be moved after the pass.

    Attributes
    ----------
    R : array of shape (m + 1, m + 1)
        Upper triangle with R'R = [1 X]'[1 X].
    low : array of shape (m,)
        The minimum of each feature.
    """

    R: Float
    low: Float

    @classmethod
    def of_nothing(cls, m: int) -> Triangle:
        """Return the triangle of no samples."""
        return cls(np.zeros((m + 1, m + 1)), np.full(m, np.inf))

    def with_samples(self, parts: list[Any]) -> Triangle:
        """Return the triangle of these samples, too: dense or CSR arrays of shape (rows, m)."""
        height = len(self.R)
        low = self.low
        # In double precision, whatever the data: the weak directions of R are what tells features apart.
        stacked = np.empty((height + sum(part.shape[0] for part in parts), height), order="F")
        stacked[:height] = self.R
        stacked[height:, 0] = 1.0
        row = height
        for part in parts:
            dense = part.toarray() if sparse.issparse(part) else part
            stacked[row : row + len(dense), 1:] = dense
            low = np.minimum(low, dense.min(axis=0))
            row += len(dense)
        return Triangle(_upper(stacked), low)

    def less(self, origin: Float) -> Float:
        """Return R, shape (m + 1, m), with R'R = Z'Z for Z = X - 1 origin'; its first row is 1'Z / R[0, 0]."""
        R = self.R[:, 1:] - np.outer(self.R[:, 0], origin)
        constant = np.linalg.norm(R, axis=0) <= ROUNDING * np.linalg.norm(self.R[:, 1:], axis=0)
        R[:, constant] = 0.0  # else rounding would be taken for a rare feature
        return R

    def __add__(self, other: Triangle) -> Triangle:
        stacked = np.concatenate([self.R, other.R])
        return Triangle(_upper(np.asfortranarray(stacked)), np.minimum(self.low, other.low))


def triangle(node: Node) -> tuple[Node, Triangle]:
    """Node: send the triangle of its samples."""
    m = node.samples.shape[1]
    found = Triangle.of_nothing(m)
    # With R on top of them, four times as many samples as features cost little more than samples alone.
    for parts in _batches((chunk.Xt for chunk in node.samples.chunks()), max(4 * m, MAX_ROWS)):
        found = found.with_samples(parts)
    return node, found


def _batches(parts: Iterable[Any], rows: int) -> Iterator[list[Any]]:
    """Yield arrays in lists that have at least so many rows together, but for the last."""
    batch: list[Any] = []
    for part in parts:
        batch.append(part)
        if sum(one.shape[0] for one in batch) >= rows:
            yield batch
            batch = []
    if batch:
        yield batch


def _upper(A: Float) -> Float:
    """Return R of A = QR, A of shape (rows, m), rows >= m, in the order of Fortran; it is overwritten."""
    _, R = linalg.qr(A, mode="raw", overwrite_a=True, check_finite=False)
    return R


def _xray(Y: Float, r: int) -> list[int]:
    """Return r columns of Y: extreme rays of their cone, if all have the same sum."""
    picked: list[int] = []
    residual = Y
    while len(picked) < r:
        direction = residual[:, _farthest(residual, Y, picked, r)]
        # By the optimality conditions no picked column has a part in this direction: the maximum is a new one.
        picked.append(_largest(direction @ Y))
        residual = Y - Y[:, picked] @ _combinations(Y, picked)
    return picked


def _spa(Y: Float, r: int) -> list[int]:
    """Return r columns of Y: corners of their convex hull, if all have the same sum."""
    picked: list[int] = []
    residual = Y
    while len(picked) < r:
        picked.append(_farthest(residual, Y, picked, r))
        u = residual[:, picked[-1]] / np.linalg.norm(residual[:, picked[-1]])
        residual = residual - np.outer(u, u @ residual)
    return picked


def _farthest(residual: Float, Y: Float, picked: list[int], r: int) -> int:
    """Return the column with the largest residual. Raises a DataError if all are rounding."""
    left = np.linalg.norm(residual, axis=0)
    left[left <= ROUNDING * np.linalg.norm(Y, axis=0)] = 0.0
    if not left.any():
        raise DataError(
            f"All features are combinations of {len(picked)} of them, {picked}: no more can be picked. Got r = {r}."
        )
    return _largest(left)


def _largest(values: Float) -> int:
    """Return the first of the largest values: the same one for the same samples, however they are cut into nodes."""
    return int(np.argmax(values >= (1.0 - ROUNDING) * values.max()))


def _combinations(Y: Float, picked: Any) -> Float:
    """Return B, shape (r, m): argmin_{B >= 0} ||Y - Y[:, picked] B||."""
    Q, T = linalg.qr(Y[:, picked], mode="economic")
    return np.array([nnls(T, z)[0] for z in (Q.T @ Y).T]).T
