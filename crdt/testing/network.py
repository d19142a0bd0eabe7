"""A network of replicas of any :class:`~crdt.testing.subject.Crdt`, moved by events alone.

A message is a copy of the sender's state, or, for a network of deltas, the delta that the sender
makes for the newest summary it has of the receiver, together with a summary of its own.  Nothing is
random and no clock is read: the same schedule always leads to the same states.

Beside each state stands which operations it includes (``seen``), so that a view can be compared
with what those operations mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Generic, TypeVar, assert_never

from crdt.testing.schedule import Deliver, Do, Event, Heal, Schedule, Send, Split, Sync
from crdt.testing.subject import At, Crdt, Delta, Did

S = TypeVar("S")

_ROUNDS = 4
"""Of exchange, enough for whole states; deltas may be parts and get two more for each operation."""


@dataclass(frozen=True, slots=True)
class _Part(Generic[S]):
    by: Delta[S]
    delta: object
    summary: object


@dataclass(frozen=True, slots=True)
class Message(Generic[S]):
    """What is under way: a whole state, or a delta and the sender's summary."""

    source: int
    target: int
    content: S | _Part[S]
    seen: frozenset[int]


class Network(Generic[S]):
    """Replicas, their clocks, and every message sent between them."""

    def __init__(self, crdt: Crdt[S], names: tuple[str, ...], *, deltas: bool = False) -> None:
        """New replicas so named, that exchange whole states or (where the type has them) deltas."""
        self.crdt = crdt
        self.names = names
        self.states: list[S] = [crdt.new(name) for name in names]
        self.seen: list[frozenset[int]] = [frozenset() for _ in names]
        self.done: list[Did] = []
        self.messages: list[Message[S]] = []
        self.apart: int | None = None
        self._clocks = [0 for _ in names]
        self._deltas: Delta[S] | None = crdt.delta if deltas else None
        self._known: list[list[object]] = []
        if self._deltas is not None:
            summary = self._deltas.summary
            self._known = [[deepcopy(summary(s)) for s in self.states] for _ in names]

    def step(self, event: Event) -> bool:
        """Let ``event`` happen; False when there is nothing for it to act on."""
        match event:
            case Do():
                self._do(event)
            case Sync(source, target):
                return self._send(source, target) and self._deliver(self.messages[-1])
            case Send(source, target):
                return self._send(source, target)
            case Deliver(number):
                return bool(self.messages) and self._deliver(
                    self.messages[number % len(self.messages)]
                )
            case Split(replica):
                self.apart = replica
            case Heal():
                healed = self.apart is not None
                self.apart = None
                return healed
            case _:
                assert_never(event)
        return True

    def _do(self, event: Do) -> None:
        replica = event.replica
        self._clocks[replica] += event.ticks
        at = At(self.names[replica], self._clocks[replica])
        state = self.crdt.perform(event.operation, self.states[replica], at, event.arguments)
        did = Did(len(self.done), at, event.operation, event.arguments, self.seen[replica])
        self.states[replica] = state
        self.done.append(did)
        self.seen[replica] |= {did.number}

    def _send(self, source: int, target: int) -> bool:
        if self.apart in {source, target}:
            return False
        mine = self.states[source]
        if self._deltas is None:
            content: S | _Part[S] = self.crdt.copy(mine)
        else:
            delta = self._deltas.make(mine, deepcopy(self._known[source][target]))
            content = _Part(self._deltas, deepcopy(delta), deepcopy(self._deltas.summary(mine)))
        self.messages.append(Message(source, target, content, self.seen[source]))
        return True

    def _deliver(self, message: Message[S]) -> bool:
        target, content = message.target, message.content
        mine = self.states[target]
        if isinstance(content, _Part):
            self.states[target] = content.by.apply(mine, deepcopy(content.delta))
            self._known[target][message.source] = content.summary
        else:
            self.states[target] = self.crdt.merge(mine, self.crdt.copy(content))
        self.seen[target] |= message.seen
        return True

    def settle(self) -> None:
        """Heal, then let everyone send to everyone until that changes nothing any more.

        In a round all send before any receives, so each takes the others' states in another order.
        Two quiet rounds are needed, since in the first a delta may answer an old summary.  The
        merge of all states cannot change by this; where it does the type is broken, and might grow
        for ever, so that is the end.
        """
        self.apart = None
        whole = self.crdt.merged(*self.states)
        more = 0 if self._deltas is None else 2 * len(self.done)
        quiet = 0
        for number in range(_ROUNDS + more):
            before = [self.crdt.copy(state) for state in self.states]
            self._exchange()
            quiet = quiet + 1 if all(map(self.crdt.same, before, self.states)) else 0
            grows = number >= _ROUNDS and not self.crdt.same(self.crdt.merged(*self.states), whole)
            if quiet == 2 or grows:  # noqa: PLR2004 - as said above
                return

    def _exchange(self) -> None:
        first = len(self.messages)
        for source, target in self._pairs():
            self._send(source, target)
        for message in self.messages[first:]:
            self._deliver(message)

    def _pairs(self) -> Iterator[tuple[int, int]]:
        count = len(self.names)
        return ((a, b) for a in range(count) for b in range(count) if a != b)

    def visible(self, replica: int) -> list[Did]:
        """The operations that the state of ``replica`` includes."""
        return [did for did in self.done if did.number in self.seen[replica]]


def played(crdt: Crdt[S], schedule: Schedule, *, deltas: bool = False) -> Network[S]:
    """The network after all events of ``schedule``."""
    network = Network(crdt, schedule.names, deltas=deltas)
    for event in schedule.events:
        network.step(event)
    return network
