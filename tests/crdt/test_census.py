"""A census finds the nodes that a digest of the same entries has, in slices of any size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdt import OriginSet, Version
from crdt.buckets import DEPTH_LIMIT, Cover, differing, read_nodes
from crdt.census import Census

Values = dict[int, bytes]
values = st.integers(0, 3).map(lambda number: b"%d" % number)
sets = st.dictionaries(st.integers(1, 400), values, max_size=12) | st.builds(
    lambda size, step: {number * step: b"0" for number in range(1, size)},
    st.integers(60, 300),
    st.integers(1, 3),
)
depths = st.integers(0, DEPTH_LIMIT)
limits = st.sampled_from([1, 7, 64, 10_000])


def set_of(entries: Values) -> OriginSet:
    """A set of one element for each number, stamped with it."""
    rows = [(b"e%d" % number, number, 0, value) for number, value in entries.items()]
    return OriginSet.restored(Version(1, 1000), 0, rows)


def census_of(elements: OriginSet, depth: int, limit: int) -> Census:
    """A census that is done."""
    census = Census(elements.held(), depth)
    while not census.step(limit):
        pass
    return census


@given(sets, depths, limits)
def test_the_nodes_are_those_of_the_digest(entries: Values, depth: int, limit: int) -> None:
    elements = set_of(entries)
    _, nodes = read_nodes(elements.nodes(depth), depth)
    census = census_of(elements, depth, limit)
    assert census.nodes == nodes
    assert census.root() == elements.root()


@given(sets, sets, depths)
def test_what_lies_outside_the_differing_nodes_is_what_both_have(
    mine: Values, theirs: Values, depth: int
) -> None:
    ours, other = set_of(mine), set_of(theirs)
    census = census_of(ours, depth, 100)
    _, nodes = read_nodes(other.nodes(depth), depth)
    indexes = differing(nodes, census.nodes)
    cover = Cover(indexes)
    kept = dict(census.outside(indexes))
    assert kept == {name: stored for name, stored in ours.held().items() if name not in cover}
    fetched = {name: stored for name, stored in other.held().items() if name in cover}
    assert kept | fetched == other.held()


def test_a_slice_is_as_large_as_it_is_told() -> None:
    census = Census(set_of(dict.fromkeys(range(1, 101), b"")).held(), 2)
    steps = 1
    while not census.step(10):
        steps += 1
    assert 11 <= steps <= 22
