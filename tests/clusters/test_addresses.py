"""One address, one text; and what must not travel (kubernetes.md E8, case C29)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.addresses import canonical, numeric_key
from clusters.errors import AddressError
from tests.clusters.makers import load_case

ROWS: list[dict[str, Any]] = load_case("addresses")["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['family']} {row['text']!r}"[:60])
def test_c29_every_spelling_has_one_text_or_one_reason(row: dict[str, Any]) -> None:
    if "canonical" in row:
        assert canonical(row["text"], row["family"]) == row["canonical"]
        return
    with pytest.raises(AddressError) as caught:
        canonical(row["text"], row["family"])
    assert caught.value.reason == row["refused"]


@pytest.mark.parametrize("value", [None, 7, 10.2, b"10.20.1.4", ["10.20.1.4"], {}, True])
def test_what_is_no_text_is_no_address(value: object) -> None:
    with pytest.raises(AddressError, match="not_an_address"):
        canonical(value, "IPv4")


def test_an_address_of_an_unknown_family_is_refused_as_such() -> None:
    with pytest.raises(AddressError, match="address_type"):
        canonical("10.20.1.4", "FQDN")


def test_endless_digits_are_refused_like_any_other_nonsense() -> None:
    for text in ("1" * 9000 + ".1.1.1", "0" * 9000 + "1.1.1.1", "1:" * 9000):
        for family in ("IPv4", "IPv6"):
            with pytest.raises(AddressError) as caught:
                canonical(text, family)
            assert len(str(caught.value)) < 200


@given(st.ip_addresses())
def test_a_canonical_text_is_its_own_canonical_text(address: IPv4Address | IPv6Address) -> None:
    family = f"IPv{address.version}"
    try:
        text = canonical(str(address), family)
    except AddressError:
        return
    assert canonical(text, family) == text == str(address)


@given(st.ip_addresses(v=6), st.data())
def test_all_spellings_of_an_ipv6_address_agree(address: IPv6Address, data: st.DataObject) -> None:
    spelling = data.draw(
        st.sampled_from([address.exploded, address.exploded.upper(), address.compressed.upper()])
    )
    assert _answer(spelling, "IPv6") == _answer(str(address), "IPv6")


@given(st.text(alphabet="0123456789abcdef:.%/ xX٤", max_size=40), st.sampled_from(["IPv4", "IPv6"]))
def test_any_text_gives_an_address_or_a_reason(text: str, family: str) -> None:
    assert _answer(text, family)


def _answer(text: str, family: str) -> tuple[str, str]:
    try:
        return "address", canonical(text, family)
    except AddressError as error:
        return "refused", error.reason


def test_addresses_sort_by_family_and_number() -> None:
    texts = ["2001:db8::10", "10.20.1.10", "2001:db8::9", "9.9.9.9", "10.20.1.9"]
    assert sorted(texts, key=numeric_key) == [
        "9.9.9.9",
        "10.20.1.9",
        "10.20.1.10",
        "2001:db8::9",
        "2001:db8::10",
    ]
