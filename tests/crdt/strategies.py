"""Hypothesis strategies for the values of ``crdt``."""

from __future__ import annotations

from hypothesis import strategies as st

from crdt import LWWElementSet, LWWEntry, Origin, Stamp, Version, VersionVector
from crdt.stamp import MAX_NANOTIME

MAX_U64 = 2**64 - 1

clusters = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
nanotimes = st.integers(0, MAX_NANOTIME) | st.sampled_from([0, 1, MAX_NANOTIME - 1, MAX_NANOTIME])
stamps = st.builds(Stamp, nanotimes, clusters)

few_stamps = st.builds(Stamp, st.integers(0, 3), st.sampled_from(["fjord", "mesa"]))
"""So few that equal ones meet often."""

_edges = {
    sign * (1 << bits) + step for bits in range(65) for sign in (1, -1) for step in (-1, 0, 1)
}
integers = st.integers(-(2**63), MAX_U64) | st.sampled_from(
    sorted(edge for edge in _edges if -(2**63) <= edge <= MAX_U64)
)
scalars = st.none() | st.booleans() | integers | st.floats(allow_nan=False)
scalars |= st.text(max_size=40) | st.binary(max_size=40)
keys = st.text(max_size=8) | st.integers(-40, 300)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(keys, inner, max_size=20),
    max_leaves=30,
)

few_entries = st.builds(
    LWWEntry, few_stamps, removed=st.booleans(), value=st.sampled_from([None, 0, 1, "x"])
)
statements = st.lists(st.tuples(st.sampled_from("abc"), few_entries), max_size=12)


def folded(stated: list[tuple[str, LWWEntry]]) -> LWWElementSet[str]:
    """A set that took these statements."""
    result: LWWElementSet[str] = LWWElementSet()
    for element, entry in stated:
        result.put(element, entry)
    return result


sets = statements.map(folded)

origins = st.builds(Origin, st.sampled_from(["fjord", "mesa", "tundra"]), st.integers(0, 1))
versions = st.builds(Version, st.integers(0, 3), st.integers(0, 3))
vectors = st.builds(VersionVector, st.dictionaries(origins, versions, max_size=6))
