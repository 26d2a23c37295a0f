"""The command line."""

from __future__ import annotations

import click

import dbmd
from dbmd.cli.demo import demo
from dbmd.cli.info import info

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(dbmd.__version__, prog_name="dbmd")
def main() -> None:
    """Distributed Bayesian matrix decomposition: soft clusters of samples from sources of different noise."""


main.add_command(demo)
main.add_command(info)
