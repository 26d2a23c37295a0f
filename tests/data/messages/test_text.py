"""Messages about csv files."""

from pathlib import Path

from .cases import NO_NUMBER, Cases, text

case = Cases()


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
    "a.csv: column 'y' does not hold numbers ('many' in line 3). Leave out what is no feature (drop=['y']), or one-hot "
    "code it (encode=['y'])."
)
def text_among_the_first_numbers():
    return text("a.csv", "x,y\n1,2\n3,many\n")


@case(
    "a.csv: line 300002, column 'y' has 'many' where there should be a number. "
    "Correct it, or leave the column out with drop=."
)
def text_among_numbers_far_down():
    return text("a.csv", "x,y\n" + "1.5,2\n" * 300_000 + "3,many\n")


@case(
    "b.csv: column 'y' does not hold numbers ('many' in line 2). Leave out what is no feature (drop=['y']), or one-hot "
    "code it (encode=['y'])."
)
def text_in_the_second_file():
    return [text("a.csv", "x,y\n1,2\n"), text("b.csv", "x,y\n1,many\n")]


@case(f"a.csv: line 3, column 'y' {NO_NUMBER}")
def an_empty_cell():
    return text("a.csv", "x,y\n1,2\n3,\n")


@case(f"a.csv: line 300002, column 'y' {NO_NUMBER}")
def an_empty_cell_far_down():
    return text("a.csv", "x,y\n" + "1.5,2\n" * 300_000 + "3,\n")


@case(f"a.csv: line 6, column 'y' {NO_NUMBER}")
def an_empty_cell_below_empty_lines():
    return text("a.csv", "x,y\n1,2\n\n\n3,4\n3,\n")


@case(f"a.csv: line 2, column '1' {NO_NUMBER}")
def an_empty_cell_without_a_header():
    return text("a.csv", "1,2\n3,\n")


@case(f"a.csv: line 2, column 'y' {NO_NUMBER}")
def an_empty_column():
    return text("a.csv", "x,y\n1,\n2,\n")


@case("a.csv: is not text in UTF-8.")
def a_header_in_another_encoding():
    Path("a.csv").write_bytes("x,größe\n1,2\n".encode("latin-1"))
    return "a.csv"


@case(
    r"a.csv: column 'y' does not hold numbers ('5\\xdf' in line 2). Leave out what is no feature (drop=['y']), or "
    "one-hot code it (encode=['y'])."
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
    "Is this no csv file, or is the delimiter another (delimiter=)?"
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


test_the_message_is_due = case.test()
