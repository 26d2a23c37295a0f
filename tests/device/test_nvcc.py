"""CUDA sources compiled by CUDA's own compiler, where it is installed: no GPU is needed for that."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from dbmd.kernels import _cuda
from dbmd.registry import load_kernel
from device.found import clear_caches
from device.standin import installed

NVCC = shutil.which("nvcc")
OLD = "sm_75"  # there copies to shared memory wait, see copy_later in _prelude.cuh
ARCHITECTURES = [OLD, "sm_90"]
PRELUDE = (Path(_cuda.__file__).parent / "_prelude.cuh").read_text()
N, M = 300, 64


class Recorded:
    """A module of CuPy that is not compiled: its kernels do nothing."""

    def __init__(self, code, options):
        self.code, self.options = code, options

    def get_function(self, name):
        return Nothing()


class Nothing:
    max_dynamic_shared_size_bytes = None

    def __call__(self, *args, **options):
        pass


def call_everything(kernel, r, dtype):
    """Call all that a pass calls, for arrays of zeros, which are never looked at."""
    Q, W, none, some = np.eye(r), np.ones((M, r)), np.zeros(r), np.full(r, 0.5)
    Xt, Ht = (kernel.asarray(np.zeros((N, count), dtype)) for count in (M, r))
    Bt = kernel.products(Xt, kernel.asarray(W, dtype))
    kernel.solve_h(Q, Bt, none)
    kernel.solve_h(Q, Bt, some)
    kernel.sum_log(Ht)
    rows = kernel.asarray(sparse.random_array((N, M), density=0.1, format="csr", dtype=dtype, rng=0))
    kernel.products(rows, kernel.asarray(W, dtype))
    for samples in (Xt, rows):
        sums = kernel.Sums(M, r, dtype)
        sums.add(samples, Ht, norms=True)
    covariance = kernel.FaceCovariance(Q, 1.0)
    covariance.add(Ht)
    covariance.total()
    mask = np.zeros((N, M), bool)
    mask[::3, 5] = True
    places = kernel.locate(kernel.asarray(mask))
    kernel.put(Xt, places, np.zeros(M))
    kernel.put_products(Xt, places, Ht, W, np.zeros(M))
    kernel.solve_h_with_gaps(Q, W, places, Bt, none)
    covariance = kernel.GapCovariance(Q, W, 1.0)
    covariance.add(Ht, places, None)
    covariance.total()


def recorded(cases, monkeypatch):
    """Return the sources that calls with some numbers of components and types compile, by their names and constants."""
    found = {}
    with installed() as cupy:
        clear_caches()
        monkeypatch.setattr(cupy, "RawModule", lambda *, code, options: Recorded(code, options))
        module = _cuda._module

        def noted(source, constants):
            found[source, constants] = module(source, constants)
            return found[source, constants]

        monkeypatch.setattr(_cuda, "_module", noted)
        for r, dtype in cases:
            call_everything(load_kernel("gpu"), r, dtype)
    monkeypatch.undo()
    clear_caches()
    return found


def compiled(key, module, architecture, folder):
    """Return what the compiler says of the resources that the kernels of a module need."""
    file = folder / f"{key[0]}-{abs(hash(key))}.cu"
    file.write_text(module.code)
    command = [NVCC, f"-arch={architecture}", "-cubin", "-Xptxas=-v", "-Werror=all-warnings", *module.options]
    made = subprocess.run([*command, "-o", file.with_suffix(".cubin"), file], capture_output=True, text=True)
    assert made.returncode == 0, f"{module.options}\n{made.stdout}{made.stderr}"
    return made.stdout + made.stderr


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="NOT COMPILED FOR CUDA: there is no nvcc")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_sources_compile_for_cuda(architecture, tmp_path, monkeypatch):
    modules = recorded([(10, np.float32), (20, np.float64), (22, np.float32)], monkeypatch)
    assert {source for source, _ in modules} == {file.stem for file in Path(_cuda.__file__).parent.glob("*.cu")}
    if architecture == OLD:  # what differs there
        modules = {key: module for key, module in modules.items() if "copy_later<" in module.code.split(PRELUDE)[-1]}
    with ThreadPoolExecutor(2) as pool:
        said = pool.map(
            lambda key, module: compiled(key, module, architecture, tmp_path), modules.keys(), modules.values()
        )
        for (source, _), text in zip(modules, said, strict=True):
            assert "ptxas info" in text
            if source == "h_few" and architecture != OLD:  # a sample is in registers, all of it
                assert not sum(map(int, re.findall(r"(\d+) bytes spill", text))), text
