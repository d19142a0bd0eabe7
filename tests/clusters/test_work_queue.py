"""The work queue: never twice at once, never lost, and slower after failures."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from clusters.errors import ClusterError
from clusters.work_queue import BackOff, QueueClosedError, WorkQueue
from tests.support.clock import FakeClock


def ready(queue: WorkQueue[str]) -> list[str]:
    """Everything that can be fetched without waiting; each is marked done."""
    found = []
    while (key := _fetch(queue)) is not None:
        found.append(key)
        queue.done(key)
    return found


def _fetch(queue: WorkQueue[str]) -> str | None:
    """One key if one is ready; outside of any loop, where waiting for another is a RuntimeError."""
    getting = queue.get()
    try:
        getting.send(None)
    except StopIteration as stop:
        return str(stop.value)
    except RuntimeError:
        return None
    message = "get() waited for something without a loop"
    raise AssertionError(message)


async def test_keys_come_out_in_the_order_they_went_in_and_repeats_wait_once() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["b", "a", "c"]
    assert len(queue) == 0
    assert not queue.idle


async def test_a_key_added_while_worked_on_comes_again_afterwards_and_not_before() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done("a")
    assert await waiting == "a"
    queue.done("a")
    queue.done("a")
    assert queue.idle


async def test_a_lone_key_does_not_wait_for_many_that_were_added_together() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    many = [f"many-{number:04}" for number in range(1000)]
    queue.add_all(many)
    queue.add("lone")
    queue.add("many-0900")
    assert len(queue) == 1001
    first = [await queue.get() for _ in range(2)]
    rest = [await queue.get() for _ in range(999)]
    assert first == ["lone", "many-0900"]
    assert rest == [key for key in many if key != "many-0900"]
    assert len(queue) == 0


async def test_many_keys_get_their_share_beside_lone_ones_that_never_end() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    many = [f"many-{number:04}" for number in range(65)]
    queue.add_all(many)
    queue.add("lone")
    handed = []
    for _ in range(4 * len(many)):
        key = await queue.get()
        queue.done(key)
        queue.add("lone")
        handed.append(key)
    assert [key for key in handed if key != "lone"] == many


async def test_many_keys_added_together_keep_all_that_holds_for_one() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    many = [f"many-{number:04}" for number in range(65)]
    queue.add("many-0000")
    assert await queue.get() == "many-0000"
    queue.retry("many-0001")
    queue.add("many-0002")
    queue.add_all(many)
    assert len(queue) == 65
    handed = [await queue.get() for _ in range(64)]
    assert sorted(handed) == many[1:]
    waiting = asyncio.ensure_future(queue.get())
    await clock.settle()
    assert not waiting.done()
    queue.done("many-0000")
    assert await waiting == "many-0000"
    queue.shut_down()
    queue.add_all(many)
    assert len(queue) == 0


async def test_few_keys_added_together_are_lone_ones() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    queue.add_all([f"many-{number:04}" for number in range(65)])
    queue.add_all(["b", "a"])
    assert [await queue.get() for _ in range(3)] == ["b", "a", "many-0000"]


async def test_a_waiting_getter_wakes_for_a_new_key() -> None:
    queue: WorkQueue[str] = WorkQueue(FakeClock())
    getters = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in ("a", "b", "c"):
        queue.add(key)
    assert sorted(await asyncio.gather(*getters)) == ["a", "b", "c"]


async def test_a_cancelled_getter_takes_no_key_with_it() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.retry("late")
    getter = asyncio.ensure_future(queue.get())
    await clock.settle()
    queue.add("a")
    getter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await getter
    assert await queue.get() == "a"
    clock.advance(1)
    assert await queue.get() == "late"


async def test_failures_of_one_key_double_its_wait_up_to_the_cap() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock, BackOff(first=0.5, cap=3.0))
    for wait in (0.5, 1.0, 2.0, 3.0, 3.0):
        queue.retry("a")
        getter = asyncio.ensure_future(queue.get())
        await clock.run_for(wait - 0.1)
        assert not getter.done()
        await clock.run_for(0.2)
        assert await getter == "a"
        queue.done("a")
    queue.forget("a")
    queue.retry("a")
    clock.advance(0.5)
    assert await queue.get() == "a"
    assert queue.retries == 6


@pytest.mark.parametrize(
    ("failures", "delay"), [(0, 0.005), (1, 0.01), (4, 0.08), (20, 1000.0), (10**6, 1000.0)]
)
def test_the_back_off_doubles_from_five_milliseconds_to_its_cap(
    failures: int, delay: float
) -> None:
    assert BackOff().delay(failures) == delay


async def test_a_key_is_not_handed_out_before_its_back_off_is_over() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock, BackOff(first=1.0))
    queue.retry("a")
    getter = asyncio.ensure_future(queue.get())
    await clock.run_for(0.9)
    assert not getter.done()
    assert len(queue) == 1
    await clock.run_for(0.2)
    assert await getter == "a"


async def test_an_earlier_retry_overtakes_a_later_one_that_is_waited_for() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock, BackOff(first=1.0))
    queue.retry("slow")
    queue.forget("slow")
    clock.advance(1.5)
    assert await queue.get() == "slow"
    queue.retry("slow")
    queue.done("slow")
    getter = asyncio.ensure_future(queue.get())
    await clock.settle()
    queue.add("quick")
    await clock.settle()
    assert await getter == "quick"


async def test_adding_a_delayed_key_makes_it_ready_at_once_and_only_once() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock, BackOff(first=1.0))
    queue.retry("a")
    queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    clock.advance(5)
    queue.add("b")
    assert await queue.get() == "b"
    queue.done("b")
    assert queue.idle


async def test_a_retry_of_a_key_that_waits_anyway_only_counts() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock, BackOff(first=1.0))
    queue.add("a")
    queue.retry("a")
    queue.retry("b")
    queue.retry("b")
    assert (len(queue), queue.retries) == (2, 3)


def test_retries_of_all_keys_share_one_bucket() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock, BackOff(first=0.001, rate=10.0, burst=5))
    for number in range(15):
        queue.retry(f"k{number}")
    came: list[int] = []
    for _ in range(4):
        clock.advance(0.55)
        came.append(len(ready(queue)))
    assert came == [10, 5, 0, 0]


async def test_after_shut_down_what_is_ready_still_comes_out_and_then_the_end() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.add("a")
    queue.retry("late")
    queue.shut_down()
    queue.add("b")
    queue.retry("b")
    assert await queue.get() == "a"
    with pytest.raises(QueueClosedError):
        await queue.get()


async def test_shut_down_ends_the_wait_of_every_getter() -> None:
    clock = FakeClock()
    queue: WorkQueue[str] = WorkQueue(clock)
    queue.retry("late")
    getters = [asyncio.ensure_future(queue.get()) for _ in range(2)]
    await clock.settle()
    queue.shut_down()
    ends = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(end) for end in ends] == [QueueClosedError, QueueClosedError]
    assert clock.sleepers == 0


@pytest.mark.parametrize(
    "wrong", [{"first": 0.0}, {"first": 5.0, "cap": 1.0}, {"rate": 0.0}, {"burst": 0}]
)
def test_settings_under_which_nothing_would_come_back_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ClusterError, match="positive"):
        BackOff(**wrong)  # type: ignore[arg-type]


KEYS = st.sampled_from(["a", "b", "c", "d"])


class QueueMachine(RuleBasedStateMachine):
    """Against the plain statement: every request is followed by a hand-out, one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.queue: WorkQueue[str] = WorkQueue(
            self.clock, BackOff(first=1.0, cap=8.0, rate=2.0, burst=3)
        )
        self.requested: set[str] = set()
        """Keys that must still be handed out."""
        self.working: set[str] = set()

    def _take(self) -> str | None:
        key = _fetch(self.queue)
        if key is not None:
            assert key in self.requested
            assert key not in self.working
            self.requested.discard(key)
            self.working.add(key)
        return key

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.requested.add(key)

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        self.queue.retry(key)
        self.requested.add(key)

    @rule()
    def take(self) -> None:
        self._take()

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.discard(key)
        if data.draw(st.booleans()):
            self.queue.forget(key)

    @rule(seconds=st.floats(0, 3))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def it_counts_what_waits(self) -> None:
        assert len(self.queue) == len(self.requested)
        assert self.queue.idle == (not self.requested and not self.working)

    def teardown(self) -> None:
        """However it ends, everything asked for comes out."""
        for key in sorted(self.working):
            self.queue.done(key)
        self.working.clear()
        self.clock.advance(10_000)
        while (taken := self._take()) is not None:
            self.queue.done(taken)
            self.working.discard(taken)
        assert not self.requested


TestQueueMachine = QueueMachine.TestCase
