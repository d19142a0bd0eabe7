"""Every row of the merge and conflict rules (kubernetes.md section 4)."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.model import Endpoint, ExportedService, Port
from clusters.multicluster.conflicts import messages, reasons
from clusters.multicluster.merge import Merged, carried_endpoints, merge
from clusters.multicluster.offer import Offer, read_offer
from tests.clusters.multicluster.bed import GRPC, HTTP, export

Exports = dict[str, ExportedService]


def merged(**exports: ExportedService) -> Merged:
    found = merge(exports)
    assert found is not None
    return found


def ports(found: Merged) -> list[str]:
    return [f"{port.name}:{port.port}/{port.protocol}" for port in found.ports]


def by_client(seconds: int) -> dict[str, Any]:
    config = {"clientIP": {"timeoutSeconds": seconds}}
    return {"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}


# ---- who decides ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesa", "tundra", "oldest"),
    [
        (export(1), export(2), "mesa"),
        (export(2), export(1), "tundra"),
        (export(1), export(1), "mesa"),
        (export(None), export(59), "tundra"),
        (export(None), export(None), "mesa"),
        (ExportedService("soon", export(0).properties), export(59), "tundra"),
        (
            ExportedService("2026-03-01T10:00:30+01:00", export(0).properties),
            export(0),
            "mesa",
        ),
    ],
)
def test_the_oldest_export_decides_and_a_tie_falls_to_the_first_cluster(
    mesa: ExportedService, tundra: ExportedService, oldest: str
) -> None:
    assert merged(mesa=mesa, tundra=tundra).oldest.cluster == oldest


def test_exports_that_know_no_service_take_no_part() -> None:
    unknown = ExportedService("2026-03-01T09:00:00Z", (("exportedLabels", {"a": "b"}),))
    assert merge({}) is None
    assert merge({"mesa": unknown}) is None
    found = merged(mesa=unknown, tundra=export(1))
    assert list(found.offers) == ["tundra"]
    assert found.conflicts == ()


# ---- one property, two clusters ------------------------------------------------------------

ROWS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("TypeConflict", {"type": "Headless"}, {}, 'type "Headless" of mesa is used'),
    (
        "SessionAffinityConflict",
        by_client(10),
        {},
        'sessionAffinity "ClientIP" of mesa is used',
    ),
    (
        "SessionAffinityConfigConflict",
        by_client(10),
        by_client(20),
        "sessionAffinityConfig.clientIP.timeoutSeconds 10 of mesa is used",
    ),
    (
        "LabelsConflict",
        {"exportedLabels": {"tier": "gold"}},
        {},
        'exportedLabels {"tier": "gold"} of mesa is used',
    ),
    (
        "AnnotationsConflict",
        {},
        {"exportedAnnotations": {"note": "x"}},
        "exportedAnnotations {} of mesa is used",
    ),
    (
        "InternalTrafficPolicyConflict",
        {"internalTrafficPolicy": "Local"},
        {},
        'internalTrafficPolicy "Local" of mesa is used',
    ),
    (
        "TrafficDistributionConflict",
        {"trafficDistribution": "PreferClose"},
        {},
        'trafficDistribution "PreferClose" of mesa is used',
    ),
    (
        "IPFamilyConflict",
        {"ipFamilies": ["IPv4"]},
        {"ipFamilies": ["IPv4", "IPv6"]},
        'ipFamilies ["IPv4"] of mesa is used',
    ),
    (
        "PortConflict",
        {"ports": [HTTP]},
        {"ports": [HTTP, GRPC]},
        "ports grpc 90/TCP of tundra, http 80/TCP of mesa are used",
    ),
]


@pytest.mark.parametrize(("reason", "older", "younger", "used"), ROWS, ids=[r[0] for r in ROWS])
def test_each_conflict_has_its_reason_and_names_the_value_the_cluster_and_how_many(
    reason: str, older: dict[str, Any], younger: dict[str, Any], used: str
) -> None:
    found = merged(tundra=export(2, **younger), mesa=export(1, **older), atoll=export(3, **older))
    assert reasons(found.conflicts) == reason
    assert messages(found.conflicts) == f"{used}, 1/3 clusters disagree"


def test_what_the_oldest_states_is_what_all_see() -> None:
    oldest = export(
        0,
        type="Headless",
        internalTrafficPolicy="Local",
        trafficDistribution="PreferClose",
        ipFamilies=["IPv6", "IPv4"],
        exportedLabels={"tier": "gold"},
        exportedAnnotations={"note": "x"},
        **by_client(10),
    )
    found = merged(mesa=oldest, atoll=export(1, exportedLabels={"other": "y"}))
    assert found.oldest == Offer(
        cluster="mesa",
        created_at=found.oldest.created_at,
        headless=True,
        ports=(Port("http", 80),),
        affinity="ClientIP",
        affinity_seconds=10,
        internal_policy="Local",
        distribution="PreferClose",
        families=("IPv6", "IPv4"),
        labels=(("tier", "gold"),),
        annotations=(("note", "x"),),
    )


NO_CONFLICT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"sessionAffinity": "None", "internalTrafficPolicy": "Cluster"}),
    ({"sessionAffinity": "ClientIP"}, by_client(10800)),
    ({"ipFamilies": ["IPv4", "IPv6"]}, {"ipFamilies": ["IPv6", "IPv4"]}),
    ({"ipFamilies": ["IPv4"]}, {}),
    ({"ports": [HTTP, GRPC]}, {"ports": [GRPC, HTTP]}),
    ({"ports": [HTTP]}, {"ports": [{"name": "http", "port": 80}]}),
    ({"exportedLabels": {}}, {}),
]


@pytest.mark.parametrize(("older", "younger"), NO_CONFLICT)
def test_the_same_said_in_another_way_is_no_conflict(
    older: dict[str, Any], younger: dict[str, Any]
) -> None:
    assert merged(mesa=export(1, **older), tundra=export(2, **younger)).conflicts == ()


def test_several_conflicts_are_joined_and_long_values_cut() -> None:
    labels = {f"label-{number}": "x" * 60 for number in range(10)}
    many = [{"name": f"port-{n}", "port": n + 1, "protocol": "TCP"} for n in range(50)]
    found = merged(mesa=export(1, exportedLabels=labels, ports=many), tundra=export(2))
    assert reasons(found.conflicts) == "PortConflict,LabelsConflict"
    assert len(messages(found.conflicts)) < 800
    assert messages(found.conflicts).count("...") == 2


# ---- ports ---------------------------------------------------------------------------------

UDP = {"name": "dns", "port": 80, "protocol": "UDP"}
Table = list[tuple[str, list[Any], list[Any], list[str], set[str], set[str]]]
PORTS: Table = [
    ("same", [HTTP], [HTTP], ["http:80/TCP"], {"http"}, {"http"}),
    ("union", [HTTP], [GRPC], ["grpc:90/TCP", "http:80/TCP"], {"http"}, {"grpc"}),
    (
        "name taken, other number",
        [HTTP],
        [{**HTTP, "port": 8080}, GRPC],
        ["grpc:90/TCP", "http:80/TCP"],
        {"http"},
        {"grpc"},
    ),
    (
        "name taken, other protocol",
        [HTTP],
        [{**HTTP, "protocol": "UDP"}],
        ["http:80/TCP"],
        {"http"},
        set(),
    ),
    (
        "number taken, other name",
        [HTTP],
        [{**HTTP, "name": "web"}],
        ["http:80/TCP"],
        {"http"},
        set(),
    ),
    (
        "same number, other protocol",
        [HTTP],
        [UDP],
        ["dns:80/UDP", "http:80/TCP"],
        {"http"},
        {"dns"},
    ),
    (
        "application is only a hint",
        [{**HTTP, "appProtocol": "http"}],
        [{**HTTP, "appProtocol": "h2c"}],
        ["http:80/TCP"],
        {"http"},
        {"http"},
    ),
    (
        "a name lost does not free its number",
        [HTTP],
        [{**HTTP, "port": 90}, {"name": "web", "port": 90, "protocol": "TCP"}],
        ["http:80/TCP"],
        {"http"},
        set(),
    ),
    (
        "a port without a name stands alone",
        [{"port": 80}],
        [GRPC],
        [":80/TCP"],
        {""},
        set(),
    ),
    (
        "a port without a name joins no others",
        [HTTP],
        [{"port": 90}],
        ["http:80/TCP"],
        {"http"},
        set(),
    ),
    ("nothing declared", [HTTP], [], ["http:80/TCP"], {"http"}, set()),
    (
        "what no Service can have is left out",
        [HTTP, {"name": "x"}, {"name": "Bad_Name", "port": 1}, 7, {**GRPC, "appProtocol": "?"}],
        [HTTP],
        ["http:80/TCP"],
        {"http"},
        {"http"},
    ),
]


@pytest.mark.parametrize(
    ("older", "younger", "union", "of_older", "of_younger"),
    [row[1:] for row in PORTS],
    ids=[row[0] for row in PORTS],
)
def test_ports_are_a_union_by_name_then_by_protocol_and_number_and_the_older_wins(
    older: list[Any], younger: list[Any], union: list[str], of_older: set[str], of_younger: set[str]
) -> None:
    found = merged(mesa=export(1, ports=older), atoll=export(2, ports=younger))
    assert ports(found) == union
    assert found.carried("mesa") == of_older
    assert found.carried("atoll") == of_younger
    assert found.carried("nobody") == set()
    disagree = union != ["http:80/TCP"] or of_older != of_younger or "appProtocol" in str(older)
    if "?" not in str(older):
        assert ("PortConflict" in reasons(found.conflicts)) == disagree


# ---- a cluster's endpoints -----------------------------------------------------------------

A, B = Port("http", 8080), Port("grpc", 9090)


def at(*ports_of: Port, address: str = "10.1.0.1", **state: Any) -> Endpoint:
    return Endpoint(address, tuple(ports_of), **state)


def test_endpoints_go_only_under_ports_that_won_and_their_cluster_declares() -> None:
    found = merged(mesa=export(1), atoll=export(2, ports=[{**HTTP, "port": 81}, GRPC]))
    everything = [at(B, A)]
    assert carried_endpoints(found, "mesa", everything) == [at(A)]
    assert carried_endpoints(found, "atoll", everything) == [at(B)]
    assert carried_endpoints(found, "nobody", everything) == []
    assert carried_endpoints(found, "mesa", [at(B)]) == []


def test_endpoints_that_differed_only_in_a_port_not_carried_become_the_healthiest() -> None:
    found = merged(mesa=export(1))
    sick, well = at(A, ready=False, pod="a"), at(B, A, pod="b")
    for listed in ([sick, well], [well, sick]):
        assert carried_endpoints(found, "mesa", listed) == [at(A, pod="b")]


def test_all_ports_stay_all_ports_only_while_every_declared_port_has_won() -> None:
    whole = Endpoint("10.1.0.1", None)
    found = merged(mesa=export(1), atoll=export(2, ports=[{**HTTP, "port": 81}, GRPC]))
    assert carried_endpoints(found, "mesa", [whole]) == [whole]
    assert carried_endpoints(found, "atoll", [whole]) == []


@pytest.mark.parametrize(
    ("older", "carried"),
    [
        ({"ports": []}, True),
        ({"type": "Headless"}, True),
        ({}, False),
    ],
)
def test_a_cluster_that_declares_no_ports_is_carried_where_none_are_needed(
    older: dict[str, Any], *, carried: bool
) -> None:
    found = merged(mesa=export(1, **older), atoll=export(2, ports=[]))
    endpoints = [at(A), Endpoint("10.1.0.2", None)]
    assert carried_endpoints(found, "atoll", endpoints) == (endpoints if carried else [])


# ---- what others state may be anything -----------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"sessionAffinity": 7, "sessionAffinityConfig": {"clientIP": 5}, "ports": "x"},
        {"internalTrafficPolicy": [], "trafficDistribution": {}, "ipFamilies": "IPv4"},
        {"trafficDistribution": "not a name", "ipFamilies": [["IPv4"], 4, "IPv5"]},
        {"exportedLabels": [], "exportedAnnotations": 7, "ports": {}},
        {"exportedLabels": {"a": 7, "bad key": "x", "tier": "not a label value"}},
        {"exportedLabels": {"multicluster.kubernetes.io/x": "y", 5: "x"}},
        {"exportedAnnotations": {"replicator.dev/x": "y", "half": "\ud800"}},
    ],
)
def test_a_field_that_cannot_be_used_counts_as_absent(fields: dict[str, Any]) -> None:
    plain = read_offer("mesa", export(0, ports=[]))
    assert read_offer("mesa", export(0, **{"ports": [], **fields})) == plain


@pytest.mark.parametrize("seconds", [0, 86401, True, "10", None])
def test_a_timeout_that_cannot_be_used_is_the_default_of_the_api_server(seconds: Any) -> None:
    fields = {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}}
    found = read_offer("mesa", export(0, sessionAffinity="ClientIP", **fields))
    assert found is not None
    assert found.affinity_seconds == 10800
