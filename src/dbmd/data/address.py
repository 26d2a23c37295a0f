"""Addresses of files, and how to show them without secrets: user names, passwords, keys, signatures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import quote, unquote

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/+")  # at least two letters: C:/ is a drive
CHAINED = re.compile(r"::(?=/|[A-Za-z0-9+.-]+(?:://|::|$))")  # simplecache::s3://..., zip://x.csv::https://...
SHORTEST = 4  # characters: anything shorter may be part of a word, and protects nothing


def is_address(text: str | Path) -> bool:
    """Return whether a text is an address, and not a path on this machine."""
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
    return "::".join(link.scheme + link.location for link in _links(str(address)))


@dataclass(frozen=True)
class Secrets:
    """The secrets in some addresses.

    Attributes
    ----------
    addresses : tuple of str
        The addresses that contain secrets.
    pieces : tuple of str
        Users, passwords and values of queries in every form in which a message may have them, the longest first.
    """

    addresses: tuple[str, ...]
    pieces: tuple[str, ...]

    @classmethod
    def of(cls, addresses: Iterable[str | Path]) -> Self:
        """Return the secrets of addresses."""
        secret = dict.fromkeys(str(address) for address in addresses if shown(address) != str(address))
        links = (link for address in secret for link in _links(address))
        pieces = {form for link in links for piece in link.secrets for form in _forms(piece)}
        return cls(_longest_first(secret), _longest_first(pieces))

    def removed(self, text: str) -> str:
        """Return a text, such as a message of another library, without the secrets."""
        for address in self.addresses:
            text = text.replace(address, shown(address))
        for piece in self.pieces:
            text = text.replace(f"{piece}@", "").replace(f"?{piece}", "").replace(piece, "***")
        return text


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(texts, key=len, reverse=True))


class _Link(NamedTuple):
    """One address of a chain: scheme, ``user:password@``, host and path, ``?query``."""

    scheme: str
    user: str
    location: str
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
        # Not a port but a password with a character that should have been written %2F, %3F or %23.
        user = rest[: rest.rfind("@") + 1]
    location, mark, query = rest[len(user) :].partition("?")
    return _Link(text[: scheme.end()], user, location, mark + query)


def _forms(piece: str) -> Iterator[str]:
    """Yield a text as it is, decoded, and with special characters written as %XX."""
    plain = unquote(piece)
    yield from (form for form in (piece, plain, quote(plain), quote(plain, safe="")) if len(form) >= SHORTEST)
