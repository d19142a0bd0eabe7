"""The configuration of an agent: a YAML file, overlaid by ``REPLICATOR_...`` in the environment.

``REPLICATOR_SOURCE_KIND`` is ``source.kind``; texts are taken as they stand, everything else
(peers, lists, numbers, null) as YAML; an empty variable counts as not set.  Variables of that
prefix which name no key are errors too, except those that Kubernetes adds to pods for a Service of
that name and those of the command itself.  Relative paths, from either place, are relative to the
file's folder.

Left out, ``region`` is the cluster's id, and ``target.mode`` is ``endpointslices`` for a Kubernetes
source, else ``directory`` when ``target.path`` is given, else ``none``.  Keys that only another
``source.kind`` uses are checked and otherwise ignored, so that the environment may change the kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from replicator.config_keys import (
    ENVIRONMENT_PREFIX,
    KEYS,
    SECTIONS,
    Fault,
    Key,
    Peer,
    Place,
    nearest,
    variable,
)
from replicator.errors import ConfigError
from replicator.ops.address import TcpAddress
from replicator.staleness import Policy
from replicator.units import format_duration, format_size
from replicator.withdrawals import Guard
from replicator.yaml_tree import Tree, parse_tree

HostPort = TcpAddress

__all__ = [
    "Config",
    "HostPort",
    "Lease",
    "Limits",
    "Namespaces",
    "Peer",
    "Source",
    "Stale",
    "Target",
    "Tls",
    "describe",
    "load_config",
    "parse_config",
]

_NOT_KEYS = re.compile(
    r"REPLICATOR_(AGENT|E2E_\w+|(\w+_)?SERVICE_(HOST|PORT(_\w+)?)|(\w+_)?PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)
_INIT = "start from what `replicator init` writes"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of the peer links; absolute paths."""

    certificate: Path
    key: Path
    trust_bundle: Path


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Globs over namespaces; of a source, as :class:`clusters.settings.NamespaceFilter` has it."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """What this cluster offers."""

    kind: str
    """``kubernetes``, ``directory`` or ``simulated``."""
    path: Path | None
    """Folder of manifests; never None for ``directory``."""
    kubeconfig: Path | None
    """None means the pod's own service account."""
    context: str | None
    export: str
    """``all``, ``annotated`` or ``service-export``."""
    namespaces: Namespaces
    services: int
    """Simulated: how many services."""
    endpoints: int
    """Simulated: how many endpoints a service has."""
    churn: float
    """Simulated: changes per second."""
    duration: float
    """Simulated: seconds after which nothing changes any more; 0 is for ever."""
    seed: int
    """Simulated: what the same churn comes from."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the others' endpoints are written."""

    mode: str
    """``endpointslices``, ``directory`` or ``none``."""
    path: Path | None
    """Folder for the objects; never None for ``directory``."""
    namespaces: Namespaces
    """Where anything of others may be written."""


@dataclass(frozen=True, slots=True)
class Stale:
    """What becomes of a silent cluster's endpoints, and after how many seconds."""

    policy: Policy
    after: float
    withdraw_after: float
    withdraw_last: bool
    """Whether the last endpoints of a service may be withdrawn too."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Whether two agents of this cluster share a lease, and where a Kubernetes cluster keeps it."""

    enabled: bool
    namespace: str
    name: str | None
    """None means ``replicator-`` and the cluster's id."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what peers may take of us."""

    frame: int
    """Bytes."""
    entry: int
    """Bytes."""
    links: int
    """How many links are taken of clusters that have none; the others have as much room again."""
    links_per_peer: int
    handshakes: int
    """Connections at once that are no links yet."""
    handshakes_per_address: int


@dataclass(frozen=True, slots=True)
class Config:
    """A whole, consistent configuration."""

    clusterset: str
    cluster: str
    region: str
    listen: HostPort
    operator: str
    """Loopback ``host:port``, or ``unix:`` and an absolute path."""
    health: HostPort | None
    state: Path
    peers: tuple[Peer, ...]
    networks: Mapping[str, tuple[str, ...]]
    """Of which the addresses of each cluster may be, ``*`` for those not named."""
    tls: Tls
    source: Source
    target: Target
    stale: Stale
    guard: Guard
    lease: Lease
    limits: Limits


def load_config(path: Path, environ: Mapping[str, str]) -> Config:
    """Read the configuration in the file ``path``, overlaid by ``environ``.

    Raises :class:`~replicator.errors.ConfigError` (the operator's fault; nothing is changed) naming
    the file and line or the variable, the dotted key, and the cure.
    """
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {path}: {why}"
        raise ConfigError(message, cure="name the agent.yaml of this cluster") from error
    return parse_config(data, path, environ)


def parse_config(data: bytes, path: Path, environ: Mapping[str, str]) -> Config:
    """As :func:`load_config`, of a file's content; reads no file."""
    place = Place(path.absolute().parent, environ.get("HOME"))
    reading = _Reading(str(path), place)
    reading.file(data)
    reading.environment(environ)
    return reading.config()


class _Reading:
    """Collects the values of one configuration with the place each came from."""

    def __init__(self, name: str, place: Place) -> None:
        self._name = name
        self._place = place
        self._values: dict[str, Any] = {}
        self._origin: dict[str, str] = {}

    def file(self, data: bytes) -> None:
        """Take the keys of the file."""
        tree = parse_tree(data, self._name)
        if tree.value is None:
            message = f"{self._name}: it is empty"
            raise ConfigError(message, cure=_INIT)
        if not isinstance(tree.value, dict):
            message = f"{self._name}:{tree.line}: a configuration is a mapping of keys to values"
            raise ConfigError(message, cure=_INIT)
        for key, leaf in self._leaves(tree.value, ""):
            self._take(key, leaf, f"{self._name}:{leaf.line}")

    def _leaves(self, mapping: Mapping[str, Tree], prefix: str) -> Iterator[tuple[str, Tree]]:
        for word, tree in mapping.items():
            key = prefix + word
            where = f"{self._name}:{tree.line}"
            if word and key in KEYS and "." not in word:
                yield key, tree
            elif key not in SECTIONS or "." in word:
                cure = nearest(key, sorted({*KEYS, *SECTIONS})) or "see the manual for the keys"
                message = f"{where}: unknown key {key[:200]!r}"
                raise ConfigError(message, cure=cure, code="unknown_key")
            elif isinstance(tree.value, dict):
                yield from self._leaves(tree.value, key + ".")
            elif tree.value is not None:
                inner = ", ".join(k for k in sorted(KEYS) if k.startswith(key + "."))
                message = f"{where}: {key}: a section belongs here"
                raise ConfigError(message, cure=f"give it keys: {inner}")

    def environment(self, environ: Mapping[str, str]) -> None:
        """Take the keys of the environment; they win over the file's."""
        known = {variable(key): key for key in KEYS}
        for name in sorted(environ):
            if not name.startswith(ENVIRONMENT_PREFIX) or not environ[name]:
                continue
            key = known.get(name)
            if key is not None:
                self._take(key, self._variable(name, environ[name], KEYS[key]), name)
            elif _NOT_KEYS.fullmatch(name) is None:
                near = nearest(name.lower(), [item.lower() for item in known]).upper()
                cure = near.replace("DID YOU MEAN", "did you mean") or "unset it"
                message = f"the environment variable {name[:200]} names no key"
                raise ConfigError(message, cure=cure, code="unknown_key")

    @staticmethod
    def _variable(name: str, text: str, key: Key) -> Tree:
        if key.nullable and text in {"null", "~"}:
            return Tree(None, 1)
        if key.text:
            return Tree(text, 1)
        return parse_tree(text.encode("utf-8", "surrogateescape"), name)

    def _take(self, key: str, tree: Tree, where: str) -> None:
        self._origin[key] = where
        try:
            self._values[key] = _read(KEYS[key], tree, self._place)
        except Fault as fault:
            self._refuse(key, fault)

    def _refuse(self, key: str, fault: Fault) -> NoReturn:
        message = f"{self._origin.get(key, self._name)}: {key}: {fault.what}"
        raise ConfigError(message, cure=fault.cure, code=fault.code) from None

    def _get(self, key: str) -> Any:  # noqa: ANN401  Each key has its own type, given by its reader.
        if key in self._values:
            return self._values[key]
        how = KEYS[key]
        if how.required:
            self._refuse(key, Fault("is missing", f"add `{key}: NAME`"))
        default = how.default
        return self._place.folder / default if key in _PATHS_BY_DEFAULT else default

    def config(self) -> Config:
        """Put the values together and check what they mean to each other."""
        config = Config(
            clusterset=self._get("clusterset"),
            cluster=self._get("cluster"),
            region=self._get("region") or self._get("cluster"),
            listen=self._get("listen"),
            operator=self._get("operator"),
            health=self._get("health"),
            state=self._get("state"),
            peers=self._get("peers"),
            networks=self._get("networks"),
            tls=Tls(*(self._get(f"tls.{key}") for key in ("certificate", "key", "trust_bundle"))),
            source=self._source(),
            target=self._target(),
            stale=self._stale(),
            guard=Guard(self._get("guard.least"), self._get("guard.fresh_for")),
            lease=Lease(*(self._get(f"lease.{key}") for key in ("enabled", "namespace", "name"))),
            limits=Limits(*(self._get(f"limits.{field.name}") for field in fields(Limits))),
        )
        for key, fault in _conflicts(config):
            self._refuse(key, fault)
        return config

    def _source(self) -> Source:
        return Source(
            kind=self._get("source.kind"),
            path=self._get("source.path"),
            kubeconfig=self._get("source.kubeconfig"),
            context=self._get("source.context"),
            export=self._get("source.export"),
            namespaces=Namespaces(
                self._get("source.namespaces.include"), self._get("source.namespaces.exclude")
            ),
            services=self._get("source.services"),
            endpoints=self._get("source.endpoints"),
            churn=self._get("source.churn"),
            duration=self._get("source.duration"),
            seed=self._get("source.seed"),
        )

    def _stale(self) -> Stale:
        return Stale(
            Policy(self._get("stale.policy")),
            self._get("stale.after"),
            self._get("stale.withdraw_after"),
            self._get("stale.withdraw_last"),
        )

    def _target(self) -> Target:
        mode, path = self._get("target.mode"), self._get("target.path")
        if mode is None and self._get("source.kind") == "kubernetes":
            mode = "endpointslices"
        include = self._get("target.namespaces.include")
        namespaces = Namespaces(include, self._get("target.namespaces.exclude"))
        return Target(mode or ("none" if path is None else "directory"), path, namespaces)


def _read(how: Key, tree: Tree, place: Place) -> Any:  # noqa: ANN401  As the key's reader gives it.
    if tree.value is not None:
        return how.read(tree, place)
    if not how.nullable:
        what = "nothing stands here"
        raise Fault(what, "give it a value or leave the key out")
    return None


_PATHS_BY_DEFAULT = frozenset({"state", "tls.certificate", "tls.key", "tls.trust_bundle"})


def _conflicts(config: Config) -> Iterator[tuple[str, Fault]]:
    """What is wrong with keys that are each right alone, with the key to name."""
    source, target = config.source, config.target
    if source.kind == "directory" and source.path is None:
        yield "source.path", Fault("is missing for kind directory", "name a folder of manifests")
    if target.mode == "directory" and target.path is None:
        yield "target.path", Fault("is missing for mode directory", "name a folder to write to")
    if target.mode in ("endpointslices", "mcs") and source.kind != "kubernetes":
        what = f"{target.mode} needs a Kubernetes source, not {source.kind}"
        yield "target.mode", Fault(what, "use directory or none")
    if config.lease.enabled and source.kind == "simulated":
        what = "a simulated source keeps no lease"
        yield "lease.enabled", Fault(what, "use a kubernetes or directory source, or one agent")
    stale = config.stale
    if stale.policy is Policy.WITHDRAW and stale.withdraw_after < stale.after:
        what = f"{format_duration(stale.withdraw_after)} is shorter than stale.after"
        yield "stale.withdraw_after", Fault(what, "a cluster is withdrawn only once it is stale")
    for part, whole in (("links_per_peer", "links"), ("handshakes_per_address", "handshakes")):
        least, most = getattr(config.limits, part), getattr(config.limits, whole)
        if least > most:
            what = f"{least} is more than limits.{whole} ({most})"
            yield f"limits.{part}", Fault(what, f"lower it, or raise limits.{whole}")
    yield from _of_ourselves(config)
    yield from _overlaps(config)
    yield from _addresses(config)


def _of_ourselves(config: Config) -> Iterator[tuple[str, Fault]]:
    """Places that name other clusters and name this one."""
    for peer in config.peers:
        if peer.cluster == config.cluster and not config.lease.enabled:
            what = f"{peer.cluster} is this cluster itself"
            cure = "name only the other clusters, or set lease.enabled in both agents of this one"
            yield "peers", Fault(what, cure, "peer_is_self_or_duplicate")
    if config.cluster in config.networks:
        what = f"{config.cluster} is this cluster itself"
        yield "networks", Fault(what, "name other clusters: only their addresses are looked at")


def _overlaps(config: Config) -> Iterator[tuple[str, Fault]]:
    """Folders that would read what another part writes."""
    source = config.source.path if config.source.kind == "directory" else None
    target = config.target.path if config.target.mode == "directory" else None
    named = (("state", config.state), ("source.path", source), ("target.path", target))
    used = [(key, path) for key, path in named if path is not None]
    for index, (key, path) in enumerate(used):
        for other, other_path in used[:index]:
            if path == other_path or path in other_path.parents or other_path in path.parents:
                what = f"{path} and {other} ({other_path}) overlap"
                yield key, Fault(what, "choose folders beside each other")


def _addresses(config: Config) -> Iterator[tuple[str, Fault]]:
    """Two listeners on one address; port 0 is any free port and never the same."""
    health = [("health", str(config.health))] if config.health is not None else []
    named = [("listen", str(config.listen)), ("operator", config.operator), *health]
    for index, (key, address) in enumerate(named):
        for other, other_address in named[:index]:
            if address == other_address and not address.endswith(":0"):
                what = f"{address} is also {other}"
                yield key, Fault(what, "give each listener a port of its own")


def describe(config: Config) -> dict[str, Any]:
    """The configuration as JSON-able values under its own keys; read again, it is the same.

    Holds no secret: keys and certificates are paths.
    """
    plain: dict[str, Any] = _plain(asdict(config))
    plain["listen"] = str(config.listen)
    plain["health"] = None if config.health is None else str(config.health)
    plain["stale"]["policy"] = config.stale.policy.value
    for key in ("after", "withdraw_after"):
        plain["stale"][key] = format_duration(plain["stale"][key])
    plain["guard"]["fresh_for"] = format_duration(config.guard.fresh_for)
    plain["source"]["duration"] = format_duration(config.source.duration)
    for key in ("frame", "entry"):
        plain["limits"][key] = format_size(plain["limits"][key])
    return plain


def _plain(value: Any) -> Any:  # noqa: ANN401  Walks any nesting.
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
