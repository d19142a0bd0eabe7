"""Vectors of values, stamps, entries and digests."""

from __future__ import annotations

from crdt import Entry, MerkleDigest, Stamp, pack
from crdt.digest import entry_digest, key_hash
from crdt.entries import ADD, NIL, REMOVE, entry_bytes
from tests.data.vectors.notation import Json, noted, shown

_VALUES: dict[str, list[object]] = {
    "integer": [
        *(0, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1),
        *(-1, -32, -33, -128, -129, -32_768, -32_769, -(2**31), -(2**31) - 1, -(2**63)),
    ],
    "plain": [None, False, True, 0.0, -1.5, 1e300],
    "text": ["", "fjord", "æøå", "x" * 31, "x" * 32, "x" * 255, "x" * 256],
    "bytes": [b"", b"\x00\xff", b"x" * 255, b"x" * 256],
    "list": [[], [1, [2, [None]]], list(range(15)), list(range(16))],
    "map": [{}, {"b": 1, "a": 2, "aa": 3}, {1: "x", "1": "y", None: [], -1: b"z"}],
}
_RULE = (
    "for n from 1 to count: element [1, 'fjord', 'shop', 'svc-' + str(n mod 50), "
    "'10.0.' + str(n div 250) + '.' + str(n mod 250 + 1), nil], stamp 1000 + n; "
    "op 1 and value nil if n mod 10 = 0, else op 0 and value [n mod 8, nil, nil, nil, nil]"
)
_SAME = "for n from 1 to count: a record of eight bytes 0x5a and n in 16 bytes, big-endian"


def canonical() -> Json:
    """Values and their bytes."""
    cases = [
        {"name": f"{name} {at}", "value": noted(value), "hex": pack(value).hex()}
        for name, values in _VALUES.items()
        for at, value in enumerate(values)
    ]
    return {"about": "protocol.md section 1: values and their canonical bytes", "cases": cases}


def stamps() -> Json:
    """Texts of stamps, good and refused, and their order."""
    good = [Stamp(0, "a"), Stamp(1_764_655_200_123_456_789, "fjord"), Stamp(2**63 - 1, "a" * 63)]
    bad = ["", "fjord", "fjord:", ":1", "fjord:01", "fjord:+1", "fjord:1 ", "fjord:1_0", "Fjord:1"]
    bad += ["fjord:-1", "fjord:9223372036854775808", "fjord:1e3", "fjord:\u0661", "a:b:1", "-a:1"]
    order = [Stamp(9, "mesa"), Stamp(10, "a"), Stamp(10, "a-b"), Stamp(10, "ab"), Stamp(99, "a")]
    return {
        "about": "protocol.md section 2: the text form, what is refused, and stamps in order",
        "good": [[str(stamp), stamp.cluster, noted(stamp.nanotime)] for stamp in good],
        "refused": [*([text, "bad_tag"] for text in bad), [7, "tag_not_string"]],
        "ascending": [str(stamp) for stamp in order],
    }


PORT = ["http", 8080, "TCP", None]
ENDPOINT = [1, "fjord", "shop", "cart", "10.20.1.4", [PORT]]
_ENTRIES: list[tuple[str, list[object], int, object]] = [
    ("an endpoint", ENDPOINT, 2**40, [3, None, "zone-1", "worker", "pod-1"]),
    ("an endpoint on all ports", [*ENDPOINT[:4], "fd00::1", None], 1, [7, None, None, None, None]),
    ("a removed endpoint", ENDPOINT, 1_764_655_200_123_456_789, None),
    (
        "an endpoint with appended fields",
        [*ENDPOINT[:5], [[*PORT, "new"]]],
        5,
        [1, None, None, None, None, {"b": [], "a": 1.5}],
    ),
    ("an export", [2, "fjord", "shop", "cart"], 6, [None, {"ports": [{"port": 80}], "type": "x"}]),
    ("a cluster", [3, "fjord"], 7, ["eu-north", "uid-1", "0.1.0", 1, 1]),
    ("a member, forgotten", [5, "fjord", "mesa"], 13, ["forget", 3, 2**62, "tundra"]),
    ("a policy", [4, "fjord", "drain", "mesa", "shop", "cart"], 14, [1, "fjord", "drained"]),
    ("an unknown kind", [99, "fjord", {"x": 1}], 8, "anything"),
    ("an unknown kind, removed", [127, "fjord"], 9, None),
    ("a kind above 127", [128, "fjord", "x"], 10, 1),
    ("fifteen items", [4, "fjord", *range(13)], 11, True),
    ("sixteen items", [4, "fjord", *range(14)], 12, True),
]


def _entry(name: str, key: list[object], stamp: int, value: object) -> Json:
    op = REMOVE if value is None else ADD
    element, content = pack(key), pack(value)
    data = entry_bytes(element, stamp, op, content)
    return {
        "name": name,
        "element": noted(key),
        "stamp": noted(stamp),
        "op": op,
        "value": noted(value),
        "element_hex": element.hex(),
        "value_hex": content.hex(),
        "entry_hex": data.hex(),
        "record_hex": (key_hash(element) + entry_digest(data)).hex(),
    }


def _nested(levels: int) -> bytes:
    return b"\x91" * levels + NIL


def _refused() -> list[tuple[str, bytes, int, bytes, str]]:
    key, value = pack(ENDPOINT), pack([3, None, None, None, None])
    kind, member, bad = pack([99, "fjord"]), pack([5, "fjord", "mesa"]), "bad_entry"
    return [
        ("another cluster's key", pack([1, "mesa", *ENDPOINT[2:]]), ADD, value, "not_owner"),
        ("no list", pack("x"), ADD, value, "bad_entry"),
        ("a list of one", pack([1]), ADD, value, "bad_entry"),
        ("a kind that is no integer", pack([True, "fjord"]), ADD, value, "bad_entry"),
        ("a kind not in its shortest form", b"\x92\xcc\x63\xa5fjord", ADD, NIL, "bad_entry"),
        ("a text not in its shortest form", b"\x92\x63\xd9\x05fjord", ADD, NIL, "bad_entry"),
        ("bytes after the element", key + NIL, ADD, value, "bad_entry"),
        ("bytes after the value", key, ADD, value + NIL, "bad_entry"),
        ("a float of 32 bits", kind, ADD, b"\xca\x00\x00\x00\x00", "bad_entry"),
        ("map keys out of order", kind, ADD, b"\x82\xa1b\x01\xa1a\x01", "bad_entry"),
        ("a map key twice", kind, ADD, b"\x82\xa1a\x01\xa1a\x01", "bad_entry"),
        ("a list as map key", kind, ADD, b"\x81\x90\x01", "bad_entry"),
        ("an extension type", kind, ADD, b"\xd4\x2a\x00", "ext_not_allowed"),
        ("seventeen levels", kind, ADD, _nested(17), "bad_entry"),
        ("a list of 2,049", kind, ADD, pack([0] * 2049), "bad_entry"),
        ("a remove with a value", kind, REMOVE, b"\x01", "bad_entry"),
        ("too large", kind, ADD, pack("x" * 65_526), "too_large"),
        ("an endpoint without ports", pack(ENDPOINT[:5]), ADD, value, "bad_entry"),
        ("an endpoint with an empty port list", pack([*ENDPOINT[:5], []]), ADD, value, "bad_entry"),
        ("a port above 65,535", pack([*ENDPOINT[:5], [["", 65_536, "", None]]]), ADD, value, bad),
        ("flags below zero", key, ADD, pack([-1, None, None, None, None]), "bad_entry"),
        ("a value too short", key, ADD, pack([1, None, None, None]), "bad_entry"),
        ("an add of nothing", key, ADD, NIL, "bad_entry"),
        ("a long namespace", pack([2, "fjord", "n" * 64, "s"]), REMOVE, NIL, "bad_entry"),
        ("a member of no name", pack([5, "fjord", "Mesa"]), REMOVE, NIL, "bad_entry"),
        ("a decision that is none", member, ADD, pack(["exile", 1, 1, "mesa"]), "bad_entry"),
        ("an order beyond its end", member, ADD, pack(["admit", 2**62 + 1, 1, "mesa"]), bad),
        ("a decision by nobody", member, ADD, pack(["admit", 1, 1, ""]), "bad_entry"),
        ("a cluster with more key", pack([3, "fjord", "x"]), REMOVE, NIL, "bad_entry"),
    ]


def entries() -> Json:
    """Entries with their bytes, and what is no entry of fjord."""
    refused = [
        {"name": name, "element": shown(element), "op": op, "value": shown(value), "code": code}
        for name, element, op, value, code in _refused()
    ]
    edges = [
        {"name": name, "element": shown(element), "op": ADD, "value": shown(value)}
        for name, element, value in [
            ("sixteen levels", pack([99, "fjord"]), _nested(16)),
            ("the largest", pack([99, "fjord"]), pack("x" * 65_525)),
            ("a list of 2,048", pack([99, "fjord"]), pack([0] * 2048)),
        ]
    ]
    return {
        "about": "protocol.md sections 3 and 4: entries of the cluster fjord; record = key and "
        "digest of the entry; refused ones with their code; edges are taken",
        "cases": [_entry(*row) for row in _ENTRIES],
        "edges": edges,
        "refused": refused,
    }


def made(count: int) -> list[Entry]:
    """The entries of the rule."""
    found: list[Entry] = []
    for n in range(1, count + 1):
        address = f"10.0.{n // 250}.{n % 250 + 1}"
        element = pack([1, "fjord", "shop", f"svc-{n % 50}", address, None])
        gone = n % 10 == 0
        value = NIL if gone else pack([n % 8, None, None, None, None])
        found.append((element, 1000 + n, REMOVE if gone else ADD, value))
    return found


def _records(items: list[Entry]) -> list[bytes]:
    return [key_hash(item[0]) + entry_digest(entry_bytes(*item)) for item in items]


def digests() -> Json:
    """Roots of sets."""
    by_rule = [
        {
            "rule": "entries",
            "count": count,
            "root": MerkleDigest(_records(made(count))).root().hex(),
        }
        for count in (0, 1, 2, 64, 65, 1000, 5000)
    ]
    same = [
        {
            "rule": "same key",
            "count": count,
            "root": MerkleDigest(b"\x5a" * 8 + n.to_bytes(16, "big") for n in range(1, count + 1))
            .root()
            .hex(),
        }
        for count in (64, 65, 70)
    ]
    return {
        "about": "protocol.md section 4: roots of sets made by a rule",
        "rules": {"entries": _RULE, "same key": _SAME},
        "cases": by_rule + same,
    }
