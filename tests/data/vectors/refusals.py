"""Vectors of frames that are refused, with their codes."""

from __future__ import annotations

from itertools import count

from crdt import pack
from replicator.codec import FRAME_LIMIT
from replicator.packing import body_of
from tests.data.vectors.keys import FJORD
from tests.data.vectors.notation import Json, shown
from tests.data.vectors.wire import AT, HEADS, MESSAGES, fields_of, items_of

_TYPES = dict(
    zip(
        ("Hello", "Record", "Heads", "Want", "Stop", "Transfer", "Beat", "Reject", "Skew"), count(1)
    ),
    Admission=11,
    GetBuckets=12,
    Buckets=13,
    GetBucketEntries=14,
    BucketEntries=15,
)
_BAD = "bad_frame"


def _frame(value: object) -> bytes:
    return b"\x01" + pack(value)


def _changed(name: str, change: dict[int, object]) -> bytes:
    """A good message with some fields, counted from 0 without the type, changed or cut off."""
    message = MESSAGES[name]
    fields = fields_of(message)
    for at, value in change.items():
        fields[at:] = fields[at:][:0] if value is ... else [value, *fields[at + 1 :]]
    return _frame([_TYPES[type(message).__name__], *fields])


def _forms() -> list[tuple[str, bytes, str]]:
    stop = _frame([5, "fjord", 0])
    late = b"\x01\x94" + stop[2:] + bytes.fromhex("d6ff00000001")
    return [
        ("no byte", b"", "bad_version"),
        ("version 0", b"\x00" + stop[1:], "bad_version"),
        ("version 2", b"\x02" + stop[1:], "bad_version"),
        ("nothing after the version", b"\x01", _BAD),
        ("cut short", stop[:-1], _BAD),
        ("bytes after the list", stop + b"\xc0", _BAD),
        ("a byte that MessagePack does not know", b"\x01\xc1", _BAD),
        ("nil", _frame(None), _BAD),
        ("a map", _frame({5: "fjord"}), _BAD),
        ("an empty list", _frame([]), _BAD),
        ("a text as type", _frame(["5", "fjord", 0]), _BAD),
        ("a boolean as type", _frame([True, "fjord", 0]), _BAD),
        ("a type below zero", _frame([-1]), _BAD),
        ("a map in a field that is not known", _frame([99, [{}]]), _BAD),
        ("a map in an appended field", _frame([5, "fjord", 0, {1: 2}]), _BAD),
        ("an extension in a known field", b"\x01\x93\x05\xd4\x2a\x00\x00", "ext_not_allowed"),
        ("an extension in an unknown message", b"\x01\x92\x63\xc7\x00\x2a", "ext_not_allowed"),
        ("a timestamp in an appended field", late, "ext_not_allowed"),
        ("text that is not UTF-8", b"\x01\x92\x63\xa1\xff", _BAD),
        ("a list of 2,049", _frame([99, [0] * 2049]), _BAD),
        ("4,097 lists", _frame([99, [[]] * 2000, [[]] * 2000, [[]] * 93]), "too_large"),
        ("1,025 levels", b"\x01\x92\x63" + b"\x91" * 1024 + b"\xc0", _BAD),
        ("above the limit", b"\x01" + b"\xc0" * FRAME_LIMIT, "too_large"),
    ]


def _fields() -> list[tuple[str, bytes, str]]:
    cases: dict[str, tuple[str, dict[int, object]]] = {
        "Hello without its last field": ("Hello", {8: ...}),
        "a minor version below zero": ("Hello", {0: -1}),
        "a long text": ("Hello", {3: "x" * 4097}),
        "bytes where text belongs": ("Hello", {1: b"vectors"}),
        "no certificate": ("Record", {3: []}),
        "nine certificates": ("Record", {3: [b""] * 9}),
        "a certificate too long": ("Record", {3: [b"x" * 16_385]}),
        "a key id too long": ("Record", {2: b"k" * 65}),
        "an advert too short": ("Heads", {0: [["fjord", 0, 1, AT, 0]]}),
        "a mark too long": ("Heads", {0: [["fjord", 0, 1, AT, 0, b"m" * 9]]}),
        "a reach that is a number": ("Heads", {0: [["fjord", 0, 1, AT, 0, b"", 1]]}),
        "a reach too short": ("Heads", {0: [["fjord", 0, 1, AT, 0, b"", [1, AT]]]}),
        "Want without its flag": ("Want", {4: ...}),
        "a number as flag": ("Want", {4: 1}),
        "a version beyond 63 bits": ("Want", {3: 2**63}),
        "an upper-case origin": ("Stop", {0: "Fjord"}),
        "an origin with a dot": ("Stop", {0: "fjord.x"}),
        "an origin of 64 characters": ("Stop", {0: "a" * 64}),
        "an origin without a name": ("Stop", {0: ""}),
        "a shard below zero": ("Stop", {1: -1}),
        "a float as shard": ("Stop", {1: 0.0}),
        "a digest too long": ("Beat", {3: bytes(33)}),
        "a time that is true": ("Beat", {0: True}),
        "an author that is no label": ("Skew", {2: "Mesa"}),
        "an offset below zero": ("Skew", {3: -1}),
        "an order beyond the highest": ("Admission", {0: 2**62 + 1}),
        "a minimum beyond the highest": ("Admission", {1: 2**62 + 1}),
        "an admission by no label": ("Admission", {2: "Mesa"}),
        "a cut too deep": ("GetBuckets", {2: 4}),
        "more nodes than a cut has": ("Buckets", {2: bytes(34)}),
        "buckets without a head": ("Buckets", {0: None}),
        "no index": ("GetBucketEntries", {4: []}),
        "an index of two leading bits": ("GetBucketEntries", {4: [2]}),
        "an index of no bits": ("GetBucketEntries", {4: [0]}),
        "an index too deep": ("GetBucketEntries", {4: [0x10000]}),
        "a bucket's stamp at the start": ("BucketEntries", {3: AT}),
        "a bucket's chunk without its flag": ("BucketEntries", {6: ...}),
        "a bucket's chunk that ends before it starts": ("BucketEntries", {3: AT + 1, 5: []}),
        "a detail too long": ("Reject", {1: "x" * 4097}),
    }
    return [(name, _changed(*how), _BAD) for name, how in cases.items()]


def _transfers() -> list[tuple[str, bytes, str]]:
    chunk, last = "Transfer, a chunk", "Transfer, a snapshot"
    (row,) = [list(entry) for entry in MESSAGES[chunk].entries]  # type: ignore[union-attr]
    head = items_of(FJORD.signed(HEADS["a first epoch"][1]))

    def entry(at: int, value: object) -> dict[int, object]:
        return {6: [[*row[:at], value, *row[at + 1 :]]]}

    def headed(at: int, value: object) -> dict[int, object]:
        return {7: [*head[:at], value, *head[at + 1 :]]}

    cases: dict[str, tuple[str, dict[int, object]]] = {
        "a chunk that ends before it starts": (chunk, {4: AT + 1, 6: []}),
        "a stamp at the start": (chunk, entry(1, AT - 1)),
        "a stamp beyond the end": (chunk, entry(1, AT + 1)),
        "a stamp that is a float": (chunk, entry(1, float(AT))),
        "an operation that is none": (chunk, entry(2, 2)),
        "an operation that is false": (chunk, entry(2, False)),  # noqa: FBT003
        "an element that is text": (chunk, entry(0, "e")),
        "an entry of five": (chunk, {6: [[*row, 1]]}),
        "an entry of three": (chunk, {6: [row[:3]]}),
        "a flag that is nil": (chunk, {3: None}),
        "a transfer without its head field": (chunk, {7: ...}),
        "a head of another origin": (last, headed(0, "mesa")),
        "a head of another shard": (last, headed(1, 1)),
        "a head of another epoch": (last, headed(2, 2)),
        "a head at another stamp": (last, headed(4, AT - 1)),
        "a head of eleven": (last, {7: head[:11]}),
        "a base of two": (last, headed(3, [1, 2])),
        "a base of four": (last, headed(3, [1, 2, b"", 0])),
        "a root too long": (last, headed(7, bytes(33))),
        "a signature too long": (last, headed(11, bytes(1025))),
        "a count below zero": (last, headed(6, -1)),
    }
    return [(name, _changed(*how), _BAD) for name, how in cases.items()]


def _packed() -> list[tuple[str, bytes, str]]:
    head = [None, 0, 1, bytes(32), 5, -7, b"key", b"signature"]
    body = body_of([(pack([3, "fjord"]), AT, 0, pack([]))], AT)

    def frame(change: dict[int, object]) -> bytes:
        fields: list[object] = ["fjord", 0, 1, False, 9, AT, b"\0" + body, head]
        return _frame([10, *(change.get(at, field) for at, field in enumerate(fields))])

    def headed(at: int, value: object) -> bytes:
        return frame({7: [*head[:at], value, *head[at + 1 :]]})

    def told(old: bytes, new: bytes) -> bytes:
        return frame({6: b"\0" + body.replace(old, new, 1)})

    rows = {
        "a span beyond the beginning": frame({5: 8, 6: b"\0\0\0" + bytes(9)}),
        "a span that leaves no entry out": frame({4: 0}),
        "a packed stamp beyond the end": told(b"\0\x01\0\0", b"\0\x01\x01\xff\0"),
        "packed entries as a list": frame({6: []}),
        "packed entries of no byte": frame({6: b""}),
        "packed entries of another form": frame({6: b"\x02" + body}),
        "packed entries that are not deflated": frame({6: b"\x01\xff\xff"}),
        "packed entries that end early": frame({6: b"\0" + body[:-1]}),
        "packed entries that go on": frame({6: b"\0" + body + b"\0"}),
        "2,049 packed entries": frame({6: b"\0\x08\x01" + body[2:]}),
        "a column of three bytes": told(b"\0\x01\0\0", b"\0\x01\x03\0\0\0\0"),
        "a packed head of seven": frame({7: head[:7]}),
        "a packed head with a floor above its stamp": headed(1, AT + 1),
        "a packed head with a time that is true": headed(4, True),  # noqa: FBT003
        "a packed head from before the beginning": headed(5, -AT - 1),
        "a packed transfer without its head field": _frame([10, "fjord", 0, 1, False, 9, AT, b""]),
    }
    return [(name, data, _BAD) for name, data in rows.items()]


def refused() -> Json:
    """Frames that cost the link."""
    rows = [*_forms(), *_fields(), *_transfers(), *_packed()]
    return {
        "about": "protocol.md section 7: frames that are refused, and the code of the Reject",
        "cases": [{"name": name, "code": code, **shown(frame)} for name, frame, code in rows],
    }
