"""Several links to one agent: which of them stays, and how one takes over from another.

A link lives an hour at most; whoever dialled it dials another in time.  So two links dialled by one
side are a renewal, the newer *succeeds*: once the peer has told on it what it holds, every origin
moves over to it, those of which a transfer is under way as soon as that is done.  What the former
link still brings is taken meanwhile, so no change waits for a round trip.  When neither side wants
anything on it any more it is closed.

Of links dialled by different sides those dialled by the smaller (cluster, instance) stay, at once:
they meet when two agents dial each other, and a renewal never makes such a pair.

Holds no state but the sessions'; does not dial (:mod:`replicator.links`).
"""

from __future__ import annotations

from collections.abc import Mapping

from crdt import Origin
from replicator.effects import Effect
from replicator.handshake import Self, surplus, twins_of
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session
from replicator.subscriptions import Subscriptions


class Renewals:
    """Hands over between links; the state is the replica's."""

    def __init__(
        self,
        me: Self,
        sessions: dict[int, Session],
        remotes: Mapping[Origin, RemoteOrigin],
        subscriptions: Subscriptions,
    ) -> None:
        """Decide over the replica's own parts."""
        self._me = me
        self._sessions = sessions
        self._remotes = remotes
        self._subscriptions = subscriptions

    def met(self, session: Session) -> list[Session]:
        """The links to close now that ``session`` has got its first hello; maybe itself.

        Of those dialled by one side two stay, the later to succeed the earlier.
        """
        twins = twins_of(session, self._sessions.values())
        across = [twin for twin in twins if twin.dialled != session.dialled]
        if any(surplus(self._me, session, twin) is session for twin in across):
            return [session]
        alike = [twin for twin in twins if twin.dialled == session.dialled]
        session.former = alike[-1].number if alike else None
        return across + alike[:-1]

    def told(self, session: Session, now: float) -> list[Effect]:
        """The peer has told on ``session`` what it holds: move over to it, if it is a renewal."""
        former = self._sessions.get(session.former or 0)
        session.former = None
        if former is None or former.peer is None:
            return []
        former.successor = session.number
        return self._move(former, now)

    def review(self, session: Session, now: float) -> tuple[list[Effect], str | None]:
        """Go on moving what stayed on ``session``; and why it should be closed, if it should."""
        if session.successor is None:
            return [], None
        if not self._subscriptions.is_succeeded(session):
            session.successor = None  # the newer link was lost first
            return [], None
        effects = self._move(session, now)
        wanted = session.cursors or any(r.source == session.number for r in self._remotes.values())
        return effects, None if wanted else "renewed"

    def _move(self, former: Session, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for _, remote in sorted(self._remotes.items()):
            if remote.source == former.number:
                effects += self._subscriptions.assign(remote, now)
        return effects
