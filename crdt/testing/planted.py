"""Classical mistakes, each planted in an otherwise right type, to see that a kit finds them.

Every one was made before, by somebody, in earnest.  :data:`PLANTED` lists them with the law that
must object.  Use them to judge a test kit (this one, or another), or to learn how a mistake looks
in a report: ``examine(planted.summed_counter())``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from crdt.testing import meanings
from crdt.testing.correct import (
    AMOUNTS,
    ELEMENTS,
    Counts,
    Statements,
    Tag,
    Tagged,
    Written,
    add_tagged,
    g_counter,
    g_set,
    join_tagged,
    lww_register,
    lww_set,
    or_set,
    remove_tagged,
    written,
)
from crdt.testing.logs import UNWRITTEN, Pages, Terms, append, epochs, lengths, log
from crdt.testing.subject import At, Crdt, Delta, Form, in_place, operation


def arrival_register() -> Crdt[Written]:
    """What arrives last wins, whenever it was written."""

    def merge(mine: Written, theirs: Written) -> Written:
        return theirs if theirs.time else mine

    return replace(lww_register(), name="last writer by arrival", merge=merge, order=None)


def tied_register() -> Crdt[Written]:
    """On equal times each replica keeps its own value: the tie is not decided alike."""

    def merge(mine: Written, theirs: Written) -> Written:
        return theirs if theirs.time > mine.time else mine

    return replace(lww_register(), name="non-commutative tie", merge=merge, order=None)


def text_register() -> Crdt[Written]:
    """Stamps are compared as texts: "10" is before "9"."""

    def key(value: Written) -> tuple[str, str, str]:
        return (str(value.time), value.replica, value.value or "")

    def merge(mine: Written, theirs: Written) -> Written:
        return max(mine, theirs, key=key)

    def write(mine: Written, at: At, value: str) -> Written:
        return merge(mine, Written(at.time, at.replica, value))

    return replace(
        lww_register(),
        name="text comparison of stamps",
        merge=merge,
        order=None,
        operations={"set": operation(write, ELEMENTS)},
    )


def early_collection() -> Crdt[Statements]:
    """Tombstones are dropped before everyone has seen them: the removed comes back."""

    def collect(kept: Statements, _: At) -> Statements:
        return {element: entry for element, entry in kept.items() if not entry[2]}

    operations = {**lww_set().operations, "collect": operation(collect)}
    return replace(lww_set(), name="tombstones collected too early", operations=operations)


def forgetful_form() -> Crdt[Statements]:
    """What is written to disk are the present elements; tombstones are lost at a restart."""

    def dump(kept: Statements) -> list[tuple[str, tuple[int, str, bool]]]:
        return sorted(item for item in kept.items() if not item[1][2])

    return replace(lww_set(), name="tombstones not written down", form=Form(dump, dict))


def lost_remove() -> Crdt[frozenset[str]]:
    """A remove takes the element out of a set that is merged by union."""
    return Crdt(
        name="lost remove",
        new=lambda _: frozenset(),
        merge=lambda a, b: a | b,
        operations={
            "add": operation(lambda held, _, element: held | {element}, ELEMENTS),
            "remove": operation(lambda held, _, element: held - {element}, ELEMENTS),
        },
        meaning=meanings.add_wins,
    )


def summed_counter() -> Crdt[Counts]:
    """Counts are added where the larger should be kept."""

    def merge(a: Counts, b: Counts) -> Counts:
        return {name: a.get(name, 0) + b.get(name, 0) for name in a.keys() | b.keys()}

    return replace(g_counter(), name="counter that sums", merge=merge, order=None, delta=None)


def shared_counter() -> Crdt[int]:
    """One number for all replicas, merged by the larger: concurrent increments are lost."""
    return Crdt(
        name="one count for all replicas",
        new=lambda _: 0,
        merge=max,
        operations={"increment": operation(lambda count, _, amount: count + amount, AMOUNTS)},
        meaning=meanings.total,
    )


def averaged_register() -> Crdt[float]:
    """A merge by the mean: it commutes and repeats, but depends on the grouping."""
    return Crdt(
        name="merge by the mean",
        new=lambda _: 0.0,
        merge=lambda a, b: (a + b) / 2,
        operations={"set": operation(lambda _held, _at, value: float(value), st.integers(0, 3))},
    )


def increasing_delta() -> Crdt[Counts]:
    """The delta says by how much to increase, not up to what: taken twice, it counts twice."""

    def make(counts: Counts, known: Counts) -> Counts:
        grown = {name: count - known.get(name, 0) for name, count in counts.items()}
        return {name: count for name, count in grown.items() if count > 0}

    def apply(counts: Counts, delta: Counts) -> Counts:
        names = counts.keys() | delta.keys()
        return {name: counts.get(name, 0) + delta.get(name, 0) for name in names}

    return replace(g_counter(), name="non-idempotent delta", delta=Delta(make, apply))


@dataclass(frozen=True, slots=True)
class Claiming:
    """Pages of each writer, and up to where they are believed to be complete."""

    pages: Pages
    claimed: tuple[tuple[str, int], ...]


def overclaiming() -> Crdt[Claiming]:
    """A delta of one element is sent as if it were all: the rest is never asked for."""
    right = log()

    def believed(held: Claiming) -> Counts:
        return dict(held.claimed)

    def joined(pages: Pages, *claims: Counts) -> Claiming:
        both: Counts = {}
        for claim in (lengths(pages), *claims):
            both |= {name: max(both.get(name, 0), upto) for name, upto in claim.items()}
        return Claiming(pages, tuple(sorted(both.items())))

    def merge(a: Claiming, b: Claiming) -> Claiming:
        return joined(right.merge(a.pages, b.pages), believed(a), believed(b))

    def add(held: Claiming, at: At, element: str) -> Claiming:
        return joined(append(held.pages, at, element), believed(held))

    def make(held: Claiming, known: Counts) -> tuple[object, Counts]:
        return _delta(right).make(held.pages, known), believed(held)

    def apply(held: Claiming, part: tuple[object, Counts]) -> Claiming:
        return joined(_delta(right).apply(held.pages, part[0]), believed(held), part[1])

    return Crdt(
        name="claiming more than sent",
        new=lambda name: joined(right.new(name)),
        merge=merge,
        operations={"append": operation(add, ELEMENTS)},
        view=lambda held: dict(held.pages.held),
        delta=Delta(make, apply, believed),
    )


def _delta(crdt: Crdt[Pages]) -> Delta[Any]:
    assert crdt.delta is not None  # noqa: S101 - logs have deltas
    return crdt.delta


def kept_after_reset() -> Crdt[Terms]:
    """After a writer started again, what it held before is merged in, not replaced."""

    def merge(a: Terms, b: Terms) -> Terms:
        both = dict(a)
        for name, (epoch, theirs) in b.items():
            mine = both.get(name, UNWRITTEN)
            both[name] = (max(mine[0], epoch), mine[1] | theirs)
        return both

    return replace(epochs(), name="reset without replacement", merge=merge)


def damaging_merge() -> Crdt[set[str]]:
    """Merge changes the state that was only to be read."""

    def merge(mine: set[str], theirs: set[str]) -> None:
        theirs |= mine
        mine |= theirs

    return replace(g_set(), name="merge that changes its argument", merge=in_place(merge))


def sharing_merge() -> Crdt[dict[str, set[str]]]:
    """The merge holds the very sets of its argument: a later change reaches into the other."""

    def merge(a: dict[str, set[str]], b: dict[str, set[str]]) -> dict[str, set[str]]:
        both = dict(a)
        for name, theirs in b.items():
            both[name] = both[name] | theirs if name in both else theirs
        return both

    def add(held: dict[str, set[str]], at: At, element: str) -> None:
        held.setdefault(element, set()).add(at.replica)

    return Crdt(
        name="merge that shares with its argument",
        new=lambda _: {},
        merge=merge,
        operations={"add": operation(in_place(add), ELEMENTS)},
    )


def reused_tags() -> Crdt[Tagged]:
    """Tags are counted by what is present, so a re-add takes a tag that is dead already."""

    def add(held: Tagged, at: At, element: str) -> Tagged:
        present = sum(tag not in held.dead for tag in held.adds)
        return add_tagged(held, At(at.replica, present), element)

    operations = {"add": operation(add, ELEMENTS), "remove": operation(remove_tagged, ELEMENTS)}
    return replace(or_set(), name="tags used again", operations=operations)


def remove_by_value() -> Crdt[Tagged]:
    """A merge drops what the other side has removed by its name: adds it never saw go, too."""

    def merge(a: Tagged, b: Tagged) -> Tagged:
        both = join_tagged(a, b)
        gone = {both.adds[tag] for tag in both.dead if tag in both.adds}
        dead: set[Tag] = {tag for tag, element in both.adds.items() if element in gone}
        return Tagged(both.adds, both.dead | dead)

    return replace(or_set(), name="remove by value", merge=merge)


def borrowed_clock() -> Crdt[Written]:
    """A write is stamped with the time alone, and the tie is broken by the value of the moment."""

    def write(mine: Written, at: At, value: str) -> Written:
        return written(mine, At("", at.time), value)

    operations = {"set": operation(write, ELEMENTS)}
    return replace(lww_register(), name="stamp without its writer", operations=operations)


def add_bias() -> Crdt[Statements]:
    """An add at the very time of a remove wins at one replica and loses at the other."""

    def merge(a: Statements, b: Statements) -> Statements:
        kept = dict(a)
        for element, theirs in b.items():
            mine = kept.get(element)
            if mine is None or theirs[0] > mine[0] or (theirs[0] == mine[0] and not theirs[2]):
                kept[element] = theirs
        return kept

    return replace(lww_set(), name="tie in favour of whoever adds", merge=merge)


@dataclass(frozen=True, slots=True)
class Planted:
    """A mistake, and the law that must object to it."""

    make: Callable[[], Crdt[Any]]
    law: str

    @property
    def story(self) -> str:
        """What the mistake is, in a sentence."""
        return (self.make.__doc__ or "").strip()


PLANTED: tuple[Planted, ...] = (
    Planted(arrival_register, "commutative"),
    Planted(tied_register, "commutative"),
    Planted(text_register, "meaning"),
    Planted(early_collection, "inflation"),
    Planted(forgetful_form, "round trip"),
    Planted(lost_remove, "inflation"),
    Planted(summed_counter, "idempotent"),
    Planted(shared_counter, "meaning"),
    Planted(averaged_register, "associative"),
    Planted(increasing_delta, "delta idempotent"),
    Planted(overclaiming, "delta convergence"),
    Planted(kept_after_reset, "inflation"),
    Planted(damaging_merge, "pure"),
    Planted(sharing_merge, "pure"),
    Planted(reused_tags, "meaning"),
    Planted(remove_by_value, "meaning"),
    Planted(borrowed_clock, "meaning"),
    Planted(add_bias, "commutative"),
)
"""All of them."""
