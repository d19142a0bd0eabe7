"""What makes two states of a small scope the same: everything that can still have an effect.

Walks all attributes of the production core, so a new one counts without anybody thinking of it.
Left out by name is only what is computed from the rest, counted for people, or cannot run out
within a scope's few steps of time.  A set of elements is its version, floor and Merkle root.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from crdt import OriginSet
from replicator.simulation.sharing import number_of

_LEFT_OUT = frozenset(
    (
        # computed from the rest
        *("index", "projector", "_projector", "_digest", "_rows", "_outflow"),
        *("draft", "waiting", "_prepared", "_received", "untold"),
        *("stated", "stated_mark", "decided", "_former"),
        *("truth", "_books", "_waiting", "signer", "verifier"),
        # counted for people
        *("encoded", "mismatches", "ignored", "oversized", "latencies", "notices", "commits"),
        *("checks", "changed"),
        # deadlines of five seconds and more
        *("opened_at", "heard_at", "begun", "free_at", "auditor"),
        # set up once
        *("me", "peers", "rng", "_seed", "name", "cluster"),
    )
)
_ORDERED = frozenset(("ready", "woken"))
"""Dictionaries whose order has an effect."""
_PLAIN = frozenset((int, bool, str, bytes, float, type(None)))
_LISTS = frozenset((tuple, list, deque))
_SETS = frozenset((set, frozenset))
_SHAPES: dict[type, tuple[str, ...]] = {}


def _names(kind: type) -> tuple[str, ...]:
    """Attributes of a class with slots that count, in order."""
    known = _SHAPES.get(kind)
    if known is None:
        names = {name for base in kind.__mro__ for name in getattr(base, "__slots__", ())}
        known = _SHAPES[kind] = tuple(sorted(names - _LEFT_OUT))
    return known


def _in_order(values: Iterable[Any]) -> list[Any]:
    """The values of a set, or the keys of a dictionary, in an order that is always the same."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


class _Walk:
    """One walk over one state."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}

    def value(self, value: Any) -> Any:  # noqa: ANN401 - anything; one return a type
        """Something hashable that is equal for equal values."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in _LISTS:
            return tuple(map(self.value, value))
        if kind is dict:
            return tuple((self.value(key), self.value(value[key])) for key in _in_order(value))
        if kind in _SETS:
            return tuple(map(self.value, _in_order(value)))
        if kind is OriginSet:
            return (value.version, value.floor, value.root(), len(value))
        number = number_of(value)
        return self._object(value) if number is None else ("=", number)

    def _object(self, value: Any) -> Any:  # noqa: ANN401 - any object
        met = self._met.get(id(value))
        if met is not None:
            return met
        self._met[id(value)] = len(self._met)
        if hasattr(value, "__dict__"):
            items = sorted((k, v) for k, v in vars(value).items() if k not in _LEFT_OUT)
        else:
            items = [(name, getattr(value, name)) for name in _names(type(value))]
        return tuple(
            (name, tuple(map(self.value, part.items()))) if name in _ORDERED else self.value(part)
            for name, part in items
        )


def essence(value: object) -> int:
    """A hash of all in ``value`` that can still have an effect (64 bits, of this process)."""
    return hash(_Walk().value(value))
