"""Several replicas on one thread: the production core and codec, links as queues.

:class:`Net` moves frames one at a time and checks after every one that no view is partial, old or
resurrected.  A crash keeps what was stored, as a journal does.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b

from clusters.model import Endpoint, ExportedService, LocalService, Port, ServiceKey
from crdt import Entry, Head, Origin, OriginSet, StampClock, Version
from replicator.codec import decode_head, decode_record
from replicator.effects import Changed, Close, Effect, Notice, Remember, Store
from replicator.errors import ProtocolError
from replicator.handshake import Self
from replicator.messages import Record
from replicator.own_origin import OwnOrigin
from replicator.projection import Projector
from replicator.remote_origin import RemoteOrigin
from replicator.replica import Replica

WALL_NS = 1_764_655_200_000_000_000
CART = ServiceKey("shop", "cart")


class HashSigner:
    """A signer as fast as a hash; whoever knows the cluster's name can forge, which tests do."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster

    @property
    def chain(self) -> tuple[bytes, ...]:
        return (self._cluster.encode(),)

    @property
    def key_id(self) -> bytes:
        return b"key of " + self._cluster.encode()

    def sign(self, data: bytes) -> bytes:
        return blake2b(data, key=self._cluster.encode(), digest_size=32).digest()


class HashVerifier:
    """Verifies what :class:`HashSigner` signed."""

    def __init__(self) -> None:
        self.verified = 0

    def verify(self, head: Head, record: Record) -> None:
        self.verified += 1
        signer = HashSigner(head.origin.cluster)
        if record.chain != signer.chain or head.signature != signer.sign(head.canonical()):
            message = "a signature does not verify"
            raise ProtocolError(message, code="bad_signature")


@dataclass
class Disk:
    """What survives a crash."""

    epoch: int = 1
    ceiling: int = 0
    last: int = 0
    head: Head | None = None
    entries: dict[bytes, Entry] = field(default_factory=dict)
    remotes: dict[Origin, tuple[bytes, bytes, dict[bytes, Entry]]] = field(default_factory=dict)

    def store(self, commit: Store) -> None:
        kept = {} if commit.replace else dict(self.remotes.get(commit.origin, (b"", b"", {}))[2])
        for entry in commit.entries:
            kept[entry[0]] = entry
        alive = {k: e for k, e in kept.items() if not (e[2] and e[1] <= commit.floor)}
        self.remotes[commit.origin] = (commit.head, commit.record, alive)


def local(key: ServiceKey, *addresses: str, ready: bool = True) -> LocalService:
    """A service that is exported with these endpoints."""
    port = (Port("http", 8080),)
    rows = tuple(Endpoint(address, port, ready=ready, serving=ready) for address in addresses)
    return LocalService(key, rows, ExportedService())


class Station:
    """One replica with its disk."""

    def __init__(self, net: Net, cluster: str, disk: Disk | None = None) -> None:
        self.net = net
        self.cluster = cluster
        self.disk = disk if disk is not None else Disk()
        self.lives = 0
        self.notices: list[Notice] = []
        self.changed: list[Changed] = []
        self.closed: list[Close] = []
        self.start()

    def start(self) -> None:
        """Begin a life with what the disk holds."""
        self.lives += 1
        disk = self.disk
        elements = OriginSet()
        if disk.head is not None:
            rows = list(disk.entries.values())
            elements = OriginSet.restored(disk.head.version, disk.head.floor, rows)
            assert (len(elements), elements.root()) == (disk.head.count, disk.head.root)
        clock = StampClock(last=disk.last, ceiling=disk.ceiling)
        signer = HashSigner(self.cluster)
        own = OwnOrigin(
            Origin(self.cluster), signer, epoch=disk.epoch, clock=clock, elements=elements
        )
        if disk.head is not None:
            own.restore_head(disk.head)
        remotes = []
        for origin, (head, record, entries) in sorted(disk.remotes.items()):
            remote = RemoteOrigin(origin)
            decoded = decode_head(head)
            held = OriginSet.restored(decoded.version, decoded.floor, entries.values())
            assert remote.restore(held, decoded, decode_record(record))
            remotes.append(remote)
        name = self.cluster
        me = Self("set", name, f"{name}-{self.lives}", f"uid-{name}", "test")
        self.projector = Projector(self.cluster)
        self.replica = Replica(me, own, HashVerifier(), remotes)
        self.replica.start_relaying()

    def say(self, service: LocalService) -> int:
        """Make the origin state ``service``; it waits for the next publish."""
        stated = self.projector.elements_of(service)
        return self.replica.own.state(service.key, stated, self.net.wall_ns(self.cluster))

    def publish(self) -> None:
        """Seal, store and serve."""
        self.seal()
        self.perform(self.replica.published(self.net.now))

    def seal(self) -> None:
        """Seal and store, but do not serve yet."""
        batch = self.replica.own.seal(self.net.wall_ns(self.cluster))
        disk = self.disk
        disk.epoch, disk.ceiling, disk.last = batch.epoch, batch.ceiling, batch.last_stamp
        disk.head = batch.head
        for entry in batch.entries:
            disk.entries[entry[0]] = entry
        disk.entries = {
            key: entry
            for key, entry in disk.entries.items()
            if not (entry[2] and entry[1] <= batch.floor)
        }
        self.net.truth[self.cluster, batch.head.version] = live(self.replica.own.elements)

    def state(self, service: LocalService) -> None:
        """State and publish."""
        self.say(service)
        self.publish()

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Store():
                    self.disk.store(effect)
                case Changed():
                    self.changed.append(effect)
                case Notice():
                    self.notices.append(effect)
                case Close():
                    self.closed.append(effect)
                    self.net.closing(self, effect.number)
                case _:
                    assert isinstance(effect, Remember) or effect is not None

    def tick(self) -> None:
        self.perform(self.replica.tick(self.net.now, self.net.wall_ns(self.cluster)))

    def sees(self, origin: str, key: ServiceKey = CART) -> list[str]:
        """Addresses this replica shows of a service of ``origin``, with ``!`` if not ready."""
        remote = self.replica.remotes.get(Origin(origin))
        if origin == self.cluster:
            rows = self.replica.own.index.visible(key)
        else:
            rows = [] if remote is None else remote.index.visible(key)
        return [row.address + ("" if row.ready else "!") for _, row in rows]

    def version(self, origin: str) -> Version:
        remote = self.replica.remotes.get(Origin(origin))
        return Version(0, 0) if remote is None else remote.version


def live(elements: OriginSet) -> dict[bytes, tuple[int, bytes]]:
    return {element: (stamp, value) for element, stamp, value in elements.live()}


@dataclass
class Wire:
    """One link: sessions at both ends and what is under way in each direction."""

    ends: tuple[tuple[Station, int], tuple[Station, int]]
    under_way: tuple[deque[bytes], deque[bytes]]
    closing: bool = False


class Net:
    """Stations, wires, time; every :meth:`step` is checked."""

    def __init__(self, *clusters: str, seed: int = 0) -> None:
        self.now = 0.0
        self.skew: dict[str, int] = {}
        self.dice = random.Random(seed)
        self.truth: dict[tuple[str, Version], dict[bytes, tuple[int, bytes]]] = {}
        self.wires: list[Wire] = []
        self.frames = 0
        self.bytes = 0
        self.stations = {cluster: Station(self, cluster) for cluster in clusters}
        self._reached: dict[tuple[str, str], Version] = {}

    def __getitem__(self, cluster: str) -> Station:
        return self.stations[cluster]

    def wall_ns(self, cluster: str) -> int:
        return WALL_NS + round(self.now * 1e9) + self.skew.get(cluster, 0)

    def connect(self, dialler: str, listener: str) -> Wire:
        ends = []
        for mine, theirs, dialled in ((dialler, listener, True), (listener, dialler, False)):
            station = self[mine]
            number, effects = station.replica.open_session(theirs, dialled=dialled, now=self.now)
            station.perform(effects)
            ends.append((station, number))
        wire = Wire((ends[0], ends[1]), (deque(), deque()))
        self.wires.append(wire)
        return wire

    def mesh(self) -> None:
        names = sorted(self.stations)
        for at, one in enumerate(names):
            for other in names[at + 1 :]:
                self.connect(one, other)

    def cut(self, one: str, other: str | None = None) -> None:
        """Break all wires of ``one`` (to ``other``)."""
        for wire in list(self.wires):
            names = {station.cluster for station, _ in wire.ends}
            if one in names and (other is None or other in names):
                self._end(wire)

    def _end(self, wire: Wire) -> None:
        self.wires.remove(wire)
        for station, number in wire.ends:
            station.perform(station.replica.close_session(number, self.now))

    def closing(self, station: Station, number: int) -> None:
        for wire in self.wires:
            if (station, number) in wire.ends:
                wire.closing = True

    def crash(self, cluster: str) -> None:
        """Kill and start again: what was not stored is gone."""
        station = self[cluster]
        for wire in list(self.wires):
            if any(end[0] is station for end in wire.ends):
                self._end(wire)
        station.start()

    def pump(self, wire: Wire, direction: int) -> bool:
        """Let one end write what it has."""
        station, number = wire.ends[direction]
        frames = station.replica.pull(number)
        wire.under_way[direction].extend(frames)
        self.frames += len(frames)
        self.bytes += sum(map(len, frames))
        return bool(frames)

    def deliver(self, wire: Wire, direction: int) -> bool:
        """Hand the oldest frame over."""
        if not wire.under_way[direction]:
            return False
        frame = wire.under_way[direction].popleft()
        station, number = wire.ends[1 - direction]
        wall_ns = self.wall_ns(station.cluster)
        station.perform(station.replica.receive(number, frame, self.now, wall_ns))
        self.check()
        return True

    def settle(self) -> None:
        """Move frames until none is left; closing wires end when they are empty."""
        for _ in range(100_000):
            moved = False
            for wire in list(self.wires):
                for direction in (0, 1):
                    moved |= self.pump(wire, direction)
                    while self.deliver(wire, direction):
                        moved = True
                if wire.closing and wire in self.wires:
                    self._end(wire)
                    moved = True
            if not moved:
                return
        message = "the net does not come to rest"
        raise AssertionError(message)

    def step(self) -> None:
        """One random move of one wire."""
        if not self.wires:
            return
        wire = self.dice.choice(self.wires)
        direction = self.dice.randrange(2)
        if self.dice.random() < 0.5:
            self.pump(wire, direction)
        else:
            self.deliver(wire, direction)
        if wire.closing and not any(wire.under_way) and wire in self.wires:
            self._end(wire)

    def pass_time(self, seconds: float, *, each: float = 0.1) -> None:
        """Tick every station while frames flow."""
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = round(self.now + each, 6)
            for _, station in sorted(self.stations.items()):
                station.tick()
            self.settle()

    def check(self) -> None:
        """Every committed view is exactly its owner's at that head; versions never move back."""
        for name, station in self.stations.items():
            for origin, remote in station.replica.remotes.items():
                if not remote.known:
                    continue
                truth = self.truth[origin.cluster, remote.version]
                assert live(remote.elements) == truth, f"{name} shows a wrong {origin.cluster}"
                place = (f"{name}/{station.lives}", origin.cluster)
                assert remote.version >= self._reached.get(place, Version(0, 0))
                self._reached[place] = remote.version

    def digests(self) -> set[bytes]:
        return {station.replica.digest() for station in self.stations.values()}
