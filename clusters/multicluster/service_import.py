"""The ServiceImport of one service: what it shall say, and the write that makes it so.

Spec and labels come with one write, status with another, as the API server keeps them apart.  Both
served versions have one schema, so what is written once is read alike in both.  Labels and
annotations of others are kept; of ours, those that are no longer exported go.
"""

from __future__ import annotations

from dataclasses import replace

from clusters.belonging import IMPORT_KIND
from clusters.model import ChangeOp, Manifest, Port, ServiceKey, SliceChange
from clusters.multicluster import names
from clusters.multicluster.conditions import Condition, brought_to
from clusters.multicluster.merge import Merged
from clusters.multicluster.offer import CLIENT_IP, HEADLESS
from clusters.readings import read_ports
from clusters.slice_names import texts

_MOST_IPS = 2


def _port(port: Port) -> Manifest:
    entry = {
        "name": port.name or None,
        "protocol": port.protocol,
        "appProtocol": port.app_protocol,
        "port": port.port,
    }
    return {name: value for name, value in entry.items() if value is not None}


def affinity(merged: Merged) -> Manifest:
    """``sessionAffinity`` and its configuration, alike in a ServiceImport and a Service."""
    oldest = merged.oldest
    found: Manifest = {"sessionAffinity": oldest.affinity}
    if oldest.affinity == CLIENT_IP:
        seconds = {"timeoutSeconds": oldest.affinity_seconds}
        found["sessionAffinityConfig"] = {"clientIP": seconds}
    return found


def _addresses(derived: Manifest | None) -> tuple[list[str], list[str]]:
    """(clusterset addresses, their families) in one order, as a derived Service has them."""
    spec = _observed_spec(derived)
    ips, families = (_listed(spec.get(name)) for name in ("clusterIPs", "ipFamilies"))
    pairs = list(zip(ips, families, strict=False))[:_MOST_IPS]
    return [ip for ip, _ in pairs], [family for _, family in pairs]


def _listed(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _spec(merged: Merged, derived: Manifest | None) -> Manifest:
    oldest = merged.oldest
    ips, families = _addresses(derived)
    spec: Manifest = {
        "type": oldest.type,
        "ports": [_port(port) for port in merged.ports],
        **affinity(merged),
        "internalTrafficPolicy": oldest.internal_policy,
    }
    if oldest.distribution is not None:
        spec["trafficDistribution"] = oldest.distribution
    if families or oldest.families:
        spec["ipFamilies"] = families or list(oldest.families)
    if ips:
        spec["ips"] = ips
    return spec


def _metadata(key: ServiceKey, merged: Merged, derived: str | None) -> Manifest:
    labels, annotations = dict(merged.oldest.labels), dict(merged.oldest.annotations)
    annotations[names.ANNOTATION_EXPORTED] = names.exported_mark(labels, annotations)
    if derived is not None:
        annotations[names.ANNOTATION_DERIVED_SERVICE] = derived
    return {
        "name": key.name,
        "namespace": key.namespace,
        "labels": labels,
        "annotations": annotations,
    }


def _foreign(observed: Manifest, part: str, former: frozenset[str]) -> dict[str, str]:
    """What others put on the import."""
    ours = {names.ANNOTATION_EXPORTED, names.ANNOTATION_DERIVED_SERVICE, *former}
    return {name: text for name, text in texts(observed, part).items() if name not in ours}


def import_change(
    key: ServiceKey, merged: Merged, observed: Manifest | None, derived: Manifest | None
) -> SliceChange | None:
    """The write of everything but the status, None when nothing is to be written.

    ``derived`` is the derived Service as the cluster shows it, None while there is none.
    """
    name = names.derived_name(key) if needs_derived(merged) else None
    fresh: Manifest = {
        "apiVersion": names.API_VERSION,
        "kind": IMPORT_KIND,
        "metadata": _metadata(key, merged, name),
        "spec": _spec(merged, derived if name else None),
    }
    if observed is None:
        return SliceChange(ChangeOp.CREATE, fresh)
    metadata = dict(observed["metadata"])
    metadata.pop("managedFields", None)
    former = names.exported_names(observed)
    for part, gone in zip(("labels", "annotations"), former, strict=True):
        metadata[part] = {**_foreign(observed, part, gone), **fresh["metadata"][part]}
    same = all(metadata[part] == texts(observed, part) for part in ("labels", "annotations"))
    if same and observed.get("spec") == fresh["spec"]:
        return None
    return SliceChange(ChangeOp.UPDATE, {**observed, **fresh, "metadata": metadata})


def needs_derived(merged: Merged) -> bool:
    """Whether the service has a clusterset address: it is not headless, and has a port."""
    return not merged.headless and bool(merged.ports)


def _observed_spec(manifest: Manifest | None) -> Manifest:
    spec = None if manifest is None else manifest.get("spec")
    return spec if isinstance(spec, dict) else {}


def as_written(merged: Merged, observed: Manifest) -> Merged:
    """``merged``, but with the type and ports of the import as it stands.

    For while it must not be changed: endpoints then go only where they can be looked for.
    """
    spec = _observed_spec(observed)
    ports = read_ports(spec.get("ports") or None, "", [])
    oldest = replace(merged.oldest, headless=spec.get("type") == HEADLESS)
    return replace(merged, oldest=oldest, ports=ports or ())


def status_change(
    merged: Merged, observed: Manifest, *, has_endpoints: bool, refusal: str, now: str
) -> SliceChange | None:
    """The write of the status of an import whose spec is as it shall be.

    ``refusal`` says why its derived Service cannot be written, "" when it can.
    """
    held = observed.get("status")
    held = held if isinstance(held, dict) else {}
    status = {
        **held,
        "clusters": [{"cluster": cluster} for cluster in merged.offers],
        "endpointSliceObjects": "Present" if has_endpoints else "Absent",
        "conditions": brought_to(
            held.get("conditions"),
            [_ready(merged, observed, refusal)],
            now=now,
            generation=observed["metadata"].get("generation"),
        ),
    }
    if status == held:
        return None
    return SliceChange(ChangeOp.UPDATE, {**observed, "status": status}, subresource="status")


def _ready(merged: Merged, observed: Manifest, refusal: str) -> Condition:
    if merged.headless or _observed_spec(observed).get("ips"):
        return Condition("Ready", status=True, reason="Ready")
    if "amil" in refusal and "not configured on this cluster" in refusal:
        return Condition("Ready", status=False, reason="IPFamilyNotSupported", message=refusal)
    waiting = "it has no address yet" if merged.ports else "it has no ports"
    return Condition("Ready", status=False, reason="Pending", message=refusal or waiting)
