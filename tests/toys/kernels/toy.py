"""The kernel of the CPU under another name."""

from dbmd.kernels.cpu import Sums, asarray, coming, empty, products, solve_h, sum_log

__all__ = ["Sums", "asarray", "coming", "empty", "products", "solve_h", "sum_log"]
