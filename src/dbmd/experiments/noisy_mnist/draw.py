"""Accuracy against the noise of the last group, overall and by group; and the error of proportions by batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbmd.experiments.experiment import Claim, Record, Table
from dbmd.experiments.style import MUTED, column, distinct, label, legend, new_figure, where

# name, colour, mark, line
LOOKS = {
    "k-means": ("k-means", "#8a8f98", "x", "-"),
    "k-means, same start": ("k-means from DBMD's start", "#8a8f98", "+", "--"),
    "nmf": ("NMF, rows normalised", "#a05195", "D", "-"),
    "shared": ("DBMD, one noise level", "#d1701a", "s", "-"),
    "source": ("DBMD, a level for each source", "#1b6ca8", "o", "-"),
}
ON_IMAGES = ("k-means", "k-means, same start", "shared", "source")
ON_MIXTURES = ("nmf", "shared", "source")
IMAGES = {"mnist": "MNIST", "digits": "digits (8 x 8 pixels)"}
TITLES = {"cellmix": "Real batches (cellmix)", "simulated": "SIMULATED batches"}
LAST = "standard deviation of the noise of the last group, sigma_3"
SHOWN = (0.0, 2.0, 4.0, 6.0, 8.0, 9.5)  # levels of the table, in units of sigma_2
FAR = 4.0  # from here on, in units of sigma_2, the last group is much noisier than the others
CLEARLY = 0.02  # in accuracy
MILD = 0.03  # in accuracy, beyond what the last group alone can cost


def draw(records: Sequence[Record], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures: accuracy and noise levels, accuracy by group, and the mixtures."""
    images, mixtures = where(records, part="images"), where(records, part="mixtures")
    return {"accuracy": _accuracy(images), "groups": _groups(images), "mixtures": _mixtures(mixtures)}


def _accuracy(images: list[Record]) -> Any:
    figure, axes = new_figure(1, 2, width=10.4, height=4.4, width_ratios=[1.6, 1.0])
    left, right = axes[0]
    levels = distinct(images, "last_sigma")
    for method in ON_IMAGES:
        _curve(left, levels, by_level(images, method, "accuracy"), method)
    left.axhline(images[0]["largest_class"], color=MUTED, lw=1, ls=":")
    left.annotate("all in one cluster", (levels[-1], images[0]["largest_class"]), xytext=(0, -3),
                  textcoords="offset points", ha="right", va="top", fontsize=8, color=MUTED)  # fmt: skip
    left.axhline(without_last_group(images, "source"), color=LOOKS["source"][1], lw=1, ls=":")
    left.annotate("the last group lost, and no more", (levels[0], without_last_group(images, "source")), xytext=(0, -3),
                  textcoords="offset points", va="top", fontsize=8, color=LOOKS["source"][1])  # fmt: skip
    left.set_ylim(0, None)
    runs = len(distinct(images, "run"))
    # On two lines: on one, it ran into the title of the panel beside it.
    label(left, f"{_title(images)}\nMean of {runs} runs, shaded: one standard deviation", LAST, "accuracy")
    _legend_below(figure, left)

    for name, method, value, style in (
        ("put in", "source", "sigmas", {"color": MUTED, "lw": 1}),
        ("found, one noise level", "shared", "sigmas_found", {"color": LOOKS["shared"][1], "marker": "s", "ls": ""}),
        (
            "found, a level for each source",
            "source",
            "sigmas_found",
            {"color": LOOKS["source"][1], "marker": "o", "ls": ""},
        ),
    ):
        lines = right.plot(levels, by_level(images, method, value).mean(axis=1), ms=4, **style)  # one for each group
        lines[0].set_label(name)
    label(right, "Noise levels", LAST, "standard deviation")
    legend(right)
    return figure


def _groups(images: list[Record]) -> Any:
    figure, axes = new_figure(1, 3, width=10.4, height=3.4, sharey=True)
    levels, sigmas = distinct(images, "last_sigma"), [*map(str, images[0]["sigmas"][:-1]), "sigma_3"]
    for group, ax in enumerate(axes[0]):
        for method in ON_IMAGES:
            _curve(ax, levels, by_level(images, method, "accuracy_by_group")[..., group], method)
        title = f"{images[0]['shares'][group]:.0%} of the images, noise {sigmas[group]}"
        label(ax, title, "sigma_3", "accuracy within the group" if group == 0 else "")
    axes[0, 0].set_ylim(0, None)
    _legend_below(figure, axes[0, 0])
    return figure


def _mixtures(mixtures: list[Record]) -> Any:
    sets = distinct(mixtures, "data")
    figure, axes = new_figure(len(sets), 2, width=10.4, height=0.6 + 3.2 * len(sets), sharey="row")
    for (left, right), data in zip(axes, sets, strict=True):
        own = where(mixtures, data=data)
        most = where(own, genes=max(distinct(own, "genes")))
        batches = [f"batch {c + 1}\n{depth:,.0f} counts" for c, depth in enumerate(own[0]["depths"])]
        _dots(left, batches, {m: column(where(most, method=m), "error_by_batch").T for m in ON_MIXTURES})
        genes = distinct(own, "genes")
        by_genes = {m: np.array([column(where(own, method=m, genes=n), "error") for n in genes]) for m in ON_MIXTURES}
        _dots(right, [f"{n:,} genes" for n in genes], by_genes)
        for ax in (left, right):
            ax.axhline(own[0]["error_of_equal_parts"], color=MUTED, lw=1, ls=":")
        right.annotate("equal parts for all", (1.0, own[0]["error_of_equal_parts"]), xycoords=("axes fraction", "data"),
                       xytext=(0, 3), textcoords="offset points", ha="right", fontsize=8, color=MUTED)  # fmt: skip
        left.set_ylim(0, None)
        label(left, f"{TITLES[data]}, {max(genes):,} genes", "", "mean absolute error of a proportion")
        label(right, "All batches (a mark for each start, bar: median)", "", "")
    _legend_below(figure, axes[0, 0])
    return figure


def _title(images: list[Record]) -> str:
    return f"{images[0]['n']:,} images of {IMAGES[images[0]['data']]}"


def _legend_below(figure: Any, ax: Any) -> None:
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def _curve(ax: Any, levels: Sequence[float], values: NDArray[np.float64], method: str) -> None:
    """Draw mean and standard deviation of values, shape (n_levels, n_runs)."""
    name, colour, mark, line = LOOKS[method]
    mean, spread = values.mean(axis=1), values.std(axis=1)
    ax.plot(levels, mean, color=colour, marker=mark, ms=4.5, lw=1.5, ls=line, label=name)
    ax.fill_between(levels, mean - spread, mean + spread, color=colour, alpha=0.15, lw=0)


def _dots(ax: Any, places: Sequence[str], values: Mapping[str, NDArray[np.float64]]) -> None:
    """Draw values by method, each of shape (n_places, n_runs): a mark for each, and a bar at their median."""
    for number, (method, found) in enumerate(values.items()):
        name, colour, mark, _ = LOOKS[method]
        x = np.arange(len(places)) + 0.26 * (number - (len(values) - 1) / 2)
        spread = np.linspace(-0.07, 0.07, found.shape[1])
        ax.plot((x[:, None] + spread).ravel(), found.ravel(), mark, color=colour, ms=3.5, alpha=0.5, mew=0, label=name)
        ax.hlines(np.median(found, axis=1), x - 0.11, x + 0.11, color=colour, lw=2)
    ax.set_xticks(range(len(places)), places)


def by_level(images: Sequence[Record], method: str, name: str) -> NDArray[np.float64]:
    """Return a value by noise level of the last group and run, shape (n_levels, n_runs, ...)."""
    own = where(images, method=method)
    return np.array([column(where(own, last_sigma=level), name) for level in distinct(own, "last_sigma")])


def without_last_group(images: Sequence[Record], method: str) -> float:
    """Return what is left of a method if the last group falls to chance and the others stay as they are at first.

    Nobody can cluster images under noise of many times their own range; more than this need not be lost.
    """
    groups = by_level(images, method, "accuracy_by_group")[0].mean(axis=0)
    groups[-1] = images[0]["largest_class"]
    return float(np.average(groups, weights=images[0]["shares"]))


def table(records: Sequence[Record], about: Mapping[str, Any]) -> Table:
    """Return accuracies by noise level, and errors by data set, genes and batch."""
    images, mixtures = where(records, part="images"), where(records, part="mixtures")
    rows = []
    for level in distinct(images, "last_sigma"):
        own = where(images, last_sigma=level)
        if np.isclose(SHOWN, level / own[0]["sigmas"][1]).any():
            found = {m: column(where(own, method=m), "accuracy") for m in ON_IMAGES}
            rows.append(
                (f"accuracy, sigma_3 = {level:g}", {m: f"{v.mean():.3f} ± {v.std():.3f}" for m, v in found.items()})
            )
    for data in distinct(mixtures, "data"):
        for genes in distinct(mixtures, "genes"):
            own = where(mixtures, data=data, genes=genes)
            what = f"error, {data}, {genes:,} genes"
            rows.append((what, {m: _median(column(where(own, method=m), "error")) for m in ON_MIXTURES}))
        by_batch = {m: column(where(own, method=m), "error_by_batch") for m in ON_MIXTURES}
        rows += [
            (f"{what}, batch {c + 1}", {m: _median(v[:, c]) for m, v in by_batch.items()})
            for c in range(len(own[0]["depths"]))
        ]
    return Table(
        ("", *(name for name, *_ in LOOKS.values())),
        tuple((what, *(entries.get(method, "") for method in LOOKS)) for what, entries in rows),
        "Accuracy: mean ± standard deviation over runs. Error: mean absolute error of a proportion, median over "
        "starts, in brackets the largest. The paper prints no numbers for its figure. It says that k-means drops "
        "sharply and is unstable, that all of its methods decline mildly, and that those which weigh the sources "
        "(ADMM, CEASE) are slightly better than the one that does not (AGD) where sigma_3 > 6.5.",
    )


def _median(values: NDArray[np.float64]) -> str:
    return f"{np.median(values):.3f} ({values.max():.3f})"


def claims(records: Sequence[Record], about: Mapping[str, Any]) -> list[Claim]:
    """Say what a level for each source gains, and whether accuracy falls mildly."""
    images, mixtures = where(records, part="images"), where(records, part="mixtures")
    return [*_claims_on_weights(images), *_claims_on_decline(images), *_claims_on_mixtures(mixtures)]


def _claims_on_weights(images: list[Record]) -> list[Claim]:
    levels = np.array(distinct(images, "last_sigma"))
    shared = by_level(images, "shared", "accuracy")
    gain, error = _paired(by_level(images, "source", "accuracy") - shared)
    alike, alike_error = _paired(by_level(images, "source, same iterations", "accuracy") - shared)
    least, least_alike, far = int(gain.argmin()), int(alike.argmin()), levels >= FAR * images[0]["sigmas"][1]
    iterations = [column(where(images, method=m), "iterations").mean() for m in ("source", "shared")]
    put_in, found = (by_level(images, "source", name).mean(axis=1)[:, 1:] for name in ("sigmas", "sigmas_found"))
    seen = put_in >= images[0]["sigmas"][1]
    off = np.abs(found[seen] / put_in[seen] - 1).max()
    lowest = float(by_level(images, "source", "sigmas_found")[..., 0].mean())
    return [
        Claim(
            "A level for each source is at least as accurate as one for all, whatever sigma_3: the difference is at "
            f"least {gain[least]:+.3f} ± {error[least]:.3f} (at sigma_3 = {levels[least]:g}).",
            bool((gain >= -2 * error).all()),
        ),
        Claim(
            f"It is so after equally many iterations (left alone, it takes {iterations[0]:.0f} and one level for all "
            f"{iterations[1]:.0f}, on average): the difference is at least {alike[least_alike]:+.3f} ± "
            f"{alike_error[least_alike]:.3f} (at sigma_3 = {levels[least_alike]:g}).",
            bool((alike >= -2 * alike_error).all()),
        ),
        Claim(
            f"It is clearly more accurate, by {CLEARLY} or more, for sigma_3 >= {FAR * images[0]['sigmas'][1]:g}: by "
            f"{gain[far].min():.3f} to {gain[far].max():.3f}.",
            bool((gain[far] >= CLEARLY).all() and (gain[far] > 2 * error[far]).all()),
        ),
        Claim(
            f"The noise levels found are those put in, where they are as large as sigma_2: {off:.1%} off at most. For "
            f"{images[0]['sigmas'][0]:g} it finds {lowest:.2g}: what the components leave of the images counts, too.",
            bool(off < 0.1),
        ),
    ]


def _claims_on_decline(images: list[Record]) -> list[Claim]:
    ends = {m: by_level(images, m, "accuracy").mean(axis=1)[[0, -1]] for m in ON_IMAGES}
    mild = [
        Claim(
            f"{LOOKS[method][0]}: accuracy declines mildly, from {ends[method][0]:.3f} to {ends[method][1]:.3f}; "
            f"{without_last_group(images, method):.3f} is left if the last group is lost and no more.",
            bool(ends[method][1] >= without_last_group(images, method) - MILD),
        )
        for method in ("shared", "source")
    ]
    k_means, helped = ends["k-means"], ends["k-means, same start"]
    return [
        *mild,
        Claim(
            f"k-means falls, from {k_means[0]:.3f} to {k_means[1]:.3f} (all in one cluster: "
            f"{images[0]['largest_class']:.3f}), and not by its start alone: from that of DBMD, it falls from "
            f"{helped[0]:.3f} to {helped[1]:.3f}.",
            bool(max(k_means[1], helped[1]) < 0.5 * ends["source"][1]),
        ),
    ]


def _claims_on_mixtures(mixtures: list[Record]) -> list[Claim]:
    found = []
    for data in distinct(mixtures, "data"):
        genes = max(distinct(mixtures, "genes"))
        error = {m: column(where(mixtures, data=data, genes=genes, method=m), "error") for m in ON_MIXTURES}
        middle = {m: float(np.median(e)) for m, e in error.items()}
        less = int((error["source"] < error["shared"]).sum())
        found += [
            Claim(
                f"{TITLES[data]}: with a level for each source the proportions are nearer to the truth, in {less} of "
                f"{len(error['source'])} starts; median error {middle['source']:.4f} against {middle['shared']:.4f}.",
                less > len(error["source"]) / 2 and middle["source"] < middle["shared"],
            ),
            Claim(
                f"{TITLES[data]}: they are at least as near as those of NMF with normalised rows, median error "
                f"{middle['nmf']:.4f}; the worst start has {error['source'].max():.3f}, that of NMF "
                f"{error['nmf'].max():.3f}.",
                middle["source"] <= middle["nmf"],
            ),
        ]
    return found


def _paired(differences: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard error over runs of differences on the same data, shape (n_levels, n_runs)."""
    return differences.mean(axis=1), differences.std(axis=1, ddof=1) / np.sqrt(differences.shape[1])
