"""The health listener: ``/healthz``, ``/readyz`` and ``/metrics`` for kubelets and Prometheus.

Read-only and without secrets, so it may listen on every interface.  Anything but GET and HEAD is
405, whatever the path.  An agent that is not healthy answers 500 (restart it), one that is not
ready 503 (send it no traffic yet); both name their reasons, one a line.
"""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from replicator.ops.address import Address
from replicator.ops.metrics import CONTENT_TYPE
from replicator.ops.sites import Site
from replicator.ops.views import AgentViews

_GRACE_SECONDS = 1.0
_READ_ONLY = ("GET", "HEAD")


@web.middleware
async def _read_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.method not in _READ_ONLY:
        raise web.HTTPMethodNotAllowed(request.method, _READ_ONLY)
    return await handler(request)


def _verdict(good: bool, reasons: list[str], bad_status: int) -> web.Response:  # noqa: FBT001
    lines = ["ok"] if good else reasons or ["not ok, without a reason"]
    return web.Response(
        text="\n".join(lines) + "\n",
        status=200 if good else bad_status,
        headers={"Cache-Control": "no-store"},
    )


class HealthServer:
    """Serves an agent's health on its own address."""

    def __init__(self, views: AgentViews, address: Address) -> None:
        """Answer from ``views`` on ``address`` once started."""
        self._views = views
        app = web.Application(middlewares=[_read_only])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._site = Site(app, address, grace=_GRACE_SECONDS)

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._site.address

    async def start(self) -> None:
        """Listen; raises :class:`~replicator.errors.ConfigError` when the address is not usable."""
        await self._site.start()

    async def stop(self) -> None:
        """Stop listening."""
        await self._site.stop()

    async def _healthz(self, _: web.Request) -> web.Response:
        return _verdict(*self._views.healthy(), bad_status=500)

    async def _readyz(self, _: web.Request) -> web.Response:
        return _verdict(*self._views.ready(), bad_status=503)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._views.metrics(), headers={"Content-Type": CONTENT_TYPE})
