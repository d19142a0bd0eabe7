"""The monitor sees each lie it is there for: a sound world, one thing made wrong, one property."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from crdt import Change, Origin, Version, pack
from replicator import membership, policies
from replicator import messages as m
from replicator.codec import encode
from replicator.effects import Changed
from replicator.kinds import ADMIT, FORGET
from replicator.membership import Cell
from replicator.own_origin import OwnBatch
from replicator.policies import Subject, topic_about
from replicator.simulation.counting import counted
from replicator.simulation.disk import Disk
from replicator.simulation.faults import decide
from replicator.simulation.monitor import Violation
from replicator.simulation.plan import READY_BIT, Plan, Step
from replicator.simulation.process import Process
from replicator.simulation.run import rested, run
from replicator.simulation.world import World

R1, R2 = Origin("r1"), Origin("r2")
GONE = Version(9, 9)
DRAINED = policies.Cell(1, "r1", pack([1, "r1", "drained"]))


@pytest.fixture
def world() -> World:
    """Two replicas that agree on a few endpoints."""
    world = World(Plan(seed=1, regions=("r1", "r2"), seconds=5.0, tick=0.1))
    for name, bits in (("r1", 0b101), ("r2", 0b11)):
        world.sites[name].set("cart", READY_BIT | bits)
    world.run(5.0)
    assert len({process.replica.announcements.digest() for process in world.running()}) == 1
    return world


def broken(rule: str, act: Callable[[], object]) -> str:
    """What the monitor says of ``act``, which must break property ``rule``."""
    with pytest.raises(Violation) as caught:
        act()
    assert caught.value.rule == rule
    return caught.value.detail


def change(process: Process, name: str = "r1") -> Change:
    """A change that takes an element of ``name`` away from what consumers hold."""
    remote = process.replica.remotes[Origin(name)]
    element, stamp, value = min(remote.elements.live())
    return Change(element, value, None, stamp + 1)


def told(process: Process, *changes: Change, origin: Origin = R1) -> None:
    process.changed.append(Changed(origin, frozenset(), changes, None))


def transfer(process: Process, **fields: object) -> bytes:
    """The last head of r1 as ``process`` would send it, with ``fields`` changed."""
    remote = process.replica.remotes[R1]
    head = remote.head
    assert head is not None
    usual: dict[str, object] = {
        "origin": R1,
        "epoch": head.epoch,
        "snapshot": False,
        "start": head.stamp,
        "to": head.stamp,
        "entries": (),
        "head": head,
    }
    return encode(m.Transfer(**{**usual, **fields}))  # type: ignore[arg-type]


def test_a_sound_world_is_left_alone(world: World) -> None:
    for process in world.running():
        world.monitor.look(process)
        world.monitor.at_rest(world.processes)
    before = world.monitor.checks
    world.monitor.look(world.processes["r1"])
    assert world.monitor.checks == before + 1


def test_a_change_of_what_was_not_shown_is_seen(world: World) -> None:
    process = world.processes["r2"]
    told(process, change(process)._replace(before=b"other"))
    assert "not shown" in broken("12", lambda: world.monitor.look(process))


def test_a_view_that_is_not_the_owners_is_seen_at_the_next_head(world: World) -> None:
    process = world.processes["r2"]
    told(process, change(process))
    world.monitor.look(process)
    remote = process.replica.remotes[R1]
    assert remote.head is not None
    remote.head = replace(remote.head, issued_at=remote.head.issued_at + 1)
    assert "never had" in broken("12", lambda: world.monitor.look(process))


def test_a_set_that_differs_from_what_was_told_is_seen(world: World) -> None:
    process = world.processes["r2"]
    remote = process.replica.remotes[R1]
    assert remote.head is not None
    remote.elements._entries.pop(change(process).element)
    remote.head = replace(remote.head, issued_at=remote.head.issued_at + 1)
    assert "than it told" in broken("12", lambda: world.monitor.look(process))


def test_a_head_that_was_never_sealed_is_seen(world: World) -> None:
    process = world.processes["r2"]
    remote = process.replica.remotes[R1]
    assert remote.head is not None
    remote.head = replace(remote.head, root=bytes(32))
    assert "never sealed" in broken("12", lambda: world.monitor.look(process))


def test_a_set_moved_without_a_head_is_seen(world: World) -> None:
    process = world.processes["r2"]
    process.replica.remotes[R1].elements.version = GONE
    assert "without a head" in broken("12", lambda: world.monitor.look(process))


def test_a_version_that_moves_back_is_seen(world: World) -> None:
    process = world.processes["r2"]
    remote = process.replica.remotes[R1]
    assert remote.head is not None
    remote.head = replace(remote.head, issued_at=remote.head.issued_at - 1)
    assert "went back" in broken("13", lambda: world.monitor.look(process))


def test_an_advert_or_a_want_of_what_was_not_committed_is_seen(world: World) -> None:
    process, number = world.processes["r2"], 1
    advert = m.Advert(R1, GONE, 0, bytes(8))
    for message in (m.Heads((advert,)), m.Want(R1, GONE)):
        frame = encode(message)
        assert "claims" in broken("14", lambda f=frame: world.monitor.sends(process, number, f))


def test_a_want_may_go_on_from_what_was_staged_of_what_somebody_told(world: World) -> None:
    process, number = world.processes["r2"], 1
    process.replica.remotes[R1].supply.highest = GONE
    world.monitor.sends(process, number, encode(m.Want(R1, GONE)))
    beyond = encode(m.Want(R1, GONE._replace(stamp=GONE.stamp + 1)))
    assert "claims" in broken("14", lambda: world.monitor.sends(process, number, beyond))
    advert = encode(m.Heads((m.Advert(R1, GONE, 0, bytes(8)),)))
    assert "claims" in broken("14", lambda: world.monitor.sends(process, number, advert))


def test_a_head_of_our_own_that_is_not_on_disk_is_seen(world: World) -> None:
    process = world.processes["r1"]
    frame = encode(m.Heads((m.Advert(R1, GONE, 0, bytes(8)),)))
    assert "not on disk" in broken("28", lambda: world.monitor.sends(process, 1, frame))


def test_an_enquiry_after_our_own_origin_may_name_what_others_hold(world: World) -> None:
    process = world.processes["r1"]
    number = min(process.replica.sessions)
    process.replica.sessions[number].enquiries.add(R1)
    world.monitor.sends(process, number, encode(m.Want(R1, GONE)))


def test_a_chunk_that_claims_more_than_it_carries_is_seen(world: World) -> None:
    process = world.processes["r2"]
    frame = transfer(process, start=0, to=5, head=None)
    assert "but sent" in broken("14", lambda: world.monitor.sends(process, 1, frame))


def test_a_relay_of_what_was_not_committed_is_seen(world: World) -> None:
    process = world.processes["r2"]
    frame = transfer(process, epoch=9, head=None)
    assert "for good" in broken("14", lambda: world.monitor.sends(process, 1, frame))


def test_a_relay_before_the_view_is_current_is_seen(world: World) -> None:
    process = world.processes["r2"]
    process.replica.announcements.relaying = False
    frame = transfer(process)
    assert "relays" in broken("13", lambda: world.monitor.sends(process, 1, frame))


def test_a_batch_sent_before_it_is_on_disk_is_seen(world: World) -> None:
    process = world.processes["r1"]
    head = process.seal(world.now).head
    frame = encode(
        m.Transfer(R1, head.epoch, snapshot=True, start=0, to=head.stamp + 1, entries=(), head=None)
    )
    detail = broken("14", lambda: world.monitor.sends(process, 1, frame))
    assert "but sent" in detail
    frame = transfer(world.processes["r2"], start=head.stamp + 1, to=head.stamp + 1, head=None)
    assert "for good" in broken("28", lambda: world.monitor.sends(process, 1, frame))


def test_a_session_that_keeps_too_much_is_seen(world: World) -> None:
    process = world.processes["r2"]
    number = min(process.replica.sessions)
    process.replica.sessions[number].wanting = {Origin(f"x{n}") for n in range(9)}
    frame = encode(m.Heads(()))
    assert "keeps more" in broken("41", lambda: world.monitor.sends(process, number, frame))


def sealed(world: World, bits: int) -> tuple[Process, OwnBatch]:
    process = world.processes["r1"]
    process.reconcile(world.sites["r1"].set("cart", READY_BIT | bits), world.now)
    return process, process.seal(world.now)


def test_a_stamp_above_the_ceiling_is_seen(world: World) -> None:
    process, batch = sealed(world, 0b1)
    wrong = replace(batch, ceiling=1)
    assert "ceiling" in broken("8", lambda: world.monitor.sealed(process, wrong))


def test_a_batch_that_is_not_what_the_cluster_says_is_seen(world: World) -> None:
    process, batch = sealed(world, 0b1)
    wrong = replace(batch, changes=())
    assert "does not say" in broken("22", lambda: world.monitor.sealed(process, wrong))


def test_a_state_that_is_not_its_changes_is_seen(world: World) -> None:
    process, batch = sealed(world, 0b1)
    process.replica.own.elements._entries.popitem()
    detail = broken("22", lambda: world.monitor.sealed(process, batch))
    assert "not its state" in detail


def test_a_stamp_that_was_used_before_is_seen(world: World) -> None:
    process = world.processes["r1"]
    world.monitor.born(process)
    _, batch = sealed(world, 0b1)
    entries = tuple((e, 1, op, value) for e, _, op, value in batch.entries)
    wrong = replace(batch, entries=entries)
    assert "sent before" in broken("28", lambda: world.monitor.sealed(process, wrong))


def test_two_states_for_one_version_are_seen(world: World) -> None:
    process = world.processes["r1"]
    head = process.replica.own.head
    assert head is not None
    other = replace(head, root=bytes(32))
    assert "two states" in broken("28", lambda: world.monitor.stored(process, other))
    world.monitor.forked.add("r1")
    world.monitor.stored(process, other)


def test_rest_on_something_untrue_is_seen(world: World) -> None:
    process = world.processes["r2"]
    world.processes["r1"].stated_mark = (0, 0)
    detail = broken("45", lambda: world.monitor.at_rest(world.processes))
    assert detail == f"{process.name} does not show what r1 says"


def test_what_is_never_mended_is_no_rest() -> None:
    plan = Plan(seed=1, regions=("r1", "r2"), seconds=1.0, tick=0.1)
    report = run(plan.only(()), None)
    assert report.found is None
    alone = run(Plan(seed=1, regions=("r1",), seconds=1.0, tick=0.1))
    assert alone.found is None
    assert alone.document()["violation"] is None


FORGET_R1, ADMIT_R1 = Cell(1, "r2", FORGET, 9), Cell(2, "r2", ADMIT, 9)


def test_a_decision_that_is_not_gone_by_is_seen(world: World) -> None:
    process = world.processes["r2"]
    process.decided.decide("r1", ADMIT_R1)
    assert "another decision" in broken("27", lambda: world.monitor.look(process))


def test_what_is_kept_of_a_forgotten_cluster_is_seen(world: World) -> None:
    process = world.processes["r2"]
    process.decided.decide("r1", ADMIT_R1)
    process.replica.members.table["r1"] = ADMIT_R1
    assert "keeps" in broken("24", lambda: world.monitor.look(process))
    frame = transfer(process)
    assert "not taken" in broken("24", lambda: world.monitor.sends(process, 1, frame))


def test_a_link_to_a_forgotten_cluster_is_seen(world: World) -> None:
    process = world.processes["r2"]
    process.decided.decide("r1", FORGET_R1)
    process.replica.members.table["r1"] = FORGET_R1
    del process.replica.remotes[R1]
    assert "hears r1" in broken("24", lambda: world.monitor.look(process))


def test_what_is_dropped_and_still_shown_is_seen(world: World) -> None:
    process = world.processes["r2"]
    process.dropped.append(R1)
    assert "still shows" in broken("24", lambda: world.monitor.look(process))


def test_a_decision_that_is_not_stated_again_is_seen(world: World) -> None:
    process, batch = sealed(world, 0b1)
    process.decided.steer(topic_about(Subject("drain", "r2")), DRAINED)
    assert "does not say" in broken("22", lambda: world.monitor.sealed(process, batch))


def test_claims_from_before_a_cluster_was_forgotten_may_be_on_their_way(world: World) -> None:
    process = world.processes["r2"]
    version = process.replica.remotes[R1].version
    decide(world, process, FORGET, "r1")
    assert R1 not in process.replica.remotes
    world.monitor.sends(process, 1, encode(m.Want(R1, version)))
    beyond = encode(m.Want(R1, GONE))
    assert "claims" in broken("14", lambda: world.monitor.sends(process, 1, beyond))
    world.run(world.now + 5.0)
    assert rested(world)  # none is a member for the other, so nothing is asked of them
    assert R2 in world.processes["r1"].replica.remotes
    world.monitor.at_rest(world.processes)


def test_what_counts_at_a_start_is_what_the_disk_says() -> None:
    disk = Disk()
    for number, (element, value) in enumerate(
        [
            (membership.element_of("r3", "r1"), membership.value_of(FORGET_R1)),
            (policies.element_of("r3", topic_about(Subject("drain", "r4"))), DRAINED.value),
        ]
    ):
        disk.rows[element] = (element, number, 0, value)
    found = counted("r2", disk)
    assert found.members == {"r1": FORGET_R1}
    assert found.forgets("r1")
    assert not found.takes("r1", 10)
    assert found.policies == {topic_about(Subject("drain", "r4")): DRAINED}
    before = found.mark
    found.take(pack([1, "r3"]), b"")
    found.take(policies.element_of("r3", topic_about(Subject("drain", "r4"))), pack([]))
    found.decide("r1", Cell(0, "r9", ADMIT, 0))
    assert found.mark == before
    found.decide("r1", ADMIT_R1)
    assert found.mark != before
    assert found.takes("r1", 10)


def test_an_exception_of_the_core_is_a_finding() -> None:
    jump = Step(0.6, "clock", "r1", amount=10**19)
    change = Step(0.7, "change", "r1", "cart", amount=READY_BIT | 1)
    plan = Plan(seed=1, regions=("r1", "r2"), seconds=2.0, tick=0.1, steps=(jump, change))
    report = run(plan)
    assert report.found is not None
    assert report.found.rule == "error"
    assert report.found.detail.startswith("StampError: the clock is beyond")


def test_a_link_that_is_slow_no_longer_brings_at_once_what_it_holds() -> None:
    """Once a frame on a slow link kept its time of arrival when the link was fast again."""
    steps = (
        Step(2.0, "slow", "r1", "r2", 2.0, 200),
        Step(2.1, "bulk", "r1", amount=100),
    )
    report = run(Plan(seed=1, regions=("r1", "r2"), seconds=4.0, tick=0.1, steps=steps))
    assert report.found is None
    assert report.rested_after is not None
    assert report.rested_after <= 3.0
