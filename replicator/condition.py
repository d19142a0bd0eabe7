"""What an agent says of its own condition: ready, healthy, and what a person should look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator.conflicts import equivocation_problems
from replicator.repairs import rot_problems

if TYPE_CHECKING:
    from replicator.agent import Agent

_SHEDDING = "the load is so high that clusters without a link to this agent are turned away"
_MORE = "give it more CPU, or see what changes so much: `replicator watch`"


class Condition:
    """Readings of one agent."""

    def __init__(self, agent: Agent) -> None:
        """Read from ``agent``."""
        self._agent = agent

    def ready(self) -> tuple[bool, list[str]]:
        """Whether traffic and rollouts may rely on this agent, and why not."""
        agent = self._agent
        reasons = []
        if agent.draining:
            reasons.append("draining")
        if not agent.source.health().synced:
            reasons.append("source_not_listed")
        if agent.target is not None and not agent.target.health().synced:
            reasons.append("target_not_listed")
        if not agent.replica.own.leading:
            if not agent.replica.siblings.warm:
                reasons.append("awaiting_the_writer")
        elif agent.replica.own.head is None:
            reasons.append("nothing_published")
        if agent.others.expected() and not any(r.known for r in agent.others.remotes()):
            reasons.append("awaiting_first_full_state")
        elif not agent.replica.announcements.relaying:
            reasons.append("catching_up")
        if agent.publisher.failing is not None:
            reasons.append("journal_failing")
        return not reasons, reasons

    def healthy(self) -> tuple[bool, list[str]]:
        """Whether the process works, and why not."""
        failed = getattr(self._agent.source, "failed_tasks", None)
        names = [] if failed is None else [f"watch_task_failed: {name}" for name in failed()]
        names += [] if self._agent.importer is None else self._agent.importer.stuck()
        return not names, names

    def problems(self) -> list[dict[str, str]]:
        """What a person should look at, with its cure."""
        agent = self._agent
        found = [
            {"code": "journal_failing", "message": failing, "cure": ""}
            for failing in (agent.publisher.failing, agent.recorder.failing)
            if failing is not None
        ]
        found += agent.replica.quarantine.problems(agent.clock.wall_ns())
        found += agent.replica.own.rivals.problems(agent.config.cluster, agent.clock.monotonic())
        found += equivocation_problems(agent.replica.remotes)
        found += rot_problems(agent.replica.remotes)
        if agent.load.shedding:
            found.append({"code": "shedding", "message": _SHEDDING, "cure": _MORE})
        me = agent.config.cluster
        if agent.replica.members.forgotten(me):
            told = agent.replica.members.refusal(me)
            found.append({"code": told.code, "message": told.message, "cure": told.cure})
        lease = None if agent.leadership is None else agent.leadership.failing
        if lease is not None:
            found.append({"code": lease.code, "message": lease.message, "cure": lease.cure})
        return found if agent.importer is None else found + agent.importer.problems()
