"""Buckets: a written list stands for one set, and tells exactly where two sets differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdt.buckets import (
    DEPTH_LIMIT,
    NODE_SIZE,
    ROOT_INDEX,
    Cover,
    depth_for,
    differing,
    is_index,
    level_of,
    nodes_limit,
    read_nodes,
)
from crdt.digest import LEAF_RECORDS, MerkleDigest, entry_digest, key_hash

depths = st.integers(0, DEPTH_LIMIT)
values = st.integers(0, 3).map(lambda number: b"%d" % number)
sets = st.dictionaries(st.integers(0, 400).map(lambda n: b"e%d" % n), values, max_size=12) | (
    st.builds(
        lambda size, step: {b"e%d" % (n * step): b"0" for n in range(size)},
        st.integers(60, 300),
        st.integers(1, 3),
    )
)


def digest_of(entries: dict[bytes, bytes]) -> MerkleDigest:
    """The digest of a set of elements with values."""
    return MerkleDigest(key_hash(name) + entry_digest(value) for name, value in entries.items())


@given(sets, depths)
def test_a_list_hashes_up_to_the_root_and_covers_every_element_once(
    entries: dict[bytes, bytes], depth: int
) -> None:
    digest = digest_of(entries)
    root, nodes = read_nodes(digest.nodes(depth), depth)
    assert root == digest.root()
    assert len(digest.nodes(depth)) <= nodes_limit(depth)
    assert all(is_index(index) and level_of(index) <= depth for index in nodes)
    for name in entries:
        assert sum(name in Cover([index]) for index in nodes) == 1


@given(sets, sets, depths)
def test_replacing_what_lies_in_the_differing_buckets_makes_one_set_the_other(
    mine: dict[bytes, bytes], theirs: dict[bytes, bytes], depth: int
) -> None:
    _, my_nodes = read_nodes(digest_of(mine).nodes(depth), depth)
    _, their_nodes = read_nodes(digest_of(theirs).nodes(depth), depth)
    cover = Cover(differing(their_nodes, my_nodes))
    kept = {name: value for name, value in mine.items() if name not in cover}
    fetched = {name: value for name, value in theirs.items() if name in cover}
    assert kept.keys().isdisjoint(fetched)
    assert kept | fetched == theirs


@given(sets, depths)
def test_equal_sets_differ_nowhere(entries: dict[bytes, bytes], depth: int) -> None:
    _, nodes = read_nodes(digest_of(entries).nodes(depth), depth)
    assert differing(nodes, nodes) == ()


@given(sets, depths, st.data())
def test_a_list_with_one_changed_bit_is_refused_or_has_another_root(
    entries: dict[bytes, bytes], depth: int, data: st.DataObject
) -> None:
    written = bytearray(digest_of(entries).nodes(depth))
    root, _ = read_nodes(bytes(written), depth)
    written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found, _ = read_nodes(bytes(written), depth)
    except ValueError:
        return
    assert found != root


@given(st.binary(max_size=600), depths)
def test_any_bytes_are_a_list_or_refused(data: bytes, depth: int) -> None:
    try:
        _, nodes = read_nodes(data, depth)
    except ValueError:
        return
    assert len(nodes) * NODE_SIZE == len(data)


@given(sets, depths)
def test_a_list_cut_short_or_with_more_behind_it_is_refused(
    entries: dict[bytes, bytes], depth: int
) -> None:
    written = digest_of(entries).nodes(depth)
    for wrong in (written[:-1], written[:-NODE_SIZE], written + b"\0", written + written):
        with pytest.raises(ValueError, match="list of nodes"):
            read_nodes(wrong, depth)


def test_small_sets_are_one_bucket_and_large_ones_have_few_entries_in_each() -> None:
    assert [depth_for(count) for count in (0, LEAF_RECORDS, LEAF_RECORDS + 1)] == [0, 0, 1]
    assert [depth_for(count) for count in (1024, 1025, 16_384, 16_385, 10**7)] == [1, 2, 2, 3, 3]


def test_an_index_is_a_leading_one_and_whole_digits() -> None:
    assert [number for number in range(40) if is_index(number)] == [1, *range(16, 32)]
    assert is_index(0x1FFF)
    assert not is_index(0x10000)
    assert ROOT_INDEX == 1
    assert b"anything" in Cover([ROOT_INDEX])
    assert b"anything" not in Cover([])
