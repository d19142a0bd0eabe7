"""Kubernetes objects for the tests, and what the tests look at in them.

Builders return plain dictionaries.  Addresses are from private ranges; nobody answers on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .kube.api import Api, Object, Objects

NAMESPACE = "shop"
NODE = "node"
NODES = "/api/v1/nodes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"
IMPORTED_SERVICE_LABEL = "multicluster.kubernetes.io/service-name"
SOURCE_LABEL = "multicluster.kubernetes.io/source-cluster"
OUR_MANAGER = "crdt-replicator"


def service(name: str, *, selects_pods: bool = False) -> Object:
    """Build a Service of TCP port 80; with ``selects_pods`` of the pods of its name."""
    spec: dict[str, Any] = {"ports": [{"name": "http", "port": 80, "targetPort": 8080}]}
    if selects_pods:
        spec["selector"] = {"app": name}
    return {"metadata": {"name": name}, "spec": spec}


def endpoint(address: str, *, ready: bool = True) -> Object:
    """Build one endpoint of a slice."""
    conditions = {"ready": ready, "serving": ready, "terminating": False}
    return {"addresses": [address], "conditions": conditions}


def endpoint_slice(
    name: str, of_service: str, endpoints: Iterable[Object], *, port: int = 8080
) -> Object:
    """Build an IPv4 slice of a Service without selector, as an operator or a test writes it."""
    return {
        "metadata": {
            "name": name,
            "labels": {SERVICE_LABEL: of_service, MANAGER_LABEL: "e2e-tests"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": list(endpoints),
    }


def pod(name: str, app: str) -> Object:
    """Build a pod; without a kubelet it stays pending until its status is written.

    Its node must exist as an object, or the controllers make no endpoint of it.
    """
    return {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none"}],
        },
    }


def running(address: str, *, ready: bool = True) -> Object:
    """Build the status a kubelet would write for a pod with this address."""
    return {
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        }
    }


def local(of_service: str) -> Mapping[str, str]:
    """Query for the slices a cluster itself has for a Service."""
    return {"labelSelector": f"{SERVICE_LABEL}={of_service}"}


def imported(of_service: str, source: str | None = None) -> Mapping[str, str]:
    """Query for the slices that came from another cluster, or from any other."""
    origin = f"{SOURCE_LABEL}={source}" if source else SOURCE_LABEL
    return {"labelSelector": f"{IMPORTED_SERVICE_LABEL}={of_service},{origin}"}


def readiness(slices: Objects) -> dict[str, bool]:
    """Each address in the slices with its readiness; no condition means ready."""
    return {
        address: one.get("conditions", {}).get("ready", True)
        for each in slices
        for one in each.get("endpoints") or ()
        for address in one["addresses"]
    }


def versions(objects: Objects) -> dict[str, str]:
    """Resource version of each object by its name: equal before and after means not written."""
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in objects}


def names(objects: Objects) -> set[str]:
    """Names of objects."""
    return {one["metadata"]["name"] for one in objects}


def slices_in(namespace: str) -> str:
    """Path of the slices of a namespace."""
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


async def offer(
    api: Api, name: str, endpoints: Mapping[str, bool], *, namespace: str = NAMESPACE
) -> None:
    """Create a Service without selector and a slice of its name with these addresses."""
    await api.create(f"/api/v1/namespaces/{namespace}/services", service(name))
    one = endpoint_slice(name, name, _endpoints(endpoints))
    await api.create(slices_in(namespace), one)


async def change(api: Api, name: str, endpoints: Mapping[str, bool]) -> None:
    """Give the slice that ``offer`` made in the usual namespace other endpoints."""
    await api.patch(f"{SLICES}/{name}", {"endpoints": _endpoints(endpoints)})


def _endpoints(readiness_of: Mapping[str, bool]) -> Objects:
    return [endpoint(address, ready=ready) for address, ready in readiness_of.items()]
