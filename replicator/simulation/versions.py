"""The versions of a simulation's agents, and what each says differently (properties 4 and 47).

Three minor versions run side by side: the present one; an older one, which knows no packed
transfers; and a newer one, which appends a field to every message and to the values that it
states, sends messages of a type and states an element of a kind that are unknown here.  One and
the next replicate; the older and the newer refuse each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, cast

from clusters.model import ServiceKey
from crdt import pack
from replicator.codec import MINOR
from replicator.handshake import Self
from replicator.kinds import unpack

UNKNOWN_KIND = 77
"""A kind of element that the present version has not heard of."""
_LATER = "later"
View = dict[bytes, bytes]


class Release(IntEnum):
    """What an agent runs."""

    OLDER = 0
    PRESENT = 1
    NEWER = 2


def me_of(cluster: str, instance: str, release: Release) -> Self:
    """Who an agent says it is.  All minors are one more than they are, to have an older one."""
    return Self(
        "set",
        cluster,
        instance,
        f"uid-{cluster}",
        f"simulated-{release}",
        packed=release > Release.OLDER,
        minor=MINOR + release,
    )


def unknown_elements(cluster: str) -> View:
    """What a newer agent states beside what is known here."""
    return {pack([UNKNOWN_KIND, cluster, _LATER]): pack(["something", 1])}


def stated_by(
    release: Release, key: ServiceKey | None, known: Mapping[bytes, bytes], held: View
) -> View:
    """What an agent that holds ``held`` of a service and sees ``known`` must show of it.

    What a newer one appended stays for as long as nothing else changes, whoever looks at it; a
    newer one appends to the services' values that it states for the first time, or changes.
    """
    shown = {}
    for element, value in known.items():
        former = held.get(element)
        if former is not None and _begins(former, value):
            shown[element] = former
        elif release is Release.NEWER and key is not None:
            shown[element] = pack([*_fields(value), _LATER])
        else:
            shown[element] = value
    return shown


def _begins(held: bytes, value: bytes) -> bool:
    """Whether ``held`` is ``value``, perhaps with more fields."""
    if held == value:
        return True
    fields = _fields(value)
    return _fields(held)[: len(fields)] == fields


def _fields(value: bytes) -> list[Any]:
    return cast("list[Any]", unpack(value))
