"""Writes objects of ours to the API server, within a budget (kubernetes.md M5, M7, M11).

Each write is one call; its answer goes into the catalog at once.  What a refusal means is decided
in :mod:`clusters.kubernetes.write_errors`; here it is acted on: adopt what is ours, re-read after
a conflict, remember who waits for a namespace, keep quiet while the server asks for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from clusters.base import Clock
from clusters.catalog import ServiceCatalog, Touched
from clusters.errors import (
    ClusterError,
    ClusterUnavailableError,
    NamespaceUnavailableError,
    WriteError,
)
from clusters.kubernetes.client import (
    AnswerUnreadableError,
    ApiRefusedError,
    ApiSession,
    ApiUnreachableError,
)
from clusters.kubernetes.objects import WRITTEN, Name, name_of, object_path, trimmed, version_of
from clusters.kubernetes.own_writes import OwnWrites
from clusters.kubernetes.settings import KubernetesSettings
from clusters.kubernetes.write_budget import WriteBudget
from clusters.kubernetes.write_errors import ApiBusyError, Meaning, error_of, meaning_of
from clusters.model import MANAGED_BY, ChangeOp, Manifest, ServiceKey, SliceChange
from clusters.multicluster.names import derived_from, is_our_import
from clusters.slice_names import LABEL_MANAGED_BY, service_of, stored_key, texts

_ANSWER_BYTES = 16 * 1024 * 1024
_PATIENCE_SECONDS = 30.0
"""A longer quiet is not waited for by whoever writes, but left to their back-off."""
_METHODS = {ChangeOp.CREATE: "POST", ChangeOp.UPDATE: "PUT", ChangeOp.DELETE: "DELETE"}


class SliceWriter:
    """Carries out one :class:`~clusters.model.SliceChange` after the other."""

    def __init__(  # all by keyword
        self,
        *,
        session: Callable[[float], ApiSession],
        catalog: ServiceCatalog,
        own_writes: Mapping[str, OwnWrites],
        took_in: Callable[[Touched], None],
        clock: Clock,
        settings: KubernetesSettings,
    ) -> None:
        """``own_writes`` by kind; ``took_in`` is told what the answers changed in the catalog."""
        self._make_session = session
        self._catalog = catalog
        self._own_writes = own_writes
        self._took_in = took_in
        self._clock = clock
        self._settings = settings
        self._budget = WriteBudget(settings.writes_per_second, settings.write_burst)
        self._quiet_until = 0.0
        self._conflicts: Counter[tuple[str, Name]] = Counter()
        self._waiting: dict[str, set[ServiceKey]] = {}
        self._running: ApiSession | None = None

    async def run(self) -> None:
        """Hold a session open for all writes until cancelled."""
        async with self._make_session(self._settings.write_seconds) as session:
            self._running = session
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._running = None

    def waiting_for(self, namespace: str) -> set[ServiceKey]:
        """Forget and return who waited for ``namespace``, if it is usable now."""
        if self._catalog.namespace_usable(namespace):
            return self._waiting.pop(namespace, set())
        return set()

    async def apply(self, change: SliceChange) -> None:
        """See :class:`~clusters.base.Cluster`."""
        try:
            await self._apply(change)
        except (WriteError, NamespaceUnavailableError, ClusterUnavailableError):
            raise
        except ClusterError as error:
            raise ClusterUnavailableError(
                error.message, cure=error.cure, code=error.code
            ) from error

    async def _apply(self, change: SliceChange) -> None:
        if (
            change.op is ChangeOp.CREATE
            and self._catalog.namespace_usable(change.namespace) is False
        ):
            raise self._wait_for_namespace(change, f"namespace {change.namespace} is not there")
        await self._admit()
        try:
            with self._about(change) as about:
                answer = await self._send(change)
                self._conflicts.pop(about, None)
                self._done(change, answer)
        except ApiRefusedError as error:
            await self._refused(change, error)

    @contextmanager
    def _about(self, change: SliceChange) -> Iterator[tuple[str, Name]]:
        """Note what the watch shows of the object while a call about it is made."""
        name = change.namespace, change.name
        held = (one for one in self._held(change) if name_of(one) == name)
        known = next(held, None)
        own_writes = self._own_writes[change.kind]
        own_writes.begin(name, None if known is None else version_of(known))
        try:
            yield change.kind, name
        finally:
            own_writes.settled(name)

    def _held(self, change: SliceChange) -> list[Manifest]:
        """Objects of ours of the same service and kind."""
        return [one for one in self._catalog.owned(_key_of(change)) if one["kind"] == change.kind]

    async def _admit(self) -> None:
        """Wait for the budget and for the end of a quiet the server asked for."""
        now = self._clock.monotonic()
        quiet = self._quiet_until - now
        if quiet > _PATIENCE_SECONDS:
            raise ClusterUnavailableError(f"the API server asks to be left alone for {quiet:.0f} s")
        wait = max(self._budget.take(now), quiet)
        if wait > 0:
            await self._clock.sleep(wait)

    async def _send(self, change: SliceChange) -> Any:
        create = change.op is ChangeOp.CREATE
        body: Manifest = change.manifest
        if change.op is ChangeOp.DELETE:
            uid = change.manifest["metadata"].get("uid")
            body = {"apiVersion": "v1", "kind": "DeleteOptions"}
            if uid is not None:
                body["preconditions"] = {"uid": uid}
        path = object_path(
            WRITTEN[change.kind],
            change.namespace,
            None if create else change.name,
            change.subresource,
        )
        async with self._session() as session:
            try:
                return await session.call(_METHODS[change.op], path, body=body, limit=_ANSWER_BYTES)
            except RuntimeError as error:
                # aiohttp says so of a closed session; the next write gets a session of its own.
                self._running = None
                raise ApiUnreachableError(f"{change.op.value} {path}: {error}") from error

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[ApiSession]:
        """Yield the session that is held open, or one for a single call."""
        if self._running is not None:
            yield self._running
        else:
            async with self._make_session(self._settings.write_seconds) as session:
                yield session

    def _done(self, change: SliceChange, answer: Any) -> None:
        if change.op is ChangeOp.DELETE:
            if self._own_writes[change.kind].deleted(change.manifest, self._clock.monotonic()):
                self._took_in(self._catalog.delete(change.manifest))
        else:
            self._take_in(_object(change, answer))

    def _take_in(self, stored: Manifest) -> None:
        if self._own_writes[stored["kind"]].wrote(stored, self._clock.monotonic()):
            self._took_in(self._catalog.upsert(stored))

    # ---- refusals ------------------------------------------------------------------------------

    async def _refused(self, change: SliceChange, error: ApiRefusedError) -> None:
        """Return when the write is as good as done, raise what it means otherwise."""
        match meaning_of(change, error.status):
            case Meaning.EXISTS:
                await self._adopt(change, error)
            case Meaning.GONE | Meaning.CONFLICT:
                await self._look_again(change)
                if change.op is not ChangeOp.DELETE:
                    raise self._stale(change, error) from error
            case Meaning.OTHER:
                raise self._final(change, error) from error

    async def _adopt(self, change: SliceChange, error: ApiRefusedError) -> None:
        found = await self._look_again(change)
        if found is None:
            raise self._stale(change, error) from error
        if not self._is_ours(change, found):
            raise WriteError(
                f"{change.kind} {change.namespace}/{change.name} exists and is not ours",
                cure="delete or rename that object",
                code="name_taken",
                retryable=False,
            ) from error

    def _is_ours(self, change: SliceChange, found: Manifest) -> bool:
        """By label or by its key; a name alone could be anybody's, unless we know the object."""
        labelled = texts(found, "labels").get(LABEL_MANAGED_BY) == MANAGED_BY
        if labelled or stored_key(found) is not None:
            return True
        if change.kind == "ServiceImport":
            return is_our_import(found)
        if change.kind == "Service":
            return derived_from(found) == _key_of(change)
        uids = {one["metadata"].get("uid") for one in self._held(change)}
        return found["metadata"].get("uid") in uids

    async def _look_again(self, change: SliceChange) -> Manifest | None:
        """Read the object into the catalog, a few times in a row at most; None if there is none."""
        about = change.kind, (change.namespace, change.name)
        self._conflicts[about] += 1
        if self._conflicts[about] > self._settings.conflict_reads:
            return None
        try:
            with self._about(change):
                return await self._read(change)
        except ApiRefusedError as error:
            if not error.status.not_found:
                raise self._final(change, error) from error
            self._took_in(self._catalog.delete(change.manifest))
            return None

    async def _read(self, change: SliceChange) -> Manifest:
        path = object_path(WRITTEN[change.kind], change.namespace, change.name)
        async with self._session() as session:
            answer = await session.call("GET", path, limit=_ANSWER_BYTES)
        stored = _object(change, answer)
        self._take_in(stored)
        return stored

    def _stale(self, change: SliceChange, error: ApiRefusedError) -> WriteError:
        text = f"{change.op.value} {change.kind} {change.namespace}/{change.name}: {error.status}"
        return WriteError(
            text, cure="it is planned anew by itself", code="conflict", retryable=True
        )

    def _final(self, change: SliceChange, error: ApiRefusedError) -> ClusterError:
        meant = error_of(change, error.status)
        if isinstance(meant, ApiBusyError):
            most = self._settings.watch.retry_after_most
            self._quiet_until = self._clock.monotonic() + min(meant.retry_after, most)
        if isinstance(meant, NamespaceUnavailableError):
            return self._wait_for_namespace(change, meant.message, code=meant.code)
        return meant

    def _wait_for_namespace(
        self, change: SliceChange, message: str, code: str = "no_namespace"
    ) -> ClusterError:
        """Remember who to call when the namespace comes; if it seems to be there, just retry."""
        if self._catalog.namespace_usable(change.namespace) is not False:
            return WriteError(message, cure="it is tried again", code=code, retryable=True)
        self._waiting.setdefault(change.namespace, set()).add(_key_of(change))
        return NamespaceUnavailableError(message, cure="it is written once that exists", code=code)


def _object(change: SliceChange, answer: Any) -> Manifest:
    """Check that an answer is the object it is about; what else a proxy may say is no answer."""
    metadata = answer.get("metadata") if isinstance(answer, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name") != change.name:
        text = f"{change.op.value} {change.kind} {change.namespace}/{change.name}: not an object"
        raise AnswerUnreadableError(text, cure="check what lies between us and the API server")
    resource = WRITTEN[change.kind]
    api_version = resource.api_version(resource.versions[0])
    return trimmed({"kind": change.kind, "apiVersion": api_version, **answer})


def _key_of(change: SliceChange) -> ServiceKey:
    """The service an object of ours is for."""
    if change.kind == "EndpointSlice":
        return ServiceKey(change.namespace, service_of(change.manifest) or "")
    derived = derived_from(change.manifest) if change.kind == "Service" else None
    return derived or ServiceKey(change.namespace, change.name)
