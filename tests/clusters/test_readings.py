"""What one object states (kubernetes.md E3, E4, E6, E8, E10, inside of E9)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.manifests import reference
from clusters.model import Manifest, Port, Skipped
from clusters.readings import (
    Reading,
    parse_time,
    read_endpoints,
    read_ports,
    read_slice,
    service_label,
)
from tests.clusters.makers import endpoints_of, entry, json_values, slice_of

NAME = "EndpointSlice/shop/cart-1"
GOOD = entry("10.20.1.4")


def read(*endpoints: Any, **fields: Any) -> Reading:
    manifest = slice_of("cart-1", *endpoints, **fields)
    return read_slice(manifest, reference(manifest), 1)


def reasons(reading: Reading) -> list[tuple[str, str | None]]:
    return [(item.reason, item.address) for item in reading.skipped]


def ports_of(value: object) -> tuple[Any, list[str]]:
    skipped: list[Skipped] = []
    found = read_ports(value, NAME, skipped)
    return found, [item.reason for item in skipped]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (None, (True, True, False)),
        ({}, (True, True, False)),
        ({"ready": None, "serving": None, "terminating": None}, (True, True, False)),
        ({"ready": False}, (False, False, False)),
        ({"ready": False, "serving": True, "terminating": True}, (False, True, True)),
        ({"serving": False}, (True, False, False)),
        ({"terminating": True}, (True, True, True)),
        ({"ready": True, "future": "x"}, (True, True, False)),
    ],
)
def test_e3_absent_conditions_mean_ready(
    conditions: object, expected: tuple[bool, bool, bool]
) -> None:
    (claim,) = read({"addresses": ["10.20.1.4"], "conditions": conditions}).claims
    found = claim.endpoint
    assert (found.ready, found.serving, found.terminating) == expected


def test_e4_null_and_absent_ports_mean_all_ports_and_an_empty_list_none() -> None:
    assert ports_of(None) == (None, [])
    assert ports_of([]) == ((), ["no_ports"])
    without = slice_of("cart-1", GOOD)
    del without["ports"]
    assert read_slice(without, reference(without), 1).claims[0].endpoint.ports is None
    assert read(GOOD, ports=[]).claims == ()
    assert reasons(read(GOOD, ports=[])) == [("no_ports", None)]


def test_e4_port_fields_get_the_defaults_of_kubernetes_and_no_number_stays_none() -> None:
    assert ports_of([{}]) == ((Port("", None, "TCP", None),), [])
    assert ports_of([{"name": None, "port": None, "protocol": None, "appProtocol": None}]) == (
        (Port(),),
        [],
    )
    assert ports_of([{"port": 80, "protocol": "", "appProtocol": ""}]) == ((Port("", 80),), [])
    assert ports_of([{"port": 80, "appProtocol": "kubernetes.io/h2c"}]) == (
        (Port("", 80, "TCP", "kubernetes.io/h2c"),),
        [],
    )


def test_e4_two_protocols_on_one_number_are_two_ports_and_order_does_not_matter() -> None:
    tcp, udp = {"name": "dns", "port": 53}, {"name": "dns-u", "port": 53, "protocol": "UDP"}
    assert ports_of([tcp, udp, tcp]) == ports_of([udp, tcp])
    assert len(ports_of([tcp, udp])[0]) == 2


@pytest.mark.parametrize(
    "port",
    [
        {"port": 0},
        {"port": -1},
        {"port": 65536},
        {"port": "8080"},
        {"port": 8080.0},
        {"port": True},
        {"name": "Not_A_Label"},
        {"name": 7},
        {"name": "a" * 64},
        {"protocol": "tcp"},
        {"protocol": 6},
        {"protocol": []},
        {"appProtocol": 1},
        {"appProtocol": "\ud800"},
        {"appProtocol": "a" * 318},
        "http",
        None,
    ],
)
def test_a_port_that_cannot_be_is_left_out_alone(port: object) -> None:
    assert ports_of([{"name": "http", "port": 80}, port]) == ((Port("http", 80),), ["bad_port"])
    assert ports_of([port]) == ((), ["bad_port"])


@pytest.mark.parametrize("value", ["http", 8080, {}, True, [{"port": 1}] * 101])
def test_ports_that_are_no_list_of_ports_leave_nothing(value: object) -> None:
    assert ports_of(value) == ((), ["bad_ports"])


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("FQDN", "fqdn"),
        ("Unix", "address_type"),
        ("ipv4", "address_type"),
        (None, "address_type"),
        (4, "address_type"),
        ([], "address_type"),
    ],
)
def test_e6_other_address_types_are_skipped_by_name(family: object, reason: str) -> None:
    reading = read(entry("api.partner.example"), family=family)
    assert reading.claims == ()
    assert reasons(reading) == [(reason, None)]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (entry("127.0.0.1"), ("loopback", "127.0.0.1")),
        (entry("2001:db8::1"), ("family_mismatch", "2001:db8::1")),
        ({"addresses": [7]}, ("not_an_address", "7")),
        ({"addresses": ["\ud800"]}, ("not_an_address", "\\ud800")),
        ({"addresses": []}, ("bad_endpoint", None)),
        ({"addresses": "10.20.1.5"}, ("bad_endpoint", "10.20.1.5")),
        ({"addresses": None}, ("bad_endpoint", None)),
        ({"addresses": ["10.20.1.5"] * 101}, ("bad_endpoint", "10.20.1.5")),
        ({}, ("bad_endpoint", None)),
        ("10.20.1.5", ("bad_endpoint", None)),
        (None, ("bad_endpoint", None)),
        ({"addresses": ["10.20.1.5"], "conditions": []}, ("bad_endpoint", "10.20.1.5")),
        ({"addresses": ["10.20.1.5"], "conditions": {"ready": "x"}}, ("bad_endpoint", "10.20.1.5")),
        ({"addresses": ["10.20.1.5"], "hostname": 5}, ("bad_endpoint", "10.20.1.5")),
        ({"addresses": ["10.20.1.5"], "zone": "z" * 254}, ("bad_endpoint", "10.20.1.5")),
        ({"addresses": ["10.20.1.5"], "nodeName": "\udfff"}, ("bad_endpoint", "10.20.1.5")),
        ({"addresses": ["10.20.1.5"], "targetRef": "pod"}, ("bad_endpoint", "10.20.1.5")),
        ({"addresses": ["10.20.1.5"], "targetRef": {"uid": 5}}, ("bad_endpoint", "10.20.1.5")),
    ],
)
def test_one_bad_endpoint_drops_only_itself(bad: object, expected: tuple[str, str | None]) -> None:
    reading = read(bad, GOOD)
    assert [claim.endpoint.address for claim in reading.claims] == ["10.20.1.4"]
    assert reasons(reading) == [expected]
    assert reading.skipped[0].object == NAME


def test_one_bad_address_of_an_endpoint_drops_only_itself() -> None:
    reading = read(entry("10.20.1.4", "169.254.169.254", hostname="db-2"))
    assert [claim.endpoint.hostname for claim in reading.claims] == ["db-2"]
    assert reasons(reading) == [("link_local", "169.254.169.254")]


def test_endpoints_that_are_no_list_are_named_and_none_are_none() -> None:
    assert reasons(read(endpoints="x")) == [("bad_endpoints", None)]
    assert read(endpoints=None) == Reading((), (), None, 1)


def test_the_pod_is_the_target_only_if_it_is_one() -> None:
    pod = read(entry("10.20.1.4", targetRef={"kind": "Pod", "name": "cart-0", "uid": "u"}))
    node = read(entry("10.20.1.4", targetRef={"kind": "Node", "name": "n-1", "uid": "u"}))
    assert (pod.claims[0].endpoint.pod, pod.claims[0].uid) == ("cart-0", "u")
    assert (node.claims[0].endpoint.pod, node.claims[0].uid) == (None, "u")


def test_endpoints_subsets_give_ready_and_not_ready_addresses() -> None:
    ports = [{"name": "db", "port": 5432}]
    manifest = endpoints_of(
        "ledger",
        {
            "addresses": [{"ip": "192.0.2.31", "hostname": "a", "nodeName": "n-1"}],
            "notReadyAddresses": [{"ip": "2001:db8::31"}],
            "ports": ports,
        },
        {"addresses": [{"ip": "127.0.0.1"}, {"ip": 5}, "x", {"ip": "1.2.3.4", "hostname": 1}]},
        {"addresses": {}, "ports": ports},
        {"addresses": [{"ip": "192.0.2.99"}], "ports": []},
        "subset",  # type: ignore[arg-type]
    )
    reading = read_endpoints(manifest, reference(manifest), 1)
    found = [claim.endpoint for claim in reading.claims]
    assert [(item.address, item.ready, item.serving, item.terminating) for item in found] == [
        ("192.0.2.31", True, True, False),
        ("2001:db8::31", False, False, False),
    ]
    assert (found[0].hostname, found[0].node) == ("a", "n-1")
    assert reasons(reading) == [
        ("bad_endpoint", None),
        ("bad_endpoint", "1.2.3.4"),
        ("bad_endpoints", None),
        ("loopback", "127.0.0.1"),
        ("no_ports", None),
        ("not_an_address", "5"),
    ]


def test_truncated_endpoints_are_read_and_reported() -> None:
    manifest = endpoints_of(
        "big",
        {"addresses": [{"ip": "10.20.1.4"}]},
        annotations={"endpoints.kubernetes.io/over-capacity": "truncated"},
    )
    reading = read_endpoints(manifest, reference(manifest), 1)
    assert len(reading.claims) == 1
    assert reasons(reading) == [("truncated", None)]
    broken = endpoints_of("big")
    broken["subsets"] = 5
    assert reasons(read_endpoints(broken, reference(broken), 1)) == [("bad_endpoints", None)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:01.5z", 1_500_000_000),
        ("1970-01-01t01:00:00+01:00", 0),
        ("1969-12-31T23:30:00-00:30", 0),
        ("1970-01-01T00:00:60Z", 60_000_000_000),
        ("1970-01-01T00:00:00.1234567899Z", 123_456_789),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        ("1970-01-01T00:00:00", None),
        ("1970-01-01", None),
        ("2025-02-30T00:00:00Z", None),
        ("2025-01-01T25:00:00Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_trigger_times_are_read_exactly(text: str, expected: int | None) -> None:
    assert parse_time(text) == expected


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)))  # noqa: DTZ001
def test_times_agree_with_the_standard_library(moment: datetime) -> None:
    aware = moment.replace(tzinfo=UTC)
    expected = int(aware.replace(microsecond=0).timestamp()) * 10**9 + aware.microsecond * 1000
    assert parse_time(aware.isoformat()) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"kubernetes.io/service-name": "cart"}, ("cart", "")),
        ({"kubernetes.io/service-name": ""}, (None, "no_service_label")),
        ({"kubernetes.io/service-name": None}, (None, "no_service_label")),
        ({"kubernetes.io/service-name": 5}, (None, "bad_service_label")),
        ({"kubernetes.io/service-name": "Cart!"}, (None, "bad_service_label")),
        ({}, (None, "no_service_label")),
        (None, (None, "no_service_label")),
        ("cart", (None, "no_service_label")),
    ],
)
def test_e11_the_service_label_names_a_service_or_a_reason(
    labels: object, expected: tuple[str | None, str]
) -> None:
    assert service_label({"metadata": {"labels": labels}}) == expected


def test_metadata_that_is_no_mapping_names_no_service() -> None:
    assert service_label({"metadata": 5}) == (None, "no_service_label")


FIELDS = st.sampled_from(["addressType", "ports", "endpoints", "subsets", "x"])
ENTRY = st.dictionaries(
    st.sampled_from(["addresses", "ip", "conditions", "hostname", "zone", "nodeName", "targetRef"]),
    json_values,
    max_size=5,
)


@given(
    st.dictionaries(FIELDS, json_values, max_size=4),
    st.lists(st.one_of(ENTRY, json_values), max_size=4),
    st.dictionaries(st.text(max_size=5), json_values, max_size=2),
)
def test_any_json_in_any_field_is_read_or_skipped_but_never_fails(
    fields: Manifest, entries: list[Any], annotations: Manifest
) -> None:
    manifest = {**slice_of("cart-1", *entries), **fields}
    manifest["metadata"]["annotations"] = annotations
    reading = read_slice(manifest, reference(manifest), 1)
    subsets = [{"addresses": entries, "notReadyAddresses": fields.get("endpoints")}, fields]
    other = endpoints_of("cart", *subsets, annotations=annotations)
    for found in (reading, read_endpoints(other, reference(other), 1)):
        for claim in found.claims:
            for text in (claim.endpoint.hostname, claim.endpoint.zone, claim.endpoint.pod):
                assert (text or "").encode() is not None
        for skipped in found.skipped:
            assert skipped.reason
            assert (skipped.address or "").encode() is not None
