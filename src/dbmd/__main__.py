"""``python -m dbmd`` is the command ``dbmd``."""

from dbmd.cli import main

main()
