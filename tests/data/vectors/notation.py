"""How values of the wire are written in JSON, and read back.

Null, booleans, texts and lists are themselves.  Numbers that a double holds exactly are numbers,
other integers ``{"int": "decimal"}``, floats ``{"float": "text"}``, bytes ``{"hex": "..."}``, maps
``{"map": [[key, value], ...]}``.
"""

from __future__ import annotations

from typing import Any

Json = Any
_EXACT = 2**53


def noted(value: object) -> Json:
    """``value`` in the notation."""
    match value:
        case bytes():
            return {"hex": value.hex()}
        case float():
            return {"float": repr(value)}
        case int() if not isinstance(value, bool) and not -_EXACT < value < _EXACT:
            return {"int": str(value)}
        case dict():
            return {"map": [[noted(key), noted(item)] for key, item in value.items()]}
        case list() | tuple():
            return [noted(item) for item in value]
    return value


def value_of(note: Json) -> Any:
    """The value that ``note`` stands for."""
    match note:
        case {"hex": text}:
            return bytes.fromhex(text)
        case {"float": text}:
            return float(text)
        case {"int": text}:
            return int(text)
        case {"map": items}:
            return {value_of(key): value_of(item) for key, item in items}
        case list():
            return [value_of(item) for item in note]
    return note


def bytes_of(case: dict[str, Json]) -> bytes:
    """The bytes of a case: its ``hex``, or its ``parts``, each repeated so many times."""
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    return b"".join(bytes.fromhex(part) * times for part, times in case["parts"])


def shown(data: bytes) -> dict[str, Json]:
    """``data`` as a case that :func:`bytes_of` reads; a long run at its end is counted."""
    rest = data.rstrip(data[-1:])
    if len(data) - len(rest) < 1000:
        return {"hex": data.hex()}
    return {"parts": [[rest.hex(), 1], [data[-1:].hex(), len(data) - len(rest)]]}
