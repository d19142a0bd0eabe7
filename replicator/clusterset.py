"""The folder of a clusterset as ``init`` lays it out: an authority, and one folder per cluster.

``ca/`` holds the authority and ``clusters.yaml``, the list of who was made here at which address
and ports; ``ID/`` holds what one agent needs: ``agent.yaml``, ``tls.crt``, ``tls.key``, ``ca.crt``,
and the folders it reads and writes.  Nothing that exists is ever overwritten: a second run adds
clusters under the same authority and says which lines the earlier configurations then lack.

Ports: an agent's peers reach it at the address given.  Its operator API and health listener take
7480 and 7481; further clusters on one host take the next free pairs (7482 and 7483, and so on).
Hosts are compared as text; all loopback hosts are one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path

import yaml

from replicator.config import load_config
from replicator.errors import ConfigError, InputError, PkiError
from replicator.identity import is_label
from replicator.ops.address import TcpAddress, UnixAddress, is_loopback, parse_address
from replicator.pem import make_folder, write_new
from replicator.pki import (
    Authority,
    create_ca,
    issue,
    load_authority,
    parse_host,
    save_authority,
    save_pair,
)

AUTHORITY_FOLDER = "ca"
_REGISTER = "clusters.yaml"
_FIRST_OPERATOR_PORT = 7480
_LAST_PORT = 65535
_UNREADABLE = (OSError, ValueError, AttributeError, KeyError, TypeError)
_CLUSTER_FILES = ("agent.yaml", "ca.crt", "tls.crt", "tls.key")


@dataclass(frozen=True, slots=True)
class Member:
    """One cluster: where its peers reach it, and its agent's own two ports."""

    cluster: str
    address: TcpAddress
    operator_port: int
    health_port: int

    @property
    def machine(self) -> str:
        """What tells whether two clusters share their ports."""
        return "loopback" if is_loopback(self.address.host) else self.address.host

    @property
    def url(self) -> str:
        """How its peers dial it."""
        return f"https://{self.address}"


@dataclass(slots=True)
class Laid:
    """What one run did."""

    members: list[Member]
    created: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    lacking: dict[str, list[Member]] = field(default_factory=dict)
    """For each cluster whose configuration was kept: the peers it does not name."""


def parse_member(text: str) -> tuple[str, TcpAddress]:
    """Read ``ID=HOST:PORT``; raises :class:`~replicator.errors.InputError`."""
    cluster, separator, where = text.partition("=")
    cure = "write --cluster ID=HOST:PORT, for example --cluster fjord=fjord.example:7443"
    if not separator:
        message = f"--cluster {text[:100]!r} names no address"
        raise InputError(message, cure=cure)
    if not is_label(cluster) or cluster == AUTHORITY_FOLDER:
        why = "is the authority's folder" if cluster == AUTHORITY_FOLDER else "is not a DNS label"
        message = f"--cluster {text[:100]!r}: {cluster[:100]!r} {why}"
        raise InputError(message, cure="name the cluster with a-z, 0-9 and inner hyphens")
    try:
        return cluster, _dialled(where)
    except InputError as error:
        message = f"--cluster {text[:100]!r}: {error.message}"
        raise InputError(message, cure=cure) from error


def _dialled(text: str) -> TcpAddress:
    address = parse_address(text)
    if isinstance(address, UnixAddress) or address.port == 0:
        message = f"{text[:100]!r} is not a host and a port from 1 to {_LAST_PORT}"
        raise InputError(message)
    parse_host(address.host)
    return address


def lay_out(
    folder: Path, clusterset: str, wanted: Sequence[tuple[str, TcpAddress]], now: datetime
) -> Laid:
    """Make what is missing of a clusterset in ``folder``.

    Raises :class:`~replicator.errors.InputError`, :class:`~replicator.errors.ConfigError` or
    :class:`~replicator.errors.PkiError`; what can be checked is checked before anything is written.
    """
    if not is_label(clusterset):
        message = f"--clusterset {clusterset[:100]!r} is not a DNS label"
        raise InputError(message, cure="name it with a-z, 0-9 and inner hyphens")
    register = folder / AUTHORITY_FOLDER / _REGISTER
    known = _read_register(register)
    members = _joined(known, wanted)
    kept = [name for name, _ in wanted if _is_complete(folder / name)]
    authority = _authority(folder, clusterset, now, used=bool(known or kept))
    _write_register(register, members.values())
    laid = Laid([members[name] for name, _ in wanted], kept=kept)
    for name, _ in wanted:
        if name not in kept:
            _make_cluster(folder / name, authority, members, name, now)
            laid.created.append(name)
    laid.lacking = _lacking(folder, members, laid.created)
    return laid


def _authority(folder: Path, clusterset: str, now: datetime, *, used: bool) -> Authority:
    """The authority that is there, or a new one when nothing was made here before."""
    inner = folder / AUTHORITY_FOLDER
    if any((inner / name).exists() for name in ("ca.crt", "ca.key")):
        return load_authority(inner, now, clusterset)
    if used:
        message = f"{inner} lacks ca.crt and ca.key, but clusters were made here"
        raise PkiError(message, cure="restore the authority, or use another folder")
    authority = create_ca(clusterset, now)
    save_authority(authority, inner)
    return authority


def _joined(
    known: Mapping[str, Member], wanted: Sequence[tuple[str, TcpAddress]]
) -> dict[str, Member]:
    """Those made before and those wanted now, with ports for the new ones."""
    members = dict(known)
    named: set[str] = set()
    for name, address in wanted:
        if name in named:
            message = f"--cluster {name} is given twice"
            raise InputError(message, cure="give each cluster once")
        named.add(name)
        if name in members and members[name].address != address:
            message = f"{name} was made for {members[name].address}, not for {address}"
            cure = "change listen in its agent.yaml and the url in those of its peers by hand"
            raise InputError(message, cure=cure)
    owners = {member.address: name for name, member in members.items()}
    new = [(name, address) for name, address in wanted if name not in members]
    for name, address in new:
        other = owners.setdefault(address, name)
        if other != name:
            message = f"{name} and {other} have the same address {address}"
            raise InputError(message, cure="give each cluster an address of its own")
    for name, address in new:
        members[name] = _with_ports(name, address, members, new)
    return members


def _with_ports(
    name: str,
    address: TcpAddress,
    members: Mapping[str, Member],
    new: Sequence[tuple[str, TcpAddress]],
) -> Member:
    """The lowest pair of ports that nothing else on the same machine uses or will use."""
    machine = Member(name, address, 0, 0).machine
    taken = {a.port for n, a in new if Member(n, a, 0, 0).machine == machine}
    for member in members.values():
        if member.machine == machine:
            taken |= {member.address.port, member.operator_port, member.health_port}
    port = next(p for p in count(_FIRST_OPERATOR_PORT, 2) if not taken & {p, p + 1})
    return Member(name, address, port, port + 1)


def _is_complete(folder: Path) -> bool:
    """Whether a cluster was made there; raises when only half of it is there."""
    found = [name for name in _CLUSTER_FILES if (folder / name).exists()]
    if found and len(found) < len(_CLUSTER_FILES):
        missing = ", ".join(name for name in _CLUSTER_FILES if name not in found)
        message = f"{folder} holds {', '.join(found)} but lacks {missing}"
        raise PkiError(message, cure="restore what is missing, or move the folder away")
    return bool(found)


def _make_cluster(
    folder: Path, authority: Authority, members: Mapping[str, Member], name: str, now: datetime
) -> None:
    member = members[name]
    make_folder(folder)
    save_pair(issue(authority, name, [member.address.host], now), authority, folder)
    for inner in ("source", "target"):
        make_folder(folder / inner)
    others = [other for key, other in sorted(members.items()) if key != name]
    write_new(folder / "agent.yaml", agent_yaml(authority.clusterset, member, others).encode())


def agent_yaml(clusterset: str, member: Member, others: Iterable[Member]) -> str:
    """The configuration ``init`` writes for ``member``."""
    address = member.address
    local = is_loopback(address.host)
    everywhere = "::" if ":" in address.host else "0.0.0.0"  # noqa: S104  Peers come from outside.
    listen = address if local else TcpAddress(everywhere, address.port)
    health = TcpAddress("127.0.0.1" if local else everywhere, member.health_port)
    peers = "".join(f"  {peer_line(other)}\n" for other in others)
    return f"""\
# Agent of the cluster {member.cluster}; relative paths are relative to this file.
clusterset: {_quoted(clusterset)}
cluster: {_quoted(member.cluster)}
region: {_quoted(member.cluster)}
listen: {_quoted(str(listen))}  # peers, mutual TLS only
operator: "127.0.0.1:{member.operator_port}"  # what the command asks: --agent ADDRESS
health: {_quoted(str(health))}  # /healthz /readyz /metrics; null = off
state: state
peers:{" []" if not peers else ""}
{peers}tls: {{certificate: tls.crt, key: tls.key, trust_bundle: ca.crt}}
source:  # what this cluster offers: the manifests in this folder
  kind: directory
  path: source
  export: all
target:  # what the other clusters offer is written here
  mode: directory
  path: target
stale: {{policy: keep, after: 60s}}
"""


def _quoted(text: str) -> str:
    """A YAML text that no reader takes for a number or a truth value."""
    return json.dumps(text)


def peer_line(member: Member) -> str:
    """The entry of ``member`` in the ``peers`` of another cluster's configuration."""
    return f"- {{cluster: {_quoted(member.cluster)}, url: {_quoted(member.url)}}}"


def _lacking(
    folder: Path, members: Mapping[str, Member], created: Sequence[str]
) -> dict[str, list[Member]]:
    """For each configuration made earlier, the members it does not name as peers.

    Of one that was moved away or cannot be read, only what was made now is known to be missing.
    """
    lacking: dict[str, list[Member]] = {}
    for name in sorted(set(members).difference(created)):
        try:
            named = {peer.cluster for peer in load_config(folder / name / "agent.yaml", {}).peers}
        except ConfigError:
            named = set(members).difference(created)
        missing = [member for key, member in sorted(members.items()) if key not in {name, *named}]
        if missing:
            lacking[name] = missing
    return lacking


def _read_register(path: Path) -> dict[str, Member]:
    if not path.exists():
        return {}
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return {str(name): _member(str(name), entry) for name, entry in document.items()}
    except (*_UNREADABLE, InputError, yaml.YAMLError) as error:
        message = f"{path} cannot be read as the list of clusters"
        raise ConfigError(message, cure="restore it, or use another folder") from error


def _member(name: str, entry: Mapping[str, object]) -> Member:
    _, address = parse_member(f"{name}={entry['address']}")
    operator, health = entry["operator_port"], entry["health_port"]
    if not isinstance(operator, int) or not isinstance(health, int):
        raise TypeError(name)
    return Member(name, address, operator, health)


def _write_register(path: Path, members: Iterable[Member]) -> None:
    document = {
        member.cluster: {
            "address": str(member.address),
            "operator_port": member.operator_port,
            "health_port": member.health_port,
        }
        for member in members
    }
    text = "# The clusters made here; written by `replicator init`.\n"
    text += yaml.safe_dump(document, sort_keys=True)
    beside = path.with_suffix(".new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise PkiError(
            message, cure="choose a folder you may write to", code="not_written"
        ) from error
