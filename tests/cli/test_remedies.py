"""What messages say to set: parameters in Python, options on the command line."""

import re
from pathlib import Path

import pytest

import dbmd
from dbmd.cli._remedies import remedies_in_options

# Modules whose texts only the command line or its pages show, or that write both.
OF_THE_COMMAND_LINE = (
    "cli/",
    "report/",
    "experiments/",
    "advice/",
    "saved/checkpoint.py",
    "engines/_java.py",
    "__main__.py",
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Allow it (overwrite=True).", "Allow it (--overwrite)."),
        ("with header=True, if not with header=False.", "with --header, if not with --no-header."),
        ("(drop=['a', \"it's\"]), or (encode=['a b'])", "(--drop a --drop 'it'\"'\"'s'), or (--encode 'a b')"),
        ("Leave it out with drop=.", "Leave it out with --drop."),
        ("with missing='allow', or with missing='drop'.", "with --missing allow, or with --missing drop."),
        ("800MB with memory=. Or delimiter=", "800MB with --memory. Or --delimiter"),
        ("data/missing=1/drop=a.csv: has no column 'memory=2'", "data/missing=1/drop=a.csv: has no column 'memory=2'"),
    ],
)
def test_remedies_are_translated_and_names_are_not(message, expected):
    assert remedies_in_options(message) == expected


def test_no_message_of_python_names_an_option():
    folder = Path(dbmd.__file__).parent
    option = re.compile(r"""^(?!\s*#).*["' (]--[a-z][a-z-]+""", re.MULTILINE)
    for path in folder.rglob("*.py"):
        name = path.relative_to(folder).as_posix()
        if not name.startswith(OF_THE_COMMAND_LINE):
            assert not option.search(path.read_text()), (name, option.search(path.read_text()))
