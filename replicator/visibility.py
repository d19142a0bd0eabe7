"""What is written of a service in the end: its stale policy, then drains and weights.

Silence goes first: where a silent cluster is turned down, a drained one that can be reached keeps
the last ready endpoints.  A policy that nothing configured and no decision names costs nothing;
one that is decided on later judges by what it hears from then on.  Clusters that are not confirmed
in this life (:mod:`replicator.confirmation`) count for what others may lose, and are left as they
are.

Pure; readings are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from clusters.model import Manifest, ServiceKey
from replicator.confirmation import Confirmation
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
        stored: Iterable[str] = (),
    ) -> None:
        """``rule`` is the configured one; ``start`` is the monotonic time at which this life began.

        ``rules()`` is what is decided at present, ``ready_here(key)`` whether our own cluster
        has ready endpoints of a service, ``stored`` are the clusters known from former lives.
        """
        self._rule = rule
        self._start = start
        self._rules = rules
        self._ready_here = ready_here
        self.confirmation = Confirmation(start, stored)
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
        """Whether who was heard changes anything for any service."""
        return self.confirmation.pending or bool(self._arrange())

    def policy(self, key: ServiceKey) -> Policy:
        """The stale policy that holds for a service."""
        return Policy(self._rules().stale_policy(key) or self._rule.policy)

    def review(
        self, fresh_at: Mapping[str, float | None], now: float, *, current: bool
    ) -> list[tuple[str, Show]]:
        """As :meth:`~replicator.staleness.Staleness.review`, for each policy that any service has.

        Returns clusters with what is written of them from now on.
        """
        confirmed = self.confirmation.review(fresh_at, now)
        turned = [
            (cluster, machine.of(cluster))
            for _, machine in sorted(self._arrange().items())
            for cluster in machine.review(fresh_at, now, current=current)
        ]
        return [*((cluster, Show.AS_STATED) for cluster in confirmed), *turned]

    def seen(self, key: ServiceKey, stated: View, written: Sequence[Manifest]) -> Seen:
        """What is to be written of a service, as :meth:`~replicator.staleness.Staleness.seen`."""
        machine = self._arrange().get(self.policy(key))
        seen = Seen(stated) if machine is None else machine.seen(stated, written)
        traffic_of = self._rules().traffic
        here = self._ready_here(key)
        shown = steered(key, seen.endpoints, traffic_of, here=here)
        unconfirmed = self.confirmation.unconfirmed
        if unconfirmed:
            shown = {name: shown[name] for name in shown if name not in unconfirmed}
        held = unconfirmed.union(seen.held)
        return replace(seen, endpoints=shown, held=held, unconfirmed=unconfirmed)
