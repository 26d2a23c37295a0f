"""What the machine can do at best: reading memory, copies over the bus, products of the vendor, launches."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.gpu.device import timed
from benchmarks.plan import Record, Task

READ = r"""
extern "C" __global__ void read_all(const float4 *x, long long n, float *out)
{
    float sum = 0.0f;
    long long step = (long long)gridDim.x * blockDim.x, i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    for (; i + 3 * step < n; i += 4 * step) {
        float4 a = x[i], b = x[i + step], c = x[i + 2 * step], d = x[i + 3 * step];
        sum += a.x + b.y + c.z + d.w;
    }
    for (; i < n; i += step) sum += x[i].x;
    if (sum == 1.2345f) *out = sum;  // never, but the compiler does not know
}
"""
EMPTY = 'extern "C" __global__ void empty() {}'


def run(task: Task) -> Record:
    """Return gigabytes a second, milliseconds of products by r, and microseconds of a launch and of a small copy."""
    import cupy

    n, m, repeats = task["n"], task["m"], task["repeats"]
    X = cupy.random.standard_normal((n, m), dtype=cupy.float32)
    read, out = cupy.RawKernel(READ, "read_all"), cupy.zeros(1, cupy.float32)
    blocks = 8 * cupy.cuda.runtime.getDeviceProperties(0)["multiProcessorCount"]
    taken = timed(lambda turn: read((blocks,), (512,), (X, np.int64(X.size // 4), out)), repeats=repeats)
    found: Record = {"read_gbs": X.nbytes / taken["ms"] / 1e6, "products": {}, **bus(task["bus_bytes"])}
    for r in (10, 50):
        W = cupy.random.standard_normal((m, r), dtype=cupy.float32)
        H, XW, HX = cupy.random.random((n, r), dtype=cupy.float32), cupy.empty((n, r), "f4"), cupy.empty((r, m), "f4")
        found["products"][str(r)] = {
            "XW": timed(lambda turn, W=W, out=XW: cupy.matmul(X, W, out=out), repeats=repeats)["ms"],
            "HX": timed(lambda turn, H=H, out=HX: cupy.matmul(H.T, X, out=out), repeats=repeats)["ms"],
        }
    A, B = (cupy.random.standard_normal((8192, 8192), dtype=cupy.float32) for _ in range(2))
    found["float32_tflops"] = 2 * 8192**3 / timed(lambda turn: A @ B, repeats=5)["ms"] / 1e9
    empty, small = cupy.RawKernel(EMPTY, "empty"), cupy.zeros(10)
    found["launch_us"] = _each(lambda: empty((1,), (1,), ()))
    found["get_us"] = _each(small.get)
    return found


def bus(n_bytes: int) -> dict[str, float]:
    """Return gigabytes a second between pinned host memory and the device, both ways, in copies of so many bytes."""
    import cupy
    import cupyx

    host, device = cupyx.empty_pinned(n_bytes // 4, np.float32), cupy.empty(n_bytes // 4, cupy.float32)
    host[:] = 1.0
    there = timed(lambda turn: device.set(host), repeats=7)["ms"]
    back = timed(lambda turn: device.get(out=host), repeats=7)["ms"]
    return {"to_device_gbs": n_bytes / there / 1e6, "to_host_gbs": n_bytes / back / 1e6}


def _each(action: Any, times: int = 500) -> float:
    """Return microseconds of an action that is done many times in a row."""
    import cupy

    action()
    cupy.cuda.Device().synchronize()
    clock = time.perf_counter()
    for _ in range(times):
        action()
    return 1e6 * (time.perf_counter() - clock) / times
