"""The textbook's small types, right: counters, registers and sets as subjects of the kit.

They show how a :class:`~crdt.testing.subject.Crdt` is written, and they hold the kit to silence:
each passes every law.  :mod:`crdt.testing.planted` breaks them one mistake at a time.  States are
plain dictionaries and tuples, so that nothing is hidden.

Source: Shapiro et al., INRIA RR-7506 (2011), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from hypothesis import strategies as st

from crdt.testing import meanings
from crdt.testing.subject import At, Crdt, Delta, Form, in_place, operation

ELEMENTS = st.sampled_from("xy")
AMOUNTS = st.integers(1, 3)

Counts = dict[str, int]


def largest(a: Counts, b: Counts) -> Counts:
    """The larger count of each replica."""
    return {name: max(a.get(name, 0), b.get(name, 0)) for name in a.keys() | b.keys()}


def increment(counts: Counts, at: At, amount: int) -> Counts:
    """Add to the replica's own count."""
    return counts | {at.replica: counts.get(at.replica, 0) + amount}


def newer_counts(counts: Counts, known: Counts) -> Counts:
    """The counts that ``known`` has not."""
    return {name: count for name, count in counts.items() if count > known.get(name, 0)}


def at_most(a: Counts, b: Counts) -> bool:
    """The order that :func:`largest` makes."""
    return all(count <= b.get(name, 0) for name, count in a.items())


def g_counter() -> Crdt[Counts]:
    """A counter that grows: one count a replica, merged by the larger."""
    return Crdt(
        name="grow-only counter",
        new=lambda _: {},
        merge=largest,
        operations={"increment": operation(increment, AMOUNTS)},
        view=lambda counts: sum(counts.values()),
        equal=lambda a, b: a == b,
        order=at_most,
        delta=Delta(make=newer_counts, apply=largest),
        form=Form(dump=lambda counts: sorted(counts.items()), load=dict),
        meaning=meanings.total,
    )


class Written(NamedTuple):
    """A register's value and when and where it was written."""

    time: int
    replica: str
    value: str | None


def lww_register() -> Crdt[Written]:
    """A register whose newest write wins, by time and then by replica."""
    return Crdt(
        name="last-writer-wins register",
        new=lambda _: Written(0, "", None),
        merge=max,
        operations={"set": operation(written, ELEMENTS)},
        view=lambda state: state.value,
        equal=lambda a, b: a == b,
        order=lambda a, b: a <= b,
        meaning=meanings.last_set,
    )


def written(state: Written, at: At, value: str) -> Written:
    """The register after a write, later than anything its writer has seen or not."""
    return max(state, Written(at.time, at.replica, value))


Statements = dict[str, tuple[int, str, bool]]
"""element -> (time, replica, removed), the newest of each."""


def newest(a: Statements, b: Statements) -> Statements:
    """The newer statement about each element."""
    kept = dict(a)
    for element, stated in b.items():
        kept[element] = max(kept.get(element, stated), stated)
    return kept


def state(*, removed: bool) -> Callable[[Statements, At, str], Statements]:
    """An operation that states an element to be there, or removed."""
    return lambda kept, at, element: newest(kept, {element: (at.time, at.replica, removed)})


def stated(kept: Statements) -> frozenset[str]:
    """The elements that are there."""
    return frozenset(element for element, (_, _, removed) in kept.items() if not removed)


def lww_set() -> Crdt[Statements]:
    """A set in which the newest statement about an element holds; tombstones stay for ever."""
    return Crdt(
        name="last-writer-wins set",
        new=lambda _: {},
        merge=newest,
        operations={
            "add": operation(state(removed=False), ELEMENTS),
            "remove": operation(state(removed=True), ELEMENTS),
        },
        view=stated,
        equal=lambda a, b: a == b,
        form=Form(dump=lambda kept: sorted(kept.items()), load=dict),
        meaning=meanings.last_stated,
    )


Tag = tuple[str, int]
"""A replica and its time: unique."""


class Tagged(NamedTuple):
    """Elements by their tags, and the tags that were removed."""

    adds: Mapping[Tag, str]
    dead: frozenset[Tag]


def join_tagged(a: Tagged, b: Tagged) -> Tagged:
    """Everything added and everything removed."""
    return Tagged({**a.adds, **b.adds}, a.dead | b.dead)


def add_tagged(held: Tagged, at: At, element: str) -> Tagged:
    """An add under a tag that nobody used before."""
    return held._replace(adds={**held.adds, (at.replica, at.time): element})


def remove_tagged(held: Tagged, _: At, element: str) -> Tagged:
    """A remove of the adds that are seen here, and of no others."""
    return held._replace(dead=held.dead | {tag for tag, e in held.adds.items() if e == element})


def or_set() -> Crdt[Tagged]:
    """An observed-remove set: of an add and a remove that did not see it, the add wins."""
    return Crdt(
        name="observed-remove set",
        new=lambda _: Tagged({}, frozenset()),
        merge=join_tagged,
        operations={
            "add": operation(add_tagged, ELEMENTS),
            "remove": operation(remove_tagged, ELEMENTS),
        },
        view=lambda held: frozenset(e for tag, e in held.adds.items() if tag not in held.dead),
        equal=lambda a, b: a == b,
        meaning=meanings.add_wins,
    )


def g_set() -> Crdt[set[str]]:
    """A set that grows, changed and merged in place as Python's own set is."""
    return Crdt(
        name="grow-only set",
        new=lambda _: set(),
        merge=in_place(set.update),
        operations={
            "add": operation(in_place(lambda held, _, element: held.add(element)), ELEMENTS)
        },
        order=lambda a, b: a <= b,
        meaning=meanings.everything_added,
    )
