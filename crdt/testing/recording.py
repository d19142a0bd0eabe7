"""A run written down step by step, as text, for reports.

Only what happened is kept: events that had nothing to act on are left out.  Should the type under
test raise, the recording ends there and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar, assert_never

from crdt.testing.network import Network
from crdt.testing.render import call, short
from crdt.testing.schedule import Deliver, Do, Event, Heal, Schedule, Send, Split, Sync
from crdt.testing.subject import Crdt

S = TypeVar("S")


class Way(Enum):
    """What a step shows of a message."""

    AT_ONCE = "sent and taken"
    SENT = "sent, still under way"
    TAKEN = "taken, sent before"
    LOST = "sent into a cut"


@dataclass(frozen=True, slots=True)
class Mark:
    """An operation at ``lane``."""

    lane: int
    text: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message from ``source`` to ``target``; ``message`` is its number, 0 for a lost one."""

    source: int
    target: int
    message: int
    way: Way


@dataclass(frozen=True, slots=True)
class Band:
    """Something that concerns all replicas."""

    text: str


Drawn = Mark | Arrow | Band


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened: to draw, in words, and every replica's view afterwards."""

    drawn: Drawn
    words: str
    views: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """All steps of a run of the replicas ``names``; ``broke`` says what ended it early, if so."""

    names: tuple[str, ...]
    steps: tuple[Step, ...]
    broke: str = ""


def _arrow(network: Network[S], event: Sync | Send | Deliver, *, happened: bool) -> Arrow | None:
    """How a message event is drawn, after it took place; None when there was nothing to do."""
    count = len(network.messages)
    if isinstance(event, Deliver):
        if not happened:
            return None
        number = event.message % count
        message = network.messages[number]
        return Arrow(message.source, message.target, number + 1, Way.TAKEN)
    if not happened:
        return Arrow(event.source, event.target, 0, Way.LOST)
    way = Way.AT_ONCE if isinstance(event, Sync) else Way.SENT
    return Arrow(event.source, event.target, count, way)


def _drawn(network: Network[S], event: Event, *, happened: bool) -> Drawn | None:
    match event:
        case Do(replica, operation, arguments):
            time = network.done[-1].at.time
            return Mark(replica, f"{call(operation, arguments)} at {time}")
        case Sync() | Send() | Deliver():
            return _arrow(network, event, happened=happened)
        case Split(replica):
            return Band(f"{network.names[replica]} is cut off")
        case Heal():
            return Band("the cut is healed") if happened else None
        case _:
            assert_never(event)


def _words(names: tuple[str, ...], drawn: Drawn) -> str:
    match drawn:
        case Mark(lane, text):
            return f"{names[lane]}: {text}"
        case Band(text):
            return text
        case Arrow(source, target, message, way):
            ends = f"{names[source]} to {names[target]}"
            return {
                Way.AT_ONCE: f"m{message} goes from {ends}",
                Way.SENT: f"m{message} leaves {names[source]} for {names[target]}",
                Way.TAKEN: f"m{message} arrives at {names[target]} from {names[source]}",
                Way.LOST: f"a message from {ends} is lost",
            }[way]
        case _:
            assert_never(drawn)


def record(
    crdt: Crdt[S], schedule: Schedule, *, settles: bool = False, deltas: bool = False
) -> Recording:
    """Play ``schedule`` again, writing down; ``settles`` adds the exchange of everything."""
    names = schedule.names
    steps: list[Step] = []
    try:
        network = Network(crdt, names, deltas=deltas)
        views = _views(network)
        steps.append(Step(Band("start"), "start", views))
        for event in schedule.events:
            happened = network.step(event)
            drawn = _drawn(network, event, happened=happened)
            if drawn is not None:
                steps.append(Step(drawn, _words(names, drawn), _views(network)))
        if settles:
            network.settle()
            words = "everyone sends to everyone"
            steps.append(Step(Band(words), words, _views(network)))
    except Exception as error:  # noqa: BLE001 - the type under test may raise anything
        return Recording(names, tuple(steps), f"{type(error).__name__}: {error}")
    return Recording(names, tuple(steps))


def _views(network: Network[S]) -> tuple[str, ...]:
    return tuple(short(network.crdt.view(state)) for state in network.states)
