"""Findings: what a user should know about a fit, each with what to do, in words for Python and for the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.text import one_line, quoted
from dbmd.advice.columns import Columns
from dbmd.config import Config
from dbmd.model.profile import Profile

MOST = 0.9  # fraction of the variance from which one feature decides the result
FEW = 10  # samples: a component that leads fewer is hardly known
MANY = 300  # samples: among fewer, a cluster of some samples is nothing special
NAMED = 3  # so many are named, of sources and features
LENGTH = 60  # characters of a name
APART = 0.45  # fraction of memberships: sources that differ by more share too little to tell offsets from patterns
ALIKE = 2.0  # times the differences between offsets: if what they have in common is larger, it is no offset
LARGE = 5.0  # times the differences between patterns: offsets that are larger leave little to the patterns
MINUTE = 0.05  # times the differences between patterns: so small an offset does not matter
PRAISE = 0.95  # explained fraction of the variance that reads as praise


@dataclass(frozen=True)
class Finding:
    """What a user should know about a fit, and what to do.

    Attributes
    ----------
    kind : {"variance", "identifier", "noise", "source", "offsets", "pattern", "check"}
        What it is about.
    text : str
        One or two sentences, with parameters as in Python.
    command_text : str
        The same, with options of the command line.
    """

    kind: str
    text: str
    command_text: str

    def asdict(self) -> dict[str, str]:
        """Return a plain dictionary, as ``fit_info_["warnings"]`` has it."""
        return asdict(self)


def of_columns(found: Columns, config: Config, feature_names: Sequence[Any] | None) -> Iterator[Finding]:
    """Yield what the columns of the data ask for.

    Parameters
    ----------
    found : Columns
        What is odd about them.
    config : Config
        The parameters of the fit.
    feature_names : sequence of str, optional
        Names of the features.
    """
    if found.fraction > MOST and not found.is_alone and config.scaling != "standard":
        name = _feature(found.leading, feature_names)
        yield _finding(
            "variance",
            f"{name[0].upper()}{name[1:]} has {_percent(found.fraction)} of the variance of the data, so it alone "
            "decides the result. To give all features the same scale, set ",
            'scaling="standard"',
            "--scaling standard",
        )
    identifiers = [*found.rising, *found.distinct]
    if identifiers:
        listed = _listed([_feature(j, feature_names) for j in identifiers])
        several = len(identifiers) > 1
        why = "values rise or fall from row to row" if found.rising else "values are whole numbers that all differ"
        if found.rising and found.distinct:
            why = "values all differ"
        them = "them" if several else "it"
        drop = ""
        if feature_names is not None:
            drop = " with " + " ".join(f"--drop {quoted(str(feature_names[j]))}" for j in identifiers)
        yield _finding(
            "identifier",
            f"{listed[0].upper()}{listed[1:]} {'look like identifiers' if several else 'looks like an identifier'}: "
            f"{'their' if several else 'its'} {why}. Such numbers say nothing about a sample: ",
            f"leave {them} out",
            f"leave {them} out{drop}",
        )


def of_result(
    profile: Profile,
    is_at_floor: NDArray[np.bool_],
    config: Config,
    source_names: Sequence[Any],
    components: NDArray[np.float64],
    offsets: NDArray[np.float64] | None = None,
) -> Iterator[Finding]:
    """Yield what the result of a fit asks for.

    Parameters
    ----------
    profile : Profile
        Counts of the memberships.
    is_at_floor : array of bool of shape (n_sources,)
        Which noise levels are as low as they can be.
    config : Config
        The parameters of the fit.
    source_names : sequence of shape (n_sources,)
        The sources.
    components : array of shape (m, r)
        The components, as the data are fitted.
    offsets : array of shape (n_sources, m), optional
        The offsets of the sources, if they have any.
    """
    yield from of_noise(is_at_floor & (profile.n > 0), source_names)
    r, n = config.r, int(profile.n.sum())
    small = np.flatnonzero((profile.n > 0) & (profile.n < r)).tolist()
    if len(small) and (config.noise == "source" or config.offsets):
        listed = _listed([f"{_source(source_names[c])} ({_samples(profile.n[c])})" for c in small])
        several = len(small) > 1
        what = ("noise level" if config.noise == "source" else "offset") + ("s are" if several else " is")
        remedy = ("set ", 'noise="shared"', "--noise shared")
        if config.noise != "source":
            remedy = ("leave offsets out, ", "offsets=False", "--no-offsets")
        yield _finding(
            "source",
            f"{listed[0].upper()}{listed[1:]} {'have' if several else 'has'} fewer samples than there are components "
            f"({r}), so {'their' if several else 'its'} {what} unreliable. Put small sources together, or {remedy[0]}",
            *remedy[1:],
        )
    apart = np.flatnonzero(_distance_of_mixes(profile) > APART).tolist() if config.offsets else []
    if apart:
        listed = _listed([_source(source_names[c]) for c in apart])
        several = len(apart) > 1
        yield _finding(
            "offsets",
            f"{listed[0].upper()}{listed[1:]} {'hold' if several else 'holds'} other patterns than the rest of the "
            f"data. {'Their offsets' if several else 'Its offset'} cannot be told from these patterns: compare with a "
            "fit without offsets, ",
            "offsets=False",
            "--no-offsets",
        )
    elif offsets is not None and config.n_known < r:  # patterns that are known take nothing
        yield from _of_offsets(components, offsets[profile.n > 0])
    counts = profile.counts.sum(axis=0)
    few = np.flatnonzero((counts < FEW) & (np.arange(r) >= config.n_known)).tolist()
    if len(few) and n >= MANY and n >= 2 * FEW * r:
        listed = _listed([f"pattern {k} ({_samples(counts[k])})" for k in few])
        look = "Look at these samples: they may be outliers or errors. If not, try" if counts[few].any() else "Try"
        yield _finding(
            "pattern",
            f"{listed[0].upper()}{listed[1:]} {'lead' if len(few) > 1 else 'leads'} fewer than {FEW} samples. {look} "
            "fewer components, such as ",
            f"n_components={max(1, r - len(few))}",
            f"-k {max(1, r - len(few))}",
        )


def _of_offsets(components: NDArray[np.float64], offsets: NDArray[np.float64]) -> Iterator[Finding]:
    """Yield a finding if offsets, shape (n_sources, m), seem to hold what belongs to patterns, shape (m, r)."""
    middle = offsets.mean(axis=0)
    common, own, patterns = _size(middle), _size(offsets - middle), _size(components.T - components.mean(axis=1))
    why = ""
    if common > ALIKE * max(own, MINUTE * patterns):
        why = "The offsets of all sources are nearly the same, so they hold what belongs to the patterns"
    elif components.shape[1] > 1 and own > LARGE * patterns:
        why = (
            "Offsets are much larger than the differences between patterns, so they may hold patterns of single sources"
        )
    if why:
        yield _finding("offsets", f"{why}. Compare with a fit without offsets, ", "offsets=False", "--no-offsets")


def _size(vectors: NDArray[np.float64]) -> float:
    """Return the root mean square of the entries of vectors."""
    return float(np.sqrt(np.mean(np.square(vectors))))


def _distance_of_mixes(profile: Profile) -> NDArray[np.float64]:
    """Return which fraction of the memberships of each source would be others in the rest of the data, (n_sources,)."""
    own = profile.sizes
    rest = own.sum(axis=0) - own
    totals = [np.maximum(each.sum(axis=1, keepdims=True), np.finfo(float).tiny) for each in (own, rest)]
    distance = np.abs(own / totals[0] - rest / totals[1]).sum(axis=1) / 2.0
    return np.where((profile.n > 0) & (profile.n < profile.n.sum()), distance, 0.0)


def of_noise(is_at_floor: NDArray[np.bool_], source_names: Sequence[Any]) -> Iterator[Finding]:
    """Yield a finding if noise levels are as low as they can be.

    Parameters
    ----------
    is_at_floor : array of bool of shape (n_sources,)
        Which ones are.
    source_names : sequence of shape (n_sources,)
        The sources.
    """
    low = np.flatnonzero(is_at_floor).tolist()
    if not len(low):
        return
    of = "" if len(source_names) == 1 else f" of {_listed([_source(source_names[c]) for c in low])}"
    what = f"The noise level{of} is" if len(low) == 1 else f"The noise levels{of} are"
    text = (
        f"{what} at the lower limit: the patterns reproduce the samples up to rounding. This happens with about as "
        "many components as there are features or different samples, and where few features are much larger than "
        "all others. Try fewer components, or "
    )
    yield _finding("noise", text, 'scaling="standard"', "--scaling standard")


def says_much(explained: float | None, kinds: Collection[str]) -> bool:
    """Return whether the explained fraction of the variance is worth telling, beside findings of these kinds.

    Where one feature has almost all variance, or the patterns reproduce every sample, a high fraction is a part of the
    problem. Beside other findings it is told unless it would be read as praise.
    """
    if explained is None or {"variance", "identifier", "noise"} & set(kinds):
        return False
    return not kinds or explained < PRAISE


def _finding(kind: str, text: str, in_python: str, on_the_command_line: str) -> Finding:
    """Return a finding whose text ends with what to do."""
    return Finding(kind, f"{text}{in_python}.", f"{text}{on_the_command_line}.")


def _feature(number: int, names: Sequence[Any] | None) -> str:
    return f"feature {number}" if names is None else f"feature {one_line(names[number], LENGTH)!r}"


def _source(label: Any) -> str:
    return f"source {one_line(label, LENGTH)!r}" if isinstance(label, str) else f"source {label}"


def _samples(n: Any) -> str:
    return f"{n} sample{'' if n == 1 else 's'}"


def _listed(names: list[str]) -> str:
    """Return names as a part of a sentence."""
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _percent(fraction: float) -> str:
    return f"{100.0 * fraction:.0f}%" if fraction < 0.99 else "over 99%"
