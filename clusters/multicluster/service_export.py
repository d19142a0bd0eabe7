"""The status of our cluster's own ServiceExport."""

from __future__ import annotations

from clusters.model import ChangeOp, Manifest, SliceChange, Standing
from clusters.multicluster.conditions import brought_to, export_conditions
from clusters.multicluster.merge import Merged


def export_change(
    manifest: Manifest, standing: Standing, merged: Merged | None, *, cluster: str, now: str
) -> SliceChange | None:
    """The write of the conditions a ServiceExport of ``cluster`` lacks, None when it lacks none."""
    held = manifest.get("status")
    held = held if isinstance(held, dict) else {}
    conditions = brought_to(
        held.get("conditions"),
        export_conditions(standing, merged, cluster),
        now=now,
        generation=manifest["metadata"].get("generation"),
    )
    if conditions == held.get("conditions"):
        return None
    status = {**held, "conditions": conditions}
    return SliceChange(ChangeOp.UPDATE, {**manifest, "status": status}, subresource="status")
