"""Blocks of samples, which the nodes hold, and how data are read and split into them."""

from dbmd.data.block import Block, Chunk
from dbmd.data.partition import partition

__all__ = ["Block", "Chunk", "partition"]
