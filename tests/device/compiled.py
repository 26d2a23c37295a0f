"""CUDA sources compiled by the C++ compiler of this machine: one thread does the work of a block, block after block.

All processes of a run of the tests share what one of them has compiled, in a folder that ``tests/conftest.py`` names.
"""

import ctypes
import os
import subprocess
import tempfile
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

SHARED = "DBMD_COMPILED_FOR_TESTS"  # names the folder


class Function:
    """A kernel that is called as one of CuPy is, with arrays of NumPy."""

    def __init__(self, library, name):
        self._library, self._function = library, getattr(library, name)
        self._function.restype = None

    def __call__(self, grid, block, args, shared_mem=0):
        ctypes.c_int.in_dll(self._library, "gridDim").value = grid[0]
        index = ctypes.c_int.in_dll(self._library, "blockIdx")
        given = [passed(arg) for arg in args]
        for number in range(grid[0]):
            index.value = number
            self._function(*given)


def passed(arg):
    """Return an argument of a kernel as ctypes takes it."""
    if arg is None:
        return ctypes.c_void_p(0)
    if isinstance(arg, np.ndarray) and arg.dtype.kind == "V":  # a struct, by value
        kind = type("Struct", (ctypes.Structure,), {"_fields_": [("numbers", ctypes.c_double * (arg.itemsize // 8))]})
        return kind.from_buffer_copy(arg.tobytes())
    if isinstance(arg, np.ndarray):
        assert arg.flags.c_contiguous or arg.flags.f_contiguous
        return ctypes.c_void_p(arg.ctypes.data)
    kinds = {"int32": ctypes.c_int, "int64": ctypes.c_longlong, "float32": ctypes.c_float, "float64": ctypes.c_double}
    return kinds[np.dtype(type(arg)).name](arg.item())


@cache
def library(code, options):
    """Return a loaded library of a source."""
    macros = [option for option in options if option.startswith("-D")]
    command = ["c++", "-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-w", *macros]
    with ExitStack() as stack:
        shared = os.environ.get(SHARED) or stack.enter_context(tempfile.TemporaryDirectory(prefix="dbmd-test-"))
        done = Path(shared, sha256("\0".join([code, *command]).encode()).hexdigest()).with_suffix(".so")
        if not done.exists():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=shared)))
            (folder / "source.cpp").write_text(code)
            subprocess.run([*command, str(folder / "source.cpp"), "-o", str(folder / "source.so")], check=True)
            (folder / "source.so").replace(done)  # whole, or not there
        return ctypes.CDLL(str(done))
