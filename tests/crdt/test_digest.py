"""The incremental digest against its definition."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdt.digest import (
    DIGEST_SIZE,
    KEY_SIZE,
    LEAF_RECORDS,
    RECORD_SIZE,
    ROOT_SIZE,
    MerkleDigest,
    entry_digest,
    key_hash,
)
from tests.support.reference_model import root_of

# Keys drawn from few bytes share long prefixes, so tries get deep, and often whole keys.
deep_keys = st.lists(st.sampled_from([0, 1, 16, 255]), min_size=8, max_size=8).map(bytes)
wide_keys = st.integers(0, 255).map(lambda number: bytes([number]) + bytes(7))
same_keys = st.sampled_from([bytes(8), bytes(7) + b"\x01"])
digests = st.integers(0, 200).map(lambda number: number.to_bytes(DIGEST_SIZE, "big"))
records = st.tuples(deep_keys | wide_keys | same_keys, digests).map(b"".join)


def drawn_by(seed: int, count: int) -> set[bytes]:
    """Many records from one seed: drawing each by itself would take most of the test's time."""
    dice = Random(seed)
    keys = [bytes(dice.choices([0, 1, 16, 255], k=KEY_SIZE)) for _ in range(1 + count // 2)]
    return {dice.choice(keys) + dice.randbytes(DIGEST_SIZE) for _ in range(count)}


large_sets = st.builds(drawn_by, st.integers(0, 2**32), st.integers(50, 200))
record_sets = st.sets(records, max_size=20) | large_sets


def change(digest: MerkleDigest, old: bytes | None, new: bytes | None) -> None:
    """Replace whole records of one key."""
    key = (old or new or b"")[:KEY_SIZE]
    digest.replace(
        key,
        None if old is None else lambda: old[KEY_SIZE:],
        None if new is None else new[KEY_SIZE:],
    )


def built(items: set[bytes] | list[bytes]) -> MerkleDigest:
    """Put one record after the other."""
    digest = MerkleDigest()
    for item in items:
        change(digest, None, item)
    return digest


@given(record_sets)
def test_the_root_is_the_one_of_the_definition(items: set[bytes]) -> None:
    assert built(items).root() == MerkleDigest(items).root() == root_of(items)


@given(record_sets, st.integers(0, 2**32))
def test_the_root_does_not_depend_on_the_order_of_changes(items: set[bytes], seed: int) -> None:
    shuffled = sorted(items)
    Random(seed).shuffle(shuffled)
    assert built(shuffled).root() == built(sorted(items)).root()


@given(record_sets, st.data())
def test_incremental_equals_rebuilt_after_any_changes(
    items: set[bytes], data: st.DataObject
) -> None:
    digest = MerkleDigest(items)
    held = set(items)
    for _ in range(data.draw(st.integers(0, 30))):
        if data.draw(st.booleans()):
            digest.root()
        new = data.draw(records)
        same_key = sorted(item for item in held if item[:KEY_SIZE] == new[:KEY_SIZE])
        if same_key and data.draw(st.booleans()):
            old = data.draw(st.sampled_from(same_key))
            into = data.draw(st.none() | st.just(new))
            if into in held - {old}:
                continue
            change(digest, old, into)
            held = held - {old} | ({into} if into else set())
        elif new not in held:
            change(digest, None, new)
            held.add(new)
    assert digest.root() == root_of(held)
    for item in sorted(held):
        change(digest, item, None)
    assert digest.root() == MerkleDigest().root()


@given(record_sets.filter(bool), st.data())
def test_any_single_difference_changes_the_root(items: set[bytes], data: st.DataObject) -> None:
    root = MerkleDigest(items).root()
    victim = data.draw(st.sampled_from(sorted(items)))
    at = data.draw(st.integers(0, RECORD_SIZE * 8 - 1))
    flipped = (int.from_bytes(victim, "big") ^ 1 << at).to_bytes(RECORD_SIZE, "big")
    extra = data.draw(records.filter(lambda record: record not in items))
    assert MerkleDigest(items - {victim}).root() != root
    assert MerkleDigest(items | {extra}).root() != root
    assert MerkleDigest(items - {victim} | {extra}).root() != root
    assert flipped in items or MerkleDigest(items - {victim} | {flipped}).root() != root


@pytest.mark.parametrize("prefix", [0, 1, 7], ids=lambda depth: f"{depth} shared bytes")
@pytest.mark.parametrize("spread", [1, 16], ids=["neighbours", "apart"])
def test_a_leaf_splits_above_its_limit_and_comes_together_at_it(prefix: int, spread: int) -> None:
    def item(number: int) -> bytes:
        place = number * spread % 256
        return bytes(prefix) + bytes([place]) + number.to_bytes(RECORD_SIZE - prefix - 1, "big")

    digest = MerkleDigest()
    items = [item(number) for number in range(LEAF_RECORDS + 3)]
    roots = [digest.root()]
    for put in items:
        change(digest, None, put)
        roots.append(digest.root())
    assert roots == [root_of(items[:count]) for count in range(len(items) + 1)]
    for count, taken in reversed(list(enumerate(items))):
        change(digest, taken, None)
        assert digest.root() == roots[count]


@pytest.mark.parametrize("count", [2, LEAF_RECORDS, LEAF_RECORDS + 1, 3 * LEAF_RECORDS])
def test_elements_that_share_a_key_hash_are_all_kept(count: int) -> None:
    key = b"\x5a" * KEY_SIZE
    items = [key + number.to_bytes(DIGEST_SIZE, "big") for number in range(count)]
    near = [b"\x5a" * 7 + b"\x5b" + bytes(DIGEST_SIZE), b"\x5a" * 7 + b"\x59" + bytes(DIGEST_SIZE)]
    digest = built([*items, *near])
    assert digest.root() == root_of([*items, *near])
    changed = key + b"\xff" * DIGEST_SIZE
    change(digest, items[count // 2], changed)
    items[count // 2] = changed
    assert digest.root() == root_of([*items, *near])
    while items:
        change(digest, items.pop(), None)
        assert digest.root() == root_of([*items, *near])


def test_a_key_found_across_two_records_is_not_taken_for_one() -> None:
    key = bytes(range(100, 100 + KEY_SIZE))
    # The wanted key also stands across the digests of records that sort before and after it.
    before = bytes(KEY_SIZE) + bytes(4) + key + bytes(4)
    across = b"\x01" * KEY_SIZE + bytes(12) + key[:4]
    joined = key[4:] + bytes(RECORD_SIZE - 4)
    own = key + b"\x07" * DIGEST_SIZE
    items = {before, across, joined, own}
    digest = built(items)
    assert digest.root() == root_of(items)
    change(digest, own, key + b"\x08" * DIGEST_SIZE)
    assert digest.root() == root_of(items - {own} | {key + b"\x08" * DIGEST_SIZE})
    absent = MerkleDigest(items - {own})
    with pytest.raises(KeyError):
        change(absent, own, None)
    assert absent.root() == root_of(items - {own})


def test_taking_out_what_is_not_there_is_an_error_and_changes_nothing() -> None:
    key = b"k" * KEY_SIZE
    shared = [key + bytes(DIGEST_SIZE), key + b"\x01" * DIGEST_SIZE]
    for items in ([], shared, [bytes([place]) * RECORD_SIZE for place in range(LEAF_RECORDS + 9)]):
        digest = MerkleDigest(items)
        with pytest.raises(KeyError):
            change(digest, key + b"\x02" * DIGEST_SIZE, None)
        with pytest.raises(KeyError):
            change(digest, key + b"\x02" * DIGEST_SIZE, key + b"\x03" * DIGEST_SIZE)
        assert digest.root() == root_of(items)


def test_the_former_digest_is_asked_for_only_when_keys_collide() -> None:
    asked: Counter[str] = Counter()

    def old() -> bytes:
        asked["old"] += 1
        return bytes(DIGEST_SIZE)

    key = b"k" * KEY_SIZE
    digest = built([key + bytes(DIGEST_SIZE)])
    digest.replace(key, old, bytes(DIGEST_SIZE))
    assert not asked
    change(digest, None, key + b"\x01" * DIGEST_SIZE)
    digest.replace(key, old, None)
    assert asked == {"old": 1}


def test_sizes_are_those_on_the_wire() -> None:
    assert len(key_hash(b"x")) == KEY_SIZE
    assert len(entry_digest(b"x")) == DIGEST_SIZE
    assert len(MerkleDigest().root()) == ROOT_SIZE
