"""The derived Service of one import, whose ClusterIP is the clusterset address.

Any kube-proxy routes to it, since our slices carry its name; it has no selector.  It belongs to the
ServiceImport and lives as long.  What the API server has chosen (addresses, families) is never
changed, only a second family is asked for when the oldest export has two.  A selector or an
external address that others put into its spec is taken out: it would send traffic elsewhere.
"""

from __future__ import annotations

from clusters.belonging import owned_by, owners
from clusters.model import ChangeOp, Manifest, Port, ServiceKey, SliceChange
from clusters.multicluster import names
from clusters.multicluster.merge import Merged
from clusters.multicluster.offer import CLIENT_IP
from clusters.multicluster.service_import import affinity
from clusters.slice_names import LABEL_SERVICE, label_value, texts

_CHOSEN = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
"""What the API server decides once."""
_DISTRIBUTIONS = frozenset({"PreferClose", "PreferSameZone", "PreferSameNode"})
"""What a Service may say; a ServiceImport may say anything."""
_NEVER_WRITTEN = ("selector", "externalIPs", "externalName", "loadBalancerIP")
_DUAL = "PreferDualStack"


def _port(port: Port) -> Manifest:
    entry: Manifest = {
        "port": port.port,
        "protocol": port.protocol,
        "targetPort": port.port,
    }
    if port.name:
        entry["name"] = port.name
    if port.app_protocol is not None:
        entry["appProtocol"] = port.app_protocol
    return entry


def _families(merged: Merged) -> Manifest:
    """One family is asked for by name; of two, the cluster takes what it has, in its own order."""
    families = merged.oldest.families
    if len(families) > 1:
        return {"ipFamilyPolicy": _DUAL}
    return {"ipFamilyPolicy": "SingleStack", "ipFamilies": list(families)} if families else {}


def _spec(merged: Merged) -> Manifest:
    oldest = merged.oldest
    spec: Manifest = {
        "type": "ClusterIP",
        "ports": [_port(port) for port in merged.ports],
        **affinity(merged),
        "internalTrafficPolicy": oldest.internal_policy,
    }
    if oldest.distribution in _DISTRIBUTIONS:
        spec["trafficDistribution"] = oldest.distribution
    return spec


def _fresh(key: ServiceKey, owner: Manifest | None) -> Manifest:
    metadata: Manifest = {
        "name": names.derived_name(key),
        "namespace": key.namespace,
        "labels": {LABEL_SERVICE: label_value(key.name)},
        "annotations": {names.ANNOTATION_DERIVED: key.name},
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata}


def derived_change(
    key: ServiceKey, merged: Merged, observed: Manifest | None, owner: Manifest | None
) -> SliceChange | None:
    """The write that makes the derived Service what it shall be, None when it is.

    ``owner`` is :func:`~clusters.belonging.owner_of` the import, None while there is none.
    """
    fresh = _fresh(key, owner)
    if observed is None:
        spec = {**_spec(merged), **_families(merged)}
        return SliceChange(ChangeOp.CREATE, {**fresh, "spec": spec})
    metadata = dict(observed["metadata"])
    metadata.pop("managedFields", None)
    for part in ("labels", "annotations"):
        metadata[part] = {**texts(observed, part), **fresh["metadata"][part]}
    references = owned_by(observed, owner)
    if references:
        metadata["ownerReferences"] = references
    else:
        metadata.pop("ownerReferences", None)
    spec = {**_spec(merged), **_chosen(observed, merged)}
    before = observed.get("spec")
    before = before if isinstance(before, dict) else {}
    same = (
        all(metadata[part] == texts(observed, part) for part in ("labels", "annotations"))
        and references == owners(observed)
        and _compared(before) == _compared(spec)
    )
    if same:
        return None
    return SliceChange(ChangeOp.UPDATE, {**observed, **fresh, "metadata": metadata, "spec": spec})


def _chosen(observed: Manifest, merged: Merged) -> Manifest:
    before = observed.get("spec")
    before = before if isinstance(before, dict) else {}
    kept = {name: before[name] for name in _CHOSEN if name in before}
    if len(merged.oldest.families) > 1:
        kept["ipFamilyPolicy"] = _DUAL
    return kept


def _compared(spec: Manifest) -> list[object]:
    """What a spec says in fields that we own, defaults filled in; the same for what is the same."""
    ports = spec.get("ports") or []
    config = spec.get("sessionAffinityConfig") if spec.get("sessionAffinity") == CLIENT_IP else None
    return [
        [_port_fields(port) for port in ports] if isinstance(ports, list) else None,
        spec.get("type"),
        spec.get("sessionAffinity") or "None",
        config,
        spec.get("internalTrafficPolicy") or "Cluster",
        spec.get("ipFamilyPolicy"),
        *(spec.get(name) or None for name in ("trafficDistribution", *_NEVER_WRITTEN)),
    ]


def _port_fields(port: object) -> object:
    if not isinstance(port, dict):
        return None
    found = [port.get(name) or None for name in ("name", "port", "appProtocol", "nodePort")]
    return [*found, port.get("protocol") or "TCP", port.get("targetPort") or port.get("port")]
