"""Agents as far as their links go: a replica and its links, nothing stored, time as told."""

from __future__ import annotations

import random
from typing import cast

from crdt import Origin, OriginSet, StampClock
from replicator.effects import Close, Effect, Notice, Wake
from replicator.handshake import Self
from replicator.identity import PeerIdentity
from replicator.journal import Journal
from replicator.links import Links
from replicator.own_origin import OwnOrigin
from replicator.projection import Projector
from replicator.recorder import Recorder
from replicator.replica import Replica
from replicator.transport.base import Refusal
from tests.support.clock import FakeClock
from tests.support.replicas import CART, local
from tests.support.signers import FakeSigner, FakeVerifier


class Party:
    """One agent as far as its links go."""

    def __init__(self, clock: FakeClock, cluster: str, peers: tuple[str, ...]) -> None:
        self.clock = clock
        self.notices: list[Notice] = []
        signer = FakeSigner(cluster)
        own = OwnOrigin(Origin(cluster), signer, epoch=1, clock=StampClock(), elements=OriginSet())
        me = Self("set", cluster, f"i-{cluster}", f"uid-{cluster}", "test")
        self.replica = Replica(me, own, FakeVerifier(), [])
        self.replica.announcements.begin_relaying()
        recorder = Recorder(cast("Journal", None), self.replica.remotes, self.clock)
        seed = random.Random(cluster)
        self.links = Links(self.replica, recorder, self.clock, seed, self.perform, peers)
        self.refusal: Refusal | None = None
        self.publish("10.0.0.1")

    def admit(self, peer: PeerIdentity) -> Refusal | None:
        """Turn everybody away while ``refusal`` is set."""
        del peer
        return self.refusal

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Wake(number):
                    self.links.wake(number)
                case Close(number, code, reason):
                    self.links.close(number, code, reason)
                case Notice():
                    self.notices.append(effect)
                case _:
                    pass

    def publish(self, address: str) -> None:
        own, wall_ns = self.replica.own, self.clock.wall_ns()
        cluster = self.replica.me.cluster
        own.state(CART, Projector(cluster).elements_of(local(address)), wall_ns)
        own.seal(wall_ns)
        self.perform(self.replica.published(self.clock.monotonic()))

    def sees(self, cluster: str) -> list[str]:
        remote = self.replica.remotes.get(Origin(cluster))
        return [] if remote is None else [row.address for _, row in remote.index.visible(CART)]

    def events(self, name: str) -> list[object]:
        return [n.fields.get("code") for n in self.notices if n.event == name]

    def tick(self) -> None:
        self.perform(self.replica.tick(self.clock.monotonic(), self.clock.wall_ns()))
        self.links.review(frozenset(self.links.peers))

    @property
    def linked(self) -> bool:
        return any(session.peer is not None for session in self.replica.sessions.values())
