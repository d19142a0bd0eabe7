"""Packed entries: what goes in comes out to the byte, and nothing else comes in."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from struct import pack as struct_pack

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusters.model import Endpoint, Port, ServiceKey
from crdt import Entry, pack
from replicator.errors import ProtocolError
from replicator.packing import (
    DICTIONARY,
    ENTRIES_LIMIT,
    SIZE_LIMIT,
    body_of,
    pack_entries,
    unpack_entries,
)
from replicator.projection import endpoint_element, endpoint_value
from tests.support.protocol import INT63

TO = 1_764_655_200_000_000_000
PORTS = (Port("http", 8080),)

octets = st.sampled_from([0, 1, 9, 10, 99, 100, 199, 200, 249, 250, 255, 256])
texts = st.sampled_from(["cart", "c", "", "10.0.0.1", "é", "x" * 40, "cart-7f9c"]) | st.text()
addresses = st.lists(octets, min_size=4, max_size=4).map(lambda four: ".".join(map(str, four)))
plain = st.none() | st.integers(-(2**63), 2**64 - 1) | texts | st.binary(max_size=9) | addresses
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
endpoint_keys = st.tuples(st.just(1), st.just("fjord"), texts, texts, addresses, values)
keys = st.tuples(st.integers(0, 300), st.just("fjord"), values, values) | endpoint_keys
elements = keys.map(lambda key: pack(list(key))) | st.binary(max_size=40)
stamps = st.integers(1, INT63) | st.sampled_from([1, TO, INT63])
entries = st.tuples(elements, stamps, st.integers(0, 1), values.map(pack) | st.binary(max_size=40))


def endpoint(number: int, service: str = "cart", *, gone: bool = False) -> Entry:
    """An entry about the endpoint of this number."""
    key = ServiceKey("shop", service)
    address = f"10.0.{number >> 8}.{number & 255}"
    found = Endpoint(address, PORTS, zone="zone-a", node="n-1", pod=f"{service}-{number:06x}")
    value = b"\xc0" if gone else endpoint_value(found)
    return endpoint_element("fjord", key, found), TO - 5000 + number, int(gone), value


def deflated(body: bytes, cluster: str = "fjord") -> bytes:
    """A body as it would come."""
    machine = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=DICTIONARY + cluster.encode())
    return b"\x01" + machine.compress(body) + machine.flush()


def refusal(data: bytes) -> str:
    """The code ``data`` is refused with."""
    with pytest.raises(ProtocolError) as caught:
        unpack_entries(data, TO, "fjord")
    return caught.value.code


@pytest.mark.parametrize(
    "found",
    [
        (b"\xa910.0.0.01", 1, 0, b""),
        (b"\xa810.0.0.1", 1, 0, b""),
        (b"\xa910.0.0.256", 1, 0, b""),
        (b"\xaacart\xa710.0.0.1", 1, 0, b"1cart2cart3"),
        (b"\xaacart\xa710.0.0.1", 1, 1, b"cartcart"),
    ],
)
def test_what_only_looks_like_an_address_or_a_name_comes_back_to_the_byte(found: Entry) -> None:
    assert unpack_entries(pack_entries([found], TO, "fjord"), TO, "fjord") == (found,)


@given(st.lists(entries, max_size=8).map(tuple), st.integers(0, INT63))
@example((), 0)
@example(((b"\xa710.0.0.1", 1, 0, b""), (b"\xa810.0.0.1", 1, 1, b"\xc0")), INT63)
@example(((b"\xafcart\xaf255.255.255.255", INT63, 0, b"cartcart"),), 0)
def test_any_entries_come_back_to_the_byte(found: tuple[Entry, ...], to: int) -> None:
    assert unpack_entries(pack_entries(found, to, "fjord"), to, "fjord") == found
    assert unpack_entries(b"\x00" + body_of(found, to), to, "fjord") == found


@given(st.lists(st.integers(0, 4000), max_size=60, unique=True), st.data())
def test_endpoints_come_back_to_the_byte(numbers: list[int], data: st.DataObject) -> None:
    services = st.sampled_from(["cart", "mail", "x"])
    found = tuple(
        endpoint(number, data.draw(services), gone=data.draw(st.booleans())) for number in numbers
    )
    assert unpack_entries(pack_entries(found, TO, "fjord"), TO, "fjord") == found


@given(st.binary(max_size=120), st.sampled_from([b"", b"\x00", b"\x01"]))
def test_any_bytes_are_entries_or_refused(data: bytes, form: bytes) -> None:
    with suppress(ProtocolError):
        unpack_entries(form + data, TO, "fjord")


@given(st.lists(entries, min_size=1, max_size=5), st.data())
def test_a_damaged_body_is_entries_or_refused(found: list[Entry], data: st.DataObject) -> None:
    body = bytearray(body_of(found, TO))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        unpack_entries(b"\x00" + bytes(body), TO, "fjord")
    with suppress(ProtocolError):
        unpack_entries(deflated(bytes(body)), TO, "fjord")


SAMPLE = [endpoint(7), endpoint(8), endpoint(9, gone=True), (pack([99, "fjord"]), TO, 0, b"\x01")]


@pytest.mark.parametrize("make", [deflated, lambda body: b"\x00" + body])
def test_what_is_cut_short_anywhere_or_goes_on_is_refused(make: Callable[[bytes], bytes]) -> None:
    body = body_of(SAMPLE, TO)
    whole = make(body)
    assert unpack_entries(whole, TO, "fjord") == tuple(SAMPLE)
    for length in range(len(whole)):
        assert refusal(whole[:length]) == "bad_frame"
    for length in range(len(body)):
        assert refusal(make(body[:length])) == "bad_frame"
    assert refusal(whole + b"\x00") == "bad_frame"
    assert refusal(make(body + b"\x00")) == "bad_frame"


def test_a_rolling_deploy_costs_a_few_bytes_a_change() -> None:
    changes = [
        one
        for number in range(50)
        for one in (endpoint(number, gone=True), endpoint(1000 + number))
    ]
    assert len(pack_entries(changes, TO, "fjord")) <= 6 * len(changes)
    assert sum(len(element) + len(value) for element, _, _, value in changes) >= 56 * len(changes)


def test_a_lone_entry_is_shorter_than_itself() -> None:
    element, _, _, value = one = endpoint(7)
    assert len(pack_entries([one], TO, "fjord")) < len(element) + len(value)


def test_what_deflate_would_lengthen_is_left_as_it_is() -> None:
    assert pack_entries([], TO, "fjord")[:1] == b"\x01"
    noise = b"".join(blake2b(bytes((number,))).digest() for number in range(9))
    packed = pack_entries([(noise, TO, 0, noise[::-1])], TO, "fjord")
    assert packed[:1] == b"\x00"
    assert packed[1:] == body_of([(noise, TO, 0, noise[::-1])], TO)


# A body by hand: no entries, or one entry of form (flags, begin), with one column changed.
def body(
    *,
    size: int = 1,
    shape_code: bytes = b"\x00",
    jump: bytes = b"\x00",
    flags: bytes = b"\x00",
    lengths: bytes = b"\x01\x02",
) -> bytes:
    """One entry with the two bytes ``el`` as its element and no value."""
    columns = b"\x00" + shape_code + jump + b"\x00"
    shape = lengths + b"\x01\xff" + b"el"
    return b"\x00" + struct_pack(">H", size) + columns + shape + flags + b"\x00\x00"


def test_a_body_by_hand_is_read() -> None:
    assert unpack_entries(body(), TO, "fjord") == ((b"el", TO, 0, b""),)
    assert unpack_entries(body(flags=b"\x01\x01"), TO, "fjord") == ((b"el", TO, 1, b""),)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": ENTRIES_LIMIT + 1},
        {"shape_code": b"\x01\x01"},
        {"shape_code": b"\x01\xff"},
        {"jump": b"\x01\xff"},
        {"jump": b"\x08\x00\x00\x00\x01\x00\x00\x00\x00"},
        {"jump": b"\x03\x00\x00\x00"},
        {"flags": b"\x01\x04"},
        {"flags": b"\x01\xff"},
        {"lengths": b"\x01\xfe"},
        {"lengths": b"\x01\x7f"},
    ],
)
def test_a_body_that_says_what_cannot_be_is_refused(wrong: dict[str, bytes]) -> None:
    assert refusal(body(**wrong)) == "bad_frame"  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [b"\x02", b"\xff"])
def test_a_place_that_nothing_is_at_is_refused(code: bytes) -> None:
    twice = ((b"el", TO, 0, b""),) * 2
    told = b"\x00" + body_of(twice, TO)
    assert unpack_entries(told, TO, "fjord") == twice
    assert refusal(told.replace(b"\x01\x00\x01", b"\x01\x00" + code, 1)) == "bad_frame"


def test_more_entries_than_a_chunk_may_hold_are_refused() -> None:
    most = [endpoint(number) for number in range(ENTRIES_LIMIT)]
    assert len(unpack_entries(pack_entries(most, TO, "fjord"), TO, "fjord")) == ENTRIES_LIMIT
    assert refusal(pack_entries([*most, endpoint(7)], TO, "fjord")) == "bad_frame"


def test_another_form_is_refused() -> None:
    assert refusal(b"") == "bad_frame"
    assert refusal(b"\x02" + body()[1:]) == "bad_frame"
    assert refusal(b"\x01\xff\xff") == "bad_frame"


def test_another_cluster_knows_another_dictionary() -> None:
    packed = pack_entries(SAMPLE, TO, "fjord")
    found: tuple[Entry, ...] | None = None
    with suppress(ProtocolError):
        found = unpack_entries(packed, TO, "mesa")
    assert found != tuple(SAMPLE)


def test_a_bomb_is_not_inflated() -> None:
    bomb = deflated(bytes(64 << 20))
    assert len(bomb) < 1 << 17
    assert refusal(bomb) == "too_large"
    assert refusal(deflated(bytes(SIZE_LIMIT + 1))) == "too_large"
    assert refusal(deflated(bytes(SIZE_LIMIT))) == "bad_frame"


def test_few_bytes_cannot_stand_for_many_entries_of_many() -> None:
    large = b"x" * 60_000
    one = [(large, TO, 0, b"")]
    assert unpack_entries(pack_entries(one * 17, TO, "fjord"), TO, "fjord") == tuple(one * 17)
    assert refusal(pack_entries(one * 18, TO, "fjord")) == "too_large"
    assert len(pack_entries(one * ENTRIES_LIMIT, TO, "fjord")) < 2000
    assert refusal(pack_entries(one * ENTRIES_LIMIT, TO, "fjord")) == "too_large"
