"""Heads: what is signed is everything but the signature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from crdt import Base, Head, Origin, Version
from crdt.stamp import MAX_NANOTIME
from tests.crdt.strategies import clusters

numbers = st.integers(0, MAX_NANOTIME)
digests = st.binary(min_size=32, max_size=32)
FIELDS = {
    "origin": st.builds(Origin, clusters, st.integers(0, 9)),
    "epoch": numbers,
    "base": st.none() | st.builds(Base, numbers, numbers, digests),
    "stamp": numbers,
    "floor": numbers,
    "count": numbers,
    "root": digests,
    "issued_at": numbers,
    "observed_at": numbers,
    "key_id": st.binary(max_size=32),
}
heads = st.builds(Head, **FIELDS)


@pytest.mark.parametrize("field", sorted(FIELDS))
@given(data=st.data())
def test_changing_any_field_changes_the_bytes_to_sign(field: str, data: st.DataObject) -> None:
    head = data.draw(heads)
    other: Any = data.draw(FIELDS[field])
    assume(other != getattr(head, field))
    assert replace(head, **{field: other}).canonical() != head.canonical()


@given(heads, heads)
def test_two_heads_have_the_same_bytes_exactly_when_they_are_equal(a: Head, b: Head) -> None:
    assert (a.canonical() == b.canonical()) is (a == b)


@given(heads, st.data())
def test_changing_any_part_of_the_origin_or_base_changes_the_bytes(
    head: Head, data: st.DataObject
) -> None:
    cluster, shard = head.origin
    altered = [
        replace(head, origin=Origin(cluster + "x", shard)),
        replace(head, origin=Origin(cluster, shard + 1)),
    ]
    base = head.base or Base(0, 0, bytes(32))
    root = data.draw(digests.filter(lambda root: root != base.root))
    based = replace(head, base=base)
    altered += [
        replace(based, base=other)
        for other in (
            base._replace(epoch=base.epoch + 1),
            base._replace(stamp=base.stamp + 1),
            base._replace(root=root),
        )
    ]
    found = {other.canonical() for other in [*altered, based]}
    assert len(found) == len(altered) + 1


@given(heads, st.binary(max_size=80))
def test_the_signature_is_carried_but_not_covered(head: Head, signature: bytes) -> None:
    signed = head.signed(signature)
    assert signed.signature == signature
    assert signed.canonical() == head.canonical()
    assert replace(signed, signature=b"") == head


@given(heads)
def test_the_bytes_are_messagepack_under_a_context_of_their_own(head: Head) -> None:
    context, *fields = msgpack.unpackb(head.canonical())
    assert context == "replicator.head.1"
    assert fields == head.fields()


@given(heads, numbers, numbers, st.binary(max_size=8))
def test_a_reissue_states_the_same(head: Head, issued: int, observed: int, key_id: bytes) -> None:
    again = replace(head, issued_at=issued, observed_at=observed, key_id=key_id, signature=b"s")
    assert again.same_state(head)
    assert again.version == head.version == Version(head.epoch, head.stamp)


@pytest.mark.parametrize("field", ["epoch", "stamp", "floor", "count", "root"])
@given(data=st.data())
def test_another_content_or_version_is_another_state(field: str, data: st.DataObject) -> None:
    head = data.draw(heads)
    other: Any = data.draw(FIELDS[field])
    assume(other != getattr(head, field))
    assert not replace(head, **{field: other}).same_state(head)
