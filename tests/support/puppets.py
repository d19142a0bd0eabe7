"""Peers played by a test: an author makes heads and transfers, a puppet says them to one node."""

from __future__ import annotations

from clusters.model import ServiceKey
from crdt import Head, Origin, OriginSet, StampClock
from replicator import messages as m
from replicator.codec import decode, encode
from replicator.effects import Effect
from replicator.own_origin import OwnOrigin
from replicator.projection import Projector
from tests.support.replicas import CART, WALL_NS, Node, World, local
from tests.support.signers import FakeSigner


class Author:
    """An origin without a replica: makes heads, records and transfers for scripted peers."""

    def __init__(self, world: World, cluster: str, *, epoch: int = 1, key: str = "1") -> None:
        self.world = world
        self.cluster = cluster
        self.signer = FakeSigner(cluster, key)
        self.own = OwnOrigin(
            Origin(cluster), self.signer, epoch=epoch, clock=StampClock(), elements=OriginSet()
        )
        self.projector = Projector(cluster)

    @property
    def wall_ns(self) -> int:
        return WALL_NS + round(self.world.now * 1e9)

    @property
    def head(self) -> Head:
        assert self.own.head is not None
        return self.own.head

    @property
    def record(self) -> m.Record:
        return m.Record(self.own.origin, self.signer.key_id, self.signer.chain)

    @property
    def advert(self) -> m.Advert:
        head = self.head
        return m.Advert(head.origin, head.version, head.floor, head.root[:8])

    def publish(self, *addresses: str, key: ServiceKey = CART, ready: bool = True) -> Head:
        """State one service and sign a head."""
        stated = self.projector.elements_of(local(*addresses, key=key, ready=ready))
        self.own.state(key, stated, self.wall_ns)
        head = self.own.seal(self.wall_ns).head
        self.own.published()
        self.world.remember(head, self.own.elements)
        return head

    def transfer(self, after: int = 0, *, snapshot: bool = True) -> m.Transfer:
        """Everything after a stamp, with the head."""
        head = self.head
        entries = tuple(self.own.elements.since(after, 1 << 30).entries)
        return m.Transfer(head.origin, head.epoch, snapshot, after, head.stamp, entries, head)

    def signed(self, head: Head) -> Head:
        """``head`` with a signature that is good."""
        return head.signed(self.signer.sign(head.canonical()))


class Puppet:
    """A peer played by the test: one session of one node."""

    def __init__(self, node: Node, cluster: str, *, dialled: bool = False) -> None:
        self.node = node
        self.cluster = cluster
        self.number, effects = node.replica.open_session(
            cluster, dialled=dialled, now=node.world.now
        )
        self.effects: list[Effect] = list(effects)

    def hello(self, **fields: object) -> list[Effect]:
        """Introduce ourselves, with ``fields`` changed."""
        usual: dict[str, object] = {
            "minor": 0,
            "clusterset": "set",
            "cluster": self.cluster,
            "instance": f"{self.cluster}-puppet",
            "role": "writer",
            "epoch": 1,
            "uid": f"uid-{self.cluster}",
            "software": "test",
            "frame_limit": 1 << 20,
        }
        return self.say(m.Hello(**{**usual, **fields}))  # type: ignore[arg-type]

    def say(self, *messages: m.Message) -> list[Effect]:
        """Send messages; what the node wants done for the last one."""
        for message in messages:
            self.effects = self.raw(encode(message))
        return self.effects

    def raw(self, frame: bytes) -> list[Effect]:
        """Send any bytes."""
        node, world = self.node, self.node.world
        effects = node.replica.receive(self.number, frame, world.now, node.wall_ns)
        node.perform(effects)
        world.check(node)
        return effects

    def heard(self) -> list[m.Message]:
        """What the node has to say, all of it."""
        messages = []
        while frames := self.node.replica.pull(self.number):
            messages += [decode(frame) for frame in frames]
        return messages

    def serve(self, author: Author) -> None:
        """Be the source of an origin: advert, record, snapshot."""
        self.say(m.Heads((author.advert,)), author.record, author.transfer())

    def gone(self) -> None:
        """The link broke."""
        self.node.perform(self.node.replica.close_session(self.number, self.node.world.now))
