"""Whether a call to the API server goes through a proxy (kubernetes.md W15).  Pure.

A kubeconfig's ``proxy-url`` always counts.  Otherwise ``https_proxy`` or ``http_proxy`` by the
server's scheme, unless ``no_proxy`` names the server.  Lower-case variables win over upper-case
ones, also when empty.  Loopback never goes through a proxy from the environment.  Names are not
resolved: addresses and networks match servers given as addresses.

Only API server calls ask here; peer links have a setting of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


def proxy_for(server: str, proxy_url: str | None, environ: Mapping[str, str]) -> str | None:
    """URL of the proxy for calls to ``server``; None = direct."""
    if proxy_url:
        return proxy_url
    parts = urlsplit(server)
    host, scheme = (parts.hostname or "").rstrip("."), parts.scheme
    proxy = _variable(environ, f"{scheme}_proxy")
    if not proxy or _is_loopback(host):
        return None
    port = parts.port or _DEFAULT_PORTS.get(scheme, 443)
    if is_exempt(host, port, _variable(environ, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def is_exempt(host: str, port: int, no_proxy: str) -> bool:
    """Whether a ``NO_PROXY`` list names ``host:port``.

    Entries are separated by commas or blanks: ``*``, a name (it and all below it), ``.suffix`` or
    ``*.suffix`` (all below it), an address, a network in CIDR form; each but ``*`` and networks may
    carry ``:port``.
    """
    host = host.lower().rstrip(".")
    address = _address(host)
    return any(
        _matches(entry, host, address, port) for entry in no_proxy.lower().replace(",", " ").split()
    )


def _matches(entry: str, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _in_network(entry, address)
    name, wanted = _split_port(entry)
    if wanted is not None and wanted != port:
        return False
    named = _address(name)
    if named is not None or address is not None:
        return named == address
    if name.startswith(("*.", ".")):
        return host.endswith(name.removeprefix("*"))
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, int | None]:
    """Take ``:port`` off a name, an IPv4 address or a bracketed IPv6 address."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        text = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, text = entry.partition(":")
    else:
        return entry, None
    return name, int(text) if text.isascii() and text.isdigit() else None


def _in_network(entry: str, address: IPv4Address | IPv6Address) -> bool:
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, environ.get(name.upper(), ""))
