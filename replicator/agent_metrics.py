"""Reads an agent's parts into its metrics when a scrape asks.

Gauges are set from what the parts show now; monotone counts are absorbed, so nothing is counted
twice however often a scrape comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replicator.agent import Agent

_NS = 1e-9


class Gauges:
    """The numbers of one agent."""

    def __init__(self, agent: Agent) -> None:
        """Read from ``agent`` into ``agent.metrics``."""
        self._agent = agent
        self._served: dict[int, tuple[int, int]] = {}
        self._ended: set[str] = set()
        """Forgotten clusters whose series were ended."""

    def exposition(self) -> bytes:
        """The Prometheus exposition of this moment."""
        self._origins()
        self._peers()
        self._parts()
        forgotten = set(self._agent.replica.members.all_forgotten())
        for cluster in forgotten - self._ended:
            self._agent.metrics.forget(cluster)
        self._ended = forgotten
        return self._agent.metrics.exposition()

    def _origins(self) -> None:
        metrics = self._agent.metrics
        for row in self._agent.views.clusters():
            cluster = row["cluster"]
            metrics.expect_origin(cluster)
            metrics.set("tombstones", row["tombstones"], origin=cluster)
            metrics.set("addresses_hidden", row["addresses_hidden"], origin=cluster)
            metrics.set("origin_staleness_seconds", row["staleness_seconds"] or 0, origin=cluster)
            metrics.set("head_age_seconds", row["head_age_seconds"] or 0, origin=cluster)
            metrics.set_elements(cluster, "endpoint", row["elements"])

    def _peers(self) -> None:
        agent, metrics = self._agent, self._agent.metrics
        connected = set()
        for session in agent.replica.sessions.values():
            if session.peer is None or session.cluster == agent.config.cluster:
                continue
            connected.add(session.cluster)
            metrics.expect_peer(session.cluster)
            metrics.set("peer_rtt_seconds", session.rtt_ns * _NS, peer=session.cluster)
            metrics.set("clock_skew_seconds", session.offset_ns * _NS, cluster=session.cluster)
            self._bytes(session.number, session.cluster)
        for peer in connected | agent.others.expected():
            metrics.set("peer_connected", float(peer in connected), peer=peer)

    def _bytes(self, number: int, cluster: str) -> None:
        link = self._agent.links.link_of(number)
        if link is None:
            return
        sent, received = self._served.get(number, (0, 0))
        self._served[number] = (link.bytes_sent, link.bytes_received)
        self._agent.metrics.session_bytes(cluster, "sent", link.bytes_sent - sent)
        self._agent.metrics.session_bytes(cluster, "received", link.bytes_received - received)

    def _parts(self) -> None:
        agent, metrics = self._agent, self._agent.metrics
        metrics.set("queue_depth", len(agent.exports), queue="export")
        metrics.set("queue_depth", len(agent.imports), queue="import")
        metrics.set("load_score", agent.load.score)
        metrics.set("ready", float(agent.ready()[0]))
        metrics.set("leading", float(agent.replica.siblings.leads(agent.clock.monotonic())))
        metrics.set("epoch", float(agent.replica.siblings.epoch))
        expires = agent.tls.credentials.expires_at.timestamp()
        metrics.set("cert_expiry_seconds", expires - agent.clock.wall_ns() * _NS)
        metrics.absorb("tls", {"tls_reload_errors_total": agent.tls.reload_errors})
        repairs = agent.replica.repairs
        metrics.absorb(
            "replica",
            {
                "digest_mismatch_total": agent.replica.mismatches,
                "digest_repair_total": repairs.begun,
                "audits_total": repairs.auditor.done,
                "audit_failures_total": repairs.auditor.failures,
            },
        )
        for origin, remote in sorted(agent.replica.remotes.items()):
            count = {f'equivocations{{origin="{origin.cluster}"}}': remote.equivocations}
            metrics.absorb(f"origin/{origin.shard}", count)
        metrics.absorb("source", agent.source.health().counters)
        if agent.target is not None and agent.target is not agent.source:
            metrics.absorb("target", agent.target.health().counters)
        importer = agent.importer
        if importer is not None:
            metrics.set("imports_waiting", len(importer.waiting), reason="namespace")
            metrics.set("withdrawals_held", len(importer.withdrawals.held))
            metrics.absorb("importer", importer.counters())
