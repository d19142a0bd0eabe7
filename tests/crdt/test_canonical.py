"""Canonical bytes against the MessagePack library and its specification."""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crdt import CanonicalError, pack
from crdt.canonical import pack_int
from tests.crdt.strategies import MAX_U64, integers, keys, scalars, values


def ordered(value: object) -> object:
    """The same value with every map in the order of its packed keys."""
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: bytes(msgpack.packb(pair[0])))
        return {key: ordered(item) for key, item in pairs}
    if isinstance(value, list):
        return [ordered(item) for item in value]
    return value


@given(values)
def test_bytes_are_those_of_the_library_with_sorted_maps(value: object) -> None:
    assert pack(value) == msgpack.packb(ordered(value))


@given(values)
def test_a_value_reads_back(value: object) -> None:
    assert msgpack.unpackb(pack(value), strict_map_key=False) == value


@given(integers)
def test_an_integer_takes_its_shortest_form(value: int) -> None:
    assert pack(value) == pack_int(value) == msgpack.packb(value)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_a_length_takes_its_shortest_form(length: int) -> None:
    assert pack("x" * length) == msgpack.packb("x" * length)
    assert pack(b"x" * length) == msgpack.packb(b"x" * length)
    assert pack([None] * length) == msgpack.packb([None] * length)
    numbered = {f"{number:06d}": None for number in range(length)}
    assert pack(numbered) == msgpack.packb(numbered)


def test_a_length_counts_bytes_not_characters() -> None:
    assert pack("\u00e4" * 16) == msgpack.packb("\u00e4" * 16)


@given(st.dictionaries(keys, scalars, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_a_map_does_not_matter(value: dict[Any, object], dice: Any) -> None:
    pairs = list(value.items())
    dice.shuffle(pairs)
    shuffled = dict(pairs)
    assert pack(shuffled) == pack(value)
    assert pack(MappingProxyType(shuffled)) == pack(OrderedDict(pairs)) == pack(value)


def test_a_tuple_is_a_list() -> None:
    assert pack((1, ("a",))) == pack([1, ["a"]])


anything = st.recursive(
    scalars
    | st.integers()
    | st.complex_numbers()
    | st.dates()
    | st.text(st.characters(categories=["Cs"]), min_size=1)
    | st.just(object())
    | st.binary().map(bytearray)
    | st.sets(st.integers()),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers() | st.text() | st.floats(), inner),
    max_leaves=10,
)


@given(anything)
@example([[[10**5000]]])
def test_nothing_but_the_typed_error_is_raised(value: object) -> None:
    try:
        packed = pack(value)
    except CanonicalError as error:
        assert error.code == "not_canonical"  # noqa: PT017 - both outcomes are right
    else:
        assert packed


@pytest.mark.parametrize(
    "value",
    [MAX_U64 + 1, -(2**63) - 1, 10**5000, -(10**5000)],
    ids=["2^64", "low", "vast", "-vast"],
)
def test_an_integer_beyond_64_bits_is_refused(value: int) -> None:
    with pytest.raises(CanonicalError):
        pack(value)


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, bytearray(b"x"), {1, 2}, 1j, object()])
def test_a_value_without_a_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(CanonicalError):
        pack(value)


def nested(depth: int) -> object:
    """A list in a list ..., ``depth`` of them."""
    value: object = []
    for turn in range(depth - 1):
        value = {"k": value} if turn % 2 else [value]
    return value


def test_32_levels_are_taken_and_33_refused() -> None:
    assert pack(nested(32)) == msgpack.packb(nested(32))
    with pytest.raises(CanonicalError):
        pack(nested(33))


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(CanonicalError):
        pack(endless)


def test_a_length_beyond_32_bits_is_refused() -> None:
    class Vast(list[object]):
        """A list that only claims to be long."""

        def __len__(self) -> int:
            return 2**32

    with pytest.raises(CanonicalError):
        pack(Vast())
