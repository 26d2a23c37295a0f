"""Tables and targets of the GPU, from its records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.gpu.expected import CARDS, card_of, expected_ms, samples_that_fit
from benchmarks.gpu.floors import floor_of
from benchmarks.plan import Record
from benchmarks.summary import distinct, measured, number, select, table
from benchmarks.targets import Target
from dbmd.experiments.machine import in_words

# What is wanted on one H200, and what would be better still, in milliseconds; of streamed data over the bus alone.
PASSES = {10: (1.2, 0.6), 50: (5.0, 2.5)}
H_STEPS = {10: (0.2, 0.1), 50: (4.0, 2.0)}
FITS = {"device": (100.0, 50.0), "host": (250.0, 150.0)}
CSR = (3.0, 1.5)
STREAMED = (1.0 / 0.7, 1.0 / 0.9)

Row = tuple[Target, Record, dict[str, Any]]  # a target, the record it is decided by, and the times in that


def rows(content: dict[str, Any] | None) -> Iterator[Row]:
    """Yield all targets with what decides on them; the record and the times are empty if it was not measured."""
    records = measured(content)

    def one(what: str, **values: Any) -> Record:
        return next(iter(select(records, what=what, **values)), {})

    def row(words: str, wanted: tuple[float, float], record: Record, times: dict[str, Any], size: str = "") -> Row:
        told = f"{words}, {size}" if size else words
        return Target(f"{told}, ms", times.get("ms"), *wanted), record, times

    for r, wanted in PASSES.items():
        record = one("pass", r=r)
        yield row(f"One pass, r = {r}, warm", wanted, record, record.get("warm", {}), _shape(record))
    for r, wanted in H_STEPS.items():
        record = one("h_step", r=r)
        for start in ("warm", "cold"):
            times = record.get(start, {})
            yield row(f"H-step alone, r = {r}, {start}", wanted, record, times, _samples(record))
    for where, wanted in FITS.items():
        record = one("fit", where=where)
        place = "on the device" if where == "device" else "in host memory"
        yield row(f"Whole fit, samples {place}", wanted, record, record, _shape(record))
    record = one("csr")
    share = f", {100 * record['filled']:.0f} % filled" if record else ""
    yield row(f"One pass, CSR{share}, warm", CSR, record, record.get("warm", {}), _shape(record))
    record = one("streamed")
    over = 1.0 / record["of_the_bus"] if record else None
    size = f", {record['bytes'] / 1e9:.0f} GB" if record else ""
    told = f"One pass over samples that stay in host memory{size}: times what the bus takes"
    remark = f"{100 * record['of_the_bus']:.0f} % of the {record['bus_gbs']:.0f} GB/s of the bus" if record else ""
    yield Target(told, over, *STREAMED, remark), record, record


def _shape(record: Record) -> str:
    return f"{record['n']:,} x {record['m']:,} {record['type']}" if record else ""


def _samples(record: Record) -> str:
    return f"{record['n']:,} samples" if record else ""


def section(contents: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of all tables."""
    content = contents.get("gpu")
    if content is None:
        return
    yield from ("### One GPU", "")
    yield heading(content)
    yield ""
    yield from target_table(content)
    yield from _pieces(content)
    yield from _peers(content)
    yield from _ceilings(content)
    failed = [record for record in content["records"] if "failed" in record]
    if failed:
        yield ""
        yield from (f"- failed: {_task(record)}: {record['failed']}" for record in failed)


def heading(content: dict[str, Any]) -> str:
    """Say on what, when and with which code it was measured, and how."""
    device, records = content["machine"]["device"], content["records"]
    days, codes = sorted({record["date"][:10] for record in records}), distinct(records, "code")
    quick = " **Small data: the numbers mean nothing.**" if content["quick"] else ""
    return (
        f"Measured on one {device['name']} ({device['memory_gb']} GB; CuPy {device['cupy']}, CUDA {device['cuda']}, "
        f"driver {device['driver']}), {in_words(content['machine'])}. {' to '.join(days[:1] + days[1:][-1:])}, "
        f"code {', '.join(codes)}. Milliseconds between two events of the device, which is idle at the first and done "
        "at the second, so that what the host does counts; of the H-step and of pieces of a pass without what the host "
        "does, which a pass hides; of whole fits and streamed passes by the clock on the wall. "
        "Medians; in brackets four fifths of the repetitions. *at least*: bytes, and operations without tensor cores, "
        "at the ceilings of the machine. Each pass has another W; inputs take turns, or are larger than the cache; in "
        f"memory that was filled with NaN the results are the same.{_warm_ups(records)}{quick}"
    )


def _warm_ups(records: list[dict[str, Any]]) -> str:
    """Say how many passes and fits there were before those that count; earlier records do not know."""
    passes = [each["warm"].get("warm_ups") for each in records if each["what"] in ("pass", "csr") and "warm" in each]
    fits = [each.get("warm_ups") for each in records if each["what"] == "fit" and "failed" not in each]
    if not passes or not fits or None in passes + fits:
        return ""
    return f" At least {min(passes)} passes, and {min(fits)} fits, come before those that count."


def target_table(content: dict[str, Any]) -> Iterator[str]:
    """Yield the table of what was reached."""
    ceilings = next(iter(select(measured(content), what="ceilings")), None)
    lines = []
    for target, record, times in rows(content):
        floor = floor_of(record) if record and ceilings else None
        least = None if floor is None else floor.ms(ceilings)
        if record.get("what") == "streamed":
            least = 1.0
        between = f" [{number(times['low'], 3)}, {number(times['high'], 3)}]" if "low" in times and least != 1.0 else ""
        lines.append(
            [
                target.what,
                f"{number(target.reached, 3)}{between}",
                number(times.get("wall_ms"), 3),
                number(least),
                number(target.target, 3),
                number(target.stretch, 3),
                target.verdict,
            ]
        )
    yield from table(["what", "reached", "wall", "at least", "target", "stretch", ""], *lines)


def _pieces(content: dict[str, Any]) -> Iterator[str]:
    found = select(measured(content), what="pieces")
    if not found:
        return
    names = {"products": "X W", "h_step": "H-step, warm", "sums": "X H', H H'", "covariance": "covariances"}
    lines = []
    for record in found:
        whole = next(iter(select(measured(content), what="pass", r=record["r"])), {})
        times = [record[name]["ms"] for name in names]
        rest = whole["warm"]["ms"] - sum(times) if whole else None
        lines.append([str(record["r"]), *(number(ms, 3) for ms in times), number(rest, 3)])
    yield from ("", "What a pass is made of, each piece alone, milliseconds:", "")
    yield from table(["r", *names.values(), "all else"], *lines)


def _peers(content: dict[str, Any]) -> Iterator[str]:
    records = measured(content)
    lines: list[list[str]] = []
    for record in select(records, what="fit"):
        told = f"dbmd, engine gpu, samples {'on the device' if record['where'] == 'device' else 'in host memory'}"
        lines.append([told, number(record["ms"] / 1e3), _of(record["iterations"])])
    for record in select(records, what="k_means"):
        told = "k-means with two products of CuPy an iteration, samples on the device"
        lines.append([told, number(record["ms"] / 1e3), _rounds(record, record["most"])])
    for record in select(records, what="two_cores"):
        cores = f"{record['cores']} cores"
        lines.append([f"dbmd, engine local, {cores}", number(record["dbmd"]["ms"] / 1e3), _of([record["dbmd"]])])
        own = record["k_means"]
        lines.append([f"scikit-learn KMeans, {cores}", number(own["ms"] / 1e3), _rounds(own, record["most"])])
    if lines:
        first = next(record for record in records if record["what"] in ("fit", "k_means", "two_cores"))
        yield ""
        yield (
            f"Whole fits of one made-up mixture, {_shape(first)}, r = {first['r']}, start included; both k-means from "
            "the same centres, which were found before, until they move as little as scikit-learn asks for:"
        )
        yield ""
        yield from table(["", "seconds", "iterations"], *lines)


def _of(found: list[Any]) -> str:
    counts = sorted(each["iterations"] if isinstance(each, dict) else each for each in found)
    return str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"


def _rounds(record: Record, most: int) -> str:
    return f"{record['iterations']}{', its limit' if record['iterations'] >= most else ''}"


def _ceilings(content: dict[str, Any]) -> Iterator[str]:
    found = next(iter(select(measured(content), what="ceilings")), None)
    if found is None:
        return
    lines = [
        ["reading memory", f"{found['read_gbs']:,.0f} GB/s"],
        [
            "pinned host memory to the device, and back",
            f"{found['to_device_gbs']:.0f}, {found['to_host_gbs']:.0f} GB/s",
        ],
        ["float32, a product of two matrices", f"{found['float32_tflops']:.0f} TFLOP/s"],
        ["a launch; a copy of ten numbers to the host", f"{found['launch_us']:.1f}, {found['get_us']:.1f} us"],
    ]
    for r, each in found["products"].items():
        lines.append([f"cuBLAS, X W and H'X, r = {r}", f"{number(each['XW'], 3)}, {number(each['HX'], 3)} ms"])
    yield from ("", "What this machine can do at best:", "")
    yield from table(["", "measured"], *lines)


def _task(record: Record) -> str:
    names = ("what", "where", "r")
    return ", ".join(f"{record[name]}" if name != "r" else f"r = {record[name]}" for name in names if name in record)


def page(content: dict[str, Any]) -> Iterator[str]:
    """Yield what docs/gpu.md has: what was reached, and what other cards should take."""
    yield heading(content)
    yield ""
    yield from target_table(content)
    yield from _peers(content)
    yield from _other_cards(content)


def _other_cards(content: dict[str, Any]) -> Iterator[str]:
    """Yield what other cards should take, if the one that was measured is known."""
    found, known = measured(content), card_of(content["machine"]["device"]["name"])
    both = [
        (whole, pieces) for whole in select(found, what="pass") for pieces in select(found, what="pieces", r=whole["r"])
    ]
    if known is None or not both:
        return
    m, n = both[0][0]["m"], both[0][0]["n"]
    head = ["card", "memory, GB/s", "float32, TFLOP/s", "float64, TFLOP/s"]
    head += [f"r = {whole['r']}, ms" for whole, _ in both]
    lines = []
    for card in CARDS:
        row = [card.name, f"{card.read_gbs:,.0f}", number(card.float32_tflops, 3), number(card.float64_tflops)]
        for whole, pieces in both:
            exact = min(whole["warm"]["ms"], pieces["h_step"]["ms"] + pieces["covariance"]["ms"])
            row.append(number(expected_ms(card, known, whole["warm"]["ms"] - exact, exact)))
        lines.append([*row, str(samples_that_fit(card, m))])
    yield ""
    yield (
        f"What a pass over {n:,} x {m} float32 should take on other cards: what was measured above, times what they "
        "are slower by in reading memory or in float32, whichever is more, and for the H-step and covariances in "
        "float64, by their data sheets. **Reckoned, not measured**, and rather too much than too little:"
    )
    yield ""
    yield from table([*head, f"million samples of {m} features that fit"], *lines)
