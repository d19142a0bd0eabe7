"""Adapters of packages written in plain Python, whose states Python can copy."""

from __future__ import annotations

import collections
import collections.abc
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from hypothesis import strategies as st

from crdt.testing import At, Crdt, Did, InPlace, in_place, operation
from crdt.testing.meanings import add_wins, everything_added, last_stated, total

LETTERS = st.sampled_from("xy")
NAMES = "abc"
"""What the replicas are called, for types that must know all of them beforehand."""
MERGE = in_place(lambda mine, theirs: mine.merge(theirs))


def _done(name: str, *arguments: str) -> InPlace:
    """A call of the method ``name``; ``arguments`` say which of at's fields come first."""
    return in_place(
        lambda state, at, *drawn: getattr(state, name)(*(getattr(at, a) for a in arguments), *drawn)
    )


def _adds_and_removes() -> dict[str, Any]:
    return {
        "add": operation(_done("add"), LETTERS),
        "remove": operation(_done("remove"), LETTERS),
    }


def _gone_for_ever(done: Sequence[Did]) -> frozenset[str]:
    """A two-phase set: added, and never removed."""
    adds = {did.arguments[0] for did in done if did.name == "add"}
    return frozenset(adds - {did.arguments[0] for did in done if did.name == "remove"})


class _Times:
    """Stands for the class ``datetime`` of a package that reads the clock by itself."""

    time = 0

    @classmethod
    def now(cls) -> int:
        return cls.time


def python3_crdt_types() -> Iterator[Crdt[Any]]:
    """python3-crdt; its counters must be told of every node, and its LWW set reads the clock."""

    def counter(kind: Any) -> Any:
        def new(name: str) -> Any:
            made = kind(name)
            for node in NAMES:
                made.add_new_node(node)
            return made

        return new

    def seen(state: Any) -> frozenset[str]:
        return frozenset(letter for letter in "xy" if state.query(letter))

    def query(state: Any) -> object:
        return state.query()

    def timed(name: str) -> InPlace:
        def change(state: Any, at: At, letter: str) -> None:
            # Its stamps have no replica in them: keep those of two replicas apart.
            _Times.time = at.time * len(NAMES) + NAMES.index(at.replica)
            getattr(state, name)(letter)

        return in_place(change)

    increments = {"increment": operation(_done("inc", "replica"))}
    yield Crdt(
        name="GCounter",
        new=counter(import_module("py3crdt.gcounter").GCounter),
        merge=MERGE,
        operations=increments,
        view=query,
        meaning=total,
    )
    yield Crdt(
        name="PNCounter",
        new=counter(import_module("py3crdt.pncounter").PNCounter),
        merge=MERGE,
        operations=increments | {"decrement": operation(_done("dec", "replica"))},
        view=query,
        meaning=total,
    )
    yield Crdt(
        name="GSet",
        new=import_module("py3crdt.gset").GSet,
        merge=MERGE,
        operations={"add": operation(_done("add"), LETTERS)},
        view=seen,
        meaning=everything_added,
    )
    yield Crdt(
        name="TwoPSet",
        new=import_module("py3crdt.twopset").TwoPSet,
        merge=MERGE,
        operations=_adds_and_removes(),
        view=seen,
        meaning=_gone_for_ever,
    )
    lww = import_module("py3crdt.lww")
    lww.datetime = _Times  # type: ignore[attr-defined]  # it takes its times from there
    yield Crdt(
        name="LWWElementSet",
        new=lww.LWWElementSet,
        merge=MERGE,
        operations={
            "add": operation(timed("add"), LETTERS),
            "remove": operation(timed("remove"), LETTERS),
        },
        view=seen,
        meaning=last_stated,
    )

    def removed(state: Any, _: At, letter: str) -> None:
        if state.query(letter):
            state.remove(letter)

    yield Crdt(
        name="ORSet",
        new=import_module("py3crdt.orset").ORSet,
        merge=MERGE,
        operations={
            "add": operation(
                in_place(lambda s, at, e: s.add(e, f"{at.replica}{at.time}")), LETTERS
            ),
            "remove": operation(in_place(removed), LETTERS),
        },
        view=seen,
        meaning=add_wins,
    )


def crdts_types() -> Iterator[Crdt[Any]]:
    """crdts: a replica gets the other's ``history()`` of updates, as its manual says."""
    crdts = import_module("crdts")

    def clock() -> Any:
        return crdts.ScalarClock(uuid=b"survey")

    def merge(mine: Any, theirs: Any) -> None:
        for update in theirs.history():
            mine.update(update)

    def made(name: str, operations: dict[str, Any], **more: Any) -> Crdt[Any]:
        kind = getattr(crdts, name)
        return Crdt(
            name=name,
            new=more.pop("new", lambda _: kind(clock=clock())),
            merge=in_place(merge),
            operations=operations,
            **more,
        )

    def read(state: Any) -> object:
        return state.read()

    yield made("GSet", {"add": operation(_done("add"), LETTERS)}, view=read)
    yield made(
        "ORSet",
        {
            "add": operation(_done("observe"), LETTERS),
            "remove": operation(_done("remove"), LETTERS),
        },
        view=lambda state: frozenset(state.read()),
    )
    amounts = st.integers(1, 3)
    yield made(
        "PNCounter",
        {
            "increment": operation(_done("increase"), amounts),
            "decrement": operation(_done("decrease"), amounts),
        },
        view=read,
        meaning=total,
    )
    yield made(
        "LWWRegister",
        {"set": operation(in_place(lambda s, at, v: s.write(v, at.replica)), LETTERS)},
        new=lambda _: crdts.LWWRegister("it", clock=clock(), last_writer=""),
        view=read,
    )


def xotl_types() -> Iterator[Crdt[Any]]:
    """xotl.crdt; equality is that of views, since its own compares the process as well."""
    process = import_module("xotl.crdt.base").Process

    def made(module: str, kind: str, operations: dict[str, Any], meaning: Any) -> Crdt[Any]:
        which = getattr(import_module(f"xotl.crdt.{module}"), kind)
        return Crdt(
            name=kind,
            new=lambda name: which(process=process(name, NAMES.index(name))),
            merge=MERGE,
            operations=operations,
            view=lambda state: state.value,
            meaning=meaning,
        )

    counts = {"increment": operation(_done("incr"))}
    downs = counts | {"decrement": operation(_done("decr"))}
    adds = {"add": operation(_done("add"), LETTERS)}
    sets = {
        "set": operation(in_place(lambda s, at, v: s.set(v, _timestamp=at.time)), LETTERS),
    }
    yield made("counter", "GCounter", counts, total)
    yield made("counter", "PNCounter", downs, total)
    yield made("sets", "GSet", adds, everything_added)
    yield made("sets", "TwoPhaseSet", _adds_and_removes(), None)
    yield made("sets", "ORSet", _adds_and_removes(), add_wins)
    yield made("register", "LWWRegister", sets, None)


def link_types() -> Iterator[Crdt[Any]]:
    """link.crdt; Python 3.10 took away the name that it imports Set by, so it is put back."""
    collections.Set = collections.abc.Set  # type: ignore[attr-defined]

    def made(module: str, kind: str, operations: dict[str, Any], meaning: Any = None) -> Crdt[Any]:
        which = getattr(import_module(f"link.crdt.{module}"), kind)
        return Crdt(
            name=kind,
            new=lambda _: which(),
            merge=which.merge,
            operations=operations,
            view=lambda state: state.current,
            meaning=meaning,
        )

    counts = {
        "increment": operation(_done("increment"), st.integers(1, 3)),
        "decrement": operation(_done("decrement"), st.integers(1, 3)),
    }
    sets = {
        "add": operation(_done("add"), LETTERS),
        "discard": operation(_done("discard"), LETTERS),
    }
    flags = {"enable": operation(_done("enable")), "disable": operation(_done("disable"))}
    yield made("counter", "Counter", counts, total)
    yield made("set", "Set", sets)
    yield made("register", "Register", {"set": operation(_done("assign"), LETTERS)})
    yield made("flag", "Flag", flags)
