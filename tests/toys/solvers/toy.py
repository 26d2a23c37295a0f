"""The exact solver under another name."""

from dbmd.solvers.exact import GATHERS, solve

__all__ = ["GATHERS", "solve"]
