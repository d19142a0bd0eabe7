"""ITEM: how an endpoint is shown as JSON wherever it is shown, and read back.

The shape is fixed (operations.md section 1): absent texts and port numbers are null, absent port
names "", and the tag is always a string ``cluster:nanotime``, since a JSON number cannot hold its
digits.  Reading is strict where meaning is at stake (tag, identity) and lenient about absent state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from clusters.model import Endpoint, Port, PortSet, ServiceKey
from crdt import Stamp, StampError
from replicator.errors import InputError

_TEXTS = ("hostname", "zone", "node", "pod")
_LONGEST_ADDRESS = 64
_LONGEST_NAME = 253
_TOP_PORT = 65535
_CURE = "give a file that encode or snapshot export wrote"

Json = dict[str, Any]


class Item(NamedTuple):
    """One endpoint of one service, as its owner stated it at ``stamp``."""

    key: ServiceKey
    endpoint: Endpoint
    stamp: Stamp


def item_of(key: ServiceKey, endpoint: Endpoint, stamp: Stamp) -> Json:
    """The JSON form of an endpoint."""
    return {
        "kind": "endpoint",
        "tag": str(stamp),
        "namespace": key.namespace,
        "service": key.name,
        "address": endpoint.address,
        "ports": None if endpoint.ports is None else [_port_json(port) for port in endpoint.ports],
        "ready": endpoint.ready,
        "serving": endpoint.serving,
        "terminating": endpoint.terminating,
        "hostname": endpoint.hostname,
        "zone": endpoint.zone,
        "node": endpoint.node,
        "pod": endpoint.pod,
    }


def _port_json(port: Port) -> Json:
    return {
        "name": port.name,
        "port": port.port,
        "protocol": port.protocol,
        "app_protocol": port.app_protocol,
    }


def parse_item(value: object, where: str) -> Item:
    """The endpoint in one ITEM; ``where`` names its place for messages.

    Raises :class:`~replicator.errors.InputError`: code ``tag_not_string`` or ``bad_tag`` for the
    tag, else ``bad_item``.
    """
    if not isinstance(value, dict) or value.get("kind") != "endpoint":
        raise _bad(where, "it is not an object of kind endpoint")
    key = ServiceKey(_name(value, "namespace", where), _name(value, "service", where))
    return Item(key, parse_endpoint(value, where), parse_tag(value.get("tag"), where))


def parse_tag(value: object, where: str) -> Stamp:
    """A tag from JSON, which must be a string; see :func:`parse_item` for errors."""
    try:
        return Stamp.parse(value)
    except StampError as error:
        message = f"{where}: {error.code}: {error}"
        cure = "write tags as strings of the form cluster:nanotime"
        raise InputError(message, cure=cure, code=error.code) from error


def parse_endpoint(value: Json, where: str) -> Endpoint:
    """The endpoint in an object with the fields of ITEM, whatever else is in it."""
    address = value.get("address")
    if not isinstance(address, str) or not 0 < len(address) <= _LONGEST_ADDRESS:
        raise _bad(where, "address is not a text")
    ready = _truth(value, "ready", where, default=True)
    hostname, zone, node, pod = (_text(value, name, where) for name in _TEXTS)
    return Endpoint(
        address=address,
        ports=_ports(value.get("ports"), where),
        ready=ready,
        serving=_truth(value, "serving", where, default=ready),
        terminating=_truth(value, "terminating", where, default=False),
        hostname=hostname,
        zone=zone,
        node=node,
        pod=pod,
    )


def _bad(where: str, what: str) -> InputError:
    return InputError(f"{where}: {what}", cure=_CURE, code="bad_item")


def _name(value: Json, field: str, where: str) -> str:
    name = value.get(field)
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise _bad(where, f"{field} is not a name")
    return name


def _truth(value: Json, field: str, where: str, *, default: bool) -> bool:
    found = value.get(field)
    if found is None:
        return default
    if not isinstance(found, bool):
        raise _bad(where, f"{field} is neither true nor false")
    return found


def _text(value: Json, field: str, where: str) -> str | None:
    text = value.get(field)
    if text is not None and not isinstance(text, str):
        raise _bad(where, f"{field} is not a text")
    return text or None


def _ports(value: object, where: str) -> PortSet:
    if value is None:
        return None
    if not isinstance(value, list) or not value:
        raise _bad(where, "ports is neither null nor a list of ports")
    return tuple(sorted({_port(item, where) for item in value}, key=Port.sort_key))


def _port(value: object, where: str) -> Port:
    if not isinstance(value, dict):
        raise _bad(where, "a port is not an object")
    number = value.get("port")
    if number is not None and (type(number) is not int or not 1 <= number <= _TOP_PORT):
        raise _bad(where, "port is not a number from 1 to 65535")
    return Port(
        name=_text(value, "name", where) or "",
        port=number,
        protocol=_text(value, "protocol", where) or "TCP",
        app_protocol=_text(value, "app_protocol", where),
    )
