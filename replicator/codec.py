"""Messages to frames and back.

A frame is the major protocol version as one byte, then one MessagePack list ``[type, field...]``.
Fields appended by a newer minor version are ignored, unknown types become ``Unknown``.  Anything
else unexpected raises :class:`~replicator.errors.ProtocolError`, and nothing but that.  Nowhere in
a frame, known field or not: extension types, maps, trailing bytes, lists beyond
:data:`LIST_LIMIT`, more than :data:`LISTS_LIMIT` lists.  In known fields: no floats, no integers
beyond 63 bits, origins that are DNS labels, sizes within limits.  So no frame of a megabyte costs
more than some twenty milliseconds, whatever it declares.

Head bytes (``encode_head``) are also what the journal and snapshot files keep.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any, assert_never, cast

import msgpack

from crdt import Base, Entry, Head, Origin, Version, pack
from replicator import messages as m
from replicator.errors import ProtocolError
from replicator.identity import is_label
from replicator.packing import pack_entries, unpack_entries

MAJOR = 1
MINOR = 0
FRAME_LIMIT = 1 << 20
_INT63 = 2**63 - 1
_DECISION_LIMIT = 2**62
_TEXT_LIMIT = 4096
_CHAIN_LIMIT = 8
_CERTIFICATE_LIMIT = 16 * 1024
LIST_LIMIT = 2048
"""Items of one list: adverts of a Heads, entries of a chunk."""
LISTS_LIMIT = 4096
"""Lists of one frame; a list costs a hundred times what its bytes let expect."""
_KEY_ID_LIMIT = 64
_SIGNATURE_LIMIT = 1024
_ROOT_SIZE = 32
ROOT_MARK_SIZE = 8
"""Bytes of a root that an advert carries."""

_HELLO, _RECORD, _HEADS, _WANT, _STOP, _TRANSFER, _BEAT, _REJECT, _SKEW = range(1, 10)
_PACKED, _ADMISSION = 10, 11


def _bad(what: str) -> ProtocolError:
    return ProtocolError(f"{what} is not what the protocol says", code="bad_frame")


def _integer(value: object, what: str) -> int:
    if type(value) is not int or not 0 <= value <= _INT63:
        raise _bad(what)
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or len(value) > _TEXT_LIMIT:
        raise _bad(what)
    return value


def _binary(value: object, what: str, limit: int = FRAME_LIMIT) -> bytes:
    if not isinstance(value, bytes) or len(value) > limit:
        raise _bad(what)
    return value


def _boolean(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise _bad(what)
    return value


def _listed(value: object, what: str, least: int, most: int = LIST_LIMIT) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise _bad(what)
    return value


def _label(value: object, what: str) -> str:
    if not is_label(_text(value, what)):
        raise _bad(what)
    return cast("str", value)


@lru_cache(maxsize=8192)
def _origin_of(cluster: str, shard: int) -> Origin:
    if not is_label(cluster):
        raise _bad("an origin")
    return Origin(cluster, shard)


def _origin(cluster: object, shard: object) -> Origin:
    """The origin of these fields: the same few come in every message, and are made only once."""
    return _origin_of(_text(cluster, "an origin"), _integer(shard, "a shard"))


def _version(epoch: object, stamp: object) -> Version:
    return Version(_integer(epoch, "an epoch"), _integer(stamp, "a stamp"))


def _head(value: object) -> Head | None:
    if value is None:
        return None
    fields = _listed(value, "a head", 12)
    base = None
    if fields[3] is not None:
        epoch, stamp, root = _listed(fields[3], "a base", 3, 3)
        base = Base(*_version(epoch, stamp), _binary(root, "a base root", _ROOT_SIZE))
    if _integer(fields[5], "a floor") > _integer(fields[4], "a stamp"):
        raise _bad("a floor above its stamp")
    return Head(
        origin=_origin(fields[0], fields[1]),
        epoch=_integer(fields[2], "an epoch"),
        base=base,
        stamp=_integer(fields[4], "a stamp"),
        floor=_integer(fields[5], "a floor"),
        count=_integer(fields[6], "a count"),
        root=_binary(fields[7], "a root", _ROOT_SIZE),
        issued_at=_integer(fields[8], "a time"),
        observed_at=_integer(fields[9], "a time"),
        key_id=_binary(fields[10], "a key id", _KEY_ID_LIMIT),
        signature=_binary(fields[11], "a signature", _SIGNATURE_LIMIT),
    )


def _hello(f: list[Any]) -> m.Hello:
    minor, clusterset, cluster, instance, role, epoch, uid, software, frame_limit = f[:9]
    return m.Hello(
        minor=_integer(minor, "a version"),
        clusterset=_text(clusterset, "a clusterset"),
        cluster=_text(cluster, "a cluster"),
        instance=_text(instance, "an instance"),
        role=_text(role, "a role"),
        epoch=_integer(epoch, "an epoch"),
        uid=_text(uid, "a uid"),
        software=_text(software, "a software version"),
        frame_limit=_integer(frame_limit, "a limit"),
        packed=f[9:] != [] and f[9] is True,
    )


def _record(f: list[Any]) -> m.Record:
    chain = _listed(f[3], "a chain", 1, _CHAIN_LIMIT)
    return m.Record(
        _origin(f[0], f[1]),
        _binary(f[2], "a key id", _KEY_ID_LIMIT),
        tuple(_binary(item, "a certificate", _CERTIFICATE_LIMIT) for item in chain),
    )


def _advert(value: object) -> m.Advert:
    cluster, shard, epoch, stamp, floor, mark, *more = _listed(value, "an advert", 6)
    return m.Advert(
        _origin(cluster, shard),
        _version(epoch, stamp),
        _integer(floor, "a floor"),
        _binary(mark, "a root", ROOT_MARK_SIZE),
        _reach(more[0]) if more else None,
    )


def _reach(value: object) -> m.Reach | None:
    if value is None:
        return None
    epoch, stamp, clusters = _listed(value, "a reach", 3)[:3]
    return m.Reach(_version(epoch, stamp), _integer(clusters, "a number"))


def _heads(f: list[Any]) -> m.Heads:
    return m.Heads(tuple(_advert(item) for item in _listed(f[0], "a list of heads", 0)))


def _want(f: list[Any]) -> m.Want:
    return m.Want(_origin(f[0], f[1]), _version(f[2], f[3]), _boolean(f[4], "a flag"))


def _stop(f: list[Any]) -> m.Stop:
    return m.Stop(_origin(f[0], f[1]))


def _entry(value: object, start: int, to: int) -> Entry:
    element, stamp, op, content = _listed(value, "an entry", 4, 4)
    _binary(element, "an element")
    _binary(content, "a value")
    if op not in (0, 1) or type(op) is not int:
        raise _bad("an operation")
    if not start < _integer(stamp, "a stamp") <= to:
        raise _bad("a stamp outside its chunk")
    return (element, stamp, op, content)


def _transfer(f: list[Any]) -> m.Transfer:
    start, to = _integer(f[4], "a stamp"), _integer(f[5], "a stamp")
    head = _head(f[7])
    origin, epoch = _origin(f[0], f[1]), _integer(f[2], "an epoch")
    if start > to:
        raise _bad("a chunk that ends before it starts")
    if head is not None and (head.origin, head.epoch, head.stamp) != (origin, epoch, to):
        raise _bad("a head that does not fit its chunk")
    entries = tuple(_entry(item, start, to) for item in _listed(f[6], "a list of entries", 0))
    return m.Transfer(origin, epoch, _boolean(f[3], "a flag"), start, to, entries, head)


def _packed(f: list[Any]) -> m.Transfer:
    """A transfer whose entries are packed, and whose head leaves out what the fields tell."""
    origin, epoch = _origin(f[0], f[1]), _integer(f[2], "an epoch")
    to = _integer(f[5], "a stamp")
    start = to - _integer(f[4], "a span")
    head = None
    if f[7] is not None:
        base, floor, count, root, issued, observed, *rest = _listed(f[7], "a head", 8)
        times = [to + _difference(time) for time in (issued, observed)]
        head = _head([*origin, epoch, base, to, floor, count, root, *times, *rest])
    entries = unpack_entries(_binary(f[6], "packed entries"), to, origin.cluster)
    stamps = [entry[1] for entry in entries]
    if start < 0 or (stamps and not start < min(stamps) <= max(stamps) <= to):
        raise _bad("a stamp outside its chunk")
    return m.Transfer(origin, epoch, _boolean(f[3], "a flag"), start, to, entries, head)


def _difference(value: object) -> int:
    if type(value) is not int:
        raise _bad("a difference")
    return value


def _beat(f: list[Any]) -> m.Beat:
    sent, echo_sent, echo_received, digest = f[:4]
    return m.Beat(
        _integer(sent, "a time"),
        _integer(echo_sent, "a time"),
        _integer(echo_received, "a time"),
        _binary(digest, "a digest", _ROOT_SIZE),
    )


def _skew(f: list[Any]) -> m.Skew:
    return m.Skew(_origin(f[0], f[1]), _label(f[2], "a cluster"), _integer(f[3], "an offset"))


def _reject(f: list[Any]) -> m.Reject:
    return m.Reject(_text(f[0], "a code"), _text(f[1], "a detail"))


def _admission(f: list[Any]) -> m.Admission:
    order, minimum = _integer(f[0], "an order"), _integer(f[1], "an epoch")
    if max(order, minimum) > _DECISION_LIMIT:
        raise _bad("a number of a decision")
    return m.Admission(order, minimum, _label(f[2], "a cluster"))


_DECODERS: dict[int, tuple[int, Callable[[list[Any]], m.Message]]] = {
    _HELLO: (9, _hello),
    _RECORD: (4, _record),
    _HEADS: (1, _heads),
    _WANT: (5, _want),
    _STOP: (2, _stop),
    _TRANSFER: (8, _transfer),
    _BEAT: (4, _beat),
    _REJECT: (2, _reject),
    _SKEW: (4, _skew),
    _PACKED: (8, _packed),
    _ADMISSION: (3, _admission),
}


def _refuse_extension(code: int, _: bytes) -> None:
    message = f"extension type {code}"
    raise ProtocolError(message, code="ext_not_allowed")


def _ordered(pairs: list[tuple[object, object]]) -> dict[object, object]:
    keys = [msgpack.packb(key) for key, _ in pairs] if len(pairs) > 1 else []
    if any(before >= after for before, after in pairwise(keys)):
        raise _bad("a map that names a key twice or out of order")
    return dict(pairs)


def _refuse_map(_: object) -> None:
    raise _bad("a map in a frame")


def _counting() -> Callable[[list[object]], list[object]]:
    count = 0

    def passed(value: list[object]) -> list[object]:
        nonlocal count
        count += 1
        if count > LISTS_LIMIT:
            message = f"a frame of more than {LISTS_LIMIT} lists"
            raise ProtocolError(message, code="too_large")
        return value

    return passed


def _unpacked(data: bytes | memoryview, **limits: object) -> object:
    try:
        return cast(
            "object",
            msgpack.unpackb(
                data,
                strict_map_key=False,
                ext_hook=_refuse_extension,
                max_ext_len=0,
                max_array_len=LIST_LIMIT,
                **limits,
            ),
        )
    except (UnicodeDecodeError, msgpack.exceptions.ExtraData) as error:
        message = "trailing bytes, or text that is not UTF-8"
        raise ProtocolError(message, code="bad_frame") from error
    except ValueError as error:
        # The library tells limits apart by text only.  Time stamps it builds without the hook.
        extension = "max_ext_len" in str(error) or "timestamp" in str(error)
        code = "ext_not_allowed" if extension else "bad_frame"
        message = "cut short, over a limit, an extension type, or no MessagePack"
        raise ProtocolError(message, code=code) from error
    except TypeError as error:
        message = "a map with a key that can be none"
        raise ProtocolError(message, code="bad_frame") from error


def unpack_plain(data: bytes | memoryview) -> object:
    """One MessagePack value without extension types, its map keys in canonical order.

    Raises :class:`ProtocolError` otherwise, and for a list or map of more than :data:`LIST_LIMIT`
    items, with code ``ext_not_allowed`` or ``bad_frame``.  Other canonical forms are not checked.
    """
    return _unpacked(data, object_pairs_hook=_ordered, max_map_len=LIST_LIMIT)


def _unpack_frame(data: memoryview) -> object:
    return _unpacked(data, object_pairs_hook=_refuse_map, list_hook=_counting(), max_map_len=0)


def decode(frame: bytes, limit: int = FRAME_LIMIT) -> m.Message:
    """The message in ``frame``; raises :class:`ProtocolError` for anything that is none.

    ``limit`` in bytes is ours, at most :data:`FRAME_LIMIT`.
    """
    if len(frame) > limit:
        message = f"a frame of {len(frame)} bytes exceeds {limit}"
        raise ProtocolError(message, code="too_large")
    if not frame or frame[0] != MAJOR:
        message = "a frame of another major protocol version; run versions that overlap"
        raise ProtocolError(message, code="bad_version")
    value = _unpack_frame(memoryview(frame)[1:])
    if not isinstance(value, list) or not value:
        raise _bad("a frame")
    kind = _integer(value[0], "a message type")
    known = _DECODERS.get(kind)
    if known is None:
        return m.Unknown(kind)
    fields, decoder = known
    return decoder(_listed(value[1:], "a message", fields))


def _head_fields(head: Head | None) -> list[object] | None:
    return None if head is None else [*head.fields(), head.signature]


def _advert_fields(advert: m.Advert) -> list[object]:
    fields = [*advert.origin, *advert.version, advert.floor, advert.mark]
    reach = advert.reach
    return fields if reach is None else [*fields, [*reach.version, reach.clusters]]


def _fields(message: m.Message) -> list[object]:  # noqa: C901, PLR0911 - one case a message
    match message:
        case m.Hello():
            *fields, packed = (getattr(message, name) for name in m.Hello.__slots__)
            return [_HELLO, *fields, True] if packed else [_HELLO, *fields]
        case m.Record(origin, key_id, chain):
            return [_RECORD, *origin, key_id, chain]
        case m.Heads(adverts):
            return [_HEADS, list(map(_advert_fields, adverts))]
        case m.Want(origin, version, snapshot):
            return [_WANT, *origin, *version, snapshot]
        case m.Stop(origin):
            return [_STOP, *origin]
        case m.Transfer(origin, epoch, snapshot, start, to, entries, head):
            return [_TRANSFER, *origin, epoch, snapshot, start, to, entries, _head_fields(head)]
        case m.Beat(sent_at, echo_sent, echo_received, digest):
            return [_BEAT, sent_at, echo_sent, echo_received, digest]
        case m.Reject(code, detail):
            return [_REJECT, code, detail[:_TEXT_LIMIT]]
        case m.Skew(origin, author, offset_ns):
            return [_SKEW, *origin, author, offset_ns]
        case m.Admission(order, minimum, by):
            return [_ADMISSION, order, minimum, by]
        case m.Unknown():
            return [message.kind]
        case _ as unreachable:
            assert_never(unreachable)


def encode(message: m.Message) -> bytes:
    """The frame of ``message``; the sender keeps transfers within the frame limit."""
    return bytes((MAJOR,)) + cast("bytes", msgpack.packb(_fields(message)))


def encode_packed(transfer: m.Transfer) -> bytes:
    """The frame of ``transfer`` in few bytes, for peers that take it; it reads back the same."""
    origin, epoch, to, head = transfer.origin, transfer.epoch, transfer.to, transfer.head
    stated: list[object] | None = None
    if head is not None:
        state = [head.base, head.floor, head.count, head.root]
        times = [head.issued_at - to, head.observed_at - to]
        stated = [*state, *times, head.key_id, head.signature]
    entries = pack_entries(transfer.entries, to, origin.cluster)
    span = to - transfer.start
    fields = [_PACKED, *origin, epoch, transfer.snapshot, span, to, entries, stated]
    return bytes((MAJOR,)) + cast("bytes", msgpack.packb(fields))


def encode_head(head: Head) -> bytes:
    """A signed head as kept in journals and snapshot files."""
    return pack(_head_fields(head))


def decode_head(data: bytes) -> Head:
    """The reverse of :func:`encode_head`; raises :class:`ProtocolError`."""
    head = _head(unpack_plain(data))
    if head is None:
        raise _bad("a head")
    return head


def encode_record(record: m.Record) -> bytes:
    """A record as kept in journals and snapshot files."""
    return pack([*record.origin, record.key_id, list(record.chain)])


def decode_record(data: bytes) -> m.Record:
    """The reverse of :func:`encode_record`; raises :class:`ProtocolError`."""
    return _record(_listed(unpack_plain(data), "a record", 4))
