"""``dbmd info``: what is installed and what was found."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click

import dbmd
from dbmd.registry import names

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "pyarrow", "matplotlib")


@click.command()
def info() -> None:
    """Print versions, threads, and the solvers, engines and kernels found."""
    from dbmd.engines.local import available_threads

    click.echo(f"dbmd {dbmd.__version__} on Python {platform.python_version()}, {platform.platform()}")
    click.echo(f"threads  {available_threads()}")
    for kind in ("solvers", "engines", "kernels"):
        click.echo(f"{kind:8} {', '.join(names(kind))}")
    for package in PACKAGES:
        try:
            click.echo(f"  {package} {version(package)}")
        except PackageNotFoundError:
            click.echo(f"  {package} is not installed")
