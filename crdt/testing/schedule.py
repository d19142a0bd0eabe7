"""Schedules: what happens on a network of a few replicas, as data that Hypothesis can shrink.

Nothing in a schedule can be invalid: an event that has nothing to act on (the delivery of a message
when none was sent) is passed over.  A message that is never delivered is lost, one delivered later
than another sent after it is reordered, one delivered twice is repeated; so loss, delay, reordering
and repetition need no events of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from crdt.testing.subject import Crdt

S = TypeVar("S")

NAMES = "abcdefgh"
_TICKS = (1, 1, 1, 2, 9)
"""How far a clock moves: mostly alike, so that times are equal; 9 to meet ones of two digits."""


@dataclass(frozen=True, slots=True)
class Do:
    """``replica`` does an operation, its clock having moved by ``ticks``."""

    replica: int
    operation: str
    arguments: tuple[object, ...]
    ticks: int = 1


@dataclass(frozen=True, slots=True)
class Sync:
    """``source`` sends what it has to ``target``, where it arrives at once."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Send:
    """``source`` sends what it has to ``target``, where it may arrive later, or never."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """A message sent before arrives, perhaps again (``message`` counts modulo their number)."""

    message: int


@dataclass(frozen=True, slots=True)
class Split:
    """``replica`` is cut off: what is sent to it or by it is lost."""

    replica: int


@dataclass(frozen=True, slots=True)
class Heal:
    """All replicas reach each other again."""


Event = Do | Sync | Send | Deliver | Split | Heal


@dataclass(frozen=True, slots=True)
class Schedule:
    """Events on this many replicas, named a, b, c and so on."""

    replicas: int
    events: tuple[Event, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The replicas' names."""
        return tuple(NAMES[: self.replicas])


def pairs(replicas: int) -> SearchStrategy[tuple[int, int]]:
    """Two different replicas."""
    numbers = st.integers(0, replicas - 1)
    return st.tuples(numbers, st.integers(1, replicas - 1)).map(
        lambda drawn: (drawn[0], (drawn[0] + drawn[1]) % replicas)
    )


def operations(crdt: Crdt[S], replicas: int) -> SearchStrategy[Event]:
    """Any operation of ``crdt`` at any replica."""
    does: list[SearchStrategy[Event]] = [
        st.builds(
            Do,
            st.integers(0, replicas - 1),
            st.just(name),
            st.tuples(*crdt.operations[name].arguments),
            st.sampled_from(_TICKS),
        )
        for name in sorted(crdt.operations)
    ]
    return st.one_of(does)


def events(crdt: Crdt[S], replicas: int) -> SearchStrategy[Event]:
    """Any event; of ten about five are operations, three exchanges, and one a fault."""
    does = operations(crdt, replicas)
    syncs: SearchStrategy[Event] = pairs(replicas).map(lambda pair: Sync(*pair))
    sends: SearchStrategy[Event] = pairs(replicas).map(lambda pair: Send(*pair))
    delivers: SearchStrategy[Event] = st.integers(0, 3).map(Deliver)
    faults: SearchStrategy[Event] = st.integers(0, replicas - 1).map(Split) | st.builds(Heal)
    # Sampled, since a union would drop what it is given twice.
    kinds = [*[does] * 6, *[syncs] * 3, sends, delivers, faults]
    return st.sampled_from(range(len(kinds))).flatmap(kinds.__getitem__)


def schedules(crdt: Crdt[S], replicas: int = 3, longest: int = 12) -> SearchStrategy[Schedule]:
    """Schedules for operations of ``crdt`` on two to ``replicas`` (at most 8) replicas.

    Half of them are long: Hypothesis's lists are short by themselves, and some mistakes need five
    events in a row.
    """
    found: list[SearchStrategy[Schedule]] = []
    for count in range(2, replicas + 1):
        event = events(crdt, count)
        short = st.lists(event, max_size=longest)
        long = st.lists(event, min_size=longest // 2, max_size=longest)
        found.append(st.builds(Schedule, st.just(count), (short | long).map(tuple)))
    return st.one_of(found)
