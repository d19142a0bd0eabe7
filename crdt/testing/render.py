"""Values as text, the same on every run: sets and maps sorted, long texts cut in the middle."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

LIMIT = 72


def render(value: object) -> str:
    """A value as Python would write it, but with sets and maps in sorted order."""
    if isinstance(value, Mapping):
        items = sorted((render(key), render(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}: {item}" for key, item in items) + "}"
    if isinstance(value, AbstractSet):
        return "{" + ", ".join(sorted(map(render, value))) + "}" if value else "{}"
    if type(value) is list:
        return "[" + ", ".join(map(render, value)) + "]"
    if type(value) is tuple:
        inner = ", ".join(map(render, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def short(value: object, limit: int = LIMIT) -> str:
    """:func:`render`, cut to ``limit`` characters."""
    text = render(value)
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def call(name: str, arguments: tuple[object, ...]) -> str:
    """How an operation is written."""
    return f"{name}({', '.join(short(argument, 32) for argument in arguments)})"
