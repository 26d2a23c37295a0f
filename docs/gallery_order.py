"""The order of the examples in the gallery: as one would read them."""

from __future__ import annotations

ORDER = (
    "plot_quick_start.py",
    "plot_noisy_sources.py",
    "plot_evidence.py",
    "plot_reading_memberships.py",
    "plot_how_many.py",
    "plot_files.py",
    "plot_tables.py",
    "plot_spectra.py",
    "plot_brightness.py",
    "plot_single_cells.py",
    "plot_batches.py",
    "plot_gaps.py",
    "plot_streams.py",
    "plot_clusters.py",
    "plot_solvers.py",
)


class ReadingOrder:
    """Sort the files of a folder by ORDER, others behind them by name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Return what to sort by."""
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)
