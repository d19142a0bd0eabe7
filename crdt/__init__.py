"""Conflict-free replicated data types of the replicator, usable alone (no I/O, clocks, dice)."""

from crdt.canonical import pack
from crdt.clock import StampClock
from crdt.digest import MerkleDigest, SetDigest
from crdt.entries import Entry
from crdt.errors import (
    CanonicalError,
    ContinuityError,
    CrdtError,
    GapError,
    MismatchError,
    StaleError,
    StampError,
)
from crdt.former import Former
from crdt.head import Base, Head
from crdt.lww_set import LWWElementSet, LWWEntry
from crdt.origin_set import Chunk, OriginSet
from crdt.staging import Change, Staging
from crdt.stamp import Stamp
from crdt.version_vector import ZERO, Origin, Version, VersionVector

__all__ = [
    "ZERO",
    "Base",
    "CanonicalError",
    "Change",
    "Chunk",
    "ContinuityError",
    "CrdtError",
    "Entry",
    "Former",
    "GapError",
    "Head",
    "LWWElementSet",
    "LWWEntry",
    "MerkleDigest",
    "MismatchError",
    "Origin",
    "OriginSet",
    "SetDigest",
    "Staging",
    "StaleError",
    "Stamp",
    "StampClock",
    "StampError",
    "Version",
    "VersionVector",
    "pack",
]
