"""Copies of whole states that share what never changes.

Pickling copies a state; frozen values (heads, adverts, messages, batches, keys) go by number, which
takes a fifth of the time, and equal ones become the same.  The numbers also stand for the values
when states are compared.
"""

from __future__ import annotations

import pickle
from collections.abc import Hashable
from io import BytesIO
from typing import Any

_FROZEN: dict[type, bool] = {}


def _is_frozen(kind: type) -> bool:
    """Whether values of a class never change: frozen dataclasses and named tuples."""
    known = _FROZEN.get(kind)
    if known is None:
        parameters = getattr(kind, "__dataclass_params__", None)
        named = issubclass(kind, tuple) and kind is not tuple
        known = _FROZEN[kind] = named or bool(parameters is not None and parameters.frozen)
    return known


class _Shared:
    """All frozen values met so far."""

    def __init__(self) -> None:
        self._values: list[object] = []
        self._by_id: dict[int, int] = {}
        self._by_value: dict[tuple[type, Hashable], int] = {}

    def number(self, value: Any) -> int:  # noqa: ANN401 - any frozen value
        """The number of a frozen value, the same for equal ones."""
        known = self._by_id.get(id(value))
        if known is None:
            key = (type(value), value)
            known = self._by_value.get(key)
            if known is None:
                known = self._by_value[key] = self._by_id[id(value)] = len(self._values)
                self._values.append(value)
        return known

    def value(self, number: int) -> object:
        """The value of a number."""
        return self._values[number]


_SHARED = _Shared()


def value_of(number: int) -> object:
    """The frozen value of a number; what copies call."""
    return _SHARED.value(number)


def number_of(value: object) -> int | None:
    """The number of ``value`` if it is frozen, else None."""
    return _SHARED.number(value) if _is_frozen(type(value)) else None


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:  # noqa: ANN401 - as the base class says
        """Frozen values by number, anything else as ever."""
        if isinstance(obj, type) or not _is_frozen(type(obj)):
            return NotImplemented
        return value_of, (_SHARED.number(obj),)


def saved(state: object) -> bytes:
    """A copy of ``state``, as bytes that only this process can read."""
    file = BytesIO()
    _Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(state)
    return file.getvalue()


def restored(data: bytes) -> Any:  # noqa: ANN401 - whatever was saved
    """A new copy from :func:`saved` bytes."""
    return pickle.loads(data)  # noqa: S301 - our own bytes, of a moment ago
