"""Whether a service is offered to the clusterset, and with which properties (kubernetes.md E15).

Works on facts taken from Service and ServiceExport objects when these are seen, so their manifests
need not be kept.  Facts hold only values of the right type; whatever else stands in a field counts
as absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusters.manifests import Reference
from clusters.model import ExportedService, Manifest, Port, Skipped
from clusters.readings import read_ports
from clusters.settings import ExportMode
from clusters.slice_names import texts

EXPORT_ANNOTATION = "replicator.dev/export"
"""On a Service, with value ``"true"``: offer it, in export mode ``annotated``."""
_EXTERNAL_NAME = "ExternalName"
_LONGEST_TEXT = 253
_MOST_EXPORTED_BYTES = 16 * 1024
_TOP_TIMEOUT = 86400
_POLICIES = ("sessionAffinity", "internalTrafficPolicy", "trafficDistribution")

Properties = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What we carry of a Service object."""

    created_at: str | None
    external: bool
    """type ExternalName: has no endpoints and is never offered."""
    annotated: bool
    properties: Properties


@dataclass(frozen=True, slots=True)
class ExportFacts:
    """What we carry of a ServiceExport object."""

    created_at: str | None
    properties: Properties


def _mapping(value: object) -> Manifest:
    return value if isinstance(value, dict) else {}


def _short_text(value: object) -> str | None:
    """A text that can travel, else None."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TEXT:
        return None
    return value if value.isprintable() else None


def _travels(text: str) -> bool:
    """Whether a text can be written as UTF-8 (JSON can name half characters)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _created_at(manifest: Manifest) -> str | None:
    return _short_text(_mapping(manifest.get("metadata")).get("creationTimestamp"))


def _sorted(properties: dict[str, Any]) -> Properties:
    return tuple(sorted((name, value) for name, value in properties.items() if value is not None))


def _port_property(port: Port) -> dict[str, Any]:
    fields = {
        "name": port.name,
        "port": port.port,
        "protocol": port.protocol,
        "appProtocol": port.app_protocol,
    }
    return {name: value for name, value in fields.items() if value is not None}


def service_facts(manifest: Manifest, reference: Reference) -> ServiceFacts:
    """Read a Service object."""
    spec = _mapping(manifest.get("spec"))
    faults: list[Skipped] = []
    ports = read_ports(spec.get("ports") or None, str(reference), faults)
    affinity = _mapping(_mapping(spec.get("sessionAffinityConfig")).get("clientIP"))
    timeout = affinity.get("timeoutSeconds")
    families = spec.get("ipFamilies")
    properties: dict[str, Any] = {name: _short_text(spec.get(name)) for name in _POLICIES}
    properties["type"] = "Headless" if spec.get("clusterIP") == "None" else "ClusterSetIP"
    properties["ports"] = [_port_property(port) for port in ports or ()]
    if type(timeout) is int and 0 < timeout <= _TOP_TIMEOUT:
        properties["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": timeout}}
    if isinstance(families, list):
        properties["ipFamilies"] = [item for item in families if item in ("IPv4", "IPv6")][:2]
    return ServiceFacts(
        created_at=_created_at(manifest),
        external=spec.get("type") == _EXTERNAL_NAME,
        annotated=texts(manifest, "annotations").get(EXPORT_ANNOTATION) == "true",
        properties=_sorted(properties),
    )


def _exported_texts(value: object) -> dict[str, str] | None:
    """Labels or annotations to export; None when there are none, or more than may travel."""
    found = {
        name: text
        for name, text in _mapping(value).items()
        if _short_text(name) and isinstance(text, str) and _travels(text)
    }
    size = sum(len(name.encode()) + len(text.encode()) for name, text in found.items())
    return found if found and size <= _MOST_EXPORTED_BYTES else None


def export_facts(manifest: Manifest) -> ExportFacts:
    """Read a ServiceExport object."""
    spec = _mapping(manifest.get("spec"))
    properties = {
        name: _exported_texts(spec.get(name)) for name in ("exportedLabels", "exportedAnnotations")
    }
    return ExportFacts(_created_at(manifest), _sorted(properties))


def export_state(
    mode: ExportMode,
    service: ServiceFacts | None,
    export: ExportFacts | None,
    *,
    has_endpoints: bool,
) -> ExportedService | None:
    """Export state of a service in an admitted namespace; None when it is not offered.

    ``has_endpoints``: a slice or Endpoints object of it exists.  The set follows these, not the
    Service object (E14); in mode ``service-export`` a ServiceExport alone, with nothing behind it,
    offers nothing.
    """
    if service is not None and service.external:
        return None
    if service is None and not has_endpoints:
        return None
    properties = () if service is None else service.properties
    if mode is ExportMode.SERVICE_EXPORT:
        if export is None:
            return None
        return ExportedService(export.created_at, tuple(sorted((*properties, *export.properties))))
    if mode is ExportMode.ANNOTATED and (service is None or not service.annotated):
        return None
    return ExportedService(None if service is None else service.created_at, properties)
