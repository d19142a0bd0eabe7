"""Listening: socket files keep strangers out and are never taken from a living process."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import aiohttp
import pytest

from replicator.errors import ConfigError
from replicator.ops.address import TcpAddress, UnixAddress
from replicator.ops.server import OperatorServer
from tests.support.fake_views import FakeViews


async def status_over(path: Path) -> int:
    """HTTP status of /v1/status over a socket file."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
        session.get("http://localhost/v1/status") as answer,
    ):
        return answer.status


async def test_a_socket_file_is_for_its_owner_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "op.sock"
    server = OperatorServer(FakeViews(), UnixAddress(str(path)))
    await server.start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(server.address) == f"unix:{path}"
    assert await status_over(path) == 200
    await server.stop()
    assert not path.exists()


async def test_what_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "op.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    server = OperatorServer(FakeViews(), UnixAddress(str(path)))
    await server.start()
    assert await status_over(path) == 200
    await server.stop()


async def test_a_living_socket_is_not_taken(tmp_path: Path) -> None:
    address = UnixAddress(str(tmp_path / "op.sock"))
    first, second = OperatorServer(FakeViews(), address), OperatorServer(FakeViews(), address)
    await first.start()
    with pytest.raises(ConfigError, match="another process answers") as caught:
        await second.start()
    assert caught.value.code == "cannot_listen"
    assert await status_over(Path(address.path)) == 200
    await first.stop()


async def test_a_socket_whose_queue_is_full_counts_as_living(tmp_path: Path) -> None:
    path = tmp_path / "op.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        server = OperatorServer(FakeViews(), UnixAddress(str(path)))
        with pytest.raises(ConfigError, match="another process answers"):
            await server.start()
        assert path.is_socket()


async def test_a_file_that_is_no_socket_is_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("keep me")
    with pytest.raises(ConfigError, match="not a socket"):
        await OperatorServer(FakeViews(), UnixAddress(str(path))).start()
    assert path.read_text() == "keep me"


async def test_a_file_that_is_no_longer_ours_is_left_on_stop(tmp_path: Path) -> None:
    path = tmp_path / "op.sock"
    server = OperatorServer(FakeViews(), UnixAddress(str(path)))
    await server.start()
    path.unlink()
    path.write_text("somebody else's")
    await server.stop()
    assert path.exists()
    path.unlink()
    await server.stop()


async def test_a_path_that_cannot_be_bound_is_a_setting_to_correct(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "op.sock", tmp_path / ("x" * 200)):
        with pytest.raises(ConfigError, match="cannot listen on unix:"):
            await OperatorServer(FakeViews(), UnixAddress(str(path))).start()


async def test_a_port_in_use_is_a_setting_to_correct() -> None:
    first = OperatorServer(FakeViews(), TcpAddress("127.0.0.1", 0))
    await first.start()
    assert isinstance(first.address, TcpAddress)
    second = OperatorServer(FakeViews(), first.address)
    with pytest.raises(ConfigError, match="cannot listen on 127"):
        await second.start()
    await first.stop()


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::"])
def test_an_address_that_others_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="no authentication"):
        OperatorServer(FakeViews(), TcpAddress(host, 7480))
