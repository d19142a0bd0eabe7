"""What operations ought to add up to: reference views for the usual types.

A meaning is a function of the operations a state includes, each knowing which others its writer had
seen; it is slow, plain and does not merge anything, so it can be believed.  Those of sets expect
operations named ``add`` and ``remove`` with the element first, those of counters ``increment`` and
``decrement``, those of registers ``set``.

Source: Burckhardt, Gotsman, Yang, Zawirski, "Replicated Data Types: Specification, Verification,
Optimality" (POPL 2014), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from crdt.testing.subject import Did


def total(done: Sequence[Did]) -> int:
    """A counter: increments less decrements (each by its argument, or by one)."""
    sum_up = 0
    for did in done:
        amount = did.arguments[0] if did.arguments else 1
        sum_up += {"increment": amount, "decrement": -amount}.get(did.name, 0)
    return sum_up


def everything_added(done: Sequence[Did]) -> frozenset[object]:
    """A set that only grows."""
    return frozenset(did.arguments[0] for did in done if did.name == "add")


def add_wins(done: Sequence[Did]) -> frozenset[object]:
    """An observed-remove set: present with an add that no remove of the element has seen."""
    removes = [did for did in done if did.name == "remove"]
    return frozenset(
        add.arguments[0]
        for add in done
        if add.name == "add"
        and not any(
            add.number in remove.seen and remove.arguments[0] == add.arguments[0]
            for remove in removes
        )
    )


def _age(did: Did) -> tuple[int, bytes]:
    return (did.at.time, did.at.replica.encode())


def last_set(done: Sequence[Did]) -> object:
    """A last-writer-wins register: the newest by (time, replica); None before any."""
    sets = [did for did in done if did.name == "set"]
    return max(sets, key=_age).arguments[0] if sets else None


def last_stated(done: Sequence[Did]) -> frozenset[object]:
    """A last-writer-wins set: present if the newest statement by (time, replica) is an add."""
    newest: dict[object, Did] = {}
    for did in sorted(done, key=_age):
        if did.name in {"add", "remove"}:
            newest[did.arguments[0]] = did
    return frozenset(element for element, did in newest.items() if did.name == "add")
