"""The registry of element kinds: what a key and a value of each kind must look like.

An element is canonical MessagePack of ``[kind, cluster, *key]``; the owning cluster is part of
the key, so stamps of different clusters never compete for one element.  A value is canonical
MessagePack of a list whose known fields come first; a newer peer may append fields, which are
kept and relayed. Kinds not registered here are stored and relayed byte for byte.  Adding a kind
touches this module.

Everything a peer sends is checked here before it is staged; what is refused raises
:class:`~replicator.errors.ProtocolError` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgpack

from replicator.codec import unpack_plain
from replicator.errors import ProtocolError
from replicator.identity import is_label

MAX_ENTRY_BYTES = 64 * 1024
_MAX_TEXT = 1024
_MAX_PORTS = 100
_MAX_PORT = 65535
_MAX_DEPTH = 16
_INT63 = 2**63 - 1
_NESTED = (list, dict)
_REMEMBERED, _REMEMBERED_BYTES = 8192, 1024


class _Wrong(Exception):  # noqa: N818 - never leaves this module
    """A field is not what the schema says."""


def _text(value: object, limit: int = _MAX_TEXT) -> str:
    if not isinstance(value, str) or len(value) > limit:
        raise _Wrong
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _integer(value: object, top: int) -> int:
    if type(value) is not int or not 0 <= value <= top:
        raise _Wrong
    return value


def _listed(value: object, least: int) -> list[Any]:
    if not isinstance(value, list) or len(value) < least:
        raise _Wrong
    return value


def _port(value: object) -> None:
    name, number, protocol, app_protocol = _listed(value, 4)[:4]
    _text(name)
    if number is not None:
        _integer(number, _MAX_PORT)
    _text(protocol)
    _optional_text(app_protocol)


def _endpoint_key(key: list[Any]) -> None:
    namespace, service, address, ports = key
    _text(namespace, 63)
    _text(service, 253)
    _text(address, 64)
    if ports is not None:
        if not 1 <= len(_listed(ports, 1)) <= _MAX_PORTS:
            raise _Wrong
        for port in ports:
            _port(port)


def _endpoint_value(value: object) -> None:
    fields = _listed(value, 5)
    _integer(fields[0], _INT63)
    for text in fields[1:5]:
        _optional_text(text)


def _export_key(key: list[Any]) -> None:
    namespace, service = key
    _text(namespace, 63)
    _text(service, 253)


def _export_value(value: object) -> None:
    created_at, properties = _listed(value, 2)[:2]
    _optional_text(created_at)
    if not isinstance(properties, dict) or not all(isinstance(name, str) for name in properties):
        raise _Wrong


def _cluster_key(key: list[Any]) -> None:
    if key:
        raise _Wrong


def _cluster_value(value: object) -> None:
    region, uid, software, shards, layout = _listed(value, 5)[:5]
    for text in (region, uid, software):
        _text(text)
    _integer(shards, _INT63)
    _integer(layout, _INT63)


def _label(value: object) -> None:
    if not is_label(_text(value, 63)):
        raise _Wrong


def _member_key(key: list[Any]) -> None:
    (subject,) = key
    _label(subject)


def _member_value(value: object) -> None:
    decision, order, minimum, by = _listed(value, 4)[:4]
    if decision not in (FORGET, ADMIT):
        raise _Wrong
    for number in (order, minimum):
        _integer(number, MOST_MEMBER_NUMBER)
    _label(by)


def _anything(_: object) -> None:
    """Policies of newer versions must pass: what cannot be read is not acted on, never refused."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One registered kind: its name in JSON, and checks that raise on a wrong key or value."""

    name: str
    check_key: Callable[[list[Any]], None]
    check_value: Callable[[object], None]


ENDPOINT = 1
EXPORT = 2
CLUSTER = 3
POLICY = 4
"""What operators decided about traffic, see :mod:`replicator.policies`."""
MEMBER = 5
"""A decision about a cluster, see :mod:`replicator.membership`."""
FORGET, ADMIT = "forget", "admit"
MOST_MEMBER_NUMBER = 1 << 62
"""Greatest order and minimum epoch, so that there always is an epoch above the minimum."""

KINDS: dict[int, Kind] = {
    ENDPOINT: Kind("endpoint", _endpoint_key, _endpoint_value),
    EXPORT: Kind("export", _export_key, _export_value),
    CLUSTER: Kind("cluster", _cluster_key, _cluster_value),
    POLICY: Kind("policy", _anything, _anything),
    MEMBER: Kind("member", _member_key, _member_value),
}


def unpack(data: bytes) -> Any:  # noqa: ANN401 - any MessagePack value
    """Read bytes that were checked, or made, here."""
    return msgpack.unpackb(data, strict_map_key=False)


def _canonical(data: bytes, what: str) -> object:
    """The value in ``data``, which must be its canonical form.

    With map keys in order, the library's packer writes exactly what :func:`crdt.pack` does (a
    property test holds that), in a tenth of the time.
    """
    try:
        value = unpack_plain(data)
    except ProtocolError as error:
        message = f"{what} is not canonical MessagePack of plain values"
        code = "bad_entry" if error.code == "bad_frame" else error.code
        raise ProtocolError(message, code=code) from error
    if _too_deep(value):
        message = f"{what} is nested deeper than {_MAX_DEPTH}"
        raise ProtocolError(message, code="bad_entry")
    if msgpack.packb(value) != data:
        message = f"{what} is not in canonical form"
        raise ProtocolError(message, code="bad_entry")
    return value


def _too_deep(value: object) -> bool:
    """Whether ``value`` exceeds the depth limit; not recursive, since a peer chose the depth."""
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH + 1):
        level = [item for item in level if isinstance(item, _NESTED)]
        if not level:
            return False
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
    return True


def _follows(check: Callable[[Any], None], value: object) -> bool:
    try:
        check(value)
    except (_Wrong, ValueError):
        return False
    return True


def _key(cluster: str, element: bytes) -> tuple[int, bool]:
    """Kind of an element that ``cluster`` may state, and whether the key follows its schema."""
    key = _canonical(element, "an element")
    if not isinstance(key, list) or len(key) < 2 or type(key[0]) is not int:  # noqa: PLR2004
        message = "an element is not a list of kind, cluster and key"
        raise ProtocolError(message, code="bad_entry")
    if key[1] != cluster:
        message = f"an entry of {cluster} has the key of another cluster"
        raise ProtocolError(message, code="not_owner")
    kind = KINDS.get(key[0])
    return key[0], kind is None or _follows(kind.check_key, key[2:])


def _value_follows(number: int, op: int, value: bytes) -> bool:
    """Whether a value follows the schema of kind ``number``."""
    content = _canonical(value, "a value")
    if op:
        return content is None
    kind = KINDS.get(number)
    return kind is None or _follows(kind.check_value, content)


# What changes now often changed a moment ago, and most values are alike: what was found right
# is remembered.  Larger ones are not, so that nobody can make this grow.
_known_key = lru_cache(maxsize=_REMEMBERED)(_key)
_value_known_to_follow = lru_cache(maxsize=_REMEMBERED)(_value_follows)


def check_entry(cluster: str, element: bytes, op: int, value: bytes) -> None:
    """Refuse an entry that ``cluster`` may not state or that breaks its kind's schema.

    Raises :class:`ProtocolError` with code ``not_owner`` for another cluster's key, ``too_large``
    beyond :data:`MAX_ENTRY_BYTES`, else ``bad_entry``.
    """
    if len(element) + len(value) > MAX_ENTRY_BYTES:
        message = f"an entry of {len(element) + len(value)} bytes exceeds {MAX_ENTRY_BYTES}"
        raise ProtocolError(message, code="too_large")
    small = len(element) + len(value) <= _REMEMBERED_BYTES
    number, right = (_known_key if small else _key)(cluster, element)
    follows = (_value_known_to_follow if small else _value_follows)(number, op, value)
    if not (right and follows):
        kind = KINDS.get(number)
        name = str(number) if kind is None else kind.name
        message = f"an entry of kind {name} does not follow its schema"
        raise ProtocolError(message, code="bad_entry")


_LIST, _LIST_END = 0x90, 0xA0


def says_the_same(held: bytes, stated: bytes) -> bool:
    """Whether the value ``held`` is ``stated``, or that with items a newer version appended."""
    if held == stated:
        return True
    appended = _LIST <= stated[0] < _LIST_END and held[:1] > stated[:1] and held[0] < _LIST_END
    return appended and held.startswith(stated[1:], 1)
