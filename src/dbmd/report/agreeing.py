"""Patterns that two halves of the data agree on, and those that they do not."""

from __future__ import annotations

from typing import Any

from dbmd.report.numbers import plural
from dbmd.report.plain import number

# The correlation of memberships from which two halves have found the same pattern. A number of components is proposed
# from 0.985 on, mostly, over several splits (model/stability.py); of a single pattern and split, less is asked.
AGREED = 0.9
NAMED = 8  # most patterns that are named in a sentence


def describe_agreement(model: Any, k: int) -> dict[str, Any]:
    """Return the agreement of two halves of the data on a component, and whether it is in doubt; None if unknown."""
    found = getattr(model, "agreement_", None)
    agreement = None if found is None else number(found[k])
    return {"agreement": agreement, "doubtful": agreement is not None and agreement < AGREED}


def in_the_summary(d: dict[str, Any]) -> list[str]:
    """Return how many patterns both halves of the data have, in one sentence; nothing if no halves were fitted."""
    known = [cluster for cluster in d["clusters"] if cluster["agreement"] is not None]
    if not known:
        return []
    doubtful = [cluster["name"] for cluster in known if cluster["doubtful"]]
    if not doubtful:
        return ["Two halves of the data, fitted on their own, agree on all patterns."]
    if len(doubtful) == len(known):
        return [
            "Two halves of the data, fitted on their own, agree on none of the patterns: they depend on which samples "
            "were seen. Try fewer."
        ]
    names = ", ".join(doubtful[:NAMED]) + (", ..." if len(doubtful) > NAMED else "")
    return [
        f"Two halves of the data, fitted on their own, do not agree on {plural(len(doubtful), 'pattern')} of "
        f"{len(known)}, marked with a question mark: {names}. What depends on which samples were seen may not be real."
    ]
