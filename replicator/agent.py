"""The agent: composition root, and the one place that carries out the replica's effects.

Everything is built in :meth:`Agent.build` and runs under one TaskGroup in :meth:`Agent.run`.
Shutdown: not ready at once, no new work, what was stamped is stored, links are closed, the
journal last; no removes are emitted, since the cluster's endpoints live on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, assert_never

import structlog

from clusters.base import Clock, Cluster
from clusters.lease import LeaseStore
from clusters.model import ServiceKey
from clusters.work_queue import WorkQueue
from crdt import Change, Origin
from replicator.agent_metrics import Gauges
from replicator.agent_views import Views
from replicator.composition import (
    make_clusters,
    make_lease,
    make_planner,
    restore_own,
    restore_remotes,
)
from replicator.condition import Condition
from replicator.config import Config
from replicator.decisions import Decisions
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
from replicator.election import Elector
from replicator.errors import JournalError
from replicator.exporter import Exporter
from replicator.feed import Feed
from replicator.handshake import Self
from replicator.identity import PeerIdentity
from replicator.importer import Importer
from replicator.journal import Journal, OwnBatch
from replicator.kinds import ENDPOINT
from replicator.leadership import Leadership
from replicator.links import Links
from replicator.load import Load
from replicator.networks import AllowLists
from replicator.ops.address import parse_address
from replicator.ops.health import HealthServer
from replicator.ops.metrics import Metrics
from replicator.ops.server import OperatorServer
from replicator.others import Others
from replicator.overlay import chosen
from replicator.own_origin import OwnOrigin
from replicator.projection import ClusterInfo, cluster_element, kind_of, service_of
from replicator.publisher import Publisher
from replicator.readiness import (
    Start,
    answered_by,
    caught_up_with,
    is_current,
    may_publish,
)
from replicator.recorder import Recorder
from replicator.replica import Replica
from replicator.siblings import reconciled
from replicator.snapshots import OriginSnapshot
from replicator.staleness import Rule
from replicator.system_clock import process_seconds
from replicator.teller import Teller
from replicator.transport.admission import OVERLOADED, refused
from replicator.transport.base import Dialer, Listener, Refusal
from replicator.transport.identity_files import Credentials
from replicator.transport.reload import LiveTls
from replicator.version import __version__
from replicator.visibility import Visibility
from replicator.withdrawals import Withdrawals

_TICK_SECONDS = 0.1
_GRACE_SECONDS = 5.0
_RELEASE_SECONDS = 1.0
"""How long a stop waits for the lease to be given back."""
_HEARD_SECONDS = 0.5
"""How long a stop waits for our siblings to hold what we published last."""
_LOOK_SECONDS = 0.01
_INSTANCE = "instance"
"""The instance id of the last life on this state folder."""
_log = structlog.get_logger()


class Agent:
    """One running agent."""

    def __init__(  # noqa: PLR0913 - the composition root takes what it is composed of
        self,
        config: Config,
        clock: Clock,
        rng: random.Random,
        journal: Journal,
        replica: Replica,
        clusters: tuple[Cluster, Cluster | None],
        tls: LiveTls,
        *,
        election: tuple[LeaseStore, Elector] | None,
        empty_state: bool,
    ) -> None:
        """Use :meth:`build`."""
        self.config = config
        self.clock = clock
        self.journal = journal
        self.replica = replica
        self.source, self.target = clusters
        self.tls = tls
        self.started_wall_ns = clock.wall_ns()
        self.others = Others(replica, (peer.cluster for peer in config.peers), clock.monotonic)
        expected = self.others.expected()
        self.start = Start(clock.monotonic(), empty_state, chosen(config.cluster, expected, {}))
        self.feed = Feed(clock, replica.allowed)
        self.metrics = Metrics(config.cluster, sorted(expected))
        self.equal_at: dict[int, float] = {}
        """Session number to the monotonic time its digest last equalled ours."""
        self.load = Load()
        self.draining = False
        self._first_head = asyncio.Event()
        self.teller = Teller(replica.telling, clock, self.perform)
        self.recorder = Recorder(
            journal, replica.remotes, clock, timed=partial(self.metrics.observe_commit, "remote")
        )
        self.links = Links(replica, self.recorder, clock, rng, self.perform, expected)
        self.publisher = Publisher(
            *(replica, journal, clock, self.perform, self._publish_changes, self._may_publish),
            timed=self.metrics.observe_batch,
        )
        self.exports: WorkQueue[ServiceKey] = WorkQueue(clock)
        self.imports: WorkQueue[ServiceKey] = WorkQueue(clock)
        info = ClusterInfo(config.region, replica.me.uid, __version__)
        self.exporter = Exporter(
            self.source,
            replica.own,
            self.exports,
            clock,
            self.publisher.wake,
            dict([cluster_element(config.cluster, info)]),
            partial(self.metrics.observe_reconcile, "export"),
        )
        self.importer = (
            None
            if self.target is None
            else Importer(
                self.target,
                self.imports,
                self.others.view,
                self.others.deletable,
                clock,
                Visibility(
                    Rule(**asdict(config.stale)),
                    self.start.at,
                    lambda: replica.steering.rules,
                    lambda key: replica.own.index.has_ready(key),  # noqa: PLW0108 - the index changes
                    {remote.origin.cluster for remote in self.others.remotes()},
                ),
                withdrawals=Withdrawals(config.guard, config.stale.after, self.start.at),
                planner=make_planner(config, self.source, self.others, clock),
                writes=self._leads,
                timed=self.metrics.observe_write,
            )
        )
        self.leadership: Leadership | None = None
        """None without a lease: then we always lead."""
        if election is not None:
            self.leadership = Leadership(
                *election, replica, clock, self.perform, self._first_head.is_set, self._led
            )
        self.decisions = Decisions(self)
        self.views = Views(self)
        self.gauges = Gauges(self)
        self.condition = Condition(self)
        tls.on_change(self.use)

    @classmethod
    async def build(
        cls,
        config: Config,
        clock: Clock,
        rng: random.Random,
        tls: LiveTls,
        environ: Mapping[str, str],
    ) -> Agent:
        """Open the journal, restore, and put the parts together; raises the parts' typed errors."""
        clusters = await make_clusters(config, clock, rng, environ)
        lease = make_lease(config, clusters[0])
        journal = await Journal.open(config.state)
        try:
            state, stored = await journal.load()
            uid = await clusters[0].uid()
            me = Self(
                clusterset=config.clusterset,
                cluster=config.cluster,
                instance=str(uuid.UUID(int=rng.getrandbits(128), version=4)),
                uid=uid,
                software=__version__,
                frame_limit=config.limits.frame,
                leased=lease is not None,
            )
            own = restore_own(Origin(config.cluster), tls.credentials.signer(), state)
            own.entry_limit = config.limits.entry
            trust = tls.credentials.trust_store()
            allowed = AllowLists(config.cluster, config.networks)
            found = restore_remotes(stored, allowed)
            remotes = reconciled(own, found, leased=lease is not None)
            replica = Replica(me, own, trust, remotes, allowed)
            known = {peer.cluster for peer in config.peers} - {config.cluster}
            origins = {origin.cluster for origin in replica.remotes} - {config.cluster}
            for cluster in sorted(known | origins):
                bound = await journal.recall(f"uid/{cluster}")
                if bound:
                    replica.uids[cluster] = bound.decode()
            election = None
            if lease is not None:
                former = await journal.recall(_INSTANCE) or b""
                await journal.remember(_INSTANCE, me.instance.encode())
                elector = Elector(me.instance, former=former.decode())
                elector.exceed(replica.siblings.epoch, clock.monotonic())
                election = lease, elector
        except BaseException:
            await journal.close()
            raise
        replica.expect_members(known, clock.monotonic())
        empty = state is None and (own.leading or not replica.siblings.warm)
        return cls(
            config,
            clock,
            rng,
            journal,
            replica,
            clusters,
            tls,
            election=election,
            empty_state=empty,
        )

    # ---- running -------------------------------------------------------------------------------

    async def run(self, listener: Listener, dialer: Dialer, stop: asyncio.Event) -> None:
        """Run until ``stop`` is set, then shut down within ten seconds."""
        servers: list[OperatorServer | HealthServer] = [
            OperatorServer(self.views, parse_address(self.config.operator))
        ]
        if self.config.health is not None:
            servers.append(HealthServer(self.views, self.config.health))
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(self.journal.close)
            for server in servers:
                await server.start()
                stack.push_async_callback(server.stop)
            await listener.start(self.links.serve)
            me = self.replica.me
            _log.info("agent_started", cluster=me.cluster, instance=me.instance)
            async with asyncio.TaskGroup() as group:
                writers = [group.create_task(work) for work in self._writers()]
                others = [group.create_task(work) for work in self._works(dialer)]
                await stop.wait()
                await self._shut_down(listener, writers, others)
        _log.info("agent_stopped", cluster=self.config.cluster)

    def _local_changed(self, key: ServiceKey) -> None:
        """Our own service is part of what mode mcs writes here."""
        self.exports.add(key)
        if self.config.target.mode == "mcs":
            self.imports.add(key)

    def _writers(self) -> list[Any]:
        """What changes our origin or our cluster."""
        works: list[Any] = [self.publisher.run(), self.exporter.run()]
        return works if self.importer is None else [*works, self.importer.run()]

    def _works(self, dialer: Dialer) -> list[Any]:
        works = [self._tick(), self.teller.run(), self.recorder.run(), self.tls.run(self.clock)]
        works += [self.links.keep_dialled(peer, dialer) for peer in self.config.peers]
        if self.leadership is not None:
            works.append(self.leadership.run())
        if self.target is self.source:
            works.append(self.source.run(self._local_changed, self.imports.add))
        else:
            works.append(self.source.run(self.exports.add, _ignore))
            if self.target is not None:
                works.append(self.target.run(_ignore, self.imports.add))
        return works

    async def _shut_down(
        self,
        listener: Listener,
        writers: list[asyncio.Task[None]],
        others: list[asyncio.Task[None]],
    ) -> None:
        self.draining = self.links.draining = True
        await _end(writers)
        own = self.replica.own
        try:
            if self.publisher.due and not own.sealing:
                await asyncio.wait_for(self.publisher.publish(), _GRACE_SECONDS)
            if own.leading:
                await self.journal.persist_own(_last_of(own))
        except (JournalError, TimeoutError):
            _log.exception("state_not_flushed")
        if self.leadership is not None:
            await self._hand_over(self.leadership)
        await _end(others)
        await self.recorder.flush()
        await listener.stop(_GRACE_SECONDS)

    async def _hand_over(self, leadership: Leadership) -> None:
        """Let a sibling have what we published last, then the lease; the links still stand."""
        until = self.clock.monotonic() + _HEARD_SECONDS
        while not leadership.heard() and self.clock.monotonic() < until:
            await self.clock.sleep(_LOOK_SECONDS)
        await leadership.release(_RELEASE_SECONDS)

    def _leads(self) -> bool:
        return self.replica.siblings.leads(self.clock.monotonic())

    def _may_publish(self) -> bool:
        return self._first_head.is_set() and self.exporter.synced.is_set()

    def _led(self) -> None:
        """A term as our cluster's writer begins: look at all of the cluster, both ways."""
        self.exporter.begin()
        self._write_anew(self._importable())

    async def _tick(self) -> None:
        while True:
            now = self.clock.monotonic()
            self.perform(self.replica.tick(now, self.clock.wall_ns()))
            self._gates(now)
            if self.leadership is not None:
                self.leadership.settle()
            self._review()
            self._compare_digests(now)
            self.links.review(self.others.expected(), settled=self._first_head.is_set())
            self.load.note(now, process_seconds(), len(self.exports) + len(self.imports))
            await self.clock.sleep(_TICK_SECONDS)
            self.metrics.set(
                "event_loop_lag_seconds", max(0.0, self.clock.monotonic() - now - _TICK_SECONDS)
            )

    def use(self, credentials: Credentials) -> None:
        """Sign and verify with these from now on; the present head is signed anew at once."""
        self.replica.verifier = credentials.trust_store()
        self.replica.own.signer = credentials.signer()
        if self._leads():
            self.perform(self.replica.reissue_now(self.clock.wall_ns()))

    def _gates(self, now: float) -> None:
        sessions = self.replica.sessions.values()
        if not self._first_head.is_set() and may_publish(self.start, answered_by(sessions), now):
            self._first_head.set()
            self.publisher.wake()
        if self.replica.announcements.relaying:
            return
        if is_current(self.start, caught_up_with(sessions, self.replica.remotes), now):
            self.perform(self.replica.announcements.begin_relaying())
            self._write_anew(self._importable())

    def _write_anew(self, services: Iterable[ServiceKey]) -> None:
        self.imports.add_all(sorted(services))

    def _review(self) -> None:
        """Have written what the policy says of clusters that fell silent or were heard again."""
        if self.importer is None:
            return
        known = {r.origin.cluster: r for r in self.others.remotes() if r.known}
        self.importer.review(
            {cluster: remote.fresh_at for cluster, remote in known.items()},
            lambda cluster: known[cluster].index.all_services(),
            current=self.replica.announcements.relaying,
        )

    def _importable(self) -> set[ServiceKey]:
        keys = self.others.services()
        return keys if self.target is None else keys | self.target.owned_services()

    def _compare_digests(self, now: float) -> None:
        digest = self.replica.announcements.digest()
        for number, session in self.replica.sessions.items():
            if session.peer_digest == digest:
                self.equal_at[number] = now
        for number in self.equal_at.keys() - self.replica.sessions.keys():
            del self.equal_at[number]

    # ---- effects -------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        """Carry out effects in order; none of them blocks."""
        for effect in effects:
            match effect:
                case Store() | Drop() | Remember():
                    self.recorder.keep(effect)
                case Changed():
                    self._changed(effect)
                case Review(services):
                    self._write_anew(services)
                case Wake(number):
                    self.links.wake(number)
                case Close(number, code, reason):
                    self.links.close(number, code, reason)
                case Claim(above):
                    self._claim(above)
                case Notice(event, fields, serious):
                    (_log.warning if serious else _log.info)(event, **fields)
                case _ as unreachable:
                    assert_never(unreachable)
        self.teller.wake()
        if self.replica.own.dirty:
            self.publisher.wake()

    def _claim(self, above: int) -> None:
        if self.leadership is not None:
            self.leadership.claim(above)

    def _changed(self, effect: Changed) -> None:
        if self.importer is not None and self.importer.reviews:
            self._review()
        self._write_anew(effect.services)
        theirs = effect.origin != self.replica.own.origin
        if effect.seconds is not None and theirs:
            self.metrics.observe_convergence(effect.origin.cluster, effect.seconds)
        if theirs:
            self.metrics.inc("changes", len(effect.changes), origin=effect.origin.cluster)
        self.feed.tell(effect.origin, effect.changes, effect.seconds)

    def _publish_changes(self, changes: tuple[Change, ...]) -> None:
        self.feed.tell(self.replica.own.origin, changes, 0.0)
        for element, before, _, _ in changes:
            if before is None and kind_of(element) == ENDPOINT and self.others.state_too(element):
                self.metrics.inc("encode_suspect_loop")
        if self.replica.steering.rules.settings:
            # Whether our own endpoints are ready decides what drains leave of the others'.
            self._write_anew({key for key in map(service_of, (c[0] for c in changes)) if key})

    # ---- members -------------------------------------------------------------------------------

    def admit(self, peer: PeerIdentity) -> Refusal | None:
        """Why a peer's dial is turned away before the upgrade: the last word of the listener."""
        if self.replica.members.forgotten(peer.cluster):
            return refused(self.replica.members.refusal(peer.cluster))
        known = peer.cluster == self.config.cluster or self.links.connected(peer.cluster)
        if self.load.shedding and not known:
            return OVERLOADED
        return None

    def own_snapshot(self) -> OriginSnapshot | None:
        """Our own published state, None before the first head."""
        own = self.replica.own
        if own.head is None or own.record is None:
            return None
        return OriginSnapshot(own.head, own.record, tuple(own.elements.entries()))

    def ready(self) -> tuple[bool, list[str]]:
        """Whether traffic and rollouts may rely on this agent, and why not."""
        return self.condition.ready()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _last_of(own: OwnOrigin) -> OwnBatch:
    """What a clean stop leaves in the journal: the exact last stamp as the ceiling."""
    last = own.clean_stop()
    return OwnBatch(
        epoch=own.epoch,
        ceiling=last,
        last_stamp=last,
        head=None,
        entries=(),
        floor=own.elements.floor,
    )


def _ignore(_: ServiceKey) -> None:
    """A sink for keys nobody needs."""
