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
from itertools import pairwise
from typing import Any, assert_never, cast

import msgpack

from crdt import Base, Entry, Head, pack
from crdt.buckets import DEPTH_LIMIT, is_index, nodes_limit
from replicator import messages as m
from replicator import wire as w
from replicator.errors import ProtocolError
from replicator.packing import pack_entries, unpack_entries
from replicator.wire import FRAME_LIMIT, LIST_LIMIT, TEXT_LIMIT

MAJOR = 1
MINOR = 0
_DECISION_LIMIT = 2**62
_CHAIN_LIMIT = 8
_CERTIFICATE_LIMIT = 16 * 1024
LISTS_LIMIT = 4096
"""Lists of one frame; a list costs a hundred times what its bytes let expect."""
_KEY_ID_LIMIT = 64
_SIGNATURE_LIMIT = 1024
_ROOT_SIZE = 32
ROOT_MARK_SIZE = 8
"""Bytes of a root that an advert carries."""

_HELLO, _RECORD, _HEADS, _WANT, _STOP, _TRANSFER, _BEAT, _REJECT, _SKEW = range(1, 10)
_PACKED, _ADMISSION, _GET_BUCKETS, _BUCKETS, _GET_BUCKET_ENTRIES, _BUCKET_ENTRIES = range(10, 16)


def _head(value: object) -> Head | None:
    if value is None:
        return None
    fields = w.listed(value, "a head", 12)
    base = None
    if fields[3] is not None:
        epoch, stamp, root = w.listed(fields[3], "a base", 3, 3)
        base = Base(*w.version(epoch, stamp), w.binary(root, "a base root", _ROOT_SIZE))
    if w.integer(fields[5], "a floor") > w.integer(fields[4], "a stamp"):
        raise w.bad("a floor above its stamp")
    return Head(
        origin=w.origin(fields[0], fields[1]),
        epoch=w.integer(fields[2], "an epoch"),
        base=base,
        stamp=w.integer(fields[4], "a stamp"),
        floor=w.integer(fields[5], "a floor"),
        count=w.integer(fields[6], "a count"),
        root=w.binary(fields[7], "a root", _ROOT_SIZE),
        issued_at=w.integer(fields[8], "a time"),
        observed_at=w.integer(fields[9], "a time"),
        key_id=w.binary(fields[10], "a key id", _KEY_ID_LIMIT),
        signature=w.binary(fields[11], "a signature", _SIGNATURE_LIMIT),
    )


def _some_head(value: object) -> Head:
    head = _head(value)
    if head is None:
        raise w.bad("a head")
    return head


def _told(f: list[Any], at: int) -> bool:
    """Whether a flag was appended and set; one that is missing, or anything else, is not."""
    return len(f) > at and f[at] is True


def _hello(f: list[Any]) -> m.Hello:
    minor, clusterset, cluster, instance, role, epoch, uid, software, frame_limit = f[:9]
    return m.Hello(
        minor=w.integer(minor, "a version"),
        clusterset=w.text(clusterset, "a clusterset"),
        cluster=w.text(cluster, "a cluster"),
        instance=w.text(instance, "an instance"),
        role=w.text(role, "a role"),
        epoch=w.integer(epoch, "an epoch"),
        uid=w.text(uid, "a uid"),
        software=w.text(software, "a software version"),
        frame_limit=w.integer(frame_limit, "a limit"),
        packed=_told(f, 9),
        buckets=_told(f, 10),
    )


def _record(f: list[Any]) -> m.Record:
    chain = w.listed(f[3], "a chain", 1, _CHAIN_LIMIT)
    return m.Record(
        w.origin(f[0], f[1]),
        w.binary(f[2], "a key id", _KEY_ID_LIMIT),
        tuple(w.binary(item, "a certificate", _CERTIFICATE_LIMIT) for item in chain),
    )


def _advert(value: object) -> m.Advert:
    cluster, shard, epoch, stamp, floor, mark, *more = w.listed(value, "an advert", 6)
    return m.Advert(
        w.origin(cluster, shard),
        w.version(epoch, stamp),
        w.integer(floor, "a floor"),
        w.binary(mark, "a root", ROOT_MARK_SIZE),
        _reach(more[0]) if more else None,
    )


def _reach(value: object) -> m.Reach | None:
    if value is None:
        return None
    epoch, stamp, clusters = w.listed(value, "a reach", 3)[:3]
    return m.Reach(w.version(epoch, stamp), w.integer(clusters, "a number"))


def _heads(f: list[Any]) -> m.Heads:
    return m.Heads(tuple(_advert(item) for item in w.listed(f[0], "a list of heads", 0)))


def _want(f: list[Any]) -> m.Want:
    return m.Want(w.origin(f[0], f[1]), w.version(f[2], f[3]), w.boolean(f[4], "a flag"))


def _stop(f: list[Any]) -> m.Stop:
    return m.Stop(w.origin(f[0], f[1]))


def _entry(value: object, start: int, to: int) -> Entry:
    element, stamp, op, content = w.listed(value, "an entry", 4, 4)
    w.binary(element, "an element")
    w.binary(content, "a value")
    if op not in (0, 1) or type(op) is not int:
        raise w.bad("an operation")
    if not start < w.integer(stamp, "a stamp") <= to:
        raise w.bad("a stamp outside its chunk")
    return (element, stamp, op, content)


def _chunk(start: object, to: object, rows: object) -> tuple[int, int, tuple[Entry, ...]]:
    first, last = w.integer(start, "a stamp"), w.integer(to, "a stamp")
    if first > last:
        raise w.bad("a chunk that ends before it starts")
    listed = w.listed(rows, "a list of entries", 0)
    return first, last, tuple(_entry(item, first, last) for item in listed)


def _transfer(f: list[Any]) -> m.Transfer:
    head = _head(f[7])
    origin, epoch = w.origin(f[0], f[1]), w.integer(f[2], "an epoch")
    start, to, entries = _chunk(f[4], f[5], f[6])
    if head is not None and (head.origin, head.epoch, head.stamp) != (origin, epoch, to):
        raise w.bad("a head that does not fit its chunk")
    return m.Transfer(origin, epoch, w.boolean(f[3], "a flag"), start, to, entries, head)


def _packed(f: list[Any]) -> m.Transfer:
    """A transfer whose entries are packed, and whose head leaves out what the fields tell."""
    origin, epoch = w.origin(f[0], f[1]), w.integer(f[2], "an epoch")
    to = w.integer(f[5], "a stamp")
    start = to - w.integer(f[4], "a span")
    head = None
    if f[7] is not None:
        base, floor, count, root, issued, observed, *rest = w.listed(f[7], "a head", 8)
        times = [to + _difference(time) for time in (issued, observed)]
        head = _head([*origin, epoch, base, to, floor, count, root, *times, *rest])
    entries = unpack_entries(w.binary(f[6], "packed entries"), to, origin.cluster)
    stamps = [entry[1] for entry in entries]
    if start < 0 or (stamps and not start < min(stamps) <= max(stamps) <= to):
        raise w.bad("a stamp outside its chunk")
    return m.Transfer(origin, epoch, w.boolean(f[3], "a flag"), start, to, entries, head)


def _difference(value: object) -> int:
    if type(value) is not int:
        raise w.bad("a difference")
    return value


def _beat(f: list[Any]) -> m.Beat:
    sent, echo_sent, echo_received, digest = f[:4]
    return m.Beat(
        w.integer(sent, "a time"),
        w.integer(echo_sent, "a time"),
        w.integer(echo_received, "a time"),
        w.binary(digest, "a digest", _ROOT_SIZE),
    )


def _depth(value: object) -> int:
    depth = w.integer(value, "a depth")
    if depth > DEPTH_LIMIT:
        raise w.bad("a depth")
    return depth


def _get_buckets(f: list[Any]) -> m.GetBuckets:
    return m.GetBuckets(w.origin(f[0], f[1]), _depth(f[2]))


def _buckets(f: list[Any]) -> m.Buckets:
    depth = _depth(f[1])
    return m.Buckets(_some_head(f[0]), depth, w.binary(f[2], "nodes", nodes_limit(depth)))


def _index(value: object) -> int:
    index = w.integer(value, "an index")
    if not is_index(index):
        raise w.bad("an index")
    return index


def _get_bucket_entries(f: list[Any]) -> m.GetBucketEntries:
    indexes = tuple(map(_index, w.listed(f[4], "a list of indexes", 1)))
    return m.GetBucketEntries(w.origin(f[0], f[1]), w.version(f[2], f[3]), indexes)


def _bucket_entries(f: list[Any]) -> m.BucketEntries:
    start, to, entries = _chunk(f[3], f[4], f[5])
    origin, epoch = w.origin(f[0], f[1]), w.integer(f[2], "an epoch")
    return m.BucketEntries(origin, epoch, start, to, entries, w.boolean(f[6], "a flag"))


def _skew(f: list[Any]) -> m.Skew:
    return m.Skew(w.origin(f[0], f[1]), w.label(f[2], "a cluster"), w.integer(f[3], "an offset"))


def _reject(f: list[Any]) -> m.Reject:
    return m.Reject(w.text(f[0], "a code"), w.text(f[1], "a detail"))


def _admission(f: list[Any]) -> m.Admission:
    order, minimum = w.integer(f[0], "an order"), w.integer(f[1], "an epoch")
    if max(order, minimum) > _DECISION_LIMIT:
        raise w.bad("a number of a decision")
    return m.Admission(order, minimum, w.label(f[2], "a cluster"))


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
    _GET_BUCKETS: (3, _get_buckets),
    _BUCKETS: (3, _buckets),
    _GET_BUCKET_ENTRIES: (5, _get_bucket_entries),
    _BUCKET_ENTRIES: (7, _bucket_entries),
}


def _refuse_extension(code: int, _: bytes) -> None:
    message = f"extension type {code}"
    raise ProtocolError(message, code="ext_not_allowed")


def _ordered(pairs: list[tuple[object, object]]) -> dict[object, object]:
    keys = [msgpack.packb(key) for key, _ in pairs] if len(pairs) > 1 else []
    if any(before >= after for before, after in pairwise(keys)):
        raise w.bad("a map that names a key twice or out of order")
    return dict(pairs)


def _refuse_map(_: object) -> None:
    raise w.bad("a map in a frame")


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
        raise w.bad("a frame")
    kind = w.integer(value[0], "a message type")
    known = _DECODERS.get(kind)
    if known is None:
        return m.Unknown(kind)
    fields, decoder = known
    return decoder(w.listed(value[1:], "a message", fields))


def _head_fields(head: Head | None) -> list[object] | None:
    return None if head is None else [*head.fields(), head.signature]


def _advert_fields(advert: m.Advert) -> list[object]:
    fields = [*advert.origin, *advert.version, advert.floor, advert.mark]
    reach = advert.reach
    return fields if reach is None else [*fields, [*reach.version, reach.clusters]]


def _hello_fields(hello: m.Hello) -> list[object]:
    *fields, packed, buckets = (getattr(hello, name) for name in m.Hello.__slots__)
    if buckets:
        return [*fields, packed, True]
    return [*fields, True] if packed else fields


def _fields(message: m.Message) -> list[object]:  # noqa: C901, PLR0911, PLR0912 - one a message
    match message:
        case m.Hello():
            return [_HELLO, *_hello_fields(message)]
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
            return [_REJECT, code, detail[:TEXT_LIMIT]]
        case m.Skew(origin, author, offset_ns):
            return [_SKEW, *origin, author, offset_ns]
        case m.Admission(order, minimum, by):
            return [_ADMISSION, order, minimum, by]
        case m.GetBuckets(origin, depth):
            return [_GET_BUCKETS, *origin, depth]
        case m.Buckets(signed, depth, nodes):
            return [_BUCKETS, _head_fields(signed), depth, nodes]
        case m.GetBucketEntries(origin, version, indexes):
            return [_GET_BUCKET_ENTRIES, *origin, *version, indexes]
        case m.BucketEntries(origin, epoch, start, to, entries, last):
            return [_BUCKET_ENTRIES, *origin, epoch, start, to, entries, last]
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
    return _some_head(unpack_plain(data))


def encode_record(record: m.Record) -> bytes:
    """A record as kept in journals and snapshot files."""
    return pack([*record.origin, record.key_id, list(record.chain)])


def decode_record(data: bytes) -> m.Record:
    """The reverse of :func:`encode_record`; raises :class:`ProtocolError`."""
    return _record(w.listed(unpack_plain(data), "a record", 4))
