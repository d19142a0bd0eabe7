"""Errors of the operator API: one JSON shape for every way a request can fail."""

from __future__ import annotations

import json

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from replicator.errors import InputError, NotGood, ReplicatorError
from replicator.ops.address import host_header_is_loopback

_log = structlog.get_logger(__name__)


def error_response(
    status: int, code: str, message: str, cure: str, headers: dict[str, str] | None = None
) -> web.Response:
    """``{"error": {"code", "message", "cure"}}`` with ``status``."""
    body = json.dumps({"error": {"code": code, "cure": cure, "message": message}}, sort_keys=True)
    return web.Response(
        text=body + "\n", status=status, content_type="application/json", headers=headers
    )


class BadRequestError(ReplicatorError):
    """A query parameter or a body is wrong.  The asker's fault; answered with 400."""

    code = "bad_parameter"


_STATUSES: tuple[tuple[type[ReplicatorError], int], ...] = (
    (BadRequestError, 400),
    (InputError, 400),
    (NotGood, 409),
)


def _not_allowed(request: web.Request, error: web.HTTPMethodNotAllowed) -> web.Response:
    message = f"{request.path[:200]} does not take {request.method[:20]}"
    allow = {"Allow": ", ".join(sorted(error.allowed_methods))}
    cure = "use POST" if error.allowed_methods == {"POST"} else "use GET"
    return error_response(405, "method_not_allowed", message, cure, allow)


def _not_found(request: web.Request) -> web.Response:
    message = f"there is no {request.path[:200]!r} here"
    cure = "ask for /v1/status, or see the manual for the paths of this version"
    return error_response(404, "not_found", message, cure)


@web.middleware
async def json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn everything a handler raises into the one error shape."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        return _not_allowed(request, error)
    except web.HTTPNotFound:
        return _not_found(request)
    except ReplicatorError as error:
        status = next((number for kind, number in _STATUSES if isinstance(error, kind)), 503)
        return error_response(status, error.code, error.message, error.cure)
    except Exception:  # noqa: BLE001 - the supervisor of one request: logged whole, told short
        _log.exception("operator_request_failed", path=request.path)
        cure = "see the agent's log; this is a defect worth reporting"
        return error_response(500, "internal", "the agent failed to answer", cure)


@web.middleware
async def loopback_host_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests that did not mean this machine (DNS rebinding from a browser)."""
    if not host_header_is_loopback(request.headers.get("Host")):
        message = "the Host header does not name this machine"
        return error_response(403, "bad_host", message, "ask for 127.0.0.1 or localhost")
    return await handler(request)
