"""An audit finds any one thing that is not what the digest says, and nothing in a sound set."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdt import OriginSet, Version
from crdt.audit import SLICE, Audit
from crdt.entries import REMOVE, opened, stored_of

SIZES = st.sampled_from([0, 1, 2, 63, 64, 65, 200])
FIRST = b"e1"


def set_of(size: int) -> OriginSet:
    """Elements stamped 1 to ``size``; every fifth is removed."""
    rows = [(b"e%d" % n, n, int(n % 5 == 0), b"v") for n in range(1, size + 1)]
    return OriginSet.restored(Version(1, size), 0, rows)


def verdict(audit: Audit, limit: int = SLICE) -> bool:
    """How an audit ends."""
    while True:
        found = audit.step(limit)
        if found is not None:
            return found


@given(SIZES, st.integers(1, 100))
def test_a_sound_set_passes_in_slices_of_any_size(size: int, limit: int) -> None:
    assert verdict(Audit(set_of(size)), limit)


@given(st.data(), st.integers(1, 80))
def test_changes_between_slices_do_no_harm(data: st.DataObject, limit: int) -> None:
    elements = set_of(200)
    audit, stamp = Audit(elements), 200
    while (found := audit.step(limit)) is None:
        stamp += 1
        element, op = b"e%d" % data.draw(st.integers(1, 250)), data.draw(st.integers(0, 1))
        floor = data.draw(st.integers(elements.floor, stamp))
        entry = (element, stamp, op, b"\xc0" if op else b"w")
        elements.advance([entry], version=Version(1, stamp), floor=floor)
    assert found


def flip_value(elements: OriginSet) -> None:
    _, stamp, op, _ = opened(FIRST, elements._entries[FIRST])
    elements._entries[FIRST] = stored_of(stamp, op, b"w")


def flip_stamp(elements: OriginSet) -> None:
    _, stamp, op, value = opened(FIRST, elements._entries[FIRST])
    elements._entries[FIRST] = stored_of(stamp ^ 1 << 40, op, value)


def flip_operation(elements: OriginSet) -> None:
    _, stamp, _, value = opened(FIRST, elements._entries[FIRST])
    elements._entries[FIRST] = stored_of(stamp, REMOVE, value)


def rename(elements: OriginSet) -> None:
    elements._entries[b"f1"] = elements._entries.pop(FIRST)


def lose(elements: OriginSet) -> None:
    del elements._entries[FIRST]


def flip_log_stamp(elements: OriginSet) -> None:
    elements._log._segments[0].stamps[0] += 1 << 40


def flip_log_key(elements: OriginSet) -> None:
    segment = elements._log._segments[0]
    segment.elements = (b"f1", *segment.elements[1:])


def flip_node(elements: OriginSet) -> None:
    root = elements._digest._root
    assert not isinstance(root, bytes)
    root.digests[40] ^= 1


def flip_root(elements: OriginSet) -> None:
    elements._digest._known = bytes(32)


def flip_record(elements: OriginSet) -> None:
    branch = elements._digest._root
    assert not isinstance(branch, bytes)
    at = next(n for n, leaf in enumerate(branch.children) if leaf)
    leaf = branch.children[at]
    assert isinstance(leaf, bytes)
    branch.children[at] = leaf[:-1] + bytes((leaf[-1] ^ 1,))


ROTS = (
    *(flip_value, flip_stamp, flip_operation, rename, lose),
    *(flip_log_stamp, flip_log_key, flip_node, flip_root, flip_record),
)


@pytest.mark.parametrize("rot", ROTS)
def test_any_one_thing_that_rots_is_found(rot: Callable[[OriginSet], None]) -> None:
    elements = set_of(200)
    assert elements.root()
    rot(elements)
    assert not verdict(Audit(elements))


def test_a_small_set_is_looked_at_too() -> None:
    elements = set_of(3)
    assert elements.root()
    flip_root(elements)
    assert not verdict(Audit(elements))


def test_an_added_entry_without_a_record_is_found_by_the_numbers() -> None:
    """Also one that came behind the audit's back."""
    elements = set_of(200)
    audit = Audit(elements)
    assert audit.step() is None
    elements._entries[b"f1"] = stored_of(300, 0, b"v")
    assert not verdict(audit)
