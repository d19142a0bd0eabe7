"""Heads: an origin's signed position.

A head says "at ``stamp`` (of ``epoch``) my set has ``count`` entries, live ones and tombstones
above ``floor``, and this ``root``".  Signed by the origin, it travels unchanged through any relay,
and a replica commits only what reproduces it.  The signature covers :meth:`Head.canonical`; making
and checking it is the caller's work, since this package knows no keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from crdt.canonical import pack
from crdt.version_vector import Origin, Version

_CONTEXT = "replicator.head.1"


class Base(NamedTuple):
    """The head of the former epoch that an epoch continues from (rule C10)."""

    epoch: int
    stamp: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """One position of one origin; times are Unix nanoseconds of the origin's wall clock."""

    origin: Origin
    epoch: int
    base: Base | None
    stamp: int
    floor: int
    count: int
    root: bytes
    issued_at: int
    observed_at: int
    key_id: bytes
    signature: bytes = b""

    @property
    def version(self) -> Version:
        """The version a replica has after committing this head."""
        return Version(self.epoch, self.stamp)

    def fields(self) -> list[object]:
        """Everything the signature covers, in canonical order, without the context string."""
        return [
            self.origin.cluster,
            self.origin.shard,
            self.epoch,
            None if self.base is None else list(self.base),
            self.stamp,
            self.floor,
            self.count,
            self.root,
            self.issued_at,
            self.observed_at,
            self.key_id,
        ]

    def canonical(self) -> bytes:
        """The bytes to sign and to verify."""
        return pack([_CONTEXT, *self.fields()])

    def signed(self, signature: bytes) -> Head:
        """The same head carrying ``signature``."""
        return replace(self, signature=signature)

    def outdoes(self, other: Head) -> bool:
        """Which of two states signed for one version stays: the larger root, then floor, count.

        The root alone would not do: a floor that passed no tombstone leaves it as it was.
        """
        return (self.root, self.floor, self.count) > (other.root, other.floor, other.count)

    def same_state(self, other: Head) -> bool:
        """Whether both state the same content at the same version (re-issues do)."""
        return (self.version, self.floor, self.count, self.root) == (
            other.version,
            other.floor,
            other.count,
            other.root,
        )
