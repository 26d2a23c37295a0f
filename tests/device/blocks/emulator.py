"""CUDA sources compiled by the C++ compiler of this machine, and run with all threads of a block, which are watched.

Beside :mod:`device.compiled`, where one thread does the work of a block: here it is the work of as many as on a device,
in an order of our choice. Reported are races in shared and global memory, threads that wait for each other for ever or
meet at different places, shared memory that is read before it is written, accesses out of bounds, misaligned ones,
copies that are used before they were waited for, and integer overflow.
"""

import ctypes
import re
import subprocess
import tempfile
from contextlib import contextmanager
from enum import IntEnum
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from dbmd.kernels import _cuda
from device import standin_cuda
from device.compiled import passed
from device.found import clear_caches

HERE, KERNELS = Path(__file__).parent, Path(_cuda.__file__).parent
COMPILER = ["c++", "-std=c++17", "-fPIC", "-w", "-ffp-contract=off", f"-I{HERE}", f"-I{KERNELS}"]
WATCHED = ["-O1", "-g1", "-fsanitize=thread", "-fsanitize=signed-integer-overflow,integer-divide-by-zero,shift,bounds"]
KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\(.*?\)\s+)?(\w+)\(')


class Schedule(IntEnum):
    """Which thread of a block is next when one has to wait; blocks are in the same order."""

    LOWEST_FIRST = 0
    HIGHEST_FIRST = 1
    RANDOM = 2


class Found(AssertionError):
    """What a kernel does is wrong, or would be with other luck."""


@contextmanager
def all_threads(schedule, seed=0):
    """Let the stand-in run kernels with all threads of a block, in an order; raise ``Found`` for what is wrong."""
    before = standin_cuda.compiled
    clear_caches()
    standin_cuda.compiled = SimpleNamespace(library=library, Function=partial(Function, schedule=schedule, seed=seed))
    try:
        yield
    finally:
        standin_cuda.compiled = before
        clear_caches()


@cache
def why_not():
    """Return why kernels cannot be run this way here, or None."""
    try:
        kernel = Function(library('extern "C" __global__ void nothing() { __syncthreads(); }', ()), "nothing")
        kernel((1,), (32,), ())
        subprocess.run(["addr2line", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:  # no compiler, or one without what is needed here
        return str(error)
    return None


class Function:
    """A kernel that is called as one of CuPy is, with arrays of NumPy."""

    def __init__(self, library, name, schedule=Schedule.LOWEST_FIRST, seed=0):
        self._library, self._name, self._schedule, self._seed = library, name, schedule, seed
        self._run = ctypes.CFUNCTYPE(None)(ctypes.c_void_p.in_dll(library, f"grid_of_{name}").value)

    def __call__(self, grid, block, args, shared_mem=0):
        assert block[0] % 32 == 0, "only whole warps"
        shared, seed = ctypes.c_long(shared_mem), ctypes.c_long(self._seed)
        self._library.set_up(grid[0], block[0], shared, self._schedule.value, seed)
        for arg in args:
            if isinstance(arg, np.ndarray) and arg.ndim:
                self._library.allow(ctypes.c_void_p(arg.ctypes.data), ctypes.c_long(arg.nbytes))
        self._run(*map(passed, args))
        findings = self._readable(self._library.found().decode().splitlines())
        if findings:
            launch = f"{self._name}, {grid[0]} blocks of {block[0]} threads, {self._schedule.name}"
            raise Found("\n".join([launch, *findings]))

    def _readable(self, findings):
        """Return findings with lines of the source for addresses, each once."""
        lines = [re.sub("@([0-9a-f]+)", lambda found: _lines(self._library, found[1]), each) for each in findings]
        # Else the compiler has made two places of one line.
        return [each for each in dict.fromkeys(lines) if not re.search(r"different places: (.*) and \1$", each)]


@cache
def _lines(library, address):
    """Return the lines of the source that an address comes from, each inlined in the next."""
    command = ["addr2line", "-i", "-e", library._name, f"0x{address}"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = library.source.splitlines()
    numbers = [int(number) for number in re.findall(r"\.cu:(\d+)", said)]
    return " in ".join(f"`{lines[number - 1].strip()}`" for number in numbers) or "an unknown line"


@cache
def library(code, options):
    """Return a loaded library of a source, whose kernels are watched."""
    folder, source = _folder(), code.removeprefix((KERNELS / "_prelude.cuh").read_text())
    grids = "".join(
        f'extern "C" void *grid_of_{name}; void *grid_of_{name} = (void *)&Grid<&{name}>::run;\n'
        for name in KERNEL.findall(source)
    )
    file = folder / f"{len(list(folder.iterdir()))}.cu"
    file.write_text(f"{source}\n{grids}")
    macros = [option for option in options if option.startswith("-D")]
    _compile(*WATCHED, *macros, "-include", "prelude.h", "-x", "c++", "-c", file, "-o", file.with_suffix(".o"))
    # Its own copy of the runtime, and no other library's functions of these names.
    _compile("-shared", "-Wl,-Bsymbolic", file.with_suffix(".o"), _runtime(), "-ldl", "-o", file.with_suffix(".so"))
    loaded = ctypes.CDLL(str(file.with_suffix(".so")))
    loaded.found.restype = ctypes.c_char_p
    loaded.source = source
    return loaded


@cache
def _runtime():
    """Return the compiled runtime."""
    target = _folder() / "runtime.o"
    _compile("-O2", "-c", HERE / "runtime.cpp", "-o", target)
    return target


def _compile(*options):
    subprocess.run([*COMPILER, *map(str, options)], check=True)


def _folder():
    """Return a folder that is kept until this process ends: lines are looked up in the libraries there."""
    return Path(_temporary().name)


@cache
def _temporary():
    return tempfile.TemporaryDirectory(prefix="dbmd-test-")
