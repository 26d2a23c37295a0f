"""The report's sentences."""

from __future__ import annotations

import math
from typing import Any

from dbmd.report import agreeing, crisp
from dbmd.report.classes import classes
from dbmd.report.crisp import memberships
from dbmd.report.mix import mix
from dbmd.report.numbers import amount, duration, part, percent, plural

__all__ = [
    "amount",
    "basis",
    "classes",
    "clusters",
    "convergence",
    "figures",
    "headline",
    "memberships",
    "mix",
    "noise",
    "offsets",
    "percent",
    "plural",
    "preparation",
    "summary",
    "units",
]

Description = dict[str, Any]

TOO_GOOD = 0.01  # relative to the noise of the median source: less is suspicious

DIFFERENCE = (
    "The difference from the mean of all patterns, weighted by their sizes, shows what distinguishes a cluster."
)

SCALINGS = {
    "standard": "each feature was divided by its standard deviation",
    "minmax": "each feature was divided by its range",
    "sum": "each sample was divided by its sum",
    "l2": "each sample was divided by its norm",
}


def headline(d: Description) -> str:
    """Return the report in one line."""
    line = f"{plural(d['n_clusters'], 'cluster')} in {plural(d['n_samples'], 'sample')}"
    return line if d["n_sources"] == 1 else f"{line} from {plural(d['n_sources'], 'source')}"


def figures(d: Description) -> list[tuple[str, str]]:
    """Return the key figures, each with what it counts."""
    found = [
        (f"{d['n_samples']:,}", "samples"),
        (f"{d['n_features']:,}", "features"),
        (f"{d['n_clusters']:,}", "clusters"),
    ]
    if d["n_sources"] > 1:
        found.append((f"{d['n_sources']:,}", "sources"))
    if d["fit"]["explained"] is not None:
        found.append((percent(d["fit"]["explained"]), "of variation explained"))
    if d["classes"]:
        found.append((percent(d["classes"]["accuracy"]), "accuracy"))
    return found


def summary(d: Description) -> list[str]:
    """Return what was found, one sentence for each thing."""
    shared = " that all sources share" if d["n_sources"] > 1 else ""
    sentences = [
        f"Every sample is described as a mixture of {plural(d['n_clusters'], 'pattern')}{shared}. "
        "Its memberships say how much of each pattern it contains.",
        *preparation(d),
    ]
    explained = d["fit"]["explained"]
    what = "the patterns" if d["offsets"] is None else "patterns and offsets"
    if explained is not None and explained <= 0:
        sentences.append(f"Overall, {what} explain the variation in the data no better than their mean does.")
    elif explained is not None:
        sentences.append(
            f"Together {what} explain {percent(explained)} of the variation in the data"
            f"{_from_to(d['sources'])}; the rest is regarded as noise."
        )
    if d["n_sources"] > 1 and d["fit"]["noise"] == "source":
        sentences.append(_noisiest(d))
    sentences += crisp.in_the_summary(d) + agreeing.in_the_summary(d)
    if d["classes"]:
        sentences.append(
            f"The clusters were found without the labels, and agree with {part(d['classes']['accuracy'])} of them."
        )
    sentences.append(_stopped(d["fit"]))
    return sentences


def preparation(d: Description) -> list[str]:
    """Return what was done to the data, and which parts the model has besides patterns and noise."""
    found, sentences = d["preparation"], []
    done = ["the logarithm of one plus each value was taken"] if found["log"] else []
    done += [SCALINGS[found["scaling"]]] if found["scaling"] else []
    if done:
        sentences.append(f"Before the fit, {' and '.join(done)}.")
    if found["n_known"]:
        free = d["n_clusters"] - found["n_known"]
        rest = f"; the other {plural(free, 'pattern')} {'was' if free == 1 else 'were'} found" if free else ""
        sentences.append(
            f"{plural(found['n_known'], 'pattern')} {'was' if found['n_known'] == 1 else 'were'} known{rest}."
        )
    if found["brightness"]:
        sentences.append(
            "Each sample has a brightness between 0 and 1, relative to the brightest. Memberships say what it consists "
            "of, however bright it is."
        )
    if d["offsets"] is not None:
        sentences.append("Each source has an offset, which is added to all of its samples.")
    if found["missing_fraction"]:
        sentences.append(
            f"About {part(found['missing_fraction'])} of the values are missing; those that are there were used."
        )
    if found["left_out"]:
        were = "sample was" if found["left_out"] == 1 else "samples were"
        sentences.append(f"{found['left_out']:,} {were} left out, because values are missing or their weight is zero.")
    return sentences


def units(d: Description, of: str = "unit") -> str:
    """Return the units of the noise levels, or of offsets ("offset_unit"), as a part of a sentence."""
    unit = d["preparation"][of]
    return "in the units of the data" if unit == "the data" else f"in units of {unit}"


def noise(d: Description) -> list[str]:
    """Return what the noise levels mean."""
    sources, kind = d["sources"], d["fit"]["noise"]
    sigma = amount(sources[0]["sigma"])
    about = f"about {sigma} {units(d)} (standard deviation of one value)"
    if kind == "fixed":
        return [f"The noise level was given, not inferred: {about}. Every sample counts the same."]
    if d["n_sources"] == 1:
        return [
            f"There is one source. Its noise, which the patterns do not explain, is {about}.",
            "If your samples come from several labs, machines or batches, name them as sources: each source then has a "
            "noise level of its own, and noisy sources count for less.",
        ]
    if kind == "shared":
        return [f"The model has one noise level for all sources, as requested: {about}. Every sample counts the same."]
    first, last = sources[0], sources[-1]
    sentences = [_noisiest(d)]
    if last["weight"] is not None and last["weight"] < 0.8:
        sentences.append(
            "The weight of a sample is its precision, one divided by the square of the noise. Relative to a sample of "
            f"{first['name']}, a sample of {last['name']} has the weight {amount(last['weight'], 2)}: all "
            f"{last['n']:,} of them count as much as {amount(last['worth'], 2)} samples of {first['name']}."
        )
    if first["sigma"] < TOO_GOOD * sources[len(sources) // 2]["sigma"]:
        sentences.append(
            f"So little noise means that the patterns reproduce {first['name']} almost exactly. If a source has hardly "
            "more samples than there are patterns, this is overfitting: do not rely on its noise level."
        )
    sentences.append(
        "Noise is everything that the patterns cannot express: misfit of the model as well as errors of measurement."
    )
    return sentences


def offsets(d: Description) -> list[str]:
    """Return how large the offsets of the sources are."""
    found = d["offsets"]
    largest = max(found, key=lambda source: source["size"] or 0.0)
    sentences = []
    if largest["size"]:
        sigma = next(source["sigma"] for source in d["sources"] if source["name"] == largest["name"])
        same_units = sigma and d["preparation"]["unit"] == d["preparation"]["offset_unit"]
        beside = f", {amount(largest['size'] / sigma, 2)} times its noise" if same_units else ""
        sentences.append(
            f"The largest offset is that of {largest['name']}: {amount(largest['size'])} {units(d, 'offset_unit')} "
            f"(root mean square over the features){beside}."
        )
    sentences.append(
        "An offset is what distinguishes a source as a whole. It is the same for all of its samples, and not part of "
        "the patterns. It cannot be told from memberships if sources hold different mixtures on average."
    )
    return sentences


def clusters(d: Description) -> list[str]:
    """Return how the samples fall into clusters."""
    shown = d["clusters"]
    largest, used = shown[0], [cluster for cluster in shown if cluster["count"]]
    sentences = [
        f"The largest cluster, {largest['name']}, has {percent(largest['fraction'])} of all memberships"
        + (
            f"; the smallest one in use, {used[-1]['name']}, has {percent(used[-1]['fraction'])}."
            if len(used) > 1
            else "."
        )
    ]
    empty = len(shown) - len(used)
    if empty:
        sentences.append(
            f"{plural(empty, 'cluster')} {'is' if empty == 1 else 'are'} no sample's largest membership: "
            "such a cluster only contributes to mixtures, or is not needed."
        )
    if d["weighted"]:
        sentences.append(
            "The samples have weights. Bars show sums of memberships, each times the weight of its sample; dots count "
            "samples by their largest membership, each once, whatever its weight. Both are parts of all, in per cent."
        )
        return sentences
    sentences.append(
        "Bars show sums of memberships, dots the number of samples whose largest membership is in the cluster. A dot "
        "beyond the bar: the cluster is the largest part of many mixtures. A dot inside: it is often a smaller part."
    )
    return sentences


def basis(d: Description) -> list[str]:
    """Return what the picture of the basis shows."""
    shown = d["basis"]
    if shown["kind"] == "images":
        sentences = _pure(d)
        if "difference" in shown:
            sentences.append(DIFFERENCE)
        return sentences
    if shown["total"] > len(shown["features"]):
        which = (
            f"Of {shown['total']:,} features, the {len(shown['features'])} in which the patterns differ most are "
            "shown, some for each pattern."
        )
    else:
        which = "A row is a feature, a column the pattern of one cluster."
    # Not everybody knows that patterns can be shown as pictures.
    side = math.isqrt(shown["total"])
    hint = f"If the features are pixels, give the shape of the images, such as {side} by {side}, to see the patterns."
    square = not shown["named"] and side * side == shown["total"] and side >= 8
    return [
        which,
        DIFFERENCE + (" The features differ in range, so each has its own colour scale." if shown["own_scale"] else ""),
        *([hint] if square else []),
    ]


def _pure(d: Description) -> list[str]:
    """Return what a picture of a pattern shows: what a sample looks like only if there are samples that pure."""
    extrapolated = [cluster for cluster in d["clusters"] if not cluster["pure"]]
    alone = "a sample that belongs to this cluster alone looks like it"
    if not extrapolated:
        return [f"Each picture is one pattern: {alone}."]
    if len(extrapolated) == len(d["clusters"]):
        return [
            "Each picture is one pattern. The patterns are extrapolated from mixtures: no sample clearly belongs to "
            "one of them alone (0.9 or more), so none looks quite like these pictures."
        ]
    names = ", ".join(cluster["name"] for cluster in extrapolated[:8]) + (", ..." if len(extrapolated) > 8 else "")
    which = f"Pattern {names} is" if len(extrapolated) == 1 else f"Patterns {names} are"
    return [
        f"Each picture is one pattern: {alone}.",
        f"{which} extrapolated from mixtures: no sample clearly belongs there alone (0.9 or more), so none looks quite "
        "like the picture.",
    ]


def convergence(d: Description) -> list[str]:
    """Return how the fit went."""
    found = d["convergence"]
    sentences = [_stopped(d["fit"])]
    if d["fit"]["inference"] == "evidence":
        return sentences + _end_of_evidence(d["fit"])
    if found["gain"] is None or found["gain"] <= 0:
        return sentences
    if found["total"] > 2:
        sentences.append(
            f"Half of the decrease was reached by iteration {found['half']:,}, nine tenths by iteration "
            f"{found['most']:,}; the last iteration contributed {part(found['last'])} of it."
        )
    sentences.append(
        "The objective, the negative log posterior, never increases. Use it to compare fits of the same data; "
        "its value alone has no meaning."
    )
    return sentences


def _end_of_evidence(fit: Description) -> list[str]:
    sentences = []
    if fit["change"] is not None:
        near = part(fit["change"])
        sentences.append(
            f"Judging by the last step, the patterns are within {near} of their limit, relative to the distances "
            "between them."
        )
    if fit["effective_features"] is not None:
        count = amount(fit["effective_features"], 2)
        sentences.append(f"For the memberships, the noise is equivalent to that of {count} independent features.")
    sentences.append(
        "The objective is the negative log evidence: memberships are integrated out. It may increase when samples "
        "enter or leave clusters. Use it to compare fits of the same data; its value alone has no meaning."
    )
    return sentences


def _noisiest(d: Description) -> str:
    first, last = d["sources"][0], d["sources"][-1]
    factor = last["sigma"] / first["sigma"] if first["sigma"] else None
    if factor is not None and factor < 1.1:
        return f"All sources are about equally noisy: their noise levels differ by a factor of {factor:.2f} at most."
    by = f"{amount(factor, 2)} times" if factor is not None else "above"
    return f"The noisiest source is {last['name']}: its noise is {by} that of {first['name']}, the quietest."


def _stopped(fit: Description) -> str:
    after = f"after {plural(fit['iterations'], 'iteration')}"
    if fit["seconds"] is not None:
        after += f", in {duration(fit['seconds'])}"
    if fit["converged"] is None:
        return f"The fit stopped {after}."
    if fit["converged"]:
        return f"The fit converged {after}."
    return f"The fit did not converge: it was stopped {after}. Raise max_iter, or tol if this is good enough."


def _from_to(sources: list[Description]) -> str:
    """Return in which sources most and least of the variation is explained, if they differ."""
    known = [source for source in sources if source["explained"] is not None]
    if len(known) < 2:
        return ""
    worst, *_, best = sorted(known, key=lambda source: source["explained"])
    if best["explained"] - worst["explained"] < 0.1:
        return ""
    return f" ({percent(best['explained'])} in {best['name']}, {percent(worst['explained'])} in {worst['name']})"
