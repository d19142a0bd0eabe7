"""Where an operator API is: ``host:port`` or ``unix:/path``.

Both ends read the same text: the agent's ``operator`` setting and the command's ``--agent``.  Pure;
it resolves no names, so only literal loopback addresses and ``localhost`` count as loopback.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from replicator.errors import InputError

DEFAULT_AGENT = "127.0.0.1:7480"
_UNIX = "unix:"
_MAX_PORT = 65535
_CURE = "write host:port, [IPv6]:port or unix:/path"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host (name or literal address, without brackets) and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket file."""

    path: str

    def __str__(self) -> str:
        return f"{_UNIX}{self.path}"


Address = TcpAddress | UnixAddress


def _bad(text: str, why: str) -> InputError:
    return InputError(f"{text[:200]!r} is not an address: {why}", cure=_CURE, code="bad_address")


def parse_address(text: str) -> Address:
    """Read ``host:port``, ``[IPv6]:port`` or ``unix:/path``.

    Raises :class:`~replicator.errors.InputError` (code ``bad_address``) for anything else.
    """
    if text.startswith(_UNIX):
        path = text[len(_UNIX) :]
        if not path or "\0" in path:
            raise _bad(text, "no path after unix:")
        return UnixAddress(path)
    host, separator, port_text = text.rpartition(":")
    if not separator or not host:
        raise _bad(text, "no host and port")
    if not (port_text.isascii() and port_text.isdigit()) or int(port_text) > _MAX_PORT:
        raise _bad(text, f"the port is not a number up to {_MAX_PORT}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise _bad(text, "an IPv6 address needs brackets")
    if not host or any(character in host for character in "/@[] \t\r\n"):
        raise _bad(text, "the host is not a name or an address")
    return TcpAddress(host, int(port_text))


def is_loopback(host: str) -> bool:
    """Whether ``host`` (no port, no brackets) can only mean this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_header_is_loopback(header: str | None) -> bool:
    """Whether an HTTP Host header names this machine.

    A page that a browser loaded from elsewhere can make its own name resolve to 127.0.0.1 (DNS
    rebinding), but cannot make the browser send another Host.
    """
    if header is None:
        return False
    if header.startswith("["):
        host, _, port = header[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = header.partition(":")
    return is_loopback(host) and (port == "" or (port.isascii() and port.isdigit()))
