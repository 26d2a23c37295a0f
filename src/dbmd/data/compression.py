"""Compressed files: what a file is compressed with is seen by its first bytes, not by its name."""

from __future__ import annotations

import io
import lzma
from typing import Any

import pyarrow as pa

from dbmd.data.location import Location

SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".lz4")  # that names of compressed files have after the usual ending
MOST_XZ = 256 << 20  # bytes that an xz file may claim to need for being decompressed; xz -9 needs 65 MB
PIECE_BYTES = 1 << 16
XZ = b"\xfd7zXZ\x00"


def codec_of(start: bytes) -> str | None:
    """Return what a file is compressed with, by its first 10 bytes or more; None if it is not."""
    if start.startswith(b"\x1f\x8b\x08"):
        return "gzip"
    # A text may begin with BZh, so the mark of the first block, or of the end of an empty file, is looked at, too.
    if start.startswith(b"BZh") and start[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):
        return "bz2"
    if start.startswith(XZ):
        return "xz"
    if start.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    return "lz4" if start.startswith(b"\x04\x22\x4d\x18") else None


def open_decompressed(location: Location) -> Any:
    """Return a file as a stream of what it holds, decompressed if it is compressed. Damage is an OSError."""
    file = location.open()
    codec = codec_of(file.read(16))
    file.seek(0)
    if codec is None:
        return file
    if codec == "xz":
        return io.BufferedReader(_Xz(file))
    return pa.CompressedInputStream(file, codec)


class _Xz(io.RawIOBase):
    """A stream of what an xz file holds, which may be several files one after the other.

    ``lzma.open`` has no limit of memory: a file of a few bytes may ask for 4 GB.

    Parameters
    ----------
    file : file
        Open for reading at its beginning.
    """

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file, self._decoder, self._left = file, self._new(), b""

    @staticmethod
    def _new() -> Any:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_XZ)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read up to as many bytes as the buffer holds, and return how many; 0 at the end."""
        data = b""
        while not data:
            if self._decoder.eof:
                self._left = (self._decoder.unused_data or self._file.read(PIECE_BYTES)).lstrip(b"\0")  # padding
                if not self._left:
                    return 0
                self._decoder = self._new()
            more = self._left or (self._file.read(PIECE_BYTES) if self._decoder.needs_input else b"")
            if self._decoder.needs_input and not more:
                raise OSError("the compressed stream ends too early")
            self._left = b""
            try:
                data = self._decoder.decompress(more, len(buffer))
            except lzma.LZMAError as error:
                raise OSError(f"the compressed stream is damaged: {error}") from error
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file, too."""
        if not self.closed:
            self._file.close()
        super().close()
