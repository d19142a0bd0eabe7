"""Tells when somebody else keeps undoing what we write, and makes us the slower one.

Writing again just what was last written of an object means that somebody changed or deleted it in
between.  That is repaired at once a few times; whoever keeps at it is met ever more seldom, so that
no two controllers spin against each other.  Changes of our own have other content and never wait.

Pure; readings are arguments.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from clusters.model import ChangeOp, ServiceKey, SliceChange

FREE_REPAIRS = 3
"""Repairs of one object that do not wait."""
FIRST_SECONDS = 1.0
MOST_SECONDS = 60.0
CALM_SECONDS = 300.0
"""After so long without a repair an object's earlier ones are forgotten."""
_OURS = "replicator.dev/"

Named = tuple[str, str, str, str]
"""Kind, namespace, name and subresource of an object."""


class Fight(NamedTuple):
    """An object that somebody keeps changing."""

    name: Named
    repairs: int


@dataclass(slots=True)
class _Known:
    """What was last written of one object."""

    content: bytes
    at: float
    repairs: int = 0


def named(change: SliceChange) -> Named:
    """Which object a change is about."""
    return (change.kind, change.namespace, change.name, change.subresource)


class Fights:
    """What was written lately, and what waits because of others."""

    def __init__(self) -> None:
        """Nothing was written yet."""
        self._known: dict[Named, _Known] = {}
        self._later: dict[ServiceKey, float] = {}
        self.total = 0
        """Repairs beyond the first few, since the start."""

    def waits(self, key: ServiceKey, change: SliceChange, now: float) -> bool:
        """Whether ``change`` of service ``key`` must wait; the service is due again later."""
        known = self._known.get(named(change))
        if known is None or known.content != content_of(change):
            return False
        beyond = known.repairs - FREE_REPAIRS
        if beyond < 0 or now - known.at >= CALM_SECONDS:
            return False
        due = known.at + min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(beyond, 64))
        if now >= due:
            return False
        self._later[key] = min(due, self._later.get(key, due))
        return True

    def wrote(self, change: SliceChange, now: float) -> None:
        """``change`` was carried out."""
        about, content = named(change), content_of(change)
        known = self._known.get(about)
        if known is None or known.content != content or now - known.at >= CALM_SECONDS:
            self._known[about] = _Known(content, now)
            return
        known.at = now
        known.repairs += 1
        self.total += known.repairs > FREE_REPAIRS

    def due(self, now: float) -> list[ServiceKey]:
        """Services whose wait is over."""
        over = sorted(key for key, due in self._later.items() if now >= due)
        for key in over:
            del self._later[key]
        for about in [a for a, known in self._known.items() if now - known.at >= CALM_SECONDS]:
            del self._known[about]
        return over

    def present(self) -> list[Fight]:
        """Objects that are fought about, by name."""
        fought = ((about, known.repairs) for about, known in sorted(self._known.items()))
        return [Fight(about, repairs) for about, repairs in fought if repairs > FREE_REPAIRS]


def content_of(change: SliceChange) -> bytes:
    """A digest of what ``change`` makes of its object, as far as that is ours to say."""
    if change.op is ChangeOp.DELETE:
        return b""
    content: dict[str, Any] = {k: v for k, v in change.manifest.items() if k != "metadata"}
    annotations = change.manifest["metadata"].get("annotations") or {}
    content["metadata"] = {k: v for k, v in annotations.items() if k.startswith(_OURS)}
    if isinstance(content.get("endpoints"), list):
        content["endpoints"] = sorted(map(_text, content["endpoints"]))
    return blake2b(_text(content).encode(), digest_size=16).digest()


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
