"""The model of a cluster as elements, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.model import Endpoint, ExportedService, LocalService, Port, ServiceKey
from crdt import pack
from crdt.entries import ADD
from replicator.kinds import CLUSTER, ENDPOINT, EXPORT, check_entry
from replicator.projection import (
    ClusterInfo,
    Projector,
    cluster_element,
    cluster_info,
    endpoint_element,
    endpoint_of,
    endpoint_value,
    export_entry,
    export_of,
    kind_of,
    may_be_visible,
    service_of,
)

CART = ServiceKey("shop", "cart")
texts = st.text(max_size=20)
ports = st.builds(
    Port,
    texts,
    st.none() | st.integers(0, 65_535),
    st.sampled_from(["TCP", "UDP"]),
    st.none() | texts,
)
endpoints = st.builds(
    Endpoint,
    address=st.sampled_from(["10.20.1.4", "2001:db8::1"]),
    ports=st.none() | st.lists(ports, min_size=1, max_size=3).map(tuple),
    ready=st.booleans(),
    serving=st.booleans(),
    terminating=st.booleans(),
    hostname=st.none() | texts,
    zone=st.none() | texts,
    node=st.none() | texts,
    pod=st.none() | texts,
)
properties = st.dictionaries(
    texts, st.none() | st.booleans() | texts | st.lists(st.dictionaries(texts, texts)), max_size=4
)
exports = st.builds(
    ExportedService, st.none() | texts, properties.map(lambda found: tuple(sorted(found.items())))
)


@given(endpoints)
def test_an_endpoint_reads_back_and_passes_the_check(endpoint: Endpoint) -> None:
    element, value = endpoint_element("fjord", CART, endpoint), endpoint_value(endpoint)
    check_entry("fjord", element, ADD, value)
    assert endpoint_of(element, value) == endpoint
    assert (kind_of(element), service_of(element)) == (ENDPOINT, CART)


@given(exports)
def test_an_export_reads_back_and_passes_the_check(export: ExportedService) -> None:
    element, value = export_entry("fjord", CART, export)
    check_entry("fjord", element, ADD, value)
    assert export_of(value) == export
    assert (kind_of(element), service_of(element)) == (EXPORT, CART)


@given(texts, texts, texts, st.integers(0, 9), st.integers(0, 9))
def test_a_clusters_description_reads_back_and_passes_the_check(
    region: str, uid: str, software: str, shards: int, layout: int
) -> None:
    info = ClusterInfo(region, uid, software, shards, layout)
    element, value = cluster_element("fjord", info)
    check_entry("fjord", element, ADD, value)
    assert cluster_info(value) == info
    assert (kind_of(element), service_of(element)) == (CLUSTER, None)


def test_elements_are_in_canonical_form() -> None:
    endpoint = Endpoint("10.20.1.4", (Port("http", 8080),), zone="z")
    element = endpoint_element("fjord", CART, endpoint)
    port = ["http", 8080, "TCP", None]
    assert element == pack([ENDPOINT, "fjord", "shop", "cart", "10.20.1.4", [port]])
    assert endpoint_value(endpoint) == pack([3, None, "z", None, None])


def test_fields_appended_by_a_newer_version_are_ignored_when_read() -> None:
    endpoint = Endpoint("10.20.1.4", (Port("http", 8080),))
    longer = pack([3, None, None, None, None, "new"])
    ports_field = [["http", 8080, "TCP", None, "new"]]
    element = pack([ENDPOINT, "fjord", "shop", "cart", "10.20.1.4", ports_field])
    assert endpoint_of(element, longer) == endpoint
    assert export_of(pack([None, {}, "new"])) == ExportedService()
    assert cluster_info(pack(["r", "u", "s", 2, 3, "new"])) == ClusterInfo("r", "u", "s", 2, 3)


def test_a_service_that_is_not_exported_states_nothing() -> None:
    projector = Projector("fjord")
    endpoint = Endpoint("10.20.1.4", None)
    exported = LocalService(CART, (endpoint,), ExportedService())
    assert len(projector.elements_of(exported)) == 2
    assert projector.elements_of(LocalService(CART, (endpoint,))) == {}
    assert projector.elements_of(LocalService(CART, (endpoint,))) == {}


@given(
    st.lists(st.lists(endpoints, max_size=4, unique_by=lambda e: e.identity), max_size=4), exports
)
def test_what_is_encoded_once_and_kept_is_what_would_be_encoded_now(
    states: list[list[Endpoint]], export: ExportedService
) -> None:
    projector = Projector("fjord")
    for state in states:
        service = LocalService(CART, tuple(state), export)
        expected = {endpoint_element("fjord", CART, e): endpoint_value(e) for e in state}
        expected |= [export_entry("fjord", CART, export)]
        assert projector.elements_of(service) == expected
        assert projector.elements_of(service) == expected


def test_known_endpoints_and_new_ones_are_stated_together() -> None:
    projector = Projector("fjord")
    known, gone, new = (Endpoint(f"10.20.1.{n}", None) for n in (4, 5, 6))
    projector.elements_of(LocalService(CART, (known, gone), ExportedService()))
    stated = projector.elements_of(LocalService(CART, (new, known), ExportedService()))
    assert {endpoint_element("fjord", CART, e) for e in (known, new)} < stated.keys()
    assert len(stated) == 3


@pytest.mark.parametrize(
    ("address", "visible"),
    [
        ("10.20.1.4", True),
        ("2001:db8::1", True),
        ("127.0.0.1", False),
        ("169.254.1.1", False),
        ("fe80::1", False),
        ("2001:DB8::1", False),
        ("010.20.1.4", False),
        ("not an address", False),
        ("", False),
        ("::ffff:10.20.1.4", False),
    ],
)
def test_only_canonical_addresses_that_can_be_reached_are_visible(
    address: str, *, visible: bool
) -> None:
    assert may_be_visible(address) is visible
