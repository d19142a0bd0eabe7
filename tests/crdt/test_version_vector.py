"""Version vectors form a lattice."""

from __future__ import annotations

from hypothesis import given

from crdt import ZERO, Origin, Version, VersionVector
from tests.crdt.strategies import origins, vectors, versions

FJORD, MESA = Origin("fjord"), Origin("mesa", 1)


@given(vectors, vectors)
def test_merge_is_commutative(a: VersionVector, b: VersionVector) -> None:
    assert a.merge(b) == b.merge(a)


@given(vectors, vectors, vectors)
def test_merge_is_associative(a: VersionVector, b: VersionVector, c: VersionVector) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c))


@given(vectors)
def test_merge_is_idempotent_and_the_empty_vector_is_neutral(a: VersionVector) -> None:
    assert a.merge(a) == a == a.merge(VersionVector()) == VersionVector().merge(a)


@given(vectors, vectors)
def test_a_merge_is_the_least_vector_that_covers_both(a: VersionVector, b: VersionVector) -> None:
    merged = a.merge(b)
    assert merged.covers(a)
    assert merged.covers(b)
    assert all(merged[origin] in (a[origin], b[origin]) for origin in merged)


@given(vectors, vectors)
def test_covering_is_the_order_of_the_lattice(a: VersionVector, b: VersionVector) -> None:
    assert a.covers(b) is (a.merge(b) == a)
    if a.covers(b) and b.covers(a):
        assert a == b


@given(vectors, vectors)
def test_merge_changes_neither_argument(a: VersionVector, b: VersionVector) -> None:
    before = (dict(a.items()), dict(b.items()))
    a.merge(b)
    assert (dict(a.items()), dict(b.items())) == before


@given(vectors, vectors)
def test_equal_vectors_have_equal_hashes(a: VersionVector, b: VersionVector) -> None:
    rebuilt = VersionVector(dict(reversed(list(a.items()))))
    assert rebuilt == a
    assert hash(rebuilt) == hash(a)
    assert (a == b) is (dict(a.items()) == dict(b.items()))


@given(origins, versions)
def test_an_origin_never_heard_of_is_at_zero(origin: Origin, version: Version) -> None:
    vector = VersionVector({origin: version})
    assert vector[origin] == version
    assert (origin in vector) is (version > ZERO)
    assert len(vector) == len(list(vector)) == (version > ZERO)
    assert VersionVector()[origin] == ZERO


def test_iteration_and_text_are_sorted() -> None:
    vector = VersionVector({MESA: Version(1, 2), FJORD: Version(3, 4)})
    assert list(vector) == [FJORD, MESA]
    assert repr(vector).index("fjord") < repr(vector).index("mesa")


def test_an_epoch_outweighs_any_stamp() -> None:
    assert Version(2, 0) > Version(1, 2**63 - 1) > ZERO


def test_a_vector_differs_from_other_things() -> None:
    assert VersionVector() != {}
