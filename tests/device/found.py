"""Whether this machine has a GPU that CuPy can use."""

from functools import cache

from dbmd.kernels import _cuda


@cache
def has_device():
    """Return whether CuPy is installed and finds a device."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:  # no CuPy, no driver, no device
        return False


def clear_caches():
    """Forget CuPy and what it compiled, so that the next test may have another one."""
    for value in vars(_cuda).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()
    _cuda._own.buffers.clear()
