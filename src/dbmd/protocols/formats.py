"""What a file format must offer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dbmd.data.formats import Reader
    from dbmd.data.location import Location

__all__ = ["Format"]


class Format(Protocol):
    """A file format: a module of :mod:`dbmd.data.formats`."""

    @property
    def SUFFIXES(self) -> tuple[str, ...]:
        """Endings of file names, with the dot and in lower case: ``(".csv", ".csv.gz")``. No two formats share one."""

    def open_file(
        self,
        location: Location,
        /,
        *,
        header: bool | None = ...,
        delimiter: str | None = ...,
        transpose: bool = ...,
        memory: int = ...,
    ) -> Reader:
        """Open a file and return a reader, which can be pickled and read by several threads at once.

        Parameters
        ----------
        location : Location
            The file, on this machine or elsewhere: ``location.open()`` returns it open for reading.
        header : bool or None
            Whether the first line has the names of the columns; None: to be found out. Only csv needs it.
        delimiter : str or None
            What separates fields; None: to be found out. Only csv needs it.
        transpose : bool
            Whether the file has features in rows and samples in columns. A format that can read columns one after the
            other returns a reader with ``is_transposed``; of any other, the table is held in memory and transposed.
        memory : int
            Bytes. A damaged file may claim any size: before something of that size is allocated, it must be compared
            with this. A format takes the keywords that it needs, and ``**hints``, which it ignores.

        Returns
        -------
        Reader
            A subclass of :class:`dbmd.data.formats.Reader` with ``columns`` and ``_batches``.

        Raises
        ------
        DataError
            If the file cannot be read: with its name, what is wrong, and a remedy. Errors of libraries may pass: the
            caller turns them into a DataError.
        """
