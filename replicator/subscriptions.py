"""Which session each origin is taken from, and the asking: Want and Stop.

Pulls are the receiver's: a session sends an origin only while that origin is wanted from it.  Holds
no state but the sessions' and the origins'; what it decides comes back as effects.

Invariant: ``remote.source`` is None or an open session that was sent a Want and no Stop since.
"""

from __future__ import annotations

from dataclasses import replace

from crdt import ZERO, Origin
from replicator import messages as m
from replicator.effects import Effect, Notice, Wake
from replicator.handshake import is_writer
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session
from replicator.sources import STALL_SECONDS, Candidate, ahead, best, keeps


class Subscriptions:
    """Chooses sources and tells them."""

    def __init__(
        self, sessions: dict[int, Session], remotes: dict[Origin, RemoteOrigin], own: OwnOrigin
    ) -> None:
        """Decide over the replica's own parts."""
        self._sessions = sessions
        self._remotes = remotes
        self._own = own

    def _candidates(self, origin: Origin) -> list[Candidate]:
        """Who could serve ``origin``; to a stand-by its own cluster's writer comes first.

        So what crosses between clusters crosses once, however many agents a cluster has.
        """
        found = []
        for number, session in sorted(self._sessions.items()):
            writes = is_writer(session) and session.cluster == origin.cluster
            advert = session.adverts.get(origin)
            if self.is_succeeded(session):
                continue
            if session.peer is not None and (advert is not None or writes):
                version = ZERO if advert is None else advert.version
                takes = origin in session.cursors
                found.append(
                    Candidate(number, writes, version, session.rtt_ns, session.cluster, takes)
                )
        near = {c.number for c in found if self._is_near(self._sessions[c.number])}
        return [replace(c, direct=c.number in near) for c in found] if near else found

    def is_succeeded(self, session: Session) -> bool:
        """Whether another link to the same agent has taken over from this one."""
        newer = self._sessions.get(session.successor or 0)
        return newer is not None and newer.peer is not None

    def _lingers(self, remote: RemoteOrigin, now: float) -> bool:
        """Whether a transfer goes on over a link that was renewed: it may end there."""
        source = self._sessions.get(remote.source or 0)
        if source is None or remote.staging is None or not self.is_succeeded(source):
            return False
        return now - remote.supply.progress_at < STALL_SECONDS

    def brings(self, session: Session, remote: RemoteOrigin) -> bool:
        """Whether ``remote`` is taken from ``session``, or was until the link was renewed."""
        return remote.source in {session.number, session.successor} - {None}

    def _is_near(self, session: Session) -> bool:
        ours = session.cluster == self._own.origin.cluster
        return ours and not self._own.leading and is_writer(session)

    def choose(self, now: float) -> list[Effect]:
        """Choose again for every origin: roles have changed."""
        effects: list[Effect] = []
        for _, remote in sorted(self._remotes.items()):
            effects += self.assign(remote, now)
        return effects

    def _stays(self, remote: RemoteOrigin, avoid: int | None) -> bool:
        """Whether the source plainly stays: open, and the origin's only agent or none to be had.

        What :func:`~replicator.sources.keeps` says, without looking at all candidates: adverts
        are many, and few of them change anything.
        """
        current = self._sessions.get(remote.source or 0)
        if current is None or current.peer is None or current.number == avoid:
            return False
        if current.successor is not None:
            return False
        if not self._own.leading:
            return False
        cluster = remote.origin.cluster
        return not any(
            session.cluster == cluster and session is not current
            for session in self._sessions.values()
        )

    def assign(self, remote: RemoteOrigin, now: float) -> list[Effect]:
        """Take ``remote`` from the right peer, telling the former one to stop."""
        if remote.held_back or (remote.source is None and now < remote.supply.retry_at):
            return []
        avoid = remote.supply.avoided(now)
        if self._stays(remote, avoid) or self._lingers(remote, now):
            return []
        candidates = self._candidates(remote.origin)
        current = next((c for c in candidates if c.number == remote.source), None)
        if keeps(current, candidates, avoid):
            return []
        chosen = best(candidates, avoid)
        if chosen is None or chosen == remote.source:
            return []
        return self.take_from(remote, chosen, now)

    def take_from(self, remote: RemoteOrigin, number: int, now: float) -> list[Effect]:
        """Make session ``number`` the source of ``remote``."""
        advert = self._sessions[number].adverts.get(remote.origin)
        resumes = advert is not None and remote.may_resume_at(advert.version)
        staging = remote.staging if resumes else None
        effects = self.stop(remote)
        remote.source, remote.staging = number, staging
        remote.supply.progressed(now)
        others = (s for n, s in self._sessions.items() if n != number)
        if any(remote.origin in session.cursors for session in others):
            self._sessions[number].untold.add(remote.origin)  # whom we speak for, with the beat
        return [*effects, *self.ask(remote)]

    def stop(self, remote: RemoteOrigin) -> list[Effect]:
        """Take ``remote`` from nobody, telling the former source; what was staged is dropped."""
        former = self._sessions.get(remote.source or 0)
        remote.source = remote.staging = None
        if former is None:
            return []
        former.wanting.discard(remote.origin)
        former.say(m.Stop(remote.origin))
        return [Wake(former.number)]

    def ask(self, remote: RemoteOrigin) -> list[Effect]:
        """(Re)start the transfer of ``remote`` from its source, at what is committed or staged."""
        session = self._sessions[remote.source or 0]
        session.enquiries.discard(remote.origin)
        session.wanting.add(remote.origin)
        session.say(m.Want(remote.origin, remote.resume(), remote.distrust))
        return [Wake(session.number)]

    def refuse(self, remote: RemoteOrigin, now: float) -> list[Effect]:
        """What the source sent is worthless: leave it, and take another when it is time."""
        remote.supply.failed(remote.source or 0, now)
        return [*self.stop(remote), *self.assign(remote, now)]

    def mend(self, remote: RemoteOrigin, now: float) -> list[Effect]:
        """A transfer did not add up: have a snapshot, of its source at first, then of another."""
        if remote.distrust:
            return self.refuse(remote, now)
        remote.distrust = True
        return self.ask(remote)

    def release(self, number: int, now: float) -> list[Effect]:
        """Session ``number`` says nothing more: take its origins from others."""
        effects: list[Effect] = []
        for _, remote in sorted(self._remotes.items()):
            if remote.source == number:
                remote.source = None
                effects += self.assign(remote, now)
                if remote.source is None:
                    remote.staging = None
        return effects

    def _is_dead_end(self, remote: RemoteOrigin, now: float) -> bool:
        """Whether a relay brings no sign of the origin's life, and somebody else might."""
        source = self._sessions[remote.source or 0]
        relayed = source.cluster != remote.origin.cluster and not self._is_near(source)
        return relayed and remote.supply.unrenewed(now) and len(self._candidates(remote.origin)) > 1

    def wanted_by(self, session: Session, origin: Origin, now: float) -> list[Effect]:
        """Whom we take ``origin`` from takes it from us: one of the two turns elsewhere."""
        remote = self._remotes.get(origin)
        if remote is None or remote.source != session.number:
            return []
        if self._own.origin.cluster < session.cluster or session.cluster == origin.cluster:
            return []
        chosen = best(self._candidates(origin), remote.supply.avoided(now))
        if chosen is None or chosen == session.number:
            return []
        return self.take_from(remote, chosen, now)

    def _is_behind(self, remote: RemoteOrigin, source: int) -> bool:
        """Whether another peer has more than is committed here; of what is rotten, as much."""
        if remote.rotten:
            others = (c for c in self._candidates(remote.origin) if c.number != source)
            return any(candidate.version >= remote.version for candidate in others)
        return remote.version < remote.supply.highest and ahead(
            remote.version, self._candidates(remote.origin), source
        )

    def watch(self, now: float) -> list[Effect]:
        """Replace sources that have stalled; choose one where there is none or a better one."""
        effects: list[Effect] = []
        restless = (
            (origin, remote)
            for origin, remote in self._remotes.items()
            if remote.source is None
            or remote.rotten
            or not remote.supply.settled(remote.version)
            or remote.supply.unrenewed(now)
        )
        for origin, remote in sorted(restless):
            if remote.supply.forgiven(now) or remote.source is None:
                effects += self.assign(remote, now)
            if remote.source is None:
                continue
            if remote.supply.overdue(
                now, behind=self._is_behind(remote, remote.source)
            ) or self._is_dead_end(remote, now):
                silent_for = round(now - remote.supply.progress_at, 3)
                remote.supply.stalled(remote.source, now)
                fields: dict[str, object] = {"origin": origin.cluster, "silent_s": silent_for}
                effects += [Notice("source_stalled", fields), *self.assign(remote, now)]
        return effects
