"""What the simulator found in the core, each as the shortest schedule that shows it."""

from __future__ import annotations

from replicator.simulation.plan import READY_BIT, Plan, Step
from replicator.simulation.run import run


def test_two_writers_that_end_on_one_version_do_not_leave_the_peers_with_the_wrong_one() -> None:
    """A second agent and the restarted first go on from the same ceiling, so stamps collide.

    The restarted agent sees both changes at once and in another order: one version, two states.
    The peer keeps the larger root, which is the other writer's, and the owner, at the same version,
    once never asked; so as long as nothing changed, they differed.
    """
    steps = (
        Step(3.0, "twin", "r1", seconds=6.0),
        Step(3.1, "crash", "r1", seconds=1.0, amount=1000),
        Step(3.2, "change", "r1", "search", amount=READY_BIT | 2),
        Step(3.4, "change", "r1", "cart", amount=READY_BIT | 1),
    )
    plan = Plan(seed=1, regions=("r1", "r2"), seconds=10.0, tick=0.1, steps=steps)
    assert run(plan).found is None


def test_a_clock_that_was_hours_ahead_at_the_start_is_got_over_by_all() -> None:
    """The region that hears r2 first knows no other origin, so it takes the head of the future.

    The third holds r2 back: it alone complains, which is not most of r2's peers, and the clock
    being right again once moved nothing.
    """
    steps = (Step(0.16, "clock", "r2", amount=7_200_000_000_000),)
    names = ("r1", "r2", "r3")
    plan = Plan(seed=300, regions=names, seconds=1.16, tick=0.25, delay=0.03, steps=steps)
    assert run(plan).found is None


def test_of_two_states_of_one_version_the_larger_stays_whenever_it_was_issued() -> None:
    """The second agent and the restarted first sign one version, the first two hours "earlier".

    Its state is the larger, so it replaces the other's: a defect of the monitor, which took the
    issue times of two states to rise like those of one.
    """
    steps = (
        Step(0.16, "partition", "r2", "r1", 0.503, 1),
        Step(0.61, "change", "r1", "cart", amount=84),
        Step(0.744, "change", "r1", "pay", amount=READY_BIT | 50),
        Step(0.892, "change", "r1", "pay", amount=READY_BIT | 10),
        Step(1.154, "twin", "r1", seconds=0.934),
        Step(1.262, "change", "r1", "cart"),
        Step(1.351, "change", "r1", "search", amount=READY_BIT | 14),
        Step(1.438, "crash", "r1", "silent", 3.877, 1000),
        Step(2.7, "clock", "r1", amount=-7_199_950_327_482),
        Step(2.73, "partition", "r2", "r1", 4.682, 1),
        Step(3.537, "change", "r1", "pay", amount=READY_BIT | 24),
        Step(4.389, "change", "r1", "search", amount=READY_BIT | 41),
    )
    plan = Plan(
        seed=1406, regions=("r1", "r2"), seconds=6.0, tick=0.25, delay=0.002, chunk=200, steps=steps
    )
    assert run(plan).found is None


def test_a_complaint_about_a_clock_and_its_end_do_not_go_round_for_ever() -> None:
    """r5 is just an hour behind r1, holds it back, and lets it go as soon as time has passed.

    What is said of r1 and what ends it were once passed on by everybody as news whenever they
    differed from what was heard last; on a mesh the two overtook each other and multiplied.
    """
    steps = (
        Step(3.0, "clock", "r5", amount=-3_599_400_000_000),
        Step(5.0, "clock", "r1", amount=1_000_000_000),
        *(
            Step(5.1 + 0.3 * n, "change", "r1", "cart", amount=READY_BIT | (n % 4 + 1))
            for n in range(12)
        ),
    )
    names = ("r1", "r2", "r3", "r4", "r5")
    assert run(Plan(seed=1, regions=names, seconds=12.0, tick=0.1, steps=steps)).found is None


def test_two_that_forgot_and_then_admitted_each_other_come_together_again() -> None:
    """Each took only a higher epoch of the other, and learned from the other alone to open one."""
    steps = (
        Step(4.537, "forget", "r1", "r2"),
        Step(4.871, "forget", "r2", "r1"),
    )
    plan = Plan(seed=44, regions=("r1", "r2"), seconds=4.872, tick=0.25, delay=0.03, steps=steps)
    report = run(plan)
    assert report.found is None
    assert report.notices["cluster_admitted"] >= 2


def test_a_floor_of_former_stamps_does_not_outlive_them() -> None:
    """A floor that was due while all was to be stated anew became one far above the new stamps.

    No snapshot could then lead to the head: the sender began it over and over, without a pause.
    """
    steps = (
        Step(2.31, "change", "r1", "cart", amount=69),
        Step(2.318, "clock", "r1", amount=7_200_541_432_944),
        Step(7.318, "bulk", "r1", amount=20),
        Step(7.859, "change", "r1", "cart", amount=64),
        Step(9.803, "change", "r2", "search", amount=97),
    )
    plan = Plan(413, ("r1", "r2"), seconds=10.0, tick=0.25, chunk=1000, delay=0.2, steps=steps)
    report = run(plan)
    assert report.found is None
    assert report.frames < 1000


def test_what_rots_just_before_its_owner_loses_its_disk_is_mended_all_the_same() -> None:
    """The owner starts in an epoch that is over, and only who holds its state rotten could say so.

    That replica once told nobody anything of what had rotted, not even the signed head, and waited
    for a state that the owner, which knew of no higher epoch, could not give.
    """
    steps = (
        Step(3.0, "change", "r2", "pay", amount=READY_BIT | 1),
        Step(5.0, "disk", "r2", seconds=0.2, amount=1000),
        Step(12.0, "rot", "r1", "r2", amount=17),
        Step(12.3, "disk", "r2", seconds=0.3, amount=602),
    )
    plan = Plan(seed=232, regions=("r1", "r2"), seconds=13.0, tick=0.1, steps=steps)
    report = run(plan)
    assert report.found is None
    assert report.notices["audit_failed"] == 1


def test_a_flipped_bit_is_mended_while_its_owner_goes_on() -> None:
    steps = (
        Step(1.0, "bulk", "r2", amount=100),
        *(Step(3.0 + at / 10, "rot", "r1", "r2", amount=at) for at in range(1, 6)),
        *(Step(3.0 + at / 10, "change", "r2", "pay", amount=READY_BIT | at) for at in range(1, 30)),
    )
    plan = Plan(seed=1, regions=("r1", "r2"), seconds=7.0, tick=0.1, steps=steps)
    report = run(plan)
    assert report.found is None
    assert report.notices["audit_failed"] >= 1
    assert report.notices["repair_begun"] >= 1


def test_a_state_from_the_future_of_one_that_forgot_its_holders_is_waited_for_by_nobody() -> None:
    """r3's clock was hours ahead; it was put right in a new epoch after r3 forgot r2 and r4.

    One of the two had taken the state from the future, the other held it back: they cannot agree
    on it before r3 admits them, and on all else they do.
    """
    steps = (
        Step(0.607, "break", "r1", "r3"),
        Step(0.684, "crash", "r4", "silent", seconds=0.469, amount=999),
        Step(1.922, "version", "r1", seconds=9.02, amount=1),
        Step(3.034, "clock", "r3", amount=7_200_148_326_121),
        Step(3.052, "crash", "r2", "silent", seconds=8.201),
        Step(7.632, "crash", "r3", "silent", seconds=0.798, amount=381),
        Step(8.001, "forget", "r1", "r4"),
        Step(8.018, "forget", "r1", "r2"),
        Step(8.545, "stop", "r3", seconds=1.312),
        Step(8.728, "change", "r3", "pay", amount=65),
    )
    names, older = ("r1", "r2", "r3", "r4"), ("r1", "r2", "r3")
    plan = Plan(963, names, seconds=9.96, tick=0.25, delay=0.2, older=older, steps=steps)
    report = run(plan)
    assert report.found is None
    assert report.notices["cluster_forgotten"] >= 2
    assert report.notices["origin_held_back"] >= 1


def test_what_was_put_right_is_asked_for_although_a_relay_still_has_the_future() -> None:
    """Told of r2's new epoch, the others asked r1, which had taken r2's state from the future.

    They avoided r2, from which they had just held that state back, held it back again, and waited
    for an advert that r2 had no reason to repeat.
    """
    steps = (
        Step(0.345, "forget", "r4", "r3"),
        Step(1.888, "clock", "r2", amount=7_200_084_483_328),
        Step(8.96, "change", "r2", "pay", amount=65),
        Step(9.301, "disk", "r4", seconds=0.346, amount=1000),
        Step(9.475, "forget", "r2", "r1"),
    )
    names = ("r1", "r2", "r3", "r4")
    plan = Plan(seed=41983, regions=names, seconds=9.476, tick=0.25, delay=0.002, steps=steps)
    report = run(plan)
    assert report.found is None
    assert report.notices["origin_held_back"] >= 3


def test_what_rots_where_its_owner_forgot_the_cluster_is_waited_for_by_nobody() -> None:
    """r2 forgot r1, so r1 cannot ask it; until it is admitted again r1 and r3 differ in r2."""
    steps = (
        Step(0.481, "forget", "r1", "r3"),
        Step(0.707, "change", "r2", "pay", amount=66),
        Step(0.808, "forget", "r2", "r1"),
        Step(0.85, "rot", "r1", "r2"),
        Step(2.03, "admit", "r1", "r3"),
    )
    names = ("r1", "r2", "r3")
    plan = Plan(seed=45290, regions=names, seconds=2.031, tick=0.25, delay=0.03, steps=steps)
    report = run(plan)
    assert report.found is None
    assert report.notices["audit_failed"] >= 1
