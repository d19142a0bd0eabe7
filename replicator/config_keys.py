"""The keys of the configuration: what each may hold, how it is read, what it is when left out.

One flat table of dotted keys serves the file, the environment (``source.kind`` is
``REPLICATOR_SOURCE_KIND``) and the suggestions for misspelt keys.  Readers check one value alone;
what several keys mean together is checked in :mod:`replicator.config`.

A reader raises :class:`Fault`, which does not know where the value stands; the caller adds that.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_interface, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from replicator.errors import InputError
from replicator.identity import MAX_LABEL, is_label
from replicator.networks import EVERY_OTHER
from replicator.ops.address import TcpAddress, UnixAddress, is_loopback, parse_address
from replicator.units import parse_duration, parse_size
from replicator.yaml_tree import Tree

ENVIRONMENT_PREFIX = "REPLICATOR_"
_SOCKET_PATH_LIMIT = 107
_LABEL_CURE = f"use a-z, 0-9 and inner hyphens, at most {MAX_LABEL} characters, in quotes if digits"
_NETWORK = re.compile(r"[0-9a-fA-F:.]{2,45}/[0-9]{1,3}", re.ASCII)
_PATTERN = re.compile(r"[a-z0-9*?\[\]!-]{1,253}", re.ASCII)


class Fault(Exception):  # noqa: N818  Never leaves the reading of a configuration.
    """A value is wrong: what about it, the cure, and the stable code."""

    def __init__(self, what: str, cure: str, code: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.cure = cure
        self.code = code


@dataclass(frozen=True, slots=True)
class Peer:
    """A cluster to dial and to expect."""

    cluster: str
    url: str
    """``https://host[:port]`` without anything after it."""


@dataclass(frozen=True, slots=True)
class Place:
    """What relative paths and ``~/`` are taken against."""

    folder: Path
    home: str | None


Reader = Callable[[Tree, Place], Any]


@dataclass(frozen=True, slots=True)
class Key:
    """How one key is read; a ``text`` is taken from the environment as it stands, not as YAML."""

    read: Reader
    default: Any = None
    text: bool = True
    nullable: bool = False
    required: bool = False


_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a mapping",
    type(None): "null",
}


def _kind(tree: Tree) -> str:
    return _KINDS[type(tree.value)]


def _text(tree: Tree, cure: str) -> str:
    value = tree.value
    if not isinstance(value, str):
        shown = f" ({value})" if isinstance(value, bool | int | float) else ""
        raise Fault(f"{_kind(tree)}{shown} where a text belongs", cure)
    if not value.isprintable():
        raise Fault(f"{value[:80]!r} holds characters that do not print", cure)
    return value


def label(tree: Tree, _place: Place) -> str:
    """A DNS label."""
    text = _text(tree, _LABEL_CURE)
    if not is_label(text):
        raise Fault(f"{text[:80]!r} is not a DNS label", _LABEL_CURE)
    return text


def path(tree: Tree, place: Place) -> Path:
    """A path; made absolute, with ``.`` and ``..`` resolved as text."""
    cure = "write a path, absolute or relative to the folder of the configuration file"
    text = _text(tree, cure)
    if not text.strip():
        raise Fault("an empty path", cure)
    if text == "~" or text.startswith("~/"):
        if not place.home:
            raise Fault(f"{text!r} names the home folder, and HOME is not set", cure)
        text = place.home + text[1:]
    return Path(os.path.normpath(place.folder / text))


def listening(tree: Tree, _place: Place) -> TcpAddress:
    """``host:port`` to listen on."""
    cure = "write host:port or [IPv6]:port, for example 0.0.0.0:7443"
    try:
        address = parse_address(_text(tree, cure))
    except InputError as error:
        raise Fault(error.message, cure) from error
    if not isinstance(address, TcpAddress):
        raise Fault("a socket file cannot be reached by peers or kubelets", cure)
    return address


def operator(tree: Tree, place: Place) -> str:
    """Where the operator API listens: loopback, or a socket file."""
    cure = "write 127.0.0.1:7480 or unix:/path"
    try:
        address = parse_address(_text(tree, cure))
    except InputError as error:
        raise Fault(error.message, cure) from error
    if isinstance(address, UnixAddress):
        socket_path = str(path(Tree(address.path, tree.line), place))
        if len(os.fsencode(socket_path)) > _SOCKET_PATH_LIMIT:
            what = f"the path of the socket has more than {_SOCKET_PATH_LIMIT} bytes"
            raise Fault(what, "choose a shorter one, for example below /run")
        return str(UnixAddress(socket_path))
    if not is_loopback(address.host):
        what = f"{address.host} is not loopback, and the operator API asks nobody who they are"
        raise Fault(what, f"{cure}; an operator role over mutual TLS is not available yet")
    return str(address)


def choice(*allowed: str) -> Reader:
    """One of ``allowed``."""
    cure = f"write one of {', '.join(allowed)}"

    def read(tree: Tree, _place: Place) -> str:
        text = _text(tree, cure)
        if text not in allowed:
            near = get_close_matches(text[:80], allowed, n=1)
            hint = f"did you mean {near[0]}? {cure}" if near else cure
            raise Fault(f"{text[:80]!r} is not known", hint)
        return text

    return read


def _within(number: float, least: float, most: float, cure: str) -> None:
    if not least <= number <= most:
        raise Fault(f"{number} is not between {least} and {most}", cure)


def whole(least: int, most: int) -> Reader:
    """A whole number."""
    cure = f"write a whole number from {least} to {most}"

    def read(tree: Tree, _place: Place) -> int:
        if isinstance(tree.value, bool) or not isinstance(tree.value, int):
            raise Fault(f"{_kind(tree)} where a whole number belongs", cure)
        _within(tree.value, least, most, cure)
        return tree.value

    return read


def yes_or_no(tree: Tree, _place: Place) -> bool:
    """A switch."""
    if not isinstance(tree.value, bool):
        raise Fault(f"{_kind(tree)} where true or false belongs", "write true or false")
    return tree.value


def rate(most: float) -> Reader:
    """A number of things per second."""
    cure = f"write a number from 0 to {most:g}: so many per second"

    def read(tree: Tree, _place: Place) -> float:
        if isinstance(tree.value, bool) or not isinstance(tree.value, int | float):
            raise Fault(f"{_kind(tree)} where a number belongs", cure)
        _within(tree.value, 0, most, cure)
        return float(tree.value)

    return read


def duration(least: str, most: str) -> Reader:
    """A time with its unit, in seconds."""
    cure = f"write a time with its unit from {least} to {most}, for example 60s"

    def read(tree: Tree, _place: Place) -> float:
        text = _text(tree, cure)
        try:
            seconds = parse_duration(text)
        except InputError as error:
            raise Fault(error.message, cure) from error
        if not parse_duration(least) <= seconds <= parse_duration(most):
            raise Fault(f"{text[:80]} is not between {least} and {most}", cure)
        return seconds

    return read


def size(least: str, most: str) -> Reader:
    """A number of bytes with its unit."""
    cure = f"write a size with its unit from {least} to {most}, for example {most}"

    def read(tree: Tree, _place: Place) -> int:
        text = _text(tree, cure)
        try:
            count = parse_size(text)
        except InputError as error:
            raise Fault(error.message, cure) from error
        if not parse_size(least) <= count <= parse_size(most):
            raise Fault(f"{text[:80]} is not between {least} and {most}", cure)
        return count

    return read


def name(tree: Tree, _place: Place) -> str:
    """A name that somebody else defines."""
    cure = "write a name"
    text = _text(tree, cure)
    if not text.strip():
        raise Fault("an empty name", cure)
    return text


def patterns(tree: Tree, _place: Place) -> tuple[str, ...]:
    """Globs over namespaces."""
    cure = 'write a list of namespaces or patterns, for example ["*"]'
    if not isinstance(tree.value, list):
        raise Fault(f"{_kind(tree)} where a list belongs", cure)
    texts = tuple(_text(item, cure) for item in tree.value)
    for text in texts:
        if _PATTERN.fullmatch(text) is None:
            raise Fault(f"{text[:80]!r} can match no namespace", cure)
    return texts


def included(tree: Tree, place: Place) -> tuple[str, ...]:
    """Globs over the namespaces that are looked at: some, since with none nothing would ever be."""
    found = patterns(tree, place)
    if not found:
        raise Fault("an empty list would leave every namespace out", 'leave it out, or write ["*"]')
    return found


_NETWORKS_CURE = "write networks as ADDRESS/BITS, for example [10.1.0.0/16]"


def _network(tree: Tree) -> str:
    text = _text(tree, _NETWORKS_CURE)
    if _NETWORK.fullmatch(text) is None:
        raise Fault(f"{text[:80]!r} is not a network", _NETWORKS_CURE)
    try:
        network = ip_network(text, strict=False)
    except ValueError as error:
        raise Fault(f"{text[:80]!r} is not a network", _NETWORKS_CURE) from error
    if str(network) != str(ip_interface(text)):
        raise Fault(f"{text} has bits beyond its mask", f"write {network}")
    return str(network)


def networks(tree: Tree, place: Place) -> Mapping[str, tuple[str, ...]]:
    """Networks by cluster, ``*`` for every other one."""
    cure = 'write {CLUSTER: [ADDRESS/BITS, ...]}, with "*" for clusters that are not named'
    if not isinstance(tree.value, dict):
        raise Fault(f"{_kind(tree)} where a mapping belongs", cure)
    found = {}
    for cluster, these in tree.value.items():
        if cluster != EVERY_OTHER:
            label(Tree(cluster, these.line), place)
        if not isinstance(these.value, list):
            raise Fault(f"{cluster}: {_kind(these)} where a list belongs", _NETWORKS_CURE)
        if not these.value:
            what = f"{cluster}: an empty list would hide every address"
            raise Fault(what, "name its networks, or leave the cluster out")
        try:
            found[cluster] = tuple(_network(item) for item in these.value)
        except Fault as fault:
            raise Fault(f"{cluster}: {fault.what}", fault.cure) from fault
    return found


def _url(tree: Tree) -> str:
    cure = "write https://HOST:PORT"
    text = _text(tree, cure)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise Fault(f"{text[:200]!r} is not a URL", cure) from error
    if parts.scheme != "https":
        raise Fault(f"{text[:200]!r} is not an https URL: peers speak mutual TLS only", cure)
    if not parts.hostname or " " in text or port == 0:
        raise Fault(f"{text[:200]!r} names no host and port", cure)
    if parts.path not in {"", "/"} or "?" in text or "#" in text or "@" in text:
        raise Fault(f"{text[:200]!r} has more than a host and a port", cure)
    return text.rstrip("/")


def _peer(tree: Tree, place: Place) -> Peer:
    cure = "write each peer as {cluster: ID, url: https://HOST:PORT}"
    if not isinstance(tree.value, dict):
        raise Fault(f"{_kind(tree)} where a peer belongs", cure)
    for key in tree.value:
        if key not in {"cluster", "url"}:
            raise Fault(f"the unknown key {key[:80]!r}", nearest(key, ("cluster", "url")) or cure)
    for key in ("cluster", "url"):
        if key not in tree.value:
            raise Fault(f"a peer has no {key}", cure)
    return Peer(label(tree.value["cluster"], place), _url(tree.value["url"]))


def peers(tree: Tree, place: Place) -> tuple[Peer, ...]:
    """The peers, each cluster and each URL once."""
    if not isinstance(tree.value, list):
        what = f"{_kind(tree)} where a list belongs"
        raise Fault(what, "write a list of {cluster: ID, url: https://HOST:PORT}")
    found = tuple(_peer(item, place) for item in tree.value)
    _once([peer.cluster for peer in found], "cluster")
    _once([peer.url for peer in found], "url")
    return found


def _once(values: Sequence[str], what: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            cure = "name each cluster once, with an address of its own"
            raise Fault(f"two peers with the {what} {value}", cure, "peer_is_self_or_duplicate")
        seen.add(value)


def nearest(key: str, known: Sequence[str]) -> str:
    """``did you mean ...?`` for a misspelt key, or nothing when none is near.

    A word that is right but stands in the wrong section is near, too.
    """
    near = get_close_matches(key[:100].lower().replace("-", "_"), known, n=1)
    if not near:
        last = key.rpartition(".")[2]
        near = [other for other in known if other.rpartition(".")[2] == last]
    return f"did you mean {near[0]}?" if near else ""


KEYS: Mapping[str, Key] = {
    "clusterset": Key(label, required=True),
    "cluster": Key(label, required=True),
    "region": Key(name),
    "listen": Key(listening, TcpAddress("0.0.0.0", 7443)),  # noqa: S104  Peers come from outside.
    "operator": Key(operator, "127.0.0.1:7480"),
    "health": Key(listening, TcpAddress("0.0.0.0", 7481), nullable=True),  # noqa: S104
    "state": Key(path, "/var/lib/replicator"),
    "peers": Key(peers, (), text=False),
    "networks": Key(networks, {}, text=False),
    "tls.certificate": Key(path, "tls.crt"),
    "tls.key": Key(path, "tls.key"),
    "tls.trust_bundle": Key(path, "ca.crt"),
    "source.kind": Key(choice("kubernetes", "directory", "simulated"), "kubernetes"),
    "source.path": Key(path, nullable=True),
    "source.kubeconfig": Key(path, nullable=True),
    "source.context": Key(name, nullable=True),
    "source.export": Key(choice("all", "annotated", "service-export"), "service-export"),
    "source.namespaces.include": Key(included, ("*",), text=False),
    "source.namespaces.exclude": Key(patterns, ("kube-system",), text=False),
    "source.services": Key(whole(1, 100_000), 10, text=False),
    "source.endpoints": Key(whole(1, 10_000), 10, text=False),
    "source.churn": Key(rate(100_000), 1.0, text=False),
    "source.duration": Key(duration("0s", "30d"), 0.0),
    "source.seed": Key(whole(0, 2**32 - 1), 0, text=False),
    "target.mode": Key(choice("mcs", "endpointslices", "directory", "none")),
    "target.path": Key(path, nullable=True),
    "target.namespaces.include": Key(included, ("*",), text=False),
    "target.namespaces.exclude": Key(patterns, (), text=False),
    "stale.policy": Key(choice("keep", "not-ready", "withdraw"), "keep"),
    "stale.after": Key(duration("1s", "30d"), 60.0),
    "stale.withdraw_after": Key(duration("1s", "365d"), 3600.0),
    "stale.withdraw_last": Key(yes_or_no, default=False, text=False),
    "guard.least": Key(whole(1, 1_000_000), 5, text=False),
    "guard.fresh_for": Key(duration("0s", "1h"), 15.0),
    "lease.enabled": Key(yes_or_no, default=False, text=False),
    "lease.namespace": Key(label, "replicator-system"),
    "lease.name": Key(label, nullable=True),
    "limits.frame": Key(size("256KiB", "1MiB"), 1 << 20),
    "limits.entry": Key(size("1KiB", "64KiB"), 1 << 16),
    "limits.links": Key(whole(1, 100_000), 1024, text=False),
    "limits.links_per_peer": Key(whole(4, 10_000), 8, text=False),
    "limits.handshakes": Key(whole(4, 100_000), 256, text=False),
    "limits.handshakes_per_address": Key(whole(4, 100_000), 64, text=False),
}
SECTIONS = frozenset(key[: at.start()] for key in KEYS for at in re.finditer(r"\.", key))


def variable(key: str) -> str:
    """The environment variable of a dotted key."""
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "_")
