"""The entries of a chunk in few bytes: what repeats is told once, columns are deflated.

An endpoint costs a hundred bytes as it stands, of which a dozen are news.  Packed, elements become
*shapes* (all but an IPv4 address, told once a chunk) and addresses numbers; values become *forms*
(all that is alike) and the rest, their service's name cut out where a pod is called after it;
stamps become the steps between them.  Numbers lie in planes of equal weight, so that deflate sees
their zeros together.

All cuts are made in bytes, nothing is interpreted: any entries, of known kinds or not, come back
exactly as they were, and digests do not know of this.  What fits no shape travels as it stands.

With its share of a signed head a change costs 13 to 19 bytes and up to 8 us to write and read,
4 to 7 bytes and up to 6 us where neighbours change; plain 76 to 99 bytes and 1 us
(``bench/packed.py``).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from itertools import accumulate, count
from operator import sub
from struct import pack, unpack

from crdt import Entry
from replicator.errors import ProtocolError

ENTRIES_LIMIT = 2048
SIZE_LIMIT = 1 << 20
"""Bytes of a body before it is deflated, and of all elements and values together."""
_PLAIN, _DEFLATED = 0, 1
_LEVEL = 6
_OP, _NAMED = 1, 2
_WHOLE = -1
"""Length of what follows the address in a shape without address."""
_TOP_ADDRESS = (1 << 32) - 1
_CODES = {0: "", 1: "b", 2: "h", 4: "i", 8: "q"}
_WIDTHS = [1] * 8 + [2] * 8 + [4] * 16 + [8] * 32
"""Bytes of a number by its bits, the sign left out."""
_ASCII = bytes(range(0x80))

DICTIONARY = (
    b"\xc0\xc0\xc0\xc0\x95\x00\xc0\xa1a\xa1b\xa1c-1a-1b-1c\xa6zone-a\xa4node\xa3ip-10-0-"
    b"\xb0us-east-1us-west-2eu-central-1eu-west-1ap-northeast-1sa-east-1"
    b"\xabkube-system\xa7default\x92\x94\xa4grpc\xcd\x23\x82\xa3TCP\xc0\x94\xa7metrics"
    b"\x91\x94\xa0\xa3UDP\xc0\x91\x94\xa5https\xcd\x01\xbb\x91\x94\xa4http\xcd\x1f\x90\xa3TCP\xc0"
    b"\x95\x03\xc0\x96\x01"
)
"""What deflate knows beforehand, followed by the origin's cluster: it makes a lone entry short."""

_OCTET = rb"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_cut_at_address = re.compile(
    rb"[\xa7-\xaf]" + rb"\.".join([_OCTET] * 4) + rb"(?![0-9])", re.DOTALL
).split
_octet = {str(number).encode(): number for number in range(256)}.__getitem__
_dotted = [b"%d." % number for number in range(256)].__getitem__
_last = [b"%d" % number for number in range(256)].__getitem__


def _bad(what: str) -> ProtocolError:
    return ProtocolError(f"packed entries with {what}", code="bad_frame")


def _too_large() -> ProtocolError:
    return ProtocolError(f"packed entries of more than {SIZE_LIMIT} bytes", code="too_large")


# ---- columns: integers that lie in planes --------------------------------------------------------


def _column(numbers: Sequence[int]) -> bytes:
    """A byte that tells the width, then for each byte of it, highest first, that of all numbers."""
    if not any(numbers):
        return b"\x00"
    low, high = min(numbers), max(numbers)
    width = _WIDTHS[max(high.bit_length(), (~low).bit_length() if low < 0 else 0)]
    raw = pack(f">{len(numbers)}{_CODES[width]}", *numbers)
    if width == 1:
        return b"\x01" + raw
    return bytes((width,)) + b"".join([raw[at::width] for at in range(width)])


class _Body:
    """Reads a body from its beginning; every fault is a protocol error."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        at = self._at
        self._at += size
        if size < 0 or self._at > len(self._data):
            raise _bad("less than they tell")
        return self._data[at : self._at]

    def column(self, size: int) -> Sequence[int]:
        """The next column, of ``size`` numbers."""
        width = self.take(1)[0]
        if width not in _CODES:
            raise _bad("a column of an unknown width")
        if not width:
            return [0] * size
        planes = self.take(size * width)
        if width == 1:
            return unpack(f">{size}b", planes)
        raw = bytearray(size * width)
        for at in range(width):
            raw[at::width] = planes[at * size : (at + 1) * size]
        return unpack(f">{size}{_CODES[width]}", raw)

    def end(self) -> None:
        """Nothing may remain."""
        if self._at != len(self._data):
            raise _bad("more than they tell")


def _told(places: Iterable[int]) -> list[int]:
    """Per item 0 when it is met for the first time, else its place from 1."""
    codes, new = [], 0
    for place in places:
        if place == new:
            new += 1
            codes.append(0)
        else:
            codes.append(place + 1)
    return codes


def _places(codes: Sequence[int]) -> list[int]:
    """The reverse of :func:`_told`."""
    if codes and not 0 <= min(codes) <= max(codes) <= codes.count(0):
        raise _bad("a place that nothing is at")
    fresh = count()
    return [code - 1 if code else next(fresh) for code in codes]


# ---- elements ------------------------------------------------------------------------------------

_Shape = tuple[bytes, bytes | None]
"""What stands before and after the address; all of the element and None without one."""


def _name_in(shape: _Shape) -> bytes:
    """What stands just before the address: of an endpoint the service's name."""
    before, after = shape
    return b"" if after is None else before[len(before.rstrip(_ASCII)) :]


def _shapes(elements: Iterable[bytes]) -> tuple[dict[_Shape, int], list[int], list[int]]:
    """The shapes, and per element the place of its own and the address.

    Without address the number is the one before it.
    """
    shapes: dict[_Shape, int] = {}
    places, numbers, number = [], [], 0
    for element in elements:
        shape: _Shape = (element, None)
        parts = _cut_at_address(element, 1)
        if len(parts) > 1:
            before, a, b, c, d, after = parts
            size = len(element) - len(before) - len(after) - 1
            if element[len(before)] == 0xA0 + size:
                shape = (before, after)
                number = _octet(a) << 24 | _octet(b) << 16 | _octet(c) << 8 | _octet(d)
        places.append(shapes.setdefault(shape, len(shapes)))
        numbers.append(number)
    return shapes, places, numbers


def _addresses(numbers: list[int]) -> list[bytes]:
    """Dotted addresses, each after the byte that begins a MessagePack text of its length."""
    if numbers and not 0 <= min(numbers) <= max(numbers) <= _TOP_ADDRESS:
        raise _bad("a number that is no address")
    raw = pack(f">{len(numbers)}I", *numbers)
    parts = zip(*(map(_dotted, raw[at::4]) for at in range(3)), map(_last, raw[3::4]), strict=True)
    return [b"%c%b" % (0xA0 + len(text), text) for text in map(b"".join, parts)]


# ---- values --------------------------------------------------------------------------------------

_Form = tuple[int, bytes, int]
"""Flags, what the value begins with, and how long the rest is after the name (0 without)."""


def _forms(
    entries: Iterable[Entry], names: Iterable[bytes]
) -> tuple[dict[_Form, int], list[int], list[bytes]]:
    """The forms of operations with their values, the place of each, and the rests."""
    forms: dict[_Form, int] = {}
    places, rests = [], []
    for (_, _, op, value), name in zip(entries, names, strict=True):
        form = (op, value, 0)
        if name and name in value:
            begin, _, rest = value.rpartition(name)
            form = (op | _NAMED, begin, len(rest))
            rests.append(rest)
        places.append(forms.setdefault(form, len(forms)))
    return forms, places, rests


# ---- chunks --------------------------------------------------------------------------------------


def pack_entries(entries: Sequence[Entry], to: int, cluster: str) -> bytes:
    """At most :data:`ENTRIES_LIMIT` entries of ``cluster`` for a chunk that ends at ``to``."""
    body = body_of(entries, to)
    squeeze = zlib.compressobj(
        _LEVEL, zlib.DEFLATED, -15, zdict=DICTIONARY + cluster.encode("ascii")
    )
    deflated = squeeze.compress(body) + squeeze.flush()
    if len(deflated) < len(body):
        return bytes((_DEFLATED,)) + deflated
    return bytes((_PLAIN,)) + body


def body_of(entries: Sequence[Entry], to: int) -> bytes:
    """What is deflated; it stands for the same entries as it is, after a byte 0."""
    stamps = [entry[1] for entry in reversed(entries)]
    shapes, shape_places, numbers = _shapes([entry[0] for entry in entries])
    names = list(map(_name_in, shapes))
    forms, form_places, rests = _forms(entries, [names[place] for place in shape_places])
    afters = [after for _, after in shapes]
    return b"".join(
        [
            pack(">H", len(entries)),
            _column(list(map(sub, [to, *stamps], stamps))),
            _column(_told(shape_places)),
            _column(list(map(sub, numbers, [0, *numbers]))),
            _column(_told(form_places)),
            _column([len(before) for before, _ in shapes]),
            _column([_WHOLE if after is None else len(after) for after in afters]),
            *(before for before, _ in shapes),
            *(after for after in afters if after),
            _column([flags for flags, _, _ in forms]),
            _column([rest for _, _, rest in forms]),
            _column([len(begin) for _, begin, _ in forms]),
            *(begin for _, begin, _ in forms),
            *rests,
        ]
    )


def _read_shapes(body: _Body, size: int) -> list[_Shape]:
    befores, afters = body.column(size), body.column(size)
    return list(
        zip(
            [body.take(length) for length in befores],
            [None if length == _WHOLE else body.take(length) for length in afters],
            strict=True,
        )
    )


def _read_forms(body: _Body, size: int) -> list[_Form]:
    flags, rests, begins = (body.column(size) for _ in range(3))
    if any(flag & ~(_OP | _NAMED) for flag in flags):
        raise _bad("an unknown flag")
    return list(zip(flags, map(body.take, begins), rests, strict=True))


def unpack_entries(data: bytes, to: int, cluster: str) -> tuple[Entry, ...]:
    """The entries in ``data``; their stamps may be any integers.

    Raises :class:`ProtocolError`: ``too_large`` beyond :data:`SIZE_LIMIT`, else ``bad_frame``.
    """
    body = _Body(_inflated(data, cluster))
    (size,) = unpack(">H", body.take(2))
    if size > ENTRIES_LIMIT:
        raise _bad(f"more than {ENTRIES_LIMIT} of them")
    steps, shape_codes, jumps, form_codes = (body.column(size) for _ in range(4))
    shapes = _read_shapes(body, shape_codes.count(0))
    forms = _read_forms(body, form_codes.count(0))
    names = list(map(_name_in, shapes))
    left, entries = SIZE_LIMIT, []
    for shape_at, form_at, address, stamp in zip(
        _places(shape_codes),
        _places(form_codes),
        _addresses(list(accumulate(jumps))),
        reversed(list(accumulate(steps, sub, initial=to))[1:]),
        strict=True,
    ):
        element, after = shapes[shape_at]
        if after is not None:
            element = element + address + after
        flags, value, rest = forms[form_at]
        if flags & _NAMED:
            value = value + names[shape_at] + body.take(rest)
        left -= len(element) + len(value)
        if left < 0:
            raise _too_large()
        entries.append((element, stamp, flags & _OP, value))
    body.end()
    return tuple(entries)


def _inflated(data: bytes, cluster: str) -> bytes:
    form, packed = data[:1], data[1:]
    if form == bytes((_PLAIN,)):
        return packed
    if form != bytes((_DEFLATED,)):
        raise _bad("an unknown form")
    inflate = zlib.decompressobj(-15, zdict=DICTIONARY + cluster.encode("ascii"))
    try:
        body = inflate.decompress(packed, SIZE_LIMIT)
    except zlib.error as error:
        raise _bad("what cannot be inflated") from error
    if inflate.unconsumed_tail:
        raise _too_large()
    if not inflate.eof or inflate.unused_data:
        raise _bad("a deflated body that ends too early or too late")
    return body
