"""Frames read once for all who get them, and as an agent of a later minor version sends them.

Of a later version each message has a field more, and after each beat comes a message of a type
unknown here; an agent of this version must take the one and ignore the other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import msgpack

from replicator import messages as m
from replicator.codec import decode
from replicator.wire import FRAME_LIMIT

_BEAT, _LATER = 7, 99


def read_once(frame: bytes, limit: int = FRAME_LIMIT) -> m.Message:
    """As :func:`decode`, once for all who get the same bytes: messages never change."""
    return _read(frame, limit)


@lru_cache(maxsize=1024)
def _read(frame: bytes, limit: int) -> m.Message:
    # Apart from its caller: left out and given by default would be kept as two calls.
    return decode(frame, limit)


@lru_cache(maxsize=8)
def newer_frames(frame: bytes) -> tuple[bytes, ...]:
    """The same message with a field appended; beats are followed by a message unknown here.

    What a hello says of the version is its sender's own affair.
    """
    fields = cast("list[Any]", msgpack.unpackb(memoryview(frame)[1:], strict_map_key=False))
    newer = _framed(frame, [*fields, "later"])
    return (newer, _framed(frame, [_LATER, "something", 1])) if fields[0] == _BEAT else (newer,)


def _framed(like: bytes, fields: list[Any]) -> bytes:
    return like[:1] + cast("bytes", msgpack.packb(fields))
