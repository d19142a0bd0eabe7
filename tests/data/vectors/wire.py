"""Vectors of heads, records, frames and what is refused."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import cast

from crdt import Base, Head, Origin, Version, pack
from replicator import messages as m
from replicator.codec import encode, encode_head, encode_packed, unpack_plain
from replicator.freshness import exchange
from replicator.packing import DICTIONARY, body_of
from tests.data.vectors.keys import (
    CLUSTERSET,
    FJORD,
    FJORD_SEED,
    MESA,
    MESA_NUMBER,
    ROOT,
    ROOT_SEED,
    STRANGER,
    Writer,
)
from tests.data.vectors.notation import Json, noted

AT = 1_790_000_000_000_000_000
"""Within the validity of the certificates."""
END = 2_082_758_400_000_000_000
"""When they end."""
DAY = 86_400_000_000_000
START = 1_767_225_600_000_000_000
_ORIGIN = Origin("fjord")
_PLAIN = Head(_ORIGIN, 1, None, AT, 0, 3, bytes(range(32)), AT + 5, AT - 7, FJORD.key_id)
_BASED = replace(
    _PLAIN, epoch=2**63 - 1, base=Base(7, AT - 9, b"\xaa" * 32), floor=AT - 20, count=2**40
)
HEADS: dict[str, tuple[Writer, Head]] = {
    "a first epoch": (FJORD, _PLAIN),
    "an epoch that continues from another": (FJORD, _BASED),
    "an empty origin": (FJORD, replace(_PLAIN, stamp=1, floor=1, count=0, observed_at=0)),
    "another shard": (FJORD, replace(_PLAIN, origin=Origin("fjord", 300))),
    "a head signed with P-256": (MESA, replace(_PLAIN, origin=Origin("mesa"), key_id=MESA.key_id)),
}


def items_of(head: Head) -> list[object]:
    """The twelve items of a head."""
    return [*head.fields(), head.signature]


def _record(record: m.Record) -> Json:
    return noted([*record.origin, record.key_id, list(record.chain)])


def heads() -> Json:
    """Heads, what of them is signed, and the keys."""
    cases = []
    for name, (writer, head) in HEADS.items():
        signed = writer.signed(head)
        cases.append(
            {
                "name": name,
                "items": noted(items_of(signed)),
                "signed_hex": signed.canonical().hex(),
                "encoded_hex": encode_head(signed).hex(),
            }
        )
    return {
        "about": "protocol.md section 5; the keys are published: use them for nothing",
        "keys": {
            "fjord": {"kind": "Ed25519", "private_hex": FJORD_SEED.hex()},
            "mesa": {"kind": "ECDSA P-256", "private_number": str(MESA_NUMBER)},
            "root": {"kind": "Ed25519", "private_hex": ROOT_SEED.hex()},
        },
        "cases": cases,
    }


def _verified() -> list[tuple[str, Head, m.Record, str]]:
    head, record = FJORD.signed(_PLAIN), FJORD.record
    mesa, mesa_record = MESA.signed(HEADS["a head signed with P-256"][1]), MESA.record
    stolen = FJORD.signed(replace(head, origin=Origin("mesa")))
    taken, sharded = (replace(record, origin=Origin(*at)) for at in (("mesa", 0), ("fjord", 1)))
    exchanged = replace(record, chain=mesa_record.chain)
    flipped = replace(head, root=b"\x80" + head.root[1:])
    elsewhere = STRANGER.signed(replace(_PLAIN, key_id=STRANGER.key_id))

    def at(issued: int) -> Head:
        return FJORD.signed(replace(_PLAIN, issued_at=issued))

    return [
        ("Ed25519", head, record, "good"),
        ("ECDSA P-256", mesa, mesa_record, "good"),
        ("a flipped bit of the root", flipped, record, "bad_signature"),
        ("another count", replace(head, count=4), record, "bad_signature"),
        ("no signature", head.signed(b""), record, "bad_signature"),
        ("a record of another origin", head, sharded, "unknown_key"),
        ("a record of another key", head, replace(mesa_record, origin=_ORIGIN), "unknown_key"),
        ("a key id that is not the leaf's", head, exchanged, "unknown_key"),
        ("a certificate cut short", *_cut(), "untrusted_chain"),
        ("another cluster's certificate", stolen, taken, "identity_mismatch"),
        ("another clusterset", elsewhere, STRANGER.record, "identity_mismatch"),
        ("a day before the certificate", at(START - DAY), record, "good"),
        ("more than a day before it", at(START - DAY - 1), record, "certificate_not_valid"),
        ("in its last nanosecond", at(END), record, "good"),
        ("after it", at(END + 1), record, "certificate_not_valid"),
    ]


def _cut() -> tuple[Head, m.Record]:
    writer = Writer("fjord", FJORD.key, FJORD.leaf[:-1])
    return writer.signed(replace(_PLAIN, key_id=writer.key_id)), writer.record


def verification() -> Json:
    """Heads with their records, and whether they are to be believed."""
    return {
        "about": "protocol.md section 5: the rule of verification, against one root",
        "clusterset": CLUSTERSET,
        "root_hex": ROOT.hex(),
        "cases": [
            {
                "name": name,
                "head": noted(items_of(head)),
                "record": _record(record),
                "outcome": outcome,
            }
            for name, head, record, outcome in _verified()
        ],
    }


_HEAD = FJORD.signed(_PLAIN)
_ENTRY = (pack([3, "fjord"]), AT, 0, pack(["eu", "uid", "0.1.0", 1, 1]))
_HELLO = m.Hello(0, "vectors", "fjord", "instance-1", "writer", 1, "uid-1", "0.1.0", 1 << 20)
MESSAGES: dict[str, m.Message] = {
    "Hello": _HELLO,
    "Hello of who takes packed transfers": replace(_HELLO, packed=True),
    "Hello of who tells buckets": replace(_HELLO, packed=True, buckets=True),
    "Hello of who tells buckets and takes no packed transfers": replace(_HELLO, buckets=True),
    "Hello of a stand-by": replace(_HELLO, role="standby", epoch=2**63 - 1, software=""),
    "Record": FJORD.record,
    "Heads": m.Heads(
        (
            m.Advert(_ORIGIN, Version(1, AT), 0, _PLAIN.root[:8]),
            m.Advert(Origin("mesa", 7), Version(300, 1), 1, b""),
        )
    ),
    "Heads of a relay": m.Heads(
        (m.Advert(_ORIGIN, Version(1, AT), 0, _PLAIN.root[:8], m.Reach(Version(1, AT - 1), 40)),)
    ),
    "Heads without any": m.Heads(()),
    "Want": m.Want(_ORIGIN, Version(1, AT)),
    "Want of a snapshot": m.Want(_ORIGIN, Version(0, 0), snapshot=True),
    "Stop": m.Stop(_ORIGIN),
    "Transfer, a chunk": m.Transfer(_ORIGIN, 1, False, AT - 1, AT, (_ENTRY,), None),  # noqa: FBT003
    "Transfer, the head alone": m.Transfer(_ORIGIN, 1, False, AT, AT, (), _HEAD),  # noqa: FBT003
    "Transfer, a snapshot": m.Transfer(_ORIGIN, 1, True, 0, AT, (_ENTRY,), _HEAD),  # noqa: FBT003
    "Beat, the first": m.Beat(AT, 0, 0, bytes(8)),
    "Beat with a digest of no bytes": m.Beat(1, 0, 0, b""),
    "Beat": m.Beat(AT + 9, AT - 9, 2**63 - 1, bytes(range(8))),
    "Skew": m.Skew(_ORIGIN, "mesa", 7_200_000_000_000),
    "Skew that is over": m.Skew(_ORIGIN, "mesa", 0),
    "Admission": m.Admission(2, 2**62, "mesa"),
    "GetBuckets": m.GetBuckets(_ORIGIN, 3),
    "Buckets": m.Buckets(_HEAD, 0, b"\x00" + _HEAD.root),
    "GetBucketEntries": m.GetBucketEntries(_ORIGIN, Version(1, AT), (1, 31, 0x1FFF)),
    "BucketEntries": m.BucketEntries(_ORIGIN, 1, AT - 1, AT, (_ENTRY,), last=True),
    "BucketEntries, none of them": m.BucketEntries(_ORIGIN, 1, 0, AT - 1, (), last=False),
    "Reject": m.Reject("too_large", "a frame of 2000000 bytes exceeds 1048576"),
}


def _items_of_advert(advert: m.Advert) -> list[object]:
    items = [*advert.origin, *advert.version, advert.floor, advert.mark]
    reach = advert.reach
    return items if reach is None else [*items, [*reach.version, reach.clusters]]


def fields_of(message: m.Message) -> list[object]:  # noqa: C901, PLR0911 - one a message
    """The fields of a message in wire order, the type left out."""
    match message:
        case m.Record(origin, key_id, chain):
            return [*origin, key_id, list(chain)]
        case m.Heads(adverts):
            return [[_items_of_advert(advert) for advert in adverts]]
        case m.Want(origin, version, snapshot):
            return [*origin, *version, snapshot]
        case m.Stop(origin):
            return [*origin]
        case m.Skew(origin, author, offset_ns):
            return [*origin, author, offset_ns]
        case m.Transfer():
            head = None if message.head is None else items_of(message.head)
            rows = [list(entry) for entry in message.entries]
            bounds = [message.epoch, message.snapshot, message.start, message.to]
            return [*message.origin, *bounds, rows, head]
        case m.Hello():
            fields = [getattr(message, name) for name in message.__slots__]
            while fields[-1] is False:
                fields.pop()
            return fields
        case m.GetBuckets(origin, depth):
            return [*origin, depth]
        case m.Buckets(signed, depth, nodes):
            return [items_of(signed), depth, nodes]
        case m.GetBucketEntries(origin, version, indexes):
            return [*origin, *version, list(indexes)]
        case m.BucketEntries(origin, epoch, start, to, entries, last):
            return [*origin, epoch, start, to, [list(entry) for entry in entries], last]
    return [getattr(message, name) for name in message.__slots__]


def _endpoint(number: int, *, gone: bool = False) -> tuple[bytes, int, int, bytes]:
    ports = [["http", 8080, "TCP", None]]
    element = [1, "fjord", "shop", "cart", f"10.{number % 2}.1.{number}", ports]
    value = None if gone else [3, None, "a", f"n-{number % 3}", f"cart-7f9c-{number:05x}"]
    return pack(element), AT - 100 + number, int(gone), pack(value)


_ODD = (
    (pack([99, "fjord", b"\xa710.0.0.1"]), AT - 3, 0, pack({"cart": 1})),
    (pack([1, "fjord", "shop", "cart", "10.0.0.01", None]), AT - 2, 0, pack([])),
    (pack([1, "fjord", "shop", "cart", "fd00::1", None]), AT - 1, 0, pack(b"cart")),
    (pack([1, "fjord", "shop", "cart", "255.255.255.255", None]), AT, 0, pack("cartcart")),
)
PACKED: dict[str, m.Transfer] = {
    "the head alone": m.Transfer(_ORIGIN, 1, False, AT, AT, (), _HEAD),  # noqa: FBT003
    "a snapshot": m.Transfer(_ORIGIN, 1, True, 0, AT, (_ENTRY,), _HEAD),  # noqa: FBT003
    "neighbours": m.Transfer(
        *(_ORIGIN, 1, False, AT - 200, AT),
        tuple(_endpoint(number, gone=number % 4 == 0) for number in range(8, 18)),
        None,
    ),
    "what fits no shape": m.Transfer(_ORIGIN, 1, False, AT - 9, AT, _ODD, _HEAD),  # noqa: FBT003
}
_DEFLATED = (
    "01990aa5666a6f72640001c2ccc8cf18d75b8423f30000c4740163e0620c66840306388b858be13f143230fe"
    "8742460618e040d203048ccc2c4c8c2c8c428cfcd3189782cd5d529c915fb02439b1a804cd6a464626262646"
    "066e6e6e46462e2e2e905316262eced335580f6319c25946eb75cdd32c93750d80c012c14c44309310cc1404"
    "3315c14c83330d0d01c0"
)
"""As zlib 1.2.13 made it."""


def _plain(transfer: m.Transfer) -> bytes:
    """The packed frame of a transfer, its body not deflated: what deflate makes may differ."""
    fields = cast("list[object]", unpack_plain(encode_packed(transfer)[1:]))
    fields[7] = b"\0" + body_of(transfer.entries, transfer.to)
    return b"\x01" + pack(fields)


def _packed() -> list[Json]:
    rows = [(name, transfer, _plain(transfer).hex()) for name, transfer in PACKED.items()]
    rows.append(("neighbours, deflated", PACKED["neighbours"], _DEFLATED))
    return [
        {"name": name, "fields": noted(fields_of(transfer)), "hex": text}
        for name, transfer, text in rows
    ]


def frames() -> Json:
    """Messages with their frames, and frames that say the same in another way."""
    stop = noted(["fjord", 0])
    advert = noted([[["a", 0, 1, 2, 0, b""]]])
    tolerated = [
        ("appended fields", "Stop", stop, "9505a5666a6f726400ca0000000092c0c2"),
        ("lengths and integers not shortest", "Stop", stop, "dc0003cd0005da0005666a6f7264cc00"),
        ("an advert with appended fields", "Heads", advert, "92039199a161000102" + "00c400c001c0"),
        ("an advert with an appended nil", "Heads", advert, "92039197a161000102" + "00c400c0"),
    ]
    rows = [
        {"name": name, "message": kind, "fields": fields, "hex": "01" + text}
        for name, kind, fields, text in tolerated
    ]
    return {
        "about": "protocol.md section 7: fields in wire order; written and read, then only read",
        "cases": [
            {
                "name": name,
                "message": type(message).__name__,
                "fields": noted(fields_of(message)),
                "hex": encode(message).hex(),
            }
            for name, message in MESSAGES.items()
        ],
        "read_only": rows,
        "packed": _packed(),
        "dictionary_hex": DICTIONARY.hex(),
        "unknown": [
            {"type": 90, "hex": "01915a"},
            {"type": 99, "hex": "01936392c0ca00000000a0"},
            {"type": 2**31, "hex": "0191ce80000000"},
        ],
    }


def summaries() -> Json:
    """Digests over all heads, and clock measurements."""
    rows = [
        [*head.origin, *head.version, head.floor, head.count, head.root]
        for _, head in HEADS.values()
        if head.origin.shard or head.base or head.origin.cluster == "mesa"
    ]
    rows = [row for row in rows if row[0] == "mesa" or row[1]] + [
        ["a", 2, 1, 1, 0, 0, bytes(32)],
        ["fjord", 0, 5, AT, 1, 2, b"\xff" * 32],
    ]
    cases = [rows[:count] for count in range(len(rows) + 1)]
    times = [(0, 0, 0, 0), (100, 1150, 1250, 400), (100, 90, 95, 100), (5, 1, 1, 6), (9, 9, 30, 12)]
    return {
        "about": "protocol.md section 9: digest of all heads, and round trip and offset in ns",
        "digests": [
            {
                "heads": noted(case),
                "hex": blake2b(pack(sorted(case)), digest_size=8).hexdigest(),
            }
            for case in cases
        ],
        "exchanges": [
            {"times": list(four), "round_trip": found.rtt_ns, "offset": found.offset_ns}
            for four in times
            for found in [exchange(*four)]
        ],
    }
