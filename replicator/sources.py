"""From whom to take an origin: from exactly one peer, so that every change arrives exactly once.

The origin itself when it is connected, else the peer with the freshest head and the lowest round
trip. A source that brought nothing of the origin for two heartbeats, while another peer advertised
a higher version, is stalled and replaced; so is a relay that brought no re-issued head for
15 s, since it may take the origin from us itself, directly or round a ring.  One whose transfer did
not add up or did not verify is left for another.  All are shunned for a while that doubles with
each failure.  Plain values and pure choices; asking and telling is
:mod:`replicator.subscriptions`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from crdt import ZERO, Version

STALL_SECONDS = 2.0
RENEWAL_SECONDS = 15.0
"""A relay that brings no re-issued head (due every 10 s) for this long is left for another."""
_LONGEST_SECONDS = 60.0
_MOST_FAILURES = 7


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
    takes: bool = False
    """It takes the origin from us."""


@dataclass(slots=True)
class Supply:
    """How taking one origin has gone so far; times are monotonic seconds."""

    highest: Version = ZERO
    """The highest version anybody has advertised."""
    progress_at: float = 0.0
    """When the source was chosen, or last brought something that counts."""
    patience: float = STALL_SECONDS
    """How long the source may bring nothing; doubles with each stall since the last commit."""
    failures: int = 0
    """Transfers that were worthless since the last commit."""
    retry_at: float = 0.0
    """No source is chosen before."""
    shunned: int | None = None
    """The session taken from only when there is no other ..."""
    shunned_until: float = 0.0
    """... until then."""
    _behind_at: float | None = field(default=None, init=False)

    def avoided(self, now: float) -> int | None:
        """The session to take from only when there is no other, or None."""
        return self.shunned if now < self.shunned_until else None

    def settled(self, committed: Version) -> bool:
        """Whether nothing is awaited: all that anybody advertised is committed, none is shunned."""
        return self.shunned is None and self._behind_at is None and committed >= self.highest

    def forgiven(self, now: float) -> bool:
        """Whether somebody has been shunned for long enough; said once."""
        if self.shunned is None or now < self.shunned_until:
            return False
        self.shunned = None
        return True

    def progressed(self, now: float) -> None:
        """The source brought a chunk that continues, or a later issue time."""
        self.progress_at = now

    def committed(self, number: int, now: float) -> None:
        """A commit of what session ``number`` sent; others stay shunned for their time."""
        self.progress_at = now
        self.patience = STALL_SECONDS
        self._behind_at = None
        if number == self.shunned or now >= self.shunned_until:
            self.failures, self.shunned = 0, None

    def failed(self, number: int, now: float) -> None:
        """What session ``number`` sent was worthless: try another at once, then ever later."""
        self.failures = min(self.failures + 1, _MOST_FAILURES)
        if self.failures > 1:
            self.retry_at = now + 2.0 ** (self.failures - 2)
        self._shun(number, now, 2.0**self.failures)

    def overdue(self, now: float, *, behind: bool) -> bool:
        """Whether the source has stalled; ``behind``: another peer advertises a higher version.

        The wait begins when that is first seen, so a source is not blamed for an idle origin.
        """
        if not behind:
            self._behind_at = None
            return False
        if self._behind_at is None:
            self._behind_at = now
        return now - max(self.progress_at, self._behind_at) >= self.patience

    def unrenewed(self, now: float) -> bool:
        """Whether the source has brought no sign of the origin's life for too long."""
        return now - self.progress_at >= max(RENEWAL_SECONDS, self.patience)

    def stalled(self, number: int, now: float) -> None:
        """Session ``number`` is left for having stalled."""
        self._shun(number, now, self.patience)
        self.patience = min(2 * self.patience, _LONGEST_SECONDS)
        self._behind_at = None

    def _shun(self, number: int, now: float, seconds: float) -> None:
        self.shunned, self.shunned_until = number, now + min(seconds, _LONGEST_SECONDS)


def best(candidates: Sequence[Candidate], avoid: int | None) -> int | None:
    """The session to take an origin from, or None; ``avoid`` only if there is no other."""

    def rank(candidate: Candidate) -> tuple[bool, bool, int, int, bool, int, str, int]:
        epoch, stamp = candidate.version
        return (
            candidate.number == avoid,
            not candidate.direct,
            -epoch,
            -stamp,
            candidate.takes,
            candidate.rtt_ns,
            candidate.cluster,
            candidate.number,
        )

    chosen = min(candidates, key=rank, default=None)
    return None if chosen is None else chosen.number


def keeps(current: Candidate | None, candidates: Sequence[Candidate], avoid: int | None) -> bool:
    """Whether the present source stays: a relay gives way to the origin, nothing else is better.

    Of two agents that both claim to write the origin, the one in a higher epoch is better.
    """
    if current is None or current.number == avoid:
        return False
    writers = [c for c in candidates if c.direct and c.number != avoid]
    if current.direct:
        return not any(c.version.epoch > current.version.epoch for c in writers)
    return not writers


def ahead(committed: Version, candidates: Sequence[Candidate], current: int) -> bool:
    """Whether a peer other than ``current`` advertises more than is committed."""
    return any(
        candidate.version > committed for candidate in candidates if candidate.number != current
    )
