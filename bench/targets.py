"""What each figure is to reach, and whether it does.

``first`` is what the first version is held to, ``full`` what the finished product is; either may be
missing.  ``path`` finds the figure in the raw results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """One figure and what it is measured against."""

    row: str
    path: str
    what: str
    unit: str
    first: float | None = None
    full: float | None = None
    at_least: bool = False
    """The figure must not be lower (a rate); otherwise it must not be higher."""

    def met(self, value: float, wanted: float) -> bool:
        """Whether ``value`` is as good as ``wanted``."""
        return value >= wanted if self.at_least else value <= wanted

    def verdict(self, value: float | None) -> str:
        """One word or two for the table."""
        if value is None:
            return "not measured"
        if self.first is None and self.full is None:
            return "no aim"
        if self.full is not None and self.met(value, self.full):
            return "reached"
        if self.first is None:
            return "missed"
        if self.met(value, self.first):
            return "reached" if self.full is None else "first reached, full missed"
        return "missed"


TARGETS = (
    Target(
        *("a", "a.merge.commit_bulk_delta.per_second"),
        "merge of a bulk delta, replica's side",
        "changes/s of CPU",
        full=400_000,
        at_least=True,
    ),
    Target(
        *("a", "a.merge.commit_batches_of_100.per_second"),
        "merge of batches of 100, replica's side",
        "changes/s of CPU",
    ),
    Target(
        *("a", "a.merge.advance_batches_of_100.per_second"),
        "batches of 100, owner's side with root",
        "changes/s of CPU",
    ),
    Target(
        *("a", "a.merge.since_bulk.per_second"),
        "delta cut out of a set",
        "entries/s of CPU",
    ),
    Target(
        *("b", "b.at_50.worst_over_delay.p99"),
        "50 changes/s per region: p99 over the one-way delay, slowest pair",
        "ms",
        first=100,
    ),
    Target(
        *("b", "b.at_50.worst_over_delay.p50"),
        "50 changes/s per region: p50 over the one-way delay, slowest pair",
        "ms",
    ),
    Target(
        *("b", "b.at_100.worst_over_delay.p50"),
        "100 changes/s per region: p50 over the one-way delay, slowest pair",
        "ms",
        full=10,
    ),
    Target(
        *("b", "b.at_100.worst_over_delay.p99"),
        "100 changes/s per region: p99 over the one-way delay, slowest pair",
        "ms",
        full=50,
    ),
    Target(
        *("c", "c.wide.source_events_per_second"),
        "sustained, before collapsing (source events)",
        "events/s",
        first=10_000,
        full=40_000,
        at_least=True,
    ),
    Target(
        *("c", "c.wide.committed_per_second"),
        "sustained, after collapsing (committed at the receiver)",
        "changes/s",
        first=10_000,
        at_least=True,
    ),
    Target(
        *("c", "c.wide.committed_per_receiver_cpu_second"),
        "the same, per CPU second of the receiver",
        "changes/s",
    ),
    Target(
        *("d", "d.lone.bytes_per_change"),
        "a lone change to all four others, all links",
        "bytes",
        full=2_000,
    ),
    Target(
        *("d", "d.steady.bytes_per_change"),
        "a change in the stream of one link at 5,000/s",
        "bytes",
        full=20,
    ),
    Target(
        *("d", "c.wide.bytes_per_change"),
        "a change in the stream of one link at capacity",
        "bytes",
        full=20,
    ),
    Target(
        *("d", "d.idle.bytes_per_second_per_link"),
        "a quiet link among five regions, both directions",
        "bytes/s",
        full=250,
    ),
    Target(
        *("e", "e.set.tracemalloc.bytes_per_element"),
        "memory per element at 100,000, the set alone (allocated)",
        "bytes",
        first=600,
        full=300,
    ),
    Target(
        *("e", "e.set.resident.bytes_per_element"),
        "the same, resident",
        "bytes",
        first=600,
        full=300,
    ),
    Target(
        *("e", "e.agent.receiver_bytes_per_element"),
        "an agent that holds 100,000 remote elements above an empty one, resident",
        "bytes",
        first=600,
        full=400,
    ),
    Target(
        *("e", "e.agent.source_bytes_per_element"),
        "the agent they come from above an empty one, simulated cluster included",
        "bytes",
    ),
    Target(
        *("f", "f.random.of_100.packed.bytes_per_change"),
        "a frame of 100 changes all over 1,000 services, signed head included",
        "bytes/change",
        full=20,
    ),
    Target(
        *("f", "f.rolling.of_100.packed.bytes_per_change"),
        "a frame of 100 changes of a rolling deploy, signed head included",
        "bytes/change",
        full=8,
    ),
    Target(
        *("f", "f.random.of_1.packed.bytes_per_frame"),
        "a frame of a lone change, signed head included",
        "bytes",
    ),
    Target(
        *("g", "g.longest_cpu_ms"),
        "longest step of the event loop at 1,000,000 elements, CPU",
        "ms",
        full=50,
    ),
    Target(
        *("g", "g.longest_late_ms"),
        "the same as the loop feels it, with the journal's thread beside it",
        "ms",
        full=50,
    ),
    Target(
        *("h", "h.at_100.worst_over_delay.p50"),
        "100 changes/s per region: p50 over the one-way delay, slowest pair",
        "ms",
        full=10,
    ),
    Target(
        *("h", "h.at_100.worst_over_delay.p99"),
        "100 changes/s per region: p99 over the one-way delay, slowest pair",
        "ms",
        full=50,
    ),
    Target(
        *("h", "h.at_20.worst_over_delay.p50"),
        "20 changes/s per region: p50 over the one-way delay, slowest pair",
        "ms",
    ),
    Target(
        *("h", "h.at_20.worst_over_delay.p99"),
        "20 changes/s per region: p99 over the one-way delay, slowest pair",
        "ms",
    ),
    Target(
        *("h", "h.at_20_with_loss.worst.p99"),
        "20 changes/s per region and 1 % loss: p99, slowest pair",
        "ms",
        full=600,
    ),
    Target(
        *("h", "h.wire.lone_bytes"),
        "a lone change to all four others, on the wire, acknowledgements included",
        "bytes",
        full=2_000,
    ),
    Target(
        *("h", "h.wire.lone_packets"),
        "the same",
        "packets",
        full=10,
    ),
    Target(
        *("h", "h.wire.quiet_bytes_per_second_per_link"),
        "a quiet link, on the wire, both directions",
        "bytes/s",
        full=250,
    ),
    Target(
        *("h", "h.heal.seconds"),
        "1,000 changes missed in a cut of 60 s: all hold the same after the heal",
        "s",
        full=3.0,  # redial interval (1.5 s at most), five round trips of 260 ms, and 0.2 s
    ),
    Target(
        *("kubernetes", "kubernetes.latency.over_delay.p50"),
        "API event to slice beyond at 20 changes/s: p50 over the one-way delay",
        "ms",
        full=15,
    ),
    Target(
        *("kubernetes", "kubernetes.latency_preferred.over_delay.p50"),
        "the same, preferred to what else runs on the machine",
        "ms",
        full=15,
    ),
    Target(
        *("kubernetes", "kubernetes.latency.over_delay.p99"),
        "API event to slice beyond at 20 changes/s: p99 over the one-way delay",
        "ms",
        full=60,
    ),
    Target(
        *("kubernetes", "kubernetes.latency_preferred.over_delay.p99"),
        "the same, preferred to what else runs on the machine",
        "ms",
        full=60,
    ),
    Target(
        *("kubernetes", "kubernetes.one_of_many.per_change.elements"),
        "one changed endpoint of 10,000: elements committed beyond",
        "elements",
        full=1,
    ),
    Target(
        *("kubernetes", "kubernetes.one_of_many.per_change.slices_written"),
        "the same: slices written beyond",
        "slices",
        full=1,
    ),
    Target(
        *("kubernetes", "kubernetes.one_of_many.per_change.bytes_sent"),
        "the same: bytes on the link towards it",
        "bytes",
    ),
    Target(
        *("kubernetes", "kubernetes.one_of_many.per_change.cpu_ms_source"),
        "the same: CPU of the agent it comes from",
        "ms",
        full=5,
    ),
    Target(
        *("kubernetes", "kubernetes.one_of_many.per_change.cpu_ms_target"),
        "the same: CPU of the agent that writes it",
        "ms",
        full=5,
    ),
    Target(
        *("kubernetes", "kubernetes.first_sync.seconds_from_first_slice"),
        "first sync of 20,000 endpoints in 2,000 services, first slice to last"
        " (what the write budget leaves beside 20 changes/s: 63 s)",
        "s",
        full=65,
    ),
    Target(
        *("kubernetes", "kubernetes.first_sync.live_over_delay.p99"),
        "live changes meanwhile: p99 over the one-way delay",
        "ms",
        full=500,
    ),
    Target(
        *("kubernetes", "kubernetes.first_sync.live_over_delay.max"),
        "live changes meanwhile: slowest over the one-way delay",
        "ms",
        full=500,
    ),
    Target(
        *("kubernetes", "kubernetes.first_sync.mebibytes_resident.a"),
        "memory of the agent that has 20,000 endpoints itself",
        "MiB",
    ),
    Target(
        *("kubernetes", "kubernetes.first_sync.mebibytes_resident.b"),
        "memory of the agent that has them written",
        "MiB",
    ),
)

UNMEASURED = (
    ("local acknowledgement: one fsync and 3 ms", "the journal's own seconds are in `status`"),
    ("a heal after 100,000 missed changes", "row (g) has the receiver's part"),
    ("bootstrap of 1,000,000 elements within 20 s", "row (g) has the receiver's part"),
    ("40,000 changes/s through one agent", "row (c) is that path"),
    ("1,000,000 elements in 400 MB above the empty agent", "row (e) at 100,000 elements"),
    ("failover seen through kube-proxy", "needs nodes: the API servers used here have none"),
    ("a lost message is repaired within 0.5 s", "held by tests in virtual time"),
    ("failure detection within 5 and 25 s, none false at 5 % loss", "held by tests and simulation"),
    ("an hour of five regions in a CPU minute of simulation", "not counted here"),
    ("other programs side by side in the same run", "none is run"),
)
"""What the product is to reach and no row measures, and what there is instead."""


def look_up(results: Mapping[str, Any], path: str) -> float | None:
    """The figure at a dotted path, None where a row was not run."""
    found: Any = results
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return None if found is None else float(found)
