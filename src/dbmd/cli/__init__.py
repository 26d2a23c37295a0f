"""The command line."""

from __future__ import annotations

import click

import dbmd
from dbmd.cli._errors import FriendlyGroup
from dbmd.cli.demo import demo
from dbmd.cli.experiment import experiment
from dbmd.cli.fit import fit
from dbmd.cli.info import info
from dbmd.cli.patterns import patterns
from dbmd.cli.rank import rank
from dbmd.cli.report import report
from dbmd.cli.transform import transform

__all__ = ["main"]


@click.group(cls=FriendlyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(dbmd.__version__, prog_name="dbmd")
def main() -> None:
    """Distributed Bayesian matrix decomposition: soft clusters of samples from sources of different noise."""


for command in (demo, rank, fit, transform, report, patterns, experiment, info):
    main.add_command(command)
