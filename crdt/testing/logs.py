"""Logs, one of each writer, read by all: right types for the laws of deltas and of starting again.

:func:`log` is sent an element at a time, so a delta is a part of what is missing; the writers of
:func:`epochs` may lose everything and start again, and nothing of a former epoch may remain.
"""

from __future__ import annotations

from typing import NamedTuple

from crdt.testing.correct import ELEMENTS, Counts
from crdt.testing.subject import At, Crdt, Delta, operation


class Pages(NamedTuple):
    """One writer's elements in the order of writing, a prefix of them at readers, by replica."""

    held: tuple[tuple[str, tuple[str, ...]], ...]


def _longest(a: Pages, b: Pages) -> Pages:
    both = dict(a.held)
    for name, page in b.held:
        both[name] = max(both.get(name, ()), page, key=len)
    return Pages(tuple(sorted(both.items())))


def append(pages: Pages, at: At, element: str) -> Pages:
    """One element more of the writer."""
    mine = dict(pages.held).get(at.replica, ())
    return _longest(pages, Pages(((at.replica, (*mine, element)),)))


def lengths(pages: Pages) -> Counts:
    """How much of each writer is held."""
    return {name: len(page) for name, page in pages.held}


def next_of_each(pages: Pages, known: Counts) -> list[tuple[str, int, str]]:
    """At most one element of each writer, the first that ``known`` lacks, with its place."""
    rows = ((name, known.get(name, 0), page) for name, page in pages.held)
    return [(name, place, page[place]) for name, place, page in rows if place < len(page)]


def put_next(pages: Pages, part: list[tuple[str, int, str]]) -> Pages:
    """Take what continues without a gap."""
    for name, place, element in part:
        mine = dict(pages.held).get(name, ())
        if place == len(mine):
            pages = _longest(pages, Pages(((name, (*mine, element)),)))
    return pages


def log() -> Crdt[Pages]:
    """Everyone's log, read by everyone, and sent an element at a time."""
    return Crdt(
        name="logs sent in parts",
        new=lambda _: Pages(()),
        merge=_longest,
        operations={"append": operation(append, ELEMENTS)},
        view=lambda pages: dict(pages.held),
        delta=Delta(make=next_of_each, apply=put_next, summary=lengths),
    )


Terms = dict[str, tuple[int, frozenset[str]]]
"""writer -> (epoch, its elements in that epoch)."""
UNWRITTEN: tuple[int, frozenset[str]] = (1, frozenset())
"""What a writer starts from."""


def newest_terms(a: Terms, b: Terms) -> Terms:
    """Of each writer the later epoch, whole; of one epoch, the larger."""
    both = dict(a)
    for name, theirs in b.items():
        mine = both.get(name, UNWRITTEN)
        both[name] = max(mine, theirs, key=lambda term: (term[0], len(term[1])))
    return both


def term_add(terms: Terms, at: At, element: str) -> Terms:
    """One element more in the writer's epoch."""
    epoch, held = terms.get(at.replica, UNWRITTEN)
    return terms | {at.replica: (epoch, held | {element})}


def term_reset(terms: Terms, at: At) -> Terms:
    """The writer starts again from nothing, in a new epoch."""
    epoch, _ = terms.get(at.replica, UNWRITTEN)
    return terms | {at.replica: (epoch + 1, frozenset())}


def epochs() -> Crdt[Terms]:
    """Sets whose writers may start again: an epoch replaces all of the former."""
    return Crdt(
        name="sets with epochs",
        new=lambda _: {},
        merge=newest_terms,
        operations={
            "add": operation(term_add, ELEMENTS),
            "reset": operation(term_reset),
        },
    )
