"""What a session is sent next, cut from the served state when its socket can take more.

Bounded chunks, taken in turn: control messages first, then live deltas, then one chunk of one bulk
transfer per call, so a bootstrap delays nobody's news and ends under any load.  A chunk cut for one
peer is kept and given to every other peer at the same cursor, so a change is encoded once (and once
more in the plain form, while there are peers that do not take the packed one).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from crdt import Chunk, Head, Origin
from replicator import messages as m
from replicator.codec import encode, encode_packed
from replicator.cursor import Cursor
from replicator.session import Session
from replicator.wire import LIST_LIMIT

CHUNK_BYTES = 128 * 1024
PULL_BYTES = 256 * 1024
_CACHED_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class Served:
    """One origin as it may be served now."""

    since: Callable[[int, int], Chunk]
    """As :meth:`crdt.OriginSet.since` of exactly the state at ``head``."""
    head: Head
    record: m.Record


@dataclass(frozen=True, slots=True)
class _Cut:
    frame: bytes
    to: int
    head: Head | None


class Outflow:
    """Cuts chunks; holds the small cache of encoded ones."""

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Nothing cut yet; chunks hold about ``chunk_bytes``, but one entry at least."""
        self._chunk_bytes = chunk_bytes
        self._cuts: OrderedDict[tuple[object, ...], _Cut] = OrderedDict()
        self.encoded = 0
        """Chunks encoded; each may have gone to several peers."""

    def pull(self, session: Session, serve: Callable[[Origin], Served | None]) -> list[bytes]:
        """The next frames for ``session``, about 256 KiB; empty when nothing waits.

        ``serve`` gives what may be served of an origin now.  An origin that may not is forgotten
        here: whoever changes that marks it ready again.
        """
        frames = session.take_outbox()
        if session.closing or not session.ready:
            return frames
        budget = PULL_BYTES - sum(map(len, frames))
        bulk: list[tuple[Origin, Cursor, Served]] = []
        for origin, cursor, source in self._due(session, serve):
            if cursor.snapshot:
                bulk.append((origin, cursor, source))
            elif budget > 0:
                sent = self._next(session, origin, cursor, source)
                frames += sent
                budget -= sum(map(len, sent))
        for due in bulk[:1]:
            frames += self._next(session, *due)
        return frames

    @staticmethod
    def _due(
        session: Session, serve: Callable[[Origin], Served | None]
    ) -> list[tuple[Origin, Cursor, Served]]:
        """What is ready, longest waiting first; what has nothing to send is taken off the list."""
        due = []
        for origin in list(session.ready):
            cursor, source = session.cursors.get(origin), serve(origin)
            if cursor is None or source is None or not cursor.has_work(source.head):
                del session.ready[origin]
            else:
                cursor.aim(source.head)
                due.append((origin, cursor, source))
        return due

    def _next(
        self, session: Session, origin: Origin, cursor: Cursor, source: Served
    ) -> list[bytes]:
        """The next chunk of ``origin``, which then waits behind the others."""
        packed = session.peer is not None and session.peer.packed
        cut = self._cut(origin, cursor, source, packed=packed)
        cursor.sent(cut.to, cut.head)
        del session.ready[origin]
        if cut.head is None:
            session.ready[origin] = None
            return [cut.frame]
        if session.records_sent.get(origin) == cut.head.key_id:
            return [cut.frame]
        session.records_sent[origin] = cut.head.key_id
        return [encode(source.record), cut.frame]

    def _cut(self, origin: Origin, cursor: Cursor, source: Served, *, packed: bool) -> _Cut:
        head = source.head
        key = (origin, head.version, head.issued_at, cursor.snapshot, cursor.position, packed)
        known = self._cuts.get(key)
        if known is not None:
            return known
        chunk = source.since(cursor.position, self._chunk_bytes)
        if len(chunk.entries) > LIST_LIMIT:
            entries = chunk.entries[:LIST_LIMIT]
            chunk = Chunk(entries, entries[-1][1], complete=False)
        last = head if chunk.complete else None
        bounds = (cursor.snapshot, cursor.position, chunk.to)
        transfer = m.Transfer(origin, head.epoch, *bounds, tuple(chunk.entries), last)
        frame = encode_packed(transfer) if packed else encode(transfer)
        cut = self._cuts[key] = _Cut(frame, chunk.to, last)
        self.encoded += 1
        if len(self._cuts) > _CACHED_CHUNKS:
            self._cuts.popitem(last=False)
        return cut
