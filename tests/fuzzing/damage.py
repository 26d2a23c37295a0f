"""Bytes and values that nobody expects."""

from __future__ import annotations

import json

import numpy as np

NUMBERS = (
    "0",
    "-0.0",
    "1e308",
    "-1e308",
    "1e-320",
    "1e400",
    "nan",
    "NaN",
    "inf",
    "-Infinity",
    "0x1f",
    "1_000",
    "1,5",
    "1.5e",
    "١٢",
    "9" * 400,
    "18446744073709551616",
    "",
    " ",
    "NA",
    "null",
    "true",
    "1 2",
    "'1",
    "\x00",
    "\ufeff1",
)
NAMES = (
    "",
    " ",
    "x0",
    "x0 ",
    "lab",
    "a,b",
    'len 5" pipe',
    '"',
    '""',
    "a\nb",
    "a\rb",
    "a\tb",
    "\x00",
    "\x1b[2J",
    "\u202exe.txt",
    "=1+1",
    "@file",
    "--drop",
    "nan",
    "2019",
    "1e5",
    "x" * 5000,
    "ä",
    "日本",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "lab=oslo",
    "dbmd0",
    "cluster",
    "__index_level_0__",
    "unnamed_0",
    "{}",
    "%s",
    "../../x",
    "<script>",
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e-160, 1e160, 1e308, -1e308, np.nan, np.inf, -np.inf)
VALUES = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2,
    3.5,
    -0.5,
    1e308,
    2**63,
    2**70,
    "",
    "x",
    "nan",
    [],
    {},
    [None],
    [[]],
    {"a": 1},
)


def pick(rng, values):
    return values[int(rng.integers(len(values)))]


def damaged(data: bytes, rng) -> bytes:
    """Return bytes with something wrong with them."""
    n = len(data)
    i = int(rng.integers(n + 1))
    j = min(n, i + int(rng.integers(1, 2 + n // 4)))
    kind = pick(
        rng, ("cut", "cut", "flip", "flip", "flip", "zeros", "ones", "random", "insert", "drop", "repeat", "tail")
    )
    if kind == "cut":
        return data[:i]
    if kind == "flip":
        flipped = bytearray(data)
        for place in rng.integers(n, size=int(rng.integers(1, 9))):
            flipped[place] ^= 1 << int(rng.integers(8))
        return bytes(flipped)
    if kind in ("zeros", "ones"):
        return data[:i] + (b"\0" if kind == "zeros" else b"\xff") * (j - i) + data[j:]
    if kind == "random":
        return data[:i] + rng.bytes(j - i) + data[j:]
    if kind == "insert":
        return data[:i] + rng.bytes(int(rng.integers(1, 40))) + data[i:]
    if kind == "drop":
        return data[:i] + data[j:]
    if kind == "repeat":
        return data[:j] + data[i:]
    return data + rng.bytes(int(rng.integers(1, 300)))


def edited_array(array, rng):
    """Return an array of another type, shape or value."""
    array = np.asarray(array)
    kind = pick(rng, ("value", "value", "type", "shape", "longer", "shorter", "turned", "scalar", "negative"))
    if kind == "value" and array.size and array.dtype.kind in "fiu":
        changed = array.copy()
        value = pick(rng, FLOATS) if array.dtype.kind == "f" else pick(rng, (-1, 0, 2**31 - 1, 7))
        with np.errstate(all="ignore"):
            changed.flat[int(rng.integers(array.size))] = np.asarray(value).astype(array.dtype)
        return changed
    if kind == "type":
        types = ("f2", "f4", ">f8", "i1", "u8", "c16", "?", "U7", "S3", "m8[s]", "f8,i4")
        try:
            with np.errstate(all="ignore"):
                return array.astype(pick(rng, types))
        except (ValueError, TypeError):
            return np.zeros(array.shape, "V5")
    if kind == "shape":
        return array[None] if rng.random() < 0.5 else array.ravel()
    if kind == "longer":
        return np.concatenate([array, array]) if array.ndim else np.repeat(array, 3)
    if kind == "shorter":
        return array[:-1] if array.ndim and len(array) else array[None][:0]
    if kind == "turned":
        return np.ascontiguousarray(array.T) if array.ndim > 1 else array[None].T
    if kind == "scalar":
        return array.ravel()[0] if array.size else np.float64(1.0)
    return -array if array.dtype.kind in "fi" else array


def edited_json(text: str, rng) -> str:
    """Return JSON in which an entry, at any depth, is another or gone; or that is none."""
    if rng.random() < 0.1:
        return pick(
            rng, ("", "{", "[]", "null", '"x"', "[" * 100_000, text[: len(text) // 2], text + text, '{"a": NaN}')
        )
    record = json.loads(text)
    places = list(_places(record))
    holder, key = pick(rng, places)
    kind = pick(rng, ("another", "another", "another", "gone", "new", "sign"))
    if kind == "gone":
        del holder[key]
    elif kind == "new" and isinstance(holder, dict):
        holder["surprise"] = pick(rng, VALUES)
    elif kind == "sign" and isinstance(holder[key], int | float):
        holder[key] = -holder[key]
    else:
        holder[key] = pick(rng, VALUES)
    return json.dumps(record)


def _places(record):
    entries = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in entries:
        yield record, key
        yield from _places(value)
