"""Snapshot documents: a replica's committed state as one JSON file that proves itself.

Per origin the signed head and its certificate chain, and every entry twice: readable, and as the
canonical bytes under the head's root.  Building and reading only: whether a file is true is decided
in :mod:`replicator.verdicts`.  Pure; reading files and clocks is the caller's work.

Layout: operations.md 4a; ``format`` names its version.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from clusters.addresses import numeric_key
from clusters.model import Endpoint
from crdt import CrdtError, Entry, Head, OriginSet, Stamp, pack
from crdt.entries import ADD, REMOVE, entry_bytes
from crdt.stamp import MAX_NANOTIME
from replicator import codec
from replicator.errors import InputError, ProtocolError
from replicator.items import item_of
from replicator.kinds import CLUSTER, ENDPOINT, EXPORT, KINDS, unpack
from replicator.messages import Record
from replicator.projection import cluster_info, endpoint_of, export_of
from replicator.service_index import ServiceIndex

FORMAT = "replicator.snapshot/1"
_OPS = {ADD: "add", REMOVE: "remove"}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OriginSnapshot:
    """One origin as committed: the head, by whose key it is signed, and every entry."""

    head: Head
    record: Record
    entries: Sequence[Entry]


def plain(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """A MessagePack value as JSON; what JSON lacks as ``{"base64": text}``, ``{"float": text}``."""
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _value_json(kind: int, element: bytes, value: bytes) -> Any:  # noqa: ANN401
    if kind == ENDPOINT:
        endpoint = endpoint_of(element, value)
        names = ("ready", "serving", "terminating", "hostname", "zone", "node", "pod")
        return {name: getattr(endpoint, name) for name in names}
    if kind == EXPORT:
        export = export_of(value)
        properties = {name: plain(item) for name, item in export.properties}
        return {"created_at": export.created_at, "properties": properties}
    if kind == CLUSTER:
        return cluster_info(value)._asdict()
    return plain(unpack(value))


def entry_json(entry: Entry) -> Json:
    """The readable form of an entry, with its canonical bytes as ``raw``."""
    element, stamp, op, value = entry
    kind, cluster, *key = unpack(element)
    name = KINDS[kind].name if kind in KINDS else kind
    return {
        "element": [name, cluster, *plain(key)],
        "op": _OPS[op],
        "raw": b64encode(entry_bytes(element, stamp, op, value)).decode(),
        "tag": str(Stamp(stamp, cluster)),
        "value": None if op == REMOVE else _value_json(kind, element, value),
    }


def _readable_head(head: Head) -> Json:
    """What a snapshot repeats of a head in words."""
    return {
        "cluster": head.origin.cluster,
        "count": head.count,
        "epoch": str(head.epoch),
        "floor": str(head.floor),
        "root": head.root.hex(),
        "shard": head.origin.shard,
        "stamp": str(Stamp(head.stamp, head.origin.cluster)),
    }


def _pem(der: bytes) -> str:
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM).decode()


def _origin_json(state: OriginSnapshot) -> Json:
    return {
        **_readable_head(state.head),
        "head": b64encode(codec.encode_head(state.head)).decode(),
        "record": {
            "chain": [_pem(der) for der in state.record.chain],
            "key_id": state.record.key_id.hex(),
        },
    }


def visible_items(cluster: str, elements: OriginSet) -> list[Json]:
    """What consumers may see of one origin, as ITEMs in their fixed order."""
    index = ServiceIndex(elements)
    return [
        item_of(key, endpoint, Stamp(stamp, cluster))
        for key in index.services()
        for stamp, endpoint in sorted(index.visible(key), key=_by_address)
    ]


def _by_address(row: tuple[int, Endpoint]) -> tuple[object, ...]:
    _, endpoint = row
    ports = () if endpoint.ports is None else tuple(port.sort_key() for port in endpoint.ports)
    return (numeric_key(endpoint.address), ports)


def _time_text(wall_ns: int) -> str:
    moment = datetime.fromtimestamp(wall_ns // 1_000_000_000, tz=UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns % 1_000_000_000 // 1_000_000:03d}Z"


def build(
    *, clusterset: str, cluster: str, taken_at: int, origins: Iterable[OriginSnapshot]
) -> Json:
    """The SNAPSHOT document of what ``cluster`` has committed at ``taken_at`` (Unix ns).

    Origins stand in order of (cluster, shard), each origin's entries in order of their stamps,
    items in order of origin, namespace, service, address and ports.
    """
    ordered = sorted(origins, key=lambda state: state.head.origin)
    entries: list[Json] = []
    items: list[Json] = []
    for state in ordered:
        head = state.head
        rows = sorted(state.entries, key=lambda entry: entry[1])
        entries += [entry_json(entry) for entry in rows]
        elements = OriginSet.restored(head.version, head.floor, rows)
        items += visible_items(head.origin.cluster, elements)
    return {
        "cluster": cluster,
        "clusterset": clusterset,
        "entries": entries,
        "format": FORMAT,
        "items": items,
        "origins": [_origin_json(state) for state in ordered],
        "taken_at": _time_text(taken_at),
    }


@dataclass(frozen=True, slots=True)
class StatedOrigin:
    """An origin as a file states it, nothing believed yet."""

    cluster: str
    shard: int
    head: str
    key_id: str
    chain: tuple[str, ...]
    readable: Json


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot file whose shape was checked, and nothing else."""

    clusterset: str
    cluster: str
    taken_at: str
    origins: tuple[StatedOrigin, ...]
    entries: tuple[Json, ...]
    items: tuple[Json, ...]


def _unreadable(detail: str) -> InputError:
    cure = "give a file that snapshot export wrote"
    return InputError(f"not a snapshot: {detail}", cure=cure, code="bad_snapshot")


def _field(holder: Json, name: str, kind: type, where: str) -> Any:  # noqa: ANN401
    value = holder.get(name)
    if type(value) is not kind:
        detail = f"{where} has no {name}" if value is None else f"{name} of {where} is not right"
        raise _unreadable(detail)
    return value


def _objects(holder: Json, name: str) -> list[Json]:
    rows = _field(holder, name, list, "the document")
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            detail = f"{name}[{index}] is not an object"
            raise _unreadable(detail)
    return list(rows)


def _items(document: Json) -> tuple[Json, ...]:
    """The list of items, each of a shape that can be shown."""
    rows = _objects(document, "items")
    for index, row in enumerate(rows):
        ports = row.get("ports")
        listed = isinstance(ports, list) and all(isinstance(port, dict) for port in ports)
        if not listed and ports is not None:
            detail = f"ports of items[{index}] is not right"
            raise _unreadable(detail)
    return tuple(rows)


def _stated(row: Json, where: str) -> StatedOrigin:
    record = _field(row, "record", dict, where)
    chain = _field(record, "chain", list, where)
    if not chain or not all(isinstance(item, str) for item in chain):
        detail = f"the chain of {where} is not a list of PEM texts"
        raise _unreadable(detail)
    repeated = {key: row.get(key) for key in ("count", "epoch", "floor", "root", "stamp")}
    cluster, shard = _field(row, "cluster", str, where), _field(row, "shard", int, where)
    return StatedOrigin(
        cluster=cluster,
        shard=shard,
        head=_field(row, "head", str, where),
        key_id=_field(record, "key_id", str, where),
        chain=tuple(chain),
        readable={"cluster": cluster, "shard": shard, **repeated},
    )


def parse(document: object) -> Snapshot:
    """Check the shape of a decoded document.

    Raises :class:`~replicator.errors.InputError` (code ``bad_snapshot``) naming the first place
    that is not as a snapshot has it.
    """
    if not isinstance(document, dict):
        detail = "it is not a JSON object"
        raise _unreadable(detail)
    if document.get("format") != FORMAT:
        detail = f"format is {str(document.get('format'))[:60]!r}, not {FORMAT!r}"
        raise _unreadable(detail)
    entries = _objects(document, "entries")
    for index, entry in enumerate(entries):
        _field(entry, "raw", str, f"entries[{index}]")
    origins = _objects(document, "origins")
    return Snapshot(
        clusterset=_field(document, "clusterset", str, "the document"),
        cluster=_field(document, "cluster", str, "the document"),
        taken_at=_field(document, "taken_at", str, "the document"),
        origins=tuple(_stated(row, f"origins[{index}]") for index, row in enumerate(origins)),
        entries=tuple(entries),
        items=_items(document),
    )


def decode_raw(text: str) -> Entry:
    """The entry in a ``raw`` text; raises ValueError unless it is canonical entry bytes in base64.

    The two layouts are those of :func:`crdt.origin_set.entry_bytes`.
    """
    try:
        raw = b64decode(text, validate=True)
        match codec.unpack_plain(raw):
            case [int(kind), [*key], int(stamp), int(op), value]:
                element = pack([kind, *key])
            case [[*whole], int(stamp), int(op), value]:
                element = pack(whole)
            case _:
                element, stamp, op, value = b"", 0, 0, None
        content = pack(value)
        canonical = bool(element) and entry_bytes(element, stamp, op, content) == raw
    except (ValueError, CrdtError, ProtocolError) as error:
        message = "raw is not MessagePack of an entry in base64"
        raise ValueError(message) from error
    if not canonical or op not in _OPS or not 0 <= stamp <= MAX_NANOTIME:
        message = "raw is not an entry in canonical form"
        raise ValueError(message)
    return (element, stamp, op, content)


def decode_origin(stated: StatedOrigin) -> tuple[Head, Record]:
    """The head and record an origin states; raises ValueError or ``ProtocolError``."""
    head = codec.decode_head(b64decode(stated.head, validate=True))
    chain = [x509.load_pem_x509_certificate(text.encode()) for text in stated.chain]
    record = Record(
        head.origin,
        bytes.fromhex(stated.key_id),
        tuple(item.public_bytes(Encoding.DER) for item in chain),
    )
    return head, record


def readable_head(head: Head) -> Json:
    """What :class:`StatedOrigin.readable` must be for ``head``."""
    return _readable_head(head)
