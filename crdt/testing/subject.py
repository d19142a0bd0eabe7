"""What the kit has to know of a replicated type: how to make, change, merge and compare states.

A :class:`Crdt` is a description, not a base class, so it fits types of anyone.  Functions given to
it return the state they lead to; one that changes its first argument instead is wrapped by
:func:`in_place`.  States may be of any type: only the given functions ever look inside.

Invariant: whatever is called through a :class:`Crdt` gets copies, so that a merge that damages its
arguments cannot damage the judgement of another law.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from hypothesis.strategies import SearchStrategy

S = TypeVar("S")


class InPlace:
    """A function that changes its first argument, seen as one that returns it."""

    __slots__ = ("change",)

    def __init__(self, change: Callable[..., object]) -> None:
        """Wrap ``change``; what it returns is ignored."""
        self.change = change

    def __call__(self, state: S, *rest: object) -> S:
        """Change ``state`` and return it."""
        self.change(state, *rest)
        return state


def in_place(change: Callable[..., object]) -> InPlace:
    """Say that ``change`` changes its first argument, as ``set.update`` does."""
    return InPlace(change)


@dataclass(frozen=True, slots=True)
class At:
    """Where and when an operation happens.

    ``time`` is the replica's own clock, from 1: it rises with each of its operations, and those of
    two replicas may show the same time.  So (time, replica) is unique, time alone is not.
    """

    replica: str
    time: int


@dataclass(frozen=True, slots=True)
class Operation(Generic[S]):
    """A change that a user can make: ``run(state, at, *arguments)`` leads to the next state."""

    run: Callable[..., S]
    arguments: tuple[SearchStrategy[object], ...] = ()


def operation(run: Callable[..., S], *arguments: SearchStrategy[object]) -> Operation[S]:
    """An operation and the strategies for its arguments after ``(state, at)``."""
    return Operation(run, arguments)


@dataclass(frozen=True, slots=True)
class Did:
    """An operation that was done: the ``number``-th of a run, having ``seen`` those before it."""

    number: int
    at: At
    name: str
    arguments: tuple[Any, ...]
    seen: frozenset[int]


Meaning = Callable[[Sequence[Did]], object]
"""The view that these operations, in the order they were done, ought to add up to."""


def _itself(state: object) -> object:
    return state


@dataclass(frozen=True, slots=True)
class Delta(Generic[S]):
    """How a type sends less than its whole state.

    The receiver's ``summary`` of what it has goes to the sender, whose ``make(state, summary)`` is
    sent, late or twice or never, and taken by ``apply(state, delta)``.  A delta may be a part of
    what is missing; it must not claim the rest.  Summaries and deltas must be fit for ``deepcopy``.
    """

    make: Callable[[S, Any], object]
    apply: Callable[[S, Any], S]
    summary: Callable[[S], object] = _itself


@dataclass(frozen=True, slots=True)
class Form(Generic[S]):
    """How a state is written down and read back."""

    dump: Callable[[S], object]
    load: Callable[[Any], S]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crdt(Generic[S]):
    """A state-based type under test.

    ``new(name)`` makes the first state of the replica so named.  ``equal`` compares states (by
    default their views); ``view`` is what a reader sees (by default the state itself).  Everything
    else is optional and adds the laws that can then be checked: ``order`` is the type's own "at
    most", ``meaning`` says what a set of operations ought to show.
    """

    name: str
    new: Callable[[str], S]
    merge: Callable[[S, S], S]
    operations: Mapping[str, Operation[S]] = field(default_factory=dict)
    view: Callable[[S], object] = _itself
    equal: Callable[[S, S], bool] | None = None
    copy: Callable[[S], S] = deepcopy
    order: Callable[[S, S], bool] | None = None
    delta: Delta[S] | None = None
    form: Form[S] | None = None
    meaning: Meaning | None = None

    def merged(self, *states: S) -> S:
        """The merge of copies of these, from left to right."""
        result = self.copy(states[0])
        for state in states[1:]:
            result = self.merge(result, self.copy(state))
        return result

    def same(self, a: S, b: S) -> bool:
        """Whether two states are equal."""
        if self.equal is not None:
            return bool(self.equal(a, b))
        return bool(self.view(a) == self.view(b))

    def agree(self, a: S, b: S) -> bool:
        """Whether readers of two states see the same."""
        if self.view is _itself:
            return self.same(a, b)
        return bool(self.view(a) == self.view(b))

    def perform(self, name: str, state: S, at: At, arguments: Sequence[object]) -> S:
        """Do the operation ``name`` to ``state`` itself."""
        return self.operations[name].run(state, at, *arguments)
