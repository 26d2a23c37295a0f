"""The last pass of a fit: statistics of the final model, and a summary of its memberships."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.arrays import to_host
from dbmd.data.block import Chunk
from dbmd.h_step import HStep
from dbmd.model.evidence import Evidence
from dbmd.model.gaps import Gaps
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.node import Node
from dbmd.model.parts import Parts
from dbmd.model.peaks import Peaks, peaks_of
from dbmd.model.profile import Profile
from dbmd.model.statistics import Float, PerSource, Statistics
from dbmd.model.uncertainty import Squares
from dbmd.sweep import empty_memberships, one_pass


@dataclass(frozen=True)
class Survey:
    """The reply of the last sweep of a fit. It adds.

    Attributes
    ----------
    stats : PerSource[Statistics]
        Of the final model.
    profile : Profile
        Counts and histograms of its memberships.
    peaks : Peaks
        Memberships of some samples, and what their standard deviations follow from.
    squares : PerSource[Squares]
        What the uncertainty of W needs.
    """

    stats: PerSource[Statistics]
    profile: Profile
    peaks: Peaks
    squares: PerSource[Squares]

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            self.stats + other.stats,
            self.profile + other.profile,
            self.peaks + other.peaks,
            self.squares + other.squares,
        )


def survey(
    node: Node,
    V: Float,
    *,
    sigma2: Float,
    prior: Float,
    origin: Float,
    parts: Parts | None = None,
    evidence: Evidence | None = None,
    n_classes: int = 0,
    by_energy: bool = False,
) -> tuple[Node, Survey]:
    """Node: find the memberships from V and sigma alone, and send their statistics and profile.

    Parameters are those of :func:`dbmd.sweep.sweep`; ``n_classes`` is the number of known classes. The profile is that
    of the memberships without the dark component; with ``by_energy`` they are multiplied by the norms of the
    components.
    """
    parts = parts or Parts.plain(V)
    W = parts.W(V)
    profile = Profile.zero(len(sigma2), parts.n_components, n_classes)
    peaks = Peaks.empty(len(sigma2), parts)
    gaps: PerSource[Float] = PerSource()
    Ht = empty_memberships(node, W)
    h_step = HStep.prepare(
        node.samples,
        W,
        sigma2=sigma2,
        prior=prior,
        origin=origin,
        evidence=evidence,
        offsets=parts.offsets(V),
    )
    norms = parts.norms(V) if by_energy else None

    def count(chunk: Chunk, h: NDArray[Any]) -> None:
        nonlocal peaks, gaps
        if chunk.places is not None:
            gaps += PerSource({chunk.source_code: count_by_feature(chunk.places, W.shape[0], chunk.weights)})
        shares = parts.shares(h, norms)
        profile.count(shares, chunk.source_code, chunk.class_codes, chunk.weights)
        kept = kept_of(chunk, node.samples.first_row, peaks.sample)
        if len(kept):
            drawn = drawn_from(chunk, shares, kept, node.samples.first_row, peaks.sample)
            peaks += peaks_of(drawn, *h_step.peaks(chunk, h, kept))

    found = one_pass(node, h_step, origin, Ht, warm=False, norms=True, on_chunk=count)
    stats = PerSource({c: each.stats for c, each in found.items()})
    rest, none = origin - h_step.shift, np.zeros(len(W))
    squares = PerSource({c: Squares.of(each.sums, rest, gaps.get(c, none)) for c, each in found.items()})
    return replace(node, Ht=Ht), Survey(stats, profile, peaks, squares)


def count_by_feature(places: Gaps, m: int, weights: NDArray[Any] | None) -> Float:
    """Return the number of gaps of each of m features, shape (m,), counted by the weights of their samples."""
    if weights is None:
        return to_host(np.bincount(places.columns, minlength=m)).astype(np.float64)
    # Here: elsewhere, the order of such a sum may differ from run to run.
    of_each = np.repeat(to_host(weights), to_host(places.counts))
    return np.bincount(to_host(places.columns), of_each, m).astype(np.float64)


def kept_of(chunk: Chunk, first_row: int, before: MembershipSample) -> NDArray[np.intp]:
    """Return the positions of the samples of a chunk that may be kept beside those before them.

    Parameters
    ----------
    chunk : Chunk
        The samples.
    first_row : int
        Number of the first row of the block in the whole data.
    before : MembershipSample
        What they will be added to.
    """
    rows = first_row + chunk.numbers
    if chunk.weights is None:
        return before.candidates(rows, chunk.source_code)
    counted = np.flatnonzero(chunk.weights > 0.0)
    return to_host(counted)[before.candidates(rows[counted], chunk.source_code)]


def drawn_from(
    chunk: Chunk,
    shares: NDArray[Any],
    kept: NDArray[np.intp],
    first_row: int,
    before: MembershipSample,
) -> MembershipSample:
    """Return some samples of a chunk.

    Parameters
    ----------
    chunk : Chunk
        The samples.
    shares : array of shape (rows, r)
        Their memberships.
    kept : array of int
        Positions in the chunk of those that are kept.
    first_row : int
        Number of the first row of the block in the whole data.
    before : MembershipSample
        What it will be added to.
    """
    rows = chunk.rows.start + kept if isinstance(chunk.rows, slice) else to_host(chunk.rows[kept])
    none = np.full(len(kept), -1)
    return replace(
        before,
        rows=first_row + rows.astype(np.int64),
        source_codes=np.full(len(kept), chunk.source_code, np.int64),
        class_codes=(none if chunk.class_codes is None else to_host(chunk.class_codes[kept])).astype(np.int64),
        memberships=to_host(shares[kept]).astype(np.float64),
    )
