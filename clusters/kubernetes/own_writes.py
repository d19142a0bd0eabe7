"""What we have just written and the watch has not shown yet.  Pure.

The answer to a write tells the object's new state before the watch does.  Until the watch shows
the same version, the states it shows of that object are older than what we know and are hidden;
else the next pass would plan from the past and be refused with a conflict.  A complete list ends
all hiding.

Versions are compared for equality only, so if the awaited one never comes, a time limit ends it.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusters.kubernetes.objects import Name, name_of, version_of
from clusters.kubernetes.watch_decoder import ObjectEvent, Op
from clusters.model import Manifest

_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Awaited:
    uid: object
    version: str | None
    """None = the deletion is awaited."""
    until: float


class OwnWrites:
    """Writes that the watch has still to show.

    Each write, and each read of a single object, is announced by :meth:`begin` and ended by
    :meth:`settled`, because the watch may be faster than the answer.
    """

    def __init__(self) -> None:
        """Nothing is awaited."""
        self._awaited: dict[Name, _Awaited] = {}
        self._shown: dict[Name, set[str | None]] = {}

    def begin(self, name: Name, known: str | None) -> None:
        """A call about ``name``, whose version was ``known`` until now, is being made.

        A write that changes nothing is answered with the version known before, which the watch does
        not show again.
        """
        self._shown[name] = set() if known is None else {known}

    def settled(self, name: Name) -> None:
        """The call has ended, whatever came of it."""
        self._shown.pop(name, None)

    def wrote(self, manifest: Manifest, now: float) -> bool:
        """The answer shows the object as ``manifest``; False if the watch is as far."""
        return self._settle(manifest, version_of(manifest), now)

    def deleted(self, manifest: Manifest, now: float) -> bool:
        """Deleted; ``manifest`` is what was asked to be.  False if the watch is as far."""
        return self._settle(manifest, None, now)

    def _settle(self, manifest: Manifest, version: str | None, now: float) -> bool:
        name = name_of(manifest)
        shown = self._shown.pop(name, None)
        if shown is None or version in shown:
            self._awaited.pop(name, None)
            return False
        self._awaited[name] = _Awaited(manifest["metadata"].get("uid"), version, now + _SECONDS)
        return True

    def listed(self) -> None:
        """A complete list shows everything; writes being sent are left to the watch after it."""
        self._awaited.clear()
        self._shown.clear()

    def hides(self, event: ObjectEvent, now: float) -> bool:
        """Whether a watch event is older than what we know."""
        name = name_of(event.manifest)
        gone = event.op is Op.DELETED
        if name in self._shown:
            self._shown[name].add(None if gone else event.version)
        awaited = self._awaited.get(name)
        if awaited is None:
            return False
        same_object = event.manifest["metadata"].get("uid") == awaited.uid
        shown = gone or (awaited.version is not None and event.version == awaited.version)
        if now > awaited.until or (same_object and shown):
            del self._awaited[name]
            return False
        return True
