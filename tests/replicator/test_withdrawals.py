"""When a mass withdrawal is held back, and when not."""

from __future__ import annotations

from clusters.model import Endpoint, Manifest, Port, ServiceKey
from clusters.slice_names import LABEL_SOURCE_CLUSTER
from replicator.withdrawals import Guard, Withdrawals, described

CART, OTHER = ServiceKey("shop", "cart"), ServiceKey("shop", "other")
PORTS = (Port("http", 8080),)


def machine(least: int = 5, fresh_for: float = 15.0) -> Withdrawals:
    return Withdrawals(Guard(least, fresh_for), 60.0, 0.0)


def stated(*numbers: int) -> dict[str, list[Endpoint]]:
    return {"fjord": [Endpoint(f"10.1.0.{n}", PORTS) for n in numbers]}


def written(*numbers: int, cluster: str = "fjord") -> list[Manifest]:
    labels = {LABEL_SOURCE_CLUSTER: cluster}
    endpoints = [{"addresses": [f"10.1.0.{n}"]} for n in numbers]
    return [
        {"kind": "ServiceImport", "metadata": {}},
        {"kind": "EndpointSlice", "metadata": {"labels": labels}, "endpoints": endpoints},
    ]


def shaky() -> Withdrawals:
    """Fjord was heard, fell silent, and has just been heard again."""
    made = machine()
    made.review({"fjord": 1.0}, 1.0)
    made.review({"fjord": 1.0}, 61.0)
    made.review({"fjord": 100.0}, 100.0)
    return made


def kept(made: Withdrawals, left: int, before: int = 8, meant: tuple[str, ...] = ()) -> bool:
    found = made.kept(CART, stated(*range(left)), written(*range(before)), meant)
    assert found in (frozenset(), {"fjord"})
    return bool(found)


def test_only_of_a_cluster_that_was_silent() -> None:
    made = machine()
    made.review({"fjord": 1.0}, 1.0)
    assert not kept(made, 0)
    made.review({"fjord": 1.0}, 60.9)
    assert not kept(made, 0)
    made.review({"fjord": 1.0}, 61.0)
    assert kept(made, 0)


def test_a_silence_that_nobody_looked_at_counts() -> None:
    made = machine()
    made.review({"fjord": 1.0}, 1.0)
    made.review({"fjord": 70.0}, 70.0)
    assert kept(made, 0)


def test_a_stored_cluster_is_silent_when_it_is_not_heard_soon() -> None:
    made = machine()
    made.review({"fjord": None}, 9.9)
    assert not kept(made, 0)
    made.review({"fjord": None}, 10.0)
    assert kept(made, 0)
    assert made.held == [], "it has said nothing"
    made.review({"fjord": 20.0}, 20.0)
    assert kept(made, 0)
    assert made.review({"fjord": 35.0}, 35.0) == [CART]
    assert not kept(made, 0)


def test_a_cluster_that_was_stored_and_is_heard_soon_is_not() -> None:
    made = machine()
    made.review({"fjord": None}, 1.0)
    made.review({"fjord": 2.0}, 2.0)
    assert not kept(made, 0)


def test_all_or_more_than_half_and_not_just_a_few() -> None:
    assert kept(shaky(), 0, before=1), "all there are"
    assert kept(shaky(), 3)
    assert not kept(shaky(), 5, before=10), "half is not more than half"
    assert not kept(shaky(), 2, before=6), "fewer than five"
    assert kept(shaky(), 4, before=9)


def test_what_is_held_back_stays_so_however_the_rest_changes() -> None:
    made = shaky()
    assert kept(made, 0)
    found = made.kept(CART, stated(*range(20, 40)), written(*range(8), *range(20, 40)), ())
    assert found == {"fjord"}
    assert [described(one) for one in made.held] == [
        {"service": "shop/cart", "cluster": "fjord", "removed": 8, "written": 28}
    ]
    assert not kept(made, 8)
    assert made.held == []


def test_another_silence_begins_the_waiting_anew_and_one_sign_is_not_enough() -> None:
    made = shaky()
    assert kept(made, 0)
    assert made.review({"fjord": 100.0}, 130.0) == []
    assert kept(made, 0), "one sign may be an old one that a relay had kept"
    made.review({"fjord": 100.0}, 160.0)
    made.review({"fjord": 200.0}, 200.0)
    assert made.review({"fjord": 214.0}, 214.0) == []
    assert made.review({"fjord": 215.0}, 215.0) == [CART]


def test_a_policys_withdrawal_and_a_forgotten_clusters_end_are_not_held_back() -> None:
    made = shaky()
    assert not kept(made, 0, meant=("fjord",))
    assert kept(made, 0)
    assert made.review({}, 101.0) == [CART]
    assert not kept(made, 0)


def test_an_operator_releases_what_is_held_and_nothing_later() -> None:
    made = shaky()
    assert kept(made, 0)
    assert made.release(None, OTHER) == []
    assert made.release("mesa", None) == []
    assert [one.key for one in made.release(None, None)] == [CART]
    assert not kept(made, 0)
    assert not kept(made, 8), "it was carried out"
    assert kept(made, 0), "a later one is another"
    made.release("fjord", CART)
    made.review({"fjord": 115.0}, 115.0)
    made.review({"fjord": 115.0}, 175.0)
    assert kept(made, 0), "a release ends with the silence it was given in"


def test_without_a_time_nothing_is_held_back() -> None:
    made = machine(fresh_for=0.0)
    made.review({"fjord": 1.0}, 1.0)
    made.review({"fjord": 1.0}, 61.0)
    assert not kept(made, 0)
    assert not made.kept(CART, {}, written(1, cluster="mesa"), ())
