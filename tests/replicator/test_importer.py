"""The importer: what it writes, what it waits for, and what it never deletes."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable

import pytest

from clusters.errors import ClusterUnavailableError, NamespaceUnavailableError, WriteError
from clusters.model import Endpoint, Port, ServiceKey, SliceChange
from clusters.simulated import SimulatedCluster
from clusters.work_queue import WorkQueue
from replicator.importer import Importer
from replicator.policies import Rules, Setting, Subject, decided, topic_about
from replicator.staleness import Policy, Rule
from replicator.visibility import Visibility
from replicator.withdrawals import Guard, Withdrawals
from tests.support.clock import FakeClock

CART = ServiceKey("shop", "cart")


class Bed:
    """An importer over a simulated cluster whose refusals are scripted."""

    def __init__(
        self,
        policy: Policy = Policy.KEEP,
        *,
        withdraw_last: bool = False,
        cluster: SimulatedCluster | None = None,
        stored: tuple[str, ...] = (),
    ) -> None:
        self.clock = FakeClock()
        rule = Rule(policy, 60.0, 600.0, withdraw_last)
        self.rules = Rules({})
        self.ready_here = False
        self.visibility = Visibility(
            rule, self.clock.monotonic(), lambda: self.rules, lambda _: self.ready_here, stored
        )
        self.current = True
        self.fresh_at: dict[str, float | None] = {}
        self.cluster = cluster or SimulatedCluster(
            cluster="mesa", seed=1, services=1, endpoints=1, churn=0.0, clock=self.clock
        )
        self.view: dict[str, list[Endpoint]] = {}
        self.known = {"fjord"}
        self.queue: WorkQueue[ServiceKey] = WorkQueue(self.clock)
        self.leads = True
        self.importer = Importer(
            self.cluster,
            self.queue,
            lambda key: self.view if key == CART else {},
            lambda cluster: cluster in self.known,
            self.clock,
            self.visibility,
            withdrawals=Withdrawals(Guard(5, 15.0), 60.0, self.clock.monotonic()),
            writes=lambda: self.leads,
        )

    async def decide(self, *decisions: tuple[Subject, Setting]) -> None:
        """Have these policies hold, and nothing else."""
        cells = {topic_about(subject): decided(value, "x", None) for subject, value in decisions}
        self.rules = Rules(cells)
        await self.settle()

    def offer(self, *addresses: str, cluster: str = "fjord") -> None:
        self.view[cluster] = [Endpoint(a, (Port("http", 8080),)) for a in addresses]

    @property
    def written(self) -> list[str]:
        slices = self.cluster.owned(CART)
        return [a for s in slices for e in s["endpoints"] for a in e["addresses"]]

    @property
    def conditions(self) -> set[tuple[str, bool, bool, bool]]:
        """(address, ready, serving, terminating) of everything written."""
        found = set()
        for manifest in self.cluster.owned(CART):
            for entry in manifest["endpoints"]:
                told = entry["conditions"]
                flags = (told["ready"], told["serving"], told["terminating"])
                found.add((entry["addresses"][0], *flags))
        return found

    async def settle(self) -> None:
        self.queue.add(CART)
        await self.quiet()

    async def quiet(self) -> None:
        """Let the workers finish what is queued."""
        for _ in range(20):
            await self.clock.settle()

    async def hear(self, *clusters: str) -> None:
        """A sign of life of each, and a look at what it changes."""
        self.clock.advance(0.5)
        self.fresh_at |= dict.fromkeys(clusters, self.clock.monotonic())
        await self.review()

    async def pass_by(self, seconds: float, *alive: str) -> None:
        """Time passes; ``alive`` give a sign of life every 30 s."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            self.clock.advance(min(30.0, until - self.clock.monotonic()))
            self.fresh_at |= dict.fromkeys(alive, self.clock.monotonic())
            await self.review()

    async def review(self) -> None:
        """As the agent does with every tick."""
        self.importer.review(self.fresh_at, lambda _: {CART}, current=self.current)
        await self.quiet()

    def counters(self) -> dict[str, int]:
        """Writes by operation."""
        prefix = "materialize_writes_total"
        found = self.importer.counters().items()
        return {name.split('"')[1]: count for name, count in found if name.startswith(prefix)}


@contextlib.asynccontextmanager
async def at_work(made: Bed) -> AsyncIterator[Bed]:
    """A bed whose importer runs."""
    running = [
        asyncio.create_task(made.cluster.run(lambda _: None, made.queue.add)),
        asyncio.create_task(made.importer.run()),
    ]
    try:
        yield made
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@pytest.fixture
async def bed() -> AsyncIterator[Bed]:
    async with at_work(Bed()) as made:
        yield made


async def test_what_is_offered_is_written_once(bed: Bed) -> None:
    bed.offer("10.20.1.4", "10.20.1.5")
    await bed.settle()
    assert bed.written == ["10.20.1.4", "10.20.1.5"]
    await bed.settle()
    assert bed.counters() == {"create": 1}


async def test_nothing_of_a_cluster_is_deleted_before_its_state_is_known(bed: Bed) -> None:
    bed.offer("10.20.1.4")
    await bed.settle()
    bed.view.clear()
    bed.known.clear()
    await bed.settle()
    assert bed.written == ["10.20.1.4"]
    bed.known.add("fjord")
    await bed.settle()
    assert bed.written == []


async def test_a_missing_namespace_is_waited_for_and_not_retried(bed: Bed) -> None:
    calls = []

    def refuse(change: SliceChange) -> Exception | None:
        calls.append(change)
        return NamespaceUnavailableError("no namespace shop")

    bed.cluster.refuse = refuse  # type: ignore[assignment]
    bed.offer("10.20.1.4")
    await bed.settle()
    await bed.clock.run_for(60.0)
    assert len(calls) == 1
    assert bed.importer.waiting == {CART: "namespace_unavailable"}
    bed.cluster.refuse = lambda _: None
    await bed.settle()
    assert bed.written == ["10.20.1.4"]
    assert bed.importer.waiting == {}


async def test_who_stands_by_writes_nothing_and_complains_of_nothing(bed: Bed) -> None:
    bed.cluster.refuse = lambda _: WriteError("invalid", code="refused", retryable=False)  # type: ignore[assignment, return-value]
    bed.offer("10.20.1.4")
    await bed.settle()
    assert bed.importer.failing == {CART: "invalid"}
    bed.leads = False
    await bed.settle()
    assert bed.importer.failing == bed.importer.waiting == {}
    bed.cluster.refuse = lambda _: None
    bed.offer("10.20.1.5")
    await bed.settle()
    await bed.clock.run_for(60)
    assert bed.written == []
    assert bed.importer.counters()["materialize_fight_total"] == 0
    bed.leads = True
    await bed.settle()
    assert bed.written == ["10.20.1.5"]


async def test_a_term_that_ends_between_two_writes_leaves_the_second_to_the_next(
    bed: Bed,
) -> None:
    def lose(_: SliceChange) -> None:
        bed.leads = False

    bed.cluster.refuse = lose
    bed.known.add("tundra")
    bed.offer("10.20.1.4")
    bed.offer("10.30.1.4", cluster="tundra")
    await bed.settle()
    assert len(bed.written) == 1
    bed.leads, bed.cluster.refuse = True, lambda _: None
    await bed.settle()
    assert sorted(bed.written) == ["10.20.1.4", "10.30.1.4"]


async def test_an_unavailable_cluster_is_tried_again_after_a_back_off(bed: Bed) -> None:
    refusals = [ClusterUnavailableError("down"), ClusterUnavailableError("down")]
    bed.cluster.refuse = lambda _: refusals.pop() if refusals else None  # type: ignore[assignment, return-value]
    bed.offer("10.20.1.4")
    await bed.settle()
    assert bed.importer.failing == {CART: "down"}
    await bed.clock.run_for(1.0)
    assert bed.written == ["10.20.1.4"]
    assert bed.importer.failing == {}


async def test_one_refused_object_does_not_stop_the_others(bed: Bed) -> None:
    def refuse(change: SliceChange) -> WriteError | None:
        if "fjord" in str(change.manifest):
            return WriteError("invalid", code="refused", retryable=False)
        return None

    bed.cluster.refuse = refuse
    bed.offer("10.20.1.4")
    bed.offer("10.40.1.4", cluster="tundra")
    await bed.settle()
    assert bed.written == ["10.40.1.4"]
    assert bed.importer.failing == {CART: "invalid"}
    assert bed.importer.counters()['materialize_errors_total{reason="refused"}'] == 1
    await bed.clock.run_for(60.0)
    assert bed.importer.counters()['materialize_errors_total{reason="refused"}'] == 1


async def test_a_conflict_is_planned_again_from_what_is_there(bed: Bed) -> None:
    refusals = [WriteError("conflict", code="conflict", retryable=True)]
    bed.cluster.refuse = lambda _: refusals.pop() if refusals else None
    bed.offer("10.20.1.4")
    await bed.settle()
    await bed.clock.run_for(1.0)
    assert bed.written == ["10.20.1.4"]


# ---- clusters that fell silent -------------------------------------------------------------------

UP = {("10.20.1.4", True, True, False), ("10.20.1.5", True, True, False)}
DOWN = {(address, False, False, terminating) for address, _, _, terminating in UP}


async def heard(bed: Bed) -> None:
    """Let fjord offer two endpoints and be heard."""
    bed.offer("10.20.1.4", "10.20.1.5")
    await bed.hear("fjord")
    await bed.settle()
    await bed.hear("fjord")
    assert bed.conditions == UP


async def test_c49_kept_by_default_however_long_the_silence(bed: Bed) -> None:
    await heard(bed)
    await bed.pass_by(86_400.0)
    await bed.settle()
    assert bed.conditions == UP
    await bed.hear("fjord")
    assert bed.counters() == {"create": 1}


async def test_c49_not_ready_after_a_while_and_back_exactly_as_it_was() -> None:
    async with at_work(Bed(Policy.NOT_READY)) as bed:
        await heard(bed)
        before = bed.cluster.owned(CART)
        await bed.pass_by(59.0)
        assert bed.conditions == UP
        await bed.pass_by(1.0)
        assert bed.conditions == DOWN
        await bed.pass_by(86_400.0)
        await bed.settle()
        assert bed.counters() == {"create": 1, "update": 1}
        await bed.hear("fjord")
        assert bed.conditions == DOWN, "one sign may be an old one"
        await bed.hear("fjord")
        after = bed.cluster.owned(CART)
        strip = ("resourceVersion", "generation")
        for manifest in (*before, *after):
            for name in strip:
                manifest["metadata"].pop(name, None)
        assert after == before
        await bed.pass_by(300.0, "fjord")
        await bed.settle()
        assert bed.counters() == {"create": 1, "update": 2}


async def test_terminating_is_told_also_of_a_silent_cluster() -> None:
    async with at_work(Bed(Policy.NOT_READY)) as bed:
        ports = (Port("http", 8080),)
        bed.view["fjord"] = [
            Endpoint("10.20.1.4", ports, ready=False, serving=True, terminating=True)
        ]
        await bed.hear("fjord")
        await bed.settle()
        await bed.pass_by(60.0)
        assert bed.conditions == {("10.20.1.4", False, False, True)}


async def test_c49_withdrawn_once_the_time_is_over_and_written_again_when_heard() -> None:
    async with at_work(Bed(Policy.WITHDRAW)) as bed:
        bed.known.add("tundra")
        bed.offer("10.40.1.4", cluster="tundra")
        await heard_both(bed)
        await bed.pass_by(599.0, "tundra")
        assert bed.written == ["10.20.1.4", "10.20.1.5", "10.40.1.4"]
        await bed.pass_by(1.0, "tundra")
        assert bed.written == ["10.40.1.4"]
        await bed.hear("fjord", "tundra")
        await bed.hear("fjord", "tundra")
        assert bed.written == ["10.20.1.4", "10.20.1.5", "10.40.1.4"]
        assert bed.counters() == {"create": 3, "delete": 1}


async def heard_both(bed: Bed) -> None:
    """Let fjord offer too, and both be heard."""
    bed.offer("10.20.1.4", "10.20.1.5")
    for _ in range(2):
        await bed.hear("fjord", "tundra")
    await bed.settle()


async def test_the_last_endpoints_of_a_service_are_not_withdrawn() -> None:
    async with at_work(Bed(Policy.WITHDRAW)) as bed:
        await heard(bed)
        await bed.pass_by(86_400.0)
        assert bed.conditions == UP
        assert bed.counters() == {"create": 1}


async def test_the_last_endpoints_go_when_that_is_wanted() -> None:
    async with at_work(Bed(Policy.WITHDRAW, withdraw_last=True)) as bed:
        await heard(bed)
        await bed.pass_by(600.0)
        assert bed.written == []


async def test_withdrawn_endpoints_are_back_when_nothing_else_is_left() -> None:
    async with at_work(Bed(Policy.WITHDRAW)) as bed:
        bed.known.add("tundra")
        bed.offer("10.40.1.4", cluster="tundra")
        await heard_both(bed)
        await bed.pass_by(600.0, "tundra")
        assert bed.written == ["10.40.1.4"]
        del bed.view["tundra"]
        await bed.settle()
        assert bed.written == ["10.20.1.4", "10.20.1.5"]


async def test_c79_a_restart_neither_brings_a_silent_cluster_back_nor_turns_another_down() -> None:
    async with at_work(Bed(Policy.NOT_READY)) as bed:
        bed.known.add("tundra")
        await heard(bed)
        await bed.pass_by(60.0)
        bed.offer("10.40.1.4", cluster="tundra")
        await bed.settle()
        before = bed.counters()
        down = bed.conditions
        assert down == DOWN | {("10.40.1.4", True, True, False)}

        again = Bed(Policy.NOT_READY, cluster=bed.cluster)
        again.view, again.known, again.current = bed.view, bed.known, False
        again.fresh_at = {"fjord": None, "tundra": None}
        async with at_work(again):
            await again.review()
            await again.settle()
            await again.pass_by(100.0)
            assert bed.conditions == down
            again.current = True
            await again.hear("tundra")
            await again.hear("tundra")
            assert again.counters() == {}
            assert bed.conditions == down
            again.offer("10.40.1.5", cluster="tundra")
            await again.settle()
            assert ("10.40.1.5", True, True, False) in bed.conditions
            assert bed.conditions >= DOWN
        assert bed.counters() == before


async def test_nothing_is_deleted_of_a_cluster_of_which_nothing_is_sure() -> None:
    async with at_work(Bed(Policy.NOT_READY)) as bed:
        await heard(bed)
        again = Bed(Policy.NOT_READY, cluster=bed.cluster)
        again.fresh_at = {"fjord": None}
        async with at_work(again):
            await again.review()
            await again.settle()
            assert again.conditions == UP
            now = again.clock.monotonic()
            for at in (now, now + 1):
                again.importer.review({"fjord": at}, lambda _: (), current=True)
            await again.quiet()
            assert again.written == [], "its service is found by what is written of it"


async def test_only_the_services_of_the_cluster_are_looked_at() -> None:
    made = Bed(Policy.NOT_READY)
    touched: list[ServiceKey] = []
    made.queue.add = touched.append  # type: ignore[method-assign]  # to see what is queued
    other = ServiceKey("shop", "other")
    services = {"fjord": {CART}, "tundra": {other}}
    now = made.clock.monotonic()
    for at in (now, now + 1):
        made.importer.review({"fjord": at, "tundra": at}, services.__getitem__, current=True)
    assert sorted(touched) == [CART, other]
    touched.clear()
    made.clock.advance(61.0)
    made.importer.review({"fjord": now + 1, "tundra": now + 60}, services.__getitem__, current=True)
    assert touched == [CART]
    made.clock.set_wall_ns(0)
    made.importer.review({"fjord": now + 1, "tundra": now + 60}, services.__getitem__, current=True)
    assert touched == [CART]


async def restarted(bed: Bed) -> Bed:
    """Another life over what ``bed`` wrote, in which fjord is stored and not heard yet."""
    again = Bed(cluster=bed.cluster, stored=("fjord",))
    again.known.clear()
    again.fresh_at = {"fjord": None}
    return again


async def test_p22_what_is_stored_is_not_written_anew_before_its_cluster_is_heard(bed: Bed) -> None:
    bed.offer("10.20.1.4", "10.20.1.5")
    bed.offer("10.20.1.4")
    await bed.settle()
    again = await restarted(bed)
    again.offer("10.20.1.4", "10.20.1.5")
    async with at_work(again):
        await again.settle()
        await again.pass_by(9.9)
        assert bed.written == ["10.20.1.4"]
        assert again.importer.problems() == []
        again.known.add("fjord")
        again.offer("10.20.1.6")
        await again.hear("fjord")
        assert bed.written == ["10.20.1.6"]
        assert not again.importer.reviews


async def test_nothing_that_was_not_heard_is_taken_away_whatever_may_be_deleted(bed: Bed) -> None:
    bed.offer("10.20.1.4", "10.20.1.5")
    await bed.settle()
    again = await restarted(bed)
    again.known.add("fjord")
    again.offer("10.20.1.4")
    async with at_work(again):
        await again.pass_by(9.0)
        await again.settle()
        assert bed.written == ["10.20.1.4", "10.20.1.5"]
        await again.hear("fjord")
        assert bed.written == ["10.20.1.4"]


async def test_without_a_word_it_is_written_in_doubt_and_nothing_is_taken_away(bed: Bed) -> None:
    bed.offer("10.20.1.4")
    await bed.settle()
    again = await restarted(bed)
    again.offer("10.20.1.5")
    async with at_work(again):
        await again.pass_by(10.0)
        assert bed.written == ["10.20.1.4", "10.20.1.5"]
        (problem,) = again.importer.problems()
        assert problem["code"] == "view_unconfirmed"
        again.known.add("fjord")
        again.offer("10.20.1.4")
        await again.hear("fjord")
        assert bed.written == ["10.20.1.4"]
        assert again.importer.problems() == []


async def test_a_policy_withdraws_what_was_not_heard_in_this_life() -> None:
    async with at_work(Bed(Policy.WITHDRAW, withdraw_last=True)) as bed:
        await heard(bed)
        again = Bed(Policy.WITHDRAW, withdraw_last=True, cluster=bed.cluster, stored=("fjord",))
        again.known.clear()
        again.view = bed.view
        again.fresh_at = {"fjord": None}
        async with at_work(again):
            await again.pass_by(599.0)
            assert bed.conditions == UP
            await again.pass_by(1.0)
            assert bed.written == []


# ---- others who change what we write -----------------------------------------------------------


def _edited(bed: Bed) -> None:
    (manifest,) = bed.cluster.owned(CART)
    edited = copy.deepcopy(manifest)
    edited["endpoints"][0]["addresses"] = ["10.66.6.6"]
    edited["metadata"]["annotations"]["tool.example/at"] = str(bed.clock.monotonic())
    bed.cluster.put(edited)


def _unlabelled(bed: Bed) -> None:
    (manifest,) = bed.cluster.owned(CART)
    bare = copy.deepcopy(manifest)
    bare["metadata"]["labels"] = {}
    bed.cluster.put(bare)


def _deleted(bed: Bed) -> None:
    (manifest,) = bed.cluster.owned(CART)
    bed.cluster.remove("EndpointSlice", "shop", manifest["metadata"]["name"])


@pytest.mark.parametrize("undo", [_edited, _unlabelled, _deleted])
async def test_c76_what_others_do_is_undone_at_once_and_a_fighter_is_met_ever_more_seldom(
    bed: Bed, undo: Callable[[Bed], None]
) -> None:
    bed.offer("10.20.1.4")
    await bed.settle()
    before = bed.cluster.owned(CART)[0]
    undo(bed)
    await bed.quiet()
    (after,) = bed.cluster.owned(CART)
    assert bed.written == ["10.20.1.4"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert bed.importer.counters()["materialize_fight_total"] == 0
    for _ in range(300):
        if bed.written:
            undo(bed)
        bed.clock.advance(0.1)
        await bed.review()
    writes = sum(bed.counters().values())
    assert writes < 15, "ten times a second for 30 s"
    assert bed.importer.counters()["materialize_fight_total"] > 0
    assert [problem["code"] for problem in bed.importer.problems()] == ["materialize_fight"]
    bed.offer("10.20.1.5")
    await bed.settle()
    assert "10.20.1.5" in bed.written, "what is new never waits"
    await bed.pass_by(400.0, "fjord")
    assert bed.written == ["10.20.1.5"]
    assert bed.importer.problems() == []


# ---- a consumer that never answers -------------------------------------------------------------


class Stuck(SimulatedCluster):
    """A cluster whose writes of fjord's slices never return."""

    hangs = True

    async def apply(self, change: SliceChange) -> None:
        if self.hangs and "fjord" in change.name:
            await asyncio.get_running_loop().create_future()
        await super().apply(change)


async def test_p43_a_write_that_never_returns_stops_nobody_else_and_is_told() -> None:
    clock = FakeClock()
    cluster = Stuck(cluster="mesa", seed=1, services=1, endpoints=1, churn=0.0, clock=clock)
    made = Bed(cluster=cluster)
    made.clock.advance(0.0)
    keys = [ServiceKey("shop", f"svc-{number}") for number in range(10)]
    made.offer("10.20.1.4")
    views = dict.fromkeys(keys, made.view)
    made.importer._view = lambda key: views.get(key, {})
    other = ServiceKey("shop", "other")
    views[other] = {"tundra": [Endpoint("10.40.1.4", (Port("http", 8080),))]}
    async with at_work(made):
        for key in keys:
            made.queue.add(key)
        await made.quiet()
        assert made.importer.stuck() == []
        made.queue.add(other)
        await made.pass_by(59.0)
        assert cluster.owned(other) == (), "all workers wait"
        for _ in range(4):
            await made.pass_by(60.0)
        assert len(cluster.owned(other)) == 1, "freed by the watchdog"
        assert len(made.importer.stuck()) == 10
        assert made.importer.stuck()[0].startswith("write_stuck: shop/svc-0 for ")
        assert made.importer.counters()["watchdog_total"] >= 10
        assert "given up" in made.importer.failing[keys[0]]
        cluster.hangs = False
        for _ in range(4):
            await made.pass_by(60.0)
        assert [len(cluster.owned(key)) for key in keys] == [1] * 10
        assert made.importer.stuck() == []
        assert made.importer.failing == {}


async def test_a_worker_that_is_cancelled_while_stuck_ends(bed: Bed) -> None:
    hangs = asyncio.get_running_loop().create_future()

    async def hang(_: SliceChange) -> None:
        await hangs

    bed.cluster.apply = hang  # type: ignore[method-assign]  # a consumer that never answers
    bed.offer("10.20.1.4")
    await bed.settle()
    await bed.pass_by(30.0)
    assert bed.importer.stuck() == []


# ---- mass withdrawals ----------------------------------------------------------------------------


async def back_after_a_silence(bed: Bed, *addresses: str) -> None:
    """Fjord offers eight addresses, falls silent, and comes back with these."""
    bed.offer(*(f"10.20.1.{n}" for n in range(1, 9)))
    await bed.hear("fjord")
    await bed.settle()
    await bed.pass_by(60.0)
    bed.offer(*addresses)
    await bed.hear("fjord")
    await bed.settle()


async def test_a_mass_withdrawal_after_a_silence_is_held_back_until_its_cluster_was_heard_a_while(
    bed: Bed,
) -> None:
    await back_after_a_silence(bed, "10.20.1.1", "10.20.1.2", "10.20.1.9")
    assert len(bed.written) == 9, "what is new is written, nothing is taken away"
    (problem,) = bed.importer.problems()
    assert problem["code"] == "withdrawal_held"
    assert "6 of 9 of shop/cart" in problem["message"]
    await bed.pass_by(14.9, "fjord")
    assert len(bed.written) == 9
    await bed.pass_by(0.1, "fjord")
    assert sorted(bed.written) == ["10.20.1.1", "10.20.1.2", "10.20.1.9"]
    assert bed.importer.problems() == []


async def test_an_operator_lets_a_mass_withdrawal_go(bed: Bed) -> None:
    await back_after_a_silence(bed)
    assert len(bed.written) == 8
    assert bed.importer.release("tundra", None) == []
    told = {"service": "shop/cart", "cluster": "fjord", "removed": 8, "written": 8}
    assert bed.importer.release("fjord", CART) == [told]
    await bed.quiet()
    assert bed.written == []
    assert bed.importer.withdrawals.held == []


async def test_few_of_many_go_at_once_after_a_silence_and_all_do_without_one(bed: Bed) -> None:
    await back_after_a_silence(bed, *(f"10.20.1.{n}" for n in range(1, 5)))
    assert len(bed.written) == 4
    await bed.pass_by(90.0, "fjord")
    bed.view.clear()
    await bed.settle()
    assert bed.written == []


# ---- drains, weights, stale policies that were decided -----------------------------------------


def ready(bed: Bed) -> list[str]:
    return sorted(address for address, is_ready, _, _ in bed.conditions if is_ready)


async def test_a_drained_cluster_is_written_as_not_ready_and_serving_until_undrained() -> None:
    async with at_work(Bed()) as bed:
        bed.known.add("tundra")
        bed.offer("10.20.1.4", "10.20.1.5")
        bed.offer("10.40.1.4", cluster="tundra")
        await bed.settle()
        await bed.decide((Subject("drain", "fjord"), "drained"))
        assert ready(bed) == ["10.40.1.4"]
        assert ("10.20.1.4", False, True, False) in bed.conditions
        before = bed.counters()
        await bed.settle()
        assert bed.counters() == before, "a second pass writes nothing"
        await bed.decide((Subject("drain", "fjord"), "undrained"))
        assert ready(bed) == ["10.20.1.4", "10.20.1.5", "10.40.1.4"]


async def test_the_last_ready_endpoints_are_drained_only_when_that_is_wanted() -> None:
    async with at_work(Bed()) as bed:
        bed.offer("10.20.1.4", "10.20.1.5")
        await bed.settle()
        await bed.decide((Subject("drain", "fjord"), "drained"))
        assert ready(bed) == ["10.20.1.4", "10.20.1.5"]
        bed.ready_here = True
        await bed.settle()
        assert ready(bed) == [], "our own are ready, so these are not the last"
        bed.ready_here = False
        await bed.settle()
        assert ready(bed) == ["10.20.1.4", "10.20.1.5"]
        await bed.decide((Subject("drain", "fjord", "shop", "cart"), "drained-last"))
        assert ready(bed) == []
        assert len(bed.written) == 2


async def test_a_weight_leaves_its_share_ready_and_a_drain_goes_before_it() -> None:
    async with at_work(Bed()) as bed:
        bed.known.add("tundra")
        bed.offer(*(f"10.20.1.{n}" for n in range(1, 11)))
        bed.offer("10.40.1.4", cluster="tundra")
        await bed.decide((Subject("weight", "fjord"), 30))
        assert len(ready(bed)) == 4
        await bed.decide((Subject("weight", "fjord"), 30), (Subject("drain", "fjord"), "drained"))
        assert ready(bed) == ["10.40.1.4"]


async def test_a_stale_policy_that_was_decided_goes_before_the_configured_one() -> None:
    async with at_work(Bed(Policy.KEEP)) as bed:
        assert not bed.importer.reviews
        await bed.decide((Subject("stale", "", "shop", "cart"), "not-ready"))
        assert bed.importer.reviews
        await heard(bed)
        await bed.pass_by(60.0)
        assert bed.conditions == DOWN
        await bed.decide((Subject("stale", "", "shop", "cart"), "keep"))
        assert bed.conditions == UP
