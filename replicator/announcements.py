"""What is served to peers and what they are told of it: adverts, wake-ups, the digest of heads.

An origin is served as of its last durable head (our own) or its last committed one (others, once
relaying).  Peers hear of it in ``Heads``: at once by whoever wants it, with the beat by the others.

Does not decide whether the view is current (``readiness``) or cut what is sent (``outflow``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from crdt import ZERO, Head, Origin, pack
from crdt.canonical import pack_items
from replicator import messages as m
from replicator.codec import ROOT_MARK_SIZE
from replicator.effects import Effect, Wake
from replicator.outflow import Served
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session

_ADVERTS = 1000
"""Adverts in one message."""


def reach_of(advert: m.Advert | None) -> m.Reach:
    """What an advert says of those who take its origin through who sent it; one is not all told."""
    if advert is None:
        return m.Reach(ZERO, 1)
    return advert.reach or m.Reach(advert.version, 1)


class Announcements:
    """The sending half of a replica's view; the state is the replica's."""

    def __init__(
        self,
        own: OwnOrigin,
        remotes: Mapping[Origin, RemoteOrigin],
        sessions: Mapping[int, Session],
    ) -> None:
        """Serve and tell of the replica's own parts."""
        self.relaying = False
        """False until the view is known to be current: remote origins are not served before."""
        self._own = own
        self._remotes = remotes
        self._sessions = sessions
        self._digest: bytes | None = None
        self._rows: dict[Origin, tuple[Head, bytes]] = {}
        """What the digest was made of last."""

    def serve(self, origin: Origin) -> Served | None:
        """What may be served of an origin: ours once durable, others' committed once relaying.

        Of what has rotted, only the signed head: who lost its disk asks for that alone.
        """
        if origin == self._own.origin and self._own.leading:
            return self._own.served()
        remote = self._remotes.get(origin)
        if not self.relaying or remote is None or remote.head is None or remote.record is None:
            return None
        elements, whole = remote.elements, not remote.rotten
        nodes = elements.nodes if whole else None
        return Served(elements.since, remote.head, remote.record, nodes, whole=whole)

    def _advert(self, origin: Origin) -> m.Advert | None:
        """What may be advertised of an origin: what may be served, and what was met in this life.

        The latter also before relaying, so that peers know whom to ask once it begins.
        """
        served = self.serve(origin)
        head = None if served is None else served.head
        remote = self._remotes.get(origin)
        if head is None and remote is not None and remote.fresh_at is not None:
            head = remote.head
        if head is None:
            return None
        return m.Advert(origin, head.version, head.floor, head.root[:ROOT_MARK_SIZE])

    def _with_reach(self, advert: m.Advert, session: Session) -> m.Advert:
        """Speak for those who take the origin from us too, to whom we take it from.

        So acknowledgements reach the owner through any number of relays, each with the next beat.
        Another agent of our own cluster is waited for, and no cluster more.
        """
        origin = advert.origin
        remote = self._remotes.get(origin)
        if remote is None or remote.source != session.number:
            return advert
        least, clusters = advert.version, 1
        for other in self._sessions.values():
            if origin in other.cursors and other is not session:
                reach = reach_of(other.adverts.get(origin))
                least = min(least, reach.version)
                clusters += reach.clusters * (other.cluster != self._own.origin.cluster)
        if clusters == 1:
            return advert
        # Where sources go round in a ring, for an origin that is gone, the number would grow.
        return replace(advert, reach=m.Reach(least, min(clusters, len(self._remotes))))

    def heard(self, session: Session, former: m.Advert | None, advert: m.Advert) -> None:
        """A peer that takes an origin from us has come further: tell whom we take it from."""
        if former is None or reach_of(former) != reach_of(advert):
            self.served_to(session, advert.origin)

    def served_to(self, session: Session, origin: Origin) -> None:
        """Whom we speak for may be another: tell whom ``origin`` is taken from, with the beat."""
        remote = self._remotes.get(origin)
        source = None if remote is None else self._sessions.get(remote.source or 0)
        if source is not None and source is not session and origin in session.cursors:
            source.untold.add(origin)

    def tell(self, session: Session, *, always: bool = False) -> None:
        """Tell ``session`` what it was not told yet; first of its own origin, the news for it."""
        order = sorted(session.untold, key=lambda origin: (origin[0] != session.cluster, origin))
        found = [advert for advert in map(self._advert, order) if advert is not None]
        adverts = [self._with_reach(advert, session) for advert in found]
        session.untold -= {advert.origin for advert in adverts}
        starts = range(0, len(adverts), _ADVERTS) or [0] * always
        for start in starts:
            session.say(m.Heads(tuple(adverts[start : start + _ADVERTS])))

    def spread(self, origin: Origin, *, news: bool = True, at_once: bool = False) -> list[Effect]:
        """A served head moved: wake whoever wants it; of ``news`` tell the others with the beat.

        Or ``at_once``, for news that those who do not want it may be waiting for.
        """
        self._digest = None
        effects: list[Effect] = []
        for number, session in self._sessions.items():
            if session.peer is None:
                continue
            if news:
                session.untold.add(origin)
            if origin in session.cursors:
                session.ready[origin] = None
                effects.append(Wake(number))
            elif at_once:
                self.tell(session)
                effects.append(Wake(number))
        return effects

    def begin_relaying(self) -> list[Effect]:
        """The view is current: serve what is known of other origins from now on."""
        self.relaying = True
        effects: list[Effect] = []
        for origin in sorted(self._remotes):
            effects += self.spread(origin)
        return effects

    def forget_digest(self) -> None:
        """What is held changed in another way than by a head that moved."""
        self._digest = None

    def digest(self) -> bytes:
        """Hash over all served heads: equal on two replicas exactly when they agree."""
        if self._digest is None:
            heads = [remote.head for remote in self._remotes.values()]
            rows = [
                (head.origin, head, self._row(head))
                for head in [self._own.published_head, *heads]
                if head is not None
            ]
            self._rows = {origin: (head, row) for origin, head, row in rows}
            in_order = [self._rows[origin][1] for origin in sorted(self._rows)]
            self._digest = blake2b(pack_items(in_order), digest_size=8).digest()
        return self._digest

    def _row(self, head: Head) -> bytes:
        """Canonical bytes of what the digest says of one head; packed once a head."""
        known = self._rows.get(head.origin)
        if known is not None and known[0] is head:
            return known[1]
        state = [*head.version, head.floor, head.count, head.root]
        return pack([*head.origin, *state])
