"""Time on more machines than there are: from the times of nodes that worked alone, and the messages they exchanged.

    T_p = sum over questions of (the slowest node + the driver + the messages)

A question is done when the last reply is there, so the slowest node counts, and the driver works while the nodes wait.
One machine needs no network: it has no messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dbmd.engines import Link, Traffic
from dbmd.model.statistics import Float


@dataclass(frozen=True)
class Work:
    """What some questions took while the nodes worked one after the other.

    Attributes
    ----------
    nodes : array of shape (n_asks, n_nodes)
        Seconds of each node for each question.
    driver : float
        Seconds of everything else.
    traffic : Traffic
        What travelled.
    """

    nodes: Float
    driver: float
    traffic: Traffic

    @classmethod
    def least(cls, repeats: Sequence[Work]) -> Work:
        """Return the least of each time over repeats of the same work: what disturbs a clock only adds to it."""
        return cls(
            np.min([work.nodes for work in repeats], axis=0),
            min(work.driver for work in repeats),
            repeats[0].traffic,
        )

    @property
    def slowest(self) -> float:
        """Seconds of the nodes when they work at the same time: of the slowest one, question by question."""
        return float(self.nodes.max(axis=1).sum())

    def messages(self, link: Link) -> float:
        """Return the seconds that messages take, all nodes of a question over the one line that the driver has."""
        n_nodes = self.nodes.shape[1]
        return 0.0 if n_nodes == 1 else Link(link.latency, link.bandwidth / n_nodes).seconds(self.traffic)

    def seconds(self, link: Link) -> float:
        """Return T_p on as many machines as there are nodes."""
        return self.slowest + self.driver + self.messages(link)


def speed_up(single: float, several: float) -> float:
    """Return T_1 / T_p."""
    return single / several


def efficiency(single: float, several: float, n_nodes: int) -> float:
    """Return T_1 / (p T_p), which is 1 if no machine waits.

    The paper gives this name to the reciprocal of the speed-up (docs/paper.md, point 15).
    """
    return single / (n_nodes * several)
