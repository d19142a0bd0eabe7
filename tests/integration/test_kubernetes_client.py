"""HTTP calls to the API server: TLS, proxies, credentials, limits, broken answers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from clusters.kubernetes import KubernetesSettings
from clusters.kubernetes.client import (
    AnswerTooLargeError,
    AnswerUnreadableError,
    ApiRefusedError,
    ApiSession,
    ApiUnreachableError,
    Connection,
    StreamBrokenError,
    WarningLog,
)
from clusters.kubernetes.cluster import KubernetesCluster
from clusters.kubernetes.connection import ApiConnection
from clusters.settings import ExportMode, NamespaceFilter
from tests.clusters.kubernetes.certificates import Authority
from tests.clusters.kubernetes.kubeconfigs import kubeconfig, write
from tests.integration.kubernetes_bed import PlainConnection, cart_slice
from tests.integration.memory_api import MemoryApi
from tests.integration.scripted_api import Exchange, ScriptedApi, eventually
from tests.support.clock import FakeClock

PATH = "/api/v1/things"


@asynccontextmanager
async def session_of(
    api: ScriptedApi, connection: Connection | None = None
) -> AsyncIterator[ApiSession]:
    if connection is None:
        connection = PlainConnection()
        connection.url = api.url
    async with ApiSession(
        connection, api.clock, answer_seconds=30, warnings=WarningLog()
    ) as session:
        yield session


async def outcome(
    session: ApiSession, *, limit: int = 1000, query: dict[str, str] | None = None
) -> asyncio.Task[Any]:
    return asyncio.create_task(session.call("GET", PATH, query=query, limit=limit))


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    async with ScriptedApi(FakeClock()) as api:
        yield api


async def test_a_call_sends_json_and_returns_json(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        call = asyncio.create_task(
            session.call("POST", PATH, query={"a": "b c/=&"}, body={"x": "é"}, limit=100)
        )
        exchange = await api.next()
        assert (exchange.method, exchange.path, exchange.query, exchange.body) == (
            "POST",
            PATH,
            {"a": "b c/=&"},
            {"x": "é"},
        )
        assert exchange.headers["Content-Type"] == "application/json"
        assert exchange.headers["Accept"] == "application/json"
        assert exchange.headers["Accept-Encoding"] == "identity"
        assert exchange.token == "Bearer first"
        exchange.answer({"ok": True}, status=201)
        assert await call == {"ok": True}


async def test_an_answer_over_the_limit_is_not_kept(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        call = await outcome(session, limit=10)
        (await api.next()).answer_bytes(b'"12345678"')
        assert await call == "12345678"
        call = await outcome(session, limit=10)
        (await api.next()).answer_bytes(b'"123456789"')
        with pytest.raises(AnswerTooLargeError):
            await call


@pytest.mark.parametrize("body", [b"", b"<html>", b'"\xff"', b"{} x"])
async def test_an_answer_that_is_no_json_is_told(api: ScriptedApi, body: bytes) -> None:
    async with session_of(api) as session:
        call = await outcome(session)
        (await api.next()).answer_bytes(body)
        with pytest.raises(AnswerUnreadableError):
            await call


async def test_an_answer_that_breaks_off_is_no_answer(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        call = await outcome(session)
        stream = await (await api.next()).stream()
        await stream.send_bytes(b'{"whole": true}')
        stream.cut()
        with pytest.raises(ApiUnreachableError, match="broke off"):
            await call


async def test_no_answer_ends_after_30_s(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        call = await outcome(session)
        await api.next()
        await api.time_passes(29)
        assert not call.done()
        await api.time_passes(2)
        with pytest.raises(ApiUnreachableError, match="no answer within 30 s"):
            await call


async def test_a_redirect_is_a_refusal_and_never_followed(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        call = await outcome(session)
        (await api.next()).answer_bytes(b"", 302, {"Location": "http://elsewhere.test/"})
        with pytest.raises(ApiRefusedError, match="302"):
            await call
        assert len(api.log) == 1


async def test_a_huge_refusal_is_read_in_part(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        call = await outcome(session)
        (await api.next()).answer_bytes(b"x" * 1_000_000, 500)
        with pytest.raises(ApiRefusedError) as raised:
            await call
        assert raised.value.status.code == 500
        assert len(str(raised.value)) < 1000


async def test_a_refusal_that_breaks_off_is_still_one(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        call = await outcome(session)
        (await api.next()).answer_bytes(b"short", 403, {"Content-Length": "5"})
        with pytest.raises(ApiRefusedError, match="403 short"):
            await call


async def test_a_token_in_a_refusal_is_hidden(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        call = await outcome(session)
        exchange = await api.next()
        exchange.refuse(403, "Forbidden", f"who is {exchange.token}?")
        with pytest.raises(ApiRefusedError, match=r"who is Bearer \[hidden\]\?"):
            await call


async def test_nobody_listening_is_unreachable(api: ScriptedApi) -> None:
    connection = PlainConnection()
    connection.url = "http://127.0.0.1:1"
    async with session_of(api, connection) as session:
        with pytest.raises(ApiUnreachableError, match=r"http://127\.0\.0\.1:1"):
            await session.call("GET", PATH, limit=10)


async def test_a_watch_yields_chunks_and_tells_its_end(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        task = asyncio.create_task(collect(session))
        stream = await (await api.next()).stream()
        await stream.send_bytes(b"one")
        await stream.send_bytes(b"two")
        await stream.end()
        assert b"".join(await task) == b"onetwo"


async def test_a_watch_that_breaks_is_told(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        task = asyncio.create_task(collect(session))
        stream = await (await api.next()).stream()
        await stream.send_bytes(b"one")
        stream.cut()
        with pytest.raises(StreamBrokenError):
            await task


async def test_a_watch_that_is_refused_is_told(api: ScriptedApi) -> None:
    async with session_of(api) as session:
        task = asyncio.create_task(collect(session))
        (await api.next()).refuse(410, "Gone")
        with pytest.raises(ApiRefusedError) as raised:
            await task
        assert raised.value.status.gone


async def collect(session: ApiSession) -> list[bytes]:
    async with session.watch(PATH, {"watch": "true"}) as chunks:
        return [chunk async for chunk in chunks]


async def test_a_session_must_be_entered(api: ScriptedApi) -> None:
    session = ApiSession(PlainConnection(), api.clock, answer_seconds=1, warnings=WarningLog())
    with pytest.raises(RuntimeError, match="async with"):
        await session.call("GET", PATH, limit=1)
    await session.__aexit__(None, None, None)


async def test_a_proxy_gets_the_whole_address(tmp_path: Path, api: ScriptedApi) -> None:
    config = kubeconfig({"token": "t"}, server="http://api.test:8080", **{"proxy-url": api.url})
    connection = ApiConnection.from_kubeconfig(
        write(tmp_path / "c", config), None, clock=api.clock, environ={"no_proxy": "*"}
    )
    async with session_of(api, connection) as session:
        call = await outcome(session)
        exchange = await api.next()
        assert exchange.headers["Host"] == "api.test:8080"
        exchange.answer({})
        assert await call == {}


def secure(tmp_path: Path, authority: Authority, name: str) -> ssl.SSLContext:
    certificate, key = authority.issue(name)
    (tmp_path / "server.pem").write_bytes(certificate + key)
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    return context


def answer_nothing(exchange: Exchange) -> bool:
    exchange.answer({})
    return True


async def test_case_c61_an_old_cluster_ca_is_trusted_on_every_python(tmp_path: Path) -> None:
    context = secure(tmp_path, Authority(), "kubernetes")
    async with ScriptedApi(FakeClock(), answerer=answer_nothing, tls=context) as api:
        config = kubeconfig({"token": "t"}, server=api.url, **{"certificate-authority": "ca.crt"})
        connection = ApiConnection.from_kubeconfig(
            write(tmp_path / "c", config), None, clock=api.clock, environ={}
        )
        async with session_of(api, connection) as session:
            assert await session.call("GET", PATH, limit=10) == {}


async def test_another_name_is_asked_for_when_the_kubeconfig_says_so(tmp_path: Path) -> None:
    context = secure(tmp_path, Authority(), "kubernetes")
    async with ScriptedApi(FakeClock(), answerer=answer_nothing, tls=context) as api:
        for name, trusted in (("kubernetes", True), ("other", False)):
            cluster = {"certificate-authority": "ca.crt", "tls-server-name": name}
            config = kubeconfig({"token": "t"}, server=api.url, **cluster)
            connection = ApiConnection.from_kubeconfig(
                write(tmp_path / "c", config), None, clock=api.clock, environ={}
            )
            async with session_of(api, connection) as session:
                if trusted:
                    assert await session.call("GET", PATH, limit=10) == {}
                else:
                    with pytest.raises(ApiUnreachableError, match="certificate"):
                        await session.call("GET", PATH, limit=10)


async def test_a_server_of_another_ca_is_not_spoken_to(tmp_path: Path) -> None:
    context = secure(tmp_path, Authority(), "kubernetes")
    (tmp_path / "ca.crt").write_bytes(Authority().pem)
    async with ScriptedApi(FakeClock(), answerer=answer_nothing, tls=context) as api:
        config = kubeconfig({"token": "t0k"}, server=api.url, **{"certificate-authority": "ca.crt"})
        connection = ApiConnection.from_kubeconfig(
            write(tmp_path / "c", config), None, clock=api.clock, environ={}
        )
        async with session_of(api, connection) as session:
            with pytest.raises(ApiUnreachableError, match="certificate"):
                await session.call("GET", PATH, limit=10)
        assert api.log == []


async def test_a_whole_cluster_from_a_kubeconfig(tmp_path: Path) -> None:
    memory = MemoryApi()
    clock = FakeClock()
    context = secure(tmp_path, Authority(), "kubernetes")
    async with ScriptedApi(clock, answerer=memory.answer, tls=context) as api:
        (tmp_path / "token").write_text("tok", encoding="ascii")
        config = kubeconfig(
            {"tokenFile": "token"}, server=api.url, **{"certificate-authority": "ca.crt"}
        )
        cluster = await KubernetesCluster.from_kubeconfig(
            write(tmp_path / "c", config),
            None,
            cluster="fjord",
            export=ExportMode.ALL,
            namespaces=NamespaceFilter(),
            clock=clock,
            rng=Random(1),
            settings=KubernetesSettings(read_endpoints=False),
            environ={},
        )
        task = asyncio.create_task(cluster.run(lambda _: None, lambda _: None))
        await cluster.wait_synced()
        memory.put("endpointslices", cart_slice(None, "10.20.1.4"))
        await eventually(cluster.services)
        assert [one.name for one in cluster.health().resources] == [
            "endpointslices",
            "services",
            "namespaces",
        ]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
