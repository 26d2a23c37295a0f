"""Messages about paths, folders and files without rows."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy import sparse

from dbmd.data.formats import endings
from tables import as_h5ad, as_npy, as_npz

from .cases import UNSOUND, Cases, parquet, text, written

ENDINGS = endings()
case = Cases()


# -- files -------------------------------------------------------------------------------------------------------------


@case("gone.csv: no such file or folder.")
def a_missing_file():
    return "gone.csv"


@case("No files were given.")
def no_file():
    return []


@case("nothing: the folder is empty.")
def an_empty_folder():
    Path("nothing").mkdir()
    return "nothing"


NO_FILE = (
    "{}: is neither a file nor a folder. Data are read several times, which a pipe or a device does not allow: write "
    "them to a file first."
)


@case(NO_FILE.format("a.csv"))
def a_pipe():
    os.mkfifo("a.csv")
    return "a.csv"


@case(NO_FILE.format("/dev/null"))
def a_device():
    return "/dev/null"


@case(f"other: the folder has no file that ends in one of {ENDINGS}.")
def a_folder_without_data():
    Path("other").mkdir()
    text("other/readme.txt", "x")
    return "other"


@case(f"data.xlsx: no known format. Names of files must end in one of {ENDINGS}.")
def an_unknown_ending():
    return text("data.xlsx", "x")


@case("a.csv: is given twice.")
def one_file_twice():
    return [text("a.csv", "x\n1\n"), "a.csv"]


@case("sub/../a.csv: is given twice.")
def one_file_by_two_paths():
    Path("sub").mkdir()
    return ["sub/../a.csv", text("a.csv", "x\n1\n")]


@case("folder/a.csv: is given twice.")
def a_file_and_its_folder():
    Path("folder").mkdir()
    return ["folder", text("folder/a.csv", "x\n1\n")]


@case("a.npy is dense and b.npz is sparse: fit one kind at a time.")
def sparse_and_dense_files():
    return [written(as_npy(), "a"), written(as_npz(), "b")]


# -- nothing in it -----------------------------------------------------------------------------------------------------


@case("a.csv: the file is empty.")
def an_empty_csv():
    return text("a.csv", "")


@case("a.csv: line 1 is empty.")
def a_csv_that_begins_with_an_empty_line():
    return text("a.csv", "\nx,y\n1,2\n")


@case("a.csv: has no rows.")
def a_csv_of_a_header():
    return text("a.csv", "x,y\n")


@case("a.csv: has no rows.")
def a_csv_of_a_header_without_a_line_break():
    return text("a.csv", "x,y")


@case("The files have no rows.")
def two_csv_of_a_header():
    return [text("a.csv", "x,y\n"), text("b.csv", "x,y\n")]


@case("a.parquet: has no rows.")
def parquet_without_rows():
    return parquet("a.parquet")({"x": pa.array([], pa.float64())})


@case("a.npy: has no rows.")
def npy_without_rows():
    np.save("a.npy", np.zeros((0, 3)))
    return "a.npy"


@case("a.npz: has no rows.")
def npz_without_rows():
    sparse.save_npz("a.npz", sparse.csr_matrix((0, 3)))
    return "a.npz"


@case("a.h5ad: has no rows.")
def h5ad_without_rows():
    return written(as_h5ad(), "a", n=0)


@case(UNSOUND.format(name="a.parquet", kind="parquet", said="Parquet file size is 0 bytes"))
def an_empty_parquet():
    return text("a.parquet", "")


@case(UNSOUND.format(name="a.npy", kind="npy", said="{{.*}}"))
def an_empty_npy():
    return text("a.npy", "")


@case(UNSOUND.format(name="a.npz", kind="npz", said="{{.*}}"))
def an_empty_npz():
    return text("a.npz", "")


@case(UNSOUND.format(name="a.h5ad", kind="h5ad", said="{{.*}}"))
def an_empty_h5ad():
    return text("a.h5ad", "")


test_the_message_is_due = case.test()
