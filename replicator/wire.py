"""What one field of a message may hold: its type and its bounds.

Every check takes a decoded value and what it is meant to be, returns the value with its type known,
and raises :class:`~replicator.errors.ProtocolError` (``bad_frame``) for anything else.  Booleans
are no integers, and integers have at most 63 bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from crdt import Origin, Version
from replicator.errors import ProtocolError
from replicator.identity import is_label

FRAME_LIMIT = 1 << 20
"""Bytes of a frame, and so of any part of one."""
TEXT_LIMIT = 4096
"""Code points of a text."""
LIST_LIMIT = 2048
"""Items of one list: adverts of a Heads, entries of a chunk."""
_INT63 = 2**63 - 1


def bad(what: str) -> ProtocolError:
    """The error that ``what`` is not right; for the caller to raise."""
    return ProtocolError(f"{what} is not what the protocol says", code="bad_frame")


def integer(value: object, what: str) -> int:
    """A whole number of at most 63 bits, not below zero."""
    if type(value) is not int or not 0 <= value <= _INT63:
        raise bad(what)
    return value


def text(value: object, what: str) -> str:
    """A text of at most :data:`TEXT_LIMIT` code points."""
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        raise bad(what)
    return value


def binary(value: object, what: str, limit: int = FRAME_LIMIT) -> bytes:
    """At most ``limit`` bytes."""
    if not isinstance(value, bytes) or len(value) > limit:
        raise bad(what)
    return value


def boolean(value: object, what: str) -> bool:
    """True or false, and nothing that only counts as such."""
    if not isinstance(value, bool):
        raise bad(what)
    return value


def listed(value: object, what: str, least: int, most: int = LIST_LIMIT) -> list[Any]:
    """A list of ``least`` to ``most`` items."""
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise bad(what)
    return value


def label(value: object, what: str) -> str:
    """A DNS label."""
    if not is_label(text(value, what)):
        raise bad(what)
    return cast("str", value)


@lru_cache(maxsize=8192)
def _origin_of(cluster: str, shard: int) -> Origin:
    if not is_label(cluster):
        raise bad("an origin")
    return Origin(cluster, shard)


def origin(cluster: object, shard: object) -> Origin:
    """The origin of these fields: the same few come in every message, and are made only once."""
    return _origin_of(text(cluster, "an origin"), integer(shard, "a shard"))


def version(epoch: object, stamp: object) -> Version:
    """A version of these two fields."""
    return Version(integer(epoch, "an epoch"), integer(stamp, "a stamp"))
