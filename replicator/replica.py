"""The replica: all origins, all sessions, and every decision between them; no I/O.

Bytes, clock readings and local changes come in; effects go out.  One task owns it.  What peers send
can raise nothing: a peer that breaks the protocol loses its session, never our state.

Does not stamp (``own_origin``), verify (``signing``), store, log or wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import assert_never

from crdt import Origin, pack
from crdt.version_vector import ZERO
from replicator import messages as m
from replicator.codec import FRAME_LIMIT, MINOR, decode, encode_head, encode_record
from replicator.collection import Acknowledged, new_floor
from replicator.cursor import Cursor
from replicator.effects import Changed, Close, Effect, Notice, Remember, Store, Wake
from replicator.errors import ProtocolError
from replicator.handshake import Self, check_hello, surplus, twin_of
from replicator.kinds import check_entry
from replicator.outflow import Outflow, Served
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import Outcome, RemoteOrigin, Taken
from replicator.session import Session
from replicator.signing import Verifier
from replicator.sources import Candidate, best, keeps, stalled

REISSUE_SECONDS = 10.0
_ORIGIN_LIMIT = 10_000
_POLICY_VIOLATION = 1008
_NORMAL = 1000


class Replica:
    """All state of one agent's replication."""

    def __init__(
        self, me: Self, own: OwnOrigin, verifier: Verifier, remotes: list[RemoteOrigin]
    ) -> None:
        """Continue from what the journal held; ``remotes`` are already restored."""
        self.me = me
        self.own = own
        self.verifier = verifier
        self.remotes = {remote.origin: remote for remote in remotes}
        self.sessions: dict[int, Session] = {}
        self.uids: dict[str, str] = {me.cluster: me.uid}
        """Cluster to the uid it was first seen with."""
        self.relaying = False
        """False until the view is known to be current: remote origins are not served before."""
        self.mismatches = 0
        self.ignored = 0
        self._outflow = Outflow()
        self._digest: bytes | None = None
        self._next_number = 1
        self._reissue_at: float | None = None
        self._stalled: dict[Origin, int] = {}
        self._acknowledged: dict[str, Acknowledged] = {}

    def expect_members(self, clusters: Iterable[str], now: float) -> None:
        """Keep tombstones for these until they acknowledge, or an hour has passed."""
        for cluster in clusters:
            self._acknowledged.setdefault(cluster, Acknowledged(ZERO, now))

    # ---- sessions ------------------------------------------------------------------------------

    def open_session(self, cluster: str, *, dialled: bool, now: float) -> tuple[int, list[Effect]]:
        """A link to ``cluster`` (from its certificate) is up: say hello."""
        number = self._next_number
        self._next_number += 1
        session = self.sessions[number] = Session(number, cluster, dialled=dialled, now=now)
        session.say(
            m.Hello(
                minor=MINOR,
                clusterset=self.me.clusterset,
                cluster=self.me.cluster,
                instance=self.me.instance,
                role="writer",
                epoch=self.own.epoch,
                uid=self.me.uid,
                software=self.me.software,
                frame_limit=FRAME_LIMIT,
            )
        )
        return number, [Wake(number)]

    def close_session(self, number: int, now: float) -> list[Effect]:
        """The link of session ``number`` is gone: take its origins from others."""
        session = self.sessions.pop(number, None)
        if session is None:
            return []
        effects: list[Effect] = []
        for _, remote in sorted(self.remotes.items()):
            if remote.source == number:
                remote.source, remote.staging = None, None
                effects += self._assign(remote, now)
        return effects

    def receive(self, number: int, frame: bytes, now: float, wall_ns: int) -> list[Effect]:
        """Take one frame; a protocol error closes the session and changes nothing else."""
        session = self.sessions.get(number)
        if session is None:
            return []
        session.heard_at = now
        try:
            return self._handle(session, decode(frame), now, wall_ns)
        except ProtocolError as error:
            return self._reject(session, error)

    def _reject(self, session: Session, error: ProtocolError) -> list[Effect]:
        for remote in self.remotes.values():
            if remote.source == session.number:
                remote.staging = None
        notice = Notice(
            "peer_rejected",
            {"peer": session.cluster, "code": error.code, "detail": error.message},
            serious=True,
        )
        session.take_outbox()
        session.say(m.Reject(error.code, error.message))
        return [notice, Close(session.number, _POLICY_VIOLATION, error.code)]

    def _handle(
        self, session: Session, message: m.Message, now: float, wall_ns: int
    ) -> list[Effect]:
        if isinstance(message, m.Reject):
            fields: dict[str, object] = {"peer": session.cluster, "code": message.code}
            fields["detail"] = message.detail
            notice = Notice("rejected_by_peer", fields, serious=True)
            return [notice, Close(session.number, _NORMAL, message.code)]
        if isinstance(message, m.Hello):
            return self._hello(session, message, now)
        if session.peer is None:
            detail = f"{session.cluster} spoke before its hello"
            raise ProtocolError(detail, code="hello_expected")
        match message:
            case m.Heads():
                return self._heads(session, message, now)
            case m.Want():
                return self._want(session, message)
            case m.Stop():
                session.cursors.pop(message.origin, None)
            case m.Record():
                session.records[message.origin] = message
                self._bound(len(session.records))
            case m.Transfer():
                return self._transfer(session, message, now, wall_ns)
            case m.Beat():
                session.heard_beat(message, now, wall_ns)
                self._advance_freshness(session, now)
            case _:
                self.ignored += 1
        return []

    @staticmethod
    def _bound(number: int) -> None:
        if number > _ORIGIN_LIMIT:
            detail = f"more than {_ORIGIN_LIMIT} origins"
            raise ProtocolError(detail, code="too_large")

    def _hello(self, session: Session, hello: m.Hello, now: float) -> list[Effect]:
        check_hello(self.me, session, hello, self.uids)
        effects: list[Effect] = []
        if self.uids.setdefault(hello.cluster, hello.uid) == hello.uid:
            effects.append(Remember(f"uid/{hello.cluster}", hello.uid.encode()))
        session.peer = hello
        twin = twin_of(session, self.sessions.values())
        if twin is not None:
            closed = surplus(self.me, session, twin, hello)
            effects.append(Close(closed.number, _NORMAL, "duplicate_link"))
            if closed is session:
                session.peer = None
                return effects
        session.untold = set(self._told())
        self._announce(session, always=True)
        session.settle(now)
        for remote in self.remotes.values():
            if remote.origin.cluster == session.cluster:
                effects += self._assign(remote, now)
        return [*effects, Wake(session.number)]

    # ---- announcements and wants ---------------------------------------------------------------

    def _told(self) -> dict[Origin, m.Advert]:
        """What may be advertised: our own published head, and others' once relaying."""
        adverts: dict[Origin, m.Advert] = {}
        for origin, served in self._served().items():
            adverts[origin] = m.Advert(origin, served.head.version, served.head.floor)
        if not self.relaying:
            for origin, remote in self.remotes.items():
                if remote.known and remote.fresh_at is not None and remote.head is not None:
                    adverts[origin] = m.Advert(origin, remote.version, remote.head.floor)
        return adverts

    def _announce(self, session: Session, *, always: bool = False) -> None:
        told = self._told()
        adverts = tuple(told[origin] for origin in sorted(session.untold & told.keys()))
        session.untold -= {advert.origin for advert in adverts}
        if adverts or always:
            session.say(m.Heads(adverts))

    def _heads(self, session: Session, heads: m.Heads, now: float) -> list[Effect]:
        effects: list[Effect] = []
        session.answered = True
        for advert in heads.adverts:
            session.adverts[advert.origin] = advert
            self._bound(len(session.adverts))
            if advert.origin == self.own.origin:
                self._acknowledged[session.cluster] = Acknowledged(advert.version, now)
                effects += self._met_own(session, advert)
            elif advert.origin.cluster != self.me.cluster:
                remote = self.remotes.get(advert.origin)
                if remote is None:
                    remote = self.remotes[advert.origin] = RemoteOrigin(advert.origin)
                effects += self._assign(remote, now)
        return effects

    def _met_own(self, session: Session, advert: m.Advert) -> list[Effect]:
        """A head of our own origin that we do not hold: open a higher epoch (rules C10, C12)."""
        if advert.version <= self.own.elements.version:
            return []
        self.own.open_epoch(advert.version.epoch)
        fields = {"peer": session.cluster, "epoch": self.own.epoch}
        return [Notice("own_origin_ahead", fields, serious=True)]

    def _candidates(self, origin: Origin) -> list[Candidate]:
        found = []
        for number, session in sorted(self.sessions.items()):
            direct = session.cluster == origin.cluster
            advert = session.adverts.get(origin)
            if session.peer is not None and (advert is not None or direct):
                version = ZERO if advert is None else advert.version
                found.append(Candidate(number, direct, version, session.rtt_ns, session.cluster))
        return found

    def _assign(self, remote: RemoteOrigin, now: float) -> list[Effect]:
        """Take ``remote`` from the right peer, telling the former one to stop."""
        candidates = self._candidates(remote.origin)
        current = next((c for c in candidates if c.number == remote.source), None)
        avoid = self._stalled.get(remote.origin)
        if keeps(current, candidates) and remote.source != avoid:
            return []
        chosen = best(candidates, avoid)
        if chosen is None or chosen == remote.source:
            return []
        return self._switch(remote, chosen, now)

    def _switch(self, remote: RemoteOrigin, chosen: int, now: float) -> list[Effect]:
        effects: list[Effect] = []
        former = self.sessions.get(remote.source or 0)
        if former is not None:
            former.wanting.discard(remote.origin)
            former.say(m.Stop(remote.origin))
            effects.append(Wake(former.number))
        remote.source = chosen
        return [*effects, *self._ask(remote, now)]

    def _ask(self, remote: RemoteOrigin, now: float) -> list[Effect]:
        """(Re)start the transfer of ``remote`` from its source at the committed version."""
        session = self.sessions.get(remote.source or 0)
        remote.staging = None
        remote.progress_at = now
        if session is None:
            return []
        session.wanting.add(remote.origin)
        session.say(m.Want(remote.origin, remote.version, remote.distrust))
        return [Wake(session.number)]

    def _want(self, session: Session, want: m.Want) -> list[Effect]:
        session.cursors[want.origin] = Cursor(want.version, want.snapshot)
        self._bound(len(session.cursors))
        session.ready[want.origin] = None
        return [Wake(session.number)]

    # ---- transfers -----------------------------------------------------------------------------

    def _transfer(
        self, session: Session, chunk: m.Transfer, now: float, wall_ns: int
    ) -> list[Effect]:
        remote = self.remotes.get(chunk.origin)
        if remote is None or remote.source != session.number:
            self.ignored += 1
            return []
        for element, _, op, value in chunk.entries:
            check_entry(chunk.origin.cluster, element, op, value)
        remote.progress_at = now
        taken = remote.take(chunk, self.verifier, session.records.get(chunk.origin))
        match taken.outcome:
            case Outcome.COMMITTED:
                return self._committed(remote, taken, now, wall_ns)
            case Outcome.RENEWED:
                remote.fresh_at = now
                return self._spread(remote.origin)
            case Outcome.AGAIN:
                return self._ask(remote, now)
            case Outcome.MISMATCH | Outcome.EQUIVOCATION:
                return self._does_not_add_up(remote, taken.outcome, session)
            case Outcome.STAGED | Outcome.IGNORED:
                return []
            case _ as unreachable:
                assert_never(unreachable)

    def _does_not_add_up(
        self, remote: RemoteOrigin, outcome: Outcome, session: Session
    ) -> list[Effect]:
        """Keep the last good view; a mismatched transfer is tried again, elsewhere if it can be.

        The next try waits for a tick, so two peers that disagree for good do not spin.
        """
        fields: dict[str, object] = {"origin": remote.origin.cluster, "source": session.cluster}
        if outcome is Outcome.MISMATCH:
            self.mismatches += 1
            self._stalled[remote.origin] = session.number
            session.wanting.discard(remote.origin)
            session.say(m.Stop(remote.origin))
            remote.source = None
        return [Notice(outcome.value, fields, serious=True), Wake(session.number)]

    def _committed(
        self, remote: RemoteOrigin, taken: Taken, now: float, wall_ns: int
    ) -> list[Effect]:
        services = remote.follow(taken.changes)
        remote.fresh_at = now
        head, record = remote.head, remote.record
        assert head is not None  # noqa: S101 - a commit sets both
        assert record is not None  # noqa: S101
        self._stalled.pop(remote.origin, None)
        store = Store(
            remote.origin,
            encode_head(head),
            encode_record(record),
            taken.entries,
            head.floor,
            replace=taken.replaced,
        )
        seconds = None
        if not taken.replaced:
            seconds = self._convergence(remote, head.observed_at, wall_ns)
            remote.latencies.add(seconds)
        changed = Changed(remote.origin, frozenset(services), tuple(taken.changes), seconds)
        for session in self.sessions.values():
            session.settle(now)
        return [store, changed, *self._spread(remote.origin)]

    def _convergence(self, remote: RemoteOrigin, observed_at: int, wall_ns: int) -> float:
        """Seconds from observation to now on the origin's clock; never negative."""
        offset = 0
        for session in self.sessions.values():
            if session.cluster == remote.origin.cluster:
                offset = session.offset_ns
        return max(0, wall_ns + offset - observed_at) * 1e-9

    def _spread(self, origin: Origin) -> list[Effect]:
        """A served head moved: wake whoever wants it, tell the others at the next beat."""
        self._digest = None
        effects: list[Effect] = []
        for number, session in self.sessions.items():
            if session.peer is None:
                continue
            session.untold.add(origin)
            if origin in session.cursors:
                session.ready[origin] = None
                effects.append(Wake(number))
        return effects

    # ---- own changes ---------------------------------------------------------------------------

    def published(self, now: float) -> list[Effect]:
        """The batch sealed last is durable: send it."""
        self.own.published()
        self._reissue_at = now + REISSUE_SECONDS
        for session in self.sessions.values():
            session.settle(now)
        return self._spread(self.own.origin)

    def reissue_now(self, wall_ns: int) -> list[Effect]:
        """Sign the published head anew (the key changed); nothing to do before the first."""
        if self.own.head is None or self.own.sealing:
            return []
        self.own.reissue(wall_ns)
        return self._spread(self.own.origin)

    def start_relaying(self) -> list[Effect]:
        """The view is current: serve what is known of other origins from now on."""
        self.relaying = True
        effects: list[Effect] = []
        for origin in sorted(self.remotes):
            effects += self._spread(origin)
        return effects

    # ---- sending and time ----------------------------------------------------------------------

    def _served(self) -> dict[Origin, Served]:
        served: dict[Origin, Served] = {}
        own = self.own
        if own.head is not None and not own.sealing:
            record = m.Record(own.origin, own.signer.key_id, own.signer.chain)
            served[own.origin] = Served(own.elements, own.head, record)
        if self.relaying:
            for origin, remote in self.remotes.items():
                if remote.head is not None and remote.record is not None:
                    served[origin] = Served(remote.elements, remote.head, remote.record)
        return served

    def pull(self, number: int) -> list[bytes]:
        """The next frames for session ``number``; call again until it returns none."""
        session = self.sessions.get(number)
        return [] if session is None else self._outflow.pull(session, self._served())

    def digest(self) -> bytes:
        """Hash over all served heads: equal on two replicas exactly when they agree."""
        if self._digest is None:
            rows = []
            heads = [remote.head for remote in self.remotes.values()]
            for head in [self.own.head, *heads]:
                if head is not None:
                    state = [*head.version, head.floor, head.count, head.root]
                    rows.append([*head.origin, *state])
            self._digest = blake2b(pack(sorted(rows)), digest_size=8).digest()
        return self._digest

    def tick(self, now: float, wall_ns: int) -> list[Effect]:
        """Do what is due: beats, re-issue, stalled sources, dead links."""
        effects: list[Effect] = []
        if self._reissue_at is not None and now >= self._reissue_at and not self.own.sealing:
            self._reissue_at = now + REISSUE_SECONDS
            floor = new_floor(self.own.elements, self._acknowledged.values(), now)
            if floor is not None:
                self.own.move_floor(floor, wall_ns)
            effects += self.reissue_now(wall_ns)
        for number, session in sorted(self.sessions.items()):
            reason = session.overdue(now)
            if reason is not None:
                effects.append(Close(number, _NORMAL, reason))
            elif session.peer is not None and now >= session.beat_due:
                self._announce(session)
                session.say(session.beat(self.digest(), now, wall_ns))
                effects.append(Wake(number))
        return [*effects, *self._replace_stalled(now)]

    def _replace_stalled(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for origin, remote in sorted(self.remotes.items()):
            if remote.source is None:
                effects += self._assign(remote, now)
                continue
            candidates = self._candidates(origin)
            silent_for = now - remote.progress_at
            if stalled(remote.version, candidates, remote.source, silent_for):
                self._stalled[origin] = remote.source
                fields: dict[str, object] = {"origin": origin.cluster, "silent_s": silent_for}
                effects += [Notice("source_stalled", fields), *self._assign(remote, now)]
        return effects

    def _advance_freshness(self, session: Session, now: float) -> None:
        """A beat of a directly linked origin confirms what is committed of it."""
        advert_of = session.adverts.get
        for origin, remote in self.remotes.items():
            if origin.cluster == session.cluster and remote.known:
                advert = advert_of(origin)
                if advert is not None and advert.version <= remote.version:
                    remote.fresh_at = now
