"""Which addresses a cluster's endpoints may have (property 40)."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from hypothesis import given
from hypothesis import strategies as st

from replicator.networks import AllowLists, Networks

addresses = st.ip_addresses().map(str)
texts = st.builds(
    lambda address, bits: str(
        ip_network((address, min(bits, address.max_prefixlen)), strict=False)
    ),
    st.ip_addresses(),
    st.integers(0, 128),
)


@given(st.lists(texts, max_size=4), addresses)
def test_p40_an_address_is_held_as_the_standard_library_says(these: list[str], one: str) -> None:
    held = any(ip_address(one) in ip_network(text) for text in these)
    assert Networks.of(these).hold(one) is held


@given(texts)
def test_p40_both_ends_of_a_network_are_in_it(text: str) -> None:
    network = ip_network(text)
    for address in (network.network_address, network.broadcast_address):
        assert Networks.of([text]).hold(str(address))


def test_p40_a_cluster_has_its_own_networks_or_those_of_every_other() -> None:
    lists = AllowLists("tundra", {"fjord": ["10.1.0.0/16"], "*": ["10.0.0.0/8", "2001:db8::/32"]})
    fjord, mesa = lists.of("fjord"), lists.of("mesa")
    assert fjord is not None
    assert mesa is not None
    assert not fjord.hold("10.2.0.1")
    assert mesa.hold("10.2.0.1")
    assert mesa.hold("2001:db8::7")
    assert lists.of("tundra") is None


def test_p40_without_a_list_there_are_no_bounds() -> None:
    assert AllowLists().of("fjord") is None
    assert AllowLists("", {"mesa": ["10.0.0.0/8"]}).of("fjord") is None
