"""A second decoder of the wire, written from ``docs/protocol.md`` alone.

It imports nothing of the project and no MessagePack library: what it can read, anybody can who has
that page.  Slow and plain on purpose.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Any

INT63 = 2**63 - 1
LIST, LISTS, LEVELS, FRAME = 2048, 4096, 1024, 1 << 20


class Refused(Exception):  # noqa: N818 - what the page calls it
    """A frame or entry is refused; ``code`` says why."""

    def __init__(self, code: str = "bad_frame") -> None:
        super().__init__(code)
        self.code = code


# ---- section 1: canonical bytes -----------------------------------------------------------------


def pack_int(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack("b", value) if value < 0 else bytes([value])
    for size in (1, 2, 4, 8):
        if 0 <= value < 1 << 8 * size:
            return bytes([{1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}[size]]) + value.to_bytes(size, "big")
        if -(1 << 8 * size - 1) <= value < 0:
            tag = {1: 0xD0, 2: 0xD1, 4: 0xD2, 8: 0xD3}[size]
            return bytes([tag]) + value.to_bytes(size, "big", signed=True)
    raise ValueError(value)


def _length(size: int, forms: list[tuple[int, int, int]]) -> bytes:
    """``forms``: (exclusive limit, first byte, bytes of length); 0 bytes: added to the first."""
    for limit, first, width in forms:
        if size < limit:
            return bytes([first + size]) if width == 0 else bytes([first]) + size.to_bytes(width)
    raise ValueError(size)


def pack(value: Any) -> bytes:  # noqa: PLR0911 - one return a type
    """Canonical bytes."""
    match value:
        case None:
            return b"\xc0"
        case bool():
            return b"\xc3" if value else b"\xc2"
        case int():
            return pack_int(value)
        case float():
            return b"\xcb" + struct.pack(">d", value)
        case str():
            body = value.encode()
            forms = [(32, 0xA0, 0), (256, 0xD9, 1), (1 << 16, 0xDA, 2), (1 << 32, 0xDB, 4)]
            return _length(len(body), forms) + body
        case bytes():
            forms = [(256, 0xC4, 1), (1 << 16, 0xC5, 2), (1 << 32, 0xC6, 4)]
            return _length(len(value), forms) + value
        case list():
            head = _length(len(value), [(16, 0x90, 0), (1 << 16, 0xDC, 2), (1 << 32, 0xDD, 4)])
            return head + b"".join(pack(item) for item in value)
        case dict():
            head = _length(len(value), [(16, 0x80, 0), (1 << 16, 0xDE, 2), (1 << 32, 0xDF, 4)])
            items = sorted((pack(key), pack(item)) for key, item in value.items())
            return head + b"".join(key + item for key, item in items)
    raise TypeError(value)


class Reader:
    """MessagePack values from bytes; ``maps`` as an entry may hold and a frame may not."""

    def __init__(self, data: bytes, *, maps: bool) -> None:
        self.data, self.at, self.maps, self.lists = data, 0, maps, 0

    def take(self, size: int) -> bytes:
        part = self.data[self.at : self.at + size]
        if len(part) < size:
            raise Refused
        self.at += size
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise Refused from error

    def sequence(self, size: int, level: int) -> list[Any]:
        if size > LIST or level > LEVELS:
            raise Refused
        found = [self.value(level) for _ in range(size)]
        self.lists += 1
        if self.lists > LISTS and not self.maps:
            raise Refused("too_large")
        return found

    def mapping(self, size: int, level: int) -> dict[Any, Any]:
        if not self.maps or size > LIST:
            raise Refused
        found: dict[Any, Any] = {}
        before = b""
        for _ in range(size):
            key = self.value(level)
            if isinstance(key, list | dict) or pack(key) <= before:
                raise Refused
            before = pack(key)
            found[key] = self.value(level)
        return found

    def value(self, level: int = 0) -> Any:
        first = self.number(1)
        fixed: list[tuple[int, int, Callable[[int], Any]]] = [
            (0x00, 0x7F, lambda n: n),
            (0x80, 0x8F, lambda n: self.mapping(n, level + 1)),
            (0x90, 0x9F, lambda n: self.sequence(n, level + 1)),
            (0xA0, 0xBF, self.text),
            (0xE0, 0xFF, lambda n: n - 32),
        ]
        for low, high, make in fixed:
            if low <= first <= high:
                return make(first - low)
        if first in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[first]
        if 0xC7 <= first <= 0xC9 or 0xD4 <= first <= 0xD8:
            raise Refused("ext_not_allowed")
        return self.sized(first, level + 1)

    def sized(self, first: int, level: int) -> Any:
        forms: list[tuple[int, tuple[int, ...], Callable[[int], Any]]] = [
            (0xC4, (1, 2, 4), lambda size: self.take(self.number(size))),
            (0xCC, (1, 2, 4, 8), self.number),
            (0xD9, (1, 2, 4), lambda size: self.text(self.number(size))),
            (0xDC, (2, 4), lambda size: self.sequence(self.number(size), level)),
            (0xDE, (2, 4), lambda size: self.mapping(self.number(size), level)),
        ]
        for low, sizes, make in forms:
            if low <= first < low + len(sizes):
                return make(sizes[first - low])
        if 0xD0 <= first <= 0xD3:
            return int.from_bytes(self.take(1 << first - 0xD0), "big", signed=True)
        if first in (0xCA, 0xCB):
            size = 4 if first == 0xCA else 8
            return struct.unpack(">f" if size == 4 else ">d", self.take(size))[0]
        raise Refused

    def whole(self) -> Any:
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(4 * LEVELS + usual)
        try:
            found = self.value()
        finally:
            sys.setrecursionlimit(usual)
        if self.at < len(self.data):
            raise Refused
        return found


# ---- sections 3 and 4: entries and digests ------------------------------------------------------


def entry_bytes(element: bytes, stamp: int, op: int, value: bytes) -> bytes:
    count = element[0] - 0x90
    if 1 <= count <= 15 and element[1] < 0x80:
        start = bytes([0x95, element[1], 0x90 + count - 1]) + element[2:]
    else:
        start = b"\x94" + element
    return start + pack_int(stamp) + pack_int(op) + value


def record(element: bytes, stamp: int, op: int, value: bytes) -> bytes:
    entry = entry_bytes(element, stamp, op, value)
    return blake2b(element, digest_size=8).digest() + blake2b(entry, digest_size=16).digest()


def root(records: Iterable[bytes], depth: int = 0) -> bytes:
    items = sorted(records)
    if len(items) <= 64 or depth == 16:
        return blake2b(b"\x00" + b"".join(items), digest_size=32).digest()
    digit = [int(item[:8].hex()[depth], 16) for item in items]
    parts = ([r for r, d in zip(items, digit, strict=True) if d == value] for value in range(16))
    below = b"".join(root(part, depth + 1) for part in parts)
    return blake2b(b"\x01" + below, digest_size=32).digest()


# ---- section 5: heads ---------------------------------------------------------------------------


def signed_bytes(head: list[Any]) -> bytes:
    return pack(["replicator.head.1", *head[:11]])


# ---- section 7: frames --------------------------------------------------------------------------


def need(condition: object) -> None:
    if not condition:
        raise Refused


def integer(value: Any) -> None:
    need(isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT63)


def text(value: Any) -> None:
    need(isinstance(value, str) and len(value) <= 4096)


def binary(most: int) -> Callable[[Any], None]:
    return lambda value: need(isinstance(value, bytes) and len(value) <= most)


def flag(value: Any) -> None:
    need(isinstance(value, bool))


def label(value: Any) -> None:
    text(value)
    inner = set("abcdefghijklmnopqrstuvwxyz0123456789-")
    need(0 < len(value) <= 63 and set(value) <= inner and "-" not in (value[0], value[-1]))


def rows(value: Any, least: int, most: int) -> list[Any]:
    need(isinstance(value, list) and least <= len(value) <= most)
    found: list[Any] = value
    return found


def fit(values: list[Any], checks: list[Callable[[Any], None]]) -> None:
    need(len(values) >= len(checks))
    for value, check in zip(values, checks, strict=False):
        check(value)


def certificates(value: Any) -> None:
    for item in rows(value, 1, 8):
        binary(16_384)(item)


def adverts(value: Any) -> None:
    for item in rows(value, 0, LIST):
        fit(rows(item, 6, LIST), [label, integer, integer, integer, integer, binary(8)])
        if item[6:7] not in ([], [None]):
            fit(rows(item[6], 3, LIST), [integer] * 3)


def head(value: Any) -> None:
    if value is None:
        return
    fit(rows(value, 12, LIST), [label, integer, integer, base, *[integer] * 3, binary(32)])
    fit(value[8:], [integer, integer, binary(64), binary(1024)])
    need(value[5] <= value[4])


def base(value: Any) -> None:
    if value is not None:
        fit(rows(value, 3, 3), [integer, integer, binary(32)])


def chunk(fields: list[Any]) -> None:
    _, _, epoch, _, start, to, items, last = fields[:8]
    entries(start, to, items)
    if last is not None:
        need([last[0], last[1], last[2], last[4]] == [*fields[:2], epoch, to])


def entries(start: Any, to: Any, value: Any) -> None:
    need(start <= to)
    for entry in rows(value, 0, LIST):
        element, stamp, op, content = rows(entry, 4, 4)
        fit([element, stamp, op, content], [binary(FRAME), integer, integer, binary(FRAME)])
        need(op in (0, 1) and start < stamp <= to)


def decided(value: Any) -> None:
    """A number of a decision: 0 to 2^62."""
    integer(value)
    if value > 2**62:
        raise Refused


# ---- section 7a: packed transfers ---------------------------------------------------------------

DICTIONARY = bytes.fromhex(
    "c0c0c0c09500c0a161a162a1632d31612d31622d3163a67a6f6e652d61a46e6f6465a369702d31302d302d"
    "b075732d656173742d3175732d776573742d3265752d63656e7472616c2d3165752d776573742d31"
    "61702d6e6f727468656173742d3173612d656173742d31ab6b7562652d73797374656da764656661756c74"
    "9294a467727063cd2382a3544350c094a76d6574726963739194a0a3554450c09194a56874747073cd01bb"
    "9194a468747470cd1f90a3544350c09503c09601"
)


class Body:
    """The body of packed entries, column by column."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        need(0 <= size <= len(self.data) - self.at)
        self.at += size
        return self.data[self.at - size : self.at]

    def column(self, size: int) -> list[int]:
        width = self.take(1)[0]
        need(width in (0, 1, 2, 4, 8))
        planes = [self.take(size) for _ in range(width)]
        rows = (bytes(plane[at] for plane in planes) for at in range(size))
        return [int.from_bytes(row, "big", signed=True) for row in rows]


def inflated(data: bytes, cluster: str) -> bytes:
    need(data[:1] in (b"\0", b"\1"))
    if data[0] == 0:
        return data[1:]
    machine = zlib.decompressobj(-15, zdict=DICTIONARY + cluster.encode())
    try:
        body = machine.decompress(data[1:], FRAME + 1)
    except zlib.error as error:
        raise Refused from error
    if len(body) > FRAME:
        raise Refused("too_large")
    need(machine.eof and not machine.unused_data)
    return body


def chosen(codes: list[int]) -> list[int]:
    """Places from codes: a 0 is the next new one."""
    new, found = 0, []
    for code in codes:
        need(0 <= code <= codes.count(0))
        found.append(code - 1 if code else new)
        new += code == 0
    return found


def entries_of(data: bytes, to: int, cluster: str) -> list[list[Any]]:
    body = Body(inflated(data, cluster))
    size = int.from_bytes(body.take(2), "big")
    need(size <= LIST)
    steps, shape_codes, jumps, form_codes = [body.column(size) for _ in range(4)]
    new = shape_codes.count(0)
    sizes = [body.column(new) for _ in range(2)]
    befores = [body.take(length) for length in sizes[0]]
    afters = [None if length == -1 else body.take(length) for length in sizes[1]]
    new = form_codes.count(0)
    flags, rests, lengths = [body.column(new) for _ in range(3)]
    need(all(0 <= flag <= 3 for flag in flags))
    begins = [body.take(length) for length in lengths]
    stamps = [to - sum(steps[: at + 1]) for at in range(size)][::-1]
    found: list[list[Any]] = []
    total = number = 0
    for at, shape, form in zip(range(size), chosen(shape_codes), chosen(form_codes), strict=True):
        number += jumps[at]
        need(0 <= number < 1 << 32)
        address = ".".join(str(octet) for octet in number.to_bytes(4, "big")).encode()
        element, after = befores[shape], afters[shape]
        name = b""
        if after is not None:
            at_name = max((i + 1 for i, byte in enumerate(element) if byte >= 0x80), default=0)
            name = element[at_name:]
            element += bytes([0xA0 + len(address)]) + address + after
        value = begins[form]
        if flags[form] & 2:
            value += name + body.take(rests[form])
        total += len(element) + len(value)
        if total > FRAME:
            raise Refused("too_large")
        found.append([element, stamps[at], flags[form] & 1, value])
    need(body.at == len(body.data))
    return found


def unpacked(fields: list[Any]) -> list[Any]:
    """The fields of a Transfer from those of a Packed."""
    cluster, shard, epoch, snapshot, span, to, data, last = fields[:8]
    if last is not None:
        told, floor, count, digest, issued, observed = rows(last, 8, LIST)[:6]
        need(type(issued) is int and type(observed) is int)
        state = [epoch, told, to, floor, count, digest]
        last = [cluster, shard, *state, to + issued, to + observed, *last[6:8]]
        head(last)
    need(span <= to)
    entries = entries_of(data, to, cluster)
    return [cluster, shard, epoch, snapshot, to - span, to, entries, last]


def depth(value: Any) -> None:
    integer(value)
    need(value <= 3)


def indexes(value: Any) -> None:
    for item in rows(value, 1, LIST):
        integer(item)
        need(hex(item)[2] == "1" and len(hex(item)) <= 6)


def nothing(_: Any) -> None:
    """No check of its own."""


MESSAGES: dict[int, tuple[str, list[Callable[[Any], None]]]] = {
    1: ("Hello", [integer, text, text, text, text, integer, text, text, integer]),
    2: ("Record", [label, integer, binary(64), certificates]),
    3: ("Heads", [adverts]),
    4: ("Want", [label, integer, integer, integer, flag]),
    5: ("Stop", [label, integer]),
    6: ("Transfer", [label, integer, integer, flag, integer, integer, nothing, head]),
    7: ("Beat", [integer, integer, integer, binary(32)]),
    8: ("Reject", [text, text]),
    9: ("Skew", [label, integer, label, integer]),
    10: ("Packed", [label, integer, integer, flag, integer, integer, binary(FRAME), nothing]),
    11: ("Admission", [decided, decided, label]),
    12: ("GetBuckets", [label, integer, depth]),
    13: ("Buckets", [head, depth, binary(FRAME)]),
    14: ("GetBucketEntries", [label, integer, integer, integer, indexes]),
    15: ("BucketEntries", [label, integer, integer, integer, integer, nothing, flag]),
}


def read_frame(frame: bytes) -> tuple[str | int, list[Any]]:
    """Name and known fields of a message; of an unknown one its type and nothing."""
    if len(frame) > FRAME:
        raise Refused("too_large")
    if frame[:1] != b"\x01":
        raise Refused("bad_version")
    value = Reader(frame[1:], maps=False).whole()
    fields = rows(value, 1, LIST)
    integer(fields[0])
    known = MESSAGES.get(fields[0])
    if known is None:
        return fields[0], []
    name, checks = known
    fit(fields[1:], checks)
    told = fields[1 : len(checks) + 1]
    if name == "Hello":
        told += [item is True for item in fields[10:12]]
        while told[-1] is False:
            told.pop()
    if name == "Packed":
        name, told = "Transfer", unpacked(told)
    if name == "Transfer":
        chunk(told)
    if name == "Buckets":
        need(told[0] is not None and len(told[2]) <= 33 * 16 ** told[1])
    if name == "BucketEntries":
        entries(*told[3:6])
    return name, told
