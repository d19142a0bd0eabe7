"""Two and three whole agents of one cluster (rule C10): one writes, the others stand by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusters.model import ServiceKey
from replicator.agent import Agent
from replicator.errors import ReplicatorError
from replicator.policies import Subject
from tests.integration.ha_bed import FJORD, bed_of
from tests.support.virtual_loop import in_virtual_time

A, B, C = "10.20.1.4", "10.20.1.5", "10.20.1.6"
M, N = "10.40.1.4", "10.40.1.5"


@in_virtual_time
async def test_one_of_two_agents_writes_and_the_other_keeps_warm(tmp_path: Path) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        bed.write("mesa", "10.40.1.4")
        writer, other = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        await bed.sees("fjord", "mesa", "10.40.1.4")
        bed.write("fjord", A, B)
        await bed.sees("mesa", "fjord", A, B)
        await bed.until(lambda: bed.warm(writer, other))
        await bed.clock.sleep(30)
        assert bed.leaders() == [writer]
        assert bed[other].publisher.heads == 0
        assert bed.writes_of(other) == 0
        assert bed.writes_of(writer) == 1
        assert sorted(bed[other].others.view(ServiceKey("shop", "cart"))) == ["mesa"]
        assert bed[other].others.expected() == {"mesa"}
        standby = bed[other].replica
        source = standby.sessions[standby.remotes[FJORD].source or 0]
        assert source.cluster == "fjord", "from the writer, not across the world"


@in_virtual_time
async def test_a_killed_writer_is_succeeded_within_10_s_and_nothing_flaps(tmp_path: Path) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        bed.write("mesa", M)
        writer, other = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        await bed.sees("fjord", "mesa", M)
        await bed.until(lambda: bed.warm(writer, other))
        before, ours, version = bed.stats("mesa"), bed.stats("fjord"), bed.seen.version
        await bed.kill(writer)
        took = await bed.until(lambda: bed.leaders() == [other])
        took += await bed.until(lambda: bed.seen.version.epoch > version.epoch)
        assert took <= 10
        head = bed.seen.head
        assert head is not None
        assert head.base is not None, "the epoch continues from the former one"
        assert (head.base.epoch, head.base.stamp) == version
        await bed.clock.sleep(15)
        assert bed.stats("mesa") == before
        assert bed.stats("fjord") == ours
        bed.write("fjord", A, B)
        assert await bed.sees("mesa", "fjord", A, B) < 1
        bed.write("mesa", M, N)
        assert await bed.sees("fjord", "mesa", M, N) < 1


@in_virtual_time
async def test_what_changed_while_nobody_led_is_published_by_the_next_writer(
    tmp_path: Path,
) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A, B)
        writer, other = await bed.pair()
        await bed.sees("mesa", "fjord", A, B)
        await bed.until(lambda: bed.warm(writer, other))
        await bed.kill(writer)
        bed.write("fjord", B, C)
        bed.write("mesa", M)
        await bed.until(lambda: bed.leaders() == [other])
        assert await bed.sees("mesa", "fjord", B, C) < 1
        assert await bed.sees("fjord", "mesa", M) < 1


@in_virtual_time
async def test_a_machine_that_is_gone_without_a_word_is_succeeded_within_10_s(
    tmp_path: Path,
) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        writer, other = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        await bed.clock.sleep(5)
        epoch = bed.seen.version.epoch
        bed.freeze(writer)
        took = await bed.until(lambda: bed.leads(other))
        took += await bed.until(lambda: bed.seen.version.epoch > epoch)
        assert took <= 8, "5 s of silence, 6 s without a renewal, and a look at the lease"


@in_virtual_time
async def test_sigterm_hands_over_within_1_s_and_peers_go_on_by_delta(tmp_path: Path) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        writer, other = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        await bed.until(lambda: bed.warm(writer, other))
        before, version = bed.stats("mesa"), bed.seen.version
        began = bed.clock.monotonic()
        await bed.end(writer)
        await bed.until(lambda: bed.leaders() == [other])
        await bed.until(lambda: bed.seen.version.epoch > version.epoch)
        assert bed.clock.monotonic() - began <= 1
        head = bed.seen.head
        assert head is not None
        assert head.base is not None
        assert (head.base.epoch, head.base.stamp) == version
        assert bed.stats("mesa") == before


@pytest.mark.parametrize("newest_first", [False, True])
@in_virtual_time
async def test_p32_a_paused_writer_that_wakes_neither_publishes_nor_writes(
    tmp_path: Path, *, newest_first: bool
) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        bed.write("mesa", M)
        zombie, other = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        await bed.sees("fjord", "mesa", M)
        await bed.until(lambda: bed.warm(zombie, other))
        bed.freeze(zombie)
        await bed.until(lambda: bed.leads(other))
        # Both sides change, so the zombie wakes with work to do.
        bed.write("fjord", A, B)
        bed.write("mesa", M, N)
        await bed.sees("mesa", "fjord", A, B)
        await bed.sees("fjord", "mesa", M, N)
        await bed.clock.sleep(10)
        heads, writes = bed[zombie].publisher.heads, bed.writes_of(zombie)
        version, ours = bed.seen.version, bed.stats("fjord")
        bed.thaw(zombie, newest_first=newest_first)
        for _ in range(500):
            await bed.clock.sleep(0.01)
            assert bed.leaders() == [other]
        await bed.until(lambda: bed.warm(zombie, other))
        assert not bed[zombie].replica.own.leading
        assert bed[zombie].publisher.heads == heads
        assert bed.writes_of(zombie) == writes
        assert bed.stats("fjord") == ours
        assert bed.seen.version == version
        assert bed[other].replica.own.epoch == version.epoch, "nobody had to exceed a zombie"


@in_virtual_time
async def test_p32_whoever_cannot_renew_stops_before_anybody_may_take_the_lease(
    tmp_path: Path,
) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        writer, other = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        lease = tmp_path / "fjord" / "source" / ".replicator-lease"
        lease.write_text("spoiled")
        took = await bed.until(lambda: bed.leaders() == [])
        assert 8 <= took <= 10
        bed.write("fjord", A, B)
        bed.write("mesa", M)
        await bed.clock.sleep(30)
        assert bed.leaders() == []
        assert bed.written("mesa", "fjord") == [A]
        assert bed.written("fjord", "mesa") == []
        for name in (writer, other):
            assert "lease_spoiled" in [p["code"] for p in bed[name].condition.problems()]
            assert bed[name].ready() == (True, [])
        lease.unlink()
        took = await bed.until(lambda: len(bed.leaders()) == 1)
        assert took <= 3
        await bed.sees("mesa", "fjord", A, B)
        await bed.sees("fjord", "mesa", M)
        for name in (writer, other):
            assert bed[name].condition.problems() == []


@in_virtual_time
async def test_p33_agents_that_start_at_once_agree_on_one_writer(tmp_path: Path) -> None:
    async with bed_of(tmp_path, siblings=3) as bed:
        bed.write("fjord", A)
        names = ("fjord-a", "fjord-b", "fjord-c")
        for name in ("mesa-a", *names):
            await bed.start(name)
        for _ in range(1000):
            await bed.clock.sleep(0.01)
            assert len(bed.leaders()) <= 1
        (writer,) = bed.leaders()
        await bed.sees("mesa", "fjord", A)
        await bed.until(lambda: bed.warm(*names))
        assert [bed[name].publisher.heads > 0 for name in names] == [n == writer for n in names]


@in_virtual_time
async def test_p33_a_lease_that_somebody_deletes_is_made_again_without_a_gap(
    tmp_path: Path,
) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        writer, other = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        epoch = bed[writer].replica.own.epoch
        lease = tmp_path / "fjord" / "source" / ".replicator-lease"
        for _ in range(3):
            lease.unlink()
            await bed.until(lease.exists, 3)
            for _ in range(200):
                await bed.clock.sleep(0.01)
                assert bed.leaders() == [writer]
        bed.write("fjord", A, B)
        assert await bed.sees("mesa", "fjord", A, B) < 1
        assert bed[writer].replica.own.epoch >= epoch
        assert bed[other].publisher.heads == 0


@in_virtual_time
async def test_of_three_agents_the_last_one_left_leads(tmp_path: Path) -> None:
    async with bed_of(tmp_path, siblings=3) as bed:
        bed.write("fjord", A)
        names = ["fjord-a", "fjord-b", "fjord-c"]
        await bed.start_all("mesa-a", *names)
        await bed.sees("mesa", "fjord", A)
        await bed.until(lambda: bed.warm(*names))
        epochs = [bed.seen.version.epoch]
        for address in (B, C):
            (writer,) = bed.leaders()
            names.remove(writer)
            await bed.kill(writer)
            took = await bed.until(lambda: len(bed.leaders()) == 1)
            assert took <= 10
            bed.write("fjord", A, address)
            assert await bed.sees("mesa", "fjord", A, address) < 1
            await bed.until(lambda: bed.warm(*names))
            epochs.append(bed.seen.version.epoch)
        assert epochs == sorted(set(epochs))


@in_virtual_time
async def test_a_writer_that_comes_back_stands_by_and_takes_over_again(tmp_path: Path) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        first, second = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        await bed.kill(first)
        await bed.until(lambda: bed.leaders() == [second])
        bed.write("fjord", B)
        await bed.sees("mesa", "fjord", B)
        before = bed.stats("mesa")
        await bed.start(first)
        assert not bed[first].replica.own.leading
        await bed.until(lambda: bed.warm(first, second))
        await bed.clock.sleep(5)
        assert bed.leaders() == [second]
        await bed.end(second)
        await bed.until(lambda: bed.leaders() == [first], 1)
        await bed.until(lambda: bed.warm(first))
        assert bed.stats("mesa") == before
        bed.write("fjord", B, C)
        assert await bed.sees("mesa", "fjord", B, C) < 1


@in_virtual_time
async def test_an_agent_whose_own_last_life_holds_the_lease_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        await bed.start_all("mesa-a", "fjord-a")
        await bed.sees("mesa", "fjord", A)
        await bed.kill("fjord-a")
        began = bed.clock.monotonic()
        await bed.start("fjord-a")
        await bed.until(lambda: bed.leaders() == ["fjord-a"])
        bed.write("fjord", A, B)
        await bed.sees("mesa", "fjord", A, B)
        assert bed.clock.monotonic() - began < 2


@in_virtual_time
async def test_status_and_metrics_tell_who_writes_and_a_stand_by_decides_nothing(
    tmp_path: Path,
) -> None:
    async with bed_of(tmp_path) as bed:
        bed.write("fjord", A)
        writer, other = await bed.pair()
        await bed.sees("mesa", "fjord", A)
        holder = bed[writer].replica.me.instance
        for name, role in ((writer, "writer"), (other, "standby")):
            status = await bed.ask(name, "status")
            assert status["agent"]["role"] == role
            assert status["agent"]["lease_holder"] == holder
            assert status["agent"]["epoch"] == str(bed.seen.version.epoch)
            assert [row["cluster"] for row in status["clusters"]] == ["fjord", "mesa"]
            assert {row["state"] for row in status["peers"]} == {"connected"}
            exposition = bed[name].gauges.exposition().decode()
            assert f"\nreplicator_leading {float(role == 'writer')}\n" in exposition
        assert (await bed.ask("mesa-a", "status"))["agent"]["lease_holder"] is None
        with pytest.raises(ReplicatorError, match=holder) as caught:
            await bed.ask(other, "decide", "forget", "mesa")
        assert caught.value.code == "not_the_writer"
        with pytest.raises(ReplicatorError) as caught:
            await bed[other].decisions.policy(Subject("mesa"), ["drain"])
        assert caught.value.code == "not_the_writer"


@in_virtual_time
async def test_a_new_agent_under_a_new_lease_exceeds_what_it_could_not_know(
    tmp_path: Path,
) -> None:
    async with bed_of(tmp_path, siblings=3) as bed:
        bed.write("fjord", A)
        names = ("fjord-a", "fjord-b")
        await bed.start_all("mesa-a", *names)
        await bed.sees("mesa", "fjord", A)
        first = bed.seen.version.epoch
        for again in (2, 1, 0):
            (writer,) = bed.leaders()
            await bed.end(writer)
            await bed.until(lambda: len(bed.leaders()) == 1)
            await bed.until(lambda: bed.warm(*bed.leaders()))
            if again:
                await bed.start(writer)
                await bed.until(lambda: bed.warm(*names))
        await bed.end(bed.leaders()[0])
        former = bed.seen.version.epoch
        assert former == first + 3
        (tmp_path / "fjord" / "source" / ".replicator-lease").unlink()
        bed.network.cut("fjord", "mesa")
        await bed.start("fjord-c")
        await bed.until(lambda: bed["fjord-c"].publisher.heads > 0)
        assert bed["fjord-c"].replica.own.epoch < former, "its lease counts from one"
        bed.network.heal("fjord", "mesa")
        await bed.until(lambda: bed.seen.version.epoch > former)
        bed.write("fjord", A, B)
        await bed.sees("mesa", "fjord", A, B)
        lease = json.loads((tmp_path / "fjord" / "source" / ".replicator-lease").read_text())
        assert lease["transitions"] == bed.seen.version.epoch


@in_virtual_time
async def test_two_agents_in_each_cluster_behind_one_address_outlive_both_writers(
    tmp_path: Path,
) -> None:
    async with bed_of(tmp_path, services=True) as bed:
        bed.write("fjord", A)
        bed.write("mesa", M)
        names = ("fjord-a", "fjord-b", "mesa-a", "mesa-b")
        await bed.start_all(*names)
        await bed.sees("mesa", "fjord", A)
        await bed.sees("fjord", "mesa", M)
        for cluster in ("fjord", "mesa"):
            me = [name for name in names if name.startswith(cluster)]
            await bed.until(lambda me=me: all(linked_to_sibling(bed[name]) for name in me))
        await bed.clock.sleep(5)
        (one,), (other,) = bed.leaders("fjord"), bed.leaders("mesa")
        before = bed.stats("mesa"), bed.stats("fjord")
        for writer in (one, other):
            await bed.kill(writer)
        took = await bed.until(lambda: bed.leaders("fjord") and bed.leaders("mesa"))
        assert took <= 10
        await bed.clock.sleep(5)
        assert (bed.stats("mesa"), bed.stats("fjord")) == before
        bed.write("fjord", A, B)
        bed.write("mesa", M, N)
        assert await bed.sees("mesa", "fjord", A, B) < 1
        assert await bed.sees("fjord", "mesa", M, N) < 1


def linked_to_sibling(agent: Agent) -> bool:
    """Whether a link to another agent of its own cluster is up."""
    sessions = agent.replica.sessions.values()
    return any(s.cluster == agent.config.cluster and s.peer is not None for s in sessions)
