"""The operator API: HTTP and JSON on loopback or a socket file (operations.md section 4a).

Version 1: later versions add paths and keys, never change them.  Read-only but for decisions
(:mod:`replicator.ops.decisions`).  Without authentication of its own, so it listens on loopback or
on a socket file only its owner may open, and refuses requests that name another host.
``/v1/watch`` is a stream of server-sent events; a reader too slow for it is told so and dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from replicator.errors import ConfigError
from replicator.ops.address import Address, TcpAddress, is_loopback
from replicator.ops.decisions import (
    DECISIONS,
    member_handler,
    policy_handler,
    release_handler,
)
from replicator.ops.errors_json import BadRequestError, json_errors, loopback_host_only
from replicator.ops.event_stream import EventStream
from replicator.ops.sites import Site
from replicator.ops.views import AgentViews, Json, Selection

_GRACE_SECONDS = 2.0
_FILTERS = ("namespace", "service", "cluster")
_LABEL_LIMIT = 253
_LABEL_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")


def _answer(body: bytes) -> web.Response:
    return web.Response(
        body=body + b"\n",
        content_type="application/json",
        headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
    )


def _encoded(document: Any) -> bytes:  # noqa: ANN401 - any JSON value
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def selection_of(request: web.Request, allowed: tuple[str, ...] = _FILTERS) -> Selection:
    """The filters in a request's query; raises :class:`BadRequestError` naming the wrong one."""
    chosen: dict[str, str] = {}
    for name, value in request.query.items():
        if name not in allowed:
            takes = f"use {', '.join(allowed)}" if allowed else "give none"
            message = f"unknown query parameter {name[:40]!r}"
            raise BadRequestError(message, cure=takes)
        if name in chosen:
            message = f"query parameter {name!r} is given twice"
            raise BadRequestError(message, cure="give it once")
        if not 0 < len(value) <= _LABEL_LIMIT or not _LABEL_CHARACTERS.issuperset(value):
            message = f"query parameter {name!r} is not a name: {value[:80]!r}"
            raise BadRequestError(message, cure="give a DNS name, or leave the parameter out")
        chosen[name] = value
    return Selection(**chosen)


class OperatorServer:
    """Serves an agent's views on its operator address."""

    def __init__(
        self,
        views: AgentViews,
        address: Address,
        *,
        heartbeat_seconds: float = 10.0,
        write_seconds: float = 10.0,
    ) -> None:
        """Answer from ``views`` on ``address`` once started.

        A watcher hears something at least every ``heartbeat_seconds``, and is cut off when it takes
        nothing for ``write_seconds``.

        Raises :class:`~replicator.errors.ConfigError` for an address others could reach.
        """
        if isinstance(address, TcpAddress) and not is_loopback(address.host):
            raise ConfigError(
                f"the operator API may not listen on {address}: it has no authentication",
                cure="use 127.0.0.1, [::1] or unix:/path",
            )
        self._views = views
        self._heartbeat = heartbeat_seconds
        self._write = write_seconds
        self._closing = asyncio.Event()
        app = web.Application(middlewares=[json_errors, loopback_host_only])
        app.on_shutdown.append(self._on_shutdown)
        self._route(app)
        self._site = Site(app, address, grace=_GRACE_SECONDS)

    def _route(self, app: web.Application) -> None:
        views = self._views
        documents: dict[str, Callable[[], Json]] = {
            "status": views.status,
            "peers": lambda: {"items": views.peers()},
            "clusters": lambda: {"items": views.clusters()},
            "services": lambda: {"items": views.services()},
            "policies": lambda: {"items": views.policies()},
            "config": views.config,
        }
        for name, view in documents.items():
            app.router.add_get(f"/v1/{name}", self._document(view))
        app.router.add_get("/v1/endpoints", self._endpoints)
        app.router.add_get("/v1/snapshot", self._snapshot)
        app.router.add_get("/v1/watch", self._watch, allow_head=False)
        for decision in DECISIONS:
            app.router.add_post(f"/v1/{decision}", member_handler(decision, views.decide))
        app.router.add_post("/v1/policies", policy_handler(views.steer))
        app.router.add_post("/v1/release", release_handler(views.release))

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._site.address

    async def start(self) -> None:
        """Listen; raises :class:`~replicator.errors.ConfigError` when the address is not usable."""
        await self._site.start()

    async def stop(self) -> None:
        """End the watches, finish open requests for up to 2 s, stop listening."""
        await self._site.stop()

    async def _on_shutdown(self, _: web.Application) -> None:
        self._closing.set()

    @staticmethod
    def _document(view: Callable[[], Json]) -> Callable[[web.Request], Any]:
        async def handler(request: web.Request) -> web.Response:
            selection_of(request, ())
            return _answer(_encoded(view()))

        return handler

    async def _endpoints(self, request: web.Request) -> web.Response:
        chosen = selection_of(request)
        items = self._views.endpoints(chosen.namespace, chosen.service, chosen.cluster)
        return _answer(await asyncio.to_thread(_encoded, {"items": items}))

    async def _snapshot(self, request: web.Request) -> web.Response:
        selection_of(request, ())
        return _answer(await asyncio.to_thread(_encoded, self._views.snapshot()))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        chosen = selection_of(request)
        stream = EventStream(
            self._views.subscribe(),
            chosen,
            heartbeat=self._heartbeat,
            write=self._write,
            closing=self._closing,
        )
        return await stream.serve(request)
