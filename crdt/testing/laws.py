"""The laws: what every state-based type owes its users, each as a function of one schedule.

A law plays the schedule on a network of fresh replicas, looks, and returns the :class:`Contrast`
between what it found and what it ought to have found, or None.  The laws of merge look at the
states of replicas a, b and c at the end (c is a again when there are two), so every state they are
checked on can really come about.  What a law calls may raise anything; the caller takes that for a
breach.

Source of the laws: Shapiro et al., INRIA RR-7506 (2011), section 2; of those of deltas: Almeida,
Shoker, Baquero, "Delta State Replicated Data Types" (2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Generic, TypeVar

from crdt.testing.network import Network, played
from crdt.testing.render import render, short
from crdt.testing.schedule import Do, Schedule
from crdt.testing.subject import At, Crdt, Delta, InPlace

S = TypeVar("S")
States = Sequence[S]


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two things that ought to be alike, each by its name and as text."""

    left: str
    found: str
    right: str
    wanted: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A law by its name and in words."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class StateLaw(Statement, Generic[S]):
    """A law about any three states that can come about."""

    holds: Callable[[Crdt[S], States[S], Schedule], Contrast | None]


@dataclass(frozen=True, slots=True)
class RunLaw(Statement, Generic[S]):
    """A law about a run of a schedule.

    ``settles`` and ``deltas`` say how the network is run, so that a report can show the same run.
    """

    holds: Callable[[Crdt[S], Schedule], Contrast | None]
    settles: bool = False
    deltas: bool = False


Law = StateLaw[S] | RunLaw[S]


def guard(law: Callable[..., Contrast | None], *case: object) -> Contrast | None:
    """What ``law`` says of the case; an exception is a breach: no law lets a type raise."""
    try:
        return law(*case)
    except Exception as error:  # noqa: BLE001 - the type under test may raise anything
        what = f"raised {type(error).__name__}: {error}"
        return Contrast("what was called", what, "ought to have", "returned")


def contrast(crdt: Crdt[S], left: str, found: S, right: str, wanted: S) -> Contrast | None:
    """None when the two states are equal."""
    if crdt.same(found, wanted):
        return None
    texts = short(crdt.view(found)), short(crdt.view(wanted))
    if texts[0] == texts[1]:
        texts = short(found), short(wanted)
    return Contrast(left, texts[0], right, texts[1])


def equality(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """Without it no other law means anything."""
    a = states[0]
    return contrast(crdt, "a", a, "a copy of a", crdt.copy(a))


def commutative(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """Order of two does not matter."""
    a, b = states[:2]
    return contrast(crdt, "merge(a, b)", crdt.merged(a, b), "merge(b, a)", crdt.merged(b, a))


def associative(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """Grouping does not matter."""
    a, b, c = states
    left, right = crdt.merged(a, b, c), crdt.merged(a, crdt.merged(b, c))
    return contrast(crdt, "merge(merge(a, b), c)", left, "merge(a, merge(b, c))", right)


def idempotent(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """Repetition does not matter."""
    a, b = states[:2]
    once, twice = crdt.merged(a, b), crdt.merged(a, b, b)
    return contrast(crdt, "merge(a, a)", crdt.merged(a, a), "a", a) or contrast(
        crdt, "merge(merge(a, b), b)", twice, "merge(a, b)", once
    )


def neutral(crdt: Crdt[S], states: States[S], schedule: Schedule) -> Contrast | None:
    """A replica that has seen nothing adds nothing."""
    a, new = states[0], crdt.new(schedule.names[-1])
    return contrast(crdt, "merge(a, new)", crdt.merged(a, new), "a", a) or contrast(
        crdt, "merge(new, a)", crdt.merged(new, a), "a", a
    )


def any_order(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """Messages may arrive in any order, and again."""
    wanted = crdt.merged(*states, states[0])
    for order in permutations(range(3)):
        arrived = [states[at] for at in (*order, order[0], order[1])]
        names = ", ".join("abc"[at] for at in (*order, order[0], order[1]))
        found = contrast(
            crdt, f"merged in order {names}", crdt.merged(*arrived), "in order a, b, c, a", wanted
        )
        if found is not None:
            return found
    return None


def pure(crdt: Crdt[S], states: States[S], schedule: Schedule) -> Contrast | None:
    """Merge leaves its arguments alone, and what it made shares nothing with them.

    An in-place merge may of course change its first argument.
    """
    a, b = states[:2]
    first, second = crdt.copy(a), crdt.copy(b)
    result = crdt.merge(first, second)

    def harmed(when: str) -> Contrast | None:
        found = contrast(crdt, f"b {when}", second, "b before", b)
        if found is not None or isinstance(crdt.merge, InPlace):
            return found
        return contrast(crdt, f"a {when}", first, "a before", a)

    found = harmed("after merge(a, b)")
    if found is not None:
        return found
    does = [event for event in schedule.events if isinstance(event, Do)]
    later = sum(event.ticks for event in does)
    for number, event in enumerate(does):
        at = At("a", later + number + 1)
        result = crdt.perform(event.operation, result, at, event.arguments)
    return harmed("after merge(a, b) and changes to the result")


def ordered(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """The type's own order is the one that merge makes, and merge is an upper bound in it."""
    order = crdt.order
    if order is None:
        return None
    a, b = states[:2]
    both = crdt.merged(a, b)
    if not order(crdt.copy(a), crdt.copy(both)):
        return Contrast("a", short(crdt.view(a)), "at most merge(a, b)", short(crdt.view(both)))
    if not order(crdt.copy(a), crdt.copy(b)):
        return None
    return contrast(crdt, "merge(a, b), a being at most b", both, "b", b)


def pulled(crdt: Crdt[S], delta: Delta[S], mine: S, theirs: S) -> S:
    """``mine`` after taking deltas of ``theirs`` until they change nothing."""
    mine = crdt.copy(mine)
    for _ in range(64):
        before = crdt.copy(mine)
        mine = delta.apply(mine, delta.make(crdt.copy(theirs), delta.summary(before)))
        if crdt.same(before, mine):
            break
    return mine


def delta_is_state(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """Deltas lead where the whole state leads."""
    if crdt.delta is None:
        return None
    a, b = states[:2]
    left = pulled(crdt, crdt.delta, b, a)
    return contrast(crdt, "b with the deltas of a", left, "merge(b, a)", crdt.merged(b, a))


def delta_idempotent(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """A delta may arrive twice."""
    delta = crdt.delta
    if delta is None:
        return None
    a, b = states[:2]

    def taken(times: int) -> S:
        mine = crdt.copy(b)
        for _ in range(times):
            made = delta.make(crdt.copy(a), delta.summary(crdt.copy(b)))
            mine = delta.apply(mine, made)
        return mine

    return contrast(crdt, "b with a delta of a, twice", taken(2), "b with it, once", taken(1))


def round_trip(crdt: Crdt[S], states: States[S], _: Schedule) -> Contrast | None:
    """What was written down reads back, and merges as before."""
    form = crdt.form
    if form is None:
        return None

    def again(state: S) -> S:
        return form.load(form.dump(crdt.copy(state)))

    a, b = states[:2]
    return contrast(crdt, "load(dump(a))", again(a), "a", a) or contrast(
        crdt, "merge(b, load(dump(a)))", crdt.merged(b, again(a)), "merge(b, a)", crdt.merged(b, a)
    )


def inflation(crdt: Crdt[S], schedule: Schedule) -> Contrast | None:
    """An operation only adds to the state: meeting its own past again undoes nothing."""
    network = Network(crdt, schedule.names)
    for event in schedule.events:
        if not isinstance(event, Do):
            network.step(event)
            continue
        before = crdt.copy(network.states[event.replica])
        network.step(event)
        after = network.states[event.replica]
        both = crdt.merged(after, before)
        found = contrast(crdt, "merge(after, before)", both, "after the operation", after)
        if found is not None:
            return found
        if crdt.order is not None and not crdt.order(before, crdt.copy(after)):
            texts = short(crdt.view(before)), short(crdt.view(after))
            return Contrast("before the operation", texts[0], "at most after it", texts[1])
    return None


def _converged(crdt: Crdt[S], network: Network[S]) -> Contrast | None:
    first = network.states[0]
    for name, state in zip(network.names[1:], network.states[1:], strict=True):
        if not crdt.agree(first, state):
            views = short(crdt.view(first)), short(crdt.view(state))
            return Contrast("the view of a", views[0], f"the view of {name}", views[1])
    return None


def convergence(crdt: Crdt[S], schedule: Schedule) -> Contrast | None:
    """Replicas that exchanged everything show the same."""
    network = played(crdt, schedule)
    network.settle()
    return _converged(crdt, network)


def delta_convergence(crdt: Crdt[S], schedule: Schedule) -> Contrast | None:
    """The same, by deltas alone; and what they show is what whole states would have led to."""
    if crdt.delta is None:
        return None
    network = played(crdt, schedule, deltas=True)
    whole = crdt.merged(*network.states)
    network.settle()
    return _converged(crdt, network) or contrast(
        crdt, "a when all deltas arrived", network.states[0], "the merge of all states", whole
    )


def means(crdt: Crdt[S], network: Network[S], replica: int) -> Contrast | None:
    """Whether a view is what the operations it includes add up to."""
    if crdt.meaning is None:
        return None
    found = crdt.view(network.states[replica])
    wanted = crdt.meaning(network.visible(replica))
    if found == wanted:
        return None
    name = network.names[replica]
    return Contrast(f"the view of {name}", render(found), "what it was told", render(wanted))


def meaning(crdt: Crdt[S], schedule: Schedule) -> Contrast | None:
    """Every view, at every step, is what the operations it includes add up to."""
    network = Network(crdt, schedule.names)
    for event in schedule.events:
        network.step(event)
        for replica in range(schedule.replicas):
            found = means(crdt, network, replica)
            if found is not None:
                return found
    network.settle()
    return means(crdt, network, 0)
