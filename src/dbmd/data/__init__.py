"""What a node holds: blocks of samples, and how data is cut into them."""

from dbmd.data.block import Block, Chunk
from dbmd.data.partition import partition

__all__ = ["Block", "Chunk", "partition"]
