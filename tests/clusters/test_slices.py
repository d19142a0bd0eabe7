"""Planning our own slices (kubernetes.md M1-M4, M7-M9)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest

from clusters.errors import ClusterError
from clusters.model import ChangeOp, Endpoint, Manifest, Port, ServiceKey
from clusters.slices import Plan, Refused, SliceSettings, full_plan
from tests.clusters.makers import CART
from tests.clusters.slice_server import HTTP, SETTINGS, Server, endpoint, no, yes


def test_c24_a_slice_is_labelled_and_spelled_out() -> None:
    (change,) = Server().plan({"mesa": [endpoint(0, ready=False, serving=True, terminating=True)]})
    assert change.op is ChangeOp.CREATE
    manifest = change.manifest
    assert manifest["metadata"]["labels"] == {
        "endpointslice.kubernetes.io/managed-by": "crdt-replicator",
        "multicluster.kubernetes.io/service-name": "cart",
        "multicluster.kubernetes.io/source-cluster": "mesa",
    }
    assert change.namespace == "shop"
    assert manifest["addressType"] == "IPv4"
    assert manifest["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert manifest["endpoints"] == [
        {
            "addresses": ["10.21.0.1"],
            "conditions": {"ready": False, "serving": True, "terminating": True},
        }
    ]
    assert "ownerReferences" not in manifest["metadata"]


def test_c28_source_clusters_families_and_port_sets_are_never_mixed() -> None:
    server = Server()
    remote = {
        "mesa": [
            endpoint(0),
            endpoint(0, ports=(Port("http", 9090),)),
            endpoint(1, ports=None),
            Endpoint("2001:db8::1", HTTP),
        ],
        "tundra": [endpoint(0)],
    }
    assert server.sync(remote) == ["create"] * 5
    assert server.sync(remote) == []
    null = [item for item in server.objects.values() if item["ports"] is None]
    assert len(null) == 1


def test_m2_names_are_stable_bounded_and_differ_where_the_key_does() -> None:
    long = ServiceKey("n" * 63, "s" * 62 + "." + "t" * 190)
    names = set()
    for key in (CART, ServiceKey("shop", "till"), ServiceKey("pos", "cart"), long):
        for cluster in ("mesa", "m" * 63):
            server = Server(key=key)
            server.sync({cluster: [endpoint(0), endpoint(0, ports=None)]})
            names |= set(server.objects)
    assert len(names) == 16
    (change,) = Server().plan({"mesa": [endpoint(0)]})
    assert change.name == "crdt-replicator.cart.mesa-g1f32k79341umtnb"


def test_c68_a_second_pass_writes_nothing_for_a_hundred_passes() -> None:
    server = Server()
    remote = {"mesa": [endpoint(number, hostname="db-0") for number in range(5)]}
    server.sync(remote)
    assert [server.sync(remote) for _ in range(100)] == [[]] * 100


@pytest.mark.parametrize(
    "edit",
    [
        lambda item: item["ports"][0].pop("protocol"),
        lambda item: item["ports"][0].update(future=1),
        lambda item: item["endpoints"].reverse(),
        lambda item: item["endpoints"][0]["conditions"].pop("terminating"),
        lambda item: item["endpoints"][0].update(hostname=None, zone=None, nodeName=None),
        lambda item: item["endpoints"][0].update(hostname=""),
        lambda item: item["metadata"].update(generation=7, managedFields=[{}], resourceVersion="9"),
        lambda item: item["metadata"]["labels"].update(team="blue"),
        lambda item: item["metadata"]["annotations"].update(note="x"),
        lambda item: item.update(futureTop=1),
    ],
)
def test_c68_what_the_server_or_others_add_is_no_difference(
    edit: Callable[[Manifest], object],
) -> None:
    server = Server()
    remote = {"mesa": [endpoint(0), endpoint(1)]}
    server.sync(remote)
    edit(server.only())
    assert server.sync(remote) == []


def test_null_and_empty_port_lists_read_back_are_the_same() -> None:
    server = Server()
    remote = {"mesa": [endpoint(0, ports=None)]}
    server.sync(remote)
    server.only()["ports"] = []
    assert server.sync(remote) == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda item: item["ports"][0].update(port=1),
        lambda item: item["ports"][0].update(port="x"),
        lambda item: item.update(ports="x"),
        lambda item: item.update(endpoints="x"),
        lambda item: item.update(endpoints=None),
        lambda item: item["endpoints"].pop(),
        lambda item: item["endpoints"].append(item["endpoints"][0]),
        lambda item: item["endpoints"].append("x"),
        lambda item: item["endpoints"].append({"addresses": []}),
        lambda item: item["endpoints"].append({"addresses": ["10.99.0.1"]}),
        lambda item: item["endpoints"].append({"addresses": [5]}),
        lambda item: item["endpoints"][0].update(addresses=["evil"]),
        lambda item: item["endpoints"][0].update(nodeName="n-1"),
        lambda item: item["endpoints"][0].update(hostname="db-0"),
        lambda item: item["endpoints"][0].update(hostname=5),
        lambda item: item["endpoints"][0].update(conditions="x"),
        lambda item: item["endpoints"][0]["conditions"].update(ready=False),
        lambda item: item["metadata"].pop("labels"),
        lambda item: item["metadata"]["labels"].pop("endpointslice.kubernetes.io/managed-by"),
        lambda item: item["metadata"]["labels"].update(
            {"multicluster.kubernetes.io/source-cluster": "tundra"}
        ),
        lambda item: item["metadata"].pop("annotations"),
        lambda item: item["metadata"]["annotations"].update({"replicator.dev/slice-key": "[1]"}),
        lambda item: item["metadata"]["annotations"].update({"replicator.dev/slice-key": "["}),
        lambda item: item["metadata"]["annotations"].update({"replicator.dev/origin-pods": "{"}),
        lambda item: item["metadata"]["annotations"].update({"replicator.dev/origin-pods": "[]"}),
        lambda item: item["metadata"].update(labels=None, annotations=7),
    ],
)
def test_c76_every_edit_of_what_is_ours_is_undone_by_one_update(
    edit: Callable[[Manifest], object],
) -> None:
    server = Server()
    remote = {"mesa": [endpoint(0, pod="cart-0"), endpoint(1)]}
    server.sync(remote)
    before = copy.deepcopy(server.only())
    edit(server.only())
    assert server.sync(remote) == ["update"]
    after = server.only()
    for manifest in (before, after):
        manifest["endpoints"].sort(key=str)
        del manifest["metadata"]["resourceVersion"]
    assert after == before


def test_an_update_keeps_what_others_put_on_the_object() -> None:
    server = Server()
    server.sync({"mesa": [endpoint(0)]})
    found = server.only()
    found["metadata"]["labels"]["team"] = "blue"
    found["metadata"]["annotations"]["note"] = "x"
    found["metadata"]["ownerReferences"] = [{"name": "x"}]
    found["metadata"]["managedFields"] = [{}]
    (change,) = server.plan({"mesa": [endpoint(0, ready=False)]})
    metadata = change.manifest["metadata"]
    assert change.op is ChangeOp.UPDATE
    assert metadata["labels"]["team"] == "blue"
    assert metadata["annotations"]["note"] == "x"
    assert metadata["ownerReferences"] == [{"name": "x"}]
    assert (metadata["uid"], metadata["resourceVersion"]) == ("uid-1", "1")
    assert "managedFields" not in metadata


def test_c34_a_thousand_endpoints_fill_thirteen_slices_and_one_change_is_one_write() -> None:
    server = Server()
    crowd = [endpoint(number) for number in range(1237)]
    assert server.sync({"mesa": crowd}) == ["create"] * 13
    assert sorted(len(item["endpoints"]) for item in server.objects.values()) == [37] + [100] * 12
    crowd[500] = endpoint(500, ready=False)
    assert server.sync({"mesa": crowd}) == ["update"]
    crowd[600] = endpoint(5000)
    assert server.sync({"mesa": crowd}) == ["update"]
    assert server.sync({"mesa": crowd[:-1]}) == ["update"]
    assert server.sync({"mesa": crowd}) == ["update"]
    assert server.sync({"mesa": crowd}) == []


def test_c34_a_rolling_restart_never_repacks_unrelated_slices() -> None:
    server = Server()
    crowd = {number: endpoint(number) for number in range(1237)}
    server.sync({"mesa": list(crowd.values())})
    fresh = 2000
    for step in range(50):
        outgoing = sorted(crowd)[:25]
        homes = {
            name
            for name, item in server.objects.items()
            if _holds(item, [crowd[n] for n in outgoing])
        }
        for number in outgoing:
            del crowd[number]
            crowd[fresh] = endpoint(fresh)
            fresh += 1
        changes = server.plan({"mesa": list(crowd.values())})
        assert {change.name for change in changes} == homes, step
        for change in changes:
            server.apply(change)
        assert len(server.objects) == 13


def _holds(manifest: Manifest, endpoints: list[Endpoint]) -> bool:
    held = {item for entry in manifest["endpoints"] for item in entry["addresses"]}
    return not held.isdisjoint(item.address for item in endpoints)


def test_new_endpoints_fill_free_places_and_an_emptied_slice_goes() -> None:
    server = Server(limit=2)
    four = [endpoint(number) for number in range(4)]
    assert server.sync({"mesa": four}) == ["create", "create"]
    assert server.sync({"mesa": [four[0], *four[2:]]}) == ["update"]
    assert server.sync({"mesa": [four[0], *four[2:], endpoint(9)]}) == ["update"]
    assert server.sync({"mesa": [four[0], endpoint(9)]}) == ["delete"]
    assert server.sync({"mesa": [four[0], endpoint(9), endpoint(10)]}) == ["create"]
    assert server.sync({}) == ["delete", "delete"]


def test_c68_an_empty_import_is_no_object() -> None:
    assert Server().plan({"mesa": []}) == []


def test_a_smaller_limit_moves_only_what_no_longer_fits() -> None:
    server = Server(limit=4)
    six = [endpoint(number) for number in range(6)]
    server.sync({"mesa": six})
    server.settings = SliceSettings(max_endpoints=3)
    assert sorted(server.sync({"mesa": six})) == ["update", "update"]
    assert [len(item["endpoints"]) for item in server.objects.values()] == [3, 3]


def test_c78_node_target_and_hints_are_never_written_and_the_pod_goes_to_an_annotation() -> None:
    remote = {"mesa": [endpoint(0, node="n-1", zone="zone-a", pod="cart-0")]}
    (change,) = Server().plan(remote)
    assert set(change.manifest["endpoints"][0]) == {"addresses", "conditions"}
    annotations = change.manifest["metadata"]["annotations"]
    assert json.loads(annotations["replicator.dev/origin-pods"]) == {"10.21.0.1": "cart-0"}
    (shared,) = Server(share_zones=True).plan(remote)
    assert shared.manifest["endpoints"][0]["zone"] == "zone-a"
    (unfit,) = Server(share_zones=True).plan({"mesa": [endpoint(0, zone="no zone!")]})
    assert "zone" not in unfit.manifest["endpoints"][0]


def test_pod_names_too_many_for_an_annotation_are_left_out() -> None:
    server = Server(limit=1000)
    remote = {"mesa": [endpoint(number, pod=f"{number}-" + "p" * 200) for number in range(1000)]}
    assert server.sync(remote) == ["create"]
    assert "replicator.dev/origin-pods" not in server.only()["metadata"]["annotations"]
    assert server.sync(remote) == []


def test_c32_addresses_under_one_host_name_stay_one_endpoint() -> None:
    server = Server()
    remote = {
        "mesa": [
            endpoint(1, hostname="db-0"),
            endpoint(2),
            endpoint(3, hostname="db-2"),
            endpoint(4, hostname="db-2"),
            endpoint(5, hostname="db-2", ready=False),
        ],
        "tundra": [endpoint(1, hostname="db-0")],
    }
    assert server.sync(remote) == ["create", "create"]
    (mesa,) = [item for item in server.objects.values() if "mesa" in item["metadata"]["name"]]
    found = {tuple(item["addresses"]): item.get("hostname") for item in mesa["endpoints"]}
    assert found == {
        ("10.21.0.2",): "db-0",
        ("10.21.0.3",): None,
        ("10.21.0.4", "10.21.0.5"): "db-2",
        ("10.21.0.6",): "db-2",
    }
    assert server.sync(remote) == []
    many = {"mesa": [endpoint(number, hostname="db-0") for number in range(230)]}
    server = Server()
    server.sync(many)
    assert sorted(len(item["addresses"]) for item in server.only()["endpoints"]) == [30, 100, 100]
    assert server.sync(many) == []


@pytest.mark.parametrize("hostname", ["Db-0", "db_0", "a.b", "-x", "x" * 64, "ä"])
def test_m7_a_host_name_the_server_would_refuse_is_left_out(hostname: str) -> None:
    server = Server()
    assert server.sync({"mesa": [endpoint(0, hostname=hostname)]}) == ["create"]
    assert "hostname" not in server.only()["endpoints"][0]


@pytest.mark.parametrize(
    ("ports", "reason"),
    [
        (tuple(Port(f"p{number}", number) for number in range(1, 102)), "too_many_ports"),
        ((), "no_ports"),
        ((Port("", 53, "TCP"), Port("", 53, "UDP")), "duplicate_port_name"),
        ((Port("Not_A_Label", 80),), "bad_port_name"),
        ((Port("a", 0),), "bad_port"),
        ((Port("a", 65536),), "bad_port"),
        ((Port("a", 80, "QUIC"),), "bad_protocol"),
        ((Port("a", 80, "TCP", "two words"),), "bad_app_protocol"),
        ((Port("a", 80, "TCP", "UPPER/h2c"),), "bad_app_protocol"),
        ((Port("a", 80, "TCP", "/h2c"),), "bad_app_protocol"),
    ],
)
def test_m7_ports_the_server_would_refuse_are_reported_and_stop_nothing_else(
    ports: tuple[Port, ...], reason: str
) -> None:
    remote = {"mesa": [endpoint(0, ports=ports), endpoint(1, ports=ports), endpoint(0)]}
    found = full_plan(CART, remote, [], settings=SETTINGS, deletable=yes)
    assert found.refused == (Refused(reason, "mesa", 2),)
    assert [change.op for change in found.changes] == [ChangeOp.CREATE]


def test_application_protocols_that_are_qualified_names_are_written() -> None:
    remote = {"mesa": [endpoint(0, ports=(Port("a", None, "TCP", "kubernetes.io/h2c"),))]}
    (change,) = Server().plan(remote)
    assert change.manifest["ports"] == [
        {"name": "a", "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"}
    ]


@pytest.mark.parametrize(
    ("key", "cluster", "reason"),
    [
        (ServiceKey("shop!", "cart"), "mesa", "bad_service_name"),
        (ServiceKey("shop", "Cart"), "mesa", "bad_service_name"),
        (CART, "Mesa!", "bad_cluster_name"),
    ],
)
def test_m7_names_no_object_can_have_are_reported(
    key: ServiceKey, cluster: str, reason: str
) -> None:
    found = full_plan(key, {cluster: [endpoint(0)]}, [], settings=SETTINGS, deletable=yes)
    assert found == Plan((), (Refused(reason, cluster, 1),))


def test_what_became_unwritable_is_taken_away() -> None:
    server = Server()
    server.sync({"mesa": [endpoint(0)]})
    assert server.sync({"mesa": [endpoint(0, ports=(Port("a", 0),))]}) == ["delete"]


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_impossible_slice_sizes_are_refused(limit: int) -> None:
    with pytest.raises(ClusterError, match="1 to 1000"):
        SliceSettings(max_endpoints=limit)


def test_m7_a_slice_of_the_wrong_family_is_replaced_under_another_name() -> None:
    server = Server()
    remote = {"mesa": [endpoint(0)]}
    server.sync(remote)
    found = server.only()
    found.update(addressType="IPv6", endpoints=[{"addresses": ["2001:db8::9"]}])
    assert server.sync(remote) == ["create", "delete"]
    assert server.only()["addressType"] == "IPv4"
    assert server.sync(remote) == []
    server.only()["addressType"] = 5
    assert server.sync(remote, no) == ["create"]


def test_c72_copies_of_a_slice_are_deleted_once_and_the_original_stays() -> None:
    server = Server()
    remote = {"mesa": [endpoint(0)]}
    server.sync(remote)
    original = server.only()
    copied = copy.deepcopy(original)
    copied["metadata"].update(name="cart-copy", uid="other")
    unlabelled = copy.deepcopy(copied)
    unlabelled["metadata"].update(name="cart-copy2", labels={})
    keyless = copy.deepcopy(copied)
    keyless["metadata"].update(name="cart-copy3", annotations={})
    for manifest in (copied, unlabelled, keyless):
        server.objects[manifest["metadata"]["name"]] = manifest
    assert server.sync(remote, no) == []
    assert server.sync(remote) == ["delete"] * 3
    assert server.only() is original


def test_a_stray_object_of_ours_whose_source_nobody_knows_is_left_alone() -> None:
    server = Server()
    stray = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "crdt-replicator.x", "namespace": "shop"},
    }
    server.objects["crdt-replicator.x"] = stray
    assert server.sync({}) == []


def test_c79_nothing_of_a_cluster_that_is_not_known_whole_is_taken_away() -> None:
    server = Server(limit=2)
    remote = {"mesa": [endpoint(n, pod=f"p-{n}") for n in range(3)], "tundra": [endpoint(7)]}
    server.sync(remote)
    before = server.holds()
    assert server.sync({}, no) == []
    assert server.sync({"mesa": [endpoint(0, pod="p-0")]}, no) == []
    assert server.holds() == before
    assert server.sync({"mesa": [endpoint(0, ready=False, pod="p-0")]}, no) == ["update"]
    assert len(server.holds()["mesa"]) == 3
    assert server.sync({"mesa": [endpoint(8)]}, no) == ["update"]
    assert len(server.holds()["mesa"]) == 4
    assert server.sync({}, lambda cluster: cluster == "tundra") == ["delete"]
    assert set(server.holds()) == {"mesa"}
    assert server.sync({}) == ["delete", "delete"]


def test_changes_come_as_creates_updates_deletes_each_by_name() -> None:
    server = Server()
    server.sync({"b": [endpoint(0)], "c": [endpoint(0)], "d": [endpoint(0)]})
    changes = server.plan({"a": [endpoint(0)], "b": [endpoint(1)], "aa": [endpoint(0)]})
    assert [(change.op.value, change.name.split(".")[2].split("-")[0]) for change in changes] == [
        ("create", "a"),
        ("create", "aa"),
        ("update", "b"),
        ("delete", "c"),
        ("delete", "d"),
    ]
