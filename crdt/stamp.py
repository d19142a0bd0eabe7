"""Stamps: the tags of elements, ``cluster:nanotime``.

Order is (nanotime as integer, cluster as bytes); the text is never compared.  ``nanotime`` is Unix
time in nanoseconds, 0 to 2**63 - 1.  In JSON a stamp is always a string, since a double cannot hold
its digits; ``int()`` accepts far too much (signs, underscores, other scripts' digits), so the text
is matched by a pattern first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from crdt.errors import StampError

MAX_NANOTIME = 2**63 - 1
_NANOTIME = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_CLUSTER = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


def parse_nanotime(text: object) -> int:
    """Nanoseconds from their decimal text.

    Raises :class:`StampError` with code ``tag_not_string`` for anything but a string and
    ``bad_tag`` for a text outside ``0|[1-9][0-9]{0,18}`` or above 2**63 - 1.
    """
    if not isinstance(text, str):
        message = f"nanotime must be a decimal string, not {type(text).__name__}"
        raise StampError(message, code="tag_not_string")
    if _NANOTIME.fullmatch(text) is None or (value := int(text)) > MAX_NANOTIME:
        message = f"{text[:40]!r} is not a nanotime (ASCII decimal, no sign, 0 to {MAX_NANOTIME})"
        raise StampError(message)
    return value


@total_ordering
@dataclass(frozen=True, slots=True)
class Stamp:
    """When, and by which cluster, an element was last stated."""

    nanotime: int
    cluster: str

    def __post_init__(self) -> None:
        """Refuse values that no text form could carry."""
        if type(self.nanotime) is not int or not 0 <= self.nanotime <= MAX_NANOTIME:
            message = f"nanotime is not an integer from 0 to {MAX_NANOTIME}"
            raise StampError(message)
        if type(self.cluster) is not str or _CLUSTER.fullmatch(self.cluster) is None:
            message = (
                f"cluster {str(self.cluster)[:80]!r} is not a DNS label of at most 63 characters"
            )
            raise StampError(message)

    @classmethod
    def parse(cls, text: object) -> Stamp:
        """Read ``cluster:nanotime``; raises :class:`StampError` as :func:`parse_nanotime` does."""
        if not isinstance(text, str):
            message = f"a tag must be a string, not {type(text).__name__}"
            raise StampError(message, code="tag_not_string")
        cluster, separator, nanotime = text.partition(":")
        if not separator:
            message = f"{text[:80]!r} is not a tag of the form cluster:nanotime"
            raise StampError(message)
        return cls(parse_nanotime(nanotime), cluster)

    def __str__(self) -> str:
        """The text form, which :meth:`parse` reads back."""
        return f"{self.cluster}:{self.nanotime}"

    def sort_key(self) -> tuple[int, bytes]:
        """The total order: time first, then the cluster's bytes."""
        return (self.nanotime, self.cluster.encode())

    def __lt__(self, other: object) -> bool:
        """Order by :meth:`sort_key`."""
        if not isinstance(other, Stamp):
            return NotImplemented
        return self.sort_key() < other.sort_key()
