"""Messages about files that are not what their ending says."""

import re
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from tables import as_csv, as_h5ad, as_npy, as_npz, as_parquet

from .cases import UNSOUND, Cases, cut_short, text, written

case = Cases()


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


@case(UNSOUND.format(name="a.csv.xz", kind="csv", said="the compressed stream ends too early"))
def xz_cut_short():
    return cut_short(written(as_csv(".csv.xz"), "a"))


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
    "a.npz: must hold a sparse matrix as scipy.sparse.save_npz writes it, or a single array. Got an archive of first, "
    "second. Save one of them with numpy.save, as .npy."
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


@case(
    "a.npy: must be an array of shape (samples, features), or a picture of shape (height, width, features). Got shape "
    "(3, 2, 2, 1)."
)
def npy_of_four_dimensions():
    np.save("a.npy", np.ones((3, 2, 2, 1)))
    return "a.npy"


@case(
    "a.npy: of shape (3, 2, 2), may be 3 images of 2 x 2 pixels, or one picture with 2 features. Save it in two "
    "dimensions: array.reshape(3, -1) for images, array.reshape(-1, 2) for a picture."
)
def npy_of_images():
    np.save("a.npy", np.ones((3, 2, 2)))
    return "a.npy"


test_the_message_is_due = case.test()
