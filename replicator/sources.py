"""From whom to take an origin: from exactly one peer, so that every change arrives exactly once.

The origin itself when it is connected, else the peer with the freshest head and the lowest round
trip. A source that said nothing of the origin for two heartbeats while another peer advertises a
higher version is stalled and replaced.  Pure functions over plain candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crdt import Version

STALL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A connected peer that could serve an origin."""

    number: int
    direct: bool
    """It is the origin itself."""
    version: Version
    """The highest version it has advertised."""
    rtt_ns: int
    cluster: str


def best(candidates: Sequence[Candidate], avoid: int | None) -> int | None:
    """The session to take an origin from, or None; ``avoid`` only if there is no other."""

    def rank(candidate: Candidate) -> tuple[bool, bool, int, int, int, str, int]:
        epoch, stamp = candidate.version
        return (
            candidate.number == avoid,
            not candidate.direct,
            -epoch,
            -stamp,
            candidate.rtt_ns,
            candidate.cluster,
            candidate.number,
        )

    chosen = min(candidates, key=rank, default=None)
    return None if chosen is None else chosen.number


def keeps(current: Candidate | None, candidates: Sequence[Candidate]) -> bool:
    """Whether the present source stays: a relay gives way to the origin, nothing else is better."""
    if current is None:
        return False
    return current.direct or not any(candidate.direct for candidate in candidates)


def stalled(
    committed: Version, candidates: Sequence[Candidate], current: int, silent_for: float
) -> bool:
    """Whether the source is to be replaced (see the module's text)."""
    if silent_for < STALL_SECONDS:
        return False
    return any(
        candidate.version > committed for candidate in candidates if candidate.number != current
    )
