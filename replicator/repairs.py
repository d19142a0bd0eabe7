"""Finds what rots, and mends it: audits, and repair by buckets instead of whole snapshots.

A remote origin is mended when an audit fails or a delta onto it does not add up: its view stays,
and its source is asked for buckets (:mod:`replicator.repair`).  It is *rotten*, and served to
nobody, if what is held is not what its head says; else what the source sent was wrong.

Where buckets do not help, because the source does not know of them, tells nonsense or nothing, or
too much differs, a whole snapshot is wanted, as of anything that does not add up.  Our own origin
has no source but the cluster: it states all anew, in a new epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from crdt import Head, Origin
from replicator import messages as m
from replicator.auditor import Auditor
from replicator.effects import Effect, Notice, Wake
from replicator.errors import ProtocolError
from replicator.kinds import check_entry
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin
from replicator.repair import Repair, Stage
from replicator.session import Session
from replicator.signing import Verifier
from replicator.subscriptions import Subscriptions

PATIENCE_SECONDS = 10.0
"""How long a source that was asked may bring nothing; then a snapshot is wanted."""


def rot_problems(remotes: Mapping[Origin, RemoteOrigin]) -> list[dict[str, str]]:
    """What a person should look at: origins that are held in another state than was signed."""
    return [
        {
            "code": "state_rotten",
            "message": f"what is held of {origin.cluster} is not what it signed; being mended",
            "cure": "if it comes back, look at this machine's memory and disk",
        }
        for origin, remote in sorted(remotes.items())
        if remote.rotten
    ]


class Repairs:
    """All repairs of one replica; the state of each is the origin's."""

    def __init__(
        self,
        own: OwnOrigin,
        remotes: Mapping[Origin, RemoteOrigin],
        sessions: Mapping[int, Session],
        subscriptions: Subscriptions,
    ) -> None:
        """Mend the replica's own parts."""
        self._own = own
        self._remotes = remotes
        self._sessions = sessions
        self._subscriptions = subscriptions
        self.auditor = Auditor(own, remotes)
        self.begun = 0
        """Repairs begun since the start."""

    # ---- beginning -----------------------------------------------------------------------------

    def tick(self, now: float, wall_ns: int) -> list[Effect]:
        """Look at the next slice, and go on with what is being mended."""
        effects: list[Effect] = []
        failed = self.auditor.tick(now)
        if failed is not None:
            effects.append(Notice("audit_failed", {"origin": failed.cluster}, serious=True))
            if failed == self._own.origin and self._own.leading:
                self._own.state_anew(wall_ns)
            else:
                self._remotes[failed].rotten = True
        for _, remote in sorted(self._remotes.items()):
            if remote.rotten and remote.repair is None and not remote.distrust:
                # Its audit failed, or a delta came in place of the snapshot that would mend it.
                effects += self.begin(remote, now)
            if remote.repair is not None:
                effects += self._go_on(remote, remote.repair, now)
        return effects

    def begin(self, remote: RemoteOrigin, now: float) -> list[Effect]:
        """Have ``remote`` mended."""
        assert remote.head is not None  # noqa: S101 - nothing else rots
        remote.staging = None
        remote.repair = Repair(remote.elements, remote.head.count, now)
        self.begun += 1
        return [Notice("repair_begun", {"origin": remote.origin.cluster})]

    def mismatched(self, remote: RemoteOrigin, now: float, *, replaced: bool) -> list[Effect]:
        """A transfer did not add up: that is a reason to mend what it would have continued.

        When it brought a whole state, from the start or by buckets, the source is to blame.
        """
        if remote.repair is not None:
            self._give_up(remote)
            return self._subscriptions.refuse(remote, now)
        source = self._sessions.get(remote.source or 0)
        able = source is not None and source.peer is not None and source.peer.buckets
        if replaced or not able or not remote.known:
            return self._subscriptions.mend(remote, now)
        return self.begin(remote, now)

    # ---- going on ------------------------------------------------------------------------------

    def _go_on(self, remote: RemoteOrigin, repair: Repair, now: float) -> list[Effect]:
        if repair.stage is Stage.COUNTING:
            remote.supply.progressed(now)
            return self._counted(remote, repair) if repair.count() else []
        source = self._sessions.get(remote.source or 0)
        if source is None or source.peer is None:
            return []
        if repair.asked != source.number:
            if not source.peer.buckets:
                return self._want_snapshot(remote)
            repair.ask(source.number, now)
            source.say(m.GetBuckets(remote.origin, repair.depth))
            return [Wake(source.number)]
        lost = repair.stage is Stage.FOLLOWING and remote.staging is not repair.staging
        if lost or now - repair.moved_at >= PATIENCE_SECONDS:
            return self._want_snapshot(remote)
        return []

    @staticmethod
    def _counted(remote: RemoteOrigin, repair: Repair) -> list[Effect]:
        """All buckets are counted, so it is known whether the fault is ours."""
        repair.stage = Stage.ASKED
        roots = {repair.root, remote.elements.root()}
        if remote.rotten or (remote.head is not None and roots == {remote.head.root}):
            return []
        remote.rotten = True
        return [Notice("state_rotten", {"origin": remote.origin.cluster}, serious=True)]

    @staticmethod
    def _give_up(remote: RemoteOrigin) -> None:
        remote.repair = remote.staging = None
        remote.distrust = True

    def _want_snapshot(self, remote: RemoteOrigin) -> list[Effect]:
        """Buckets do not help: want everything."""
        self._give_up(remote)
        return self._subscriptions.ask(remote)

    # ---- what the source tells -----------------------------------------------------------------

    def heard(
        self,
        session: Session,
        message: m.Buckets | m.BucketEntries,
        now: float,
        verifier: Verifier,
        admits: Callable[[Head], bool],
    ) -> list[Effect]:
        """A part of a source's answer; of anybody else, or when nothing was asked, it is ignored.

        An answer that is wrong costs its sender this origin, as a transfer does that is wrong.
        """
        bucket = isinstance(message, m.Buckets)
        origin = message.head.origin if isinstance(message, m.Buckets) else message.origin
        remote = self._remotes.get(origin)
        repair = None if remote is None else remote.repair
        if remote is None or repair is None or repair.asked != session.number:
            return []
        if repair.awaits_buckets != bucket:
            return []
        remote.supply.progressed(now)
        try:
            if isinstance(message, m.Buckets):
                return self._told(session, remote, message, now, verifier, admits)
            for element, _, op, value in message.entries:
                check_entry(origin.cluster, element, op, value)
            repair.fill(message, now)
            remote.staging = repair.followed
        except ProtocolError as error:
            if session.cluster == origin.cluster:
                raise
            self._give_up(remote)
            fields: dict[str, object] = {"origin": origin.cluster, "source": session.cluster}
            fields["code"] = error.code
            notice = Notice("repair_refused", fields, serious=True)
            return [notice, *self._subscriptions.refuse(remote, now)]
        return []

    def _told(
        self,
        session: Session,
        remote: RemoteOrigin,
        told: m.Buckets,
        now: float,
        verifier: Verifier,
        admits: Callable[[Head], bool],
    ) -> list[Effect]:
        repair, head = remote.repair, told.head
        assert repair is not None  # noqa: S101 - as the caller has seen
        nodes = repair.nodes_of(told)
        remote.verified_by(head, verifier, session.records.get(head.origin))
        if not admits(head) or not remote.may_be_mended_by(head):
            return self._want_snapshot(remote)
        indexes = repair.compare(nodes, head, now)
        if len(nodes) > 1 and 2 * len(indexes) > len(nodes):
            return self._want_snapshot(remote)
        session.say(m.GetBucketEntries(head.origin, head.version, indexes))
        return [Wake(session.number)]
