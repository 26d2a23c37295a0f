"""Data files: sound ones to be damaged, and others that are odd by design."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import warnings
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
from scipy import sparse

from fuzzing.damage import FLOATS, NAMES, NUMBERS, damaged, edited_array, pick

N, M = 30, 4
FEATURES = [f"x{i}" for i in range(M)]


def numbers(dtype="f8"):
    rng = np.random.default_rng(7)
    W = np.array([[4, 0, 1, 2], [0, 4, 2, 1]])
    return (rng.dirichlet([0.5, 0.5], N) @ W + 0.1 * rng.normal(size=(N, M))).astype(dtype)


def labs():
    return np.array(["berlin", "lima", "oslo"])[np.arange(N) % 3]


# -- sound files: bytes by name ------------------------------------------------------------------------------------


def csv_text(delimiter=",", end="\n"):
    rows = [["lab", *FEATURES], *([lab, *map(repr, row)] for lab, row in zip(labs(), numbers().tolist(), strict=True))]
    return "".join(delimiter.join(row) + end for row in rows)


def csv_of_r():
    """Return a table as R's write.table writes it."""
    names = " ".join(f'"{name}"' for name in ["lab", *FEATURES])
    rows = zip(labs(), numbers().tolist(), strict=True)
    lines = [f'"{i + 1}" "{lab}" {" ".join(map(repr, row))}' for i, (lab, row) in enumerate(rows)]
    return "\n".join([names, *lines, ""]).encode()


def saved(save, *arguments, **options):
    buffer = io.BytesIO()
    save(buffer, *arguments, **options)
    return buffer.getvalue()


def parquet(columns, **options):
    return saved(lambda file: pq.write_table(pa.table(columns), file, **options))


def compressed(data, codec):
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, codec) as file:
        file.write(data)
    return out.getvalue().to_pybytes()


def h5ad(X=None, *, change=lambda file: None, is_sparse=False, chunks=None):
    """Return an AnnData file, as much of one as is read; the file may be changed before it is closed."""
    X = numbers("f4") if X is None else X
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        if is_sparse:
            matrix, group = sparse.csr_matrix(X), file.create_group("X")
            group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
            for name in ("data", "indices", "indptr"):
                group[name] = getattr(matrix, name)
        else:
            file.create_dataset("X", data=X, chunks=chunks, compression="gzip" if chunks else None)
            file["X"].attrs["encoding-type"] = "array"
        for name, index in (("obs", [f"c{i}" for i in range(len(X))]), ("var", FEATURES)):
            group = file.create_group(name)
            group.attrs["_index"], group.attrs["column-order"] = "_index", ["lab"] if name == "obs" else []
            group["_index"] = index
        lab = file["obs"].create_group("lab")
        lab.attrs["encoding-type"] = "categorical"
        lab["categories"], lab["codes"] = ["berlin", "lima", "oslo"], (np.arange(len(X)) % 3).astype("i1")
        change(file)
    return buffer.getvalue()


def sound():
    """Return files by their names; names that need no source have none."""
    X, columns = numbers(), {"lab": labs(), **dict(zip(FEATURES, numbers().T, strict=True))}
    text = csv_text().encode()
    thin = sparse.csr_matrix(np.where(X > 1, X, 0))
    return {
        "plain.csv": text,
        "tab.tsv": csv_text("\t", "\r\n").encode(),
        "zip.csv.gz": gzip.compress(text),
        "zip.csv.bz2": bz2.compress(text),
        "zip.csv.zst": compressed(text, "zstd"),
        "zip.csv.lz4": compressed(text, "lz4"),
        "plain.parquet": parquet(columns),
        "groups.parquet": parquet(columns, row_group_size=7, compression="gzip"),
        "simple.parquet": parquet(columns, compression="none", use_dictionary=False, write_statistics=False),
        "plain.npy": saved(np.save, X),
        "turned.npy": saved(np.save, np.asfortranarray(X.astype(">f4"))),
        "plain.npz": saved(sparse.save_npz, thin),
        "stored.npz": saved(sparse.save_npz, thin, compressed=False),
        "array.npz": saved(np.savez, X),
        "plain.mtx": saved(scipy.io.mmwrite, thin),
        "dense.mtx": gzip.compress(saved(scipy.io.mmwrite, X)),
        "r.txt": csv_of_r(),
        "xz.csv": lzma.compress(text),
        "plain.h5ad": h5ad(),
        "packed.h5ad": h5ad(chunks=(8, 2)),
        "thin.h5ad": h5ad(is_sparse=True),
    }


# -- odd by design -------------------------------------------------------------------------------------------------


def odd_csv(rng):
    """Return a name and text with one or two things odd about it: names, fields, line ends, quotes, the encoding."""
    header, rows = (
        ["lab", *FEATURES],
        [[lab, *map(repr, row)] for lab, row in zip(labs(), numbers().tolist(), strict=True)],
    )
    delimiter, quote, end, encoding, stray = ",", "", "\n", "utf-8", ""
    for _ in range(int(rng.integers(1, 3))):
        kind = int(rng.integers(10))
        if kind <= 1:
            header[int(rng.integers(len(header)))] = pick(rng, NAMES)
        elif kind <= 3:
            row = pick(rng, rows)
            row[int(rng.integers(len(row)))] = pick(rng, NUMBERS)
        elif kind == 4:
            row = pick(rng, rows)
            row.append("1") if rng.random() < 0.5 else row.clear()
        elif kind == 5:
            delimiter, quote = pick(rng, (";", "\t", "|", " ", ":")), pick(rng, ("", '"', "'"))
        elif kind == 6:
            end = pick(rng, ("\r\n", "\r", "\n\n", "\n\r", "\0\n", "\u2028"))
        elif kind == 7:
            encoding = pick(rng, ("utf-8-sig", "utf-16", "utf-32-le", "latin-1", "cp1252", "utf-7"))
        elif kind == 8:
            stray = pick(rng, ('"', '"""', "\0", "\n", "\r", ",", "\x1a", "#", "ä", "\ufeff"))
        else:
            rows = rows[: int(rng.integers(1, 4))]
    lines = [header, *rows] if rng.random() < 0.9 else rows
    text = "".join(delimiter.join(f"{quote}{field}{quote}" for field in line) + end for line in lines)
    place = int(rng.integers(len(text) + 1))
    data = (text[:place] + stray + text[place:]).encode(encoding, "replace")
    name = pick(rng, ("odd.csv", "odd.csv", "odd.tsv", "odd.csv.gz", "ODD.CSV"))
    return name, gzip.compress(data) if name.endswith(".gz") else data


def odd_npy(rng):
    """Return a name and an array with an odd header, or odd entries."""
    X = numbers()
    if rng.random() < 0.4:
        return "odd.npy", saved(np.save, edited_array(X, rng))
    shape = pick(
        rng, (X.shape, (0, 4), (0, 10**12), (10**12, 0), (-1, 4), (2**40, 4), (2**62, 2**62), (30,), (), (1, 30, 4))
    )
    shape = pick(rng, (shape, str(shape), list(shape), (30.0, 4), (True, 4), None)) if rng.random() < 0.3 else shape
    descr = pick(rng, ("<f8", "<f8", "<f8", ">f8", "<f2", "|O", "|V8", "<c8", "<m8[s]", "|S8", "<U2", [("a", "<f8")]))
    descr = pick(rng, (descr, "(2,)<f8", "f128", "nonsense", 7, None)) if rng.random() < 0.3 else descr
    header = repr({"descr": descr, "fortran_order": pick(rng, (False, False, True, 0, "no")), "shape": shape})
    header = pick(
        rng,
        (header, header, header, header[:-1], header + "+", "__import__('os')", "{" * 5000, header.encode("utf-16")),
    )
    raw = header if isinstance(header, bytes) else header.encode("latin-1", "replace")
    raw += b" " * (63 - (len(raw) + 10) % 64) + b"\n"
    version = pick(rng, ((1, 0),) * 5 + ((2, 0), (3, 0), (9, 9), (0, 0)))
    size = len(raw) if rng.random() < 0.8 else int(rng.integers(1 << 16))
    length = size.to_bytes(2 if version == (1, 0) else 4, "little")
    return "odd.npy", b"\x93NUMPY" + bytes(version) + length + raw + X.tobytes()


def odd_npz(rng):
    """Return a name and an archive whose members do not fit together."""
    matrix = sparse.csr_matrix(np.where(numbers() > 1, numbers(), 0))
    members = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    members |= {"shape": np.array(matrix.shape), "format": np.array(b"csr")}
    kind = pick(rng, ("edit", "edit", "edit", "shape", "indptr", "indices", "gone", "format", "more", "encrypted"))
    if kind == "edit":
        name = pick(rng, list(members))
        members[name] = edited_array(members[name], rng)
    elif kind == "shape":
        sizes = (0, 1, -1, 3, 4, 30, 31, 2**31, 2**40, 2**63 - 1, 3 * 10**7)
        members["shape"] = np.array([pick(rng, sizes) for _ in range(int(rng.integers(1, 4)))])
    elif kind == "indptr":
        moved = members["indptr"].astype(pick(rng, ("i4", "i8", "u8", "f8")))
        moved[int(rng.integers(len(moved)))] += np.int64(pick(rng, (-1, 1, 1000, 2**31 - 40))).astype(moved.dtype)
        members["indptr"] = moved + pick(rng, (0, 0, 1))
    elif kind == "indices":
        moved = members["indices"].astype(pick(rng, ("i4", "i8", "u1", "i2")))
        moved[int(rng.integers(len(moved)))] = np.int64(pick(rng, (-1, 4, 100, 0))).astype(moved.dtype)
        members["indices"] = moved
    elif kind == "gone":
        del members[pick(rng, list(members))]
    elif kind == "format":
        members["format"] = np.array(pick(rng, (b"csc", b"coo", b"", "csr", b"\xff", b"dia" * 1000, 7, [b"csr"])))
    elif kind == "more":
        members |= {"again": np.zeros(3), "../../x": np.zeros(3)}
    data = saved(np.savez if rng.random() < 0.5 else np.savez_compressed, **members)
    if kind == "encrypted":
        data = bytearray(data)
        for place in _places(data, b"PK\x01\x02"):
            data[place + 8] |= 1
        for place in _places(data, b"PK\x03\x04"):
            data[place + 6] |= 1
    if rng.random() < 0.1:
        data = _twice(bytes(data))
    return "odd.npz", bytes(data)


def _places(data, mark):
    start = data.find(mark)
    while start >= 0:
        yield start
        start = data.find(mark, start + 1)


def _twice(data):
    """Return an archive with two members of a name."""
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("data.npy", saved(np.save, np.zeros(2)))
    return buffer.getvalue()


def odd_parquet(rng):
    """Return a name and a table with odd types, names or entries."""
    odd = {
        "list": pa.array([[1.0, 2.0]] * N),
        "struct": pa.array([{"a": 1.0}] * N),
        "null": pa.nulls(N),
        "text": pa.array(["a"] * N),
        "bytes": pa.array([b"\xff\x00"] * N),
        "date": pa.array([1] * N, pa.date32()),
        "time": pa.array([1] * N, pa.timestamp("ns", "Europe/Berlin")),
        "duration": pa.array([1] * N, pa.duration("s")),
        "decimal": pa.array([1] * N, pa.decimal256(60, 10)),
        "uint64": pa.array([2**64 - 1] * N, pa.uint64()),
        "half": pa.array(np.ones(N, "f2")),
        "bool": pa.array([True, None] * (N // 2)),
        "map": pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int64())),
        "dictionary": pa.array([1.5] * N).dictionary_encode(),
        "text dictionary": pa.array(["a", None] * (N // 2)).dictionary_encode(),
        "fixed": pa.array([[1.0, 2.0]] * N, pa.list_(pa.float64(), 2)),
    }
    columns = {"lab": labs(), **dict(zip(FEATURES, numbers().T, strict=True))}
    for _ in range(int(rng.integers(1, 3))):
        name = pick(rng, NAMES) if rng.random() < 0.3 else pick(rng, list(columns))
        columns[name] = odd[pick(rng, list(odd))] if rng.random() < 0.7 else np.full(N, pick(rng, FLOATS))
    names = list(columns)
    if rng.random() < 0.1:
        names[-1] = names[0]
    table = pa.Table.from_arrays([pa.array(values) for values in columns.values()], names=names)
    table = table.slice(0, pick(rng, (N, N, N, 1, 0)))
    return "odd.parquet", saved(lambda file: pq.write_table(table, file))


def odd_h5ad(rng):
    """Return a name and a file with parts that are missing, of other types, or elsewhere."""
    is_sparse = bool(rng.random() < 0.5)

    def change(file):
        kind = pick(rng, ("gone", "attribute", "array", "array", "array", "link", "huge", "group", "names"))
        places = []
        file.visit(places.append)
        place = pick(rng, places)
        if kind == "gone":
            del file[place]
        elif kind == "attribute":
            holder = pick(rng, [name for name in places if len(file[name].attrs)])
            name = pick(rng, list(file[holder].attrs))
            values = (
                "",
                "csc_matrix",
                7,
                -1,
                [3, 4],
                [2**40, 4],
                [2**62, 2**62],
                np.nan,
                "nowhere",
                ["x", "y"],
                b"\xff",
            )
            file[holder].attrs[name] = pick(rng, values)
        elif kind == "array":
            place = pick(rng, [name for name in places if isinstance(file[name], h5py.Dataset)])
            array, attributes = file[place][()], dict(file[place].attrs)
            del file[place]
            if array.dtype.kind == "O":
                file[place] = pick(
                    rng, ([], ["a"], [b"\xff"] * len(array), np.arange(len(array)), list(array)[:-1] * 2)
                )
            else:
                changed = edited_array(array, rng)
                file[place] = changed.astype("S5") if changed.dtype.kind in "UmM" else changed
            file[place].attrs.update(attributes)
        elif kind == "link":
            del file[place]
            links = (h5py.SoftLink("/nowhere"), h5py.SoftLink("/"), h5py.SoftLink("/" + place))
            file[place] = pick(
                rng, (*links, h5py.ExternalLink("plain.h5ad", "/X"), h5py.ExternalLink("/etc/hostname", "/"))
            )
        elif kind == "huge":
            del file["X"]
            shape = pick(rng, ((2**40, M), (N, 2**40), (0, M), (N, 0), (0, 2**40), (2**31, 2**31)))
            file.create_dataset("X", shape, "f4", chunks=True)
        elif kind == "group":
            del file[place]
            file.create_group(place)
        else:
            del file["var"]["_index"]
            file["var"]["_index"] = [pick(rng, [name for name in NAMES if "\0" not in name]) for _ in range(M)]

    return "odd.h5ad", h5ad(change=change, is_sparse=is_sparse)


def odd_mtx(rng):
    """Return a name and a matrix whose first lines or entries are odd."""
    lines = saved(scipy.io.mmwrite, sparse.coo_matrix(np.where(numbers() > 1, numbers(), 0))).decode().splitlines()
    for _ in range(int(rng.integers(1, 3))):
        kind = pick(rng, ("banner", "size", "size", "entry", "entry", "gone", "twice", "comment"))
        place = int(rng.integers(3, len(lines)))
        if kind == "banner":
            form, field = (
                pick(rng, ("coordinate", "array", "dense")),
                pick(rng, ("real", "integer", "pattern", "complex")),
            )
            symmetry = pick(rng, ("general", "symmetric", "hermitian", "skew-symmetric", ""))
            lines[0] = f"%%MatrixMarket {pick(rng, ('matrix', 'vector'))} {form} {field} {symmetry}"
        elif kind == "size":
            sizes = ("0", "1", "-1", "4", "30", "31", str(2**31), str(2**40), str(2**63), "3e7", "x", "")
            lines[2] = " ".join(pick(rng, sizes) for _ in range(int(rng.integers(1, 5))))
        elif kind == "entry":
            fields = lines[place].split()
            fields[int(rng.integers(len(fields)))] = pick(rng, NUMBERS)
            lines[place] = " ".join(fields)
        elif kind == "gone":
            del lines[place]
        else:
            lines.insert(place, pick(rng, ("%", "", "% comment", "\0", "1 1")) if kind == "comment" else lines[place])
    return "odd.mtx", "\n".join([*lines, ""]).encode("utf-8", "replace")


ODD = (odd_csv, odd_npy, odd_npz, odd_mtx, odd_parquet, odd_h5ad)


def broken(rng, files):
    """Return the name of a sound file, and what is left of it."""
    name = pick(rng, list(files))
    data = files[name]
    if not name.endswith(".h5ad"):
        return name, damaged(data, rng)
    # On some that are damaged elsewhere the HDF5 library itself never comes back.
    X = numbers("f4").tobytes()
    if rng.random() < 0.5 or X not in data:
        return name, data[: int(rng.integers(len(data)))]
    return name, data.replace(X, (damaged(X, rng) + bytes(len(X)))[: len(X)])
