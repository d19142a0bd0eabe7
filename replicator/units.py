"""Durations and sizes as people write them: ``1h30m``, ``250ms``, ``64KiB``.

A number without a unit is refused: nobody should have to guess whether 60 means seconds.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from replicator.errors import InputError

_DURATION_UNITS: Mapping[str, int] = {"d": 86400000, "h": 3600000, "m": 60000, "s": 1000, "ms": 1}
"""Milliseconds in a unit, largest first."""
_SIZE_UNITS: Mapping[str, int] = {
    "GiB": 1 << 30,
    "MiB": 1 << 20,
    "KiB": 1 << 10,
    "GB": 10**9,
    "MB": 10**6,
    "KB": 10**3,
    "kB": 10**3,
    "B": 1,
}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|[dhms])", re.ASCII)
_SIZE = re.compile(r"(\d{1,15})\s?([A-Za-z]+)", re.ASCII)
_DURATION_CURE = "write for example 500ms, 60s, 5m or 1h30m"
_SIZE_CURE = "write for example 512B, 64KiB or 1MiB"


def parse_duration(text: str) -> float:
    """Seconds in ``text``: numbers with d, h, m, s or ms, each at most once, largest first.

    Raises :class:`~replicator.errors.InputError` for anything else; there are no signs, so a
    duration is never negative.
    """
    parts = _PART.findall(text)
    units = [unit for _, unit in parts]
    in_order = [unit for unit in _DURATION_UNITS if unit in units]
    if not parts or "".join(number + unit for number, unit in parts) != text or units != in_order:
        message = f"{text[:80]!r} is not a duration"
        raise InputError(message, cure=_DURATION_CURE, code="bad_duration")
    return sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts) / 1000


def format_duration(seconds: float) -> str:
    """The shortest text that :func:`parse_duration` reads as ``seconds``, to the millisecond."""
    left = round(seconds * 1000)
    shown = ""
    for unit, length in _DURATION_UNITS.items():
        count, left = divmod(left, length)
        shown += f"{count}{unit}" if count else ""
    return shown or "0s"


def parse_size(text: str) -> int:
    """Bytes in ``text``: a whole number with B, KiB, MiB, GiB, KB, MB or GB.

    Raises :class:`~replicator.errors.InputError` for anything else.
    """
    match = _SIZE.fullmatch(text)
    if match is None or match[2] not in _SIZE_UNITS:
        message = f"{text[:80]!r} is not a size"
        raise InputError(message, cure=_SIZE_CURE, code="bad_size")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def format_size(count: int) -> str:
    """A text that :func:`parse_size` reads as ``count``, in the largest binary unit that fits."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % _SIZE_UNITS[unit] == 0:
            return f"{count // _SIZE_UNITS[unit]}{unit}"
    return f"{count}B"
