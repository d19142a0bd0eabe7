"""What replicating one origin means, in forty lines of plain dictionaries.

Nothing here is incremental, indexed or fast, so that it can be read and believed: a state is a
dictionary, a root is computed from nothing, and the owner remembers every state it ever published.
The production core must agree with it on every list of events (property 49).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from crdt import (
    ZERO,
    Base,
    ContinuityError,
    CrdtError,
    Entry,
    GapError,
    Head,
    MismatchError,
    StaleError,
    Version,
    pack,
)

State = Mapping[bytes, tuple[int, int, bytes]]
"""element -> (stamp, op, value), the newest of each."""


def root_of(records: Iterable[bytes], depth: int = 0, leaf: int = 64) -> bytes:
    """The root of a set of 24-byte records, by definition."""
    items = sorted(records)
    if len(items) <= leaf or depth == 16:
        return blake2b(b"\x00" + b"".join(items), digest_size=32).digest()
    parts: dict[str, list[bytes]] = {digit: [] for digit in "0123456789abcdef"}
    for item in items:
        parts[item.hex()[depth]].append(item)
    below = (root_of(part, depth + 1, leaf) for part in parts.values())
    return blake2b(b"\x01" + b"".join(below), digest_size=32).digest()


def record_of(element: bytes, stamp: int, op: int, value: bytes) -> bytes:
    """The record of an entry whose element is a short list [kind, *key]."""
    entry = b"\x95" + element[1:2] + bytes((element[0] - 1,)) + element[2:] + pack(stamp) + pack(op)
    key = blake2b(element, digest_size=8).digest()
    return key + blake2b(entry + value, digest_size=16).digest()


def root(state: State) -> bytes:
    """The root of a state."""
    return root_of(record_of(element, *stored) for element, stored in state.items())


def live(state: State) -> dict[bytes, bytes]:
    """What readers see."""
    return {element: value for element, (_, op, value) in state.items() if op == 0}


def after(state: State, entries: Iterable[Entry], floor: int) -> State:
    """``state`` with newer ``entries`` put and tombstones up to ``floor`` dropped."""
    result = dict(state)
    for element, stamp, op, value in sorted(entries, key=lambda entry: entry[1]):
        if element not in result or result[element][0] < stamp:
            result[element] = (stamp, op, value)
    return {key: kept for key, kept in result.items() if not (kept[1] == 1 and kept[0] <= floor)}


@dataclass
class ModelReplica:
    """A replica: a version and the state there."""

    version: Version = ZERO
    state: State = field(default_factory=dict)

    def refusal(
        self, head: Head, epoch: int, position: int, *, replaces: bool
    ) -> type[CrdtError] | None:
        """Why a transfer staged to (epoch, position) may not even be tried, or None."""
        outdoes = replaces and head.version == self.version and head.root > root(self.state)
        if head.version <= self.version and not outdoes:
            return StaleError
        if epoch != head.epoch or position < head.stamp:
            return GapError
        if replaces or self.continues(head.epoch, head.floor, head.base, head.stamp):
            return None
        return ContinuityError

    def continues(self, epoch: int, floor: int, base: Base | None, stamp: int) -> bool:
        """Rules C7 and C10."""
        if self.version == ZERO or floor > self.version.stamp:
            return False
        if epoch == self.version.epoch:
            return True
        if base is None or base.epoch != self.version.epoch or stamp < base.stamp:
            return False
        agrees = self.version.stamp < base.stamp or base.root == root(self.state)
        return self.version.stamp <= base.stamp and agrees

    def commit(self, head: Head, staged: Iterable[Entry], *, replaces: bool) -> None:
        """Move to ``head``, or raise :class:`MismatchError` and stay."""
        known = {} if replaces else self.state
        seen = -1 if replaces else self.version.stamp
        fresh = [entry for entry in staged if seen < entry[1] <= head.stamp]
        state = after(known, fresh, head.floor)
        if len(state) != head.count or root(state) != head.root:
            raise MismatchError(repr(head))
        self.version, self.state = head.version, state


Shown = Mapping[object, object]
"""What a cluster says, or what is shown of it: service -> endpoints."""


@dataclass
class ModelNetwork:
    """Whole replicas, in forty lines: who shows what of whom after any list of events.

    A published state has a number.  Replicas that are linked, however indirectly, come to show the
    newest state of each origin that any of them holds; a crash takes a replica back to what it
    saved of others, and loses nothing that its own cluster says.
    """

    names: tuple[str, ...]
    said: dict[str, dict[object, object]] = field(init=False)
    held: dict[str, dict[str, tuple[int, Shown]]] = field(init=False)
    """replica -> origin -> (number of the published state, the state)."""
    saved: dict[str, dict[str, tuple[int, Shown]]] = field(init=False)
    links: set[frozenset[str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.said = {name: {} for name in self.names}
        self.held = {name: {} for name in self.names}
        self.saved = {name: {} for name in self.names}

    def say(self, name: str, service: object, endpoints: object) -> None:
        """A cluster changed."""
        self.said[name][service] = endpoints

    def publish(self, name: str) -> None:
        """What a cluster says is its next state; it is on disk at once."""
        number = self.held[name].get(name, (0, {}))[0] + 1
        self.held[name][name] = self.saved[name][name] = (number, dict(self.said[name]))

    def save(self, name: str) -> None:
        """All that a replica holds is on disk."""
        self.saved[name] = dict(self.held[name])

    def crash(self, name: str) -> None:
        """A replica starts again with what is on disk, without links."""
        self.held[name] = dict(self.saved[name])
        self.links = {link for link in self.links if name not in link}

    def settle(self) -> None:
        """Everything that is under way arrives."""
        for _ in self.names:
            for one, other in (sorted(link) for link in self.links):
                for origin in self.names:
                    newest = max(
                        (self.held[name].get(origin, (0, {})) for name in (one, other)),
                        key=lambda held: held[0],
                    )
                    if newest[0]:
                        self.held[one][origin] = self.held[other][origin] = newest

    def shows(self, name: str, origin: str, service: object) -> object:
        """What ``name`` shows of a service of ``origin``; None when it holds nothing of it."""
        held = self.held[name].get(origin)
        return None if held is None else held[1].get(service)
