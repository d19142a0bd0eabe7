"""One simulated agent from its start to its death: the production core around a disk and a site.

Does what :mod:`replicator.agent` does with the core's effects, in virtual time and without waiting:
restores, relists, publishes (seal, fsync, send), keeps the start gates, writes remote commits to
disk behind the replica.  What must be sent is left in ``woken`` and ``closing`` for the network.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cached_property
from typing import assert_never

from clusters.model import ServiceKey
from crdt import Origin
from replicator.effects import (
    Changed,
    Claim,
    Close,
    Drop,
    Effect,
    Notice,
    Remember,
    Review,
    Store,
    Wake,
)
from replicator.outflow import Outflow
from replicator.overlay import Overlay
from replicator.own_origin import OwnBatch
from replicator.projection import ClusterInfo, Projector, cluster_element, service_of
from replicator.readiness import Start, answered_by, caught_up_with, is_current, may_publish
from replicator.replica import Replica
from replicator.simulation.counting import counted, is_decision
from replicator.simulation.disk import Disk
from replicator.simulation.frames import read_once
from replicator.simulation.marks import mark_of
from replicator.simulation.plan import Plan
from replicator.simulation.signers import KeyedSigner, KeyedVerifier
from replicator.simulation.site import Site
from replicator.simulation.versions import Release, View, me_of, stated_by, unknown_elements

_WINDOW_SECONDS = 0.010
_WINDOW_PER_CLUSTER_SECONDS = 0.001
_FSYNC_SECONDS = (0.001, 0.02)


class _Replica(Replica):
    """The core, with frames that go to many read once."""

    read = staticmethod(read_once)


class Process:
    """One running agent."""

    def __init__(
        self, site: Site, disk: Disk, name: str, plan: Plan, now: float, skew_ns: int = 0
    ) -> None:
        """Start with what ``disk`` holds; ``name`` is unique among all processes of a run.

        ``skew_ns`` is how far the wall clock of its machine is ahead of the site's.
        """
        self._skew_ns = skew_ns
        self.site, self.disk, self.name = site, disk, name
        self.release = site.release
        self.cluster = site.name
        self.alive = True
        self._seed = f"{plan.seed}/process/{name}"
        self.decided = counted(site.name, disk)
        """The decisions that count here, worked out beside the core."""
        self.woken: dict[int, None] = {}
        """Sessions that have something to send, in the order they were woken."""
        self.closing: list[int] = []
        self.dialling: set[str] = set()
        """Peers that the task dialling them is busy with."""
        self.notices: dict[str, int] = {}
        self.changed: list[Changed] = []
        """What consumers were told since the monitor last looked."""
        self.dropped: list[Origin] = []
        """Origins that were forgotten since then."""
        self.commits = self.entries = 0
        self.sealed: OwnBatch | None = None
        """A batch that is not on disk yet."""
        self.stored: OwnBatch | None = None
        """A batch that is on disk and not published yet."""
        self.publishing = False
        self.free_at = 0.0
        """When the window allows the next head."""
        self.stated: dict[ServiceKey | None, View] = {}
        """What the cluster said, service by service, as of the last reconcile; no decisions."""
        self.peers = frozenset(plan.regions) - {site.name}
        self.silent: set[str] = set()
        """Peers that did not answer when they were dialled last."""
        self.refusals: dict[str, int] = {}
        """How often in a row a peer refused a dial."""
        self.may_publish = False
        self._projector = Projector(site.name)
        self.replica = self._restored(plan, now)
        # A live cluster may be forgotten: schedules are shorter than the minute it must be silent.
        self.replica.members.alive_seconds = 0.0
        self.overlay = Overlay(site.name, self.expected())
        self.begun = Start(site.monotonic(now), disk.own is None, self.overlay.chosen)
        for element, _, value in self.replica.own.elements.live():
            if not is_decision(element):
                self.stated.setdefault(service_of(element), {})[element] = value
        self.touched: set[bytes] = set()
        """Elements of which the cluster said something else since the last batch."""
        self.stated_mark = mark_of(item for view in self.stated.values() for item in view.items())
        for key in sorted(site.keys() | self.replica.own.stated_services):
            self.reconcile(key, now)

    @cached_property
    def rng(self) -> random.Random:
        """What this process draws from; made when first needed, since small scopes need none."""
        return random.Random(self._seed)  # noqa: S311 - a simulation

    def _restored(self, plan: Plan, now: float) -> Replica:
        site, disk = self.site, self.disk
        own = disk.restored_own(Origin(site.name), KeyedSigner(site.name))
        me = me_of(site.name, self.name, self.release)
        replica = _Replica(me, own, KeyedVerifier(), disk.restored_remotes())
        # The size of chunks is no setting of an agent: small ones make transfers of many.
        replica._outflow = Outflow(plan.chunk)  # noqa: SLF001
        for key, value in disk.facts.items():
            if value:
                replica.uids[key.partition("/")[2]] = value.decode()
        replica.expect_members(self.peers, site.monotonic(now))
        return replica

    def wall_ns(self, now: float) -> int:
        """The wall clock it reads at virtual time ``now``."""
        return self.site.wall_ns(now) + self._skew_ns

    # ---- the cluster ---------------------------------------------------------------------------

    def _state(self, key: ServiceKey | None, stated: View, now: float) -> None:
        held = self.stated.get(key, {})
        shown = stated_by(self.release, key, stated, held)
        newer = self.release is Release.NEWER
        self.replica.own.state(key, shown if newer else stated, self.wall_ns(now))
        if shown == held:
            return
        gone, come = mark_of(held.items()), mark_of(shown.items())
        count, total = self.stated_mark
        self.stated_mark = (count - gone[0] + come[0], total - gone[1] + come[1])
        self.touched.update(element for element, _ in held.items() ^ shown.items())
        self.stated[key] = shown

    def reconcile(self, key: ServiceKey, now: float) -> None:
        """Make our origin say of a service what the cluster says."""
        self._state(key, self._projector.elements_of(self.site.local(key)), now)

    def forget_encodings(self) -> None:
        """Encode everything anew: what is kept goes by object, and copies are other objects."""
        self._projector = Projector(self.cluster)

    def introduce(self, now: float) -> None:
        """State the cluster itself, before the first head."""
        name = self.cluster
        me = self.replica.me
        stated = dict([cluster_element(name, ClusterInfo(name, me.uid, me.software))])
        if self.release is Release.NEWER:
            stated |= unknown_elements(name)
        self._state(None, stated, now)

    # ---- publishing ----------------------------------------------------------------------------

    @property
    def wants_to_publish(self) -> bool:
        """Whether a batch should be sealed."""
        return self.may_publish and not self.publishing and self.replica.own.dirty

    def seal(self, now: float) -> OwnBatch:
        """Make a batch of what waits."""
        self.sealed = self.replica.own.seal(self.wall_ns(now))
        clusters = len(self.replica.remotes) + 1
        self.free_at = now + max(_WINDOW_SECONDS, clusters * _WINDOW_PER_CLUSTER_SECONDS)
        return self.sealed

    def fsync_seconds(self) -> float:
        """How long the disk takes for the batch sealed last."""
        return self.rng.uniform(*_FSYNC_SECONDS)

    def store(self) -> None:
        """The sealed batch is on disk."""
        assert self.sealed is not None  # noqa: S101 - called once after seal
        self.disk.keep_own(self.sealed)
        self.stored, self.sealed = self.sealed, None

    def publish(self, now: float) -> list[Effect]:
        """The stored batch may be sent."""
        self.stored, self.publishing = None, False
        return self.replica.published(self.site.monotonic(now))

    # ---- time ----------------------------------------------------------------------------------

    def tick(self, now: float) -> list[Effect]:
        """What the agent looks after ten times a second."""
        monotonic = self.site.monotonic(now)
        effects = self.replica.tick(monotonic, self.wall_ns(now))
        while self.replica.telling.has_more:
            effects += self.replica.telling.more()
        if self.may_publish and self.replica.announcements.relaying:
            return effects
        sessions = self.replica.sessions.values()
        if not self.may_publish and may_publish(self.begun, answered_by(sessions), monotonic):
            self.may_publish = True
            self.introduce(now)
        caught_up = caught_up_with(sessions, self.replica.remotes)
        if not self.replica.announcements.relaying and is_current(self.begun, caught_up, monotonic):
            effects += self.replica.announcements.begin_relaying()
        return effects

    # ---- effects -------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:  # noqa: C901 - a case for each effect
        """Carry out what the core asks for, up to the network's part."""
        for effect in effects:
            match effect:
                case Wake(number):
                    self.woken[number] = None
                case Store(origin, entries=None):
                    whole = tuple(self.replica.remotes[origin].elements.entries())
                    self.perform([replace(effect, entries=whole)])
                case Store(entries=entries):
                    self.entries += len(entries or ())
                    self.disk.unsynced.append(effect)
                case Changed():
                    self.commits += 1
                    self.changed.append(effect)
                case Review():
                    pass  # nothing is written here
                case Drop(origin):
                    self.disk.drop(origin)
                    self.dropped.append(origin)
                case Close(number):
                    self.closing.append(number)
                case Remember(key, value):
                    self.disk.facts[key] = value
                case Notice(event):
                    self.notices[event] = self.notices.get(event, 0) + 1
                case Claim():
                    self.notices["claim"] = self.notices.get("claim", 0) + 1
                case _ as unreachable:
                    assert_never(unreachable)

    def review_links(self) -> list[int]:
        """Choose anew whom to keep dialled; returns the sessions that are not needed any more."""
        if self.replica.own.head is None:
            return []
        return self.overlay.review(self.expected(), self.replica.sessions.values(), self.silent)

    def expected(self) -> frozenset[str]:
        """Peers that are not forgotten."""
        members = self.replica.members
        return frozenset(peer for peer in self.peers if not members.forgotten(peer))

    def connected(self, cluster: str) -> bool:
        """Whether a session with ``cluster`` has got its hello."""
        sessions = self.replica.sessions.values()
        return any(s.cluster == cluster and s.peer is not None for s in sessions)
