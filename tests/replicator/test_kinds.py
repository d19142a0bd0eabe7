"""What a peer may state: the shapes of elements and values."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from itertools import repeat
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdt import OriginSet, Version, pack
from crdt.entries import ADD, NIL, REMOVE
from replicator.codec import LIST_LIMIT
from replicator.errors import ProtocolError
from replicator.kinds import (
    CLUSTER,
    ENDPOINT,
    EXPORT,
    KINDS,
    MAX_ENTRY_BYTES,
    MEMBER,
    MOST_MEMBER_NUMBER,
    POLICY,
    check_entry,
    says_the_same,
    unpack,
)
from tests.crdt.strategies import MAX_U64

BUDGET_SECONDS = 0.5
"""Several times what it takes while lines are traced."""
PORT = ["http", 8080, "TCP", None]
ENDPOINT_KEY = [ENDPOINT, "fjord", "shop", "cart", "10.20.1.4", [PORT]]
ENDPOINT_VALUE = [3, None, "zone-1", "worker", "pod-1"]
EXPORT_KEY = [EXPORT, "fjord", "shop", "cart"]
EXPORT_VALUE = ["2025-12-02T06:00:00Z", {"ports": [{"port": 80}], "type": "ClusterSetIP"}]
CLUSTER_VALUE = ["eu-north", "uid", "0.1.0", 1, 1]
MEMBER_KEY = [MEMBER, "fjord", "mesa"]
MEMBER_VALUE = ["forget", 1, 3, "tundra"]
GOOD = [
    (ENDPOINT_KEY, ENDPOINT_VALUE),
    ([*ENDPOINT_KEY[:5], None], ENDPOINT_VALUE),
    ([*ENDPOINT_KEY[:5], [["", None, "SCTP", "http2"], PORT]], ENDPOINT_VALUE),
    (EXPORT_KEY, EXPORT_VALUE),
    (EXPORT_KEY, [None, {}]),
    ([CLUSTER, "fjord"], CLUSTER_VALUE),
    (MEMBER_KEY, MEMBER_VALUE),
    (MEMBER_KEY, ["admit", MOST_MEMBER_NUMBER, MOST_MEMBER_NUMBER, "fjord"]),
]

scalars = st.none() | st.booleans() | st.integers(-(2**63), MAX_U64) | st.text() | st.binary()
plain = st.recursive(
    scalars | st.floats(), lambda inner: st.lists(inner, max_size=20), max_leaves=40
)
keyed = st.recursive(
    scalars | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(scalars, inner, max_size=4),
    max_leaves=12,
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def refusal(element: object, value: object = None, op: int = ADD, cluster: str = "fjord") -> str:
    """The code an entry is refused with; values that are no bytes are packed first."""
    raw = [part if isinstance(part, bytes) else pack(part) for part in (element, value)]
    with pytest.raises(ProtocolError) as caught:
        check_entry(cluster, raw[0], op, raw[1])
    return caught.value.code


@pytest.mark.parametrize(("key", "value"), GOOD)
def test_what_we_state_ourselves_is_taken(key: list[Any], value: list[Any]) -> None:
    check_entry("fjord", pack(key), ADD, pack(value))
    check_entry("fjord", pack(key), REMOVE, NIL)


@pytest.mark.parametrize(("key", "value"), GOOD)
def test_fields_appended_to_a_value_are_taken_and_kept(key: list[Any], value: list[Any]) -> None:
    raw = pack([*value, "new", {"b": 1, "a": [None]}])
    check_entry("fjord", pack(key), ADD, raw)
    elements = OriginSet()
    elements.advance([(pack(key), 5, ADD, raw)], version=Version(1, 5), floor=0)
    assert elements.since(0, 1 << 20).entries == [(pack(key), 5, ADD, raw)]


@pytest.mark.parametrize("kind", [0, 4, 6, 99, 127, 128, 70_000, -1])
@given(key=st.lists(anything, max_size=3), value=anything)
def test_kinds_of_a_newer_version_are_taken_as_they_are(
    kind: int, key: list[Any], value: object
) -> None:
    check_entry("fjord", pack([kind, "fjord", *key]), ADD, pack(value))
    check_entry("fjord", pack([kind, "fjord", *key]), REMOVE, NIL)
    assert kind not in KINDS or kind == POLICY, "of policies, too, any may come"


@pytest.mark.parametrize("owner", ["mesa", "", None, 7, b"fjord", ["fjord"], "Fjord"])
def test_c57_a_key_of_another_cluster_is_refused(owner: object) -> None:
    for key, value in GOOD:
        foreign = [key[0], owner, *key[2:]]
        assert refusal(foreign, value) == "not_owner"
        assert refusal(foreign, None, REMOVE) == "not_owner"
    assert refusal([99, owner], None) == "not_owner"


@pytest.mark.parametrize("element", [[], [1], ["1", "fjord"], [True, "fjord"], {}, 1, "x", None])
def test_an_element_is_a_list_of_kind_cluster_and_key(element: object) -> None:
    assert refusal(element) == "bad_entry"


LONG = "x" * 1025
BAD_KEYS: list[list[Any]] = [
    [*ENDPOINT_KEY, 1],
    ENDPOINT_KEY[:5],
    [ENDPOINT, "fjord", 1, "cart", "10.20.1.4", None],
    [ENDPOINT, "fjord", "n" * 64, "cart", "10.20.1.4", None],
    [ENDPOINT, "fjord", "shop", "s" * 254, "10.20.1.4", None],
    [ENDPOINT, "fjord", "shop", "cart", "a" * 65, None],
    [ENDPOINT, "fjord", "shop", "cart", None, None],
    [*ENDPOINT_KEY[:5], []],
    [*ENDPOINT_KEY[:5], "8080"],
    [*ENDPOINT_KEY[:5], [PORT] * 101],
    [*ENDPOINT_KEY[:5], [PORT[:3]]],
    [*ENDPOINT_KEY[:5], [[LONG, 1, "TCP", None]]],
    [*ENDPOINT_KEY[:5], [["", -1, "TCP", None]]],
    [*ENDPOINT_KEY[:5], [["", 65_536, "TCP", None]]],
    [*ENDPOINT_KEY[:5], [["", 80.0, "TCP", None]]],
    [*ENDPOINT_KEY[:5], [["", True, "TCP", None]]],
    [*ENDPOINT_KEY[:5], [["", 80, None, None]]],
    [*ENDPOINT_KEY[:5], [["", 80, "TCP", 1]]],
    EXPORT_KEY[:3],
    [EXPORT, "fjord", "shop", 1],
    [CLUSTER, "fjord", "more"],
    MEMBER_KEY[:2],
    [*MEMBER_KEY, "more"],
    [MEMBER, "fjord", "Not a label"],
    [MEMBER, "fjord", "m" * 64],
    [MEMBER, "fjord", 5],
]


@pytest.mark.parametrize("key", BAD_KEYS, ids=str)
def test_a_key_that_does_not_follow_its_kind_is_refused(key: list[Any]) -> None:
    good = {ENDPOINT: ENDPOINT_VALUE, EXPORT: EXPORT_VALUE, CLUSTER: CLUSTER_VALUE}
    value = (good | {MEMBER: MEMBER_VALUE})[key[0]]
    assert refusal(key, value) == "bad_entry"
    assert refusal(key, None, REMOVE) == "bad_entry"


BAD_VALUES: list[tuple[list[Any], object]] = [
    (ENDPOINT_KEY, None),
    (ENDPOINT_KEY, ENDPOINT_VALUE[:4]),
    (ENDPOINT_KEY, [-1, None, None, None, None]),
    (ENDPOINT_KEY, [2**63, None, None, None, None]),
    (ENDPOINT_KEY, [1.0, None, None, None, None]),
    (ENDPOINT_KEY, [1, 2, None, None, None]),
    (ENDPOINT_KEY, [1, None, None, None, LONG]),
    (EXPORT_KEY, ["t"]),
    (EXPORT_KEY, [1, {}]),
    (EXPORT_KEY, [None, []]),
    (EXPORT_KEY, [None, {1: 2}]),
    ([CLUSTER, "fjord"], ["r", "u", "s", -1, 1]),
    ([CLUSTER, "fjord"], ["r", "u", None, 1, 1]),
    ([CLUSTER, "fjord"], ["r", "u", "s", 1, "1"]),
    (MEMBER_KEY, MEMBER_VALUE[:3]),
    (MEMBER_KEY, ["banish", 1, 1, "tundra"]),
    (MEMBER_KEY, [["forget"], 1, 1, "tundra"]),
    (MEMBER_KEY, ["forget", -1, 1, "tundra"]),
    (MEMBER_KEY, ["forget", MOST_MEMBER_NUMBER + 1, 1, "tundra"]),
    (MEMBER_KEY, ["forget", 1, MOST_MEMBER_NUMBER + 1, "tundra"]),
    (MEMBER_KEY, ["forget", 1, True, "tundra"]),
    (MEMBER_KEY, ["forget", 1, 1, ""]),
    (MEMBER_KEY, ["forget", 1, 1, None]),
]


@pytest.mark.parametrize(("key", "value"), BAD_VALUES, ids=str)
def test_a_value_that_does_not_follow_its_kind_is_refused(key: list[Any], value: object) -> None:
    assert refusal(key, value) == "bad_entry"


def test_a_remove_says_nothing_more() -> None:
    assert refusal(ENDPOINT_KEY, ENDPOINT_VALUE, REMOVE) == "bad_entry"
    assert refusal([99, "fjord"], [], REMOVE) == "bad_entry"


def test_an_entry_is_limited_in_size() -> None:
    key = pack([99, "fjord"])
    room = MAX_ENTRY_BYTES - len(key) - 3
    check_entry("fjord", key, ADD, pack("x" * room))
    assert refusal(key, "x" * (room + 1)) == "too_large"


NOT_CANONICAL = {
    "an integer in two bytes": b"\x93\xcc\x01\xa5fjord\xc0",
    "a list in three bytes": b"\xdc\x00\x02\x63\xa5fjord",
    "a text in two bytes": b"\x92\x63\xd9\x05fjord",
    "a float of four bytes": b"\x93\x63\xa5fjord\xca\x3f\x80\x00\x00",
    "a map out of order": b"\x93\x63\xa5fjord\x82\x02\xc0\x01\xc0",
    "a number that is no number as a key twice": (
        b"\x93\x63\xa5fjord\x82" + (b"\xcb\x7f\xf8" + bytes(6) + b"\xc0") * 2
    ),
    "a map key twice": b"\x93\x63\xa5fjord\x82\x01\xc0\x01\xc0",
    "bytes in a longer form": b"\x93\x63\xa5fjord\xc5\x00\x01x",
    "trailing bytes": b"\x92\x63\xa5fjord\xc0",
    "nothing": b"",
    "cut short": b"\x92\x63\xa5fjo",
    "not MessagePack": b"\xc1",
    "text that is not UTF-8": b"\x93\x63\xa5fjord\xa1\xff",
}


@pytest.mark.parametrize("name", NOT_CANONICAL)
def test_a_form_that_is_not_canonical_is_refused(name: str) -> None:
    assert refusal(NOT_CANONICAL[name]) == "bad_entry"
    assert refusal([99, "fjord"], NOT_CANONICAL[name]) == "bad_entry"


@pytest.mark.parametrize("raw", [b"\xd4\x2ax", b"\xd6\xff\x00\x00\x00\x01", b"\xc7\x00\x2a"])
def test_c65_no_extension_type_is_stored_not_even_in_a_kind_we_do_not_know(raw: bytes) -> None:
    assert refusal([99, "fjord"], raw) == "ext_not_allowed"
    assert refusal([99, "fjord"], b"\x91" + raw) == "ext_not_allowed"
    assert refusal(b"\x93\x63\xa5fjord" + raw) == "ext_not_allowed"
    appended = pack(ENDPOINT_VALUE)[1:] + raw
    assert refusal(ENDPOINT_KEY, b"\x96" + appended) == "ext_not_allowed"


def nested(depth: int, *, maps: bool = False) -> bytes:
    """Lists (or maps) within each other."""
    return (b"\x81\xa1k" if maps else b"\x91") * (depth - 1) + b"\x90"


@pytest.mark.parametrize("maps", [False, True])
def test_nesting_is_limited_to_sixteen(*, maps: bool) -> None:
    key = [99, "fjord"]
    check_entry("fjord", pack(key), ADD, nested(16, maps=maps))
    for depth in (17, 33, 400, 600, 1000, 1023, 1024, 20_000):
        assert refusal(key, nested(depth, maps=maps)) == "bad_entry"
        assert refusal(b"\x93\x63\xa5fjord" + nested(depth, maps=maps)) == "bad_entry"


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 1))
def test_any_bytes_are_an_entry_or_refused(element: bytes, value: bytes, op: int) -> None:
    with pytest.raises(ProtocolError):
        check_entry("not a cluster", element, op, value)
    with pytest.raises(ProtocolError):
        check_entry("fjord", pack(ENDPOINT_KEY), ADD, value + b"\xc1")


@given(st.sampled_from(GOOD), st.data())
def test_a_damaged_entry_is_an_entry_in_canonical_form_or_refused(
    entry: tuple[list[Any], list[Any]], data: st.DataObject
) -> None:
    parts = [bytearray(pack(part)) for part in entry]
    for _ in range(data.draw(st.integers(1, 3))):
        part = data.draw(st.sampled_from(parts))
        part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    element, value = map(bytes, parts)
    with suppress(ProtocolError):
        check_entry("fjord", element, ADD, value)
        assert pack(unpack(element)) == element
        assert pack(unpack(value)) == value
        assert unpack(element)[1] == "fjord"


@pytest.mark.parametrize(("key", "value"), GOOD)
def test_an_entry_cut_short_anywhere_is_refused(key: list[Any], value: list[Any]) -> None:
    element, content = pack(key), pack(value)
    for length in range(len(element)):
        assert refusal(element[:length], content) == "bad_entry"
    for length in range(len(content)):
        assert refusal(element, content[:length]) == "bad_entry"


def full(item: bytes) -> bytes:
    """Lists with as many of ``item`` as an entry can hold."""
    count = (MAX_ENTRY_BYTES - 200) // 32 // len(item)
    return b"\xdc\x00\x20" + (b"\xdc" + count.to_bytes(2, "big") + item * count) * 32


COSTLY = {
    "empty lists": (full(b"\x90"), None),
    "empty maps": (full(b"\x80"), None),
    "small maps": (full(b"\x82\x01\xc0\x02\xc0"), None),
    "lists of many within each other": (b"\xdc\x07\xff" * 1000 + b"\xc0" * 60_000, "bad_entry"),
    "lists of more within each other": (b"\xdc\xff\x00" * 1000 + b"\xc0" * 60_000, "bad_entry"),
    "maps of many within each other": (b"\xde\x07\xff\x01" * 1000 + bytes(60_000), "bad_entry"),
}


@pytest.mark.parametrize("name", COSTLY)
def test_no_entry_costs_more_than_its_bytes(name: str) -> None:
    value, code = COSTLY[name]
    spent = []
    for _ in repeat(None, 3):
        began = time.process_time()
        if code is None:
            check_entry("fjord", pack([99, "fjord"]), ADD, value)
        else:
            assert refusal([99, "fjord"], value) == code
        spent.append(time.process_time() - began)
    assert min(spent) < BUDGET_SECONDS


def test_a_list_is_limited_in_length() -> None:
    for most in ([0] * LIST_LIMIT, dict.fromkeys(range(LIST_LIMIT))):
        check_entry("fjord", pack([99, "fjord"]), ADD, pack(most))
    for more in ([0] * (LIST_LIMIT + 1), dict.fromkeys(range(LIST_LIMIT + 1))):
        assert refusal([99, "fjord"], more) == "bad_entry"


@given(keyed)
def test_what_is_taken_is_canonical_and_what_is_canonical_is_taken(value: object) -> None:
    """The library's form differs from ours only in the order of map keys."""
    theirs, ours = msgpack.packb(value), pack(value)
    check_entry("fjord", pack([99, "fjord"]), ADD, ours)
    if theirs != ours:
        assert refusal([99, "fjord"], theirs) == "bad_entry"


@given(st.dictionaries(scalars, st.integers(0, 9), min_size=2, max_size=5), st.randoms())
def test_a_map_has_one_order(value: dict[object, int], dice: random.Random) -> None:
    items = list(value.items())
    dice.shuffle(items)
    raw = bytes((0x80 | len(items),)) + b"".join(pack(key) + pack(item) for key, item in items)
    if raw == pack(value):
        check_entry("fjord", pack([99, "fjord"]), ADD, raw)
    else:
        assert refusal([99, "fjord"], raw) == "bad_entry"


@given(plain)
def test_the_library_packs_lists_and_scalars_as_we_do(value: object) -> None:
    assert msgpack.packb(value) == pack(value)


@given(anything)
def test_checked_bytes_read_back(value: object) -> None:
    assert unpack(pack(value)) == value


@pytest.mark.parametrize(
    ("held", "stated", "same"),
    [
        ([1, None], [1, None], True),
        ([1, None, "more"], [1, None], True),
        ([1, None], [1, None, "more"], False),
        ([2, None, "more"], [1, None], False),
        ([1] * 20, [1], False),
        ("text", [1], False),
        ([1], "text", False),
        ("longer text", "text", False),
    ],
)
def test_what_a_newer_version_appended_to_a_value_is_no_change(
    held: object, stated: object, *, same: bool
) -> None:
    assert says_the_same(pack(held), pack(stated)) is same


def test_a_value_that_is_not_there_says_nothing() -> None:
    assert not says_the_same(b"", pack([1]))
