"""Follows every region's watch, each in a thread, since the command's client waits as it reads.

The threads end with the agents they watch.  A watch that ends while its agent lives is told by
:meth:`Watchers.check`: figures of which a part is missing are not shown.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from replicator.demo.lag import Sample, sample_of
from replicator.errors import NotGood, ReplicatorError
from replicator.ops.client import AgentClient
from replicator.ops.views import Selection

_KEPT = 500_000
"""Samples: five regions with ten changes a second each make so many in forty minutes."""
_RECENT = 20_000
"""Samples looked at for what was committed lately."""


class Watchers:
    """One thread a region."""

    def __init__(self, clients: Mapping[str, AgentClient]) -> None:
        """Nothing is followed before :meth:`start`."""
        self._samples: list[Sample] = []  # appended to and sliced, each of which is atomic
        self._failed: dict[str, str] = {}
        self._threads = [
            threading.Thread(target=self._follow, args=pair, name=f"watch-{pair[0]}", daemon=True)
            for pair in clients.items()
        ]

    def start(self) -> None:
        """Begin to follow."""
        for thread in self._threads:
            thread.start()

    def _follow(self, region: str, client: AgentClient) -> None:
        try:
            for change in client.watch(Selection()):
                sample = sample_of(region, change)
                if sample is not None:
                    self._samples.append(sample)
                if len(self._samples) > 2 * _KEPT:
                    del self._samples[:_KEPT]
        except ReplicatorError as error:
            self._failed[region] = str(error)

    def check(self) -> None:
        """Raise :class:`NotGood` if a watch has ended."""
        for region, why in sorted(self._failed.items()):
            message = f"the watch of {region} has ended: {why}"
            raise NotGood(message)

    def samples(self) -> list[Sample]:
        """Everything heard so far, or the last half million and more of it."""
        return self._samples[:]

    def since(self, wall_ns: int) -> list[Sample]:
        """What was committed since a moment not long ago; Unix nanoseconds."""
        return [sample for sample in self._samples[-_RECENT:] if sample.committed_at >= wall_ns]
