"""Drains and weights: which endpoints stay ready."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from clusters.model import Endpoint, ServiceKey
from replicator.policies import Traffic
from replicator.traffic import View, chosen, steered

CART = ServiceKey("shop", "cart")
addresses = st.integers(1, 250).map(lambda n: f"10.20.1.{n}") | st.integers(1, 250).map(
    lambda n: f"2001:db8::{n:x}"
)
endpoints = st.lists(
    st.builds(Endpoint, addresses, st.none(), ready=st.booleans()),
    max_size=12,
    unique_by=lambda endpoint: endpoint.address,
)
views = st.dictionaries(st.sampled_from(("fjord", "mesa", "tundra")), endpoints, max_size=3)
traffics = st.builds(
    Traffic,
    drained=st.booleans(),
    last=st.just(False),  # noqa: FBT003
    weight=st.integers(0, 100),
)


def steer(view: View, found: Mapping[str, Traffic], *, here: bool = False) -> View:
    return steered(CART, view, lambda cluster, _: found.get(cluster, Traffic()), here=here)


def ready(view: View) -> set[tuple[str, str]]:
    return {(c, e.address) for c, found in view.items() for e in found if e.ready}


@given(views, st.dictionaries(st.sampled_from(("fjord", "mesa", "tundra")), traffics))
def test_nothing_but_ready_is_taken_away_and_never_the_last(
    view: dict[str, list[Endpoint]], found: dict[str, Traffic]
) -> None:
    shown = steer(view, found)
    assert ready(shown) <= ready(view)
    assert bool(ready(shown)) == bool(ready(view))
    for cluster, stated in view.items():
        kept = shown[cluster]
        assert [e.address for e in kept] == [e.address for e in stated]
        assert [(e.serving, e.terminating) for e in kept] == [
            (e.serving, e.terminating) for e in stated
        ]


def test_without_a_decision_nothing_is_touched() -> None:
    view = {"fjord": [Endpoint("10.20.1.4", None)]}
    assert steer(view, {}) is view


def test_where_our_own_endpoints_are_ready_none_of_the_others_is_the_last() -> None:
    view = {"fjord": [Endpoint("10.20.1.4", None)]}
    for traffic in (Traffic(drained=True), Traffic(weight=0)):
        assert ready(steer(view, {"fjord": traffic})) == {("fjord", "10.20.1.4")}
        assert ready(steer(view, {"fjord": traffic}, here=True)) == set()


def test_weights_are_given_up_before_drains() -> None:
    view = {"fjord": [Endpoint("10.20.1.4", None)], "mesa": [Endpoint("10.30.1.4", None)]}
    found = {"fjord": Traffic(drained=True), "mesa": Traffic(weight=0)}
    assert ready(steer(view, found)) == {("mesa", "10.30.1.4")}
    both = {"fjord": Traffic(drained=True), "mesa": Traffic(drained=True, last=True)}
    assert ready(steer(view, both)) == {("fjord", "10.20.1.4")}
    none = dict.fromkeys(view, Traffic(drained=True, last=True))
    assert ready(steer(view, none)) == set()


@given(st.sets(st.integers(1, 200), min_size=1, max_size=60), st.integers(1, 100))
def test_a_weight_leaves_its_share_rounded_up(numbers: set[int], weight: int) -> None:
    found = [Endpoint(f"10.20.1.{n}", None) for n in numbers]
    assert len(chosen(CART, "fjord", found, weight)) == -(-len(found) * weight // 100)


@given(st.sets(st.integers(1, 200), min_size=2, max_size=60), st.integers(0, 100), st.data())
def test_an_address_that_goes_moves_at_most_one_other(
    numbers: set[int], weight: int, data: st.DataObject
) -> None:
    found = [Endpoint(f"10.20.1.{n}", None) for n in sorted(numbers)]
    gone = data.draw(st.sampled_from(found))
    before = chosen(CART, "fjord", found, weight)
    after = chosen(CART, "fjord", [e for e in found if e is not gone], weight)
    assert len((before ^ after) - {gone.address}) <= 1


def test_each_family_has_its_share() -> None:
    found = [
        *(Endpoint(f"10.20.1.{n}", None) for n in range(1, 5)),
        *(Endpoint(f"2001:db8::{n}", None) for n in range(1, 3)),
    ]
    for cluster in ("fjord", "mesa", "steppe", "tundra"):
        stays = chosen(CART, cluster, found, 50)
        assert sorted(":" in address for address in stays) == [False, False, True]
