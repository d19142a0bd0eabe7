"""Addresses of the clusters, and the network namespaces they live in.

One bridge joins a port of each node and one of this machine, so API servers and pods of all
clusters are reached from everywhere at their own addresses: every node routes every other's pods,
and nothing is masqueraded.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PREFIX = "mcsconf"
HUB = f"{PREFIX}-hub"
HOST_LINK = f"{PREFIX}-host"
MOST_CLUSTERS = 9


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the parts of one cluster are, in one family; ``index`` counts from 1."""

    index: int
    six: bool = False

    def _at(self, part: int, host: int) -> str:
        return f"fd00:10:215:{part}::{host:x}" if self.six else f"10.215.{part}.{host}"

    @property
    def node(self) -> str:
        """The node, with its API server and its DNS."""
        return self._at(0, 10 + self.index)

    @property
    def length(self) -> int:
        """Prefix length of the network of all nodes."""
        return 64 if self.six else 24

    @property
    def hub(self) -> str:
        """The bridge, by which the nodes reach this machine."""
        return self._at(0, 254)

    @property
    def machine(self) -> str:
        """This machine's port of the bridge."""
        return self._at(0, 1)

    @property
    def pods(self) -> str:
        """Range of the pods."""
        return f"{self._at(100 + self.index, 0)}/{self.length}"

    @property
    def services(self) -> str:
        """Range of the Services."""
        return f"{self._at(200 + self.index, 0)}/{112 if self.six else 24}"

    @property
    def dns(self) -> str:
        """ClusterIP of the DNS."""
        return self._at(200 + self.index, 10)


def families(index: int, *, dual: bool) -> list[Addresses]:
    """Addresses of a cluster in each of its families, IPv4 first."""
    return [Addresses(index), *([Addresses(index, six=True)] if dual else [])]


def namespace(index: int) -> str:
    """Network namespace of a node."""
    return f"{PREFIX}-c{index}"


@contextmanager
def joined(count: int, *, dual: bool) -> Iterator[None]:
    """Have the namespaces of so many nodes, joined; what an earlier run left goes first."""
    _remove()
    try:
        _hub(families(1, dual=dual), dual=dual)
        for index in range(1, count + 1):
            _node(index, count, dual=dual)
        yield
    finally:
        _remove()


def _hub(addresses: list[Addresses], *, dual: bool) -> None:
    _ip("netns", "add", HUB)
    _ip("-n", HUB, "link", "set", "lo", "up")
    _ip("-n", HUB, "link", "add", "br0", "type", "bridge")
    _ip("-n", HUB, "link", "set", "br0", "up")
    _ip("link", "add", HOST_LINK, "type", "veth", "peer", "name", "host", "netns", HUB)
    _ip("-n", HUB, "link", "set", "host", "master", "br0", "up")
    for one in addresses:
        _address(one.hub, one, "br0", HUB)
        _address(one.machine, one, HOST_LINK)
    _ip("link", "set", HOST_LINK, "up")
    _forward(HUB, dual=dual)


def _node(index: int, count: int, *, dual: bool) -> None:
    name, uplink = namespace(index), f"up-c{index}"
    _ip("netns", "add", name)
    _ip("-n", name, "link", "set", "lo", "up")
    peer = ("peer", "name", "eth0", "netns", name)
    _ip("link", "add", uplink, "netns", HUB, "type", "veth", *peer)
    _ip("-n", HUB, "link", "set", uplink, "master", "br0", "up")
    own = families(index, dual=dual)
    for one in own:
        _address(one.node, one, "eth0", name)
    _ip("-n", name, "link", "set", "eth0", "up")
    _forward(name, dual=dual)
    for one in own:
        _ip("-n", name, "route", "add", "default", "via", one.hub)
        _ip("-n", HUB, "route", "add", one.pods, "via", one.node)
        _ip("route", "add", one.pods, "via", one.node)
    for other in range(1, count + 1):
        for one in families(other, dual=dual) if other != index else ():
            _ip("-n", name, "route", "add", one.pods, "via", one.node)


def _address(address: str, family: Addresses, device: str, name: str | None = None) -> None:
    where = ("-n", name) if name else ()
    # An address of IPv6 is not usable at once where its being the only one is looked into.
    whole = f"{address}/{family.length}"
    _ip(*where, "addr", "add", whole, "dev", device, *(["nodad"] if family.six else []))


def _forward(name: str, *, dual: bool) -> None:
    settings = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"]
    settings += ["net.ipv6.conf.all.forwarding=1"] if dual else []
    _ip("netns", "exec", name, "sysctl", "-qw", *settings)


def _remove() -> None:
    """Remove what is ours by its name; that it is not there is no failure."""
    for name in sorted(Path("/run/netns").glob(f"{PREFIX}-*")):
        _ip("netns", "del", name.name)
    if (Path("/sys/class/net") / HOST_LINK).exists():
        _ip("link", "del", HOST_LINK)


def _ip(*words: str) -> None:
    program = shutil.which("ip") or "/sbin/ip"
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"`ip {' '.join(words)}`: {done.stderr.strip()}")
