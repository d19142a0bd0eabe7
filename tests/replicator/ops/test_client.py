"""The command's HTTP client: every way of not getting an answer is one typed error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from replicator.errors import (
    InputError,
    NotGood,
    RefusedError,
    ReplicatorError,
    UnreachableError,
)
from replicator.ops.address import TcpAddress, UnixAddress
from replicator.ops.broadcast import LaggedError
from replicator.ops.client import AgentClient
from replicator.ops.views import Selection
from tests.support.fake_views import FakeViews, ServedViews, change, item


@contextmanager
def answering(answer: bytes, *, then_wait: bool = False) -> Iterator[AgentClient]:
    """A client of something that takes one request, sends ``answer`` and hangs up (or does not)."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)
                if then_wait:
                    over.wait(20)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        patience = 0.05 if then_wait else 10.0
        yield AgentClient(TcpAddress(*listener.getsockname()), patience=patience)
        over.set()
        thread.join(20)


def response(status: str, body: bytes) -> bytes:
    """A plain HTTP response."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def test_views_arrive_as_they_were_given() -> None:
    with ServedViews(FakeViews()) as served:
        served.views.items = [item()]
        served.views.snapshot_document = {"format": "x"}
        host, _, port = served.address.rpartition(":")
        client = AgentClient(TcpAddress(host, int(port)))
        assert str(client.address) == served.address
        assert client.status() == served.views.status()
        assert client.items("peers") == served.views.peers()
        assert client.endpoints(Selection(namespace="shop")) == [item()]
        assert served.views.asked == [("shop", None, None)]
        assert client.snapshot() == {"format": "x"}


def test_a_watch_sees_everything_published_once_it_stands() -> None:
    with ServedViews(FakeViews()) as served:
        host, _, port = served.address.rpartition(":")
        served.publish_when_watched(change(), change("remove"))
        changes = AgentClient(TcpAddress(host, int(port))).watch(Selection())
        assert [next(changes), next(changes)] == [change(), change("remove")]
        changes.close()


def test_proxy_variables_are_not_for_this(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with answering(response("200 OK", b'{"a": 1}')) as client:
        assert client.status() == {"a": 1}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("400 Bad Request", InputError),
        ("404 Not Found", InputError),
        ("405 Method Not Allowed", InputError),
        ("401 Unauthorized", RefusedError),
        ("409 Conflict", NotGood),
        ("403 Forbidden", RefusedError),
        ("500 Internal Server Error", UnreachableError),
        ("503 Service Unavailable", UnreachableError),
    ],
)
def test_an_error_of_the_agent_keeps_code_message_and_cure(
    status: str, kind: type[ReplicatorError]
) -> None:
    body = b'{"error": {"code": "a_code", "message": "what", "cure": "do this"}}'
    with answering(response(status, body)) as client, pytest.raises(kind) as caught:
        client.status()
    assert type(caught.value) is kind
    assert caught.value.code == "a_code"
    assert "what" in caught.value.message
    assert caught.value.cure == "do this"


@pytest.mark.parametrize("status", ["200 OK", "500 Internal Server Error"])
def test_the_socket_goes_with_the_question_though_the_answer_has_no_end(status: str) -> None:
    gone = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(20)
                connection.recv(4096)
                connection.sendall(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\nnone".encode())
                connection.shutdown(socket.SHUT_WR)
                gone.append(connection.recv(1))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        client = AgentClient(TcpAddress(*listener.getsockname()))
        with pytest.raises(UnreachableError, match="is not a replicator agent") as caught:
            client.status()
        thread.join(20)
    assert gone == [b""]
    assert caught.value.code == "agent_unreachable"


@pytest.mark.parametrize(
    "answer",
    [
        response("404 Not Found", b"<html>"),
        response("500 Oh", b'{"error": "text"}'),
        response("500 Oh", b"[]"),
        response("200 OK", b"not json"),
        response("200 OK", b"[1, 2]"),
        b"220 mail.example ESMTP\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
    ],
)
def test_what_is_no_agent_is_said_to_be_none(answer: bytes) -> None:
    with answering(answer) as client, pytest.raises(UnreachableError):
        client.status()


@pytest.mark.parametrize("body", [b"{}", b'{"items": 5}', b'{"items": [5]}'])
def test_rows_that_are_none_are_said_to_be_none(body: bytes) -> None:
    with answering(response("200 OK", body)) as client, pytest.raises(UnreachableError) as caught:
        client.items("peers")
    assert "not a replicator agent" in caught.value.message


def test_an_agent_that_hangs_is_unreachable_in_time() -> None:
    with (
        answering(b"", then_wait=True) as client,
        pytest.raises(UnreachableError, match="does not answer in time"),
    ):
        client.status()


def test_a_watch_without_heartbeats_is_unreachable_in_time() -> None:
    stream = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nretry: 1000\n\n"
    with (
        answering(stream, then_wait=True) as client,
        pytest.raises(UnreachableError, match="does not answer in time"),
    ):
        next(client.watch(Selection()))


def test_a_watch_that_ends_says_so() -> None:
    stream = b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n: beat\n\ndata: {"op": "add"}\n\n'
    with answering(stream) as client:
        changes = client.watch(Selection())
        assert next(changes) == {"op": "add"}
        with pytest.raises(UnreachableError, match="ended the stream"):
            next(changes)


def test_a_watch_that_dropped_us_says_so() -> None:
    told = b'event: dropped\ndata: {"code": "lagged", "message": "too slow", "cure": "again"}\n\n'
    stream = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + told
    with answering(stream) as client, pytest.raises(LaggedError, match="too slow"):
        next(client.watch(Selection()))


def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    gone = tmp_path / "gone.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(gone))
    for address in (
        TcpAddress("127.0.0.1", port),
        UnixAddress(str(gone)),
        UnixAddress(str(tmp_path / "missing.sock")),
        UnixAddress("x" * 300),
        TcpAddress("no-such-host.invalid", 7480),
    ):
        with pytest.raises(UnreachableError, match="cannot reach an agent on"):
            AgentClient(address).status()
