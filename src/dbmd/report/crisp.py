"""How crisp the memberships are, by what the data say and not by what noise makes; in numbers and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.crispness import CLEAR, SURE, clear_probability
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.profile import BINS, Profile
from dbmd.report.numbers import amount, part
from dbmd.report.plain import number, numbers

MAJORITY = 0.5  # membership from which a sample belongs mostly to one cluster
CRISP, SOFT = 0.75, 0.4  # fractions of clear samples from which memberships are called crisp, soft
FLATTERED = 0.05  # by so much more samples look clear than are expected to be: noise makes them so

Description = dict[str, Any]


def at_peaks(largest: NDArray[Any]) -> dict[str, float | None] | None:
    """Return the fractions of samples whose largest membership is clear, a majority, or less, as if it were certain.

    Parameters
    ----------
    largest : array of int of shape (BINS,)
        Histogram of the largest memberships.
    """
    total = largest.sum()
    if not total:
        return None
    majority, clear = round(MAJORITY * BINS), round(CLEAR * BINS)
    return {
        "clear": number(largest[clear:].sum() / total),
        "mostly": number(largest[majority:clear].sum() / total),
        "mixed": number(largest[:majority].sum() / total),
    }


def certain(sample: MembershipSample | None, source_code: int) -> dict[str, float | None] | None:
    """Return the fractions of samples of a source that are clear, mostly one, mixed, or too noisy to say.

    A sample is clear, or not, if that has a probability of 0.95 or more (:mod:`dbmd.model.crispness`). Those that are
    not are mostly of one cluster or mixtures by the peak of their memberships.

    Parameters
    ----------
    sample : MembershipSample, optional
        Memberships of some samples with their standard deviations.
    source_code : int
        The source.

    Returns
    -------
    dict, or None if no standard deviations of this source are known
        ``clear``, ``mostly``, ``mixed``, ``unclear``, which sum to one; ``at_peaks``, the fraction that is clear by the
        peaks, as if these were certain, and ``expected``, the fraction that is expected to be clear.
    """
    if sample is None or sample.std is None:
        return None
    own = np.flatnonzero((sample.source_codes == source_code) & ~np.isnan(sample.memberships[:, 0]))
    if not len(own) or not np.isfinite(sample.std[own]).all():
        return None
    probability = clear_probability(sample.memberships[own], sample.std[own])
    peak = sample.memberships[own].max(axis=1)
    clear, not_clear = probability >= SURE, probability <= 1.0 - SURE
    return {
        "clear": number(clear.mean()),
        "mostly": number((not_clear & (peak >= MAJORITY)).mean()),
        "mixed": number((not_clear & (peak < MAJORITY)).mean()),
        "unclear": number((~clear & ~not_clear).mean()),
        "at_peaks": number((peak >= CLEAR).mean()),
        "expected": number(probability.mean()),
    }


def has_pure(profile: Profile, sample: MembershipSample | None) -> NDArray[np.bool_]:
    """Return for each component whether there are samples of it alone, shape (r,): with a membership of 0.9 or more.

    Where the uncertainty of memberships is known, these must be clear: noise puts samples into corners, too.
    """
    there: NDArray[np.bool_] = profile.memberships[:, round(CLEAR * BINS) :].sum(axis=1) > 0
    if sample is None or sample.std is None or not len(sample):
        return there
    known = ~np.isnan(sample.memberships[:, 0])
    H, std = sample.memberships[known], sample.std[known]
    clear = H[clear_probability(H, std) >= SURE].argmax(axis=1)
    return there & np.isin(np.arange(len(there)), clear)


def describe_memberships(profile: Profile, sample: MembershipSample | None) -> Description:
    """Return the histogram of the largest memberships, and how crisp all samples are: by their peaks, and in truth.

    Of each source some samples are known in detail; each source counts by all of its samples.
    """
    histogram = profile.largest.sum(axis=0)
    total = histogram.sum()
    if not total:
        return {"histogram": numbers(histogram), "median": None, "crispness": None, "certain": None}
    cumulative = np.cumsum(histogram) / total
    middle = int(np.searchsorted(cumulative, 0.5))
    before = cumulative[middle - 1] if middle else 0.0
    inside = (0.5 - before) / (cumulative[middle] - before)
    by_source = {c: certain(sample, c) for c in np.flatnonzero(profile.n).tolist()}
    known = {c: found for c, found in by_source.items() if found is not None}
    weight = sum(int(profile.n[c]) for c in known)
    return {
        "histogram": numbers(histogram),
        "median": number((middle + inside) / BINS),
        "crispness": at_peaks(histogram),
        "certain": {
            kind: number(sum(int(profile.n[c]) * (found[kind] or 0.0) for c, found in known.items()) / weight)
            for kind in ("clear", "mostly", "mixed", "unclear", "at_peaks", "expected")
        }
        if len(known) == len(by_source)
        else None,
    }


def in_the_summary(d: Description) -> list[str]:
    """Return how crisp the memberships are, in one sentence."""
    found = d["memberships"]["certain"] or d["memberships"]["crispness"]
    if not found:
        return []
    noisy = f", and {part(found['unclear'])} are too noisy to say" if found.get("unclear") else ""
    mixed = f"{part(found['mixed'])} are mixtures without a majority{noisy}."
    if d["warnings"]:  # no praise
        clear = part(found["clear"]).capitalize()
        return [f"{clear} of the samples have a membership of 0.9 or more in one cluster, {mixed}"]
    if found.get("unclear", 0.0) >= MAJORITY:
        return [
            f"{part(found['unclear']).capitalize()} of the samples are too noisy to say whether they belong to one "
            f"cluster alone; {part(found['clear'])} do, and {part(found['mixed'])} are mixtures without a majority."
        ]
    return [
        f"Memberships are {_crisp(found)}: {part(found['clear'])} of the samples belong clearly to one cluster, {mixed}"
    ]


def memberships(d: Description) -> list[str]:
    """Return how crisp the memberships are."""
    shown = d["memberships"]
    peaks, found = shown["crispness"], shown["certain"] or shown["crispness"]
    if not peaks:
        return []
    praised = not d["warnings"] and found.get("unclear", 0.0) < MAJORITY
    how = f"Memberships are {_crisp(found)}. " if praised else ""
    sentences = [
        f"{how}In half of the samples the largest {'one' if praised else 'membership'} is above "
        f"{amount(shown['median'], 2)}. The lowest possible value is {amount(1 / d['n_clusters'], 2)}, an even mixture "
        "of all clusters, and the highest is 1, one cluster alone.",
        f"{part(found['clear']).capitalize()} of the samples belong clearly to one cluster (0.9 or more), "
        f"{part(found['mostly'])} mostly (0.5 to 0.9), and {part(found['mixed'])} are mixtures without a majority.",
    ]
    if shown["certain"] is None:
        return [
            *sentences,
            "These are the most likely memberships. Noise moves them to the corners, so that noisy samples may look "
            "clearer than they are.",
        ]
    if found["unclear"]:
        sentences[1] = sentences[1].replace(", and ", ", ", 1).removesuffix(".") + (
            f", and {part(found['unclear'])} are too noisy to say whether they are clear."
        )
    return sentences + _flattered(d["sources"])


def _flattered(sources: Sequence[Description]) -> list[str]:
    """Return which source looks clearer than it is, if one does."""
    known = [source for source in sources if source["certain"] is not None]
    if not known:
        return []
    source = max(known, key=lambda each: each["certain"]["at_peaks"] - each["certain"]["expected"])
    found = source["certain"]
    if found["at_peaks"] - found["expected"] < FLATTERED:
        return []
    return [
        "Noise moves the most likely memberships to the corners, so that noisy samples look clearer than they are: "
        f"of {source['name']}, {part(found['at_peaks'])} look clear, and {part(found['expected'])} are expected to be."
    ]


def _crisp(found: dict[str, float]) -> str:
    if found["clear"] >= CRISP:
        return "crisp"
    return "soft" if found["clear"] >= SOFT or found["mixed"] < 0.5 else "strongly mixed"
