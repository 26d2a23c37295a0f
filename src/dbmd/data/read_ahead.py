"""Reading files in several threads for one consumer, who gets the samples in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

from dbmd.data.block import Window
from dbmd.data.stream import Shard, Stream

PIECE_BYTES = 32 << 20  # what a thread reads at a time, if reading can start in between
AHEAD_BYTES = 1 << 30  # what may be read in advance


def windows_in_order(stream: Stream, n_threads: int) -> Iterator[Window]:
    """Yield the samples of files as :meth:`Stream.windows` does; threads read those that follow in advance.

    Parameters
    ----------
    stream : Stream
        The samples.
    n_threads : int
        Number of threads.
    """
    pieces = pieces_of(stream) if any(shard.reader.decodes for shard in stream.shards) else [stream]
    most = max((piece.n_rows for piece in pieces), default=0) * stream.shape[1] * stream.dtype.itemsize
    ahead = min(n_threads, len(pieces), AHEAD_BYTES // max(most, 1))
    return _in_order(pieces, ahead) if ahead > 1 else stream.windows()


def pieces_of(stream: Stream) -> list[Stream]:
    """Return the samples of files in pieces that can be read on their own; their rows count from that of the stream."""
    size = max(1, PIECE_BYTES // max(stream.shape[1] * stream.dtype.itemsize, 1))
    pieces, first = [], 0
    for shard in stream.shards:
        for start, stop in pairwise(_edges(shard, size)):
            pieces.append(
                replace(stream, shards=[Shard(shard.reader, start, stop)], n_rows=stop - start, first_row=first)
            )
            first += stop - start
    return pieces if first == stream.n_rows else [stream]  # a file whose rows were not counted cannot be cut


def _edges(shard: Shard, size: int) -> list[int]:
    """Return rows of a file from its first to its last, at which reading can start, so many rows apart or more."""
    if shard.stop is None:
        return []
    seekable = shard.reader.seekable_rows
    edges = [shard.start]
    for row in range(shard.start + size, shard.stop, size) if seekable is None else seekable:
        if row - edges[-1] >= size and row < shard.stop:
            edges.append(row)
    return [*edges, shard.stop]


def _in_order(pieces: list[Stream], ahead: int) -> Iterator[Window]:
    waiting: deque[Future[list[Window]]] = deque()
    with ThreadPoolExecutor(ahead, "dbmd-read") as pool:
        try:
            for piece in pieces:
                waiting.append(pool.submit(_read, piece))
                if len(waiting) > ahead:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _read(piece: Stream) -> list[Window]:
    """Return the windows of a piece, with rows that count from that of the whole stream."""
    return [window._replace(first=piece.first_row + window.first) for window in piece.one_by_one()]
