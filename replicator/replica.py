"""The replica: all origins, all sessions, and every decision between them; no I/O.

Bytes, clock readings and local changes come in; effects go out.  One task owns it.  What peers send
can raise nothing: a peer that breaks the protocol loses its session, never our state.

Does not stamp (``own_origin``), verify (``signing``), store, log or wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from crdt import Head
from crdt.buckets import Cover
from replicator import messages as m
from replicator import policies
from replicator.announcements import Announcements, reach_of
from replicator.codec import decode, encode_head, encode_record
from replicator.collection import Acknowledged, Collection
from replicator.conflicts import Conflicts
from replicator.cursor import Cursor
from replicator.effects import Changed, Close, Effect, Notice, Remember, Store, Wake
from replicator.errors import ProtocolError
from replicator.handshake import Self, check_hello, is_writer
from replicator.kinds import check_entry
from replicator.liveness import confirm, convergence
from replicator.members import Members
from replicator.membership import Cell
from replicator.networks import ANYWHERE, AllowLists
from replicator.outflow import Outflow
from replicator.own_origin import OwnOrigin
from replicator.quarantine import Quarantine
from replicator.remote_origin import Outcome, RemoteOrigin, Taken
from replicator.renewal import Renewals
from replicator.repairs import Repairs
from replicator.session import Session
from replicator.siblings import Siblings
from replicator.signing import Verifier
from replicator.steering import Steering
from replicator.subscriptions import Subscriptions
from replicator.telling import Telling

REISSUE_SECONDS = 10.0
ORIGIN_LIMIT = 4096
"""Origins known at most, and named by one peer at most."""
_POLICY_VIOLATION = 1008
_NORMAL = 1000


class Replica:
    """All state of one agent's replication."""

    read = staticmethod(decode)
    """Makes messages of frames; a simulation reads a frame that goes to many only once."""

    def __init__(
        self,
        me: Self,
        own: OwnOrigin,
        verifier: Verifier,
        remotes: list[RemoteOrigin],
        allowed: AllowLists = ANYWHERE,
    ) -> None:
        """Continue from what the journal held; ``remotes`` are already restored."""
        self.me, self.allowed = me, allowed
        self.own = own
        self.verifier = verifier
        self.remotes = {remote.origin: remote for remote in remotes}
        self.sessions: dict[int, Session] = {}
        self.uids: dict[str, str] = {me.cluster: me.uid}
        """Cluster to the uid it was first seen with."""
        self.mismatches = 0
        self.ignored = 0
        self.announcements = Announcements(own, self.remotes, self.sessions)
        self._subscriptions = Subscriptions(self.sessions, self.remotes, own)
        self._renewals = Renewals(me, self.sessions, self.remotes, self._subscriptions)
        self._conflicts = Conflicts(own, self.remotes, self._subscriptions)
        self.quarantine = Quarantine(own, self.remotes, self.sessions, self._subscriptions)
        self._outflow = Outflow()
        self.telling = Telling(self.remotes)
        self._next_number = 1
        self._reissue_at = 0.0
        self.acknowledged: dict[str, Acknowledged] = {}
        """How far each member has committed our own origin."""
        self._collection = Collection(own, self.remotes, self.sessions, self.acknowledged)
        self.repairs = Repairs(own, self.remotes, self.sessions, self._subscriptions)
        self.members = Members(
            own, self.remotes, self.sessions, self._subscriptions, self.uids, self.acknowledged
        )
        self.siblings = Siblings(
            own,
            self.remotes,
            self.sessions,
            self._subscriptions,
            self.announcements,
            self._conflicts,
            self.members,
        )
        self.steering = Steering(own, self.remotes, self.members, self.uids, self.acknowledged)

    def expect_members(self, clusters: Iterable[str], now: float) -> None:
        """Keep tombstones for these until they acknowledge, or an hour has passed."""
        present = (cluster for cluster in clusters if not self.members.forgotten(cluster))
        self._collection.expect(present, now)

    # ---- sessions ------------------------------------------------------------------------------

    def open_session(self, cluster: str, *, dialled: bool, now: float) -> tuple[int, list[Effect]]:
        """A link to ``cluster`` (from its certificate) is up: say hello."""
        number = self._next_number
        self._next_number += 1
        session = self.sessions[number] = Session(number, cluster, dialled=dialled, now=now)
        session.hello = self.me.hello(self.siblings.role, self.siblings.epoch)
        session.say(session.hello)
        return number, [*self.members.dropped(), Wake(number)]

    def close_session(self, number: int, now: float) -> list[Effect]:
        """The link of session ``number`` is gone: take its origins from others."""
        session = self.sessions.pop(number, None)
        if session is None:
            return []
        for origin in session.cursors:
            self.announcements.served_to(session, origin)
        effects = self._subscriptions.release(number, now)
        effects += self.siblings.left(session)
        advertised = {origin for session in self.sessions.values() for origin in session.adverts}
        for origin, remote in list(self.remotes.items()):
            if not remote.known and remote.source is None and origin not in advertised:
                del self.remotes[origin]
        return effects

    def _close(
        self, session: Session, code: int, reason: str, now: float, last: m.Message | None = None
    ) -> list[Effect]:
        """Have the link closed, with ``last`` to be sent; hear nothing from it any more."""
        session.close(last)
        close = Close(session.number, code, reason)
        return [close, *self._subscriptions.release(session.number, now)]

    def receive(self, number: int, frame: bytes, now: float, wall_ns: int) -> list[Effect]:
        """Take one frame; a protocol error closes the session and changes nothing else."""
        session = self.sessions.get(number)
        if session is None or session.closing:
            return []
        session.heard_at = now
        effects = self.siblings.lapse(now, self._advertised)
        try:
            message = self.read(frame, self.me.frame_limit)
            effects += self._handle(session, message, now, wall_ns)
        except ProtocolError as error:
            effects += self._reject(session, error, now)
        return effects

    def reject(self, number: int, error: ProtocolError, now: float) -> list[Effect]:
        """End session ``number`` and tell the peer why."""
        session = self.sessions[number]
        return [] if session.closing else self._reject(session, error, now)

    def _reject(self, session: Session, error: ProtocolError, now: float) -> list[Effect]:
        session.rejected = True
        notice = Notice(
            "peer_rejected",
            {"peer": session.cluster, "code": error.code, "detail": error.message},
            serious=True,
        )
        last = m.Reject(error.code, error.message)
        return [notice, *self._close(session, _POLICY_VIOLATION, error.code, now, last)]

    def _handle(
        self, session: Session, message: m.Message, now: float, wall_ns: int
    ) -> list[Effect]:
        if isinstance(message, m.Reject):
            session.rejected = True
            fields: dict[str, object] = {"peer": session.cluster, "code": message.code}
            fields["detail"] = message.detail
            notice = Notice("rejected_by_peer", fields, serious=True)
            return [notice, *self._close(session, _NORMAL, message.code, now)]
        if isinstance(message, m.Hello):
            return self._hello(session, message, now)
        if session.peer is None:
            detail = f"{session.cluster} spoke before its hello"
            raise ProtocolError(detail, code="hello_expected")
        if isinstance(message, m.Bucketing):
            return self._mend(session, message, now, wall_ns)
        return self._converse(session, message, now, wall_ns)

    def _converse(
        self, session: Session, message: m.Message, now: float, wall_ns: int
    ) -> list[Effect]:
        match message:
            case m.Heads():
                return self._heads(session, message, now, wall_ns)
            case m.Want():
                return self._want(session, message, now)
            case m.Stop():
                self.announcements.served_to(session, message.origin)
                session.cursors.pop(message.origin, None)
            case m.Skew():
                return self.quarantine.heard(session, message)
            case m.Record():
                session.keep_record(message)
            case m.Admission():
                news = self.members.told(message)
                return self.learn(news, now, wall_ns) if news else []
            case m.Transfer():
                return self._transfer(session, message, now, wall_ns)
            case m.Beat():
                session.heard_beat(message, now, wall_ns)
                confirm(session, self.remotes, now)
            case _:
                self.ignored += 1
        return []

    @staticmethod
    def _bound(number: int) -> None:
        if number > ORIGIN_LIMIT:
            detail = f"more than {ORIGIN_LIMIT} origins"
            raise ProtocolError(detail, code="too_large")

    def _hello(self, session: Session, hello: m.Hello, now: float) -> list[Effect]:
        check_hello(self.me, session, hello, self.uids)
        self.members.check(hello.cluster)
        if session.peer is not None:
            session.peer = hello
            left = [] if is_writer(session) else self.siblings.left(session)
            return [*left, *self._subscriptions.choose(now)]
        effects: list[Effect] = []
        if not self.uids.get(hello.cluster):
            self.uids[hello.cluster] = hello.uid
            effects.append(Remember(f"uid/{hello.cluster}", hello.uid.encode()))
        session.peer = hello
        for surplus in self._renewals.met(session):
            effects += self._close(surplus, _NORMAL, "duplicate_link", now)
        if session.closing:
            return effects
        session.untold = {self.own.origin, *self.remotes}
        self.announcements.tell(session, always=True)
        self.quarantine.introduce(session)
        effects += self.members.tell(session)
        session.settle(now)
        for remote in self.remotes.values():
            if remote.origin.cluster == session.cluster:
                effects += self._subscriptions.assign(remote, now)
        return [*effects, Wake(session.number)]

    # ---- announcements and wants ---------------------------------------------------------------

    def _heads(self, session: Session, heads: m.Heads, now: float, wall_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        for advert in heads.adverts:
            former = session.adverts.get(advert.origin)
            session.adverts[advert.origin] = advert
            self._bound(len(session.adverts))
            ours = advert.origin == self.own.origin
            if ours:
                reach = reach_of(advert)
                told = Acknowledged(reach.version, now, reach.clusters)
                self.acknowledged[session.cluster] = told
            if ours and self.own.leading:
                effects += self._conflicts.advertised(session, advert)
            elif ours or advert.origin.cluster != self.me.cluster:
                self.quarantine.advertised(advert, wall_ns)
                self.announcements.heard(session, former, advert)
                effects += self._advertised(session, advert, now)
        session.answered = session.answered or self.own.origin not in session.enquiries
        return [*effects, *self._renewals.told(session, now)]

    def _advertised(self, session: Session, advert: m.Advert, now: float) -> list[Effect]:
        remote = self.remotes.get(advert.origin)
        if advert.origin == self.own.origin and self.own.leading:
            return []
        if not self.members.takes(advert.origin, advert.version.epoch):
            return []
        if remote is None:
            if len(self.remotes) >= ORIGIN_LIMIT:
                self.ignored += 1
                return []
            remote = self.remotes[advert.origin] = RemoteOrigin(
                advert.origin, self.allowed.of(advert.origin.cluster)
            )
        remote.supply.highest = max(remote.supply.highest, advert.version)
        assigned = self._subscriptions.assign(remote, now)
        return [*assigned, *self._conflicts.advertised(session, advert)]

    def _want(
        self, session: Session, want: m.Want, now: float, cover: Cover | None = None
    ) -> list[Effect]:
        session.cursors[want.origin] = Cursor(want.version, want.snapshot, cover=cover)
        self._bound(len(session.cursors))
        session.records_sent.pop(want.origin, None)
        session.ready[want.origin] = None
        self.announcements.served_to(session, want.origin)
        return [Wake(session.number), *self._subscriptions.wanted_by(session, want.origin, now)]

    def _mend(
        self, session: Session, message: m.Bucketing, now: float, wall_ns: int
    ) -> list[Effect]:
        match message:
            case m.GetBuckets(origin, depth):
                session.asked[origin] = depth
                self._bound(len(session.asked))
                self.repairs.auditor.suspect(origin)
                return [Wake(session.number)]
            case m.GetBucketEntries(origin, version, indexes):
                return self._want(session, m.Want(origin, version), now, Cover(indexes))
            case _:
                admits = self._admission(wall_ns)
                return self.repairs.heard(session, message, now, self.verifier, admits)

    def _admission(self, wall_ns: int) -> Callable[[Head], bool]:
        return lambda head: self.quarantine.admits(head, wall_ns)

    # ---- transfers -----------------------------------------------------------------------------

    def _transfer(
        self, session: Session, chunk: m.Transfer, now: float, wall_ns: int
    ) -> list[Effect]:
        remote = self.remotes.get(chunk.origin)
        if remote is None or not self._subscriptions.brings(session, remote):
            return self._unasked(session, chunk, now)
        if not self.members.takes(chunk.origin, chunk.epoch):
            self.ignored += 1
            return []
        if remote.repair is not None and not remote.repair.gives_way(chunk):
            return []
        for element, _, op, value in chunk.entries:
            check_entry(chunk.origin.cluster, element, op, value)
        try:
            taken = remote.take(
                chunk,
                self.verifier,
                session.records.get(chunk.origin),
                self._admission(wall_ns),
            )
        except ProtocolError as error:
            # What an origin says of itself costs it the link.  A relay may have got it honestly,
            # before a certificate authority was retired: only this origin is not taken from it.
            if session.cluster == chunk.origin.cluster:
                raise
            notice = self._notice("head_refused", remote, session, code=error.code)
            return [notice, *self._subscriptions.refuse(remote, now)]
        return self._taken(session, remote, taken, now, wall_ns)

    def _unasked(self, session: Session, chunk: m.Transfer, now: float) -> list[Effect]:
        """From a session that is not the source: the answer to an enquiry, or older than a Stop."""
        if chunk.origin not in session.enquiries:
            self.ignored += 1
            return []
        if chunk.head is None:
            return []
        effects = self._conflicts.answered(session, chunk.head, self.verifier, now)
        session.answered = session.answered or chunk.origin == self.own.origin
        return effects

    def _taken(
        self, session: Session, remote: RemoteOrigin, taken: Taken, now: float, wall_ns: int
    ) -> list[Effect]:
        effects: list[Effect] = []
        match taken.outcome:
            case Outcome.COMMITTED:
                remote.supply.committed(session.number, now)
                effects += self._committed(remote, taken, now, wall_ns)
                effects += self.quarantine.committed(remote)
            case Outcome.RENEWED:
                remote.supply.progressed(now)
                remote.fresh_at = now
                effects += self.announcements.spread(remote.origin, news=False)
            case Outcome.STAGED:
                remote.supply.progressed(now)
            case Outcome.IGNORED:
                pass
            case Outcome.AGAIN:
                effects += self._subscriptions.ask(remote)
            case Outcome.HELD_BACK:
                effects += self.quarantine.hold(remote, now, wall_ns)
            case Outcome.MISMATCH:
                self.mismatches += 1
                effects.append(self._notice("mismatch", remote, session))
                effects += self.repairs.mismatched(remote, now, replaced=taken.replaced)
            case Outcome.EQUIVOCATION:
                effects.append(self._notice("equivocation", remote, session))
                effects += self._subscriptions.ask(remote) if remote.distrust else []
            case _ as unreachable:
                assert_never(unreachable)
        return effects

    @staticmethod
    def _notice(event: str, remote: RemoteOrigin, session: Session, **fields: object) -> Notice:
        known: dict[str, object] = {"origin": remote.origin.cluster, "source": session.cluster}
        return Notice(event, known | fields, serious=True)

    def _committed(
        self, remote: RemoteOrigin, taken: Taken, now: float, wall_ns: int
    ) -> list[Effect]:
        remote.fresh_at = now
        head, record = remote.head, remote.record
        assert head is not None  # noqa: S101 - a commit sets both
        assert record is not None  # noqa: S101
        store = Store(
            remote.origin,
            encode_head(head),
            encode_record(record),
            taken.entries,
            head.floor,
            replace=taken.replaced or remote.unstored,
        )
        remote.unstored = False
        seconds = None
        if not taken.replaced:
            seconds = convergence(
                self.sessions.values(), remote.origin.cluster, head.observed_at, wall_ns
            )
            remote.latencies.add(seconds)
        remote.changes += len(taken.changes)
        self.telling.committed(remote)
        changed = Changed(remote.origin, taken.services, tuple(taken.changes), seconds)
        for session in self.sessions.values():
            session.settle(now)
        effects = [store, changed, *self.announcements.spread(remote.origin)]
        if remote.origin == self.own.origin:
            effects += self.siblings.committed(head)
        if taken.steered:
            effects += self.steer({}, wall_ns)
        return [*effects, *self.learn({}, now, wall_ns)] if taken.decided else effects

    def steer(self, news: Mapping[bytes, policies.Cell], wall_ns: int) -> list[Effect]:
        """Policies changed, or ``news`` was decided here: act on what counts now."""
        return self.steering.learn(news, wall_ns)

    def learn(self, news: Mapping[str, Cell], now: float, wall_ns: int) -> list[Effect]:
        """Membership cells changed, or ``news`` was decided here: act on what counts now."""
        self.announcements.forget_digest()
        return self.members.learn(news, now, wall_ns, self._reject, self._advertised)

    # ---- own changes ---------------------------------------------------------------------------

    def published(self, now: float) -> list[Effect]:
        """The batch sealed last is durable: send it, unless we lead no more."""
        effects = self.siblings.lapse(now, self._advertised)
        if not self.own.leading:
            return effects
        opened = self.own.published()
        self._reissue_at = now + REISSUE_SECONDS
        for session in self.sessions.values():
            session.settle(now)
        return self.announcements.spread(self.own.origin, at_once=opened)

    def reissue_now(self, wall_ns: int) -> list[Effect]:
        """Sign the published head anew; while a batch is sealed, or before the first, nothing."""
        if self.own.head is None or self.own.sealing:
            return []
        self.own.reissue(wall_ns)
        return self.announcements.spread(self.own.origin, news=False)

    # ---- who writes ----------------------------------------------------------------------------

    def lead(self, fence: int, until: float, now: float, wall_ns: int) -> list[Effect]:
        """We hold the cluster's lease: see :meth:`Siblings.lead`."""
        return self.siblings.lead(fence, until, now, wall_ns)

    def stand_by(self, why: str, now: float) -> list[Effect]:
        """Write no more: see :meth:`Siblings.stand_by`."""
        return self.siblings.stand_by(why, now, self._advertised)

    # ---- sending and time ----------------------------------------------------------------------

    @property
    def encoded_chunks(self) -> int:
        """How many chunks were encoded; each may have gone to several peers."""
        return self._outflow.encoded

    def pull(self, number: int) -> list[bytes]:
        """The next frames for session ``number``; call again until it returns none."""
        session = self.sessions.get(number)
        return [] if session is None else self._outflow.pull(session, self.announcements.serve)

    def tick(self, now: float, wall_ns: int) -> list[Effect]:
        """Do what is due: beats, re-issue, stalled sources, dead links."""
        effects = self.siblings.lapse(now, self._advertised)
        effects += self.members.begin(now, wall_ns)
        self.steering.begin(wall_ns)
        effects += self.quarantine.review(now, wall_ns)
        self._collection.tick(now, wall_ns)
        due = now >= self._reissue_at or self.own.signed_by_former_key
        if due and self.own.head is not None and not self.own.sealing:
            self._reissue_at = now + REISSUE_SECONDS
            effects += self.reissue_now(wall_ns)
        for number, session in list(self.sessions.items()):
            moved, reason = self._renewals.review(session, now)
            effects += moved
            reason = None if session.closing else session.overdue(now) or reason
            if reason is not None:
                effects += self._close(session, _NORMAL, reason, now)
            elif session.peer is not None and now >= session.beat_due and not session.has_outbox:
                self.announcements.tell(session)
                session.say(session.beat(self.announcements.digest(), now, wall_ns))
                effects.append(Wake(number))
        effects += self.repairs.tick(now, wall_ns)
        return [*effects, *self._subscriptions.watch(now)]
