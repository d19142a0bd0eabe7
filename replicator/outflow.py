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
from crdt.buckets import Cover
from replicator import messages as m
from replicator.codec import encode, encode_packed
from replicator.cursor import Cursor
from replicator.session import Session
from replicator.wire import LIST_LIMIT

CHUNK_BYTES = 64 * 1024
"""Of elements and values: some 500 endpoints, which a receiver takes in 10 ms."""
PULL_BYTES = 256 * 1024
_CACHED_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class Served:
    """One origin as it may be served now."""

    since: Callable[[int, int], Chunk]
    """As :meth:`crdt.OriginSet.since` of exactly the state at ``head``."""
    head: Head
    record: m.Record
    nodes: Callable[[int], bytes] | None = None
    """As :meth:`crdt.OriginSet.nodes` of that state; None when they cannot be told now."""
    whole: bool = True
    """False where only the head may be told, to who stands there already."""

    def has_work_for(self, cursor: Cursor) -> bool:
        """Whether anything is to be sent, and may be."""
        return cursor.has_work(self.head) and (self.whole or cursor.stands_at(self.head))


@dataclass(frozen=True, slots=True)
class _Cut:
    frame: bytes
    to: int
    head: Head | None


def _bounded(chunk: Chunk) -> Chunk:
    """A chunk, or as much of it as a message may hold."""
    if len(chunk.entries) <= LIST_LIMIT:
        return chunk
    entries = chunk.entries[:LIST_LIMIT]
    return Chunk(entries, entries[-1][1], complete=False)


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
        if session.closing:
            return frames
        frames += self._buckets(session, serve)
        if not session.ready:
            return frames
        budget = PULL_BYTES - sum(map(len, frames))
        bulk: list[tuple[Origin, Cursor, Served]] = []
        for origin, cursor, source in self._due(session, serve):
            if cursor.snapshot or cursor.cover is not None:
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
            if cursor is None or source is None or not source.has_work_for(cursor):
                del session.ready[origin]
            else:
                cursor.aim(source.head)
                due.append((origin, cursor, source))
        return due

    def _next(
        self, session: Session, origin: Origin, cursor: Cursor, source: Served
    ) -> list[bytes]:
        """The next chunk of ``origin``, which then waits behind the others."""
        if cursor.cover is not None:
            return [self._lend(session, origin, cursor, cursor.cover, source)]
        packed = session.peer is not None and session.peer.packed
        cut = self._cut(origin, cursor, source, packed=packed)
        cursor.sent(cut.to, cut.head)
        del session.ready[origin]
        if cut.head is None:
            session.ready[origin] = None
            return [cut.frame]
        return [*self._record(session, origin, source), cut.frame]

    @staticmethod
    def _record(session: Session, origin: Origin, source: Served) -> list[bytes]:
        """The record of a head, unless it was sent before."""
        if session.records_sent.get(origin) == source.head.key_id:
            return []
        session.records_sent[origin] = source.head.key_id
        return [encode(source.record)]

    def _buckets(self, session: Session, serve: Callable[[Origin], Served | None]) -> list[bytes]:
        """The buckets of one origin that they were asked of, of the first that can be told now."""
        for origin, depth in session.asked.items():
            source = serve(origin)
            if source is None or source.nodes is None:
                continue
            del session.asked[origin]
            told = m.Buckets(source.head, depth, source.nodes(depth))
            return [*self._record(session, origin, source), encode(told)]
        return []

    def _lend(
        self, session: Session, origin: Origin, cursor: Cursor, cover: Cover, source: Served
    ) -> bytes:
        """The next chunk of what lies in some buckets, of as many entries as others look at."""
        chunk = _bounded(source.since(cursor.position, self._chunk_bytes))
        entries = tuple(entry for entry in chunk.entries if entry[0] in cover)
        bounds = (source.head.epoch, cursor.position, chunk.to)
        cursor.lent(chunk.to, last=chunk.complete)
        del session.ready[origin]
        session.ready[origin] = None
        return encode(m.BucketEntries(origin, *bounds, entries, chunk.complete))

    def _cut(self, origin: Origin, cursor: Cursor, source: Served, *, packed: bool) -> _Cut:
        head = source.head
        key = (origin, head.version, head.issued_at, cursor.snapshot, cursor.position, packed)
        known = self._cuts.get(key)
        if known is not None:
            return known
        chunk = _bounded(source.since(cursor.position, self._chunk_bytes))
        last = head if chunk.complete else None
        bounds = (cursor.snapshot, cursor.position, chunk.to)
        transfer = m.Transfer(origin, head.epoch, *bounds, tuple(chunk.entries), last)
        frame = encode_packed(transfer) if packed else encode(transfer)
        cut = self._cuts[key] = _Cut(frame, chunk.to, last)
        self.encoded += 1
        if len(self._cuts) > _CACHED_CHUNKS:
            self._cuts.popitem(last=False)
        return cut
