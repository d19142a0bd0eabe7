"""The list of all laws, and which of them apply to a given type."""

from __future__ import annotations

from typing import TypeVar

from crdt.testing import laws
from crdt.testing.laws import RunLaw, StateLaw
from crdt.testing.subject import Crdt

S = TypeVar("S")

NAMES = (
    "equality",
    "commutative",
    "associative",
    "idempotent",
    "neutral",
    "any order",
    "pure",
    "ordered",
    "delta is state",
    "delta idempotent",
    "round trip",
    "inflation",
    "convergence",
    "delta convergence",
    "meaning",
)
"""All laws, in the order in which they are checked."""


def state_laws(crdt: Crdt[S]) -> list[StateLaw[S]]:
    """The laws about states that what is known of ``crdt`` allows to check."""
    found: list[StateLaw[S]] = [
        StateLaw("equality", "a state equals its own copy", laws.equality),
        StateLaw("commutative", "merge(a, b) equals merge(b, a)", laws.commutative),
        StateLaw(
            "associative", "merge(merge(a, b), c) equals merge(a, merge(b, c))", laws.associative
        ),
        StateLaw("idempotent", "merging again what is merged changes nothing", laws.idempotent),
        StateLaw("neutral", "merging with a new replica changes nothing", laws.neutral),
        StateLaw(
            "any order",
            "states may arrive in any order, repeatedly, with one result",
            laws.any_order,
        ),
        StateLaw(
            "pure",
            "merge leaves its arguments as they were and shares nothing with them",
            laws.pure,
        ),
    ]
    if crdt.order is not None:
        words = "merge is an upper bound in the type's order, and the order is that of merge"
        found.append(StateLaw("ordered", words, laws.ordered))
    if crdt.delta is not None:
        words = "the deltas of a lead b where the whole state of a leads it"
        found.append(StateLaw("delta is state", words, laws.delta_is_state))
        words = "a delta that arrives twice does what it does once"
        found.append(StateLaw("delta idempotent", words, laws.delta_idempotent))
    if crdt.form is not None:
        words = "a state that was written down and read back is the same state"
        found.append(StateLaw("round trip", words, laws.round_trip))
    return found


def run_laws(crdt: Crdt[S]) -> list[RunLaw[S]]:
    """The laws about runs that can be checked; none for a type without operations."""
    if not crdt.operations:
        return []
    words = "an operation adds to the state: merging its own past again undoes nothing"
    found: list[RunLaw[S]] = [RunLaw("inflation", words, laws.inflation)]
    words = "replicas that exchanged everything show the same"
    found.append(RunLaw("convergence", words, laws.convergence, settles=True))
    if crdt.delta is not None:
        words = "replicas that exchanged all deltas show what whole states would have shown"
        found.append(
            RunLaw("delta convergence", words, laws.delta_convergence, settles=True, deltas=True)
        )
    if crdt.meaning is not None:
        words = "a view is what the operations it includes add up to"
        found.append(RunLaw("meaning", words, laws.meaning, settles=True))
    return found
