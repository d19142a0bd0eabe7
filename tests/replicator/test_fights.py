"""Who keeps undoing what we write is met ever more seldom."""

from __future__ import annotations

import itertools
from typing import Any

from clusters.model import ChangeOp, Manifest, ServiceKey, SliceChange
from replicator.fights import CALM_SECONDS, FREE_REPAIRS, MOST_SECONDS, Fights, content_of

CART = ServiceKey("shop", "cart")


def manifest(*addresses: str, **metadata: Any) -> Manifest:
    return {
        "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": "cart-1", **metadata},
        "endpoints": [{"addresses": [address]} for address in addresses],
    }


def update(*addresses: str, **metadata: Any) -> SliceChange:
    return SliceChange(ChangeOp.UPDATE, manifest(*addresses, **metadata))


def repaired_until(machine: Fights, change: SliceChange, until: float) -> list[float]:
    """When it was written, while somebody undoes it ten times a second."""
    times = []
    for step in range(int(until * 10)):
        now = step / 10
        machine.due(now)
        if not machine.waits(CART, change, now):
            machine.wrote(change, now)
            times.append(now)
    return times


def test_a_few_repairs_are_made_at_once_and_then_ever_later() -> None:
    machine = Fights()
    times = repaired_until(machine, update("a"), 200.0)
    assert times[: FREE_REPAIRS + 1] == [0.0, 0.1, 0.2, 0.3]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times[3:])]
    assert [round(gap) for gap in gaps] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert machine.total == len(gaps)
    assert [fight.repairs for fight in machine.present()] == [FREE_REPAIRS + len(gaps)]
    assert machine.present()[0].name == ("EndpointSlice", "shop", "cart-1", "")


def test_changes_of_our_own_never_wait() -> None:
    machine = Fights()
    for number in range(100):
        change = update(str(number % 2))
        assert not machine.waits(CART, change, number / 10)
        machine.wrote(change, number / 10)
    assert (machine.total, machine.present()) == (0, [])


def test_what_waits_is_due_once_its_time_has_come() -> None:
    machine = Fights()
    change = update("a")
    for _ in range(FREE_REPAIRS + 1):
        machine.wrote(change, 10.0)
    assert machine.waits(CART, change, 10.5)
    assert machine.waits(CART, change, 10.6)
    assert machine.due(10.9) == []
    assert machine.due(11.0) == [CART]
    assert machine.due(11.0) == []
    assert not machine.waits(CART, change, 11.0)


def test_after_a_calm_time_earlier_repairs_are_forgotten() -> None:
    machine = Fights()
    repaired_until(machine, update("a"), 2.0)
    assert machine.present()
    late = 2.0 + CALM_SECONDS
    assert not machine.waits(CART, update("a"), late)
    machine.wrote(update("a"), late)
    assert machine.present() == []
    machine.due(late + CALM_SECONDS)
    assert not machine.waits(CART, update("a"), late + CALM_SECONDS)


def test_the_wait_is_bounded() -> None:
    machine = Fights()
    for _ in range(500):
        machine.wrote(update("a"), 10.0)
    assert machine.waits(CART, update("a"), 9.9 + MOST_SECONDS)
    assert not machine.waits(CART, update("a"), 10.0 + MOST_SECONDS)


def test_content_is_what_is_ours_to_say_in_any_order() -> None:
    ours = {"replicator.dev/slice-key": "x"}
    same = content_of(update("a", "b", annotations=ours))
    theirs = {**ours, "tool.example/touched": "5"}
    assert content_of(update("b", "a", annotations=theirs, labels={"x": "y"})) == same
    assert content_of(SliceChange(ChangeOp.CREATE, manifest("a", "b", annotations=ours))) == same
    assert content_of(update("a", "b")) != same
    assert content_of(update("a")) != content_of(update("b"))
    gone = content_of(SliceChange(ChangeOp.DELETE, manifest("a")))
    assert gone == content_of(SliceChange(ChangeOp.DELETE, manifest("b"))) != content_of(update())
    service = {"kind": "Service", "metadata": {"namespace": "shop", "name": "cart"}, "spec": {}}
    assert content_of(SliceChange(ChangeOp.UPDATE, service))
