"""Kubernetes objects, or a watch stream of them, to elements: what ``replicator encode`` answers.

The same catalog as in an agent, driven offline.  Objects of a file count as one state; the lines of
a stream are applied one by one and compared level-based after each: an endpoint that is unchanged
gets no new stamp, whatever the line said.  What in a live watch leads to a new list or a pause (a
Status, a broken line) cannot do so here; it is reported in ``skipped`` with its line, and what was
seen before stays.

Pure: texts and the first stamp come in, the document goes out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clusters.catalog import KINDS, ServiceCatalog
from clusters.errors import ManifestError
from clusters.kubernetes.api_status import ApiStatus
from clusters.kubernetes.watch_decoder import (
    Bookmark,
    BrokenLine,
    ErrorStatus,
    Fault,
    LineTooLong,
    ObjectEvent,
    Op,
    UnknownEvent,
    WatchDecoder,
    WatchEvent,
)
from clusters.manifests import Located, reference
from clusters.model import Endpoint, Manifest, PortSet, ServiceKey, Skipped
from clusters.readings import order_of, skipped_key
from clusters.settings import API_SERVER_SERVICE, SYSTEM_NAMESPACE, ExportMode, NamespaceFilter
from crdt import Stamp, StampError
from replicator.errors import InputError
from replicator.items import item_of

Json = dict[str, Any]
_STREAM_CURE = "give a watch stream, one JSON event a line, or leave --events out"


@dataclass(frozen=True, slots=True)
class Change:
    """One element added, changed (also an add) or removed."""

    removed: bool
    key: ServiceKey
    endpoint: Endpoint
    stamp: Stamp

    def json(self, line: int) -> Json:
        """As an entry of ``changes``."""
        item = item_of(self.key, self.endpoint, self.stamp)
        return {"line": line, "op": "remove" if self.removed else "add", "item": item}


class Encoder:
    """The elements of one cluster, from the objects it is given."""

    def __init__(self, cluster: str, first: int, *, system: bool = False) -> None:
        """Stamps count up from ``first`` (ns); ``system`` admits kube-system and the API server.

        Raises :class:`InputError` when ``cluster`` is not a DNS label or ``first`` is out of range.
        """
        try:
            Stamp(first, cluster)
        except StampError as error:
            raise InputError(str(error), code=error.code) from error
        self.cluster = cluster
        self._next = first
        self._catalog = ServiceCatalog(
            cluster=cluster, export=ExportMode.ALL, namespaces=_admitted(system=system)
        )
        self._held: dict[ServiceKey, dict[tuple[str, PortSet], tuple[Endpoint, Stamp]]] = {}
        self._ignored: set[Skipped] = set()

    def add(self, manifest: Manifest) -> frozenset[ServiceKey]:
        """Take in an object; returns the services to :meth:`settle`.  May raise ManifestError."""
        if manifest.get("kind") not in KINDS:
            self._ignored.add(Skipped("unknown_kind", _name_of(manifest)))
        return self._catalog.upsert(manifest).local

    def remove(self, manifest: Manifest) -> frozenset[ServiceKey]:
        """Take out an object; as :meth:`add`."""
        return self._catalog.delete(manifest).local

    def settle(self, keys: Iterable[ServiceKey]) -> list[Change]:
        """Stamp what is different in the services ``keys``, in canonical order."""
        changes: list[Change] = []
        for key in sorted(keys):
            held = self._held.get(key, {})
            local = self._catalog.local(key)
            stated = local.endpoints if local.export is not None else ()
            now = {endpoint.identity: endpoint for endpoint in stated}
            before = {identity: endpoint for identity, (endpoint, _) in held.items()}
            different = [
                identity
                for identity in {*before, *now}
                if before.get(identity) != now.get(identity)
            ]
            rows = [(now.get(item) or before[item], item not in now) for item in different]
            for endpoint, removed in sorted(rows, key=lambda row: order_of(row[0])):
                change = Change(removed, key, endpoint, self._stamp())
                changes.append(change)
                if removed:
                    del held[endpoint.identity]
                else:
                    held[endpoint.identity] = (endpoint, change.stamp)
            self._held[key] = held
        return changes

    def _stamp(self) -> Stamp:
        try:
            stamp = Stamp(self._next, self.cluster)
        except StampError as error:
            cure = "choose an earlier --at"
            raise InputError(str(error), cure=cure, code=error.code) from error
        self._next += 1
        return stamp

    def services(self) -> frozenset[ServiceKey]:
        """All services at present."""
        return self._catalog.services()

    def items(self) -> list[Json]:
        """What is present, in canonical order."""
        return [
            item_of(key, endpoint, stamp)
            for key in sorted(self._held)
            for endpoint, stamp in sorted(
                self._held[key].values(), key=lambda row: order_of(row[0])
            )
        ]

    def skipped(self) -> list[Json]:
        """What was left out, and why."""
        found = {*self._catalog.unassigned(), *self._ignored}
        for key in self._catalog.services():
            found.update(self._catalog.local(key).skipped)
        for key in self._catalog.owned_services():
            owned = self._catalog.owned(key)
            found.update(Skipped("own_output", str(reference(item))) for item in owned)
        return [skipped_json(item) for item in sorted(found, key=skipped_key)]


def _admitted(*, system: bool) -> NamespaceFilter:
    if not system:
        return NamespaceFilter()
    return NamespaceFilter(
        include=("*", SYSTEM_NAMESPACE), exclude=(), services=frozenset({API_SERVER_SERVICE})
    )


def skipped_json(skipped: Skipped) -> Json:
    """As an entry of ``skipped``."""
    row = {"reason": skipped.reason, "object": skipped.object}
    return row if skipped.address is None else {**row, "address": skipped.address}


def _name_of(manifest: Manifest) -> str:
    """What to call an object that need not have a name."""
    try:
        return str(reference(manifest))
    except ManifestError:
        kind = manifest.get("kind")
        return kind[:80] if isinstance(kind, str) and kind else "object without a kind"


def encode_objects(encoder: Encoder, objects: Iterable[Located]) -> Json:
    """The document for the objects of one state.

    Raises :class:`InputError` naming file and line of an object that cannot be read.
    """
    for item in objects:
        manifest = item.manifest
        if "kind" not in manifest and {"type", "object"} <= manifest.keys():
            message = f"{item.place}: this is an event of a watch stream"
            raise InputError(message, cure="add --events")
        try:
            reference(manifest)
            encoder.add(manifest)
        except ManifestError as error:
            message = f"{item.place}: {error.message}"
            raise InputError(message, cure=error.cure) from error
    encoder.settle(encoder.services())
    return {"cluster": encoder.cluster, "items": encoder.items(), "skipped": encoder.skipped()}


class StreamEncoder:
    """The document for a watch stream, given file by file; lines are counted through all."""

    def __init__(self, encoder: Encoder) -> None:
        """``encoder`` holds the state."""
        self._encoder = encoder
        self._line = 0
        self._changes: list[Json] = []
        self._skipped: list[Json] = []

    def feed(self, data: bytes, source: str) -> None:
        """Apply a whole file.

        A last line without newline counts if it is whole, and is dropped if it was cut off.  Raises
        :class:`InputError` naming file and line for anything else that is no JSON.
        """
        decoder = WatchDecoder()
        *lines, rest = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        for number, line in enumerate(lines, 1):
            self._line += 1
            self._apply(decoder.feed(line + b"\n"), f"{source}:{number}")
        if rest.strip():
            self._line += 1
            place = f"{source}:{len(lines) + 1}"
            events = decoder.feed(rest) + decoder.finish()
            if events:
                self._apply(events, place)
            elif _is_cut(rest):
                self._skip("cut_line", "event")
            else:
                raise _not_an_event(place, "not JSON")

    def document(self) -> Json:
        """Everything so far."""
        return {
            "cluster": self._encoder.cluster,
            "items": self._encoder.items(),
            "skipped": [*self._encoder.skipped(), *self._skipped],
            "changes": self._changes,
        }

    def _skip(self, reason: str, name: str) -> None:
        self._skipped.append({"reason": reason, "object": name, "line": self._line})

    def _apply(self, events: Iterable[WatchEvent], place: str) -> None:
        for event in events:
            match event:
                case ObjectEvent(op, manifest):
                    self._apply_object(op, manifest)
                case Bookmark():
                    pass
                case ErrorStatus(status):
                    self._skip(_status_reason(status), "Status")
                case UnknownEvent(kind):
                    self._skip("unknown_event", kind)
                case LineTooLong(namespace, name):
                    self._skip("line_too_long", f"{namespace or '?'}/{name or '?'}")
                case BrokenLine(Fault.NO_OBJECT):
                    self._skip("no_object", "event")
                case _:
                    raise _not_an_event(place, event.fault.value.replace("_", " "))

    def _apply_object(self, op: Op, manifest: Manifest) -> None:
        try:
            if op is Op.DELETED:
                keys = self._encoder.remove(manifest)
            else:
                keys = self._encoder.add(manifest)
        except ManifestError:
            self._skip("bad_object", _name_of(manifest))
            return
        self._changes += [change.json(self._line) for change in self._encoder.settle(keys)]


def _not_an_event(place: str, what: str) -> InputError:
    message = f"{place}: {what}"
    return InputError(message, cure=_STREAM_CURE)


def _status_reason(status: ApiStatus) -> str:
    if status.gone:
        return "gone"
    if status.throttled:
        return "throttled"
    if status.unauthorized or status.forbidden:
        return "unauthorized" if status.unauthorized else "forbidden"
    return "error_status"


def _is_cut(line: bytes) -> bool:
    """Whether a last line that is no JSON is the beginning of an event."""
    text = line.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return False
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos >= len(text) or "Unterminated" in error.msg or not text.endswith("}")
    except RecursionError:
        return False
    return False
