"""What mode mcs writes: the ServiceImport, its derived Service and the slices (kubernetes.md 4)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from clusters.model import ChangeOp, Endpoint, Manifest, Port, ServiceKey
from clusters.multicluster import names
from clusters.multicluster.plan import observed_of
from tests.clusters.makers import CART, object_of
from tests.clusters.multicluster.bed import GRPC, HTTP, Server, conditions, export
from tests.clusters.slice_server import no

WEB = (Port("http", 8080),)
HERE = {"fjord": [Endpoint("10.1.0.1", WEB)]}
BOTH = {**HERE, "mesa": [Endpoint("10.2.0.1", WEB), Endpoint("10.2.0.2", WEB)]}
EXPORTS = {"fjord": export(1), "mesa": export(2)}


def test_the_name_of_a_derived_service_is_the_same_for_ever() -> None:
    assert names.derived_name(ServiceKey("ns", "name")) == "derived-pd6k8ot52u"
    assert names.derived_name(CART) != names.derived_name(ServiceKey("pos", "cart"))


def test_import_first_then_what_belongs_to_it_then_its_address_then_its_status() -> None:
    server = Server()
    assert server.sync(EXPORTS, BOTH) == [
        "create ServiceImport",
        "create Service",
        "create EndpointSlice",
        "create EndpointSlice",
        "update ServiceImport status",
        "update ServiceImport",
        "update ServiceImport status",
    ]
    assert server.sync(EXPORTS, BOTH) == []


def test_a_second_pass_writes_nothing_for_a_hundred_passes() -> None:
    server = Server(families=("IPv6", "IPv4"))
    rich = {
        "fjord": export(
            1,
            sessionAffinity="ClientIP",
            trafficDistribution="PreferClose",
            ipFamilies=["IPv4", "IPv6"],
            exportedLabels={"tier": "gold"},
            ports=[{**HTTP, "appProtocol": "http"}, GRPC],
        ),
        "mesa": export(2),
    }
    server.sync(rich, BOTH)
    assert [server.sync(rich, BOTH) for _ in range(100)] == [[]] * 100


def test_an_import_says_all_that_the_exports_say_and_coredns_finds_its_address() -> None:
    server = Server(families=("IPv6", "IPv4"))
    first = export(
        1,
        sessionAffinity="ClientIP",
        sessionAffinityConfig={"clientIP": {"timeoutSeconds": 10}},
        internalTrafficPolicy="Local",
        trafficDistribution="PreferClose",
        ipFamilies=["IPv4", "IPv6"],
        exportedLabels={"tier": "gold"},
        exportedAnnotations={"note": "x"},
        ports=[{**HTTP, "appProtocol": "http"}],
    )
    server.sync({"fjord": first, "mesa": export(2, ports=[GRPC])}, BOTH)
    found = server.of("ServiceImport")
    derived = names.derived_name(CART)
    assert found["apiVersion"] == "multicluster.x-k8s.io/v1beta1"
    assert found["metadata"]["labels"] == {"tier": "gold"}
    assert found["metadata"]["annotations"] == {
        "note": "x",
        "multicluster.kubernetes.io/derived-service": derived,
        "replicator.dev/exported": '{"annotations":["note"],"labels":["tier"]}',
    }
    assert found["spec"] == {
        "type": "ClusterSetIP",
        "ports": [
            {"name": "grpc", "protocol": "TCP", "port": 90},
            {"name": "http", "protocol": "TCP", "appProtocol": "http", "port": 80},
        ],
        "ips": ["fd00::7", "10.96.0.7"],
        "ipFamilies": ["IPv6", "IPv4"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
        "internalTrafficPolicy": "Local",
        "trafficDistribution": "PreferClose",
    }
    status = found["status"]
    assert status["clusters"] == [{"cluster": "fjord"}, {"cluster": "mesa"}]
    assert status["endpointSliceObjects"] == "Present"
    assert conditions(found)["Ready"]["status"] == "True"
    service = server.of("Service")
    assert service["metadata"]["name"] == derived
    assert service["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "multicluster.x-k8s.io/v1beta1",
            "kind": "ServiceImport",
            "name": "cart",
            "uid": found["metadata"]["uid"],
        }
    ]
    assert service["spec"] == {
        "type": "ClusterIP",
        "ports": [
            {"name": "grpc", "protocol": "TCP", "port": 90, "targetPort": 90},
            {
                "name": "http",
                "protocol": "TCP",
                "port": 80,
                "targetPort": 80,
                "appProtocol": "http",
            },
        ],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
        "internalTrafficPolicy": "Local",
        "trafficDistribution": "PreferClose",
        "ipFamilyPolicy": "PreferDualStack",
        "ipFamilies": ["IPv6", "IPv4"],
        "clusterIP": "fd00::7",
        "clusterIPs": ["fd00::7", "10.96.0.7"],
    }


def test_slices_are_proxied_for_the_derived_service_and_belong_to_the_import() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    uid = server.of("ServiceImport")["metadata"]["uid"]
    found = server.slices()
    assert [len(item["endpoints"]) for item in found] == [1, 2]
    for item in found:
        labels = dict(item["metadata"]["labels"])
        assert labels.pop("multicluster.kubernetes.io/source-cluster") in EXPORTS
        assert labels == {
            "multicluster.kubernetes.io/service-name": "cart",
            "endpointslice.kubernetes.io/managed-by": "crdt-replicator",
            "kubernetes.io/service-name": names.derived_name(CART),
        }
        (owner,) = item["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("ServiceImport", "cart", uid)


def test_a_headless_set_is_one_slice_and_has_no_address() -> None:
    server = Server()
    many = [Endpoint(f"10.1.{n // 200}.{n % 200 + 1}", WEB) for n in range(450)]
    server.sync({"fjord": export(1, type="Headless", ipFamilies=["IPv4"])}, {"fjord": many})
    (found,) = server.slices()
    assert len(found["endpoints"]) == 450
    assert "kubernetes.io/service-name" not in found["metadata"]["labels"]
    assert not [name for kind, name in server.objects if kind == "Service"]
    spec = server.of("ServiceImport")["spec"]
    assert (spec["type"], spec["ipFamilies"]) == ("Headless", ["IPv4"])
    assert "ips" not in spec
    annotations = server.of("ServiceImport")["metadata"]["annotations"]
    assert "multicluster.kubernetes.io/derived-service" not in annotations
    assert conditions(server.of("ServiceImport"))["Ready"]["status"] == "True"


def test_a_service_that_becomes_headless_loses_its_address_and_gets_it_back() -> None:
    server = Server()
    server.sync(EXPORTS, HERE)
    server.sync({"fjord": export(1, type="Headless")}, HERE)
    assert not [name for kind, name in server.objects if kind == "Service"]
    assert "ips" not in server.of("ServiceImport")["spec"]
    (found,) = server.slices()
    assert "kubernetes.io/service-name" not in found["metadata"]["labels"]
    server.sync(EXPORTS, HERE)
    assert server.of("ServiceImport")["spec"]["ips"] == ["10.96.0.7"]


def test_unexport_takes_everything_away() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    assert server.sync({}) == [
        "delete EndpointSlice",
        "delete EndpointSlice",
        "delete Service",
        "delete ServiceImport",
    ]
    assert server.sync({}) == []
    assert server.plan({}, BOTH).changes == ()


def test_an_import_stays_while_one_cluster_still_exports() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    address = server.of("Service")["spec"]["clusterIP"]
    server.sync({"mesa": EXPORTS["mesa"]}, {"mesa": BOTH["mesa"]})
    assert server.of("Service")["spec"]["clusterIP"] == address
    assert server.of("ServiceImport")["status"]["clusters"] == [{"cluster": "mesa"}]
    (found,) = server.slices()
    assert found["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"] == "mesa"


def test_a_younger_conflicting_export_writes_nothing_to_what_runs() -> None:
    server = Server()
    server.sync({"fjord": export(1)}, HERE)
    younger = export(2, type="Headless", ports=[{**HTTP, "port": 81}], ipFamilies=["IPv6"])
    done = server.sync({"fjord": export(1), "mesa": younger}, BOTH)
    assert done == ["update ServiceImport status"]


def test_exported_labels_that_are_gone_go_and_those_of_others_stay() -> None:
    server = Server()
    server.sync({"fjord": export(1, exportedLabels={"tier": "gold"})}, HERE)
    metadata = server.of("ServiceImport")["metadata"]
    metadata["labels"]["team"] = "blue"
    metadata["annotations"]["seen"] = "yes"
    metadata["managedFields"] = [{}]
    assert server.sync({"fjord": export(1, exportedLabels={"tier": "gold"})}, HERE) == []
    server.sync({"fjord": export(1, exportedAnnotations={"note": "x"})}, HERE)
    metadata = server.of("ServiceImport")["metadata"]
    assert metadata["labels"] == {"team": "blue"}
    assert metadata["annotations"]["seen"] == "yes"
    assert metadata["annotations"]["note"] == "x"
    assert "managedFields" not in metadata


def _import(server: Server) -> Manifest:
    return server.of("ServiceImport")


def _service(server: Server) -> Manifest:
    return server.of("Service")


def _slice(server: Server) -> Manifest:
    return server.slices()[0]


Edit = Callable[[Manifest], object]
EDITS: list[tuple[Callable[[Server], Manifest], Edit]] = [
    (_import, lambda item: item["spec"].pop("ips")),
    (_import, lambda item: item["spec"].update(ports=[])),
    (_import, lambda item: item.update(spec="x")),
    (_import, lambda item: item["metadata"]["annotations"].update({"replicator.dev/exported": ""})),
    (
        _import,
        lambda item: item["metadata"]["annotations"].update({"replicator.dev/exported": "[]"}),
    ),
    (
        _import,
        lambda item: item["metadata"]["annotations"].update(
            {"replicator.dev/exported": '{"labels": 1}'}
        ),
    ),
    (_import, lambda item: item.update(status="x")),
    (_import, lambda item: item.update(status={"clusters": 7})),
    (_import, lambda item: item.update(status={"clusters": [7]})),
    (_import, lambda item: item.pop("status")),
    (_service, lambda item: item["spec"].update(selector={"app": "evil"})),
    (_service, lambda item: item["spec"].update(externalIPs=["8.8.8.8"])),
    (_service, lambda item: item["spec"].update(ports="x")),
    (_service, lambda item: item["spec"].update(ports=[7])),
    (_service, lambda item: item["spec"]["ports"][0].update(nodePort=30000)),
    (_service, lambda item: item["spec"]["ports"][0].update(targetPort=1)),
    (_service, lambda item: item["spec"].update(type="NodePort")),
    (_service, lambda item: item["metadata"]["labels"].clear()),
    (_service, lambda item: item["metadata"].pop("annotations")),
    (_service, lambda item: item["metadata"].pop("ownerReferences")),
    (_service, lambda item: item["metadata"]["ownerReferences"][0].update(uid="old")),
    (_slice, lambda item: item["metadata"].pop("ownerReferences")),
    (_slice, lambda item: item["metadata"]["ownerReferences"][0].update(uid="old")),
    (_slice, lambda item: item["metadata"]["labels"].pop("kubernetes.io/service-name")),
    (
        _slice,
        lambda item: item["metadata"]["labels"].update({"kubernetes.io/service-name": "cart"}),
    ),
]


@pytest.mark.parametrize(("which", "edit"), EDITS)
def test_every_edit_of_what_is_ours_is_undone(
    which: Callable[[Server], Manifest], edit: Edit
) -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    before = _without_versions(server)
    edit(which(server))
    assert server.sync(EXPORTS, BOTH)
    assert _without_versions(server) == before


def _without_versions(server: Server) -> dict[tuple[str, str], Any]:
    found = {}
    for name, item in server.objects.items():
        metadata = {k: v for k, v in item["metadata"].items() if k != "resourceVersion"}
        status = dict(item.get("status", {}))
        status["conditions"] = [
            {**one, "lastTransitionTime": ""} for one in status.get("conditions", [])
        ]
        found[name] = {**item, "metadata": metadata, "status": status}
    return copy.deepcopy(found)


def test_owners_others_named_are_kept_and_what_the_server_adds_is_no_difference() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1"}
    for item in (_service(server), _slice(server)):
        item["metadata"]["ownerReferences"].insert(0, other)
        item["metadata"]["labels"]["team"] = "blue"
    _service(server)["metadata"]["managedFields"] = [{}]
    _service(server)["spec"].update(futureDefault=True, selector=None)
    del _service(server)["spec"]["ports"][0]["targetPort"]
    del _service(server)["spec"]["ports"][0]["protocol"]
    assert server.sync(EXPORTS, BOTH) == []
    _service(server)["spec"]["type"] = "NodePort"
    server.sync(EXPORTS, BOTH)
    assert _service(server)["metadata"]["ownerReferences"][0] == other
    assert "managedFields" not in _service(server)["metadata"]


def test_a_second_family_is_asked_for_and_never_given_back() -> None:
    server = Server(families=("IPv4", "IPv6"))
    one, two = export(1, ipFamilies=["IPv4"]), export(1, ipFamilies=["IPv4", "IPv6"])
    server.sync({"fjord": one}, HERE)
    assert server.of("Service")["spec"]["ipFamilies"] == ["IPv4"]
    server.sync({"fjord": two}, HERE)
    assert server.of("ServiceImport")["spec"]["ips"] == ["10.96.0.7", "fd00::7"]
    server.sync({"fjord": one}, HERE)
    assert server.of("ServiceImport")["spec"]["ips"] == ["10.96.0.7", "fd00::7"]
    assert server.of("ServiceImport")["spec"]["ipFamilies"] == ["IPv4", "IPv6"]


def test_a_service_takes_only_the_traffic_distribution_it_knows() -> None:
    server = Server()
    server.sync({"fjord": export(1, trafficDistribution="vendor.example/near")}, HERE)
    assert "trafficDistribution" not in server.of("Service")["spec"]
    spec = server.of("ServiceImport")["spec"]
    assert spec["trafficDistribution"] == "vendor.example/near"


def test_an_import_being_deleted_is_waited_for_and_then_made_anew() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    first = server.of("ServiceImport")
    first["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert server.plan(EXPORTS, BOTH).changes == ()
    del server.objects["ServiceImport", "cart"]
    assert server.sync(EXPORTS, BOTH)[0] == "create ServiceImport"
    uid = server.of("ServiceImport")["metadata"]["uid"]
    assert uid != first["metadata"]["uid"]
    for item in (server.of("Service"), *server.slices()):
        (owner,) = item["metadata"]["ownerReferences"]
        assert owner["uid"] == uid


# ---- readiness -----------------------------------------------------------------------------


def test_an_import_without_an_address_says_why() -> None:
    server = Server()
    for change in server.plan(EXPORTS, HERE).changes:
        server.apply(change)
    refused = 'Service "x" is invalid: spec.ipFamilies[0]: not configured on this cluster'

    def told(refusal: str) -> tuple[str, str]:
        (status,) = [
            change
            for change in server.plan(EXPORTS, HERE, refusal=refusal).changes
            if change.subresource
        ]
        ready = conditions(status.manifest)["Ready"]
        assert ready["status"] == "False"
        return ready["reason"], ready["message"]

    assert told("") == ("Pending", "it has no address yet")
    assert told("quota") == ("Pending", "quota")
    assert told(refused) == ("IPFamilyNotSupported", refused)


def test_an_import_without_ports_has_no_service_and_says_so() -> None:
    server = Server()
    server.sync({"fjord": export(1, ports=[])}, {"fjord": []})
    assert list(server.objects) == [("ServiceImport", "cart")]
    found = server.of("ServiceImport")
    assert found["spec"]["ports"] == []
    assert found["status"]["endpointSliceObjects"] == "Absent"
    assert conditions(found)["Ready"]["message"] == "it has no ports"


# ---- M9: nothing goes before a complete state is known ---------------------------------------


def test_m9_while_an_exporter_is_not_known_nothing_of_the_import_changes() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    before = _without_versions(server)
    assert server.sync({}, {}, no) == []
    assert server.sync({"fjord": export(1, ports=[GRPC])}, {}, lambda c: c == "fjord") == [
        "delete EndpointSlice"
    ]
    assert server.sync({}, {}, lambda c: c == "fjord") == []
    after = _without_versions(server)
    assert [name for name in before if name not in after] == [
        name for name in before if "fjord" in name[1]
    ]
    assert all(after[name] == before[name] for name in after)
    server.sync(EXPORTS, BOTH)
    assert _without_versions(server).keys() == before.keys()


def test_m9_a_cluster_that_somebody_wrote_into_the_status_holds_nothing() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    before = _without_versions(server)
    members = set(EXPORTS)
    server.of("ServiceImport")["status"]["clusters"] = [{"cluster": "moon"}]
    server.of("ServiceImport")["spec"]["internalTrafficPolicy"] = "Local"

    assert server.sync(EXPORTS, BOTH, members.__contains__) == []
    server.sync(EXPORTS, BOTH, members.__contains__, member=members.__contains__)

    assert _without_versions(server) == before
    server.of("ServiceImport")["status"]["clusters"] = [{"cluster": "moon"}]
    server.sync({}, {}, members.__contains__, member=members.__contains__)
    assert server.objects == {}


def test_m9_an_import_stays_under_slices_whose_cluster_is_not_known() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    server.of("ServiceImport").pop("status")

    server.sync({}, {}, lambda cluster: cluster == "fjord", member=lambda _: False)

    assert sorted(kind for kind, _ in server.objects) == [
        "EndpointSlice",
        "Service",
        "ServiceImport",
    ]


def test_m9_endpoints_go_on_only_under_the_ports_the_import_shows() -> None:
    server = Server()
    older = export(0, ports=[HTTP])
    other = export(1, ports=[{**HTTP, "port": 81}, GRPC])
    server.sync({"mesa": older, "fjord": other}, BOTH)
    lost = {"fjord": [Endpoint("10.1.0.9", (Port("grpc", 1), Port("http", 8081)))]}
    server.sync({"fjord": other}, lost, lambda c: c == "fjord")
    ports = {
        item["metadata"]["labels"]["multicluster.kubernetes.io/source-cluster"]: item["ports"]
        for item in server.slices()
    }
    assert [port["name"] for port in ports["fjord"]] == ["grpc"]
    assert [port["name"] for port in ports["mesa"]] == ["http"]


def test_m9_a_spoiled_import_that_must_not_change_carries_nothing_new() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    server.of("ServiceImport")["spec"] = "x"
    only_us = {"fjord": EXPORTS["fjord"]}
    assert server.sync(only_us, HERE, lambda c: c == "fjord") == ["delete EndpointSlice"]


# ---- without an import -----------------------------------------------------------------------


def test_what_waits_for_no_owner_is_planned_whole_and_without_one() -> None:
    found = Server().plan(EXPORTS, BOTH, owner_first=False).changes
    assert [(change.op, change.kind) for change in found] == [
        (ChangeOp.CREATE, "ServiceImport"),
        (ChangeOp.CREATE, "Service"),
        (ChangeOp.CREATE, "EndpointSlice"),
        (ChangeOp.CREATE, "EndpointSlice"),
    ]
    assert not [c for c in found if "ownerReferences" in c.manifest["metadata"]]


def test_a_derived_service_that_lost_its_import_keeps_no_owner() -> None:
    server = Server()
    server.sync(EXPORTS, BOTH)
    del server.objects["ServiceImport", "cart"]
    changes = server.plan(EXPORTS, BOTH, owner_first=False).changes
    assert [change.op for change in changes] == [ChangeOp.CREATE, *[ChangeOp.UPDATE] * 3]
    assert not [c for c in changes if "ownerReferences" in c.manifest["metadata"]]


# ---- whose objects these are -----------------------------------------------------------------


def owned_service(name: str, **metadata: Any) -> Manifest:
    return object_of("Service", name, metadata=metadata, spec={"type": "ClusterIP"})


def test_objects_are_told_apart_by_kind_and_by_whose_they_are() -> None:
    owner = {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ServiceImport",
        "name": "cart",
    }
    name = names.derived_name(CART)
    by_owner = owned_service(name, ownerReferences=[7, {"kind": "Pod"}, owner])
    by_mark = owned_service(name, annotations={"replicator.dev/derived-from": "cart"})
    foreign = owned_service("derived-0000000000", ownerReferences=[owner])
    plain = owned_service("cart", ownerReferences="x")
    assert [names.derived_from(item) for item in (by_owner, by_mark, foreign, plain)] == [
        CART,
        CART,
        None,
        None,
    ]
    assert [names.is_derived(item) for item in (by_owner, by_mark, foreign, plain)] == [
        True,
        True,
        True,
        False,
    ]
    theirs = object_of("ServiceImport", "cart")
    assert observed_of(CART, [plain, foreign, theirs, {"kind": 7}]).service_import is None
    assert observed_of(CART, [plain, foreign, by_mark]).derived is by_mark


def test_the_only_port_may_have_no_name() -> None:
    server = Server()
    server.sync(
        {"fjord": export(1, ports=[{"port": 80}])},
        {"fjord": [Endpoint("10.1.0.1", (Port("", 8080),))]},
    )
    assert server.of("ServiceImport")["spec"]["ports"] == [{"protocol": "TCP", "port": 80}]
    assert server.of("Service")["spec"]["ports"] == [
        {"port": 80, "protocol": "TCP", "targetPort": 80}
    ]
    assert server.slices()[0]["ports"] == [{"name": "", "protocol": "TCP", "port": 8080}]
