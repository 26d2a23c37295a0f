"""How clusters and known classes agree, in numbers and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.metrics import agreement, match
from dbmd.model.profile import Profile
from dbmd.report.numbers import percent, plural
from dbmd.report.plain import number, numbers, text

CLASSES = 40  # most classes and clusters that are shown


def describe_classes(
    profile: Profile, labels: list[str], by_size: NDArray[np.intp], names: Sequence[Any] | None
) -> dict[str, Any]:
    """Return the confusion matrix, matched pairs on the diagonal, and how well clusters and classes agree."""
    counts = profile.contingency
    found = agreement(counts)
    # A pair without a sample in common is none: the matching only fills up with it.
    matched = {i: k for i, k in zip(*(side.tolist() for side in match(counts)), strict=True) if counts[i, k]}
    # Classes with the most samples stay, if there are too many; then all are in their own order.
    most = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:CLASSES]).tolist()
    rows = [i for i in most if i in matched] + [i for i in most if i not in matched]
    columns = [matched[i] for i in rows if i in matched]
    in_a_pair = set(matched.values())
    columns += [int(k) for k in by_size if k not in in_a_pair][: max(CLASSES - len(columns), 0)]
    return {
        "accuracy": number(found.accuracy),
        "ari": number(found.ari),
        "nmi": number(found.nmi),
        "total": len(labels),
        "n_labelled": int(counts.sum()),
        "pairs": sum(i in matched for i in rows),
        "rows": [labels[i] for i in rows],
        "unmatched": [labels[i] for i in rows if i not in matched],
        "columns": [str(k) if names is None else text(names[k]) for k in columns],
        "counts": numbers(counts[np.ix_(rows, columns)]),
        "sizes": numbers(counts.sum(axis=1)[rows]),
    }


def classes(d: dict[str, Any]) -> list[str]:
    """Return how well clusters and classes agree."""
    found = d["classes"]
    ari = round(found["ari"], 2) + 0.0  # not -0.00
    sentences = [
        "The labels were not used in the fit. A class is matched to one cluster at most, so that as many samples as "
        f"possible agree: {percent(found['accuracy'])} of {found['n_labelled']:,} do.",
        f"The adjusted Rand index is {ari:.2f}, the normalised mutual information {found['nmi']:.2f}; "
        "both are 1 for perfect agreement, and 0 if the clusters are unrelated to the classes.",
    ]
    pairs, rows, columns, counts = found["pairs"], found["rows"], found["columns"], found["counts"]
    mistakes = [
        (counts[i][j], i, j) for i in range(len(rows)) for j in range(len(columns)) if not (i == j and i < pairs)
    ]
    if mistakes and max(mistakes)[0]:
        count, i, j = max(mistakes)
        of = f"the cluster of {rows[j]}" if j < pairs else f"cluster {columns[j]}, which is matched to no class"
        sentences.append(f"The largest disagreement: {plural(count, 'sample')} of class {rows[i]} in {of}.")
    if found["unmatched"]:
        one = len(found["unmatched"]) == 1
        named = ", ".join(found["unmatched"][:8]) + (", ..." if len(found["unmatched"]) > 8 else "")
        sentences.append(
            f"1 class has no cluster of its own: {named}."
            if one
            else f"{len(found['unmatched']):,} classes have no cluster of their own: {named}."
        )
    return sentences
