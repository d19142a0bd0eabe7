"""Conditions in a status: what they say, and how a status is brought to say it.

A condition's ``lastTransitionTime`` changes only when its status does, conditions of other types
are left alone, and a status that says everything already is not written.

Source: metav1.Condition, mcs-api v0.5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from clusters.model import Manifest, Standing
from clusters.multicluster.conflicts import messages, reasons
from clusters.multicluster.merge import Merged

_LONGEST_MESSAGE = 32768
_COMPARED = ("status", "reason", "message", "observedGeneration")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition as it shall be."""

    type: str
    status: bool
    reason: str
    message: str = ""


_FAULTS = {
    Standing.VALID: "",
    Standing.NO_SERVICE: "there is no Service of this name in this namespace",
    Standing.INVALID_TYPE: "a Service of type ExternalName cannot be exported",
}


def instant(wall_ns: int) -> str:
    """A time as Kubernetes writes it, whole seconds."""
    return datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def export_conditions(
    standing: Standing, merged: Merged | None, cluster: str
) -> tuple[Condition, ...]:
    """What the ServiceExport in ``cluster`` shall say."""
    valid = standing is Standing.VALID
    exported = valid and merged is not None and cluster in merged.offers
    conflicts = merged.conflicts if exported and merged is not None else ()
    ready = Condition("Ready", status=True, reason="Exported")
    if not exported:
        text = "it is not exported yet" if valid else _FAULTS[standing]
        reason = "Pending" if valid else "Failed"
        ready = Condition("Ready", status=False, reason=reason, message=text)
    return (
        Condition("Valid", status=valid, reason=standing.value, message=_FAULTS[standing]),
        ready,
        Condition(
            "Conflict",
            status=bool(conflicts),
            reason=reasons(conflicts) or "NoConflicts",
            message=messages(conflicts),
        ),
    )


def brought_to(
    observed: object, wanted: Sequence[Condition], *, now: str, generation: object
) -> list[Manifest]:
    """The conditions a status shall have, given those it has.

    Equal to ``observed`` when that says everything.  ``now`` is :func:`instant` of this moment,
    ``generation`` the object's ``metadata.generation`` as far as it has one.
    """
    listed = observed if isinstance(observed, list) else []
    held = {str(item.get("type")): item for item in listed if isinstance(item, dict)}
    for condition in wanted:
        fresh: Manifest = {
            "type": condition.type,
            "status": "True" if condition.status else "False",
            "reason": condition.reason,
            "message": condition.message[:_LONGEST_MESSAGE],
        }
        if type(generation) is int:
            fresh["observedGeneration"] = generation
        before = held.get(condition.type, {})
        since = before.get("lastTransitionTime")
        same = before.get("status") == fresh["status"] and isinstance(since, str)
        if same and all(before.get(name) == fresh.get(name) for name in _COMPARED):
            continue
        held[condition.type] = {**fresh, "lastTransitionTime": since if same else now}
    return list(held.values())
