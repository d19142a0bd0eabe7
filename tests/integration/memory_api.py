"""A tiny API server in memory: lists in pages, watches with history, and writes with their rules.

Behaves as kube-apiserver does in what the agent can tell: versions count up over all collections,
continue tokens show one moment, watches replay history and are refused once that is compacted,
namespaces must exist and not be terminating, PUT needs the present resourceVersion, DELETE may
name a uid.  Answers through :class:`~tests.integration.scripted_api.Exchange`.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from tests.integration.scripted_api import Exchange, Stream

Object = dict[str, Any]
KINDS = {
    "endpointslices": ("EndpointSlice", "discovery.k8s.io/v1"),
    "endpoints": ("Endpoints", "v1"),
    "services": ("Service", "v1"),
    "namespaces": ("Namespace", "v1"),
    "leases": ("Lease", "coordination.k8s.io/v1"),
    "serviceexports": ("ServiceExport", "multicluster.x-k8s.io/v1beta1"),
}


@dataclass
class _Change:
    version: int
    plural: str
    type: str
    object: Object


@dataclass
class _Snapshot:
    version: str
    items: list[Object] = field(default_factory=list)


class MemoryApi:
    """Holds the objects; :meth:`answer` fits ``ScriptedApi(answerer=...)``."""

    def __init__(self, *, not_served: frozenset[str] = frozenset({"serviceexports"})) -> None:
        self.objects: dict[str, dict[tuple[str, str], Object]] = {plural: {} for plural in KINDS}
        self.version = 100
        self.not_served = not_served
        self.refuse_writes: list[tuple[int, str, dict[str, Any]]] = []
        """Answers for the next writes, in order: code, reason, details."""
        self.refuse_reads: list[tuple[int, str]] = []
        """Answers for the next reads of single objects: code, reason."""
        self.writes: list[tuple[str, str]] = []
        """Accepted writes of the agent: (method, name)."""
        self.scripted: set[str] = set()
        """Collections left to the test."""
        self._uids = 0
        self._compacted = 0
        self._history: list[_Change] = []
        self._tokens: dict[str, _Snapshot] = {}
        self._watches: dict[asyncio.Queue[bytes | None], str] = {}
        self._numbers = itertools.count()
        self._streams: set[Stream] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        for name in ("kube-system", "default", "shop"):
            self.put("namespaces", {"metadata": {"name": name}})

    # ---- for the test --------------------------------------------------------------------------

    def put(self, plural: str, manifest: Object) -> Object:
        """Create or replace as somebody else would; returns what is stored."""
        kind, api_version = KINDS[plural]
        stored = copy.deepcopy(manifest)
        metadata = stored.setdefault("metadata", {})
        key = (metadata.get("namespace", ""), metadata["name"])
        known = self.objects[plural].get(key)
        stored.update(kind=kind, apiVersion=api_version)
        self.version += 1
        if known is None:
            self._uids += 1
            metadata.setdefault("uid", f"00000000-0000-4000-8000-{self._uids:012d}")
        else:
            metadata["uid"] = known["metadata"]["uid"]
        metadata["resourceVersion"] = str(self.version)
        self.objects[plural][key] = stored
        self._record(plural, "ADDED" if known is None else "MODIFIED", stored)
        return stored

    def remove(self, plural: str, namespace: str, name: str) -> None:
        """Delete as somebody else would."""
        gone = copy.deepcopy(self.objects[plural].pop((namespace, name)))
        self.version += 1
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._record(plural, "DELETED", gone)

    def compact(self) -> None:
        """Forget history: watches from before now are refused."""
        self._compacted = self.version
        self._history.clear()

    def end_watches(self) -> None:
        """End all watches as when their time is over."""
        for queue in self._watches:
            queue.put_nowait(None)

    def cut_watches(self) -> None:
        """Break all watches off, wherever they are."""
        for stream in list(self._streams):
            stream.cut()

    def bookmark(self) -> None:
        """Send every watch the present version."""
        for queue, plural in self._watches.items():
            shell = {"metadata": {"resourceVersion": str(self.version)}}
            queue.put_nowait(_line("BOOKMARK", plural, shell))

    # ---- requests ------------------------------------------------------------------------------

    def answer(self, exchange: Exchange) -> bool:
        """Answer a request, unless its collection is left to the test."""
        parts = exchange.path.strip("/").split("/")
        rest = parts[3:] if parts[0] == "apis" else parts[2:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name = rest[0], rest[1] if len(rest) > 1 else None
        if plural in self.scripted and name is None and exchange.method == "GET":
            return False
        if plural in self.not_served:
            exchange.answer_bytes(b"404 page not found\n", 404)
        elif exchange.method != "GET":
            self._write(exchange, plural, namespace, name)
        elif name is not None:
            found = self.objects[plural].get((namespace, name))
            if self.refuse_reads:
                exchange.refuse(*self.refuse_reads.pop(0))
            elif found is None:
                exchange.refuse(404, "NotFound", f"{plural} {name} not found", kind=plural)
            else:
                exchange.answer(found)
        elif exchange.is_watch:
            self._spawn(self._watch(exchange, plural))
        else:
            self._list(exchange, plural)
        return True

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _record(self, plural: str, kind: str, stored: Object) -> None:
        change = _Change(self.version, plural, kind, copy.deepcopy(stored))
        self._history.append(change)
        for queue, watched in self._watches.items():
            if watched == plural:
                queue.put_nowait(_line(kind, plural, change.object))

    def _list(self, exchange: Exchange, plural: str) -> None:
        token = exchange.query.get("continue")
        if token is None:
            items = [copy.deepcopy(one) for _, one in sorted(self.objects[plural].items())]
            snapshot = _Snapshot(str(self.version), items)
        elif token in self._tokens:
            snapshot = self._tokens.pop(token)
        else:
            exchange.refuse(410, "Expired", "the provided continue parameter is too old")
            return
        limit = int(exchange.query.get("limit", "500"))
        page, left = snapshot.items[:limit], snapshot.items[limit:]
        metadata = {"resourceVersion": snapshot.version}
        if left:
            metadata["continue"] = f"token-{next(self._numbers)}"
            self._tokens[metadata["continue"]] = _Snapshot(snapshot.version, left)
        for one in page:
            one.pop("kind"), one.pop("apiVersion")
        exchange.answer({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page})

    async def _watch(self, exchange: Exchange, plural: str) -> None:
        since = int(exchange.query["resourceVersion"])
        stream = await exchange.stream()
        if since < self._compacted:
            status = {"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired"}
            await stream.send({"type": "ERROR", "object": status})
            await stream.end()
            return
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for change in self._history:
            if change.plural == plural and change.version > since:
                queue.put_nowait(_line(change.type, plural, change.object))
        self._watches[queue] = plural
        self._streams.add(stream)
        try:
            while (line := await queue.get()) is not None:
                await stream.send_bytes(line)
            await stream.end()
        except ConnectionError:
            pass
        finally:
            self._watches.pop(queue, None)
            self._streams.discard(stream)

    def _write(self, exchange: Exchange, plural: str, namespace: str, name: str | None) -> None:
        if self.refuse_writes:
            code, reason, details = self.refuse_writes.pop(0)
            exchange.refuse(code, reason, "refused by the test", **details)
            return
        known = self.objects[plural].get((namespace, name or exchange.body["metadata"]["name"]))
        match exchange.method:
            case "POST":
                self._create(exchange, plural, namespace, known)
            case "PUT":
                self._replace(exchange, plural, name or "", known)
            case _:
                self._delete(exchange, plural, namespace, name or "", known)

    def _create(
        self, exchange: Exchange, plural: str, namespace: str, known: Object | None
    ) -> None:
        space = self.objects["namespaces"].get(("", namespace))
        if space is None:
            exchange.refuse(
                404, "NotFound", f'namespaces "{namespace}" not found', kind="namespaces"
            )
        elif space.get("status", {}).get("phase") == "Terminating":
            causes = [{"reason": "NamespaceTerminating"}]
            exchange.refuse(403, "Forbidden", "namespace is being terminated", causes=causes)
        elif known is not None:
            exchange.refuse(409, "AlreadyExists", "already exists")
        else:
            self._accept(exchange, plural)

    def _replace(self, exchange: Exchange, plural: str, name: str, known: Object | None) -> None:
        wanted = exchange.body["metadata"].get("resourceVersion")
        if known is None:
            exchange.refuse(404, "NotFound", f"{name} not found", kind=plural)
        elif wanted not in {None, known["metadata"]["resourceVersion"]}:
            exchange.refuse(409, "Conflict", "the object has been modified")
        else:
            self._accept(exchange, plural)

    def _accept(self, exchange: Exchange, plural: str) -> None:
        self.writes.append((exchange.method, exchange.body["metadata"]["name"]))
        stored = self.put(plural, exchange.body)
        exchange.answer(stored, 201 if exchange.method == "POST" else 200)

    def _delete(
        self, exchange: Exchange, plural: str, namespace: str, name: str, known: Object | None
    ) -> None:
        uid = exchange.body.get("preconditions", {}).get("uid")
        if known is None:
            exchange.refuse(404, "NotFound", f"{name} not found", kind=plural)
        elif uid not in {None, known["metadata"]["uid"]}:
            exchange.refuse(409, "Conflict", "the UID in the precondition differs")
        else:
            self.writes.append(("DELETE", name))
            self.remove(plural, namespace, name)
            exchange.answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})


def _line(kind: str, plural: str, stored: Object) -> bytes:
    named, api_version = KINDS[plural]
    whole = {"kind": named, "apiVersion": api_version, **stored}
    return json.dumps({"type": kind, "object": whole}).encode() + b"\n"
