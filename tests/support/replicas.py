"""Whole replicas in virtual time: the production core and codec over links that delay and break.

:class:`World` is one event heap.  Everything random comes from its seed; nothing waits.  A
:class:`Node` is one replica with its disk: own batches are stored before they are published, remote
commits a little later, so a crash loses a suffix of them, as a journal does.  After every event the
node it happened to is checked (:meth:`World.check`): each committed view is exactly its owner's at
that head, no version moves back, and what consumers were told adds up to what is shown.

A node called ``fjord/1`` is one of several agents of the cluster fjord; they start standing by.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, count

from clusters.model import Endpoint, ExportedService, LocalService, Port, ServiceKey
from crdt import ZERO, Entry, Head, Origin, OriginSet, StampClock, Version
from crdt.entries import opened, stored_of
from replicator import messages as m
from replicator.codec import decode, decode_head, decode_record
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
from replicator.handshake import Self
from replicator.kinds import ENDPOINT
from replicator.outflow import CHUNK_BYTES, Outflow
from replicator.own_origin import OwnBatch, OwnOrigin
from replicator.projection import Projector
from replicator.readiness import Start, answered_by, caught_up_with, is_current, may_publish
from replicator.remote_origin import RemoteOrigin
from replicator.replica import Replica
from replicator.siblings import reconciled
from tests.support.signers import FakeSigner, FakeVerifier

WALL_NS = 1_764_655_200_000_000_000
CART = ServiceKey("shop", "cart")
_PORTS = (Port("http", 8080),)


def local(*addresses: str, key: ServiceKey = CART, ready: bool = True) -> LocalService:
    """An exported service with these endpoints."""
    endpoints = tuple(Endpoint(address, _PORTS, ready=ready) for address in addresses)
    return LocalService(key, endpoints, ExportedService())


def live(elements: OriginSet) -> dict[bytes, bytes]:
    """What readers see of a set, with the stamps left out."""
    return {element: value for element, _, value in elements.live()}


class KilledError(Exception):
    """A node dies here and now; what it was doing is never finished."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.name)
        self.node = node


@dataclass
class Disk:
    """What survives a crash."""

    own: OwnBatch | None = None
    entries: dict[bytes, Entry] = field(default_factory=dict)
    remotes: dict[Origin, tuple[Store, dict[bytes, Entry]]] = field(default_factory=dict)

    def keep_own(self, batch: OwnBatch) -> None:
        """One transaction with fsync."""
        self.own = batch
        if batch.replace:
            self.entries.clear()
        self.entries.update({entry[0]: entry for entry in batch.entries})
        self.entries = _collected(self.entries, batch.floor)

    def keep_remote(self, commit: Store) -> None:
        """One transaction without."""
        former = self.remotes.get(commit.origin)
        kept = {} if commit.replace or former is None else dict(former[1])
        kept.update({entry[0]: entry for entry in commit.entries})
        self.remotes[commit.origin] = (commit, _collected(kept, commit.floor))

    def restored(self) -> list[RemoteOrigin]:
        """The remote origins a start finds; what does not add up is a defect."""
        found = []
        for origin, (commit, entries) in sorted(self.remotes.items()):
            remote, head = RemoteOrigin(origin), decode_head(commit.head)
            elements = OriginSet.restored(head.version, head.floor, entries.values())
            assert remote.restore(elements, head, decode_record(commit.record))
            found.append(remote)
        return found


def _collected(entries: dict[bytes, Entry], floor: int) -> dict[bytes, Entry]:
    return {key: entry for key, entry in entries.items() if not (entry[2] and entry[1] <= floor)}


@dataclass(eq=False)
class _End:
    """One side of a link."""

    node: Node
    number: int
    inbox: deque[tuple[float, bytes]] = field(default_factory=deque)
    """Frames on their way to this side, with their time of arrival."""
    blocked: bool = False
    """Nothing arrives here, though nothing looks broken."""


@dataclass(eq=False)
class Link:
    """A connection between two nodes; frames keep their order in each direction."""

    ends: tuple[_End, _End]
    delay: float
    alive: bool = True
    closing: bool = False

    def towards(self, name: str) -> _End:
        """The end at node ``name``."""
        return next(end for end in self.ends if end.node.name == name)

    def other(self, end: _End) -> _End:
        """The end across."""
        return self.ends[1] if end is self.ends[0] else self.ends[0]


@dataclass(frozen=True)
class Sent:
    """One message as it left a node."""

    at: float
    sender: str
    receiver: str
    message: m.Message
    frame: bytes

    @property
    def entries(self) -> int:
        """How many entries it carries."""
        carries = isinstance(self.message, m.Transfer | m.BucketEntries)
        return len(self.message.entries) if carries else 0


class Node:
    """One replica, its disk, its cluster, and everything it asked for."""

    def __init__(self, world: World, name: str, peers: frozenset[str]) -> None:
        self.world = world
        self.name = name
        self.cluster, _, agent = name.partition("/")
        self.leased = bool(agent)
        self.packed = True
        """Whether its lives from the next start on take packed transfers."""
        self.buckets = True
        """Whether its lives from the next start on tell buckets."""
        self.claims: list[int] = []
        """What it wanted the lease to be asked for."""
        self.peers = peers
        self.disk = Disk()
        self.services: dict[ServiceKey, LocalService] = {}
        """What the cluster of this node looks like."""
        self.notices: list[Notice] = []
        self.changed: list[Changed] = []
        self.reviewed: list[frozenset[ServiceKey]] = []
        """Services to be written anew since policies changed, one set a time."""
        self.facts: dict[str, bytes] = {}
        self.views: dict[Origin, dict[bytes, bytes]] = {}
        """What consumers hold, told by changes alone."""
        self.lives = 0
        self.minor = 0
        """The minor protocol version it speaks, from its next life on."""
        self.speak: Callable[[bytes], list[bytes]] = lambda frame: [frame]
        """What another version makes of a frame that it sends."""
        self.skew_ns = 0
        self.verifier = FakeVerifier()
        self.signer = FakeSigner(self.cluster)
        self.gated = False
        """Publish and relay only when the readiness rules allow it."""
        self.unsaved: deque[Store] = deque()
        self.sealed: OwnBatch | None = None
        self.start()

    def start(self, *, empty: bool = False) -> None:
        """Begin a life with what the disk holds (or, ``empty``, with a new disk)."""
        if empty:
            self.disk = Disk()
        self.lives += 1
        self.unsaved.clear()
        self.sealed = None
        kept = self.disk.own
        elements, clock, epoch = OriginSet(), StampClock(), 1
        if kept is not None:
            rows = self.disk.entries.values()
            elements = OriginSet.restored(kept.head.version, kept.head.floor, rows)
            clock = StampClock(last=kept.last_stamp, ceiling=kept.ceiling)
            epoch = kept.epoch
        origin = Origin(self.cluster)
        own = OwnOrigin(origin, self.signer, epoch=epoch, clock=clock, elements=elements)
        if kept is not None:
            own.restore_head(kept.head)
        remotes = reconciled(own, self.disk.restored(), leased=self.leased)
        instance, uid = f"{self.name}-{self.lives}", f"uid-{self.cluster}"
        words = {"leased": self.leased, "packed": self.packed, "minor": self.minor}
        words["buckets"] = self.buckets
        me = Self("set", self.cluster, instance, uid, "test", **words)
        self.projector = Projector(self.cluster)
        self.replica = Replica(me, own, self.verifier, remotes)
        self.replica._outflow = Outflow(self.world.chunk_bytes)
        self.begun = Start(self.world.now, kept is None, self.peers)
        self.may_publish = not self.gated
        if not self.gated:
            self.replica.announcements.begin_relaying()
        self.views = {o: live(r.elements) for o, r in self.replica.remotes.items()}
        for service in self.services.values():
            self._state(service)

    @property
    def wall_ns(self) -> int:
        """This node's wall clock."""
        return WALL_NS + round(self.world.now * 1e9) + self.skew_ns

    # ---- its own cluster -----------------------------------------------------------------------

    def _state(self, service: LocalService) -> int:
        stated = self.projector.elements_of(service)
        return self.replica.own.state(service.key, stated, self.wall_ns)

    def say(self, *addresses: str, key: ServiceKey = CART, ready: bool = True) -> int:
        """The cluster changed; the change waits for the next head."""
        self.services[key] = local(*addresses, key=key, ready=ready)
        return self._state(self.services[key])

    def seal(self) -> None:
        """Make a batch of what waits; it is neither stored nor sent."""
        self.sealed = self.replica.own.seal(self.wall_ns)
        self.world.remember(self.sealed.head, self.replica.own.elements)

    def store(self) -> None:
        """The sealed batch is on disk."""
        assert self.sealed is not None
        self.world.boundary(self, "before its batch is stored")
        self.disk.keep_own(self.sealed)
        self.world.boundary(self, "after its batch is stored")
        head = self.sealed.head
        assert self.world.only_state(head) == head.root, "one version, two states"

    def send(self) -> None:
        """The stored batch may be sent."""
        self.sealed = None
        self.perform(self.replica.published(self.world.now))

    def publish(self, *addresses: str, key: ServiceKey = CART, ready: bool = True) -> None:
        """The cluster changed (if anything is given); have it published at once."""
        if addresses:
            self.say(*addresses, key=key, ready=ready)
        self.seal()
        self.store()
        self.send()

    # ---- who writes ----------------------------------------------------------------------------

    def lead(self, fence: int, seconds: float = 10.0) -> None:
        """It holds its cluster's lease for so long; it looks at the cluster and publishes."""
        now = self.world.now
        self.perform(self.replica.lead(fence, now + seconds, now, self.wall_ns))
        self.world.check(self)
        if self.replica.own.dirty:
            for service in self.services.values():
                self._state(service)
            self.publish()

    def stand_by(self, why: str = "released") -> None:
        """It holds the lease no more."""
        self.perform(self.replica.stand_by(why, self.world.now))
        self.world.check(self)

    def withdraw(self, key: ServiceKey = CART) -> None:
        """The service has no endpoints any more; publish that."""
        self.say(key=key)
        self.publish()

    # ---- effects -------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:  # noqa: C901 - a case for each effect
        """Carry out what the replica asks for."""
        for effect in effects:
            self.world.boundary(self, "before an effect")
            match effect:
                case Store():
                    self.unsaved.append(effect)
                case Drop(origin):
                    self.unsaved = deque(kept for kept in self.unsaved if kept.origin != origin)
                    self.disk.remotes.pop(origin, None)
                case Changed():
                    self.changed.append(effect)
                    self._tell(effect)
                case Review(services):
                    self.reviewed.append(services)
                case Wake(number):
                    self.world.pump_soon(self, number)
                case Close(number):
                    self.world.closing(self, number)
                case Remember(key, value):
                    self.facts[key] = value
                case Claim(above):
                    self.claims.append(above)
                case Notice():
                    self.notices.append(effect)

    def _tell(self, effect: Changed) -> None:
        view = self.views.setdefault(effect.origin, {})
        rotten = (self.name, effect.origin) in self.world.rotten
        for element, before, after, _ in effect.changes:
            assert rotten or view.get(element) == before
            if after is None:
                del view[element]
            else:
                view[element] = after

    def save(self, number: int | None = None) -> None:
        """Write the oldest remote commits to disk."""
        for _ in range(len(self.unsaved) if number is None else min(number, len(self.unsaved))):
            self.world.boundary(self, "before a commit is stored")
            self.disk.keep_remote(self.unsaved.popleft())
            self.world.boundary(self, "after a commit is stored")

    def tick(self) -> None:
        """What the agent does ten times a second."""
        now = self.world.now
        self.perform(self.replica.tick(now, self.wall_ns))
        sessions = self.replica.sessions.values()
        if may_publish(self.begun, answered_by(sessions), now):
            self.may_publish = True
        caught_up = caught_up_with(sessions, self.replica.remotes)
        if not self.replica.announcements.relaying and is_current(self.begun, caught_up, now):
            self.perform(self.replica.announcements.begin_relaying())

    # ---- what it shows -------------------------------------------------------------------------

    def remote(self, cluster: str) -> RemoteOrigin:
        """What it knows of another origin."""
        return self.replica.remotes[Origin(cluster)]

    def version(self, cluster: str) -> Version:
        """What it has committed of an origin."""
        remote = self.replica.remotes.get(Origin(cluster))
        return ZERO if remote is None else remote.version

    def sees(self, cluster: str, key: ServiceKey = CART) -> list[str]:
        """Visible addresses of a service, with ``!`` for those that are not ready."""
        remote = self.replica.remotes.get(Origin(cluster))
        own = self.replica.own
        index = own.index if cluster == self.cluster and own.leading else remote and remote.index
        rows = index.visible(key) if index else []
        return [row.address + ("" if row.ready else "!") for _, row in rows]

    def events(self) -> list[str]:
        """Names of its notices."""
        return [notice.event for notice in self.notices]

    def session(self, cluster: str) -> int:
        """Number of its open session with ``cluster``."""
        return next(n for n, s in self.replica.sessions.items() if s.cluster == cluster)


class World:
    """Nodes, links and time."""

    def __init__(
        self, *names: str, seed: int = 0, tick: float = 0.1, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        self.now = 0.0
        self.chunk_bytes = chunk_bytes
        self.dice = random.Random(seed)
        self.sent: list[Sent] = []
        """What was sent since the test last cleared it."""
        self.links: list[Link] = []
        self.truth: dict[tuple[str, Version, bytes], dict[bytes, bytes]] = {}
        self.jitter = 0.0
        """Frames take up to this many seconds longer than their link's delay."""
        self.window = 2
        """Frames under way in one direction of a link before its writer has to wait."""
        self.boundary: Callable[[Node, str], None] = lambda _node, _place: None
        """Called between any two steps of a node; it may raise :class:`KilledError`."""
        self._tick = tick
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._pumped: set[tuple[Node, int, int]] = set()
        self._reached: dict[tuple[str, int, Origin], Version] = {}
        self._published: dict[tuple[str, Version], bytes] = {}
        self.rotten: set[tuple[str, Origin]] = set()
        """Which node holds another state of which origin than it committed."""
        self.nodes = {name: Node(self, name, frozenset({*names} - {name})) for name in names}
        for at, node in enumerate(self.nodes.values()):
            self.at(tick * (at + 1) / len(names), lambda node=node: self._ticking(node))  # type: ignore[misc]

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    # ---- time ----------------------------------------------------------------------------------

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do ``action`` in ``seconds``."""
        heapq.heappush(self._events, (self.now + seconds, next(self._order), action))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, action = heapq.heappop(self._events)
            try:
                action()
            except KilledError as killed:
                self._kill(killed.node)
        self.now = end

    def _kill(self, node: Node) -> None:
        """What a node sent before it died still arrives; then it starts again."""
        for link in [x for x in self.links if any(end.node is node for end in x.ends)]:
            for end in link.ends:
                while end.node is not node and end.inbox:
                    self.hand(end.node, end.number, end.inbox.popleft()[1])
        self.crash(node.name)

    def _ticking(self, node: Node) -> None:
        node.tick()
        self.check(node)
        self.at(self._tick, lambda: self._ticking(node))

    # ---- links ---------------------------------------------------------------------------------

    def connect(self, dialler: str, listener: str, delay: float = 0.01) -> Link:
        """Put up a link."""
        ends = []
        for mine, theirs in ((dialler, listener), (listener, dialler)):
            node, dialled = self[mine], mine == dialler
            far = self[theirs].cluster
            number, effects = node.replica.open_session(far, dialled=dialled, now=self.now)
            ends.append((_End(node, number), effects))
        link = Link((ends[0][0], ends[1][0]), delay)
        self.links.append(link)
        for end, effects in ends:
            end.node.perform(effects)
        return link

    def mesh(self) -> None:
        """Link everybody with everybody."""
        for one, other in combinations(sorted(self.nodes), 2):
            self.connect(one, other)

    def between(self, one: str, other: str) -> list[Link]:
        """The links between two nodes."""
        return [x for x in self.links if {end.node.name for end in x.ends} == {one, other}]

    def cut(self, one: str, other: str | None = None) -> None:
        """Break the links of ``one`` (to ``other``); frames under way are lost."""
        for link in list(self.links):
            names = {end.node.name for end in link.ends}
            if one in names and other in {None, *names}:
                self.break_(link)

    def break_(self, link: Link) -> None:
        """The end of one link, noticed by both sides."""
        if link.alive:
            link.alive = False
            self.links.remove(link)
            for end in link.ends:
                if end.number in end.node.replica.sessions:
                    end.node.perform(end.node.replica.close_session(end.number, self.now))

    def closing(self, node: Node, number: int) -> None:
        """``node`` wants a link closed once its last words are sent."""
        for link in self.links:
            for end in link.ends:
                if end.node is node and end.number == number:
                    link.closing = True
                    self._pump(node, number, node.lives)
                    self.at(link.delay + self.jitter, lambda link=link: self.break_(link))  # type: ignore[misc]

    def pump_soon(self, node: Node, number: int) -> None:
        """The writer of a session wakes up."""
        key = (node, number, node.lives)
        if key not in self._pumped:
            self._pumped.add(key)
            self.at(0.0, lambda: self._pump(*key))

    def _pump(self, node: Node, number: int, life: int) -> None:
        self._pumped.discard((node, number, life))
        for link in self.links:
            for end in link.ends:
                if end.node is node and end.number == number and life == node.lives:
                    self._write(link, end)

    def _write(self, link: Link, end: _End) -> None:
        """Send while the window is open."""
        across = link.other(end)
        while len(across.inbox) < self.window:
            frames = end.node.replica.pull(end.number)
            if not frames:
                return
            for frame in frames:
                for spoken in end.node.speak(frame):
                    self._post(link, end, across, spoken)

    def _post(self, link: Link, end: _End, across: _End, frame: bytes) -> None:
        self.boundary(end.node, "before a frame is sent")
        at = self.now + link.delay + self.dice.uniform(0.0, self.jitter)
        if across.inbox:
            at = max(at, across.inbox[-1][0])
        across.inbox.append((at, frame))
        self.sent.append(Sent(self.now, end.node.name, across.node.name, decode(frame), frame))
        heapq.heappush(self._events, (at, next(self._order), lambda: self._arrive(link, across)))
        self.boundary(end.node, "after a frame is sent")

    def _arrive(self, link: Link, end: _End) -> None:
        if not link.alive or end.blocked or not end.inbox:
            return
        _, frame = end.inbox.popleft()
        self.hand(end.node, end.number, frame)
        if link.alive:
            self._write(link, link.other(end))

    def hand(self, node: Node, number: int, frame: bytes) -> None:
        """Give a frame to a node as if it had come over its session ``number``."""
        self.boundary(node, "before a frame is taken")
        effects = node.replica.receive(number, frame, self.now, node.wall_ns)
        self.boundary(node, "after a frame is taken")
        node.perform(effects)
        self.check(node)

    # ---- accidents -----------------------------------------------------------------------------

    def crash(self, name: str, *, empty: bool = False) -> None:
        """Kill a node and start it again with what is on its disk (``empty``: a new disk)."""
        node = self[name]
        dead = [link for link in self.links if any(end.node is node for end in link.ends)]
        for link in dead:
            link.alive = False
            self.links.remove(link)
        node.start(empty=empty)
        self.check(node)
        for link in dead:
            for end in link.ends:
                if end.node is not node:
                    end.node.perform(end.node.replica.close_session(end.number, self.now))

    def rot(self, name: str, cluster: str) -> bytes:
        """A bit flips in what a node holds of another origin: an endpoint's readiness.

        Its consumers are not told.
        """
        elements = self[name].remote(cluster).elements
        element, _, value = min(row for row in elements.live() if row[0][1] == ENDPOINT)
        _, stamp, op, _ = opened(element, elements._entries[element])
        rotten = value[:1] + bytes((value[1] ^ 1,)) + value[2:]
        elements._entries[element] = stored_of(stamp, op, rotten)
        self.rotten.add((name, Origin(cluster)))
        return element

    # ---- what must hold ------------------------------------------------------------------------

    def remember(self, head: Head, elements: OriginSet) -> None:
        """What the owner's state was at ``head``."""
        self.truth[head.origin.cluster, head.version, head.root] = live(elements)

    def only_state(self, head: Head) -> bytes:
        """The root of the state that was published at a version first."""
        return self._published.setdefault((head.origin.cluster, head.version), head.root)

    def check(self, node: Node) -> None:
        """Properties 12, 13 and 22 on one node, now."""
        own = node.replica.own
        if own.leading:
            node.views.pop(own.origin, None)
        elif own.origin not in node.views and node.version(node.cluster) > ZERO:
            node.views[own.origin] = live(node.remote(node.cluster).elements)
        for origin, remote in node.replica.remotes.items():
            if not remote.known:
                continue
            head = remote.head
            assert head is not None
            assert head.version == remote.version
            shown = live(remote.elements)
            truth = self.truth[origin.cluster, remote.version, head.root]
            if shown == truth:
                self.rotten.discard((node.name, origin))
            wrong = f"{node.name} shows a state of {origin.cluster} it never had"
            assert shown == truth or (node.name, origin) in self.rotten, wrong
            if not remote.untold:  # of a large commit it is told in slices
                assert node.views[origin] == truth
            place = (node.name, node.lives, origin)
            assert remote.version >= self._reached.get(place, ZERO)
            self._reached[place] = remote.version

    def digests(self) -> set[bytes]:
        """The digests of all nodes."""
        return {node.replica.announcements.digest() for node in self.nodes.values()}

    def transfers(self, receiver: str | None = None) -> list[Sent]:
        """Transfers with entries that were sent (to ``receiver``)."""
        return [sent for sent in self.sent if sent.entries and receiver in {None, sent.receiver}]

    def snapshots(self) -> list[Sent]:
        """Snapshot chunks that were sent."""
        return [x for x in self.sent if isinstance(x.message, m.Transfer) and x.message.snapshot]
