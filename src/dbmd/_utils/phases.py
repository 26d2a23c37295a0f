"""What a fit is doing, told to whoever wants to know."""

from __future__ import annotations

from typing import Protocol


class OnPhase(Protocol):
    """A function that is told what is done next."""

    def __call__(self, phase: str, step: int = ..., /) -> object:
        """Take note of a phase.

        Parameters
        ----------
        phase : str
            What is done next, in words: "drawing samples to start from".
        step : int
            In a phase with iterations of its own, the number of each; it is told after the phase itself.
        """


def ignore_phase(phase: str, step: int = 0, /) -> None:
    """Do nothing."""
