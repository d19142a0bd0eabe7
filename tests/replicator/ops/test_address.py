"""Operator addresses: what is one, and what counts as this machine."""

from __future__ import annotations

import pytest

from replicator.errors import InputError
from replicator.ops.address import (
    TcpAddress,
    UnixAddress,
    host_header_is_loopback,
    is_loopback,
    parse_address,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7480", TcpAddress("127.0.0.1", 7480)),
        ("[::1]:7480", TcpAddress("::1", 7480)),
        ("agent.example:0", TcpAddress("agent.example", 0)),
        ("unix:/run/replicator/op.sock", UnixAddress("/run/replicator/op.sock")),
        ("unix:relative dir/op.sock", UnixAddress("relative dir/op.sock")),
    ],
)
def test_an_address_reads_back_as_it_is_written(
    text: str, address: TcpAddress | UnixAddress
) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "7480", ":7480", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536"),
        *("127.0.0.1:\u0661", "127.0.0.1:-1", "::1:7480", "[]:7480", "unix:", "unix:a\0b"),
        *("http://localhost:7480", "a b:7480", "user@host:7480"),
    ],
)
def test_anything_else_is_one_error_that_says_how_to_write_it(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_address(text)
    assert caught.value.code == "bad_address"
    assert "unix:/path" in caught.value.cure


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "127.0.0.1", "127.9.8.7", "::1"])
def test_loopback_names_and_addresses_are_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", ""])
def test_others_are_not_this_machine(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("header", ["localhost", "localhost:7480", "127.0.0.1:1", "[::1]:7480"])
def test_a_host_header_of_this_machine_passes(header: str) -> None:
    assert host_header_is_loopback(header)


@pytest.mark.parametrize(
    "header", [None, "", "evil.example", "evil.example:7480", "localhost:x", "127.0.0.1.evil:80"]
)
def test_any_other_host_header_does_not(header: str | None) -> None:
    assert not host_header_is_loopback(header)
