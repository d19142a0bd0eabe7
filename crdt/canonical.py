"""Canonical bytes: the one MessagePack form of a value that everyone computes alike.

Shortest integer and length forms, maps sorted by the packed bytes of their keys, no extension
types.  Digests, signatures and ties are decided over these bytes, so they must not depend on a
library's options; that is why the thirty lines stand here.  Writing only; reading is the codec's
work.

Source: MessagePack specification (github.com/msgpack/msgpack/blob/master/spec.md).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from crdt.errors import CanonicalError

_MAX_DEPTH = 32


_WIDE = struct.Struct(">BQ").pack
_MOST_32, _MOST_64 = (1 << 32) - 1, (1 << 64) - 1


def pack_int(value: int) -> bytes:
    """The shortest MessagePack integer; raises :class:`CanonicalError` outside 64 bits."""
    if _MOST_32 < value <= _MOST_64:  # stamps: the most frequent integers
        return _WIDE(0xCF, value)
    if -0x20 <= value < 0x80:  # noqa: PLR2004 - one byte of two's complement is the whole form
        return bytes((value & 0xFF,))
    bits = value.bit_length() if value >= 0 else (~value).bit_length() + 1
    for tag, size in ((0, 1), (1, 2), (2, 4), (3, 8)):
        if bits <= 8 * size:
            first = (0xCC if value >= 0 else 0xD0) + tag
            return bytes((first,)) + value.to_bytes(size, "big", signed=value < 0)
    message = f"an integer of {bits} bits does not fit MessagePack's 64"
    raise CanonicalError(message)


def _head(size: int, short: list[bytes], tags: tuple[int | None, int, int]) -> bytes:
    if size < len(short):
        return short[size]
    for tag, width in zip(tags, (1, 2, 4), strict=True):
        if tag is not None and size < 1 << (8 * width):
            return bytes((tag,)) + size.to_bytes(width, "big")
    message = f"length {size} is beyond MessagePack"
    raise CanonicalError(message)


def _pack_map(value: Mapping[object, object], depth: int) -> bytes:
    items = sorted((_pack(key, depth), _pack(item, depth)) for key, item in value.items())
    return _head(len(items), _SHORT_MAPS, _MAPS) + b"".join(k + v for k, v in items)


def _pack_list(value: list[object] | tuple[object, ...], depth: int) -> bytes:
    scalar_of, parts = _SCALARS.get, [_head(len(value), _SHORT_LISTS, _LISTS)]
    for item in value:
        scalar = scalar_of(type(item))
        parts.append(_pack(item, depth) if scalar is None else scalar(item))
    return b"".join(parts)


def _pack_text(value: str) -> bytes:
    try:
        body = value.encode()
    except UnicodeEncodeError as error:
        message = "text holds a lone surrogate, which UTF-8 cannot carry"
        raise CanonicalError(message) from error
    return _head(len(body), _SHORT_TEXTS, _TEXTS) + body


def _pack_bytes(value: bytes) -> bytes:
    return _head(len(value), _SHORT_BYTES, _BYTES) + value


_MAPS, _LISTS = (None, 0xDE, 0xDF), (None, 0xDC, 0xDD)
_TEXTS, _BYTES = (0xD9, 0xDA, 0xDB), (0xC4, 0xC5, 0xC6)
_SHORT_MAPS = [bytes((0x80 | size,)) for size in range(16)]
_SHORT_LISTS = [bytes((0x90 | size,)) for size in range(16)]
_SHORT_TEXTS = [bytes((0xA0 | size,)) for size in range(32)]
_SHORT_BYTES = [bytes((_BYTES[0], size)) for size in range(256)]


_SCALARS: dict[type, Callable[..., bytes]] = {
    type(None): lambda _: b"\xc0",
    bool: lambda value: b"\xc3" if value else b"\xc2",
    int: pack_int,
    float: lambda value: b"\xcb" + struct.pack(">d", value),
    bytes: _pack_bytes,
    str: _pack_text,
}


def _pack(value: object, depth: int) -> bytes:
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        return scalar(value)
    if depth == 0:
        message = f"value is nested deeper than {_MAX_DEPTH}"
        raise CanonicalError(message)
    if isinstance(value, Mapping):
        return _pack_map(value, depth - 1)
    if isinstance(value, list | tuple):
        return _pack_list(value, depth - 1)
    message = f"{type(value).__name__} has no canonical form"
    raise CanonicalError(message)


def pack_items(items: Sequence[bytes]) -> bytes:
    """Canonical bytes of the list of values whose canonical bytes are ``items``."""
    return _head(len(items), _SHORT_LISTS, _LISTS) + b"".join(items)


def pack(value: object) -> bytes:
    """Canonical bytes of nil, bool, int, float, text, bytes, lists and maps of these.

    Raises :class:`CanonicalError` for any other type, 33 levels of nesting, or integers beyond
    64 bits.
    """
    return _pack(value, _MAX_DEPTH)
