"""The watch cases, end to end over HTTP: scripted API server, fake clock (kubernetes.md W1-W16)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import structlog

from clusters.kubernetes import KubernetesSettings, WatchSettings
from clusters.settings import ExportMode
from tests.integration.kubernetes_bed import (
    CART,
    PlainConnection,
    bed_of,
    cart_slice,
    slice_list,
)
from tests.integration.memory_api import MemoryApi
from tests.integration.scripted_api import eventually

CASES = Path(__file__).parents[1] / "data" / "cases" / "watch"
A, B = "10.20.1.4", "10.20.1.5"


def event(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": body}


def bookmark(version: str) -> dict[str, Any]:
    return event("BOOKMARK", {"kind": "EndpointSlice", "metadata": {"resourceVersion": version}})


async def test_case_c01_a_silent_stream_is_opened_anew_without_a_list() -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("4100")
        stream = await bed.watched("4100")
        opened = bed.clock.monotonic()
        assert stream.exchange.query["timeoutSeconds"] == "300"
        assert stream.exchange.query["allowWatchBookmarks"] == "true"
        await stream.send(event("ADDED", cart_slice("4101", A)))
        await bed.sees(A)

        await bed.api.nothing_for(325)
        age = bed.resource("endpointslices").last_event_age
        assert 324 < age < 327
        await bed.watched("4101", within=331 - 325)

        assert bed.clock.monotonic() - opened <= 331
        assert bed.addresses() == [A]
        assert stream.exchange.client_is_gone
        assert bed.counter("watch_stalls_total") >= 1
        assert bed.local == [CART]


async def test_case_c01_a_black_hole_before_the_answer_is_left_after_30_s() -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("4100")
        hole = await bed.api.next()
        assert hole.is_watch
        await bed.api.nothing_for(29)
        await bed.watched("4100")
        assert bed.counter('watch_errors_total{reason="api_unreachable"}') == 1


@pytest.mark.parametrize("framing", ["chunked", "length", "until_close", "status"])
async def test_case_c02_gone_means_list_diff_and_watch_in_every_framing(framing: str) -> None:
    added, gone = (CASES / "gone.jsonl").read_bytes().splitlines(keepends=True)
    async with bed_of("endpointslices") as bed:
        await bed.listed("4100")
        stream = await bed.watched("4100")
        await stream.send_bytes(added)
        await bed.sees(A)
        await bed.api.nothing_for(100)
        await stream.end()
        exchange = await bed.api.next()
        assert exchange.query["resourceVersion"] == "4101"
        if framing == "chunked":
            second = await exchange.stream()
            await second.send_bytes(gone)
        elif framing == "length":
            exchange.answer_bytes(gone.rstrip())
        elif framing == "until_close":
            exchange.until_close(gone)
        else:
            exchange.refuse(410, "Gone", "too old resource version")

        await bed.listed("9990", cart_slice("4101", A))
        await bed.watched("9990")

        assert bed.counter('watch_relists_total{reason="gone"}') == 1
        assert bed.local == [CART]
        versions = {one.query.get("resourceVersion") for one in bed.api.log}
        assert not versions & {"None", "0", ""}


async def test_case_c03_a_deletion_within_a_gap_is_found_once_and_nothing_else_touched() -> None:
    aa1, bb2 = cart_slice("480", A), cart_slice("490", B, name="cart-bb2")
    other = cart_slice("470", "10.20.9.9", name="pay-cc3")
    other["metadata"]["labels"]["kubernetes.io/service-name"] = "pay"
    async with bed_of("endpointslices") as bed:
        await bed.listed("500", aa1, bb2, other)
        stream = await bed.watched("500")
        assert bed.addresses() == [A, B]
        bed.local.clear()
        await bed.api.nothing_for(100)
        await stream.end()
        (await bed.api.next()).refuse(410, "Expired")
        await bed.listed("540", aa1, other)
        await bed.watched("540")

        assert bed.addresses() == [A]
        assert bed.local == [CART]


@pytest.mark.parametrize("line", [1, 2, 3, 4, 5, 6])
async def test_case_c04_no_refusal_but_410_lists_or_ends_the_watching(line: int) -> None:
    text = (CASES / "refusals.jsonl").read_bytes().splitlines(keepends=True)[line - 1]
    async with bed_of("endpointslices") as bed:
        await bed.listed("500", cart_slice("480", A))
        stream = await bed.watched("500")
        await bed.api.nothing_for(100)
        await stream.send_bytes(text)
        if line == 4:
            await stream.send(event("ADDED", cart_slice("501", B, name="cart-bb2")))
            await bed.sees(A, B)
            assert bed.counter("watch_unknown_event_total") == 1
            return
        if line == 1:
            await bed.api.nothing_for(6.9)
        again = await bed.api.next()
        assert again.is_watch
        assert again.query["resourceVersion"] == "500"
        assert bed.addresses() == [A]
        if line == 6:
            assert "api_forbidden: watch endpointslices" in bed.error()
            assert not bed.cluster.health().synced


async def test_case_c04_no_rights_at_all_is_told_and_ends_when_they_come() -> None:
    async with bed_of("endpointslices") as bed:
        for _ in range(3):
            (await bed.api.next()).refuse(403, "Forbidden", "you may not list")
        await eventually(lambda: "grant our account the verb list on endpointslices" in bed.error())
        assert not bed.cluster.health().synced
        await bed.listed("7", cart_slice("6", A))
        await bed.watched("7")
        await bed.cluster.wait_synced()
        assert bed.cluster.health().synced


async def test_case_c05_lines_of_megabytes_decode() -> None:
    padded = cart_slice("11", A, name="cart-big")
    padded["metadata"]["annotations"] = {"example.test/padding": "x" * 300_000}
    bigger = cart_slice("12", *(f"10.21.{n // 250}.{n % 250 + 1}" for n in range(1000)))
    bigger["metadata"]["annotations"] = {"example.test/padding": "x" * 2_300_000}
    for number, endpoint in enumerate(bigger["endpoints"]):
        endpoint.update(
            hostname=f"h{number:062d}",
            nodeName="n" * 253,
            targetRef={"kind": "Pod", "name": f"{'p' * 240}{number}", "namespace": "shop"},
        )
    assert len(json.dumps(bigger)) > 2_900_000
    async with bed_of("endpointslices") as bed:
        await bed.listed("10")
        stream = await bed.watched("10")
        await stream.send(event("ADDED", padded), event("ADDED", bigger))
        await eventually(lambda: len(bed.addresses()) == 1001)
        assert bed.counter("watch_line_too_long_total") == 0


async def test_case_c05_a_longer_line_is_listed_while_others_flow() -> None:
    settings = KubernetesSettings(watch=WatchSettings(line_bytes=20_000))
    huge = cart_slice("11", A, name="cart-huge")
    huge["metadata"]["annotations"] = {"example.test/padding": "x" * 30_000}
    async with bed_of("endpointslices", settings=settings) as bed:
        await bed.listed("10")
        stream = await bed.watched("10")
        await stream.send(event("ADDED", huge))
        await stream.send(event("ADDED", cart_slice("12", B, name="cart-bb2")))
        await bed.sees(B)
        assert "EndpointSlice/shop/cart-huge" in bed.error()
        first = await bed.api.next()
        first.answer(slice_list("13", huge, token="more"))
        second = await bed.api.next()
        assert second.query["continue"] == "more"
        second.answer(slice_list("13", cart_slice("12", B, name="cart-bb2")))
        await bed.watched("13")
        assert bed.addresses() == [A, B]
        assert bed.counter("watch_line_too_long_total") == 1
        assert bed.counter('watch_relists_total{reason="line_too_long"}') == 1


CUT = b'{"type":"MODIFIED","object":{"metadata":{"name":"cart-aa1","resourceVersion":"77"'


@pytest.mark.parametrize("ending", ["cut", "end", "until_close"])
async def test_case_c07_half_a_line_is_dropped_and_watched_again_quietly(ending: str) -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("70", cart_slice("66", A))
        exchange = await bed.api.next()
        with structlog.testing.capture_logs() as logs:
            if ending == "until_close":
                exchange.until_close(CUT)
            else:
                stream = await exchange.stream()
                await stream.send_bytes(CUT)
                await (stream.end() if ending == "end" else nothing(stream.cut))
            await bed.watched("70")
        assert bed.addresses() == [A]
        assert {one["log_level"] for one in logs} <= {"debug"}


async def nothing(action: Any) -> None:
    action()


@pytest.mark.parametrize("ending", ["cut", "end", "until_close"])
async def test_case_c07_a_whole_object_without_its_newline_counts(ending: str) -> None:
    whole = json.dumps(bookmark("78")).encode()
    async with bed_of("endpointslices") as bed:
        await bed.listed("70")
        exchange = await bed.api.next()
        if ending == "until_close":
            exchange.until_close(whole)
        else:
            stream = await exchange.stream()
            await stream.send_bytes(whole)
            await (stream.end() if ending == "end" else nothing(stream.cut))
        await bed.watched("78")


async def test_characters_cut_by_chunks_arrive_whole() -> None:
    body = cart_slice("71", A)
    body["endpoints"][0]["hostname"] = "db-0"
    body["metadata"]["annotations"] = {"city": "Tromsø \N{SNOWMAN} \U0001f40b"}
    line = json.dumps(event("ADDED", body), ensure_ascii=False).encode() + b"\n"
    async with bed_of("endpointslices") as bed:
        await bed.listed("70")
        stream = await bed.watched("70")
        for number in range(len(line)):
            await stream.send_bytes(line[number : number + 1])
        await bed.sees(A)


async def test_bytes_that_are_no_text_are_listed_never_guessed() -> None:
    line = json.dumps(event("ADDED", cart_slice("71", A))).encode().replace(b"cart-aa1", b"c\xffrt")
    async with bed_of("endpointslices") as bed:
        await bed.listed("70")
        stream = await bed.watched("70")
        await stream.send_bytes(line + b"\n")
        await bed.listed("72")
        await bed.watched("72")
        assert bed.addresses() == []
        assert bed.counter('watch_relists_total{reason="decode"}') == 1


async def test_case_c09_a_lagging_server_takes_nothing_back() -> None:
    async with bed_of("endpointslices") as bed:
        first = await bed.listed("7000", cart_slice("6990", "10.20.1.9"))
        stream = await bed.watched("7000")
        stream.cut()
        await bed.watched("7000")
        assert "resourceVersion" not in first.query
        assert bed.local == [CART]


async def test_case_c10_a_rewound_history_is_found_by_the_audit_and_told() -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("1200", cart_slice("1150", A))
        listed = bed.clock.monotonic()
        stream = await bed.watched("1200")
        await bed.api.nothing_for(299)
        await stream.end()
        await bed.watched("1200")
        with structlog.testing.capture_logs() as logs:
            exchange = await bed.api.next(within=302)
            assert not exchange.is_watch
            assert "resourceVersion" not in exchange.query
            exchange.answer(slice_list("1001", cart_slice("1001", "10.20.1.77")))
            await bed.watched("1001")
        assert bed.clock.monotonic() - listed <= 601
        assert bed.addresses() == ["10.20.1.77"]
        assert [one["event"] for one in logs if one["log_level"] == "warning"] == [
            "watch_history_rewound"
        ]
        assert bed.counter("watch_history_rewound_total") == 1


async def test_case_c10_too_large_a_version_twice_is_listed_at_once() -> None:
    details: dict[str, Any] = {
        "causes": [{"reason": "ResourceVersionTooLarge"}],
        "retryAfterSeconds": 1,
    }
    async with bed_of("endpointslices") as bed:
        await bed.listed("1200", cart_slice("1150", A))
        for _ in range(2):
            refused = await bed.api.next()
            assert refused.query["resourceVersion"] == "1200"
            refused.refuse(504, "Timeout", "Too large resource version: 1200", **details)
        await bed.listed("1001", cart_slice("1001", "10.20.1.77"))
        await bed.watched("1001")
        assert bed.addresses() == ["10.20.1.77"]
        assert bed.counter("watch_history_rewound_total") == 1


async def test_an_audit_of_a_busy_collection_is_no_rewind() -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("1200", cart_slice("1150", A))
        stream = await bed.watched("1200")
        await bed.api.nothing_for(299)
        await stream.end()
        stream = await bed.watched("1200")
        await bed.api.nothing_for(120)
        await stream.send(bookmark("1300"))
        await bed.api.nothing_for(20)
        await stream.send(bookmark("1400"))
        exchange = await bed.api.next(within=170)
        exchange.answer(slice_list("1500", cart_slice("1450", B)))
        await bed.watched("1500")
        assert bed.counter("watch_history_rewound_total") <= 1
        assert bed.counter('watch_relists_total{reason="audit"}') == 1


async def test_what_a_lagging_watch_did_not_bring_is_there_once_all_was_read_anew() -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("1200", cart_slice("1150", A))
        await bed.watched("1200")
        reading = asyncio.create_task(bed.cluster.reread())
        exchange = await bed.api.next(within=1)
        assert not exchange.is_watch
        assert "resourceVersion" not in exchange.query
        assert not reading.done()
        exchange.answer(slice_list("1300", cart_slice("1250", B)))
        await eventually(reading.done)
        assert bed.addresses() == [B]
        await bed.watched("1300")


async def test_case_c11_bookmarks_move_the_version_and_nothing_else() -> None:
    lines = (CASES / "bookmarks.jsonl").read_bytes()
    async with bed_of("endpointslices") as bed:
        await bed.listed("4100")
        stream = await bed.watched("4100")
        await stream.send_bytes(lines)
        await bed.sees(A)
        await bed.api.nothing_for(100)
        await stream.end()
        await bed.watched("4190")
        assert bed.addresses() == [A]
        assert bed.local == [CART]


async def test_case_c13_a_refusing_server_is_asked_ever_more_seldom_and_never_listed() -> None:
    memory = MemoryApi()
    async with bed_of(memory=memory) as bed:
        await bed.cluster.wait_synced()
        await eventually(lambda: sum(one.is_watch for one in bed.api.log) == 4)
        before = len(bed.api.log)
        memory.scripted = {"endpointslices", "services", "namespaces", "endpoints"}
        memory.end_watches()
        end = bed.clock.monotonic() + 120
        attempts = 0
        while (left := end - bed.clock.monotonic()) > 0.1:
            try:
                exchange = await bed.api.next(within=left)
            except AssertionError:
                break
            exchange.drop()
            attempts += 1
        assert attempts <= 4 * 12
        assert all(one.is_watch for one in bed.api.log[before:])
        memory.scripted = set()
        memory.put("endpointslices", cart_slice(None, A))
        await bed.api.nothing_for(61)
        await bed.sees(A)
        assert all(one.is_watch for one in bed.api.log[before:])


async def test_case_c13_only_one_list_is_in_flight() -> None:
    async with bed_of("endpointslices", "services", "namespaces", "endpoints") as bed:
        lists = 0
        while lists < 4:
            exchange = await bed.api.next()
            if exchange.is_watch:
                await exchange.stream()
                continue
            lists += 1
            before = len(bed.api.log)
            await bed.api.time_passes(5)
            assert not [one for one in bed.api.log[before:] if not one.is_watch]
            exchange.answer({"metadata": {"resourceVersion": "5"}, "items": []})


async def test_case_c14_a_refused_token_is_read_anew_and_tried_once() -> None:
    connection = PlainConnection("tok-1", "tok-2")
    async with bed_of("endpointslices", connection=connection) as bed:
        refused = await bed.api.next()
        assert refused.token == "Bearer tok-1"
        refused.refuse(401, "Unauthorized")
        again = await bed.api.next(within=0)
        assert again.token == "Bearer tok-2"
        again.answer(slice_list("5"))
        await bed.watched("5")
        assert connection.renewed == 1


async def test_case_c14_a_second_refusal_is_told_without_the_token_and_backs_off() -> None:
    connection = PlainConnection("tok-secret-1", "tok-secret-2")
    async with bed_of("endpointslices", connection=connection) as bed:
        with structlog.testing.capture_logs() as logs:
            for _ in range(2):
                one = await bed.api.next()
                one.refuse(401, "Unauthorized", f"bad token {one.token}")
            await eventually(lambda: "api_unauthorized" in bed.error())
            await bed.listed("5")
            await bed.watched("5")
        assert not any("tok-secret" in json.dumps(one, default=str) for one in logs)
        assert any(one.get("code") == "api_unauthorized" for one in logs)


async def test_case_c16_a_dead_task_is_started_again_with_a_fresh_session() -> None:
    connection = Sabotaged()
    async with bed_of("endpointslices", connection=connection) as bed:
        await bed.listed("10")
        stream = await bed.watched("10")
        for number in (11, 12, 13):
            await stream.send(event("ADDED", cart_slice(str(number), A, name=f"cart-{number}")))
        await eventually(lambda: CART in bed.local)
        connection.surprises = 1
        await bed.api.nothing_for(100)
        with structlog.testing.capture_logs() as logs:
            await stream.end()
            await bed.watched("13")
        assert [one["task"] for one in logs if one["event"] == "watch_task_died"] == [
            "endpointslices"
        ]
        assert bed.counter("watch_task_restarts_total") == 1
        assert bed.cluster.failed_tasks() == ()


async def test_case_c16_three_deaths_in_five_minutes_are_for_the_kubelet() -> None:
    connection = Sabotaged()
    connection.surprises = 3
    async with bed_of("endpointslices", connection=connection) as bed:
        await bed.listed("10")
        await bed.watched("10")
        assert bed.cluster.failed_tasks() == ("endpointslices",)
        assert "watch_task_failed: the task endpointslices" in bed.error()
        bed.clock.advance(301)
        assert bed.cluster.failed_tasks() == ()


class Sabotaged(PlainConnection):
    """A connection that now and then raises what nobody expects, for slices only."""

    surprises = 0

    async def route(self) -> Any:
        task = asyncio.current_task()
        if self.surprises and task is not None and task.get_name() == "watch endpointslices":
            self.surprises -= 1
            raise RuntimeError("Session is closed")
        return await super().route()


async def test_case_c17_lock_objects_touch_nothing_and_times_alone_touch_nothing() -> None:
    lines = (CASES / "leader_election.jsonl").read_bytes().splitlines(keepends=True)
    async with bed_of("endpoints") as bed:
        await bed.listed("8000")
        stream = await bed.watched("8000")
        await stream.send_bytes(lines[0] + lines[1])
        await stream.send_bytes(lines[2])
        await bed.sees(A)
        assert bed.local == [CART]
        await stream.send_bytes(lines[3])
        await stream.send_bytes(lines[1])
        await eventually(lambda: len(bed.cluster.services()) == 1)
        await bed.api.nothing_for(100)
        await stream.end()
        await bed.watched("8002")
        assert bed.local == [CART]


async def test_case_c18_a_mirrored_backend_counts_once_and_the_warning_is_logged_once() -> None:
    backend: dict[str, Any] = {
        "metadata": {"name": "ledger", "namespace": "shop"},
        "subsets": [
            {
                "addresses": [{"ip": "192.0.2.31"}, {"ip": "192.0.2.32"}],
                "ports": [{"name": "db", "port": 5432, "protocol": "TCP"}],
            }
        ],
    }
    mirror = cart_slice(None, "192.0.2.31", "192.0.2.32", name="ledger-m5x2q")
    mirror["ports"] = [{"name": "db", "port": 5432, "protocol": "TCP"}]
    mirror["metadata"]["labels"] = {
        "kubernetes.io/service-name": "ledger",
        "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
    }
    ledger = type(CART)("shop", "ledger")
    both = ["192.0.2.31", "192.0.2.32"]
    async with bed_of() as bed:
        bed.memory.put("endpoints", backend)
        await eventually(lambda: bed.addresses(ledger) == both)
        bed.memory.put("endpointslices", mirror)
        await eventually(lambda: bed.memory.version)
        assert bed.addresses(ledger) == both
        bed.memory.remove("endpointslices", "shop", "ledger-m5x2q")
        await bed.api.nothing_for(0.5)
        assert bed.addresses(ledger) == both


async def test_case_c18_a_deprecation_warning_is_logged_once() -> None:
    warning = {"Warning": '299 - "v1 Endpoints is deprecated in v1.33+"'}
    async with bed_of("endpoints") as bed:
        with structlog.testing.capture_logs() as logs:
            exchange = await bed.api.next()
            exchange.answer({"metadata": {"resourceVersion": "1"}, "items": []}, headers=warning)
            exchange = await bed.api.next()
            exchange.refuse(410, "Expired")
            exchange = await bed.api.next()
            exchange.answer({"metadata": {"resourceVersion": "2"}, "items": []}, headers=warning)
            await bed.watched("2")
        assert [one["event"] for one in logs if "deprecated" in str(one)] == ["api_server_warning"]


@pytest.mark.parametrize("stripped", [False, True])
async def test_case_c70_our_own_output_never_comes_back_as_ours(*, stripped: bool) -> None:
    name = "crdt-replicator.cart.mesa-1q7xk2"
    labels = {
        "multicluster.kubernetes.io/service-name": "cart",
        "multicluster.kubernetes.io/source-cluster": "mesa",
        "endpointslice.kubernetes.io/managed-by": "crdt-replicator",
    }
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        output = cart_slice(None, "10.40.1.4", name=name)
        output["metadata"]["labels"] = labels
        bed.memory.put("endpointslices", output)
        await eventually(lambda: bed.owned == [CART])
        if stripped:
            output["metadata"]["labels"] = {"kubernetes.io/service-name": "cart"}
            bed.memory.put("endpointslices", output)
            await eventually(lambda: len(bed.owned) == 2)
        assert bed.addresses() == []
        assert bed.local == []
        assert len(bed.cluster.owned(CART)) == 1


async def test_case_c70_another_importers_output_is_never_local() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        foreign = cart_slice(None, "10.40.1.4", name="cart-mesa-1q7xk2")
        foreign["metadata"]["labels"] = {
            "kubernetes.io/service-name": "cart",
            "multicluster.kubernetes.io/source-cluster": "mesa",
            "endpointslice.kubernetes.io/managed-by": "replicator.example",
        }
        bed.memory.put("endpointslices", foreign)
        bed.memory.put("endpointslices", cart_slice(None, A))
        await bed.sees(A)


async def test_expired_tokens_begin_the_list_anew_and_remove_nothing() -> None:
    aa1, bb2 = cart_slice("480", A), cart_slice("490", B, name="cart-bb2")
    async with bed_of("endpointslices") as bed:
        await bed.listed("500", aa1, bb2)
        stream = await bed.watched("500")
        await bed.api.nothing_for(100)
        await stream.end()
        (await bed.api.next()).refuse(410, "Expired")
        for _ in range(2):
            page = await bed.api.next()
            assert "continue" not in page.query
            page.answer(slice_list("540", aa1, token="t"))
            rest = await bed.api.next()
            assert rest.query["continue"] == "t"
            rest.answer(
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "code": 410,
                    "reason": "Expired",
                    "metadata": {"continue": "inconsistent"},
                },
                status=410,
            )
            assert bed.addresses() == [A, B]
        await bed.listed("560", aa1, bb2)
        await bed.watched("560")
        assert bed.local == [CART]
        assert all(one.query.get("continue") != "inconsistent" for one in bed.api.log)


async def test_missing_crds_are_told_with_their_cure_and_hold_nothing_up() -> None:
    async with bed_of(export=ExportMode.SERVICE_EXPORT) as bed:
        for _ in range(50):
            await bed.api.nothing_for(0.2)
            if bed.cluster.health().synced:
                break
        await bed.cluster.wait_synced()
        assert "install the Multi-Cluster Services CRDs" in bed.error("serviceexports")
        bed.memory.put("endpointslices", cart_slice(None, A))
        await bed.sees(A)
        assert bed.cluster.local(CART).export is None

        bed.memory.not_served = frozenset()
        bed.memory.put("serviceexports", {"metadata": {"name": "cart", "namespace": "shop"}})
        await bed.api.nothing_for(61)
        assert bed.error("serviceexports") == ""
        assert bed.cluster.local(CART).export is not None


async def test_a_page_over_the_byte_limit_comes_in_halves() -> None:
    settings = KubernetesSettings(watch=WatchSettings(page_bytes=4000, page_items=16))
    memory = MemoryApi()
    for number in range(16):
        memory.put("endpointslices", cart_slice(None, f"10.20.2.{number + 1}", name=f"c-{number}"))
    async with bed_of(memory=memory, settings=settings) as bed:
        await eventually(lambda: len(bed.addresses()) == 16)
        limits = {one.query.get("limit") for one in bed.api.log if "endpointslices" in one.path}
        assert {"16", "8"} <= limits


async def test_a_list_that_is_no_json_is_told_and_asked_again() -> None:
    async with bed_of("endpointslices") as bed:
        (await bed.api.next()).answer_bytes(b"<html>login</html>")
        await eventually(lambda: "bad_list" in bed.error())
        await bed.listed("5", cart_slice("4", A))
        await bed.watched("5")
        assert bed.addresses() == [A]


async def test_an_object_that_cannot_be_named_is_counted_and_others_flow() -> None:
    async with bed_of("endpointslices") as bed:
        await bed.listed("5", {"metadata": {"name": "NOT A NAME"}}, cart_slice("4", A))
        stream = await bed.watched("5")
        await stream.send(event("ADDED", {"kind": "EndpointSlice", "metadata": {"name": ""}}))
        await stream.send(event("ADDED", cart_slice("7", B, name="cart-bb2")))
        await bed.sees(A, B)
        assert bed.counter("watch_bad_object_total") == 2


async def test_a_namespace_sized_store_follows_adds_changes_and_removes() -> None:
    async with bed_of() as bed:
        await bed.cluster.wait_synced()
        bed.memory.put("endpointslices", cart_slice(None, A))
        await bed.sees(A)
        bed.memory.put("endpointslices", cart_slice(None, A, B))
        await bed.sees(A, B)
        bed.memory.bookmark()
        bed.memory.remove("endpointslices", "shop", "cart-aa1")
        await bed.sees()


async def test_a_compacted_history_loses_nothing() -> None:
    async with bed_of() as bed:
        bed.memory.put("endpointslices", cart_slice(None, A))
        await bed.sees(A)
        await bed.api.nothing_for(100)
        bed.memory.end_watches()
        bed.memory.remove("endpointslices", "shop", "cart-aa1")
        bed.memory.put("endpointslices", cart_slice(None, B, name="cart-bb2"))
        bed.memory.compact()
        await bed.api.nothing_for(10)
        await bed.sees(B)
