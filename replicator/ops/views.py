"""What the operator API, the health listener and ``/metrics`` ask of the agent.

The agent implements :class:`AgentViews`; the servers here only carry its answers.  Every answer is
a fresh JSON-able value (texts, integers within 53 bits, floats, booleans, None, lists, dicts with
text keys) that the caller may keep and change.  Stamps, epochs and nanotimes are decimal texts.
All methods are synchronous and show one moment, but :meth:`AgentViews.decide` and
:meth:`AgentViews.steer`, which change what all clusters do; none may block.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from clusters.model import ServiceKey
from replicator.policies import Setting, Subject

Json = dict[str, Any]
"""A JSON object as decoded or to be encoded."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which endpoints are asked for; None means any."""

    namespace: str | None = None
    service: str | None = None
    cluster: str | None = None

    def admits(self, item: Json, origin: str | None) -> bool:
        """Whether ``item``, an ITEM stated by cluster ``origin``, is among them."""
        return (
            self.namespace in {None, item.get("namespace")}
            and self.service in {None, item.get("service")}
            and self.cluster in {None, origin}
        )


class AgentViews(Protocol):
    """Views of a running agent, and what may be asked of it."""

    def status(self) -> Json:
        """The whole ``/v1/status`` document.

        ``converged``, and ``digest_equal`` of a peer, are false only once the digests have been
        seen to differ longer than changes in transit explain, so that churn alone never makes a
        healthy clusterset look bad; null until a first comparison.
        """
        ...

    def peers(self) -> list[Json]:
        """One PEER for each configured or connected peer, sorted by cluster."""
        ...

    def clusters(self) -> list[Json]:
        """One CLUSTER for each origin known or expected, sorted by (cluster, shard)."""
        ...

    def services(self) -> list[Json]:
        """One row per service, sorted by (namespace, service)."""
        ...

    def endpoints(
        self, namespace: str | None, service: str | None, cluster: str | None
    ) -> list[Json]:
        """Visible endpoints as ITEMs in their fixed order; None selects any."""
        ...

    def snapshot(self) -> Json:
        """The committed state as a SNAPSHOT document (:mod:`replicator.snapshots`)."""
        ...

    async def decide(self, decision: str, cluster: str) -> Json:
        """Forget or admit (``decision``) a cluster.

        Returns ``{"cluster", "decision", "elements", "services"}`` with the counts that go from the
        view, once it is on disk.  Raises :class:`~replicator.errors.NotGood` when it may not be,
        :class:`~replicator.errors.InputError` for a cluster never heard of.
        """
        ...

    def policies(self) -> list[Json]:
        """``{"policy", "cluster", "service", "setting", "by", "order"}`` for each decision."""
        ...

    async def steer(self, subject: Subject, setting: Setting) -> Json:
        """Have a policy hold.

        Returns ``{"policy", "cluster", "service", "setting", "changed", "services", "kept"}`` once
        it is on disk: how many services it is about here, and of how many the last ready endpoints
        stay ready.  Raises as :meth:`decide`.
        """
        ...

    def release(self, cluster: str | None, key: ServiceKey | None) -> list[Json]:
        """Carry out withdrawals that this agent holds back now, of any cluster or service if None.

        Returns ``{"service", "cluster", "removed", "written"}`` for each.  Raises as :meth:`decide`
        for a cluster that is forgotten or was never heard of.
        """
        ...

    def config(self) -> Json:
        """The configuration in force, without secrets."""
        ...

    def subscribe(self) -> AsyncIterator[Json]:
        """Changes from now on, as ``{"op", "item", "origin", "committed_at", "convergence_ms"}``.

        Subscribed when this returns, not at the first step.  The iterator raises
        :class:`~replicator.ops.broadcast.LaggedError` when its reader is too slow;
        :class:`~replicator.ops.broadcast.Broadcast` does both.
        """
        ...

    def ready(self) -> tuple[bool, list[str]]:
        """Whether traffic and rollouts may rely on this agent, and why not."""
        ...

    def healthy(self) -> tuple[bool, list[str]]:
        """Whether the process works (else a kubelet should restart it), and why not."""
        ...

    def metrics(self) -> bytes:
        """The Prometheus exposition (:meth:`replicator.ops.metrics.Metrics.exposition`)."""
        ...
