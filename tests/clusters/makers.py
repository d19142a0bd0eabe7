"""Kubernetes objects for tests, with nothing in them that a test does not ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from clusters.catalog import ServiceCatalog
from clusters.model import Endpoint, Manifest, Port, ServiceKey
from clusters.settings import ExportMode, NamespaceFilter

CART = ServiceKey("shop", "cart")
HTTP = {"name": "http", "port": 8080, "protocol": "TCP"}
CASES = Path(__file__).parents[1] / "data" / "cases"
TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


def load_case(name: str) -> Any:
    """The decoded content of a case's file."""
    return yaml.safe_load((CASES / f"{name}.yaml").read_text(encoding="utf-8"))


def catalog(
    export: ExportMode = ExportMode.ALL, namespaces: NamespaceFilter | None = None
) -> ServiceCatalog:
    """An empty catalog of cluster ``fjord``."""
    return ServiceCatalog(
        cluster="fjord", export=export, namespaces=namespaces or NamespaceFilter()
    )


def entry(*addresses: str, uid: str | None = None, **fields: Any) -> Manifest:
    """One entry of ``endpoints``; ``ready``, ``serving``, ``terminating`` become conditions."""
    conditions = {
        name: fields.pop(name) for name in ("ready", "serving", "terminating") if name in fields
    }
    found: Manifest = {"addresses": list(addresses), **fields}
    if conditions:
        found["conditions"] = conditions
    if uid is not None:
        found["targetRef"] = {"kind": "Pod", "name": f"pod-{uid}", "uid": uid}
    return found


def slice_of(
    name: str,
    *endpoints: Manifest,
    service: str | None = "cart",
    namespace: str = "shop",
    trigger: str | None = None,
    family: Any = "IPv4",
    **fields: Any,
) -> Manifest:
    """An EndpointSlice; ``fields`` replace or add top-level ones."""
    metadata: Manifest = {"name": name, "namespace": namespace}
    if service is not None:
        metadata["labels"] = {"kubernetes.io/service-name": service}
    if trigger is not None:
        metadata["annotations"] = {TRIGGER: trigger}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": family,
        "ports": [HTTP],
        "endpoints": list(endpoints),
        **fields,
    }


def endpoints_of(name: str, *subsets: Manifest, namespace: str = "shop", **meta: Any) -> Manifest:
    """An Endpoints object."""
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": name, "namespace": namespace, **meta},
        "subsets": list(subsets),
    }


def object_of(kind: str, name: str, *, namespace: str = "shop", **fields: Any) -> Manifest:
    """A Service, ServiceExport or Namespace."""
    version = "multicluster.x-k8s.io/v1beta1" if kind == "ServiceExport" else "v1"
    metadata: Manifest = {"name": name, **fields.pop("metadata", {})}
    if kind != "Namespace":
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def addresses(found: ServiceCatalog, key: ServiceKey = CART) -> list[str]:
    """Addresses of a service in order."""
    return [endpoint.address for endpoint in found.local(key).endpoints]


# ---- strategies ----------------------------------------------------------------------------

maybe = st.sampled_from([None, True, False])
v4 = st.integers(1, 60).map(lambda n: f"10.20.{n // 20}.{n % 20 + 1}")
v6 = st.integers(1, 40).map(lambda n: f"2001:db8::{n:x}")
hostnames = st.sampled_from([None, None, "db-0", "db-1", "Not_A_Label", "x" * 64])
texts = st.sampled_from([None, "zone-a", "n-1", "z" * 70])
ports = st.one_of(
    st.none(),
    st.lists(
        st.sampled_from(
            [
                Port("http", 8080),
                Port("http", 9090),
                Port("dns", 53, "UDP"),
                Port("dns-tcp", 53, "TCP"),
                Port("", None),
                Port("grpc", 7000, "TCP", "kubernetes.io/h2c"),
            ]
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda port: port.name,
    ).map(lambda found: tuple(sorted(found, key=Port.sort_key))),
)
endpoint = st.builds(
    Endpoint,
    address=st.one_of(v4, v6),
    ports=ports,
    ready=st.booleans(),
    serving=st.booleans(),
    terminating=st.booleans(),
    hostname=hostnames,
    zone=texts,
    node=texts,
    pod=texts,
)
endpoint_sets = st.lists(endpoint, max_size=40, unique_by=lambda item: item.identity)
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["10.20.1.4", "IPv4", "::1", "\ud800", "TCP", 0, 8080]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
