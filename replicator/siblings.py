"""Which of a cluster's agents writes its origin: taking over, handing back, meeting another writer.

Two agents of one cluster share a lease.  Who holds it *leads*: it alone stamps and publishes the
cluster's origin, in an epoch of its own.  The other *stands by*: the cluster's origin is a remote
origin to it, committed, journaled and relayed like any other, so it can take over at once.  A
leader begins its epoch at the last head it holds of the one before (rule C10's ``base``), so peers
at that head go on by delta, nothing is stamped again and no view flaps; peers anywhere else take a
snapshot.

Invariant: while standing by, our own origin is empty and :attr:`OwnOrigin.leading` is false; while
leading, it is not among the remotes.  A lease that is not renewed in time ends by itself: the next
thing that reaches the replica makes it stand by first.

Holds no lease and no clock: the caller says who leads and until when (:mod:`replicator.election`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from crdt import ZERO, Head, Origin, OriginSet, Version
from replicator import messages as m
from replicator.announcements import Announcements
from replicator.conflicts import Conflicts
from replicator.effects import Claim, Effect, Notice, Wake
from replicator.handshake import STANDBY, WRITER
from replicator.members import Members
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.session import Session
from replicator.subscriptions import Subscriptions

Advertised = Callable[[Session, m.Advert, float], list[Effect]]


class Siblings:
    """Leads or stands by; the state is the replica's."""

    def __init__(
        self,
        own: OwnOrigin,
        remotes: dict[Origin, RemoteOrigin],
        sessions: dict[int, Session],
        subscriptions: Subscriptions,
        announcements: Announcements,
        conflicts: Conflicts,
        members: Members,
    ) -> None:
        """Decide over the replica's own parts."""
        self._own = own
        self._remotes = remotes
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._announcements = announcements
        self._conflicts = conflicts
        self._members = members
        self._wrote: Version = ZERO
        """What we published last before we stood by, until it is known what became of it."""

    @property
    def role(self) -> str:
        """What our hello says."""
        return WRITER if self._own.leading else STANDBY

    def leads(self, now: float) -> bool:
        """Whether we may write now: a lease that is not renewed ends before anybody notices."""
        return self._own.leading and now < self._own.leads_until

    @property
    def epoch(self) -> int:
        """The highest epoch of our origin that we wrote or hold; the next one must be above."""
        former = self._remotes.get(self._own.origin)
        return max(self._own.epoch, 0 if former is None else former.version.epoch)

    @property
    def warm(self) -> bool:
        """Whether taking over now would continue a state: we write, or hold what the writer did."""
        former = self._remotes.get(self._own.origin)
        return self._own.leading or (former is not None and former.known)

    @property
    def behind(self) -> bool:
        """Whether somebody advertises more of our origin than we hold while standing by."""
        former = self._remotes.get(self._own.origin)
        return former is not None and former.version < former.supply.highest

    # ---- leading -------------------------------------------------------------------------------

    def lead(self, fence: int, until: float, now: float, wall_ns: int) -> list[Effect]:
        """We hold the lease until ``until``: write, in epoch ``fence`` or a higher one.

        ``fence`` is the lease's count of holders.  When we lead already, an epoch is opened only if
        ``fence`` is above ours.  What was taken over is to be published like any other change.
        """
        own = self._own
        own.leads_until = until
        if own.leading:
            if fence > own.epoch:
                own.open_epoch(fence - 1)
            return []
        epoch = max(fence, self.epoch + 1, self._members.least_epoch())
        effects = self._take(epoch)
        self._members.resume(wall_ns)
        effects += [*self._say_role(), *self._subscriptions.choose(now)]
        for session in self._sessions.values():
            advert = session.adverts.get(own.origin)
            if advert is not None and session.peer is not None:
                effects += self._conflicts.advertised(session, advert)
        return effects

    def _take(self, epoch: int) -> list[Effect]:
        own = self._own
        former = self._remotes.pop(own.origin, None)
        effects = [] if former is None else self._subscriptions.stop(former)
        for session in self._sessions.values():
            session.enquiries.discard(own.origin)
        fields: dict[str, object] = {"epoch": epoch}
        if former is None or former.head is None:
            own.inherit(OriginSet(), None, None, epoch)
        else:
            own.inherit(former.elements, former.head, former.record, epoch)
            fields |= {"base_epoch": former.head.epoch, "base_stamp": former.head.stamp}
        self._wrote = ZERO
        self._announcements.forget_digest()
        return [*effects, Notice("leading", fields)]

    # ---- standing by ---------------------------------------------------------------------------

    def lapse(self, now: float, advertised: Advertised) -> list[Effect]:
        """Stand by if the lease was not renewed in time."""
        if not self._own.leading or now < self._own.leads_until:
            return []
        return self.stand_by("lease_lapsed", now, advertised)

    def stand_by(self, why: str, now: float, advertised: Advertised) -> list[Effect]:
        """Write no more; keep what was published last, and take the origin from whoever leads.

        What was not published is dropped; whoever leads looks at the cluster itself.
        ``advertised`` looks at an advert again.
        """
        own = self._own
        if not own.leading:
            return []
        former = self._remotes[own.origin] = RemoteOrigin(own.origin)
        former.unstored = True
        elements, head, record = own.release()
        own.leads_until = inf
        if head is not None and former.restore(elements, head, record):
            former.fresh_at = now
        self._wrote = ZERO if head is None or head.epoch != own.epoch else head.version
        self._announcements.forget_digest()
        fields: dict[str, object] = {"epoch": own.epoch, "why": why}
        effects: list[Effect] = [Notice("standing_by", fields, serious=True), *self._say_role()]
        for session in self._sessions.values():
            session.enquiries.discard(own.origin)
            advert = session.adverts.get(own.origin)
            if advert is not None and session.peer is not None:
                effects += advertised(session, advert, now)
        return [*effects, *self._subscriptions.choose(now)]

    def committed(self, head: Head) -> list[Effect]:
        """A head of our own origin was committed while standing by.

        Reports a second writer when it does not continue from what we published ourselves.
        """
        wrote = self._wrote
        if head.epoch <= wrote.epoch or wrote == ZERO:
            return []
        self._wrote = ZERO
        base = head.base
        if base is not None and Version(base.epoch, base.stamp) >= wrote:
            return []
        fields: dict[str, object] = {"epoch": wrote.epoch, "by_epoch": head.epoch}
        return [Notice("second_writer", fields, serious=True)]

    # ---- sessions ------------------------------------------------------------------------------

    def _say_role(self) -> list[Effect]:
        effects: list[Effect] = []
        for number, session in self._sessions.items():
            if not session.closing:
                session.introduce(self.role, self.epoch)
                effects.append(Wake(number))
        return effects

    def left(self, session: Session) -> list[Effect]:
        """A link is gone or its peer stands by: if it was the writer's, the lease may be free."""
        ours = session.cluster == self._own.origin.cluster and session.successor is None
        return [Claim(0)] if ours and not self._own.leading else []


def reconciled(own: OwnOrigin, remotes: list[RemoteOrigin], *, leased: bool) -> list[RemoteOrigin]:
    """The remote origins of a new life, given what the two stores held; settles who holds ours.

    Our origin was written by us, or taken from an agent that led: the later state counts.  With a
    lease a life begins standing by.  Without one we lead, above the epoch of whoever wrote last.
    """
    others = [remote for remote in remotes if remote.origin != own.origin]
    taken = next((remote for remote in remotes if remote.origin == own.origin), None)
    later = taken is not None and taken.version >= own.elements.version and taken.known
    if not leased:
        if taken is not None and taken.version > own.elements.version:
            epoch = max(own.epoch, taken.version.epoch) + 1
            own.inherit(taken.elements, taken.head, taken.record, epoch)
        return others
    elements, head, record = own.release()
    if taken is None or not later:
        taken = RemoteOrigin(own.origin)
        taken.unstored = True
        if head is not None:
            taken.restore(elements, head, record)
    return [*others, taken] if taken.known else others
