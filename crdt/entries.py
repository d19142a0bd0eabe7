"""Entries: what is said of one element, a plain tuple in motion and one byte string at rest.

In motion an entry is (element, stamp, op, value): ``element`` and ``value`` canonical bytes, ``op``
0 for an add and 1 for a remove.  Making a tuple takes a sixth of the time of a frozen object
(``bench/crdt.py``).

At rest, beside its element, it is the bytes of stamp, op and value joined: 80 bytes for a usual
endpoint where a tuple with its integer and its value takes 176, nothing that the garbage collector
has to look at, and the end of the canonical bytes as it stands.
"""

from __future__ import annotations

from crdt.canonical import pack_int
from crdt.digest import entry_digest, key_hash

ADD = 0
REMOVE = 1

Entry = tuple[bytes, int, int, bytes]
"""(element, stamp, op, value)."""
Stored = bytes
"""Stamp (8 bytes, big-endian), op (one byte) and value: in the order of their stamps."""

NIL = b"\xc0"
"""The value of a remove."""
_VALUE_AT = 9
_OPS = tuple(bytes((op,)) for op in range(0x80))
_LONG = b"\x00\x00\x00\x01"
"""Stored entries from here on have a stamp of more than 32 bits."""

_SPLICED = {
    bytes((0x90 | size, kind)): bytes((0x95, kind, 0x90 | size - 1))
    for size in range(1, 16)
    for kind in range(0x80)
}
"""How [kind, *key] begins -> how [kind, [*key], ...] begins."""


def entry_bytes(element: bytes, stamp: int, op: int, value: bytes) -> bytes:
    """Canonical bytes of an entry: MessagePack of [kind, key, stamp, op, value].

    ``element`` is MessagePack of [kind, *key], so its bytes are spliced, not packed again.  One
    with a kind above 127 or more than 15 items stays whole: [element, stamp, op, value].
    """
    return _key_bytes(element) + pack_int(stamp) + pack_int(op) + value


def _key_bytes(element: bytes) -> bytes:
    spliced = _SPLICED.get(element[:2])
    return b"\x94" + element if spliced is None else spliced + element[2:]


def stored_of(stamp: int, op: int, value: bytes) -> Stored:
    """What is kept of an entry beside its element."""
    return stamp.to_bytes(8, "big") + _OPS[op] + value


def stamp_of(stored: Stored) -> int:
    """The stamp of what is kept."""
    return int.from_bytes(stored[:8], "big")


def is_remove(stored: Stored) -> bool:
    """Whether what is kept is a tombstone."""
    return stored[8] == REMOVE


def live_value(stored: Stored | None) -> bytes | None:
    """The value of what is kept, None for a tombstone or for nothing."""
    return None if stored is None or stored[8] == REMOVE else stored[_VALUE_AT:]


def opened(element: bytes, stored: Stored) -> Entry:
    """The entry again."""
    return element, stamp_of(stored), stored[8], stored[_VALUE_AT:]


def stored_digest(element: bytes, stored: Stored) -> bytes:
    """The digest of the entry: a stamp of 33 bits or more is at rest as in canonical bytes."""
    if stored >= _LONG:
        return entry_digest(b"".join((_key_bytes(element), b"\xcf", stored)))
    return entry_digest(entry_bytes(*opened(element, stored)))


def record_of(element: bytes, stored: Stored) -> bytes:
    """The record of the entry in a set's digest."""
    return key_hash(element) + stored_digest(element, stored)
