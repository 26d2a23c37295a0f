"""The last pass of a fit: statistics of the final model, and a summary of its memberships."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.data.block import Chunk
from dbmd.h_step import HStep
from dbmd.model.evidence import Evidence
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.node import Node
from dbmd.model.parts import Parts
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
    sample : MembershipSample
        Memberships of some samples, with their standard deviations.
    squares : PerSource[Squares]
        What the uncertainty of W needs.
    """

    stats: PerSource[Statistics]
    profile: Profile
    sample: MembershipSample
    squares: PerSource[Squares]

    def __add__(self, other: Survey) -> Survey:
        return Survey(
            self.stats + other.stats,
            self.profile + other.profile,
            self.sample + other.sample,
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
    sample = MembershipSample.empty(len(sigma2), parts.n_components, with_std=True)
    squares: PerSource[Squares] = PerSource()
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
        nonlocal sample
        shares = parts.shares(h, norms)
        profile.count(shares, chunk.source_code, chunk.class_codes, chunk.weights)
        kept = kept_of(chunk, node.samples.first_row, sample)
        if len(kept):
            std = h_step.posterior(chunk, h, parts, norms=norms, rows=kept).std
            sample += drawn_from(chunk, shares, std, kept, node.samples.first_row, sample)

    def add_squares(chunk: Chunk, h: NDArray[Any]) -> None:
        nonlocal squares
        squares += PerSource({chunk.source_code: Squares.of(chunk.Xt, h, chunk.weights, chunk.places)})

    stats = one_pass(node, h_step, origin, Ht, warm=False, norms=True, on_chunk=count, on_filled=add_squares)
    rest = origin - h_step.shift
    squares = PerSource({c: each.about(rest, stats[c]) for c, each in squares.items()})
    return replace(node, Ht=Ht), Survey(stats, profile, sample, squares)


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
    counted = np.arange(len(rows)) if chunk.weights is None else np.flatnonzero(chunk.weights > 0.0)
    return counted[before.candidates(rows[counted], chunk.source_code)]


def drawn_from(
    chunk: Chunk,
    shares: NDArray[Any],
    std: Float,
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
    std : array of shape (number kept, r)
        Standard deviations of the memberships of those that are kept.
    kept : array of int
        Their positions in the chunk.
    first_row : int
        Number of the first row of the block in the whole data.
    before : MembershipSample
        What it will be added to.
    """
    rows = first_row + chunk.numbers
    none = np.full(len(kept), -1)
    return replace(
        before,
        rows=rows[kept].astype(np.int64),
        source_codes=np.full(len(kept), chunk.source_code, np.int64),
        class_codes=(none if chunk.class_codes is None else chunk.class_codes[kept]).astype(np.int64),
        memberships=shares[kept].astype(np.float64),
        std=std,
    )
