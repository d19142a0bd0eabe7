"""Frames as an agent of a later minor version would send them.

Each message has a field more, and now and then comes a message of a type unknown here; an agent of
this version must take the one and ignore the other.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

import msgpack

_HELLO, _LATER = 1, 99
_MINOR = 1


@lru_cache(maxsize=8)
def newer_frame(frame: bytes) -> bytes:
    """The same message with a field appended; a hello also names the later version."""
    fields = cast("list[Any]", msgpack.unpackb(memoryview(frame)[1:], strict_map_key=False))
    if fields[0] == _HELLO:
        fields[_MINOR] = 1
    return frame[:1] + cast("bytes", msgpack.packb([*fields, "later"]))


def later_frame(major: int) -> bytes:
    """A message of a type that this version does not know."""
    return bytes((major,)) + cast("bytes", msgpack.packb([_LATER, "something", 1]))
