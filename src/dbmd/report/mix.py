"""How the samples of each source fall into the clusters, in numbers and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.model.profile import Profile
from dbmd.report.numbers import amount, percent
from dbmd.report.plain import number, numbers

EVEN = 0.05  # sources are alike if no cluster's part of them differs by more than this
APART = 0.1  # distance from the mix of all samples from which a source is said to stand apart
FEW = 20  # samples of a source below which its mix says little
ALONE = 0.9  # of the parts of a cluster in all sources, what the one that holds it alone has


def describe_mix(
    profile: Profile, sources: NDArray[np.intp], clusters: NDArray[np.intp], names: Sequence[str]
) -> dict[str, Any]:
    """Return how the samples of each source fall into the clusters, and where sources differ.

    Parameters
    ----------
    profile : Profile
        Of the fit.
    sources, clusters : array of int
        Those that are shown, in their order.
    names : sequence of str, one for each cluster shown
        As they stand in a sentence.

    Returns
    -------
    dict
        ``fractions`` and ``counts`` by source and cluster; ``overall``, the mix of all samples; ``distance`` of each
        source, the fraction of its memberships that would have to be in another cluster to have the mix of all (total
        variation). ``gap`` is the largest difference between two sources in one cluster, among sources with samples
        enough to tell, and ``alone`` the clusters that only one of these has, both by the places of those shown.
    """
    parts = profile.sizes / np.maximum(profile.sizes.sum(axis=1, keepdims=True), 1e-300)
    overall = profile.sizes.sum(axis=0) / max(profile.sizes.sum(), 1e-300)
    distance = np.abs(parts - overall).sum(axis=1) / 2 * (profile.n > 0)
    shown, held = parts[np.ix_(sources, clusters)], profile.n[sources]
    compared = np.flatnonzero(held >= FEW)
    if len(compared) < 2:
        compared = np.flatnonzero(held > 0)
    return {
        "fractions": numbers(shown),
        "counts": numbers(profile.counts[np.ix_(sources, clusters)]),
        "overall": numbers(overall[clusters]),
        "distance": numbers(distance[sources]),
        "compared": len(compared),
        "gap": _gap(shown, compared, names),
        "alone": _alone(shown, profile.counts[:, clusters].sum(axis=0), compared, names),
    }


def _gap(shown: NDArray[Any], compared: NDArray[np.intp], names: Sequence[str]) -> dict[str, Any] | None:
    if len(compared) < 2:
        return None
    own = shown[compared]
    k = int(np.ptp(own, axis=0).argmax())
    high, low = int(own[:, k].argmax()), int(own[:, k].argmin())
    return {
        "cluster": names[k],
        "high": {"source": int(compared[high]), "fraction": number(own[high, k])},
        "low": {"source": int(compared[low]), "fraction": number(own[low, k])},
    }


def _alone(
    shown: NDArray[Any], counts: NDArray[Any], compared: NDArray[np.intp], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the clusters, of some samples, that one source has and the others hardly have."""
    if len(compared) < 2:
        return []
    own = shown[compared]
    largest = own.max(axis=0) > ALONE * np.maximum(own.sum(axis=0), 1e-300)
    return [
        {"cluster": names[k], "source": int(compared[own[:, k].argmax()])}
        for k in np.flatnonzero(largest & (counts >= FEW)).tolist()
    ]


def mix(d: dict[str, Any]) -> list[str]:
    """Return how much the sources differ in the clusters that their samples fall into."""
    found, names = d["mix"], [source["name"] for source in d["sources"]]
    gap = found["gap"]
    if gap is None:
        return ["Only one source has samples: there is nothing to compare."]
    high, low = gap["high"], gap["low"]
    most = high["fraction"] - low["fraction"]
    few = "" if found["compared"] == sum(source["n"] > 0 for source in d["sources"]) else f" of {FEW} samples or more"
    if most < EVEN and not found["alone"]:
        return [
            f"All sources{few} have nearly the same mix of clusters: no cluster's part of the memberships differs by "
            f"more than {amount(100 * most, 2)} percentage points between two of them. A cluster that occurs in "
            "one source only would suggest that the sources differ in more than noise; there is none."
        ]
    sentences = [
        f"The sources{few} differ most in {gap['cluster']}: it has {percent(high['fraction'])} of the memberships of "
        f"{names[high['source']]}, and {percent(low['fraction'])} of those of {names[low['source']]}."
    ]
    distance = [value or 0.0 for value in found["distance"]]
    furthest = max(range(len(distance)), key=distance.__getitem__)
    if distance[furthest] >= APART:
        name = names[furthest]
        sentences.append(
            f"{name[:1].upper() + name[1:] if name.startswith('source ') else name} is furthest from the mix of all "
            f"samples: to match it, {percent(distance[furthest])} of its memberships would have to move to other "
            "clusters."
        )
    sentences += [
        f"Hardly any source but {names[held['source']]} has {held['cluster']}." for held in found["alone"][:3]
    ]
    sentences.append(
        "If a cluster occurs in one source only, check whether it is a group of samples or an effect of the source."
    )
    return sentences
