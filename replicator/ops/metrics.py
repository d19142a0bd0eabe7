"""The agent's numbers, for Prometheus (operations.md section 5).

One :class:`Metrics` per agent with a registry of its own, so several agents may live in one
process. Every metric is exposed from the first scrape, and every series whose labels are known
beforehand (our cluster, the configured peers, the closed sets of reasons and stages) starts at 0,
so an alert on a rise sees the first one.  Seconds everywhere; names carry the prefix
``replicator_``.

Series by origin and peer are as many as clusters are known; :meth:`Metrics.forget` ends them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of :meth:`Metrics.exposition`."""

DIRECTIONS = ("received", "sent")
STAGES = ("publish", "write")
"""Of ``propagation_seconds``: at its origin, from when the first change of a batch was seen until
the batch was durable and told; where it arrives, planning and writing its service.  What lies
between is the difference to ``convergence_seconds``.
"""

_PREFIX = "replicator"
_FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_WIDE = (
    *(0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3),
    *(0.4, 0.5, 0.75, 1.0, 2.0, 5.0, 15.0, 60.0, 300.0),
)

_ORIGIN = "origin"
_PEER = "peer"
_KNOWN_LABELS: dict[str, tuple[str, ...]] = {
    "direction": DIRECTIONS,
    "stage": STAGES,
    "kind": ("cluster", "endpoint", "export"),
    "store": ("own", "remote"),
    "queue": ("export", "import"),
}


@dataclass(frozen=True, slots=True)
class _Spec:
    """A metric: what it tells, its labels, and label sets to start with beyond the known ones."""

    text: str
    labels: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    buckets: tuple[float, ...] = _FAST


_COUNTERS: dict[str, _Spec] = {
    "digest_mismatch": _Spec("Commits refused because count or root differed from the head's."),
    "equivocations": _Spec("Times another signed state of a version was met.", (_ORIGIN,)),
    "digest_repair": _Spec("Repairs begun because what is held is not what was signed."),
    "audits": _Spec("Origins looked at, whether what is held is what was signed."),
    "audit_failures": _Spec("Audits that found something wrong."),
    "session_bytes": _Spec("Bytes over peer links.", (_PEER, "direction")),
    "watch_relists": _Spec(
        "Full listings of the source, by cause.",
        ("reason",),
        (
            *("audit", "decode", "gone", "line_too_long", "not_found", "start"),
            "too_large_version",
        ),
    ),
    "watch_stalls": _Spec("Watches ended because nothing arrived before their deadline."),
    "watch_bad_object": _Spec("Watched objects that are not what they should be; left out."),
    "watch_line_too_long": _Spec("Watch events beyond the size limit; listed instead."),
    "watch_history_rewound": _Spec("Times the source went back in time and was listed anew."),
    "watch_unknown_event": _Spec("Watch events of a type we do not know; ignored."),
    "watch_task_restarts": _Spec("Watch tasks that died and were started again."),
    "watch_errors": _Spec(
        "Watches and lists that failed, by cause.",
        ("reason",),
        (
            *("api_error", "api_forbidden", "api_not_found", "api_throttled", "api_unauthorized"),
            *("bad_list", "watch_line_too_long", "watch_silent"),
        ),
    ),
    "queue_retries": _Spec("Keys put back after a failure.", ("queue",)),
    "materialize_errors": _Spec(
        "Writes that the target refused, by cause.",
        ("reason",),
        ("conflict", "refused", "unavailable"),
    ),
    "materialize_fight": _Spec("Objects of ours that somebody else keeps changing back."),
    "watchdog": _Spec("Times that writing a service was given up because nothing moved."),
    "materialize_writes": _Spec(
        "Writes to the target that were done, by operation.",
        ("operation",),
        ("create", "delete", "update"),
    ),
    "tls_reload_errors": _Spec("Certificate pairs that were not taken into use."),
    "encode_skipped": _Spec(
        "Things in the source that are not replicated, by cause.",
        ("reason",),
        (
            *("address_type", "bad_endpoint", "bad_port", "bad_ports", "bad_service_label", "fqdn"),
            *("imported", "leader_election", "no_ports", "no_service_label", "own_output"),
        ),
    ),
    "encode_rejected": _Spec(
        "Endpoint addresses that must not travel, by cause.",
        ("reason",),
        (
            *("broadcast", "family_mismatch", "ipv4_compatible", "ipv4_mapped", "leading_zero"),
            *("link_local", "loopback", "multicast", "not_an_address", "unspecified", "zone_id"),
        ),
    ),
    "encode_suspect_loop": _Spec(
        "New endpoints of ours that another cluster states, too: perhaps our output; exported."
    ),
    "merge_same_tag_conflict": _Spec("Two different entries met under one stamp."),
    "protocol_errors": _Spec(
        "Links closed because the peer broke the protocol, by code.", ("code",)
    ),
    "changes": _Spec("Elements added, changed or removed by commits here.", (_ORIGIN,)),
}

_GAUGES: dict[str, _Spec] = {
    "origin_staleness_seconds": _Spec(
        "Age of the newest sign of life of an origin beyond its beat.", (_ORIGIN,)
    ),
    "elements": _Spec("Live elements committed here.", (_ORIGIN, "kind")),
    "addresses_hidden": _Spec(
        "Endpoints committed and never shown: addresses that must not travel, or not allowed.",
        (_ORIGIN,),
    ),
    "tombstones": _Spec("Removes kept for replicas that lag.", (_ORIGIN,)),
    "head_age_seconds": _Spec("Time since an origin's head was last issued anew.", (_ORIGIN,)),
    "peer_connected": _Spec("1 while a link to the peer is up.", (_PEER,)),
    "peer_rtt_seconds": _Spec("Round trip to the peer, least of the last beats.", (_PEER,)),
    "clock_skew_seconds": _Spec("The cluster's wall clock minus ours.", ("cluster",)),
    "watch_last_event_age_seconds": _Spec(
        "Time since a watched resource last spoke.", ("resource",)
    ),
    "queue_depth": _Spec("Keys waiting.", ("queue",)),
    "imports_waiting": _Spec(
        "Services not written yet, by what they wait for.", ("reason",), ("namespace",)
    ),
    "withdrawals_held": _Spec("Services and clusters of which a mass withdrawal is held back."),
    "event_loop_lag_seconds": _Spec("How late the event loop last woke."),
    "load_score": _Spec("0 to 100: 0.6 x CPU + 0.4 x queue depth."),
    "cert_expiry_seconds": _Spec("Time until our own certificate expires; negative afterwards."),
    "source_file_errors": _Spec("Times a source file did not parse; its last good content stays."),
    "source_truncated": _Spec("1 while the source says that it shows only part of a service."),
    "ready": _Spec("1 while /readyz answers 200."),
    "leading": _Spec("1 while this agent writes its cluster's origin; 0 while it stands by."),
    "epoch": _Spec("The highest epoch of our own origin that this agent wrote or holds."),
}

_HISTOGRAMS: dict[str, _Spec] = {
    "convergence_seconds": _Spec(
        "From the observation of a change at its origin to its commit here, offset-corrected.",
        (_ORIGIN,),
        buckets=_WIDE,
    ),
    "propagation_seconds": _Spec("Time a change spends in one stage.", ("stage",), buckets=_WIDE),
    "reconcile_seconds": _Spec("One pass over one service.", ("queue",)),
    "journal_commit_seconds": _Spec("One transaction of the journal.", ("store",)),
}

_SERIES = re.compile(r'([a-z_]+?)(?:_total)?(?:\{([a-z_]+)="([^"]*)"\})?', re.ASCII)


class _WithoutCreated(Collector):
    """A registry's metrics less the ``_created`` samples, which double the series for nobody."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            kept = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            metric.samples = kept
            yield metric


class Metrics:
    """All metrics of one agent.  Names are given without prefix and without ``_total``.

    A name or label that is not in the tables above is the caller's defect: KeyError or ValueError.
    """

    def __init__(self, cluster: str, peers: Iterable[str] = ()) -> None:
        """Start every series known beforehand for ``cluster`` and the configured ``peers``."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._exposed = CollectorRegistry(auto_describe=False)
        self._exposed.register(_WithoutCreated(self._registry))
        self._counters = {
            name: Counter(name, spec.text, spec.labels, namespace=_PREFIX, registry=self._registry)
            for name, spec in _COUNTERS.items()
        }
        self._gauges = {
            name: Gauge(name, spec.text, spec.labels, namespace=_PREFIX, registry=self._registry)
            for name, spec in _GAUGES.items()
        }
        self._histograms = {
            name: Histogram(
                name,
                spec.text,
                spec.labels,
                namespace=_PREFIX,
                registry=self._registry,
                buckets=spec.buckets,
            )
            for name, spec in _HISTOGRAMS.items()
        }
        self._absolute: dict[tuple[str, str], int] = {}
        self.expect_origin(cluster)
        for peer in peers:
            self.expect_origin(peer)
            self.expect_peer(peer)

    def expect_origin(self, cluster: str) -> None:
        """Start the series of an origin that is now known, at 0."""
        self._expect({_ORIGIN: (cluster,)})

    def expect_peer(self, cluster: str) -> None:
        """Start the series of a peer that is now known, at 0."""
        self._expect({_PEER: (cluster,), "cluster": (cluster,)})

    def _expect(self, values: Mapping[str, tuple[str, ...]]) -> None:
        for metric, spec in self._all():
            known = {**_KNOWN_LABELS, **values, "reason": spec.reasons, "operation": spec.reasons}
            for labels in _combinations(spec.labels, known):
                metric.labels(**labels)

    def forget(self, cluster: str) -> None:
        """End the series of a cluster that left."""
        for metric, spec in self._all():
            for label in {_ORIGIN, _PEER, "cluster"}.intersection(spec.labels):
                metric.remove_by_labels({label: cluster})

    def _all(self) -> Iterator[tuple[Counter | Gauge | Histogram, _Spec]]:
        for name, spec in _COUNTERS.items():
            yield self._counters[name], spec
        for name, spec in _GAUGES.items():
            yield self._gauges[name], spec
        for name, spec in _HISTOGRAMS.items():
            yield self._histograms[name], spec

    def inc(self, name: str, amount: float = 1, **labels: str) -> None:
        """Raise the counter ``name`` by ``amount`` (not negative)."""
        counter = self._counters[name.removesuffix("_total")]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set the gauge ``name``."""
        gauge = self._gauges[name]
        (gauge.labels(**labels) if labels else gauge).set(value)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Count ``seconds`` in the histogram ``name``; a negative time counts as 0."""
        histogram = self._histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(max(0.0, seconds))

    def observe_convergence(self, origin: str, seconds: float) -> None:
        """A change of ``origin`` was committed here ``seconds`` after it was observed there."""
        self.observe("convergence_seconds", seconds, origin=origin)

    def observe_stage(self, stage: str, seconds: float) -> None:
        """A change spent ``seconds`` in ``stage``, one of :data:`STAGES`."""
        self.observe("propagation_seconds", seconds, stage=stage)

    def observe_commit(self, store: str, seconds: float) -> None:
        """A journal transaction of ``store`` (own or remote) took ``seconds``."""
        self.observe("journal_commit_seconds", seconds, store=store)

    def observe_reconcile(self, queue: str, seconds: float) -> None:
        """One pass of the ``export`` or ``import`` controller took ``seconds``."""
        self.observe("reconcile_seconds", seconds, queue=queue)

    def observe_batch(self, commit: float, waited: float) -> None:
        """A batch of our own took ``commit`` seconds to store; it was told ``waited`` after."""
        self.observe_commit("own", commit)
        self.observe_stage("publish", waited)

    def observe_write(self, seconds: float) -> None:
        """One pass of the import controller took ``seconds``, its writes included."""
        self.observe_reconcile("import", seconds)
        self.observe_stage("write", seconds)

    def set_elements(self, origin: str, kind: str, count: int) -> None:
        """``count`` live elements of ``kind`` are committed for ``origin``."""
        self.set("elements", count, origin=origin, kind=kind)

    def session_bytes(self, peer: str, direction: str, count: int) -> None:
        """``count`` more bytes went over the link to ``peer``; see :data:`DIRECTIONS`."""
        self.inc("session_bytes", count, peer=peer, direction=direction)

    def absorb(self, source: str, counters: Mapping[str, int]) -> None:
        """Take over the monotone counters of a cluster's health (``name{label="value"}`` each).

        ``source`` tells the sources and targets of one agent apart; their counts add up.  A count
        lower than before means that its keeper started anew.  Names that are not ours are left out.
        """
        for text, value in counters.items():
            match = _SERIES.fullmatch(text)
            if match is None:
                continue
            name, label, content = match.groups()
            before = self._absolute.get((source, text), 0)
            grown = value - before if value >= before else value
            labels = {} if label is None else {label: content}
            if name in self._counters and tuple(labels) == _COUNTERS[name].labels:
                self.inc(name, grown, **labels)
            elif name in self._gauges and tuple(labels) == _GAUGES[name].labels:
                gauge = self._gauges[name]
                (gauge.labels(**labels) if labels else gauge).inc(grown)
            self._absolute[(source, text)] = value

    def exposition(self) -> bytes:
        """Everything in the Prometheus text format, for :data:`CONTENT_TYPE`."""
        return generate_latest(self._exposed)


def _combinations(
    names: tuple[str, ...], values: Mapping[str, tuple[str, ...]]
) -> Iterator[dict[str, str]]:
    """Every assignment of known values to label ``names``; none for a name without known values."""
    if not names:
        return
    found: list[dict[str, str]] = [{}]
    for name in names:
        found = [{**labels, name: value} for labels in found for value in values.get(name, ())]
    yield from found
