"""The audit log of an API server as evidence of who wrote what.

A test marks a place in the log, lets things happen, and counts the calls after the mark.  A call
is logged when it is answered, so the log may trail the answer by a moment: ``ControlPlane.mark``
and ``ControlPlane.calls_since`` close that gap.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Call:
    """One answered request; ``code`` is the HTTP status.

    ``name`` is empty for a collection and for a create that was refused before its body was read.
    """

    verb: str
    user: str
    path: str
    resource: str
    namespace: str
    name: str
    code: int

    @property
    def is_write(self) -> bool:
        """Whether it asked for a change, granted or not."""
        return self.verb in WRITE_VERBS


@dataclass(frozen=True, slots=True)
class AuditLog:
    """Reader of one audit log file; a place in it is a count of bytes."""

    path: Path

    def end(self) -> int:
        """Mark of the present end of the last whole line."""
        return self.path.read_bytes().rfind(b"\n") + 1 if self.path.exists() else 0

    def calls(self, since: int = 0) -> list[Call]:
        """All calls logged whole after the mark ``since``, in the order they were answered."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(since)
            whole, _, _cut = file.read().rpartition(b"\n")
        return [_call(json.loads(line)) for line in whole.splitlines()]


def _call(event: dict[str, object]) -> Call:
    reference = _mapping(event.get("objectRef"))
    # The name of a created object stands in the body only.
    named = _mapping(_mapping(event.get("requestObject")).get("metadata"))
    code = _mapping(event.get("responseStatus")).get("code")
    return Call(
        verb=str(event["verb"]),
        user=str(_mapping(event["user"]).get("username", "")),
        path=str(event["requestURI"]),
        resource=str(reference.get("resource", "")),
        namespace=str(reference.get("namespace", "")),
        name=str(reference.get("name") or named.get("name") or ""),
        code=code if isinstance(code, int) else 0,
    )


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
