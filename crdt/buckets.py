"""Buckets of a set: which parts of two sets differ, told by the nodes of their digests.

A trie of :mod:`crdt.digest` cut at ``depth`` is a list of nodes that together cover every key hash
once: those at that depth, and the leaves above it.  Written out it is, in ascending order of the
keys covered, one byte of depth and the node's digest each.  It hashes up to the set's root, so
under a signed root a list can be believed before anything is asked for by it.

A node's *index* is the hexadecimal digits that lead to it, read as a number after a leading 1: the
root is 1, its children 16 to 31.  What a node covers is a *bucket*.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdt.digest import KEY_SIZE, LEAF_RECORDS, ROOT_SIZE, branch_digest, key_hash

DEPTH_LIMIT = 3
"""The deepest cut: 4,096 nodes, written out in 135,168 bytes."""
NODE_SIZE = 1 + ROOT_SIZE
ROOT_INDEX = 1
_KEY_BITS = 8 * KEY_SIZE

Nodes = dict[int, bytes]
"""Index to digest, in ascending order of the keys covered."""


def depth_for(count: int) -> int:
    """The cut at which a set of ``count`` entries leaves few of them in a bucket."""
    fitting = (depth for depth in range(DEPTH_LIMIT) if count <= LEAF_RECORDS << 4 * depth)
    return next(fitting, DEPTH_LIMIT)


def nodes_limit(depth: int) -> int:
    """The most bytes that a list cut at ``depth`` takes."""
    return NODE_SIZE << 4 * depth


def read_nodes(data: bytes, depth: int) -> tuple[bytes, Nodes]:
    """The root that a written list hashes up to, and its nodes.

    Raises ValueError unless it is exactly one list cut at ``depth``.
    """
    found: Nodes = {}
    place = 0

    def digest_of(index: int, level: int) -> bytes:
        nonlocal place
        node = data[place : place + NODE_SIZE]
        if len(node) < NODE_SIZE or not level <= node[0] <= depth:
            message = "a list of nodes that is cut short or out of order"
            raise ValueError(message)
        if node[0] == level:
            place += NODE_SIZE
            found[index] = node[1:]
            return found[index]
        children = (digest_of(index << 4 | digit, level + 1) for digit in range(16))
        return branch_digest(b"".join(children))

    root = digest_of(ROOT_INDEX, 0)
    if place != len(data):
        message = "a list of nodes with something behind it"
        raise ValueError(message)
    return root, found


def differing(theirs: Nodes, ours: Nodes) -> tuple[int, ...]:
    """Indexes of their nodes that we have not, or not with that digest."""
    return tuple(index for index, digest in theirs.items() if ours.get(index) != digest)


def level_of(index: int) -> int:
    """The depth of the node ``index``."""
    return (index.bit_length() - 1) // 4


def is_index(number: int) -> bool:
    """Whether ``number`` is the index of a node within the deepest cut."""
    return (number.bit_length() - 1) % 4 == 0 and 0 <= level_of(number) <= DEPTH_LIMIT


class Cover:
    """The elements that lie in some buckets."""

    __slots__ = ("_indexes", "_levels")

    def __init__(self, indexes: Iterable[int]) -> None:
        """Cover the nodes ``indexes``, of any depths."""
        self._indexes = frozenset(indexes)
        levels = sorted({level_of(index) for index in self._indexes})
        self._levels = [(1 << 4 * level, _KEY_BITS - 4 * level) for level in levels]

    def __contains__(self, element: bytes) -> bool:
        """Whether ``element`` lies in one of them."""
        key = int.from_bytes(key_hash(element), "big")
        return any(lead | key >> shift in self._indexes for lead, shift in self._levels)
