"""Names of files, columns and sources can be anything: terminals and logs do not obey them, files keep them."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.running import refused, run, samples, write_csv
from dbmd import load
from dbmd.dataset import open_data
from dbmd.errors import DataError

# Clear the screen, colour, set the title; a C1 control; right to left; lines of a log; a tag that cannot be seen.
HOSTILE = "\x1b[2J\x1b[31mred\x1b]0;owned\x07\x9b31m\u202etxt.exe\na\nError: all is well\rdone\U000e0041"
NO_CHARACTER = "\udcff"  # a byte of a file name that is no text in UTF-8


def assert_harmless(*texts):
    for text in texts:
        assert re.sub(r"[\n]", "", text).isprintable(), repr(text)
        assert "\nError: all is well" not in text


def test_names_of_files_are_shown_escaped(tmp_path):
    name = HOSTILE
    X, _ = samples(60)
    good, bad = write_csv(tmp_path / f"{name}.csv", X), tmp_path / f"bad{name}.csv"
    bad.write_text("x0,x1,x2,x3\n1,2,3,many\n")
    out = tmp_path / f"m{name}"
    told = run("fit", good, "-k", "2", "-o", out, "--source", "@file")
    moved = run("transform", out, good, "-o", tmp_path / f"H{name}.csv")
    shown = run("report", out)
    assert_harmless(told.stdout, told.stderr, moved.stdout, moved.stderr, shown.stdout)
    assert_harmless(refused("fit", bad, "-k", "2", "-o", tmp_path / "new"))
    assert_harmless(refused("fit", good, "-k", "2", "-o", out))
    assert_harmless(run("fit", bad, "-k", "2", "-o", tmp_path / "new", "--debug", code=1).stderr)
    with pytest.raises(DataError) as caught:
        open_data(bad)
    assert_harmless(str(caught.value))
    assert load(out).sources_.tolist() == [good.name]
    assert_harmless((out / "report.html").read_text("utf-8").replace("\t", ""))
    assert json.loads((out / "model.json").read_text("utf-8"))["fit"]["data"]["paths"] == [str(good)]


def test_names_of_columns_sources_and_classes_are_shown_escaped_and_written_as_they_are(tmp_path):
    name = HOSTILE
    X, source = samples(60)
    features = {f"{name}{i}": X[:, i] for i in range(4)}
    labels = np.char.add(source, name)
    data = tmp_path / "x.parquet"
    columns = {f"lab{name}": labels, f"kind{name}": labels, f"id{name}": np.arange(60)}
    pq.write_table(pa.table(columns | features), data)
    how = ["--source", f"lab{name}", "--label", f"kind{name}", "--drop", f"id{name}"]
    told = run("fit", data, "-k", "2", *how, "-o", tmp_path / "m")
    as_json = run("fit", data, "-k", "2", *how, "-o", tmp_path / "m", "--overwrite", "--json")
    refusal = refused("fit", data, "-k", "2", "-o", tmp_path / "new", "--drop", f"id{name}")
    unknown = refused("fit", data, "-k", "2", "-o", tmp_path / "new", "--drop", f"di{name}")
    assert_harmless(told.stdout, told.stderr, as_json.stdout, refusal, unknown)
    names = sorted(set(labels.tolist()))
    assert sorted(each["name"] for each in json.loads(as_json.stdout)["sources"]) == names
    assert load(tmp_path / "m").sources_.tolist() == names
    assert_harmless((tmp_path / "m" / "report.html").read_text("utf-8").replace("\t", ""))
    run("transform", tmp_path / "m", data, "--keep", f"id{name}", "-o", tmp_path / "H.parquet")
    assert pq.read_schema(tmp_path / "H.parquet").names[0] == f"id{name}"


@pytest.mark.parametrize("arguments", [["fit", "-k", "\x1b[2J", "-o", "m", "x"], ["\x1b[2J"], ["report", "\x1b[2J"]])
def test_what_is_wrong_on_the_command_line_is_shown_escaped(arguments):
    result = run(*arguments, code=2)
    assert_harmless(result.stderr)
    assert r"\x1b[2J" in result.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the shell is bash")
def test_the_command_that_is_recorded_is_what_was_run(tmp_path, monkeypatch):
    data = write_csv(tmp_path / f"it's {HOSTILE}.csv", samples(60)[0])
    arguments = ["fit", data, "-k", "2", "-o", tmp_path / "m", "--no-report", "-q"]
    monkeypatch.setattr(sys, "argv", ["dbmd", *map(str, arguments)])
    run(*arguments)
    command = load(tmp_path / "m").fit_info_["command"]
    assert_harmless(command)
    script = f"export LC_ALL=C.UTF-8; dbmd() {{ printf '%s' \"$2\"; }}; {command}"
    told = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert told.stdout == os.fsencode(data)


def test_a_file_whose_name_is_no_text_is_refused_and_one_that_is_written_may_have_any(tmp_path):
    data = write_csv(tmp_path / f"x{NO_CHARACTER}.csv", samples(60)[0])
    assert refused("fit", data, "-k", "2", "-o", tmp_path / "m") == (
        rf"{tmp_path}/x\udcff.csv: the name is not text in UTF-8. Rename it."
    )
    out = tmp_path / f"m{NO_CHARACTER}"
    told = run("fit", data.rename(tmp_path / "x.csv"), "-k", "2", "-o", out)
    assert rf"{tmp_path}/m\udcff." in told.stdout
    assert load(out).n_features_in_ == 4
