"""One conversation with one peer: what was said, what is wanted, what waits to be sent.

Cursors, not queues: per origin only the version the peer has reached is kept, and the next delta
is cut from the served state when the socket can take more, so superseded changes collapse and
memory does not grow with the backlog.  Only small control messages wait in the outbox.

The replica decides; this class keeps the state of the conversation and its beats.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from crdt import Origin
from replicator import messages as m
from replicator.codec import encode
from replicator.cursor import Cursor
from replicator.errors import ProtocolError
from replicator.freshness import ClockFilter, exchange

BEAT_BUSY_SECONDS = 1.0
BEAT_IDLE_SECONDS = 2.0
SETTLE_SECONDS = 0.2
HELLO_SECONDS = 5.0
SILENCE_SECONDS = 10.0
"""A link on which nothing arrives for this long is closed (five idle beats)."""
LINK_SECONDS = 3600.0
"""No link lives longer: whoever dialled it dials another before."""
_OUTBOX_LIMIT = 10_000
_RECORDS_LIMIT = 16 << 20
"""Bytes of certificates kept for one peer; five hundred clusters need two mebibytes."""


class Session:
    """State of one link to one peer."""

    def __init__(self, number: int, cluster: str, *, dialled: bool, now: float) -> None:
        """A fresh link to ``cluster`` (from its certificate)."""
        self.number = number
        self.cluster = cluster
        self.dialled = dialled
        self.opened_at = now
        self.peer: m.Hello | None = None
        """The peer's last hello; None before it, and again once :meth:`close` was called."""
        self.hello: m.Hello | None = None
        """What we said of ourselves last."""
        self.closing = False
        """Only what waits is still sent, nothing more is heard."""
        self.former: int | None = None
        """The link that this one renews, until the peer has told here what it holds."""
        self.successor: int | None = None
        """The link that renews this one: nothing new is asked here."""
        self.rejected = False
        """One of the two told the other why it closes."""
        self.answered = False
        """The peer has told what it holds, and proved what it says of our own origin."""
        self.adverts: dict[Origin, m.Advert] = {}
        self.cursors: dict[Origin, Cursor] = {}
        self.asked: dict[Origin, int] = {}
        """Origins whose buckets the peer asked for, and at which depth; until they are told."""
        self.ready: dict[Origin, None] = {}
        """Origins with something to send, oldest first."""
        self.wanting: set[Origin] = set()
        """Origins asked of this peer."""
        self.enquiries: set[Origin] = set()
        """Origins of which only the signed head was asked of this peer."""
        self.untold: set[Origin] = set()
        """Origins whose committed version the peer has not been told."""
        self.records_sent: dict[Origin, bytes] = {}
        """Key id of the record sent last, since the peer's last Want of that origin."""
        self.records: dict[Origin, m.Record] = {}
        """Records the peer sent, before a head was verified by them."""
        self.clock = ClockFilter()
        self.heard_at = now
        self.beat_heard_at: float | None = None
        self.peer_digest: bytes | None = None
        self._outbox: deque[bytes] = deque()
        self._last_beat: m.Beat | None = None
        self._last_beat_received = 0
        self._regular_beat_at = now
        self._settled_at: float | None = None
        self._choked = False

    def introduce(self, role: str, epoch: int) -> None:
        """Say hello again, with another role: nothing else may differ from the first one."""
        assert self.hello is not None  # noqa: S101 - it is what a session begins with
        self.hello = replace(self.hello, role=role, epoch=epoch)
        self.say(self.hello)

    def say(self, message: m.Message) -> None:
        """Put a control message into the outbox.

        When the peer reads nothing of what it causes, the message is dropped and the link given up
        (:meth:`overdue`).
        """
        if len(self._outbox) >= _OUTBOX_LIMIT:
            self._choked = True
            return
        self._outbox.append(encode(message))

    def close(self, last: m.Message | None = None) -> None:
        """Hear nothing more; of what waits only ``last`` is still sent, if there is one."""
        self.closing, self.peer = True, None
        if last is not None:
            self._outbox.clear()
            self._outbox.append(encode(last))

    def take_outbox(self) -> list[bytes]:
        """All waiting control frames, in order."""
        frames = list(self._outbox)
        self._outbox.clear()
        return frames

    def keep_record(self, record: m.Record) -> None:
        """Keep a record until a head verifies by it; one that was not asked for is forgotten.

        Raises :class:`ProtocolError` (``too_large``) beyond any honest number of certificates.
        """
        if record.origin not in self.wanting and record.origin not in self.enquiries:
            return
        self.records[record.origin] = record
        kept = sum(len(item) for one in self.records.values() for item in one.chain)
        if kept > _RECORDS_LIMIT:
            detail = f"the certificates that {self.cluster} sent exceed {_RECORDS_LIMIT} bytes"
            raise ProtocolError(detail, code="too_large")

    @property
    def has_outbox(self) -> bool:
        """Whether control frames wait."""
        return bool(self._outbox)

    def heard_beat(self, beat: m.Beat, now: float, wall_ns: int) -> None:
        """Take the peer's beat: its digest and, from the second one on, round trip and offset."""
        self._last_beat, self._last_beat_received = beat, wall_ns
        self.beat_heard_at = now
        self.peer_digest = beat.digest
        if beat.echo_sent:
            sample = exchange(beat.echo_sent, beat.echo_received, beat.sent_at, wall_ns)
            self.clock.add(sample)

    def settle(self, now: float) -> None:
        """Something was committed: beat when it settles, so that a lost message is found at once.

        That is 200 ms after the last commit of a burst, and within a second of the first.
        """
        if self._settled_at is None:
            self._regular_beat_at = min(self._regular_beat_at, now + BEAT_BUSY_SECONDS)
        self._settled_at = now + SETTLE_SECONDS

    @property
    def beat_due(self) -> float:
        """Monotonic time of the next beat."""
        settled = self._settled_at
        return self._regular_beat_at if settled is None else min(self._regular_beat_at, settled)

    def beat(self, digest: bytes, now: float, wall_ns: int) -> m.Beat:
        """The next beat; the one after it follows in 1 s under traffic, else 2 s."""
        busy = self._settled_at is not None
        self._regular_beat_at = now + (BEAT_BUSY_SECONDS if busy else BEAT_IDLE_SECONDS)
        self._settled_at = None
        last = self._last_beat
        if last is None:
            return m.Beat(wall_ns, 0, 0, digest)
        return m.Beat(wall_ns, last.sent_at, self._last_beat_received, digest)

    def peer_wall_ns(self, now: float) -> int | None:
        """The peer's wall clock, by its last beat; None before it.

        Off by the way of that beat, and by nothing that happens to our own wall clock.
        """
        if self._last_beat is None or self.beat_heard_at is None:
            return None
        return self._last_beat.sent_at + round((now - self.beat_heard_at) * 1e9)

    @property
    def rtt_ns(self) -> int:
        """Best recent round trip in nanoseconds; 0 before the first exchange."""
        best = self.clock.best()
        return 0 if best is None else best.rtt_ns

    @property
    def offset_ns(self) -> int:
        """The peer's wall clock minus ours in nanoseconds; 0 before the first exchange."""
        best = self.clock.best()
        return 0 if best is None else best.offset_ns

    def overdue(self, now: float) -> str | None:
        """Why the link should be given up now, or None."""
        if self._choked:
            return "does not read"
        if self.peer is None:
            return "no hello" if now - self.opened_at > HELLO_SECONDS else None
        if now - self.opened_at >= LINK_SECONDS:
            return "too old"
        return "silent" if now - self.heard_at > SILENCE_SECONDS else None
