"""What is wrong with data is said in a sentence or two: which file, which row and column, what to do."""

import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from dbmd.data.formats import suffixes
from dbmd.dataset import open_data
from dbmd.errors import DataError
from tables import VARIANTS, as_csv, as_h5ad, as_npy, as_npz, as_parquet, table

ENDINGS = ", ".join(sorted(suffixes()))
NOT_FINITE = "Only finite numbers can be fitted: remove or impute such rows first."
UNSOUND = "{name}: is not a sound {kind} file, or not a whole one: copy or write it anew ({said})."
CASES = {}


def case(message, **options):
    """Add a case: a function that puts files in a folder and returns their names, and the message that is due.

    In the message, what stands in double braces is not ours to word.
    """

    def add(make):
        CASES[make.__name__.replace("_", " ")] = make, message, options
        return make

    return add


def text(path, content):
    Path(path).write_text(content)
    return path


def cut_short(path, keep=0.5):
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: int(keep * len(data))])
    return path


def parquet(path, **options):
    def write(columns):
        pq.write_table(pa.table(columns), path, **options)
        return path

    return write


def written(variant, name, n=50, change=None):
    """Write a table of a variant; the entry in row 8, column 2 of the features may be changed."""
    data = table(np.random.default_rng(0), n)
    if change is not None:
        data.X[7, 1] = change
    return Path(variant.write(data, Path(), name).path).name


# -- files ---------------------------------------------------------------------------------------------------------


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


# -- files that are not what they should be ------------------------------------------------------------------------


@case(UNSOUND.format(name="a.parquet", kind="parquet", said="{{.*}}"))
def parquet_cut_short():
    return cut_short(written(as_parquet(), "a"))


@case(UNSOUND.format(name="a.parquet", kind="parquet", said="{{.*}}"), drop=["note"])
def parquet_damaged_inside():
    path = Path(written(as_parquet(), "a", n=5000))
    data = bytearray(path.read_bytes())
    data[40:400] = bytes(360)
    path.write_bytes(data)
    return path


@case(
    "a.npy: is cut short. An array of shape (50, 7) and type float64 takes 2928 bytes, the file has 1464.",
)
def npy_cut_short():
    return cut_short(written(as_npy(), "a"))


@case(UNSOUND.format(name="a.npy", kind="npy", said="{{.*}}"))
def npy_without_a_whole_header():
    return cut_short(written(as_npy(), "a"), 0.01)


@case(UNSOUND.format(name="a.csv.gz", kind="csv", said="Truncated compressed stream"))
def gz_cut_short():
    return cut_short(written(as_csv(".csv.gz"), "a"))


@case(UNSOUND.format(name="a.csv.gz", kind="csv", said="Truncated compressed stream"), drop=["note"])
def gz_cut_short_far_down():
    return cut_short(written(as_csv(".csv.gz"), "a", n=60_000), 0.9)


@case(r"a.csv.gz: {{(is not a sound csv file.*\(zlib inflate failed: .*\)\.|line \d+.*)}}", drop=["note"])
def gz_damaged():
    path = Path(written(as_csv(".csv.gz"), "a", n=60_000))
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 50] = b"\xff" * 50  # it may first decode to text that makes no sense
    path.write_bytes(data)
    return path


@case(UNSOUND.format(name="a.csv.gz", kind="csv", said="zlib inflate failed: incorrect header check"))
def gz_that_is_plain_text():
    return text("a.csv.gz", "x,y\n1,2\n")


@case(UNSOUND.format(name="a.csv.zst", kind="csv", said="Truncated compressed stream"))
def zst_cut_short():
    return cut_short(written(as_csv(".csv.zst"), "a"))


@case(UNSOUND.format(name="a.npz", kind="npz", said="File is not a zip file"))
def npz_cut_short():
    return cut_short(written(as_npz(), "a"))


@case(UNSOUND.format(name="a.npz", kind="npz", said="File is not a zip file"))
def npz_that_is_no_archive():
    return text("a.npz", "x" * 1000)


@case(UNSOUND.format(name="a.npz", kind="npz", said="{{.*}}"))
def npz_damaged_inside():
    path = Path(written(as_npz(), "a", n=5000))
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("data.npy")
    data = bytearray(path.read_bytes())
    middle = member.header_offset + member.compress_size // 2
    data[middle : middle + 50] = b"\xff" * 50
    path.write_bytes(data)
    return path


@case(
    "a.npz: is not a sound CSR matrix. With 20 rows, indptr must be 21 whole numbers, and indices as many as there are "
    "entries in data. Got int32 of shape (21,), int32 of shape (60,), and data of shape (56,)."
)
def npz_with_fewer_entries_than_it_says():
    matrix = sparse.csr_matrix(np.ones((20, 3)))
    parts = {"indices": matrix.indices, "indptr": matrix.indptr, "format": b"csr", "shape": matrix.shape}
    np.savez("a.npz", data=matrix.data[:-4], **parts)
    return "a.npz"


@case(
    "a.npz: must hold a sparse matrix as scipy.sparse.save_npz writes it. Got an archive of first, second. "
    "Save a dense array with numpy.save, as .npy."
)
def npz_of_dense_arrays():
    np.savez("a.npz", first=np.ones((3, 2)), second=np.ones(3))
    return "a.npz"


@case(
    "a.npz: must hold a CSR matrix, whose rows can be read one after the other. Got csc. "
    "Convert it: scipy.sparse.save_npz(path, matrix.tocsr())."
)
def npz_of_a_csc_matrix():
    sparse.save_npz("a.npz", sparse.csc_matrix(np.ones((3, 2))))
    return "a.npz"


@case(UNSOUND.format(name="a.h5ad", kind="h5ad", said="{{.*}}"))
def h5ad_cut_short():
    return cut_short(written(as_h5ad(), "a"))


@case(
    "a.h5ad: X must be dense or CSR, so that it can be read by rows. Got csc_matrix. "
    "Convert it: adata.X = adata.X.tocsr(), then adata.write_h5ad(path)."
)
def h5ad_of_a_csc_matrix():
    return written(as_h5ad(sparse.csc_matrix), "a")


@case("a.h5ad: must have X, obs and var, as AnnData writes them. Got ['numbers'].")
def h5ad_without_X():
    import h5py

    with h5py.File("a.h5ad", "w") as file:
        file["numbers"] = np.ones(3)
    return "a.h5ad"


@case("a.npz: is encrypted. Save it without a password: scipy.sparse.save_npz.")
def npz_that_is_encrypted():
    path = Path(written(as_npz(), "a"))
    data = path.read_bytes()
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # beside each member, and in the list of all
        data = re.sub(re.escape(mark) + b"(?s:.{%d})." % (flags - 4), lambda found: found[0][:-1] + b"\x01", data)
    path.write_bytes(data)
    return path


CSR = "a.npz: is not a sound CSR matrix. "
SOUND_INDPTR = CSR + "Its indptr must begin with 0, never fall, and end with at most the number of entries, 3."


def npz_of(**parts):
    matrix = sparse.csr_matrix(np.eye(3))
    whole = {"indices": matrix.indices, "indptr": matrix.indptr, "data": matrix.data, "format": b"csr"}
    np.savez("a.npz", **whole | {"shape": matrix.shape} | parts)
    return "a.npz"


@case(SOUND_INDPTR)
def npz_whose_indptr_is_shifted():
    return npz_of(indptr=np.array([1, 2, 3, 4]))


@case(SOUND_INDPTR)
def npz_whose_indptr_falls():
    return npz_of(indptr=np.array([0, 2, 1, 3]))


@case(CSR + "Its indices must be from 0 to 2, the last column. Got 0 to 7.")
def npz_with_an_entry_outside():
    return npz_of(indices=np.array([0, 7, 2]))


@case("a.npz: shape must be two whole numbers, rows and columns. Got [3 3 3].")
def npz_of_three_dimensions():
    return npz_of(shape=np.array([3, 3, 3]))


@case(UNSOUND.format(name="a.npz", kind="npz", said="There is no item named 'indptr.npy' in the archive"))
def npz_that_lacks_a_part():
    np.savez("a.npz", data=np.ones(3), format=b"csr", shape=np.array([3, 3]), indices=np.arange(3))
    return "a.npz"


def h5ad_with(write):
    import h5py

    with h5py.File(written(as_h5ad(), "a", n=3), "a") as file:
        del file["X"]
        write(file)
    return "a.h5ad"


TWO_DIMENSIONS = "a.h5ad: X must have two dimensions, rows and variables. Got {}."


@case(TWO_DIMENSIONS.format("nothing"))
def h5ad_of_an_empty_X():
    import h5py

    return h5ad_with(lambda file: file.create_dataset("X", data=h5py.Empty("f8")))


@case(TWO_DIMENSIONS.format("shape (3,)"))
def h5ad_of_a_vector():
    return h5ad_with(lambda file: file.create_dataset("X", data=np.ones(3)))


@case("a.h5ad: X must be dense or CSR, so that it can be read by rows. Got a group. {{.*}}")
def h5ad_of_a_group():
    return h5ad_with(lambda file: file.create_group("X"))


@case("a.h5ad: column 'lab' of obs must have one value for each row of X.", source="lab")
def h5ad_with_an_annotation_of_two_dimensions():
    def write(file):
        file["X"] = np.ones((3, 5))
        del file["obs/lab"]
        file["obs/lab"] = np.ones((3, 2))

    return h5ad_with(write)


@case(UNSOUND.format(name="a.npy", kind="npy", said="the header of an array says that its shape is (-1, 4)"))
def npy_of_a_negative_size():
    np.save("a.npy", np.ones((10, 4)))
    Path("a.npy").write_bytes(Path("a.npy").read_bytes().replace(b"(10, 4)", b"(-1, 4)"))
    return "a.npy"


@case("a.npy: must hold numbers. Got an array of type object.")
def npy_of_objects():
    np.save("a.npy", np.array([[1.0, "a"]], dtype=object), allow_pickle=True)
    return "a.npy"


@case("a.npy: must hold numbers. Got an array of type complex128.")
def npy_of_complex_numbers():
    np.save("a.npy", np.ones((3, 2), complex))
    return "a.npy"


@case("a.npy: must be an array of shape (samples, features). Got shape (3, 2, 2).")
def npy_of_three_dimensions():
    np.save("a.npy", np.ones((3, 2, 2)))
    return "a.npy"


# -- nothing in it -------------------------------------------------------------------------------------------------


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


# -- text ----------------------------------------------------------------------------------------------------------


@case("a.csv: line 3 has 1 fields where there should be 2, as in line 1.")
def a_row_of_too_few_fields():
    return text("a.csv", "x,y\n1,2\n3\n5,6\n")


@case("a.csv: line 3 has 3 fields where there should be 2, as in line 1.")
def a_row_of_too_many_fields():
    return text("a.csv", "x,y\n1,2\n3,4,5\n5,6\n")


@case("a.csv: line 300002 has 1 fields where there should be 2, as in line 1.")
def a_row_of_too_few_fields_far_down():
    return text("a.csv", "x,y\n" + "1.5,2\n" * 300_000 + "3\n")


@case("a.csv: line 7 has 3 fields where there should be 2, as in line 1.")
def a_row_of_too_many_fields_below_empty_lines_and_a_break_in_quotes():
    return text("a.csv", 'x,y\n1,"2\n3"\n\n\n4,5\n6,7,8\n')


@case(
    "a.csv: column 'y' does not hold numbers ('many' in line 3). Leave out what is no feature (--drop y), or one-hot "
    "code it (--encode y)."
)
def text_among_the_first_numbers():
    return text("a.csv", "x,y\n1,2\n3,many\n")


@case(
    "a.csv: line 300002, column 'y' has 'many' where there should be a number. "
    "Correct it, or leave the column out with --drop."
)
def text_among_numbers_far_down():
    return text("a.csv", "x,y\n" + "1.5,2\n" * 300_000 + "3,many\n")


@case(
    "b.csv: column 'y' does not hold numbers ('many' in line 2). Leave out what is no feature (--drop y), or one-hot "
    "code it (--encode y)."
)
def text_in_the_second_file():
    return [text("a.csv", "x,y\n1,2\n"), text("b.csv", "x,y\n1,many\n")]


@case(f"a.csv: line 3, column 'y' has no number (it is empty or NaN). {NOT_FINITE}")
def an_empty_cell():
    return text("a.csv", "x,y\n1,2\n3,\n")


@case(f"a.csv: line 300002, column 'y' has no number (it is empty or NaN). {NOT_FINITE}")
def an_empty_cell_far_down():
    return text("a.csv", "x,y\n" + "1.5,2\n" * 300_000 + "3,\n")


@case(f"a.csv: line 6, column 'y' has no number (it is empty or NaN). {NOT_FINITE}")
def an_empty_cell_below_empty_lines():
    return text("a.csv", "x,y\n1,2\n\n\n3,4\n3,\n")


@case(f"a.csv: line 2, column '1' has no number (it is empty or NaN). {NOT_FINITE}")
def an_empty_cell_without_a_header():
    return text("a.csv", "1,2\n3,\n")


@case(f"a.csv: line 2, column 'y' has no number (it is empty or NaN). {NOT_FINITE}")
def an_empty_column():
    return text("a.csv", "x,y\n1,\n2,\n")


@case("a.csv: is not text in UTF-8.")
def a_header_in_another_encoding():
    Path("a.csv").write_bytes("x,größe\n1,2\n".encode("latin-1"))
    return "a.csv"


@case(
    r"a.csv: column 'y' does not hold numbers ('5\\xdf' in line 2). Leave out what is no feature (--drop y), or "
    "one-hot code it (--encode y)."
)
def a_feature_in_another_encoding():
    Path("a.csv").write_bytes("x,y\n1,5ß\n".encode("latin-1"))
    return "a.csv"


@case("a.csv: line 3 is not text in UTF-8.", source="y")
def a_text_in_another_encoding():
    Path("a.csv").write_bytes("x,y\n1,a\n2,groß\n".encode("latin-1"))
    return "a.csv"


@case(
    "a.csv: line 1 has a field of more than 131,072 characters, which is too long for a name or a number. "
    "Is this no csv file, or is the delimiter another (--delimiter)?"
)
def a_name_without_end():
    return text("a.csv", "x" * 200_000 + ",y\n1,2\n")


@case(
    "The delimiter must be one character of ASCII, no quote or line break. Got ',,'. "
    "A tab is written $'\\t' in a shell.",
    delimiter=",,",
)
def a_delimiter_of_two_characters():
    return text("a.csv", "x,,y\n1,,2\n")


@case("a.csv: column 'x' occurs twice in the header. Rename one of them.")
def a_header_with_a_name_twice():
    return text("a.csv", "x,y,x\n1,2,3\n")


# -- columns -------------------------------------------------------------------------------------------------------


@case("a.parquet: column 'x' occurs twice. Rename one of them.")
def parquet_with_a_name_twice():
    pq.write_table(pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"]), "a.parquet")
    return "a.parquet"


@case("a.h5ad: variable 'g' occurs twice. Call adata.var_names_make_unique() first.")
def h5ad_with_a_name_twice():
    import anndata

    data = anndata.AnnData(np.ones((3, 2)), var=pd.DataFrame(index=["f", "g"]))
    data.write_h5ad("a.h5ad")
    import h5py

    with h5py.File("a.h5ad", "a") as file:
        file["var"]["_index"][:] = ["g", "g"]
    return "a.h5ad"


@case("b.csv: lacks 'y'. All files must have the columns of a.csv.")
def files_of_which_one_lacks_a_column():
    return [text("a.csv", "x,y\n1,2\n"), text("b.csv", "x\n1\n")]


@case("b.csv: also has 'z'. All files must have the columns of a.csv.")
def files_of_which_one_has_more_columns():
    return [text("a.csv", "x,y\n1,2\n"), text("b.csv", "x,y,z\n1,2,3\n")]


@case("b.npy: lacks '7'. All files must have the columns of a.npy.")
def arrays_of_different_width():
    np.save("a.npy", np.ones((3, 8)))
    np.save("b.npy", np.ones((3, 7)))
    return ["a.npy", "b.npy"]


@case(
    "a.parquet: columns 'name', 'day' hold no numbers. Leave out what is no feature (--drop name --drop day), or "
    "one-hot code it (--encode name)."
)
def columns_of_text_and_dates():
    day = pa.array([1, 2], pa.date32())
    return parquet("a.parquet")({"x": [1.0, 2.0], "name": ["a", "b"], "day": day})


@case(
    "a.parquet: column 'list' does not hold numbers. Leave out what is no feature (--drop list), or one-hot code it "
    "(--encode list)."
)
def a_column_of_lists():
    return parquet("a.parquet")({"x": [1.0, 2.0], "list": [[1.0], [2.0, 3.0]]})


@case("a.csv: has no column 'batc'. Did you mean 'batch'?", source="batc")
def a_source_that_is_misspelt():
    return text("a.csv", "x,batch\n1,2\n")


@case("a.csv: has no column 'zzz'. It has 'x', 'y'.", drop=["zzz"])
def a_column_to_drop_that_is_not_there():
    return text("a.csv", "x,y\n1,2\n")


@case("a.csv: has no column 'heigt'. Did you mean 'height' or 'weight'?", columns=["heigt"])
def a_feature_that_is_misspelt():
    return text("a.csv", "height,weight,y\n1,2,3\n")


@case("a.h5ad: has no column 'labb'. Did you mean 'lab'?", label="labb")
def an_annotation_that_is_misspelt():
    return written(as_h5ad(), "a")


@case("b.h5ad: has no column 'lab'. {{.*}}", source="lab")
def an_annotation_that_only_the_first_file_has():
    import anndata

    data = anndata.AnnData(np.ones((3, 5)), var=pd.DataFrame(index=[f"x{i}" for i in range(5)]))
    data.write_h5ad("b.h5ad")
    return [written(as_h5ad(), "a"), "b.h5ad"]


@case("b.h5ad: has 'g' as a feature, and a.h5ad as an annotation of its rows.", label="g")
def a_label_that_is_a_feature_elsewhere():
    import anndata

    var = pd.DataFrame(index=["f", "g"])
    obs = pd.DataFrame({"g": ["u", "v", "w"]}, index=["0", "1", "2"])
    anndata.AnnData(np.ones((3, 2)), var=var, obs=obs).write_h5ad("a.h5ad")
    anndata.AnnData(np.ones((3, 2)), var=var).write_h5ad("b.h5ad")
    return ["a.h5ad", "b.h5ad"]


TWO_THINGS = (
    "a.csv: column 'y' is asked for as a feature, and also as source, label, or to be encoded or left out. "
    "It can be only one of them."
)


@case(TWO_THINGS, columns=["x", "y"], label="y")
def a_label_that_is_to_be_a_feature():
    return text("a.csv", "x,y\n1,2\n")


@case(TWO_THINGS, columns=["x", "y"], drop=["y"])
def a_feature_that_is_to_be_left_out():
    return text("a.csv", "x,y\n1,2\n")


@case("a.csv: column 'x' is asked for twice.", columns=["x", "y", "x"])
def a_feature_that_is_asked_for_twice():
    return text("a.csv", "x,y\n1,2\n")


@case("a.csv: no columns are left to fit.", drop=["x", "y"])
def all_columns_left_out():
    return text("a.csv", "x,y\n1,2\n")


@case("The type to compute with must be float32 or float64. Got int32.", dtype="int32")
def a_type_that_is_no_floating_point_type():
    return text("a.csv", "x,y\n1,2\n")


@case(f"a.npy: row 2, column '1' is inf. {NOT_FINITE}", dtype="float32")
def a_number_that_does_not_fit_into_the_type_to_compute_with():
    np.save("a.npy", np.array([[1.0, 2.0], [3.0, 1e300]]))
    return "a.npy"


# -- sources, labels, categories -----------------------------------------------------------------------------------


@case("a.csv: line 3, column 'lab' is empty.", source="lab")
def a_csv_without_a_source_in_one_row():
    return text("a.csv", "x,lab\n1,a\n2,\n3,c\n")


@case("a.parquet: row 3, column 'lab' is empty.", source="lab")
def parquet_without_a_source_in_one_row():
    return parquet("a.parquet", row_group_size=2)({"x": [1.0, 2.0, 3.0], "lab": ["a", "b", None]})


@case("a.parquet: row 2, column 'lab' is empty.", source="lab")
def a_source_that_is_nan():
    return parquet("a.parquet")({"x": [1.0, 2.0, 3.0], "lab": [1.0, np.nan, 2.0]})


@case("a.parquet: row 2, column 'lab' is empty.", encode=["lab"])
def a_category_that_is_missing():
    return parquet("a.parquet")({"x": [1.0, 2.0], "lab": pa.array(["a", None]).dictionary_encode()})


@case("a.h5ad: row 2, column 'lab' is empty.", label="lab")
def an_annotation_that_is_missing():
    import anndata

    obs = pd.DataFrame({"lab": pd.Categorical(["a", None, "b"])}, index=["0", "1", "2"])
    anndata.AnnData(np.ones((3, 2)), obs=obs).write_h5ad("a.h5ad")
    return "a.h5ad"


@case(
    "a.parquet: column 'lab' must have a name or a number in each row{{.*}} Got a column of date32[day].", source="lab"
)
def a_source_that_is_a_date_of_no_calendar():
    return parquet("a.parquet")({"x": [1.0], "lab": pa.array([3 * 10**8], pa.int32()).cast(pa.date32())})


NO_NAME = "a.parquet: column 'lab' must have a name or a number in each row to tell rows apart by. Got a column of {}."


@case(NO_NAME.format("list<element: int64>"), source="lab")
def a_source_that_is_a_list():
    return parquet("a.parquet")({"x": [1.0, 2.0], "lab": [[1], [2]]})


@case(NO_NAME.format("struct<a: int64>"), encode=["lab"])
def a_category_that_is_a_structure():
    return parquet("a.parquet")({"x": [1.0, 2.0], "lab": [{"a": 1}, {"a": 2}]})


@case(
    "a.csv: encoding 'lab' gives a feature 'lab=a', and there is a column of that name. Rename the column, or leave it "
    "out (--drop lab=a).",
    encode=["lab"],
)
def a_category_that_is_called_like_a_column():
    return text("a.csv", "x,lab=a,lab\n1,2,a\n1,2,b\n")


@case("The names of sources must be of one kind in all files. Got int, str.", source="lab")
def sources_of_two_kinds():
    one = parquet("a.parquet")({"x": [1.0], "lab": [1]})
    return [one, parquet("b.parquet")({"x": [1.0], "lab": ["b"]})]


TOO_MANY = "has more than 1000 categories, too many to encode. Leave it out with --drop."


@case(f"a.csv: column 'y' {TOO_MANY}", encode=["y"])
def too_many_categories():
    return text("a.csv", "x,y\n" + "".join(f"1,{i}\n" for i in range(1001)))


@case(f"a.parquet: column 'y' {TOO_MANY}", encode=["y"])
def too_many_categories_of_all_row_groups():
    return parquet("a.parquet", row_group_size=100)({"x": np.ones(2001), "y": np.arange(2001)})


@case(f"a.csv: column 'y' {TOO_MANY}", encode=["y"])
def too_many_categories_of_all_files():
    rows = ["".join(f"1,{i}\n" for i in range(start, start + 501)) for start in (0, 501)]
    return [text("a.csv", "x,y\n" + rows[0]), text("b.csv", "x,y\n" + rows[1])]


# -- numbers that are none -----------------------------------------------------------------------------------------

NULLS = {
    "floats": pa.array([1.5, None, 3.0]),
    "int8": pa.array([1, None, 3], pa.int8()),
    "bool": pa.array([True, None, False]),
    "decimals": pa.array([1, None, 3], pa.decimal128(5, 2)),
    "a dictionary": pa.array([1.0, None, 3.0]).dictionary_encode(),
}


def check(files, message, options):
    with pytest.raises(DataError) as caught:
        open_data(files, **options)
    said = str(caught.value)
    parts = re.split(r"\{\{(.*?)\}\}", message)
    pattern = "".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts))
    assert re.fullmatch(pattern, said), said
    assert "\n" not in said


@pytest.mark.parametrize("name", CASES)
def test_it_is_said(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, message, options = CASES[name]
    check(make(), message, options)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize(
    "variant", [name for name, variant in VARIANTS.items() if variant.kind == "quarters" and name != "decimals"]
)
def test_an_entry_that_is_no_finite_number_is_said_by_file_row_and_column(variant, value, tmp_path):
    data = table(np.random.default_rng(0), 50)
    data.X[7, 1] = value
    data.X[20, 3] = value
    written = VARIANTS[variant].write(data, tmp_path, "data")
    with pytest.raises(DataError) as caught:
        open_data(written.path, columns=written.features)
    row = {"csv": r"line \d+"}.get(VARIANTS[variant].format, "row 8")
    what = r"has no number \(it is empty or NaN\)" if np.isnan(value) else f"is {value}"
    pattern = f"{re.escape(written.path)}: {row}, column '{written.features[1]}' {what}. {re.escape(NOT_FINITE)}"
    assert re.fullmatch(pattern, str(caught.value))


@pytest.mark.parametrize("kind", NULLS)
def test_a_missing_number_in_parquet_is_said_by_row_and_column(kind, tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array([1, 2, 3], pa.int8()), "y": NULLS[kind]}), path)
    check(path, f"{path}: row 2, column 'y' has no number (it is empty or NaN). {NOT_FINITE}", {})


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_of_several_faults_in_a_file_the_first_is_said_whatever_the_number_of_threads(threads, tmp_path, monkeypatch):
    monkeypatch.setenv("DBMD_NUM_THREADS", threads)
    X = np.ones((1000, 3))
    X[[300, 600, 900], 1] = np.nan
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(DataError, match="row 301, column '1'"):
        open_data(tmp_path / "a.npy")
