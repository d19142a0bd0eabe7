"""Versions and version vectors.

A version (epoch, stamp) is the only order used inside one origin: the epoch is the fencing token of
its writer, the stamp the newest change included.  A vector holds one committed version per origin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Origin(NamedTuple):
    """Whose elements: a cluster, and its shard (0 until a cluster is split)."""

    cluster: str
    shard: int = 0


class Version(NamedTuple):
    """A position in one origin's history; compares by epoch, then stamp."""

    epoch: int
    stamp: int


ZERO = Version(0, 0)
"""Before anything: the version of an origin never heard of."""


class VersionVector(Mapping[Origin, Version]):
    """What is committed, per origin; merge is the pointwise maximum, hence a lattice."""

    __slots__ = ("_versions",)

    def __init__(self, versions: Mapping[Origin, Version] | None = None) -> None:
        """A vector with the given versions; :data:`ZERO` ones are left out."""
        given = versions or {}
        self._versions = {origin: given[origin] for origin in given if given[origin] > ZERO}

    def __getitem__(self, origin: Origin) -> Version:
        """The version of ``origin``, :data:`ZERO` when unknown."""
        return self._versions.get(origin, ZERO)

    def __iter__(self) -> Iterator[Origin]:
        """Known origins in sorted order."""
        return iter(sorted(self._versions))

    def __len__(self) -> int:
        """Number of known origins."""
        return len(self._versions)

    def __contains__(self, origin: object) -> bool:
        """Whether anything of ``origin`` is included."""
        return origin in self._versions

    def merge(self, other: VersionVector) -> VersionVector:
        """The least vector that covers both."""
        both = {**self._versions}
        for origin, version in other._versions.items():
            both[origin] = max(both.get(origin, ZERO), version)
        return VersionVector(both)

    def covers(self, other: VersionVector) -> bool:
        """Whether everything in ``other`` is included here."""
        return all(self[origin] >= version for origin, version in other._versions.items())

    def __eq__(self, other: object) -> bool:
        """Equal when the versions are."""
        return isinstance(other, VersionVector) and self._versions == other._versions

    def __hash__(self) -> int:
        """Hash of the content."""
        return hash(frozenset(self._versions.items()))

    def __repr__(self) -> str:
        """Content in sorted order."""
        return f"VersionVector({ {origin: self[origin] for origin in self} })"
