"""One block of samples that cannot be split."""

from __future__ import annotations

from dataclasses import dataclass

from dbmd.data.block import Samples
from dbmd.dataset._base import Dataset
from dbmd.model.node import Node


@dataclass(frozen=True, kw_only=True, eq=False)
class SingleBlock(Dataset):
    """One block of samples as the only node: a file that one thread at a time can read.

    Attributes
    ----------
    block : Samples
        All samples.
    name : str
        Name of the node, for messages.
    """

    block: Samples
    name: str

    @property
    def description(self) -> str:
        """Where the samples are, for people."""
        return f"read from {self.name} in every pass"

    def nodes(self, n_nodes: int | None, r: int) -> list[Node]:
        """Return the block as one node, whatever n_nodes is."""
        return [Node(self.name, self.block, keeps_rows=self.keeps_rows(r))]
