"""How far one peer has been sent one origin, and what its next chunk must be (rules C2-C7, C10).

A transfer leads from the version the peer has committed (``base``) to the head served now.  It is
a delta where the peer can continue, else a snapshot that replaces.  While it runs the served head
may move: the transfer then simply goes on to the later head, unless tombstones it still needed
are gone, in which case it starts over as a snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crdt import ZERO, Head, Version
from crdt.buckets import Cover


@dataclass(slots=True)
class Cursor:
    """Position of one peer in one origin."""

    base: Version
    """What the peer has committed, as far as we know."""
    snapshot: bool = False
    """The transfer under way replaces the peer's state."""
    position: int = field(init=False)
    """Stamp up to which the transfer has been sent."""
    epoch: int = field(init=False)
    first: int = 0
    """Stamp of the head when a snapshot's first chunk was cut."""
    told: Head | None = None
    """The last head sent."""
    cover: Cover | None = None
    """Buckets that are sent first, whole; then what came since the peer's version."""

    def __post_init__(self) -> None:
        """A transfer starts at what the peer has, or at nothing."""
        self.position = 0 if self.snapshot or self.cover is not None else self.base.stamp
        self.epoch = self.base.epoch

    def has_work(self, head: Head) -> bool:
        """Whether anything is to be sent to bring the peer to ``head``.

        At the version the peer has, that is a later issue time, or another state signed for it.
        """
        if self.snapshot or self.base < head.version:
            return True
        if self.base > head.version:
            return False
        told = self.told
        return told is None or told.issued_at < head.issued_at or not told.same_state(head)

    def stands_at(self, head: Head) -> bool:
        """Whether the peer has that version, and wants no more than its head."""
        return self.base == head.version and not self.snapshot and self.cover is None

    def aim(self, head: Head) -> None:
        """Make the next chunk one that leads to ``head``; restarts the transfer if it must."""
        if self.cover is not None and self.epoch != head.epoch:
            self._start_snapshot(head)
        elif self.snapshot:
            if self.first == 0 or self.epoch != head.epoch or head.floor > self.first:
                self._start_snapshot(head)
        elif not self._delta_may_lead_to(head):
            self._start_snapshot(head)
        elif self.epoch != head.epoch:
            self.position, self.epoch = self.base.stamp, head.epoch

    def _start_snapshot(self, head: Head) -> None:
        self.snapshot, self.cover = True, None
        self.position, self.epoch, self.first = 0, head.epoch, head.stamp

    def _delta_may_lead_to(self, head: Head) -> bool:
        if self.base == ZERO or head.floor > self.base.stamp:
            return False
        if head.epoch == self.base.epoch:
            return True
        base = head.base
        if base is None or base.epoch != self.base.epoch:
            return False
        return self.base.stamp <= base.stamp <= head.stamp

    def lent(self, to: int, *, last: bool) -> None:
        """Buckets were sent up to ``to``; with the ``last`` of them a delta follows."""
        self.position = to
        if last:
            self.cover, self.position = None, self.base.stamp

    def sent(self, to: int, head: Head | None) -> None:
        """A chunk up to ``to`` was sent; with ``head`` the transfer is complete."""
        self.position = to
        if head is not None:
            self.base, self.epoch = head.version, head.epoch
            self.snapshot = False
            self.told = head
