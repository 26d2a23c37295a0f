"""Tests of csv alone."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dbmd.data.formats import _csv_layout, csv, open_reader
from dbmd.data.location import locate
from dbmd.dataset import open_data
from dbmd.errors import DataError
from tables import as_csv, dense, table


def opened(folder, text, **hints):
    (folder / "data.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_reader(*locate(folder / "data.csv"), **hints)


def numbers(reader, features=None):
    features = list(reader.columns) if features is None else features
    return np.concatenate([batch.Xt for batch in reader.read(0, None, features)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("csv")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_are_read_to_the_last_bit(folder, values):
    reader = opened(folder, "x\n" + "".join(f"{value!r}\n" for value in values))
    assert_array_equal(numbers(reader)[:, 0], values)


def test_numbers_of_all_sizes_are_read_to_the_last_bit(tmp_path, rng):
    data = table(rng, 500, kind="normal")
    written = as_csv().write(data, tmp_path, "data")
    reader = open_reader(*locate(written.path))
    assert_array_equal(numbers(reader, written.features), data.X)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("x,y", ["x", "y"]),
        ("1,2", ["0", "1"]),
        ("x,2", ["0", "1"]),  # a name that is a number is more likely a number
        (",y", ["unnamed_0", "y"]),
        ("x y, z ", ["x y", "z"]),
        ('"x, first","y; z"', ["x, first", "y; z"]),
        ('"x, first";"y, z"', ["x, first", "y, z"]),
        ('"say ""x""",y', ['say "x"', "y"]),
        ('"x\n(mm)",y', ["x\n(mm)", "y"]),
        ('len 5" pipe,y', ['len 5" pipe', "y"]),  # a quote is text where it does not begin a field
        ('5"; 6",y', ['5"; 6"', "y"]),
        ("nan,inf", ["0", "1"]),
    ],
)
def test_the_first_line_has_names_if_none_of_its_fields_is_a_number(line, names, tmp_path):
    delimiter = ";" if line.startswith('"x, first";') else ","
    reader = opened(tmp_path, f"{line}\n3{delimiter}4\n5{delimiter}6\n")
    assert list(reader.columns) == names
    is_header = names != ["0", "1"]
    found = numbers(reader, names[1:])[:, 0]
    assert_array_equal(found[-2:], [4, 6])
    assert len(found) == 3 - is_header


@pytest.mark.parametrize("delimiter", _csv_layout.DELIMITERS)
def test_the_delimiter_is_the_one_that_the_first_line_has_most(delimiter, tmp_path):
    other = ";" if delimiter == "," else ","
    reader = opened(tmp_path, delimiter.join(["x", f"y{other}", "z"]) + "\n" + delimiter.join("123") + "\n")
    assert reader.delimiter == delimiter
    assert_array_equal(numbers(reader), [[1, 2, 3]])


def test_a_file_of_one_column_needs_no_delimiter(tmp_path):
    assert_array_equal(numbers(opened(tmp_path, "x\n1\n2\n")), [[1], [2]])


def test_whole_numbers_may_be_followed_by_others(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "BLOCK_BYTES", 1000)
    reader = opened(tmp_path, "x\n" + "1\n" * 5000 + "1.5\n")
    assert reader.columns["x"] == np.float64
    assert numbers(reader)[-1] == 1.5


def test_nothing_may_be_followed_by_numbers_in_a_column_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "BLOCK_BYTES", 1000)
    reader = opened(tmp_path, "x,y\n" + "1,\n" * 5000 + "1,7\n")
    assert reader.columns["y"] == np.float64
    assert numbers(reader)[-1].tolist() == [1, 7]


def test_truth_is_a_number(tmp_path):
    reader = opened(tmp_path, "x,y\n1,true\n2,false\n")
    assert_array_equal(numbers(reader), [[1, 1], [2, 0]])


@pytest.mark.parametrize("text", ["NA", "nan", "null", "N/A", " a", "007", "1e5", "ä", "x,y", "a\nb"])
def test_text_beside_the_numbers_is_as_it_stands(text, tmp_path):
    reader = opened(tmp_path, f'x,y\n1,"{text}"\n2,b\n')
    batch = next(iter(reader.read(0, None, ["x"], ["y"])))
    assert batch.others["y"].to_pylist() == [text, "b"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("header", [True, False])
def test_rows_are_found_by_their_line(header, end, tmp_path):
    lines = (["x,y"] if header else []) + ["1,2"] * 20
    reader = opened(tmp_path, end.join(lines) + end)
    assert [reader.where(row) for row in (0, 7, 19)] == [f"line {row + 1 + header}" for row in (0, 7, 19)]


def test_the_line_of_a_row_is_right_below_empty_lines_and_breaks_in_quotes(tmp_path):
    text = '"x\n(mm)",y,t\n\n1,2,"a\n\nb"\n\n3,4,"say ""hi"",\n"\n5,6,c\n'
    reader = opened(tmp_path, text)
    assert_array_equal(numbers(reader, ["x\n(mm)", "y"]), [[1, 2], [3, 4], [5, 6]])
    lines = text.split("\n")
    for row, start in enumerate(("1,2", "3,4", "5,6")):
        (number,) = [i for i, line in enumerate(lines, 1) if line.startswith(start)]
        assert reader.where(row) == f"line {number}"


def test_a_line_may_be_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "BLOCK_BYTES", 100)
    X = np.arange(3000.0).reshape(3, 1000)
    text = ",".join(f"column{i}" for i in range(1000)) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in X)
    assert_array_equal(numbers(opened(tmp_path, text)), X)


@given(data=st.data())
def test_whatever_the_text_says_it_is_read_or_refused_in_our_words(folder, data):
    """No error of a library may pass."""
    piece = st.sampled_from(
        ["1", "-2.5", "x", "", "NA", '"', '"a\nb"', ",", ";", "\n", "\r\n", "\t", "é", "inf", "1e400"]
    )
    text = "".join(data.draw(st.lists(piece, max_size=25), "text")).encode("utf-8")
    (folder / "any.csv").write_bytes(text)
    try:
        found = open_data(folder / "any.csv")
    except DataError as error:
        assert str(folder / "any.csv") in str(error)  # noqa: PT017 - either is fine
    else:
        assert found.shape[0] > 0
        assert all(np.isfinite(dense(c.Xt)).all() for node in found.nodes(2, 1) for c in node.block.chunks())


def test_the_line_of_a_row_below_a_damaged_place_is_guessed(tmp_path, rng):
    written = as_csv(".csv.gz").write(table(rng, 500), tmp_path, "data")
    reader = open_reader(*locate(written.path))
    data = reader.location.local.read_bytes()
    reader.location.local.write_bytes(data[: len(data) // 2])
    assert reader.where(0) == "line 2"
    assert reader.where(499) == "line 501"


def test_the_row_numbers_and_numbered_names_that_pandas_writes_are_no_samples_or_features(tmp_path):
    from dbmd.dataset import open_data

    X = np.array([[1.5, 2.0], [3.0, 4.0], [5.0, 6.5]])
    pd.DataFrame(X).to_csv(tmp_path / "numbered.csv", index=False)
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "indexed.csv")
    assert open_data(tmp_path / "numbered.csv").shape == (3, 2)
    assert open_data(tmp_path / "indexed.csv").feature_names == ["a", "b"]
    assert open_data(tmp_path / "indexed.csv", columns=["unnamed_0", "a"]).shape == (3, 2)


@given(data=st.data())
def test_tables_of_r_are_read_as_pandas_reads_them(folder, data):
    """As write.table writes them: pandas, too, takes a column that has no name in the header for the row names."""
    delimiter, quote = data.draw(st.sampled_from([" ", ",", "\t", ";"])), data.draw(st.booleans())
    inside = "" if delimiter == " " and not quote else " "
    names = st.lists(st.sampled_from([f"g{inside}{i}" for i in range(9)]), min_size=2, max_size=5, unique=True)
    columns = data.draw(names)
    numbered = not quote and data.draw(st.booleans())
    rows = [str(i + 1) if numbered else f"c{inside}{i}" for i in range(data.draw(st.integers(1, 4)))]
    X = data.draw(st.lists(st.floats(-1e6, 1e6), min_size=len(rows) * len(columns), max_size=len(rows) * len(columns)))
    mark = '"' if quote else ""
    lines = [delimiter.join(f"{mark}{name}{mark}" for name in columns)]
    for i, name in enumerate(rows):
        values = X[i * len(columns) : (i + 1) * len(columns)]
        lines.append(delimiter.join([f"{mark}{name}{mark}", *map(repr, values)]))
    reader = opened(folder, "\n".join(lines) + "\n")
    expected = pd.read_csv(folder / "data.csv", sep=delimiter, float_precision="round_trip")
    assert list(reader.columns) == ["unnamed_0", *expected.columns]
    assert reader.index == ("unnamed_0",)
    assert reader.row_names == (None if numbered else "unnamed_0")
    (batch,) = reader.read(0, None, columns, ["unnamed_0"])
    assert_array_equal(batch.Xt, expected)
    assert batch.others["unnamed_0"].to_pylist() == [str(name) for name in expected.index]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("x\n1,5\n2,5\n", r"line 2 has 2 fields where there should be 1, .* say so with header=True"),  # 1.5 and 2.5?
        ("1,2\n3,4,5\n6,7,8\n", r"line 2 has 3 fields .* say so with header=True"),  # a row cut short?
        ("a,b\n3,4,5\n6,7,8\n", r"line 2 has 3 fields .* say so with header=True"),  # a name that was lost?
        ("a,b\n1,2,\n3,4,\n", r"line 2 has 3 fields .* last field is empty: remove the delimiters at the ends"),
        ("a   b\n1.5   2.5\n", r"line 2 has several spaces between its fields\. .* write a comma or a tab"),
        ("  a  b\n  1  2\n", r"line 2 has several spaces between its fields"),
    ],
)
def test_what_may_not_be_a_table_of_r_is_refused(text, match, tmp_path):
    with pytest.raises(DataError, match=match):
        opened(tmp_path, text)


def test_a_header_that_is_said_to_be_one_is_one_field_short(tmp_path):
    for text in ("1,2\n3,4,5\n6,7,8\n", "a,b\n3,4,5\n6,7,8\n"):
        reader = opened(tmp_path, text, header=True)
        assert_array_equal(numbers(reader, list(reader.columns)[1:]), [[4, 5], [7, 8]])
    assert opened(tmp_path, '"2019","2020"\n"x",4,5\n').names == ["unnamed_0", "2019", "2020"]


@pytest.mark.parametrize("text", ["body mass\n1\n2\n", "a b,c\n1,2\n", "1 2\n3 4\n", '"a" "b, c"\n1 2\n'])
def test_spaces_separate_fields_only_if_nothing_else_does(text, tmp_path):
    reader = opened(tmp_path, text)
    expected = {"body mass\n1\n2\n": ["body mass"], "a b,c\n1,2\n": ["a b", "c"], "1 2\n3 4\n": ["0", "1"]}
    assert list(reader.columns) == expected.get(text, ["a", "b, c"])
    assert numbers(reader).shape[1] == len(reader.columns)


def test_notes_in_a_folder_are_no_data(tmp_path):
    (tmp_path / "README.txt").write_text("These are data.\n")
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    (tmp_path / "b.txt").write_text("x y\n1 2\n3 4\n")
    assert open_data(tmp_path).shape == (2, 2)
    assert open_data([tmp_path / "a.csv", tmp_path / "b.txt"]).shape == (4, 2)


@pytest.mark.parametrize("header", ['a,"b', 'a,"b"";c', '"'])
def test_a_quote_that_is_never_closed_is_said_in_a_time_that_grows_with_the_file(header, tmp_path):
    """A search that starts again from the top for each line would take minutes here."""
    with pytest.raises(DataError, match=r"line 1 does not end within 6,00\d,\d+ bytes\. Has it a quote that is never"):
        opened(tmp_path, f"{header}\n" + "1.5,2\n" * 1_000_000)


def test_a_header_of_any_length_is_read(tmp_path):
    names = [f'"name, of {i}\n"' for i in range(8000)]
    reader = opened(tmp_path, f"{','.join(names)}\n" + ",".join(["1.5"] * 8000) + "\n")
    assert list(reader.columns) == [name.strip('"\n') for name in names]


def test_a_row_that_never_ends_is_said(tmp_path):
    reader = opened(tmp_path, 'a,b\n1,2\n1,"3\n' + "1.5,2\n" * 500_000)
    with pytest.raises(DataError, match=r"has a row of more than 1,048,576 bytes\. Has it a quote that is never"):
        numbers(reader)


def test_the_line_of_a_row_is_found_below_one_that_is_long(tmp_path, monkeypatch):
    monkeypatch.setattr(csv, "BLOCK_BYTES", 1000)
    reader = opened(tmp_path, 'a,b\n1,2\n1,"' + "x\n" * 700 + '"\n3,4\n')
    assert [reader.where(row) for row in range(3)] == ["line 2", "line 3", "line 704"]


@pytest.mark.parametrize("line", ["2019,2020,2021", "2020,2010", "10,20,30"])
def test_numbers_that_may_be_names_are_taken_for_a_sample_but_not_in_silence(line, tmp_path):
    shown = line.replace(",", ", ")
    with pytest.warns(UserWarning, match=rf"line 1 \({shown}\) is taken for a sample.* with header=True, if not"):
        reader = opened(tmp_path, f"{line}\n" + ",".join("1" * len(line.split(","))) + "\n")
    assert len(numbers(reader)) == 2
    for header in (True, False):  # no warning if the user has said so
        assert len(numbers(opened(tmp_path, f"{line}\n{line}\n", header=header))) == 2 - header


@pytest.mark.parametrize("line", ["1,2", "1,2,4", "2019.5,2020.5,2021.5", "7,7,7", "2019"])
def test_other_numbers_are_a_sample_without_a_word(line, tmp_path):
    assert len(numbers(opened(tmp_path, f"{line}\n{line}\n"))) == 2


def test_a_label_of_any_number_of_digits_is_a_label(tmp_path):
    (tmp_path / "a.csv").write_text(f"x,lab\n1,{'1' * 5000}\n2,{'2' * 5000}\n")
    assert open_data(tmp_path / "a.csv", source="lab").n_sources == 2
