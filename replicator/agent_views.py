"""What the operator API shows of a running agent: pure readings of its parts.

Implements :class:`~replicator.ops.views.AgentViews`; every answer is built anew, so callers may
keep it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from clusters.base import Cluster
from clusters.model import Endpoint, ServiceKey
from crdt import Head, Origin, OriginSet, Stamp
from replicator import __version__
from replicator.config import describe
from replicator.freshness import State, milliseconds, state_of
from replicator.items import item_of
from replicator.policies import Setting, Subject, described
from replicator.service_index import ServiceIndex
from replicator.session import Session
from replicator.snapshots import OriginSnapshot, build
from replicator.withdrawals import described as described_withdrawal

if TYPE_CHECKING:
    from replicator.agent import Agent

Json = dict[str, Any]
_DIFFER_SECONDS = 5.0


def _rfc3339(wall_ns: int) -> str:
    moment = datetime.fromtimestamp(wall_ns / 1e9, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Views:
    """Views of one agent."""

    def __init__(self, agent: Agent) -> None:
        """Read from ``agent``."""
        self._agent = agent

    # ---- origins -------------------------------------------------------------------------------

    def _origins(self) -> list[tuple[Origin, OriginSet, ServiceIndex, Head | None]]:
        replica = self._agent.replica
        own = replica.own
        rows = {own.origin: (own.origin, own.elements, own.index, own.head)}
        # While standing by, our own origin is one of the remote ones.
        rows |= {o: (o, r.elements, r.index, r.head) for o, r in replica.remotes.items()}
        return [rows[origin] for origin in sorted(rows)]

    def clusters(self) -> list[Json]:
        """See :class:`AgentViews`."""
        known = {origin.cluster for origin, *_ in self._origins()}
        rows = [self._cluster(*row) for row in self._origins()]
        missing = [peer for peer in self._configured() if peer not in known]
        rows += [self._cluster(Origin(peer), OriginSet(), None, None) for peer in missing]
        return sorted(rows, key=lambda row: (row["cluster"], row["shard"]))

    def _cluster(
        self,
        origin: Origin,
        elements: OriginSet,
        index: ServiceIndex | None,
        head: Head | None,
    ) -> Json:
        replica = self._agent.replica
        is_self = origin == replica.own.origin
        remote = replica.remotes.get(origin)
        wall_ns = self._agent.clock.wall_ns()
        info = None if index is None else index.cluster()
        age = 0.0 if is_self and replica.own.leading else self._agent.others.staleness(origin)
        source = None if remote is None else replica.sessions.get(remote.source or 0)
        direct = source is not None and source.cluster == origin.cluster
        stale_after = self._agent.config.stale.after
        state = state_of(age, direct=direct, stale_after=stale_after)
        if state is State.FRESH and remote is not None and remote.fresh_at is None:
            state = State.LAGGING  # only the journal vouches for it so far
        head_age = None
        if head is not None:
            offset = source.offset_ns if source is not None and direct else 0
            head_age = round(max(0, wall_ns + offset - head.issued_at) * 1e-9, 3)
        return {
            "cluster": origin.cluster,
            "shard": origin.shard,
            "region": None if info is None else info.region,
            "self": is_self,
            "state": state.value,
            "elements": elements.live_count,
            "tombstones": elements.tombstone_count,
            "services": 0 if index is None else len(index.services()),
            "addresses_hidden": 0 if index is None else index.hidden,
            "head": None if head is None else self._head(head),
            "head_age_seconds": head_age,
            "policy": None if is_self else self._agent.config.stale.policy.value,
            "staleness_seconds": None if age is None else round(age, 3),
            "via": None if source is None else source.cluster,
            "changes_committed": None if remote is None else remote.changes,
            "convergence_ms": None if remote is None else remote.latencies.summary(),
            "clock_offset_ms": milliseconds(source.offset_ns) if source and direct else None,
        }

    @staticmethod
    def _head(head: Head) -> Json:
        return {
            "epoch": str(head.epoch),
            "stamp": str(Stamp(head.stamp, head.origin.cluster)),
            "floor": str(head.floor),
            "count": head.count,
            "root": head.root.hex(),
            "issued_at": str(head.issued_at),
        }

    # ---- peers ---------------------------------------------------------------------------------

    def _configured(self) -> list[str]:
        """Configured peers, without those that are forgotten."""
        expected = self._agent.others.expected()
        return [peer for peer in self._agent.links.peers if peer in expected]

    def _session_of(self, cluster: str) -> Session | None:
        for session in self._agent.replica.sessions.values():
            if session.cluster == cluster and session.peer is not None:
                return session
        return None

    def peers(self) -> list[Json]:
        """See :class:`AgentViews`."""
        configured = set(self._configured())
        configured |= {self._agent.config.cluster} & self._agent.links.peers.keys()
        connected = {
            session.cluster
            for session in self._agent.replica.sessions.values()
            if session.peer is not None
        }
        return [self._peer(cluster) for cluster in sorted(configured | connected)]

    def _peer(self, cluster: str) -> Json:
        status = self._agent.links.peers.get(cluster)
        session = self._session_of(cluster)
        now = self._agent.clock.monotonic()
        row: Json = {
            "cluster": cluster,
            "url": None if status is None else status.peer.url,
            "state": "connected" if session else status.state if status else "never_connected",
            "last_error": None,
            **dict.fromkeys(
                (
                    *("dialled", "instance", "connected_seconds", "rtt_ms", "clock_offset_ms"),
                    *("last_beat_age_seconds", "digest_equal", "software"),
                )
            ),
            "bytes_sent": 0,
            "bytes_received": 0,
        }
        if status is not None and status.error is not None and session is None:
            error = status.error
            row["last_error"] = {"code": error.code, "message": error.message, "cure": error.cure}
        if session is not None and session.peer is not None:
            row |= self._connected(session, now)
        return row

    def _connected(self, session: Session, now: float) -> Json:
        link = self._agent.links.link_of(session.number)
        heard = session.beat_heard_at
        best = session.clock.best()
        peer = session.peer
        return {
            "dialled": session.dialled,
            "instance": None if peer is None else peer.instance,
            "software": None if peer is None else peer.software,
            "connected_seconds": round(now - session.opened_at, 3),
            "rtt_ms": None if best is None else milliseconds(best.rtt_ns),
            "clock_offset_ms": None if best is None else milliseconds(best.offset_ns),
            "last_beat_age_seconds": None if heard is None else round(now - heard, 3),
            "digest_equal": self._digest_equal(session),
            "bytes_sent": 0 if link is None else link.bytes_sent,
            "bytes_received": 0 if link is None else link.bytes_received,
        }

    def _digest_equal(self, session: Session) -> bool | None:
        """False only once the digests differ for longer than changes in transit explain."""
        if session.peer_digest is None:
            return None
        if session.peer_digest == self._agent.replica.announcements.digest():
            return True
        equal_at = self._agent.equal_at.get(session.number, session.opened_at)
        return None if self._agent.clock.monotonic() - equal_at < _DIFFER_SECONDS else False

    # ---- services and endpoints ----------------------------------------------------------------

    def services(self) -> list[Json]:
        """See :class:`AgentViews`."""
        rows: dict[ServiceKey, list[Json]] = {}
        for origin, _, index, _ in self._origins():
            for key in sorted(index.all_services()):
                endpoints = [endpoint for _, endpoint in index.visible(key)]
                row = {
                    "cluster": origin.cluster,
                    "exported": index.export(key) is not None,
                    "endpoints": len(endpoints),
                    "ready": sum(endpoint.ready for endpoint in endpoints),
                }
                rows.setdefault(key, []).append(row)
        return [
            {"namespace": key.namespace, "service": key.name, "clusters": rows[key]}
            for key in sorted(rows)
        ]

    def endpoints(
        self, namespace: str | None, service: str | None, cluster: str | None
    ) -> list[Json]:
        """See :class:`AgentViews`."""
        found: list[tuple[ServiceKey, Endpoint, Stamp]] = []
        for origin, _, index, _ in self._origins():
            if cluster not in {None, origin.cluster}:
                continue
            for key in index.services():
                if namespace in {None, key.namespace} and service in {None, key.name}:
                    for stamp, endpoint in index.visible(key):
                        found.append((key, endpoint, Stamp(stamp, origin.cluster)))
        rows = [item_of(key, endpoint, stamp) for key, endpoint, stamp in found]
        order = ("namespace", "service", "address", "tag")
        return sorted(rows, key=lambda row: tuple(str(row[name]) for name in order))

    # ---- the whole -----------------------------------------------------------------------------

    def snapshot(self) -> Json:
        """See :class:`AgentViews`."""
        replica = self._agent.replica
        origins = []
        for remote in sorted(replica.remotes.values(), key=lambda item: item.origin):
            if remote.head is not None and remote.record is not None:
                entries = tuple(remote.elements.entries())
                origins.append(OriginSnapshot(remote.head, remote.record, entries))
        own = self._agent.own_snapshot()
        if own is not None:
            origins.append(own)
        return build(
            clusterset=self._agent.config.clusterset,
            cluster=self._agent.config.cluster,
            taken_at=self._agent.clock.wall_ns(),
            origins=sorted(origins, key=lambda item: item.head.origin),
        )

    def config(self) -> Json:
        """See :class:`AgentViews`."""
        return describe(self._agent.config)

    @staticmethod
    def _health(kind: str, cluster: Cluster | None) -> Json:
        if cluster is None:
            return {"kind": kind, "synced": True, "resources": [], "counters": {}}
        health = cluster.health()
        resources = [
            {
                "name": resource.name,
                "synced": resource.synced,
                "last_event_age_seconds": resource.last_event_age,
                "error": resource.error,
            }
            for resource in health.resources
        ]
        counters = dict(sorted(health.counters.items()))
        return {
            "kind": kind,
            "synced": health.synced,
            "resources": resources,
            "counters": counters,
        }

    def status(self) -> Json:
        """See :class:`AgentViews`."""
        agent = self._agent
        ready, reasons = agent.ready()
        peers = self.peers()
        equal = [peer["digest_equal"] for peer in peers if peer["state"] == "connected"]
        converged: bool | None = None
        if equal:
            converged = False if False in equal else True if all(equal) else None
        return {
            "agent": {
                "cluster": agent.config.cluster,
                "clusterset": agent.config.clusterset,
                "region": agent.config.region,
                "instance": agent.replica.me.instance,
                "version": __version__,
                "role": agent.replica.siblings.role,
                "lease_holder": None if agent.leadership is None else agent.leadership.holder,
                "epoch": str(agent.replica.siblings.epoch),
                "started_at": _rfc3339(agent.started_wall_ns),
                "ready": ready,
                "reasons": reasons,
            },
            "converged": converged,
            "digest": agent.replica.announcements.digest().hex(),
            "clusters": self.clusters(),
            "peers": peers,
            "forgotten": agent.replica.members.all_forgotten(),
            "withdrawals_held": self._withdrawals(),
            "source": self._health(agent.config.source.kind, agent.source),
            "target": self._health(agent.config.target.mode, agent.target),
            "problems": agent.condition.problems(),
        }

    def _withdrawals(self) -> list[Json]:
        importer = self._agent.importer
        held = [] if importer is None else importer.withdrawals.held
        return [described_withdrawal(one) for one in held]

    def release(self, cluster: str | None, key: ServiceKey | None) -> list[Json]:
        """See :class:`AgentViews`."""
        if cluster is not None:
            self._agent.replica.steering.check_cluster(cluster)
        importer = self._agent.importer
        return [] if importer is None else importer.release(cluster, key)

    async def decide(self, decision: str, cluster: str) -> Json:
        """See :class:`AgentViews`."""
        return await self._agent.decisions.member(decision, cluster)

    def policies(self) -> list[Json]:
        """See :class:`AgentViews`."""
        rules = self._agent.replica.steering.rules
        return [
            {
                **described(subject),
                "setting": rules.settings[subject],
                "by": rules.cells[subject].by,
                "order": rules.cells[subject].order,
            }
            for subject in sorted(rules.settings)
        ]

    async def steer(self, subject: Subject, setting: Setting) -> Json:
        """See :class:`AgentViews`."""
        return await self._agent.decisions.policy(subject, setting)

    def subscribe(self) -> AsyncIterator[Json]:
        """See :class:`AgentViews`."""
        return self._agent.feed.subscribe()

    def ready(self) -> tuple[bool, list[str]]:
        """See :class:`AgentViews`."""
        return self._agent.ready()

    def healthy(self) -> tuple[bool, list[str]]:
        """See :class:`AgentViews`."""
        return self._agent.condition.healthy()

    def metrics(self) -> bytes:
        """See :class:`AgentViews`."""
        return self._agent.gauges.exposition()


__all__ = ["State", "Views"]
