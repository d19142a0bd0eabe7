"""What operators decide at an agent: who is a member, and where traffic goes.

Each decision is on disk before it is answered; asking again for what is so already waits for that
too, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.model import ServiceKey
from replicator.errors import ReplicatorError
from replicator.policies import UNTOUCHED, Setting, Subject, described, topic_about
from replicator.traffic import steered

if TYPE_CHECKING:
    from replicator.agent import Agent

_STORED_SECONDS = 10.0
_LOOK_SECONDS = 0.01


class Decisions:
    """Carries out decisions at one agent."""

    def __init__(self, agent: Agent) -> None:
        """Decide at ``agent``."""
        self._agent = agent
        self.stored_seconds = _STORED_SECONDS
        """How long a decision may take to reach the disk before the operator is told."""

    async def member(self, decision: str, cluster: str) -> dict[str, Any]:
        """Forget or admit a cluster; returns when that is on disk.

        Raises what :meth:`~replicator.members.Members.decide` does, ``not_the_writer`` and
        ``decision_not_stored``.
        """
        agent = self._agent
        now, replica = agent.clock.monotonic(), agent.replica
        self._check_role(now)
        decided = replica.members.decide(decision, cluster, now)
        if decided.cell is not None:
            agent.perform(replica.learn({cluster: decided.cell}, now, agent.clock.wall_ns()))
        await self._stored()
        counts = {"elements": decided.elements, "services": decided.services}
        return {"cluster": cluster, "decision": decision, **counts}

    async def policy(self, subject: Subject, setting: Setting) -> dict[str, Any]:
        """Have ``setting`` hold for ``subject``; returns when that is on disk.

        Raises what :meth:`~replicator.steering.Steering.decide` does, ``not_the_writer`` and
        ``decision_not_stored``.
        """
        agent = self._agent
        self._check_role(agent.clock.monotonic())
        steering = agent.replica.steering
        cell = steering.decide(subject, setting)
        if cell is not None:
            news = {topic_about(subject): cell}
            agent.perform(agent.replica.steer(news, agent.clock.wall_ns()))
        await self._stored()
        keys = steering.services_of(subject)
        return {
            **described(subject),
            "setting": setting,
            "changed": cell is not None,
            "services": len(keys),
            "kept": sum(1 for key in keys if self._is_kept(subject.cluster, key)),
        }

    def _check_role(self, now: float) -> None:
        """Decisions are stated in the cluster's own origin, which its writer alone may change."""
        leadership = self._agent.leadership
        if leadership is not None and not self._agent.replica.siblings.leads(now):
            cure = f"ask the writer: instance {leadership.holder or 'unknown, none leads now'}"
            message = "this agent stands by and decides nothing"
            raise ReplicatorError(message, cure=cure, code="not_the_writer")

    def _is_kept(self, cluster: str, key: ServiceKey) -> bool:
        """Whether endpoints stay ready for being the last ones of their service."""
        traffic_of = self._agent.replica.steering.rules.traffic
        traffic = traffic_of(cluster, key) if cluster else UNTOUCHED
        if not traffic.drained and traffic.weight:
            return False
        here = self._agent.replica.own.index.has_ready(key)
        shown = steered(key, self._agent.others.view(key), traffic_of, here=here)
        return any(endpoint.ready for endpoint in shown.get(cluster, ()))

    async def _stored(self) -> None:
        """Wait until all that our origin states by now is on disk."""
        agent = self._agent
        own, clock = agent.replica.own, agent.clock
        stamp = own.clean_stop()
        until = clock.monotonic() + self.stored_seconds
        while clock.monotonic() < until:
            head = own.published_head
            if head is not None and (head.stamp >= stamp or not (own.dirty or own.sealing)):
                return
            await clock.sleep(_LOOK_SECONDS)
        why = agent.publisher.failing or "this agent has not published yet"
        message = f"decided, but not stored and not told to others yet: {why}"
        raise ReplicatorError(message, cure="see replicator status", code="decision_not_stored")
