"""Which origin is looked at next, whether what is held of it still is what its head says.

One a minute, in turn, our own among them; one whose buckets a peer asks for comes first, since that
peer has met a difference.  A slice at each tick, so nothing waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from crdt import Head, Origin, OriginSet
from crdt.audit import Audit
from replicator.own_origin import OwnOrigin
from replicator.remote_origin import RemoteOrigin

AUDIT_SECONDS = 60.0


class Auditor:
    """Audits all origins of a replica, one after the other."""

    def __init__(self, own: OwnOrigin, remotes: Mapping[Origin, RemoteOrigin]) -> None:
        """Look at the replica's own parts."""
        self._own = own
        self._remotes = remotes
        self._due: float | None = None
        self._last: Origin | None = None
        self._audit: Audit | None = None
        self._origin: Origin = own.origin
        """Of which :attr:`_audit` is."""
        self._suspects: dict[Origin, None] = {}
        self.done = 0
        """Audits that came to an end."""
        self.failures = 0
        """Audits that found something wrong."""

    def suspect(self, origin: Origin) -> None:
        """Look at ``origin`` next, and soon: another replica has met a difference."""
        if origin == self._own.origin or origin in self._remotes:
            self._suspects[origin] = None

    @property
    def at_work(self) -> bool:
        """Whether an origin is being looked at, or will be before its turn."""
        return self._audit is not None or bool(self._suspects)

    def _held(self, origin: Origin) -> tuple[OriginSet, Head | None] | None:
        """What is held of an origin, with its head; None for nothing, or what is being mended."""
        if origin == self._own.origin and self._own.leading:
            return self._own.elements, self._own.head
        remote = self._remotes.get(origin)
        return None if remote is None or remote.rotten else (remote.elements, remote.head)

    def _next(self) -> Origin:
        """The one after the last."""
        names = sorted({self._own.origin, *self._remotes})
        last = self._last
        origin = next((name for name in names if last is None or name > last), names[0])
        self._last = origin
        return origin

    def tick(self, now: float) -> Origin | None:
        """Look at the next slice; the origin of which something is wrong, if so."""
        if self._audit is None:
            self._begin(now)
            return None
        audit, origin = self._audit, self._origin
        held = self._held(origin)
        if held is None or held[0] is not audit.elements:
            self._audit = None
            return None
        found = audit.step()
        if found is None:
            return None
        self._audit = None
        self.done += 1
        head = held[1]
        if found and (head is None or head.root == audit.elements.root()):
            return None
        self.failures += 1
        return origin

    def _begin(self, now: float) -> None:
        if self._due is None:
            self._due = now + AUDIT_SECONDS
        suspect = next(iter(self._suspects), None)
        if now >= self._due:
            # Whoever asks for buckets all the time keeps nobody else from being looked at.
            self._due = now + AUDIT_SECONDS
            self._origin = self._next()
        elif suspect is not None:
            self._origin = suspect
            del self._suspects[suspect]
        else:
            return
        held = self._held(self._origin)
        if held is not None and held[1] is not None:
            self._audit = Audit(held[0])
