"""Writes against the in-memory API server (kubernetes.md M5, M7, M11)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from clusters.errors import (
    ClusterUnavailableError,
    NamespaceUnavailableError,
    WriteError,
)
from clusters.kubernetes import KubernetesSettings
from clusters.kubernetes.write_errors import ApiBusyError
from clusters.model import ChangeOp, Endpoint, Port, ServiceKey, SliceChange
from clusters.slices import SliceSettings, plan
from tests.integration.kubernetes_bed import CART, Bed, PlainConnection, bed_of
from tests.integration.memory_api import MemoryApi
from tests.integration.scripted_api import eventually

HTTP = (Port("http", 8080),)
PAY = ServiceKey("shop", "pay")


def planned(bed: Bed, *addresses: str, key: ServiceKey = PAY) -> Sequence[SliceChange]:
    """Writes that give ``key`` these endpoints of mesa."""
    view = {"mesa": [Endpoint(one, HTTP) for one in addresses]} if addresses else {}
    settings = SliceSettings()
    return plan(key, view, bed.cluster.owned(key), settings=settings, deletable=lambda _: True)


async def write(bed: Bed, *addresses: str, key: ServiceKey = PAY) -> int:
    changes = planned(bed, *addresses, key=key)
    for change in changes:
        await bed.cluster.apply(change)
    return len(changes)


async def test_a_write_is_known_at_once_and_a_second_pass_writes_nothing() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        assert await write(bed, "10.9.0.1") == 1
        assert bed.owned == [PAY]
        assert planned(bed, "10.9.0.1") == []
        for number in range(2, 12):
            assert await write(bed, "10.9.0.1", f"10.9.0.{number}") == 1
            assert await write(bed, "10.9.0.1", f"10.9.0.{number}") == 0
        assert await write(bed) == 1
        assert bed.cluster.owned(PAY) == ()
        assert bed.cluster.owned_services() == frozenset()
        assert [method for method, _ in bed.memory.writes] == ["POST", *["PUT"] * 10, "DELETE"]
        assert bed.local == []


async def test_the_watch_never_shows_less_than_the_answers_did() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        await write(bed, "10.9.0.1")
        for number in range(30):
            await write(bed, f"10.9.1.{number + 1}")
            for _ in range(number):
                await asyncio.sleep(0)
            assert planned(bed, f"10.9.1.{number + 1}") == []
        assert len(bed.memory.writes) == 31


async def test_what_others_do_to_our_objects_is_announced() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        await write(bed, "10.9.0.1")
        await bed.api.time_passes(1)
        bed.owned.clear()
        (ours,) = bed.cluster.owned(PAY)
        name = ours["metadata"]["name"]

        bed.memory.put("endpointslices", {**ours, "endpoints": [{"addresses": ["10.9.9.9"]}]})
        await eventually(lambda: bed.owned == [PAY])
        assert await write(bed, "10.9.0.1") == 1

        bed.memory.remove("endpointslices", "shop", name)
        await eventually(lambda: not bed.cluster.owned(PAY))
        assert await write(bed, "10.9.0.1") == 1


async def test_an_object_of_ours_that_exists_is_adopted() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        (create,) = planned(bed, "10.9.0.1")
        await bed.cluster.apply(create)
        await bed.cluster.apply(create)
        assert len(bed.cluster.owned(PAY)) == 1


async def test_an_object_of_ours_that_was_stripped_is_known_by_its_uid() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        (create,) = planned(bed, "10.9.0.1")
        await bed.cluster.apply(create)
        (ours,) = bed.cluster.owned(PAY)
        bare = {**ours, "metadata": {**ours["metadata"], "labels": {}, "annotations": {}}}
        bed.memory.put("endpointslices", bare)
        await bed.api.time_passes(1)

        await bed.cluster.apply(create)
        assert await write(bed, "10.9.0.1") == 1


async def test_a_strangers_object_under_our_name_is_not_touched() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        (create,) = planned(bed, "10.9.0.1")
        stranger = {"metadata": {"name": create.name, "namespace": "shop"}, "endpoints": []}
        bed.memory.put("endpointslices", stranger)

        with pytest.raises(WriteError) as raised:
            await bed.cluster.apply(create)
        assert raised.value.code == "name_taken"
        assert not raised.value.retryable
        assert bed.memory.writes == []


async def test_a_conflict_is_read_again_and_planned_anew() -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("100")
        await bed.watched("100")
        await eventually(lambda: bed.cluster.health().synced)
        await write(bed, "10.9.0.1")
        (ours,) = bed.cluster.owned(PAY)
        bed.memory.put("endpointslices", {**ours, "endpoints": []})
        (update,) = planned(bed, "10.9.0.2")

        with pytest.raises(WriteError) as raised:
            await bed.cluster.apply(update)
        assert raised.value.code == "conflict"
        assert raised.value.retryable
        assert await write(bed, "10.9.0.2") == 1


async def test_conflicts_are_read_again_five_times_in_a_row_at_most() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        await write(bed, "10.9.0.1")
        (update,) = planned(bed, "10.9.0.2")
        bed.memory.refuse_writes = [(409, "Conflict", {})] * 8
        for _ in range(8):
            with pytest.raises(WriteError):
                await bed.cluster.apply(update)
        gets = [one for one in bed.api.log if one.method == "GET" and update.name in one.path]
        assert len(gets) == 5


async def test_an_update_of_what_is_gone_is_planned_anew() -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("100")
        await bed.watched("100")
        await eventually(lambda: bed.cluster.health().synced)
        await write(bed, "10.9.0.1")
        (update,) = planned(bed, "10.9.0.2")
        bed.memory.remove("endpointslices", "shop", update.name)

        with pytest.raises(WriteError):
            await bed.cluster.apply(update)
        (create,) = planned(bed, "10.9.0.2")
        assert create.op is ChangeOp.CREATE


async def test_a_deletion_of_what_is_gone_or_replaced_is_done() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        await write(bed, "10.9.0.1")
        (delete,) = planned(bed)
        await bed.cluster.apply(delete)
        await bed.cluster.apply(delete)

        await write(bed, "10.9.0.1")
        await bed.cluster.apply(delete)
        assert len(bed.memory.objects["endpointslices"]) == 1
        assert len(bed.cluster.owned(PAY)) == 1


async def test_a_deletion_without_a_uid_names_none() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        await write(bed, "10.9.0.1")
        (delete,) = planned(bed)
        bare = {"namespace": "shop", "name": delete.name}
        manifest = {"kind": "EndpointSlice", "metadata": bare}
        await bed.cluster.apply(SliceChange(ChangeOp.DELETE, manifest))
        assert bed.memory.objects["endpointslices"] == {}


async def test_case_c69_a_missing_namespace_is_waited_for_without_a_call() -> None:
    late = ServiceKey("late", "pay")
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        with pytest.raises(NamespaceUnavailableError) as raised:
            await write(bed, "10.9.0.1", key=late)
        assert raised.value.code == "no_namespace"
        assert all(one.method == "GET" for one in bed.api.log)
        await bed.api.time_passes(60)
        assert bed.owned == []

        bed.memory.put("namespaces", {"metadata": {"name": "late"}})
        await eventually(lambda: bed.owned == [late])
        assert await write(bed, "10.9.0.1", key=late) == 1


async def test_case_c69_a_terminating_namespace_is_waited_for_until_it_is_new() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        bed.memory.put("namespaces", {"metadata": {"name": "late"}})
        late = ServiceKey("late", "pay")
        await bed.api.time_passes(1)
        await write(bed, "10.9.0.1", key=late)
        bed.owned.clear()
        ending = {"metadata": {"name": "late"}, "status": {"phase": "Terminating"}}
        bed.memory.put("namespaces", ending)
        await eventually(lambda: bed.owned == [late])
        (ours,) = bed.cluster.owned(late)
        with pytest.raises(NamespaceUnavailableError):
            await bed.cluster.apply(SliceChange(ChangeOp.CREATE, ours))
        bed.memory.remove("endpointslices", "late", ours["metadata"]["name"])
        bed.memory.remove("namespaces", "", "late")
        await bed.api.time_passes(1)
        bed.owned.clear()

        bed.memory.put("namespaces", {"metadata": {"name": "late"}})
        await eventually(lambda: late in bed.owned)
        assert await write(bed, "10.9.0.1", key=late) == 1


async def test_a_namespace_that_ends_before_the_watch_says_so_is_retried_then_waited_for() -> None:
    async with bed_of("namespaces") as bed:
        exchange = await bed.api.next()
        shop = {"metadata": {"name": "shop", "uid": "n1", "resourceVersion": "5"}}
        exchange.answer({"metadata": {"resourceVersion": "9"}, "items": [shop]})
        stream = await bed.watched("9")
        await bed.cluster.wait_synced()
        bed.memory.put(
            "namespaces", {"metadata": {"name": "shop"}, "status": {"phase": "Terminating"}}
        )
        with pytest.raises(WriteError) as raised:
            await write(bed, "10.9.0.1")
        assert raised.value.retryable
        assert raised.value.code == "namespace_terminating"
        shop["status"] = {"phase": "Terminating"}
        shop["metadata"]["resourceVersion"] = "10"
        await stream.send({"type": "MODIFIED", "object": {"kind": "Namespace", **shop}})
        await bed.api.time_passes(1)
        with pytest.raises(NamespaceUnavailableError):
            await write(bed, "10.9.0.1")


async def test_a_namespace_nobody_told_of_is_retried() -> None:
    memory = MemoryApi(not_served=frozenset({"namespaces"}))
    async with bed_of(memory=memory) as bed:
        await eventually(lambda: bed.resource("endpointslices").synced)
        with pytest.raises(WriteError) as raised:
            await write(bed, "10.9.0.1", key=ServiceKey("nowhere", "pay"))
        assert raised.value.retryable
        assert raised.value.code == "no_namespace"


async def test_one_refused_object_does_not_stop_the_others() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        bed.memory.refuse_writes = [(422, "Invalid", {})]
        with pytest.raises(WriteError) as raised:
            await write(bed, "10.9.0.1")
        assert not raised.value.retryable
        assert await write(bed, "10.9.0.1", key=CART) == 1


async def test_a_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        bed.memory.refuse_writes = [(429, "TooManyRequests", {"retryAfterSeconds": 7})]
        with pytest.raises(ApiBusyError) as raised:
            await write(bed, "10.9.0.1")
        assert raised.value.retry_after == 7
        again = asyncio.create_task(write(bed, "10.9.0.1"))
        await bed.api.time_passes(6.5)
        assert not again.done()
        await bed.api.time_passes(1)
        assert await again == 1


async def test_writes_keep_to_their_budget() -> None:
    settings = KubernetesSettings(writes_per_second=10, write_burst=2)
    async with bed_of(settings=settings) as bed:
        await bed.cluster.wait_synced()
        keys = [ServiceKey("shop", f"s{number}") for number in range(6)]
        began = bed.clock.monotonic()
        tasks = [asyncio.create_task(write(bed, "10.9.0.1", key=key)) for key in keys]
        await bed.api.time_passes(0.1)
        assert 2 <= len(bed.memory.writes) <= 4
        await bed.api.time_passes(0.5)
        await asyncio.gather(*tasks)
        assert bed.clock.monotonic() - began >= 0.4


async def test_a_write_without_an_answer_is_unknown_and_the_watch_decides() -> None:
    async with bed_of(run=False) as bed:
        bed.memory.refuse_writes = []
        answerer = bed.api.answerer
        bed.api.answerer = None
        task = asyncio.create_task(bed.cluster.apply(planned(bed, "10.9.0.1")[0]))
        await bed.api.next()
        await bed.api.time_passes(31)
        with pytest.raises(ClusterUnavailableError):
            await task
        bed.api.answerer = answerer
        await bed.cluster.apply(planned(bed, "10.9.0.1")[0])
        assert len(bed.memory.writes) == 1


async def test_a_lost_session_costs_one_write_and_is_replaced() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        await write(bed, "10.9.0.1")
        change = planned(bed, "10.9.0.2")[0]
        connection = bed.connection
        connection.surprise = RuntimeError("Session is closed")
        with pytest.raises(ClusterUnavailableError):
            await bed.cluster.apply(change)
        await bed.cluster.apply(change)


async def test_no_rights_to_write_name_the_verb() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        bed.memory.refuse_writes = [(403, "Forbidden", {})]
        with pytest.raises(WriteError) as raised:
            await write(bed, "10.9.0.1")
        assert "the verb create on endpointslices" in raised.value.cure


async def test_a_refused_look_at_an_existing_object_is_told() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        (create,) = planned(bed, "10.9.0.1")
        bed.memory.refuse_writes = [(409, "AlreadyExists", {})]
        with pytest.raises(WriteError) as raised:
            await bed.cluster.apply(create)
        assert raised.value.code == "conflict"
        bed.memory.refuse_writes = [(409, "AlreadyExists", {})]
        bed.memory.refuse_reads = [(403, "Forbidden")]
        with pytest.raises(WriteError) as raised:
            await bed.cluster.apply(create)
        assert raised.value.code == "api_forbidden"


async def test_the_uid_is_that_of_kube_system() -> None:
    async with bed_of(run=False) as bed:
        uid = bed.memory.objects["namespaces"]["", "kube-system"]["metadata"]["uid"]
        assert await bed.cluster.uid() == uid
        assert await bed.cluster.uid() == uid
        assert len(bed.api.log) == 1


async def test_the_uid_comes_from_the_watch_once_that_runs() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        before = len(bed.api.log)
        assert await bed.cluster.uid()
        assert len(bed.api.log) == before


@pytest.mark.parametrize("answer", ["forbidden", "dropped", "nonsense", "empty"])
async def test_a_uid_that_cannot_be_read_is_unavailable(answer: str) -> None:
    async with bed_of(run=False) as bed:
        bed.api.answerer = None
        task = asyncio.create_task(bed.cluster.uid())
        exchange = await bed.api.next()
        if answer == "forbidden":
            exchange.refuse(403, "Forbidden")
        elif answer == "dropped":
            exchange.drop()
            (await bed.api.next()).drop()  # aiohttp asks once more by itself
        else:
            exchange.answer_bytes(b"<html>" if answer == "nonsense" else b"{}")
        with pytest.raises(ClusterUnavailableError):
            await task


async def test_plain_connections_need_no_token() -> None:
    connection = PlainConnection("only")
    async with bed_of(connection=connection) as bed:
        await bed.cluster.wait_synced()
        assert {one.token for one in bed.api.log} == {"Bearer only"}


@pytest.mark.parametrize("body", [b"[]", b"{}", b"<html>", b'{"metadata": {"name": "other"}}'])
async def test_an_answer_that_is_not_the_object_is_no_answer(body: bytes) -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        await bed.api.time_passes(1)
        (create,) = planned(bed, "10.9.0.1")
        answerer, bed.api.answerer = bed.api.answerer, None
        task = asyncio.create_task(bed.cluster.apply(create))
        (await bed.api.next()).answer_bytes(body, 201)
        with pytest.raises(ClusterUnavailableError):
            await task
        bed.api.answerer = answerer
        await bed.cluster.apply(create)
        assert await write(bed, "10.9.0.1") == 0


async def test_bookkeeping_of_fields_is_not_kept() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        await write(bed, "10.9.0.1")
        (ours,) = bed.cluster.owned(PAY)
        ours = {**ours, "metadata": {**ours["metadata"], "managedFields": [{"manager": "x"}]}}
        bed.memory.put("endpointslices", {**ours, "endpoints": []})
        await eventually(lambda: not bed.cluster.owned(PAY)[0]["endpoints"])
        assert "managedFields" not in bed.cluster.owned(PAY)[0]["metadata"]
        assert await write(bed, "10.9.0.1") == 1
