"""Small files that claim to hold much more are refused before memory is allocated for it."""

import gzip
import io
import os
import re
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy import sparse

from dbmd.dataset import open_data
from dbmd.errors import DataError

ROOM = 150_000_000  # bytes beside what the libraries take
BOMB = 200_000_000  # zeros, in a file of less than a megabyte
CLAIMS = {}


def claim(match):
    """Add a file: a function that writes it and returns its name, and the message that is due."""

    def add(make):
        CLAIMS[make.__name__] = make, match
        return make

    return add


def npy_header(shape, *, dtype="<f8", version=1, size=None):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    size = len(text) if size is None else size
    return b"\x93NUMPY" + bytes([version, 0]) + size.to_bytes(2 if version == 1 else 4, "little") + text


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def npz(name, **members):
    """Write an archive of a CSR matrix; a member may be an array, or its first bytes and how many zeros follow."""
    matrix = sparse.csr_matrix(np.eye(3))
    whole = {"indices": matrix.indices, "indptr": matrix.indptr, "data": matrix.data, "format": b"csr"}
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for member, content in (whole | {"shape": np.array([3, 3])} | members).items():
            start, zeros = content if isinstance(content, tuple) else (npy(content), 0)
            with archive.open(f"{member}.npy", "w", force_zip64=True) as file:
                file.write(start)
                for first in range(0, zeros, 1 << 20):
                    file.write(bytes(min(1 << 20, zeros - first)))
    return name


@claim(r"says that it has 1,000,000,000,000 columns, more than the 2,560,000 .* 200,000,000MB with memory=\.")
def npy_of_no_rows():
    Path("a.npy").write_bytes(npy_header((0, 10**12)))
    return "a.npy"


@claim(r"says that it has 1,099,511,627,776 columns")
def npz_of_many_columns():
    return npz("a.npz", shape=np.array([3, 2**40]))


@claim(r"says that it has 30,000,000 columns, more than the 2,560,000 .* 6,000MB with memory=\.")
def npz_of_columns_whose_names_would_fill_the_memory():
    return npz("a.npz", shape=np.array([3, 30_000_000]))


@claim(r"With 1099511627776 rows, indptr must be 1099511627777 whole numbers")
def npz_of_many_rows():
    return npz("a.npz", shape=np.array([2**40, 3]))


@claim(r"row 2 says that it has 100,000,000 entries, more than the 42,666,666 that there is room for")
def npz_of_a_row_that_is_too_long():
    data, indices = npy_header((10**8 + 2,)), npy_header((10**8 + 2,), dtype="<i4")
    return npz("a.npz", data=(data, 0), indices=(indices, 0), indptr=[0, 1, 10**8 + 1, 10**8 + 2])


@claim(r"format\.npy takes 200000\d\d\d bytes, more than 10000")
def npz_whose_format_is_a_bomb():
    return npz("a.npz", format=(npy_header((BOMB,), dtype="|S1"), BOMB))


@claim(r"shape\.npy takes 200000\d\d\d bytes, more than 10000")
def npz_whose_shape_is_a_bomb():
    return npz("a.npz", shape=(npy_header((BOMB // 8,), dtype="<i8"), BOMB))


@claim(r"the header of an array says that it takes 200000000 bytes, more than 10000")
def npz_whose_header_is_a_bomb():
    return npz("a.npz", data=(npy_header((3,), version=2, size=BOMB), BOMB))


@claim(r"says that it has 2,000,001 columns, more than the 102,400 that there is room for")
def csv_of_one_line():
    Path("a.csv").write_text("1," * 2_000_000 + "1")
    return "a.csv"


@claim(r"line 1 does not end within 67,\d+,\d+ bytes")
def csv_of_one_line_in_an_archive():
    with gzip.open("a.csv.gz", "wb", compresslevel=1) as file:
        for _ in range(70):
            file.write(bytes(1 << 20))
    return "a.csv.gz"


@claim(r"is cut short\. /X of shape \(1000000000, 100\) and type float64 takes 800,000,000,000 bytes, .* has 0\.")
def h5ad_of_an_array_that_is_not_there():
    return h5ad(lambda file: file.create_dataset("X", (10**9, 100), "f8", chunks=(1000, 100)))


@claim(r"a chunk of /X says that it takes 800,000,000 bytes, more than the 512,000,000 that there is room for")
def h5ad_of_a_chunk_that_would_fill_the_memory():
    return h5ad(lambda file: file.create_dataset("X", (10**6, 100), "f8", chunks=(10**6, 100), compression="gzip"))


@claim(r"/var/_index says that it takes 1,000,000,000 bytes")
def h5ad_of_long_names():
    def write(file):
        file["X"] = np.ones((3, 100))
        file.create_dataset("var/_index", (100,), "S10000000", chunks=(1,), compression="gzip")

    return h5ad(write)


@claim(r"is cut short\. /X/indptr of shape \(100000001,\)")
def h5ad_of_rows_that_are_not_there():
    def write(file):
        X = file.create_group("X")
        X["data"], X["indices"] = np.ones(3), np.arange(3)
        X.create_dataset("indptr", (10**8 + 1,), "i8", chunks=(1000,))
        X.attrs.update({"encoding-type": "csr_matrix", "shape": (10**8, 100)})

    return h5ad(write)


@claim(r"says that it has 100,000,000 columns")
def h5ad_of_many_columns():
    return h5ad(lambda file: file.create_dataset("X", (1, 10**8), "i1", chunks=(1, 1000), compression="gzip"))


def h5ad(write_X):
    with h5py.File("a.h5ad", "w") as file:
        write_X(file)
        file.create_group("obs")
        if "var" not in file:
            file["var/_index"] = np.array([b"g"] * 100)
    return "a.h5ad"


@pytest.mark.slow
def test_claims_are_refused_with_no_more_memory_than_an_honest_file_would_take(tmp_path):
    """In one process with bounded memory for all: loading the libraries takes a while."""
    # One arena: otherwise every thread reserves some 70 MB.
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        env=os.environ | {"MALLOC_ARENA_MAX": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == list(CLAIMS)


def refuse_all():
    Path("warm.csv").write_text("a,b\n1,2\n")
    open_data("warm.csv")  # and with it all threads
    size = re.search(r"VmSize:\s*(\d+) kB", Path("/proc/self/status").read_text())
    most = 1024 * int(size[1]) + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for name, (make, match) in CLAIMS.items():
        with pytest.raises(DataError, match=match):
            open_data(make())
        print(name)


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    refuse_all()
