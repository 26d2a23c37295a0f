"""Addresses of files, without what only those who open them may know: user names, passwords, keys, signatures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import quote, unquote

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/+")  # at least two letters: C:/ is a drive
CHAINED = re.compile(r"::(?=/|[A-Za-z0-9+.-]+(?:://|::|$))")  # simplecache::s3://..., zip://x.csv::https://...
SHORTEST = 4  # characters: what is shorter may be a part of any word, and guards nothing


def is_address(text: str | Path) -> bool:
    """Say whether a text is an address, and not a path on this machine."""
    return "://" in str(text)


def shown(address: str | Path) -> str:
    """Return an address as it may be printed and recorded: without user information and query.

    Examples
    --------
    >>> from dbmd.data.address import shown
    >>> shown("s3://KEY:SECRET@bucket/x.csv?region=eu-west-1")
    's3://bucket/x.csv'
    >>> shown("simplecache::https://me:word@host/x.csv?token=1")
    'simplecache::https://host/x.csv'
    >>> shown("lab@home/what?.csv")
    'lab@home/what?.csv'
    """
    return "::".join(link.scheme + link.place for link in _links(str(address)))


@dataclass(frozen=True)
class Secrets:
    """What some addresses hold that must not be seen.

    Attributes
    ----------
    addresses : tuple of str
        The addresses that hold any.
    pieces : tuple of str
        Users, passwords and values of queries, however they may be written in a message, the longest first.
    """

    addresses: tuple[str, ...]
    pieces: tuple[str, ...]

    @classmethod
    def of(cls, addresses: Iterable[str | Path]) -> Self:
        """Return the secrets of addresses."""
        telling = tuple(sorted((str(each) for each in addresses if shown(each) != str(each)), key=len, reverse=True))
        pieces = {form for each in telling for link in _links(each) for piece in link.secrets for form in _forms(piece)}
        return cls(telling, tuple(sorted(pieces, key=len, reverse=True)))

    def removed(self, text: str) -> str:
        """Return a text, of another library say, without them."""
        for address in self.addresses:
            text = text.replace(address, shown(address))
        for piece in self.pieces:
            text = text.replace(f"{piece}@", "").replace(f"?{piece}", "").replace(piece, "***")
        return text


class _Link(NamedTuple):
    """One address of a chain: scheme, ``user:password@``, host and path, ``?query``."""

    scheme: str
    user: str
    place: str
    query: str

    @property
    def secrets(self) -> Iterator[str]:
        user, query = self.user.removesuffix("@"), self.query.removeprefix("?")
        yield from (user, *user.split(":", 1), query)
        for pair in query.split("&"):
            yield pair
            yield pair.partition("=")[2]


def _links(address: str) -> list[_Link]:
    return [_link(text) for text in CHAINED.split(address)]


def _link(text: str) -> _Link:
    scheme = SCHEME.search(text)
    if scheme is None:
        return _Link("", "", text, "")
    rest = text[scheme.end() :]
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    _, colon, port = host.partition(":")
    user = host[: host.rfind("@") + 1]
    if not user and colon and not port.isdecimal() and not host.startswith("["):
        # That is no port but a password, with a sign in it that should have been written %2F, %3F or %23.
        user = rest[: rest.rfind("@") + 1]
    place, mark, query = rest[len(user) :].partition("?")
    return _Link(text[: scheme.end()], user, place, mark + query)


def _forms(piece: str) -> Iterator[str]:
    """Yield a text as it is, and with other signs written as %XX."""
    plain = unquote(piece)
    yield from (form for form in (piece, plain, quote(plain), quote(plain, safe="")) if len(form) >= SHORTEST)
