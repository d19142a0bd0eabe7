"""Acts on wrong clocks: holds heads from the future back, tells their owner, mends our own stamps.

What is too far ahead is decided by :mod:`replicator.skew`; here the origin is no longer asked
for, every session is told, and what a peer says of itself is passed on by one relay and no
further.  Our own origin is stated anew in a higher epoch when our wall clock is far behind our
stamps and most connected peers' clocks are so too: then our clock was ahead and is right again.
Until then changes are journaled as ever.

Why clocks decide and complaints do not: who holds us back depends on what else it knows (a peer
that met us first took our head from the future, one whose own clock was wrong took everything), and
complaints reach two steps only.  So "most of the peers hold us back" may never come true while one
peer waits for hours.  Clocks are the same for all: once they are right, every owner whose stamps
are ahead finds so at once, without a word.  That errs on the cheap side, too: stamps of different
origins are never compared, so stating anew costs a snapshot and cannot lose a change, and it needs
a step of our clock by more than an hour each time.

A complaint is not signed: it is shown to people, and moves nothing.
"""

from __future__ import annotations

from crdt import Head, Origin
from replicator import messages as m
from replicator.effects import Effect, Notice, Wake
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session
from replicator.skew import LIMIT_NS, Complaints, Skews, ahead_ns, most_find_ahead
from replicator.subscriptions import Subscriptions


class Quarantine:
    """Whose heads wait, as one replica sees it and as others say."""

    def __init__(
        self,
        own: OwnOrigin,
        remotes: dict[Origin, RemoteOrigin],
        sessions: dict[int, Session],
        subscriptions: Subscriptions,
    ) -> None:
        """Decide over the replica's own parts."""
        self._own = own
        self._remotes = remotes
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._skews = Skews()
        self.complaints = Complaints()
        self.blames_itself = False
        """Whether most origins are ahead of our clock: nobody is held back then."""
        for origin, remote in remotes.items():
            self._skews.saw(origin, remote.version.stamp)

    def admits(self, head: Head, wall_ns: int) -> bool:
        """Whether a head that verifies may be committed."""
        self._skews.saw(head.origin, head.stamp)
        if ahead_ns(head.stamp, wall_ns) <= LIMIT_NS:
            return True
        return head.origin not in self._skews.held_back(wall_ns)

    def hold(self, remote: RemoteOrigin, now: float, wall_ns: int) -> list[Effect]:
        """A head of ``remote`` was not admitted: ask for it no more, and say so."""
        remote.supply.failed(remote.source or 0, now)
        effects = self._subscriptions.stop(remote)
        remote.held_back = not self._sane_elsewhere(remote, wall_ns)
        ahead = self._skews.ahead(remote.origin, wall_ns)
        fields: dict[str, object] = {
            "origin": remote.origin.cluster,
            "ahead_seconds": ahead // 10**9,
        }
        return [
            *effects,
            Notice("origin_held_back", fields, serious=True),
            *self._say(remote, ahead),
        ]

    def _sane_elsewhere(self, remote: RemoteOrigin, wall_ns: int) -> bool:
        """Whether a peer tells of a later version with a sane stamp.

        It may have told so before a relay, which is behind, brought the head from the future.
        """
        told = (session.adverts.get(remote.origin) for session in self._sessions.values())
        return any(self._is_sane(advert, remote, wall_ns) for advert in told if advert is not None)

    @staticmethod
    def _is_sane(advert: m.Advert, remote: RemoteOrigin, wall_ns: int) -> bool:
        sane = ahead_ns(advert.version.stamp, wall_ns) <= LIMIT_NS
        return sane and advert.version > remote.version

    def _say(self, remote: RemoteOrigin, offset_ns: int) -> list[Effect]:
        author = self._own.origin.cluster
        if not self.complaints.say(remote.origin, author, offset_ns):
            return []
        return self._pass_on(m.Skew(remote.origin, author, offset_ns), heard_from=None)

    def _pass_on(self, message: m.Skew, heard_from: Session | None) -> list[Effect]:
        effects: list[Effect] = []
        for number, session in self._sessions.items():
            if session.peer is None or session is heard_from or session.cluster == message.author:
                continue
            session.say(message)
            effects.append(Wake(number))
        return effects

    def introduce(self, session: Session) -> None:
        """Tell a new session what was said so far."""
        for (origin, author), offset_ns in self.complaints.offsets.items():
            if author != session.cluster:
                session.say(m.Skew(origin, author, offset_ns))

    def heard(self, session: Session, message: m.Skew) -> list[Effect]:
        """A peer says that somebody holds an origin back, or no longer does."""
        known = message.origin in self._remotes or message.origin == self._own.origin
        members = {origin.cluster for origin in self._remotes} | {session.cluster}
        if not known or message.author not in members:
            return []
        if not self.complaints.say(message.origin, message.author, message.offset_ns):
            return []
        fields: dict[str, object] = {
            "origin": message.origin.cluster,
            "by": message.author,
            "ahead_seconds": message.offset_ns // 10**9,
        }
        notice = Notice("clock_complaint", fields, serious=message.offset_ns > 0)
        if message.author != session.cluster:
            # Second-hand news goes no further.  Complaints carry no order: passed on by everybody,
            # one and its end would chase each other round a mesh for ever, and multiply.
            return [notice]
        return [notice, *self._pass_on(message, heard_from=session)]

    def advertised(self, advert: m.Advert, wall_ns: int) -> None:
        """A later version with a sane stamp may be there: ask for it again."""
        remote = self._remotes.get(advert.origin)
        if remote is not None and self._is_sane(advert, remote, wall_ns):
            remote.held_back = False

    def committed(self, remote: RemoteOrigin) -> list[Effect]:
        """A head of ``remote`` was taken: nothing is held against it any more."""
        return self._say(remote, 0)

    def problems(self, wall_ns: int) -> list[dict[str, str]]:
        """What a person should look at: ``code``, ``message`` and ``cure``."""
        found = []
        if self.blames_itself:
            message = "the stamps of most clusters are more than an hour ahead of our clock"
            cure = "set this host's clock right; until then nobody is held back for theirs"
            found.append({"code": "own_clock_suspect", "message": message, "cure": cure})
        for origin, remote in sorted(self._remotes.items()):
            if remote.held_back:
                ahead = self._skews.ahead(origin, wall_ns) // 10**9
                message = f"{origin.cluster} is {ahead} s ahead: its changes are not taken in"
                cure = f"set the clock right where {origin.cluster}'s agent runs"
                found.append({"code": "origin_held_back", "message": message, "cure": cure})
        about_us = self.complaints.about(self._own.origin)
        if about_us:
            names = ", ".join(sorted(about_us))
            message = f"our clock is {max(about_us.values()) // 10**9} s ahead, say {names}"
            cure = "set this host's clock right; the agent then stamps its state anew by itself"
            found.append({"code": "own_clock_ahead", "message": message, "cure": cure})
        return found

    def review(self, now: float, wall_ns: int) -> list[Effect]:
        """Release whom time or our own clock has put right; state our own origin anew if due."""
        self._skews.keep(self._remotes)
        if self._all_well(wall_ns):
            return []
        effects = self._review_own(now, wall_ns)
        held = self._skews.held_back(wall_ns)
        for origin, remote in self._remotes.items():
            if remote.held_back and origin not in held:
                remote.held_back = False
                effects += [*self._say(remote, 0), *self._subscriptions.assign(remote, now)]
        return effects

    def _all_well(self, wall_ns: int) -> bool:
        """Whether every clock is right, and was at the last review."""
        return not (
            self.blames_itself
            or self._own.ahead_ns(wall_ns) > LIMIT_NS
            or self._skews.any_too_far(wall_ns)
            or any(remote.held_back for remote in self._remotes.values())
        )

    def _clocks(self, now: float) -> list[int | None]:
        """The wall clock of each connected cluster as far as it is known."""
        peers = [session for session in self._sessions.values() if session.peer is not None]
        return list({peer.cluster: peer.peer_wall_ns(now) for peer in peers}.values())

    def _review_own(self, now: float, wall_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        wrong = self._skews.own_clock_is_wrong(wall_ns)
        if wrong and not self.blames_itself:
            effects.append(Notice("own_clock_suspect", {}, serious=True))
        self.blames_itself = wrong
        ahead = self._own.ahead_ns(wall_ns)
        if ahead > LIMIT_NS and most_find_ahead(wall_ns + ahead, self._clocks(now)):
            self._own.state_anew(wall_ns)
            fields: dict[str, object] = {
                "ahead_seconds": ahead // 10**9,
                "epoch": self._own.epoch,
            }
            effects.append(Notice("stamps_put_right", fields, serious=True))
        return effects
