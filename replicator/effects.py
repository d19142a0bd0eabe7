"""What the replica wants done: values that the agent carries out in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusters.model import ServiceKey
from crdt import Change, Entry, Origin


@dataclass(frozen=True, slots=True)
class Store:
    """Keep a remote commit: one atomic step, no fsync needed (it can be pulled again)."""

    origin: Origin
    head: bytes
    record: bytes
    entries: tuple[Entry, ...] | None
    """What was put; None, with ``replace``: all there is, which is to be read in slices."""
    floor: int
    replace: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """Keep nothing of an origin any more: its cluster was forgotten."""

    origin: Origin


@dataclass(frozen=True, slots=True)
class Changed:
    """A commit moved the visible view of ``services``."""

    origin: Origin
    services: frozenset[ServiceKey]
    changes: tuple[Change, ...]
    seconds: float | None
    """Time from observation at the origin to this commit; None for a first or replaced state."""


@dataclass(frozen=True, slots=True)
class Review:
    """Policies changed: what is written of ``services`` is to be decided anew."""

    services: frozenset[ServiceKey]


@dataclass(frozen=True, slots=True)
class Wake:
    """Session ``number`` has something to send."""

    number: int


@dataclass(frozen=True, slots=True)
class Close:
    """Send what waits, then close session ``number``."""

    number: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Remember:
    """Keep a small fact across restarts."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person on call should be able to read; constant event name and fields."""

    event: str
    fields: dict[str, object] = field(default_factory=dict)
    serious: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """Ask the lease now who leads.

    Whoever leads then does so in an epoch above ``above``.
    """

    above: int


Effect = Store | Drop | Changed | Review | Wake | Close | Remember | Notice | Claim
