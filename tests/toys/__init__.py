"""A toy engine, kernel, solver and format, each one file, put among those of dbmd: pytest -p toys."""

from pathlib import Path

import dbmd.data.formats
import dbmd.engines
import dbmd.kernels
import dbmd.solvers

for package in (dbmd.engines, dbmd.kernels, dbmd.solvers, dbmd.data.formats):
    package.__path__.append(str(Path(__file__).parent / package.__name__.rpartition(".")[2]))


def pytest_configure():
    """Say how a file of the toy format is written, which no suite can know."""
    import tables

    def write(table, folder, stem):
        written = tables.as_npy().write(table, folder, stem)
        path = Path(written.path).rename(folder / f"{stem}.toy")
        return tables.replace(written, path=str(path))

    tables.VARIANTS["toy"] = tables.replace(tables.as_npy(), format="toy", write=write)
