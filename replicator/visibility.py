"""What is written of a service in the end: its stale policy, then drains and weights.

Silence goes first: where a silent cluster is turned down, a drained one that can be reached keeps
the last ready endpoints.  A policy that nothing configured and no decision names costs nothing;
one that is decided on later judges by what it hears from then on.

Pure; readings are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clusters.model import Manifest, ServiceKey
from replicator.policies import Rules
from replicator.staleness import Policy, Rule, Seen, Show, Staleness, View
from replicator.traffic import steered


class Visibility:
    """How much consumers are shown of each cluster."""

    def __init__(
        self,
        rule: Rule,
        start: float,
        rules: Callable[[], Rules],
        ready_here: Callable[[ServiceKey], bool],
    ) -> None:
        """``rule`` is the configured one; ``start`` is the monotonic time at which this life began.

        ``rules()`` is what is decided at present, ``ready_here(key)`` whether our own cluster
        has ready endpoints of a service.
        """
        self._rule = rule
        self._start = start
        self._rules = rules
        self._ready_here = ready_here
        self._machines: dict[Policy, Staleness] = {}
        self._arrange()

    def _arrange(self) -> dict[Policy, Staleness]:
        """A machine for each policy that is configured or decided on, and no other."""
        wanted = {self._rule.policy, *map(Policy, self._rules().stale_policies)} - {Policy.KEEP}
        for policy in self._machines.keys() - wanted:
            del self._machines[policy]
        for policy in wanted - self._machines.keys():
            rule = replace(self._rule, policy=policy)
            self._machines[policy] = Staleness(rule, self._start)
        return self._machines

    @property
    def reviews(self) -> bool:
        """Whether silence changes anything for any service."""
        return bool(self._arrange())

    def policy(self, key: ServiceKey) -> Policy:
        """The stale policy that holds for a service."""
        return Policy(self._rules().stale_policy(key) or self._rule.policy)

    def review(
        self, fresh_at: Mapping[str, float | None], now: float, *, current: bool
    ) -> list[tuple[str, Show]]:
        """As :meth:`~replicator.staleness.Staleness.review`, for each policy that any service has.

        Returns clusters with what is written of them from now on.
        """
        return [
            (cluster, machine.of(cluster))
            for _, machine in sorted(self._arrange().items())
            for cluster in machine.review(fresh_at, now, current=current)
        ]

    def seen(self, key: ServiceKey, stated: View, written: Sequence[Manifest]) -> Seen:
        """What is to be written of a service, as :meth:`~replicator.staleness.Staleness.seen`."""
        machine = self._arrange().get(self.policy(key))
        seen = Seen(stated) if machine is None else machine.seen(stated, written)
        traffic_of = self._rules().traffic
        here = self._ready_here(key)
        return replace(seen, endpoints=steered(key, seen.endpoints, traffic_of, here=here))
