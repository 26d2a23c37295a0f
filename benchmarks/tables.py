"""The tables of README.md, made from the JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu import report
from benchmarks.methods import METHODS, TITLES
from benchmarks.parts import PARTS
from benchmarks.sets import SETS
from benchmarks.summary import distinct, measured, median, number, ratio, select, table
from benchmarks.targets import REPEATS, Contents, h_step_medians, scaling_medians, targets
from dbmd.experiments.machine import in_words
from dbmd.storage import write_file

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write(results: Path, readme: Path) -> None:
    """Put the tables of the results in a folder between the two marks of a file; what is around them stays."""
    _put(readme, tables(_contents(results)))


def write_gpu_page(results: Path, page: Path) -> None:
    """Put what was measured on a GPU between the two marks of a page, if anything was."""
    content = _contents(results).get("gpu")
    if content is not None:
        _put(page, "\n".join(report.page(content)))


def _contents(results: Path) -> Contents:
    paths = {part: results / f"{part}.json" for part in PARTS}
    return {part: json.loads(path.read_text()) for part, path in paths.items() if path.exists()}


def _put(file: Path, tables: str) -> None:
    text = file.read_text()
    if BEGIN not in text or END not in text:
        raise ValueError(f"{file} must have the lines {BEGIN} and {END}, between which the tables go.")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    write_file(file, f"{before}{BEGIN}\n{tables}\n{END}{after}".encode())


def tables(contents: Contents) -> str:
    """Return all tables as Markdown."""
    sections = (_machines, _targets, _peers, _limit, _one_pass, _scaling, _h_step, _others, report.section)
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section(contents))))


def _machines(contents: Contents) -> Iterator[str]:
    """Say on what, when and with which code it was measured."""
    contents = {part: content for part, content in contents.items() if part != "gpu"}  # has a machine of its own
    for words in dict.fromkeys(in_words(content["machine"]) for content in contents.values()):
        parts = [part for part, content in contents.items() if in_words(content["machine"]) == words]
        records = [record for part in parts for record in contents[part]["records"]]
        threads = sorted({str(contents[part]["threads"]) for part in parts})
        days = sorted({record["date"][:10] for record in records})
        codes = distinct(records, "code")
        load = median(records, "load")
        busy = "" if load is None else f" Load of the machine before a measurement, median: {number(load)}."
        quick = " **Small parts of the data: the numbers mean nothing.**" if contents[parts[0]]["quick"] else ""
        yield (
            f"Measured with {' and '.join(threads)} threads on {words}. {_span(days)}, "
            f"code {', '.join(codes)}; parts: {', '.join(parts)}.{busy}{quick}"
        )


def _span(days: list[str]) -> str:
    return "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


def _targets(contents: Contents) -> Iterator[str]:
    rows = [
        [target.what, number(target.reached, 3), number(target.target, 3), number(target.stretch, 3), target.verdict]
        for target in targets(contents)
    ]
    yield from ("### Targets", "")
    yield from table(["what", "reached", "target", "stretch", ""], *rows)


def _peers(contents: Contents) -> Iterator[str]:
    if "peers" not in contents:
        return
    records = contents["peers"]["records"]
    rows = []
    for data in (name for name in SETS if name in distinct(records, "data")):
        own = median(select(measured(contents["peers"]), data=data, method="dbmd"), "seconds")
        for method in METHODS:
            tried = select(records, data=data, method=method)
            if tried:
                rows.append(_peer(data, method, tried, own))
    yield from ("### Whole fits", "")
    yield (
        "Each method with its defaults and from the same seeds, medians; methods take turns, each fit in a fresh "
        "process that is warm. *times*: seconds of dbmd over those of the method. *passes*: of dbmd all questions that "
        "read all samples, those of the start included; of KMeans and MLlib rounds; of NMF iterations, of which each "
        "reads the data twice; of the MiniBatch methods samples drawn over n. *MB*: peak of resident memory during the "
        "fit above that before it, of Spark Python and JVM together, whose heap has grown before. Labels of NMF are "
        "the largest share."
    )
    yield ""
    yield from table(["data", "method", "seconds", "times", "passes", "MB", "accuracy", ""], *rows)


def _peer(data: str, method: str, tried: list[dict[str, Any]], own: float | None) -> list[str]:
    done = [record for record in tried if "failed" not in record]
    remarks = [f"{len(tried) - len(done)} failed: {tried[-1]['failed']}"] if len(done) < len(tried) else []
    if not done:
        return [SETS[data].title, TITLES[method], "-", "-", "-", "-", "-", *remarks]
    short = [record for record in done if not record["converged"]]
    if short:
        most = f" of {short[0]['most']}" if "most" in short[0] else ""
        remarks.append(f"stopped at its limit{most} in {len(short)} of {len(done)}")
    over_a_part = median(done, "over_a_part_in_passes")
    if over_a_part:
        remarks.append(f"and as many samples of a part as {number(over_a_part)} passes")
    if len(done) < REPEATS:
        remarks.append(f"{len(done)} repetition{'s' * (len(done) > 1)} only")
    first = done[0]
    title = f"{SETS[data].title}, {first['n']:,} x {first['m']:,} {first['type']}, r = {first['r']}"
    seconds = median(done, "seconds")
    return [
        title,
        TITLES[method],
        number(seconds, 3),
        number(ratio(own, seconds)) if method != "dbmd" else "1",
        number(median(done, "passes"), 3),
        _whole(median(done, "peak_mb")),
        number(median(done, "accuracy"), 3),
        ", ".join(remarks),
    ]


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _limit(contents: Contents) -> Iterator[str]:
    records = measured(contents.get("limit"))
    if not records:
        return
    rows = []
    for data in (name for name in SETS if name in distinct(records, "data")):
        own = select(records, data=data)
        rows.append(
            [
                SETS[data].title,
                number(median(own, "distance")),
                number(max(record["distance"] for record in own)),
                number(median(own, "iterations"), 3),
                number(median(own, "passes"), 3),
                number(median(own, "seconds"), 3),
                number(median(own, "accuracy"), 3),
                number(median(own, "limit_accuracy"), 3),
                number(median(own, "effective_features"), 3),
                str(len(own)),
            ]
        )
    yield from ("### Where the default tol stops", "")
    yield (
        "Distance of W from its limit, where a fit ends that goes on from there with tol = 1e-9, relative to the size "
        "of the simplex. Passes are full ones, start included. Medians."
    )
    yield ""
    head = ["data", "distance", "the largest", "iterations", "passes", "seconds", "accuracy", "at the limit"]
    head += ["effective features", "seeds"]
    yield from table(head, *rows)


def _one_pass(contents: Contents) -> Iterator[str]:
    records = measured(contents.get("passes"))
    if not records:
        return
    rows = []
    for data in (name for name in SETS if name in distinct(records, "data")):
        for dtype in distinct(select(records, data=data), "type"):
            own = select(records, data=data, type=dtype)
            bare, warm, cold, peak = (median(own, key) for key in ("bare", "warm", "cold", "warm_map"))
            title = f"{SETS[data].title}, {own[0]['n']:,} x {own[0]['m']:,} {dtype}, r = {own[0]['r']}"
            ratios = number(ratio(warm, bare), 3), number(ratio(cold, bare), 3)
            ratios += (number(ratio(warm, peak), 3),)
            rows.append([title, number(bare, 3), number(warm, 3), number(cold, 3), *ratios])
    yield from ("### One pass", "")
    yield (
        "Seconds of X @ W and H.T @ X as bare products of NumPy, on one thread or as many as the pass has, whichever "
        "is faster (of SciPy, which takes one, where X is sparse), and of a pass that starts from the last memberships "
        '(warm) or from none (cold); the last column is over a warm pass with inference = "map".'
    )
    yield ""
    yield from table(
        ["data", "products", "warm", "cold", "warm over products", "cold over products", "over map"], *rows
    )


def _scaling(contents: Contents) -> Iterator[str]:
    each = scaling_medians(contents)
    if each:
        first = measured(contents["scaling"])[0]
        yield from ("### Time per sample and pass", "")
        yield from table(
            [f"samples, {first['m']} features {first['type']}, r = {first['r']}", *(f"{n:,}" for n in each)],
            ["microseconds", *(number(value, 3) for value in each.values())],
        )


def _h_step(contents: Contents) -> Iterator[str]:
    each = h_step_medians(contents)
    if not each:
        return
    columns = list(dict.fromkeys(key[1:] for key in each))
    rows = [
        [str(r), *(number(each.get((r, *column)), 3) for column in columns)] for r in sorted({key[0] for key in each})
    ]
    yield from ("### The H-step alone", "", "Microseconds a sample on one thread.", "")
    yield from table(["r", *(f"{dtype}, alpha = {alpha:g}, {start}" for dtype, alpha, start in columns)], *rows)


def _others(contents: Contents) -> Iterator[str]:
    starts, fits = measured(contents.get("start_up")), measured(contents.get("memory"))
    rows = [[what, f"{number(median(select(starts, what=what), 'seconds'))} s"] for what in distinct(starts, "what")]
    if fits:
        beyond = f"{_whole(median(fits, 'beyond_mb'))} MB"
        rows.append([f"peak of a fit of {fits[0]['n']:,} x {fits[0]['m']} float32 beyond X and H", beyond])
    if rows:
        yield from ("### Start-up and memory", "")
        yield from table(["what", "reached"], *rows)
