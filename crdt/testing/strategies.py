"""Hypothesis strategies for the values of ``crdt``, and for schedules of any type.

Each takes ``close``: drawn from so few values that equal times, clusters and elements meet often,
which is where the mistakes are.  Otherwise the whole range of the type, edges included.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from crdt.canonical import pack
from crdt.entries import ADD, NIL, REMOVE, Entry
from crdt.lww_set import LWWElementSet, LWWEntry
from crdt.origin_set import OriginSet
from crdt.stamp import MAX_NANOTIME, Stamp
from crdt.version_vector import Version

_NAMES = ("fjord", "mesa", "tundra")
_CLOSE = st.integers(0, 3) | st.sampled_from([9, 10])
_EDGES = (0, 1, MAX_NANOTIME - 1, MAX_NANOTIME)
_VALUES = st.sampled_from([None, 0, 1, "x"])


def clusters(*, close: bool = False) -> SearchStrategy[str]:
    """Names of clusters: DNS labels of at most 63 characters."""
    if close:
        return st.sampled_from(_NAMES)
    return st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


def nanotimes(*, close: bool = False) -> SearchStrategy[int]:
    """Nanoseconds that a stamp can hold; close ones have one digit or two."""
    return _CLOSE if close else st.integers(0, MAX_NANOTIME) | st.sampled_from(_EDGES)


def stamps(*, close: bool = False) -> SearchStrategy[Stamp]:
    """Stamps."""
    return st.builds(Stamp, nanotimes(close=close), clusters(close=close))


def elements(*, close: bool = False) -> SearchStrategy[bytes]:
    """Elements of an origin set: canonical bytes of [kind, cluster, name]."""
    kinds, names = st.integers(1, 5), st.text(max_size=12)
    if close:
        kinds, names = st.just(1), st.sampled_from("xyz")
    return st.tuples(kinds, clusters(close=close), names).map(pack)


def entries(*, close: bool = False) -> SearchStrategy[LWWEntry]:
    """Statements of an LWW set, adds and removes."""
    return st.builds(LWWEntry, stamps(close=close), removed=st.booleans(), value=_VALUES)


def _folded(stated: list[tuple[str, LWWEntry]]) -> LWWElementSet[str]:
    result: LWWElementSet[str] = LWWElementSet()
    for element, entry in stated:
        result.put(element, entry)
    return result


def lww_sets(*, close: bool = True, longest: int = 12) -> SearchStrategy[LWWElementSet[str]]:
    """LWW sets of up to ``longest`` statements about x, y and z."""
    stated = st.tuples(st.sampled_from("xyz"), entries(close=close))
    return st.lists(stated, max_size=longest).map(_folded)


def origin_entries(*, close: bool = True, longest: int = 12) -> SearchStrategy[list[Entry]]:
    """Entries of one origin in the order they were made, their stamps rising strictly."""
    gaps = st.integers(1, 3) if close else st.integers(1, 1 << 40)
    changes = st.tuples(elements(close=close), st.booleans(), gaps)

    def stamped(drawn: list[tuple[bytes, bool, int]]) -> list[Entry]:
        made: list[Entry] = []
        stamp = 0
        for element, removed, gap in drawn:
            stamp += gap
            op, value = (REMOVE, NIL) if removed else (ADD, pack(stamp))
            made.append((element, stamp, op, value))
        return made

    return st.lists(changes, max_size=longest).map(stamped)


@st.composite
def origin_sets(
    draw: st.DrawFn, *, close: bool = True, longest: int = 12, collected: bool = True
) -> OriginSet:
    """Origin sets at some version of epoch 1, with any floor (0 unless ``collected``)."""
    made = draw(origin_entries(close=close, longest=longest))
    stamp = made[-1][1] if made else 0
    floor = draw(st.integers(0, stamp)) if collected else 0
    result = OriginSet()
    result.advance(made, version=Version(1, stamp), floor=floor)
    return result
