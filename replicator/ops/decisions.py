"""``POST /v1/forget``, ``/v1/admit``, ``/v1/policies``, ``/v1/release``: what changes something.

The operator API has no authentication, so a page in a browser on this machine must not be able to
make them: the body has to be declared as JSON, which a page of another site may not send unasked,
and whatever names an origin is refused.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from clusters.model import ServiceKey
from replicator.errors import InputError
from replicator.identity import is_label
from replicator.kinds import ADMIT, FORGET
from replicator.ops.errors_json import BadRequestError, error_response
from replicator.ops.views import Json
from replicator.policies import STALE, Setting, Subject, wanted

DECISIONS = (FORGET, ADMIT)
_BODY_LIMIT = 1024
_CLUSTER_CURE = 'send {"cluster": "NAME"} and nothing else'
_POLICY_KEYS = ("policy", "cluster", "service", "setting")
_POLICY_CURE = 'send {"policy", "cluster", "service", "setting"}, null for every cluster or service'
_RELEASE_KEYS = ("cluster", "service")
_RELEASE_CURE = 'send {"cluster", "service"}, null for every cluster or service'

Decide = Callable[[str, str], Awaitable[Json]]
"""Takes a decision and a cluster."""
Steer = Callable[[Subject, Setting], Awaitable[Json]]
Release = Callable[[str | None, ServiceKey | None], list[Json]]
Handler = Callable[[web.Request], Awaitable[web.Response]]


async def _object_of(request: web.Request, keys: frozenset[str], cure: str) -> dict[str, Any]:
    """The body, an object with just these keys; raises :class:`BadRequestError`."""
    length = request.content_length
    if length is None or length > _BODY_LIMIT:
        message = f"the body has no length, or is longer than {_BODY_LIMIT} bytes"
        raise BadRequestError(message, cure=cure, code="bad_body")
    try:
        document: Any = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise BadRequestError("the body is no JSON", cure=cure, code="bad_body") from error
    if not isinstance(document, dict) or set(document) != keys:
        message = f"the body is not an object with the keys {', '.join(sorted(keys))} alone"
        raise BadRequestError(message, cure=cure, code="bad_body")
    return document


def _guarded(answer: Callable[[web.Request], Awaitable[Json]]) -> Handler:
    """Turns away whoever may be a page in a browser."""

    async def handler(request: web.Request) -> web.Response:
        if "Origin" in request.headers:
            message = "a page in a browser may not change anything here"
            return error_response(403, "cross_site", message, "use the command replicator")
        if request.content_type != "application/json":
            cure = "send Content-Type: application/json"
            return error_response(415, "bad_content_type", "the body is not declared JSON", cure)
        return web.json_response(await answer(request), headers={"Cache-Control": "no-store"})

    return handler


def member_handler(decision: str, decide: Decide) -> Handler:
    """What answers the path of ``decision``."""

    async def answer(request: web.Request) -> Json:
        body = await _object_of(request, frozenset({"cluster"}), _CLUSTER_CURE)
        cluster = body["cluster"]
        if not isinstance(cluster, str) or not is_label(cluster):
            message = f"{str(cluster)[:80]!r} is not a cluster id"
            raise BadRequestError(message, cure="give a DNS label", code="bad_body")
        return await decide(decision, cluster)

    return _guarded(answer)


def policy_handler(steer: Steer) -> Handler:
    """What answers ``POST /v1/policies``."""

    async def answer(request: web.Request) -> Json:
        body = await _object_of(request, frozenset(_POLICY_KEYS), _POLICY_CURE)
        try:
            subject, setting = wanted(*(body[key] for key in _POLICY_KEYS))
        except InputError as error:
            raise BadRequestError(error.message, cure=error.cure, code="bad_body") from error
        return await steer(subject, setting)

    return _guarded(answer)


def release_handler(release: Release) -> Handler:
    """What answers ``POST /v1/release``."""

    async def answer(request: web.Request) -> Json:
        body = await _object_of(request, frozenset(_RELEASE_KEYS), _RELEASE_CURE)
        try:
            cluster, key = released(body["cluster"], body["service"])
        except InputError as error:
            raise BadRequestError(error.message, cure=error.cure, code="bad_body") from error
        return {"released": release(cluster, key)}

    return _guarded(answer)


def released(cluster: object, service: object) -> tuple[str | None, ServiceKey | None]:
    """What somebody asks to be released; raises :class:`InputError` naming what is wrong."""
    if cluster is not None and not (isinstance(cluster, str) and is_label(cluster)):
        raise InputError(f"{str(cluster)[:80]!r} is not a cluster id", cure="give a DNS label")
    # A service is written as where a policy is about one.
    subject, _ = wanted(STALE, None, service, "keep")
    return cluster, subject.key
