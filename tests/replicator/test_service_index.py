"""Which elements belong to which service, kept beside a set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clusters.model import Endpoint, ExportedService, ServiceKey
from crdt import Change, Entry, OriginSet, Version, pack
from crdt.entries import ADD, NIL, REMOVE
from replicator.networks import Networks
from replicator.projection import (
    ClusterInfo,
    cluster_element,
    endpoint_element,
    endpoint_value,
    export_entry,
)
from replicator.service_index import ServiceIndex

CART, PAY = ServiceKey("shop", "cart"), ServiceKey("shop", "pay")


def endpoint(number: int, key: ServiceKey = CART, *, ready: bool = True) -> tuple[bytes, bytes]:
    """Element and value of an endpoint."""
    row = Endpoint(f"10.20.1.{number}", None, ready=ready)
    return endpoint_element("fjord", key, row), endpoint_value(row)


def export(key: ServiceKey = CART) -> tuple[bytes, bytes]:
    """Element and value of an export."""
    return export_entry("fjord", key, ExportedService("t"))


class Owner:
    """A set and its index, moved together."""

    def __init__(self, networks: Networks | None = None) -> None:
        self.elements = OriginSet()
        self.index = ServiceIndex(self.elements, networks)
        self.stamp = 0

    def put(self, *pairs: tuple[bytes, bytes | None]) -> set[ServiceKey]:
        """Put values (None removes) and tell the index."""
        entries: list[Entry] = []
        changes = []
        for element, value in pairs:
            self.stamp += 1
            op = REMOVE if value is None else ADD
            entries.append((element, self.stamp, op, value or NIL))
            found = self.elements.get(element)
            before = None if found is None else found[1]
            if before != value:
                changes.append(Change(element, before, value, self.stamp))
        self.elements.advance(entries, version=Version(1, self.stamp), floor=0)
        return self.index.apply(changes)


def addresses(index: ServiceIndex, key: ServiceKey = CART) -> list[str]:
    """What is visible."""
    return [row.address for _, row in index.visible(key)]


def test_endpoints_are_visible_while_their_service_is_exported_in_any_order() -> None:
    owner = Owner()
    assert owner.put(endpoint(2), endpoint(1)) == {CART}
    assert addresses(owner.index) == []
    assert owner.index.export(CART) is None
    assert owner.put(export()) == {CART}
    assert owner.index.visible(CART)[0] == (2, Endpoint("10.20.1.1", None))
    assert addresses(owner.index) == ["10.20.1.1", "10.20.1.2"]
    assert owner.index.export(CART) == ExportedService("t")
    owner.put((export()[0], None))
    assert addresses(owner.index) == []
    assert owner.index.services() == []
    assert owner.index.all_services() == {CART}


def test_a_changed_value_is_shown_and_touches_its_service() -> None:
    owner = Owner()
    owner.put(export(), endpoint(1))
    assert owner.put(endpoint(1, ready=False)) == {CART}
    assert [row.ready for _, row in owner.index.visible(CART)] == [False]


def test_services_are_kept_apart_and_listed_in_order() -> None:
    owner = Owner()
    owner.put(export(PAY), endpoint(1, PAY), export(), endpoint(2))
    assert owner.index.services() == [CART, PAY]
    assert set(owner.index.elements(CART)) == {export()[0], endpoint(2)[0]}
    assert owner.put((endpoint(2)[0], None)) == {CART}
    assert list(owner.index.elements(CART)) == [export()[0]]
    assert addresses(owner.index, PAY) == ["10.20.1.1"]
    assert list(owner.index.elements(ServiceKey("no", "such"))) == []
    assert owner.index.export(ServiceKey("no", "such")) is None


def test_addresses_that_nobody_may_see_are_kept_and_not_shown() -> None:
    owner = Owner()
    row = Endpoint("127.0.0.1", None)
    element = endpoint_element("fjord", CART, row)
    owner.put(export(), (element, endpoint_value(row)))
    assert addresses(owner.index) == []
    assert element in set(owner.index.elements(CART))


def test_p40_addresses_outside_the_networks_are_kept_counted_and_not_shown() -> None:
    owner = Owner(Networks.of(["10.20.1.0/30"]))
    assert owner.put(export(), endpoint(3), endpoint(4), endpoint(5)) == {CART}
    assert addresses(owner.index) == ["10.20.1.3"]
    assert owner.index.hidden == 2
    assert len(set(owner.index.elements(CART))) == 4
    owner.put(endpoint(4, ready=False))
    assert owner.index.hidden == 2
    owner.put((endpoint(4)[0], None), (endpoint(3)[0], None))
    assert addresses(owner.index) == []
    assert owner.index.hidden == 1


def test_addresses_that_nobody_may_see_are_counted() -> None:
    owner = Owner()
    rows = [Endpoint(address, None) for address in ("127.0.0.1", "x", "10.20.1.1")]
    owner.put(*((endpoint_element("fjord", CART, row), endpoint_value(row)) for row in rows))
    assert owner.index.hidden == 2


def test_the_cluster_describes_itself() -> None:
    owner = Owner()
    assert owner.index.cluster() is None
    info = ClusterInfo("eu", "uid", "1")
    element, value = cluster_element("fjord", info)
    assert owner.put((element, value)) == set()
    assert owner.index.cluster() == info
    owner.put((element, None))
    assert owner.index.cluster() is None


def test_kinds_of_a_newer_version_come_and_go_unseen() -> None:
    owner = Owner()
    newer = pack([99, "fjord", "shop", "cart"])
    assert owner.put((newer, pack(1)), export()) == {CART}
    assert owner.put((newer, pack(2))) == set()
    assert owner.put((newer, None)) == set()
    assert owner.index.all_services() == {CART}


numbers = st.integers(1, 4)
keys = st.sampled_from([CART, PAY])
steps = st.one_of(
    st.tuples(st.builds(endpoint, numbers, keys), st.booleans()),
    st.tuples(st.builds(export, keys), st.booleans()),
    st.tuples(st.just(cluster_element("fjord", ClusterInfo("r", "u", "s"))), st.booleans()),
)


@given(st.lists(steps, max_size=30))
def test_an_index_that_followed_equals_one_made_anew(
    history: list[tuple[tuple[bytes, bytes], bool]],
) -> None:
    owner = Owner(Networks.of(["10.20.1.0/31"]))
    for (element, value), kept in history:
        owner.put((element, value if kept else None))
    fresh = ServiceIndex(owner.elements, Networks.of(["10.20.1.0/31"]))
    assert fresh.hidden == owner.index.hidden
    assert fresh.services() == owner.index.services()
    assert fresh.all_services() == owner.index.all_services()
    assert fresh.cluster() == owner.index.cluster()
    for key in (CART, PAY):
        assert fresh.visible(key) == owner.index.visible(key)
        assert sorted(fresh.elements(key)) == sorted(owner.index.elements(key))


@given(st.lists(steps, max_size=12), st.lists(steps, max_size=12))
def test_a_fork_goes_its_own_way(
    before: list[tuple[tuple[bytes, bytes], bool]], after: list[tuple[tuple[bytes, bytes], bool]]
) -> None:
    owner, still = Owner(), Owner()
    for (element, value), kept in before:
        owner.put((element, value if kept else None))
        still.put((element, value if kept else None))
    former = owner.index
    owner.index = former.fork()
    for (element, value), kept in after:
        owner.put((element, value if kept else None))
    assert former.services() == still.index.services()
    assert former.all_services() == still.index.all_services()
    for key in (CART, PAY):
        assert sorted(former.elements(key)) == sorted(still.index.elements(key))
        assert sorted(owner.index.rebuilt().elements(key)) == sorted(owner.index.elements(key))
    assert owner.index.bare().all_services() == set()


HIDDEN = ["127.0.0.1", "0.0.0.0", "169.254.0.9", "224.0.0.1", "::1", "fe80::1", "10.0.0.01", "x"]
stated = st.tuples(st.sampled_from([*HIDDEN, "10.20.1.1", "2001:db8::1"]), keys, st.booleans())


@given(st.permutations(range(8)), st.lists(stated, max_size=6), st.sets(keys))
def test_only_what_may_be_seen_of_exported_services_is_visible_in_any_order(
    order: list[int], rows: list[tuple[str, ServiceKey, bool]], exported: set[ServiceKey]
) -> None:
    ends = [(Endpoint(address, None, ready=ready), key) for address, key, ready in rows]
    pairs = [(endpoint_element("fjord", key, end), endpoint_value(end)) for end, key in ends]
    pairs += [export(key) for key in exported]
    owner = Owner()
    for at in order:
        if at < len(pairs):
            owner.put(pairs[at])
    for key in (CART, PAY):
        expected = {a for a, k, _ in rows if k == key and a not in HIDDEN and key in exported}
        assert set(addresses(owner.index, key)) == expected
