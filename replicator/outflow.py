"""What a session is sent next, cut from the served state when its socket can take more.

Bounded chunks, taken in turn: control messages first, then live deltas, then at most one chunk of
a bulk transfer per call, so a bootstrap delays nobody's news.  A chunk cut for one peer is kept
and given to every other peer at the same cursor, so a change is encoded once.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from crdt import Head, Origin, OriginSet
from replicator import messages as m
from replicator.codec import encode
from replicator.cursor import Cursor
from replicator.session import Session

CHUNK_BYTES = 128 * 1024
PULL_BYTES = 256 * 1024
_CACHED_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class Served:
    """One origin as it may be served now."""

    elements: OriginSet
    head: Head
    record: m.Record


@dataclass(frozen=True, slots=True)
class _Cut:
    frame: bytes
    to: int
    head: Head | None


class Outflow:
    """Cuts chunks; holds the small cache of encoded ones."""

    def __init__(self) -> None:
        """Nothing cut yet."""
        self._cuts: OrderedDict[tuple[object, ...], _Cut] = OrderedDict()
        self.encoded = 0
        """Chunks encoded; each may have gone to several peers."""

    def pull(self, session: Session, served: dict[Origin, Served]) -> list[bytes]:
        """The next frames for ``session``, about 256 KiB; empty when nothing waits.

        ``served`` holds the origins that may be served now; others stay marked and come later.
        """
        frames = session.take_outbox()
        budget = PULL_BYTES - sum(map(len, frames))
        bulk_sent = False
        for origin in list(session.ready):
            cursor, source = session.cursors.get(origin), served.get(origin)
            if source is None and cursor is not None:
                continue
            if cursor is None or source is None or not cursor.has_work(source.head):
                del session.ready[origin]
                continue
            cursor.aim(source.head)
            if cursor.snapshot and bulk_sent:
                continue
            bulk_sent = bulk_sent or cursor.snapshot
            sent = self._next(session, origin, cursor, source)
            frames.extend(sent)
            budget -= sum(map(len, sent))
            self._requeue(session, origin, cursor, source.head)
            if budget <= 0:
                break
        return frames

    @staticmethod
    def _requeue(session: Session, origin: Origin, cursor: Cursor, head: Head) -> None:
        del session.ready[origin]
        if cursor.has_work(head):
            session.ready[origin] = None

    def _next(
        self, session: Session, origin: Origin, cursor: Cursor, source: Served
    ) -> list[bytes]:
        cut = self._cut(origin, cursor, source)
        cursor.sent(cut.to, cut.head)
        frames = [cut.frame]
        if cut.head is not None:
            known = (origin, cut.head.key_id)
            if known not in session.records_sent:
                session.records_sent.add(known)
                frames.insert(0, encode(source.record))
        return frames

    def _cut(self, origin: Origin, cursor: Cursor, source: Served) -> _Cut:
        head = source.head
        key = (origin, head.version, head.issued_at, cursor.snapshot, cursor.position)
        known = self._cuts.get(key)
        if known is not None:
            return known
        chunk = source.elements.since(cursor.position, CHUNK_BYTES)
        last = head if chunk.complete else None
        frame = encode(
            m.Transfer(
                origin,
                head.epoch,
                cursor.snapshot,
                cursor.position,
                chunk.to,
                tuple(chunk.entries),
                last,
            )
        )
        cut = self._cuts[key] = _Cut(frame, chunk.to, last)
        self.encoded += 1
        if len(self._cuts) > _CACHED_CHUNKS:
            self._cuts.popitem(last=False)
        return cut
