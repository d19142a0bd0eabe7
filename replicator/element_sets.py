"""Element sets as JSON: reading, merging by the textbook rules, writing.

An element set is ``{"entries": [{"element", "op": "add"|"remove", "tag", "value"}]}``.  Element and
value are any JSON values; two are the same when their canonical forms are: the order of keys plays
no part, and a number is its value, so 1, 1.0 and 1e0 are one number (and true is none).  What JSON
leaves open is refused rather than guessed: repeated keys, NaN and infinities, lone surrogates,
integers beyond 64 bits, other encodings than UTF-8.  A missing value is null; other keys are
ignored, so what is written can be read again, and a snapshot document is an element set too.

The merge itself is :class:`crdt.LWWElementSet`; hence, for any grouping, order or repetition of the
sources, one result, byte for byte.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from crdt import CanonicalError, LWWElementSet, LWWEntry, Stamp, StampError, pack
from replicator.errors import InputError

_OPS = {"add": False, "remove": True}
_INTEGER_END = 2**64
_INTEGER_MIN = -(2**63)
_EXACT_END = 2**53
_MAX_DEPTH = 100


class _Refused(ValueError):  # noqa: N818 - never leaves this module
    """JSON text that leaves its meaning open."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            message = f"key {key[:80]!r} is given twice in one object"
            raise _Refused(message)
        found[key] = value
    return found


def _constant(name: str) -> object:
    message = f"{name} is not a JSON number"
    raise _Refused(message)


def _float(text: str) -> float | int:
    number = float(text)
    if not math.isfinite(number):
        message = f"number {text[:40]} is too large"
        raise _Refused(message)
    if not (number.is_integer() and _INTEGER_MIN <= number < _INTEGER_END):
        return number
    if abs(number) >= _EXACT_END and (exact := Decimal(text)) == int(exact):
        return int(exact)
    return int(number)


def _check(value: object) -> None:
    """Refuse deep nesting and lone surrogates anywhere; not recursive, as the file chose the depth.

    What passes can be written again in any form by writers that recurse.
    """
    level = [value]
    for _ in range(_MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += item.keys()
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and not item.isascii():
                item.encode()
        if not below:
            return
        level = below
    raise RecursionError


def parse_json(text: str | bytes, name: str) -> Any:  # noqa: ANN401 - any JSON value
    """The JSON value of a file's text, numbers in canonical form.

    ``name`` says which file in the error: :class:`~replicator.errors.InputError`, code
    ``bad_json``, for anything that is not one unambiguous JSON value.
    """
    try:
        whole = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = json.loads(
            whole, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_float
        )
        _check(value)
    except json.JSONDecodeError as error:
        detail = f"line {error.lineno} column {error.colno}: {error.msg}"
    except UnicodeDecodeError:
        detail = "it is not UTF-8"
    except UnicodeEncodeError:
        detail = "a text holds a lone surrogate"
    except _Refused as error:
        detail = str(error)
    except ValueError:
        detail = "a number has too many digits"
    except RecursionError:
        detail = "it is nested too deeply"
    else:
        return value
    message = f"{name} is not readable as JSON: {detail}"
    raise InputError(message, cure="give a complete JSON file", code="bad_json")


@dataclass(slots=True)
class Merge:
    """A growing merge of element sets."""

    _set: LWWElementSet[bytes] = field(default_factory=LWWElementSet)
    _elements: dict[bytes, Any] = field(default_factory=dict)
    _statements: dict[tuple[bytes, Stamp], set[bytes]] = field(default_factory=dict)

    def fold(self, document: object, name: str) -> None:
        """Merge a parsed document in.

        ``name`` says which file in errors: :class:`~replicator.errors.InputError` with the code of
        the first entry that is wrong (``tag_not_string``, ``bad_tag``, ``bad_entry``,
        ``not_canonical``) or ``bad_element_set``.  Entries before it are then merged already.
        """
        entries = document.get("entries") if isinstance(document, dict) else None
        if not isinstance(entries, list):
            message = f"{name} is not an element set"
            cure = 'give {"entries": [{"element", "op", "tag", "value"}]}'
            raise InputError(message, cure=cure, code="bad_element_set")
        for index, entry in enumerate(entries):
            try:
                self._fold_entry(entry)
            except (StampError, CanonicalError, InputError) as error:
                message = f"{name}: entry {index}: {error}"
                raise InputError(message, cure="correct that entry", code=error.code) from error

    def _fold_entry(self, entry: object) -> None:
        if not isinstance(entry, dict) or "element" not in entry or "tag" not in entry:
            message = "it is not an object with element, op and tag"
            raise InputError(message, code="bad_entry")
        removed = _OPS.get(op) if isinstance(op := entry.get("op"), str) else None
        if removed is None:
            shown = json.dumps(op[:40]) if isinstance(op, str) else "no text"
            message = f"op is {shown}, neither add nor remove"
            raise InputError(message, code="bad_entry")
        stamp, value = Stamp.parse(entry["tag"]), entry.get("value")
        key = pack(entry["element"])
        statement = bytes((removed,)) + pack(value)
        self._elements.setdefault(key, entry["element"])
        self._statements.setdefault((key, stamp), set()).add(statement)
        self._set.put(key, LWWEntry(stamp, removed, value))

    @property
    def same_tag_conflicts(self) -> int:
        """Under how many (element, tag) pairs different entries were met: a writer's defect."""
        return sum(1 for statements in self._statements.values() if len(statements) > 1)

    def document(self) -> dict[str, Any]:
        """The result, each entry with ``present``, sorted by canonical element bytes."""
        return {
            "entries": [
                {
                    "element": self._elements[key],
                    "op": "remove" if entry.removed else "add",
                    "present": not entry.removed,
                    "tag": str(entry.stamp),
                    "value": entry.value,
                }
                for key, entry in sorted(self._set.entries(), key=lambda item: item[0])
            ]
        }


def merge_texts(texts: Iterable[tuple[str, str | bytes]]) -> Merge:
    """Merge the element sets in (name, JSON text) pairs; errors as :meth:`Merge.fold`."""
    merge = Merge()
    for name, text in texts:
        merge.fold(parse_json(text, name), name)
    return merge
