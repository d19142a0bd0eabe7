"""``POST /v1/forget`` and ``POST /v1/admit``: the requests that change something.

The operator API has no authentication, so a page in a browser on this machine must not be able to
make them: the body has to be declared as JSON, which a page of another site may not send unasked,
and whatever names an origin is refused.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from replicator.identity import is_label
from replicator.kinds import ADMIT, FORGET
from replicator.ops.errors_json import BadRequestError, error_response
from replicator.ops.views import Json

DECISIONS = (FORGET, ADMIT)
_BODY_LIMIT = 1024
_CURE = 'send {"cluster": "NAME"} and nothing else'

Decide = Callable[[str, str], Awaitable[Json]]
"""Takes a decision and a cluster."""


async def _cluster_of(request: web.Request) -> str:
    """The cluster that a request names; raises :class:`BadRequestError`."""
    length = request.content_length
    if length is None or length > _BODY_LIMIT:
        message = f"the body has no length, or is longer than {_BODY_LIMIT} bytes"
        raise BadRequestError(message, cure=_CURE, code="bad_body")
    try:
        document: Any = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise BadRequestError("the body is no JSON", cure=_CURE, code="bad_body") from error
    if not isinstance(document, dict) or set(document) != {"cluster"}:
        message = "the body is not an object with the one key `cluster`"
        raise BadRequestError(message, cure=_CURE, code="bad_body")
    cluster = document["cluster"]
    if not isinstance(cluster, str) or not is_label(cluster):
        message = f"{str(cluster)[:80]!r} is not a cluster id"
        raise BadRequestError(message, cure="give a DNS label", code="bad_body")
    return cluster


def handler_of(decision: str, decide: Decide) -> Callable[[web.Request], Awaitable[web.Response]]:
    """What answers the path of ``decision``."""

    async def handler(request: web.Request) -> web.Response:
        if "Origin" in request.headers:
            message = "a page in a browser may not change anything here"
            return error_response(403, "cross_site", message, "use the command replicator")
        if request.content_type != "application/json":
            cure = "send Content-Type: application/json"
            return error_response(415, "bad_content_type", "the body is not declared JSON", cure)
        answer = await decide(decision, await _cluster_of(request))
        return web.json_response(answer, headers={"Cache-Control": "no-store"})

    return handler
