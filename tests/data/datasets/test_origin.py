import gzip
import re
import shutil

import pytest

from dbmd.data.datasets import load
from dbmd.data.datasets.origin import folder
from dbmd.errors import DataError

FILES = {
    "covtype": ["covtype.npz"],
    "kdd99": ["kddcup.data_10_percent.gz", "columns.txt"],
    "mnist": [f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")],
    "cellmix": [f"cellmix{i}.{kind}.csv.gz" for i in (1, 4) for kind in ("count", "metadata")],
}
EACH = [(name, file) for name, files in FILES.items() for file in files]


def said(name):
    with pytest.raises(DataError) as caught:
        load(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def own_files(small_files, tmp_path, monkeypatch):
    """Return a copy of the small data sets that a test may damage."""
    shutil.copytree(small_files, tmp_path / "data")
    monkeypatch.setenv("DBMD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


# -- nowhere -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "fetcher"), [("covtype", "fetch_covtype"), ("kdd99", "fetch_kddcup99"), ("mnist", "fetch_openml")]
)
def test_without_files_and_network_it_is_said_what_to_do(name, fetcher):
    assert re.fullmatch(
        f"The data set '{name}' was not found: DBMD_DATA is not set, and {fetcher} of scikit-learn failed "
        rf"\(Network is unreachable\). Set DBMD_DATA to a folder that has a folder {name} with .*{FILES[name][0]}.*, "
        "or let scikit-learn download it.",
        said(name),
    )


def test_without_files_of_a_set_that_cannot_be_downloaded_nothing_else_is_proposed():
    assert said("cellmix") == (
        "The data set 'cellmix' was not found: DBMD_DATA is not set, and there is no download of it. Set DBMD_DATA to "
        "a folder that has a folder cellmix with cellmix1.count.csv.gz, cellmix1.metadata.csv.gz and so on to 4."
    )


@pytest.mark.parametrize("name", FILES)
def test_it_is_said_where_a_folder_was_looked_for(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DBMD_DATA", str(tmp_path))
    assert f"there is no folder {tmp_path / name}, and " in said(name)


@pytest.mark.usefixtures("online")
def test_a_set_that_the_folder_has_not_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("DBMD_DATA", str(tmp_path))
    assert len(load("covtype").y) == 60


def test_the_home_folder_may_be_written_as_a_tilde(small_files, monkeypatch):
    monkeypatch.setenv("HOME", str(small_files.parent))
    monkeypatch.setenv("DBMD_DATA", f"~/{small_files.name}")
    assert folder("mnist") == small_files / "mnist"


# -- damaged -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize(("name", "file"), EACH)
def test_a_file_that_is_not_there_is_named_even_if_there_is_a_download(name, file, own_files):
    (own_files / name / file).unlink()
    remedy = "Put a good copy of the file in its place."
    assert said(name) == f"{own_files / name / file}: cannot be read (it is not there). {remedy}"


@pytest.mark.parametrize(("name", "file"), EACH)
@pytest.mark.parametrize("damage", ["cut", "nonsense", "empty"])
def test_a_damaged_file_is_named(name, file, damage, own_files):
    path = own_files / name / file
    content = path.read_bytes()
    path.write_bytes({"cut": content[: len(content) // 2], "nonsense": b"nonsense", "empty": b""}[damage])
    assert said(name).startswith(f"{path}: cannot be read (")


CONTENTS = {
    "a row with too few columns": ("kdd99", "kddcup.data_10_percent.gz", b"1,tcp,http\n"),
    "a number that is none": ("kdd99", "kddcup.data_10_percent.gz", b",".join([b"tcp"] * 42) + b"\n"),
    "a number that is missing": ("kdd99", "kddcup.data_10_percent.gz", b"," * 41 + b"\n"),
    "an array with other axes": ("mnist", "train-images-idx3-ubyte.gz", bytes([0, 0, 8, 1, 0, 0, 0, 1, 7])),
    "fewer digits than images": ("mnist", "t10k-labels-idx1-ubyte.gz", bytes([0, 0, 8, 1, 0, 0, 0, 1, 7])),
    "a cell without metadata": ("cellmix", "cellmix2.metadata.csv.gz", b'"H1975","H2228","HCC827"\n"A1",0,0,9\n'),
    "metadata without a cell line": ("cellmix", "cellmix2.metadata.csv.gz", b'"H1975","H2228"\n"A1",0,9\n'),
    "a count that is none": ("cellmix", "cellmix3.count.csv.gz", b'"B2"\n"g1",many\n'),
}


@pytest.mark.parametrize("case", CONTENTS)
def test_a_file_with_another_content_is_named(case, own_files):
    name, file, content = CONTENTS[case]
    (own_files / name / file).write_bytes(gzip.compress(content))
    assert said(name).startswith(f"{own_files / name / file}: cannot be read (")
