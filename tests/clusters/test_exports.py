"""Which services are offered, and with what (kubernetes.md E15)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.exports import ExportFacts, ServiceFacts, export_facts, export_state, service_facts
from clusters.manifests import reference
from clusters.model import ServiceKey
from clusters.settings import ExportMode, NamespaceFilter
from crdt import pack
from tests.clusters.makers import json_values, object_of


def facts(**fields: Any) -> ServiceFacts:
    manifest = object_of("Service", "cart", **fields)
    return service_facts(manifest, reference(manifest))


PLAIN = facts(
    spec={"clusterIP": "10.96.0.7"}, metadata={"creationTimestamp": "2025-01-01T00:00:00Z"}
)
ANNOTATED = facts(metadata={"annotations": {"replicator.dev/export": "true"}})
EXTERNAL = facts(spec={"type": "ExternalName", "externalName": "x.example"})
EXPORT = ExportFacts("2025-02-02T00:00:00Z", (("exportedLabels", {"team": "blue"}),))


@pytest.mark.parametrize(
    ("mode", "service", "export", "has_endpoints", "offered"),
    [
        ("all", PLAIN, None, False, True),
        ("all", None, None, True, True),
        ("all", None, EXPORT, False, False),
        ("all", EXTERNAL, EXPORT, True, False),
        ("annotated", ANNOTATED, None, False, True),
        ("annotated", PLAIN, EXPORT, True, False),
        ("annotated", None, EXPORT, True, False),
        ("service-export", PLAIN, EXPORT, False, True),
        ("service-export", None, EXPORT, True, True),
        ("service-export", None, EXPORT, False, False),
        ("service-export", PLAIN, None, True, False),
        ("service-export", EXTERNAL, EXPORT, True, False),
    ],
)
def test_what_is_offered_in_each_mode(
    mode: str,
    service: ServiceFacts | None,
    export: ExportFacts | None,
    *,
    has_endpoints: bool,
    offered: bool,
) -> None:
    found = export_state(ExportMode(mode), service, export, has_endpoints=has_endpoints)
    assert (found is not None) is offered


def test_the_age_of_an_export_is_that_of_what_made_it_one() -> None:
    by_export = export_state(ExportMode.SERVICE_EXPORT, PLAIN, EXPORT, has_endpoints=True)
    by_service = export_state(ExportMode.ALL, PLAIN, EXPORT, has_endpoints=True)
    bare = export_state(ExportMode.ALL, None, None, has_endpoints=True)
    assert by_export is not None
    assert by_service is not None
    assert bare is not None
    assert by_export.created_at == "2025-02-02T00:00:00Z"
    assert ("exportedLabels", {"team": "blue"}) in by_export.properties
    assert by_service.created_at == "2025-01-01T00:00:00Z"
    assert (bare.created_at, bare.properties) == (None, ())


def test_the_properties_importers_merge_are_carried() -> None:
    found = facts(
        spec={
            "clusterIP": "None",
            "ports": [
                {"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080},
                {"name": "h2", "port": 81, "appProtocol": "kubernetes.io/h2c", "protocol": "TCP"},
            ],
            "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            "internalTrafficPolicy": "Cluster",
            "trafficDistribution": "PreferClose",
            "ipFamilies": ["IPv6", "IPv4"],
            "selector": {"app": "cart"},
        }
    )
    assert dict(found.properties) == {
        "type": "Headless",
        "ports": [
            {
                "name": "h2",
                "port": 81,
                "protocol": "TCP",
                "appProtocol": "kubernetes.io/h2c",
            },
            {"name": "http", "port": 80, "protocol": "TCP"},
        ],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
        "internalTrafficPolicy": "Cluster",
        "trafficDistribution": "PreferClose",
        "ipFamilies": ["IPv6", "IPv4"],
    }
    assert dict(PLAIN.properties) == {"type": "ClusterSetIP", "ports": []}


def test_exported_labels_and_annotations_travel_if_they_can() -> None:
    spec = {"exportedLabels": {"a": "b", "c": 5, "": "x", "e": "\ud800"}, "exportedAnnotations": {}}
    found = export_facts(object_of("ServiceExport", "cart", spec=spec))
    assert found.properties == (("exportedLabels", {"a": "b"}),)
    huge = {"exportedAnnotations": {"a": "x" * 20_000}}
    assert export_facts(object_of("ServiceExport", "cart", spec=huge)).properties == ()


@given(
    st.dictionaries(
        st.sampled_from(
            ["ports", "clusterIP", "type", "ipFamilies", "sessionAffinity", "exportedLabels"]
        ),
        json_values,
    ),
    st.dictionaries(st.sampled_from(["annotations", "creationTimestamp"]), json_values),
)
def test_any_spec_gives_properties_that_can_travel(
    spec: dict[str, Any], metadata: dict[str, Any]
) -> None:
    service = facts(spec=spec, metadata=metadata)
    export = export_facts(object_of("ServiceExport", "cart", spec=spec, metadata=metadata))
    state = export_state(
        ExportMode.SERVICE_EXPORT, service, export, has_endpoints=True
    ) or export_state(ExportMode.ALL, None, None, has_endpoints=True)
    assert state is not None
    assert pack([state.created_at, dict(state.properties)])


@pytest.mark.parametrize(
    ("found", "namespace", "admitted"),
    [
        (NamespaceFilter(), "shop", True),
        (NamespaceFilter(), "kube-system", False),
        (NamespaceFilter(exclude=()), "kube-system", False),
        (NamespaceFilter(include=("*", "kube-system"), exclude=()), "kube-system", True),
        (NamespaceFilter(include=("shop-*",)), "shop-1", True),
        (NamespaceFilter(include=("shop-*",)), "shop", False),
        (NamespaceFilter(exclude=("shop-[0-9]",)), "shop-1", False),
        (NamespaceFilter(include=()), "shop", False),
    ],
)
def test_namespaces_are_admitted_by_globs(
    found: NamespaceFilter, namespace: str, *, admitted: bool
) -> None:
    assert found.admits(namespace) is admitted
    assert found.admits_service(ServiceKey(namespace, "cart")) is admitted


def test_the_api_servers_own_service_is_offered_only_if_asked_for() -> None:
    own = ServiceKey("default", "kubernetes")
    assert not NamespaceFilter().admits_service(own)
    assert NamespaceFilter().admits_service(ServiceKey("default", "cart"))
    assert NamespaceFilter(services=frozenset({own})).admits_service(own)
