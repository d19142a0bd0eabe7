"""The elector: who leads, from when to when, and under which number (rule C10)."""

from __future__ import annotations

import math

import pytest

from clusters.errors import LeaseConflictError
from clusters.lease import LeaseClaim, LeaseRecord
from clusters.lease_memory import MemoryLease
from replicator.election import Elector, LeaseTiming, ReadLease, WriteLease


class Agent:
    """An elector whose calls are carried out at once, unless the test answers them itself."""

    def __init__(self, me: str, lease: MemoryLease, *, former: str = "") -> None:
        self.elector = Elector(me, former=former)
        self.lease = lease

    def act(self, now: float) -> list[str]:
        """Carry out all steps that are due; what they were."""
        done = []
        while (step := self.elector.step(now)) is not None:
            done.append(self.carry_out(step, now))
            assert len(done) < 10, done
        return done

    def carry_out(self, step: ReadLease | WriteLease, now: float) -> str:
        if isinstance(step, ReadLease):
            self.elector.was_read(self.lease.look(), now)
            return "read"
        try:
            record = self.lease.swap(step.claim, step.after)
        except LeaseConflictError:
            self.elector.conflicted(now)
            return "conflict"
        self.elector.wrote(record, now)
        return f"write {step.claim.holder or 'nobody'} {step.claim.transitions}"

    def live(self, begin: float, end: float) -> None:
        """Wake and act whenever the elector wants to, up to and including ``end``."""
        at = begin
        while at <= end:
            self.act(at)
            assert self.elector.wake_at > at
            at = self.elector.wake_at

    def leads(self, now: float) -> int | None:
        return self.elector.leads(now)


def held(lease: MemoryLease, holder: str = "other", number: int = 3) -> LeaseRecord:
    return lease.swap(LeaseClaim(holder, number, 15.0), lease.look())


@pytest.fixture
def lease() -> MemoryLease:
    return MemoryLease()


@pytest.fixture
def agent(lease: MemoryLease) -> Agent:
    return Agent("me", lease)


# ---- leading -----------------------------------------------------------------------------------


def test_a_lease_that_never_was_is_taken_at_once(agent: Agent) -> None:
    assert agent.leads(0.0) is None
    assert agent.act(0.0) == ["read", "write me 1"]
    assert agent.leads(0.0) == 1
    assert agent.elector.holder == "me"


def test_a_leader_renews_every_two_seconds_and_keeps_its_number(
    agent: Agent, lease: MemoryLease
) -> None:
    agent.act(0.0)
    for beat in range(1, 50):
        assert agent.elector.wake_at == 2.0 * beat
        assert agent.act(2.0 * beat - 0.001) == []
        assert agent.act(2.0 * beat) == ["write me 1"]
        assert agent.leads(2.0 * beat + 9.999) == 1
    assert lease.look() == LeaseRecord("me", 1, 15.0, "50", "50")


def test_a_leader_stops_ten_seconds_after_the_beginning_of_its_last_renewal(agent: Agent) -> None:
    agent.act(0.0)
    step = agent.elector.step(2.0)
    assert isinstance(step, WriteLease)
    agent.carry_out(step, 4.5)
    assert agent.leads(11.999) == 1
    assert agent.leads(12.0) is None


def test_the_end_of_leading_is_woken_for_while_a_call_hangs(agent: Agent) -> None:
    agent.act(0.0)
    assert agent.elector.step(2.0) is not None
    assert agent.elector.wake_at == 10.0
    assert agent.elector.step(10.0) is None
    assert agent.leads(10.0) is None
    assert agent.elector.wake_at == math.inf


def test_a_renewal_that_cannot_be_made_is_tried_until_the_end(agent: Agent) -> None:
    agent.act(0.0)
    tries = []
    now = 0.0
    while agent.leads(now := agent.elector.wake_at) is not None:
        step = agent.elector.step(now)
        assert isinstance(step, WriteLease)
        tries.append((now, step.until))
        assert agent.elector.wake_at == 10.0
        agent.elector.failed(step.until)
    assert tries == [(2.0, 5.0), (5.0, 8.0), (8.0, 11.0)]


def test_failures_that_come_at_once_are_paced(agent: Agent) -> None:
    agent.act(0.0)
    assert agent.elector.step(2.0) is not None
    agent.elector.failed(2.0)
    assert agent.elector.wake_at == 4.0


def test_who_lapsed_takes_its_own_lease_under_the_next_number(agent: Agent) -> None:
    agent.act(0.0)
    assert agent.act(30.0) == ["read", "write me 2"]
    assert agent.leads(30.0) == 2


def test_a_renewal_that_succeeds_after_the_lapse_does_not_bring_the_old_number_back(
    agent: Agent,
) -> None:
    agent.act(0.0)
    step = agent.elector.step(9.0)
    assert isinstance(step, WriteLease)
    assert agent.elector.step(10.5) is None
    assert agent.carry_out(step, 11.0) == "write me 1"
    assert agent.leads(11.0) is None
    assert agent.act(11.0) == ["read", "write me 2"]


def test_a_renewal_whose_answer_was_lost_is_found_and_leading_goes_on(agent: Agent) -> None:
    agent.act(0.0)
    step = agent.elector.step(2.0)
    assert isinstance(step, WriteLease)
    agent.lease.swap(step.claim, step.after)
    agent.elector.failed(5.0)
    assert agent.act(5.0) == ["conflict", "read", "write me 1"]
    assert agent.leads(14.999) == 1


def test_a_taking_whose_answer_was_lost_is_repeated_under_the_next_number(agent: Agent) -> None:
    agent.elector.step(0.0)
    agent.elector.was_read(None, 0.0)
    step = agent.elector.step(0.0)
    assert isinstance(step, WriteLease)
    agent.lease.swap(step.claim, step.after)
    agent.elector.failed(3.0)
    assert agent.leads(3.0) is None
    assert agent.act(3.0) == ["read", "write me 2"]
    assert agent.leads(3.0) == 2


@pytest.mark.parametrize("number", [1, 2])
def test_a_leader_whose_lease_was_taken_stops_with_its_next_renewal(
    agent: Agent, lease: MemoryLease, number: int
) -> None:
    agent.act(0.0)
    held(lease, "other", number)
    assert agent.act(2.0) == ["conflict", "read"]
    assert agent.leads(2.0) is None
    assert agent.elector.holder == "other"


def test_a_leader_whose_lease_says_another_number_stops(agent: Agent, lease: MemoryLease) -> None:
    agent.act(0.0)
    held(lease, "me", 5)
    assert agent.act(2.0) == ["conflict", "read", "write me 6"]
    assert agent.leads(2.0) == 6


def test_a_leader_whose_lease_was_deleted_makes_it_again_under_the_next_number(
    agent: Agent, lease: MemoryLease
) -> None:
    agent.act(0.0)
    lease.delete()
    assert agent.act(2.0) == ["conflict", "read", "write me 2"]
    assert agent.leads(2.0) == 2


# ---- standing by -------------------------------------------------------------------------------


def test_a_held_lease_is_taken_after_it_was_seen_unchanged_for_its_duration(
    agent: Agent, lease: MemoryLease
) -> None:
    held(lease)
    agent.live(0.0, 14.999)
    assert agent.leads(14.999) is None
    assert agent.elector.wake_at == 15.0
    assert agent.act(15.0) == ["read", "write me 4"]
    assert agent.leads(15.0) == 4


def test_the_duration_is_what_its_holder_asks_for(agent: Agent, lease: MemoryLease) -> None:
    lease.swap(LeaseClaim("other", 3, 40.0), None)
    agent.live(0.0, 39.999)
    assert agent.leads(39.999) is None
    agent.live(40.0, 40.0)
    assert agent.leads(40.0) == 4


def test_every_renewal_seen_begins_the_wait_anew(agent: Agent, lease: MemoryLease) -> None:
    for beat in range(20):
        held(lease)
        agent.live(10.0 * beat, 10.0 * beat + 9.999)
        assert agent.leads(10.0 * beat + 9.999) is None
    agent.live(200.0, 204.999)
    assert agent.leads(204.999) is None
    agent.live(205.0, 205.0)
    assert agent.leads(205.0) == 4


def test_a_renewal_at_the_last_moment_is_a_conflict_not_a_taking(
    agent: Agent, lease: MemoryLease
) -> None:
    held(lease)
    agent.live(0.0, 14.999)
    step = agent.elector.step(15.0)
    assert step == ReadLease(until=18.0)
    agent.elector.was_read(lease.look(), 15.0)
    renewed = held(lease)
    assert agent.act(15.0) == ["conflict", "read"]
    assert agent.leads(15.0) is None
    assert lease.look() == renewed
    agent.live(17.0, 29.999)
    assert agent.leads(29.999) is None


def test_a_released_lease_is_taken_with_the_next_read(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    assert agent.act(0.0) == ["read"]
    held(lease, "")
    assert agent.act(1.0) == []
    assert agent.act(2.0) == ["read", "write me 4"]


def test_a_holder_that_says_so_is_followed_at_once(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    agent.act(0.0)
    held(lease, "")
    agent.elector.released(0.5)
    assert agent.act(0.5) == ["read", "write me 4"]


def test_a_life_of_ours_that_is_over_is_not_waited_for(lease: MemoryLease) -> None:
    held(lease, "former")
    agent = Agent("me", lease, former="former")
    assert agent.act(0.0) == ["read", "write me 4"]


def test_a_deleted_lease_counts_as_held_by_who_held_it(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    agent.act(0.0)
    lease.delete()
    agent.live(2.0, 16.999)
    assert agent.leads(16.999) is None
    assert agent.elector.holder == "other"
    assert agent.act(17.0) == ["read", "write me 4"]


def test_a_lease_made_again_meanwhile_is_waited_for_anew(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    agent.act(0.0)
    lease.delete()
    agent.act(2.0)
    held(lease, "third", 4)
    agent.live(4.0, 18.999)
    assert agent.leads(18.999) is None
    agent.live(19.0, 19.0)
    assert agent.leads(19.0) == 5


def test_a_failed_taking_is_preceded_by_a_read_again(agent: Agent, lease: MemoryLease) -> None:
    held(lease, "")
    assert agent.elector.step(0.0) is not None
    agent.elector.was_read(lease.look(), 0.0)
    assert isinstance(agent.elector.step(0.0), WriteLease)
    agent.elector.failed(0.5)
    assert agent.act(2.0) == ["read", "write me 4"]


# ---- early -------------------------------------------------------------------------------------


def test_a_lost_holder_that_does_not_renew_for_six_seconds_is_replaced(
    agent: Agent, lease: MemoryLease
) -> None:
    held(lease)
    agent.act(0.0)
    agent.elector.contact_lost("other", 1.0)
    agent.live(1.0, 5.999)
    assert agent.leads(5.999) is None
    assert agent.act(6.0) == ["read", "write me 4"]


def test_a_holder_lost_late_is_replaced_at_once(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    agent.live(0.0, 9.0)
    agent.elector.contact_lost("other", 9.5)
    assert agent.act(9.5) == ["read", "write me 4"]


def test_a_lost_holder_that_renews_is_left_alone(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    agent.act(0.0)
    agent.elector.contact_lost("other", 0.5)
    for beat in range(1, 30):
        agent.live(2.0 * beat - 1.5, 2.0 * beat)
        held(lease)
    assert agent.leads(60.0) is None


def test_a_link_that_came_back_ends_the_hurry(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    agent.act(0.0)
    agent.elector.contact_lost("other", 1.0)
    agent.elector.contact_made("other")
    agent.live(1.0, 14.999)
    assert agent.leads(14.999) is None


def test_a_link_that_comes_back_between_read_and_write_still_counts(
    agent: Agent, lease: MemoryLease
) -> None:
    held(lease)
    agent.act(0.0)
    agent.elector.contact_lost("other", 8.0)
    agent.elector.step(8.0)
    agent.elector.was_read(lease.look(), 8.0)
    agent.elector.contact_made("other")
    assert agent.act(8.0) == ["read"]
    assert agent.leads(8.0) is None


def test_losing_somebody_else_changes_nothing(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    agent.act(0.0)
    agent.elector.contact_lost("third", 1.0)
    agent.live(1.0, 14.999)
    assert agent.leads(14.999) is None


def test_a_holder_that_was_lost_before_it_held_is_still_lost(
    agent: Agent, lease: MemoryLease
) -> None:
    held(lease)
    agent.act(0.0)
    held(lease, "third", 4)
    agent.elector.contact_lost("third", 1.0)
    agent.live(1.0, 6.999)
    assert agent.leads(6.999) is None
    agent.live(7.0, 7.0)
    assert agent.leads(7.0) == 5


def test_a_hint_during_a_read_is_followed_by_another_read(agent: Agent, lease: MemoryLease) -> None:
    before = held(lease)
    assert agent.elector.step(0.0) is not None
    agent.elector.released(0.1)
    assert agent.elector.step(0.1) is None
    agent.elector.was_read(before, 0.2)
    held(lease, "")
    assert agent.act(0.2) == ["read", "write me 4"]


def test_hints_do_not_disturb_a_leader(agent: Agent) -> None:
    agent.act(0.0)
    agent.elector.contact_lost("other", 0.5)
    agent.elector.released(0.5)
    assert agent.elector.wake_at == 2.0


# ---- numbers -----------------------------------------------------------------------------------


def test_a_taking_exceeds_every_epoch_met(agent: Agent, lease: MemoryLease) -> None:
    held(lease, "")
    agent.elector.exceed(41, 0.0)
    agent.elector.exceed(7, 0.0)
    assert agent.act(0.0) == ["read", "write me 42"]


@pytest.mark.parametrize(("met", "number"), [(1, 2), (9, 10)])
def test_a_leader_that_meets_an_epoch_not_below_its_own_takes_its_lease_anew(
    agent: Agent, met: int, number: int
) -> None:
    agent.act(0.0)
    agent.elector.exceed(met, 0.5)
    assert agent.leads(0.5) == 1
    assert agent.act(0.5) == [f"write me {number}"]
    assert agent.leads(0.5) == number
    assert agent.act(2.5) == [f"write me {number}"]


def test_a_leader_is_not_disturbed_by_a_lower_epoch(agent: Agent) -> None:
    agent.elector.exceed(5, 0.0)
    agent.act(0.0)
    agent.elector.exceed(5, 1.0)
    assert agent.leads(1.0) == 6
    assert agent.elector.wake_at == 2.0


def test_numbers_rise_over_a_lease_that_was_deleted_or_set_back(
    agent: Agent, lease: MemoryLease
) -> None:
    held(lease, "other", 8)
    agent.act(0.0)
    lease.delete()
    held(lease, "", 1)
    assert agent.act(2.0) == ["read", "write me 9"]


# ---- stopping ----------------------------------------------------------------------------------


def test_a_leader_that_stops_gives_the_lease_back(agent: Agent, lease: MemoryLease) -> None:
    agent.act(0.0)
    agent.elector.stop(1.0)
    assert agent.leads(1.0) is None
    assert not agent.elector.finished
    assert agent.elector.wake_at <= 1.0
    assert agent.act(1.0) == ["write nobody 1"]
    assert agent.elector.finished
    assert agent.elector.wake_at == math.inf
    assert lease.look() == LeaseRecord("", 1, 1.0, "2", "2")


def test_a_stand_by_stops_at_once(agent: Agent, lease: MemoryLease) -> None:
    held(lease)
    agent.act(0.0)
    agent.elector.stop(1.0)
    assert agent.elector.finished
    assert agent.act(1.0) == []


def test_one_that_was_to_take_it_stops_without_touching_it(
    agent: Agent, lease: MemoryLease
) -> None:
    left = held(lease, "")
    agent.elector.step(0.0)
    agent.elector.was_read(left, 0.0)
    agent.elector.stop(0.0)
    assert agent.act(0.0) == []
    assert lease.look() == left


def test_who_stops_does_not_give_back_what_another_holds(agent: Agent, lease: MemoryLease) -> None:
    agent.act(0.0)
    taken = held(lease, "other", 2)
    agent.elector.stop(1.0)
    assert agent.act(1.0) == ["conflict", "read"]
    assert agent.elector.finished
    assert lease.look() == taken


def test_who_stops_after_it_lost_the_lease_looks_once_more(
    agent: Agent, lease: MemoryLease
) -> None:
    agent.act(0.0)
    held(lease, "other", 2)
    agent.act(2.0)
    agent.elector.stop(3.0)
    assert agent.act(3.0) == ["read"]
    assert agent.elector.finished


@pytest.mark.parametrize("begun", [2.0, 0.0])
def test_a_write_under_way_when_it_stops_is_given_back(
    agent: Agent, lease: MemoryLease, begun: float
) -> None:
    if begun:
        agent.act(0.0)
    else:
        agent.elector.step(0.0)
        agent.elector.was_read(None, 0.0)
    step = agent.elector.step(begun)
    assert isinstance(step, WriteLease)
    agent.elector.stop(begun + 0.5)
    assert agent.elector.step(begun + 0.5) is None
    agent.carry_out(step, begun + 1.0)
    assert agent.leads(begun + 1.0) is None
    assert agent.act(begun + 1.0)[-1] == "write nobody 1"
    assert agent.elector.finished


def test_a_release_that_fails_is_tried_again_and_given_up_in_the_end(agent: Agent) -> None:
    agent.act(0.0)
    agent.elector.stop(1.0)
    tries: list[tuple[float, float]] = []
    while not agent.elector.finished:
        now = agent.elector.wake_at if tries else 1.0
        step = agent.elector.step(now)
        if step is not None:
            tries.append((now, step.until))
            agent.elector.failed(now)
    assert tries == [(1.0, 4.0), (3.0, 4.0)]
    assert agent.elector.finished


def test_an_answer_to_nothing_is_a_fault_of_the_caller(agent: Agent) -> None:
    with pytest.raises(RuntimeError, match="an answer without a step"):
        agent.elector.failed(0.0)


def test_times_can_be_chosen() -> None:
    lease = MemoryLease()
    elector = Elector("me", LeaseTiming(duration=3.0, deadline=2.0, retry=0.5))
    elector.step(0.0)
    elector.was_read(None, 0.0)
    step = elector.step(0.0)
    assert isinstance(step, WriteLease)
    elector.wrote(lease.swap(step.claim, None), 0.0)
    assert (step.claim.duration, elector.wake_at) == (3.0, 0.5)
    assert (elector.leads(1.999), elector.leads(2.0)) == (1, None)
