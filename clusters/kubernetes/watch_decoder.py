"""Bytes of a watch stream to events (kubernetes.md W5-W7).

The stream is JSON objects, one a line.  Bytes are kept until their newline has come, so no chunk
border cuts a character, and any cutting of one stream into chunks gives the same events.  A line
counts only if it parses whole; what is left at the end counts if it is a whole object.  A line
over the limit is told once, with the object's name if that was seen, and skipped up to its
newline; never more than the limit plus one chunk is held.

It decides nothing: bad lines are events too, and the list-watch machine knows what they mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from clusters.kubernetes.api_status import ApiStatus, is_status, status_of
from clusters.kubernetes.objects import version_of
from clusters.model import Manifest

DEFAULT_LINE_LIMIT = 8 * 1024 * 1024
"""Bytes of one event line, without its newline."""

_INITIAL_END = "k8s.io/initial-events-end"
_TYPE_LIMIT = 64
_TOKEN_BUDGET = 20_000
_NAMES = (b'"namespace"', b'"name"')
_METADATA = [b'"object"', b'"metadata"']
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_TOKENS = re.compile(_STRING + rb'|[{}\[\]:,]|[^\s"{}\[\]:,]+', re.DOTALL)


class Op(StrEnum):
    """What an object event says has happened."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


_KNOWN_TYPES = frozenset({*Op, "BOOKMARK", "ERROR"})


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """An object as it is after ``op`` (as it was last, for a delete)."""

    op: Op
    manifest: Manifest = field(hash=False)
    version: str | None
    """Version to resume after it; None when the object states none."""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Only a newer version to resume from; its object is a shell and means nothing."""

    version: str | None
    initial_end: bool = False
    """It ends the initial burst of a streamed list."""


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """The server says no within the stream, with or without an envelope."""

    status: ApiStatus


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """A whole event of a type we do not know."""

    type: str


class Fault(StrEnum):
    """Why a line is no event."""

    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    NO_OBJECT = "no_object"


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A complete line that says nothing usable."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class LineTooLong:
    """A line over the limit; the names are None when they lay beyond what was kept."""

    namespace: str | None
    name: str | None


WatchEvent = ObjectEvent | Bookmark | ErrorStatus | UnknownEvent | BrokenLine | LineTooLong


class WatchDecoder:
    """Decodes one watch stream; make a new one for each request."""

    __slots__ = ("_limit", "_pending", "_size", "_skipping")

    def __init__(self, limit: int = DEFAULT_LINE_LIMIT) -> None:
        """``limit`` is the longest line in bytes that is still decoded."""
        self._limit = limit
        self._pending: list[bytes] = []
        self._size = 0
        self._skipping = False

    @property
    def held(self) -> int:
        """Bytes kept at present, waiting for their newline."""
        return self._size

    def feed(self, chunk: bytes) -> list[WatchEvent]:
        """Take in the next bytes; returns the events they completed, in order."""
        events: list[WatchEvent] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._take(end, events)
            self._end_line(events)
        self._take(rest, events)
        return events

    def finish(self) -> list[WatchEvent]:
        """The stream has ended: the rest counts if it is a whole event, else it is dropped."""
        line, skipping = b"".join(self._pending), self._skipping
        self._reset()
        if skipping or not line.strip():
            return []
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            return []
        return [_event(document)]

    def _take(self, piece: bytes, events: list[WatchEvent]) -> None:
        if self._skipping or not piece:
            return
        self._pending.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            namespace, name = _names(b"".join(self._pending)[: self._limit])
            self._reset()
            self._skipping = True
            events.append(LineTooLong(namespace, name))

    def _end_line(self, events: list[WatchEvent]) -> None:
        line, skipping = b"".join(self._pending), self._skipping
        self._reset()
        if not skipping and line.strip():
            events.append(_decode(line))

    def _reset(self) -> None:
        self._pending.clear()
        self._size = 0
        self._skipping = False


def _decode(line: bytes) -> WatchEvent:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return BrokenLine(Fault.NOT_JSON if _is_utf8(line) else Fault.NOT_UTF8)
    return _event(document)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _event(document: Any) -> WatchEvent:
    if not isinstance(document, dict):
        return BrokenLine(Fault.NOT_JSON)
    kind, body = document.get("type"), document.get("object")
    if isinstance(kind, str) and kind not in _KNOWN_TYPES:
        return UnknownEvent(kind[:_TYPE_LIMIT])
    if isinstance(kind, str) and isinstance(body, dict):
        return _known_event(kind, body)
    if is_status(document):
        return ErrorStatus(status_of(document))
    return BrokenLine(Fault.NO_OBJECT)


def _known_event(kind: str, body: Manifest) -> WatchEvent:
    if kind == "ERROR" or is_status(body):
        return ErrorStatus(status_of(body))
    if kind == "BOOKMARK":
        return Bookmark(version_of(body), initial_end=_ends_burst(body))
    return ObjectEvent(Op(kind), body, version_of(body))


def _ends_burst(body: Manifest) -> bool:
    metadata = body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get(_INITIAL_END) == "true"


def _names(prefix: bytes) -> tuple[str | None, str | None]:
    """Namespace and name in the beginning of an event line, as far as they can be seen."""
    seen: dict[bytes, str] = {}
    path: list[bytes] = []
    last, key = b"", b""
    for count, match in enumerate(_TOKENS.finditer(prefix)):
        token = match.group()
        if count > _TOKEN_BUDGET or len(seen) == len(_NAMES):
            break
        if token == b":":
            key = last
        elif token in b"{[":
            path.append(key)
            key = b""
        elif token in b"}]":
            if path:
                path.pop()
            key = b""
        elif token == b",":
            key = b""
        elif key in _NAMES and path[1:] == _METADATA:
            seen.setdefault(key, token.strip(b'"').decode("utf-8", "backslashreplace"))
        last = token
    namespace, name = (seen.get(key) for key in _NAMES)
    return namespace, name
