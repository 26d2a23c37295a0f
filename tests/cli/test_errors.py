"""What goes wrong is said in one sentence: exit code 2, nothing on stdout, no traceback."""

import io
import os

import numpy as np
import pytest
from scipy import sparse

from cli.running import refused, run, samples, write_parquet

COMMANDS = {
    "fit": lambda folder, out, *files: ("fit", *files, "-k", "2", "-o", out / "new"),
    "transform": lambda folder, out, *files: ("transform", folder / "model", *files, "-o", out / "new.parquet"),
}


# -- files ---------------------------------------------------------------------------------------------------------


def missing(folder, out):
    return out / "none.csv", ["none.csv", "no such file"]


def truncated_parquet(folder, out):
    path = out / "cut.parquet"
    path.write_bytes((folder / "good.parquet").read_bytes()[:-100])
    return path, ["cut.parquet"]


def empty_parquet(folder, out):
    path = out / "empty.parquet"
    path.touch()
    return path, ["empty.parquet", "empty"]


def truncated_npy(folder, out):
    path = out / "cut.npy"
    path.write_bytes((folder / "good.npy").read_bytes()[:-100])
    return path, ["cut.npy"]


def short_row(folder, out):
    path = out / "short.csv"
    path.write_text("x0,x1,x2,x3\n1,2,3,4\n1,2,3\n5,6,7,8\n")
    return path, ["short.csv", "line 3", "3 fields", "4"]


def word(folder, out):
    path = out / "word.csv"
    path.write_text("x0,x1,x2,x3\n" + "1,2,3,4\n" * 3 + "1,many,3,4\n")
    return path, ["word.csv", "line 5", "'x1'", "'many'"]


def empty_csv(folder, out):
    path = out / "empty.csv"
    path.touch()
    return path, ["empty.csv", "empty"]


def header_only(folder, out):
    path = out / "header.csv"
    path.write_text("x0,x1,x2,x3\n")
    return path, ["header.csv", "no rows"]


def nan_in_csv(folder, out):
    path = out / "nan.csv"
    path.write_text("x0,x1,x2,x3\n1,2,3,4\n1,2,NaN,4\n5,6,7,8\n")
    return path, ["nan.csv", "line 3", "'x2'"]


def nan_in_parquet(folder, out):
    X, _ = samples(40)
    X[7, 2] = np.nan
    return write_parquet(out / "nan.parquet", X), ["nan.parquet", "row 8", "'x2'"]


def infinity_in_npy(folder, out):
    X, _ = samples(40)
    X[9, 1] = np.inf
    np.save(out / "inf.npy", X)
    return out / "inf.npy", ["inf.npy", "row 10", "'1'", "inf"]


def infinity_in_npz(folder, out):
    X, _ = samples(40)
    X[9, 1] = -np.inf
    sparse.save_npz(out / "inf.npz", sparse.csr_matrix(X))
    return out / "inf.npz", ["inf.npz", "row 10", "'1'", "-inf"]


def pickle_in_npy(folder, out):
    np.save(out / "pickle.npy", np.array([{"x": 1}, None], object))
    return out / "pickle.npy", ["pickle.npy"]


def unknown_format(folder, out):
    path = out / "data.xlsx"
    path.write_bytes(b"PK")
    return path, ["data.xlsx", ".parquet"]


def empty_folder(folder, out):
    (out / "nothing").mkdir()
    return out / "nothing", ["nothing", "empty"]


FILES = (
    missing,
    truncated_parquet,
    empty_parquet,
    truncated_npy,
    short_row,
    word,
    empty_csv,
    header_only,
    nan_in_csv,
    nan_in_parquet,
    infinity_in_npy,
    infinity_in_npz,
    pickle_in_npy,
    unknown_format,
    empty_folder,
)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("broken", FILES, ids=lambda broken: broken.__name__)
def test_a_file_that_cannot_be_used_is_named_with_the_place_and_nothing_is_written(broken, command, folder, tmp_path):
    path, told = broken(folder, tmp_path)
    before = sorted(tmp_path.iterdir())
    sentence = refused(*COMMANDS[command](folder, tmp_path, path))
    for part in told:
        assert part in sentence
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_files_with_different_columns_are_refused(command, folder, tmp_path):
    X, _ = samples(20, m=5)
    write_parquet(tmp_path / "a.parquet", X[:, :4])
    write_parquet(tmp_path / "b.parquet", X)
    sentence = refused(*COMMANDS[command](folder, tmp_path, tmp_path / "a.parquet", tmp_path / "b.parquet"))
    assert "b.parquet" in sentence
    assert "'x4'" in sentence


# -- columns and parameters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--source", "lap"], ["good.csv", "'lap'", "Did you mean 'lab'?"]),
        (["--label", "kind"], ["good.csv", "'kind'"]),
        (["--drop", "lab", "--columns", "x0,y"], ["good.csv", "'y'"]),
        (["--drop", "id"], ["good.csv", "'id'"]),
        (["--encode", "colour"], ["good.csv", "'colour'"]),
        ([], ["good.csv", "'lab'", "--drop lab", "--encode lab"]),
        (["--columns", "x0,x0"], ["good.csv", "'x0'", "twice"]),
        (["--columns", "x0,lab", "--source", "lab"], ["good.csv", "'lab'", "only one"]),
        (["--columns", ",", "--drop", "lab"], ["good.csv", "no columns"]),
    ],
)
def test_columns_that_do_not_fit_are_named(options, told, folder, tmp_path):
    sentence = refused("fit", folder / "good.csv", "-k", "2", "-o", tmp_path / "new", *options)
    for part in told:
        assert part in sentence
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-k", "0"], ["-k must be", "0"]),
        (["-k", "61"], ["-k must be", "61", "60"]),
        (["--alpha", "0.5"], ["alpha", "0.5"]),
        (["--alpha", "nan"], ["alpha", "nan"]),
        (["--lam", "-1"], ["lam", "-1"]),
        (["--tol", "-1"], ["--tol must be a float >= 0. Got -1.0."]),
        (["--tol", "nan"], ["--tol must be a float >= 0. Got nan."]),
        (["--lam", "inf"], ["--lam must be", "inf"]),
        (["--noise", "nan"], ["--noise must be", "nan"]),
        (["--effective-features", "inf"], ["--effective-features must be", "inf"]),
        (["--solver-option", "tol=nan"], ["--solver-option tol must be", "nan"]),
        (["--max-iter", "0"], ["--max-iter must be", "0"]),
        (["--n-init", "0"], ["--n-init must be", "0"]),
        (["--nodes", "0"], ["--nodes must be", "0"]),
        (["--noise", "-2"], ["noise", "-2"]),
        (["--init", "best"], ["init", "best"]),
        (["--init", "none.npy"], ["none.npy"]),
        (["--solver", "admm", "--solver-option", "rho=-1"], ["rho", "-1"]),
        (["--solver-option", "speed=1"], ["'speed'", "exact"]),
        (["--solver", "agd", "--solver-option", "max_rounds=1.5"], ["max_rounds", "1.5"]),
        (["--image-shape", "3x3"], ["3", "4"]),
    ],
)
def test_wrong_values_are_told_with_what_is_allowed(options, told, folder, tmp_path):
    sentence = refused("fit", folder / "good.npy", "-k", "3", "-o", tmp_path / "new", "-q", *options)
    for part in told:
        assert part.lower() in sentence.lower()
    assert "----" not in sentence
    assert not list(tmp_path.iterdir())


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


STARTS = {
    "a pipe": None,
    "an empty file": b"",
    "a file of text": b"no array",
    "objects": npy(np.array([{}], object)),
    "complex numbers": npy(np.ones((3, 4)) + 1j),
    "texts": npy(np.full((3, 4), "a")),
    "half a header": npy(np.ones((3, 4)))[:60],
    "a header that is no Python": npy(np.ones((3, 4))).replace(b"'descr'", b"((((((("),
    "a negative size": npy(np.ones((3, 4))).replace(b"(3, 4)", b"(-1,4)"),
    "too few numbers": npy(np.ones((3, 4)))[:-8],
    "another version of the format": b"\x93NUMPY\x09" + npy(np.ones((3, 4)))[7:],
}


@pytest.mark.parametrize("name", STARTS)
def test_a_start_that_is_no_array_of_numbers_is_named(name, folder, tmp_path):
    if STARTS[name] is None:
        os.mkfifo(tmp_path / "start.npy")
    else:
        (tmp_path / "start.npy").write_bytes(STARTS[name])
    sentence = refused("fit", folder / "good.npy", "-k", "3", "-o", tmp_path / "new", "--init", tmp_path / "start.npy")
    assert "start.npy" in sentence


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["-k", "many"], "-k"),
        (["--solver", "best"], "--solver"),
        (["--noise", "loud"], "'loud'"),
        (["--memory", "much"], "'much'"),
        (["--checkpoint", "-1"], "--checkpoint"),
        (["--checkpoint", "nan"], "--checkpoint"),
        (["--seed", "-1"], "--seed"),
        (["--seed", "4294967296"], "--seed"),
        (["--image-shape", "3"], "'3'"),
        (["--dtype", "int8"], "--dtype"),
        (["--solver-option", "rho"], "NAME=VALUE"),
        (["--solver-option", "rho=high"], "NAME=VALUE"),
        (["--unknown"], "--unknown"),
    ],
)
def test_what_the_command_line_does_not_know_is_told_with_the_option(options, told, folder, tmp_path):
    result = run("fit", folder / "good.npy", "-k", "3", "-o", tmp_path / "new", *options, code=2)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert told in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("arguments", [["fit"], ["fit", "a.npy"], ["fit", "-k", "3", "-o", "m"], ["transform"], ["go"]])
def test_what_is_missing_on_the_command_line_is_told(arguments):
    result = run(*arguments, code=2)
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
