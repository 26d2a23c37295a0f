"""The kernel of the CPU under another name."""

from dbmd.kernels.cpu import solve_h, sum_log

__all__ = ["solve_h", "sum_log"]
