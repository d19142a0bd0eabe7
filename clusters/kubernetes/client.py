"""HTTP calls to one API server: JSON documents in and out, and watch streams as bytes.

A thin shell over aiohttp.  Foreign exceptions become the four errors below; a surprise (a closed
session) is left to the supervisor.  On 401 the credentials are read anew and the call is made once
more.  Every wait has a deadline on the cluster's clock.  Credentials never reach a log or an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Protocol, Self

import aiohttp
import orjson
import structlog

from clusters.base import Clock
from clusters.errors import ClusterError, ClusterUnavailableError
from clusters.kubernetes.api_status import ApiStatus, status_of_answer
from clusters.kubernetes.deadline import Deadline
from clusters.kubernetes.route import Route

_REFUSAL_BYTES = 64 * 1024
_ERRORS_FROM = 300
_UNAUTHORIZED = 401
_WARNINGS_KEPT = 64
_CURE = "check the server address, the network and the proxy settings; it is asked again"
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "crdt-replicator",
}
_log = structlog.get_logger()


class Connection(Protocol):
    """Where the API server is and how we are known to it."""

    async def route(self) -> Route:
        """How to reach it now; re-reads what may have changed.

        Raises :class:`~clusters.errors.ClusterError` when no credentials can be had.
        """
        ...

    async def renew(self, refused: Route) -> Route:
        """Read the credentials anew because ``refused`` was answered 401."""
        ...


class ApiRefusedError(ClusterError):
    """The API server said no; ``status`` is its answer.  Nothing was changed."""

    code = "api_refused"

    def __init__(self, status: ApiStatus) -> None:
        super().__init__(str(status))
        self.status = status


class ApiUnreachableError(ClusterUnavailableError):
    """No whole answer came.  Whether a write was done is unknown."""

    code = "api_unreachable"


class StreamBrokenError(ClusterError):
    """A watch's stream broke off; what was whole before counts."""

    code = "watch_broken"


class AnswerTooLargeError(ClusterError):
    """The answer exceeds the limit given; it was not kept."""

    code = "answer_too_large"


class AnswerUnreadableError(ClusterError):
    """The answer is not JSON in UTF-8."""

    code = "answer_unreadable"


class WarningLog:
    """The API server's warnings, each logged once."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._seen: set[str] = set()

    def take(self, texts: list[str]) -> None:
        """Log what is new among ``Warning`` headers."""
        for text in texts:
            if text not in self._seen and len(self._seen) < _WARNINGS_KEPT:
                self._seen.add(text)
                _log.warning("api_server_warning", text=text[:300])


class ApiSession:
    """One user's connections to the API server; an asynchronous context manager."""

    def __init__(
        self, connection: Connection, clock: Clock, *, answer_seconds: float, warnings: WarningLog
    ) -> None:
        """``answer_seconds`` bounds the wait for any answer but a watch's stream."""
        self._connection = connection
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._warnings = warnings
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        limit: int,
    ) -> Any:
        """Make one call and return its decoded JSON of at most ``limit`` bytes."""
        data = None if body is None else orjson.dumps(body)
        try:
            async with Deadline(self._clock, self._clock.monotonic() + self._answer_seconds):
                answer = await self._whole(method, path, query, data, limit)
        except TimeoutError as error:
            raise self._no_answer(method, path) from error
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise AnswerUnreadableError(f"{method} {path}: {error}") from error

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Open a stream; yields its chunks, whatever the framing.

        The iterator raises :class:`StreamBrokenError` when the stream breaks, and just ends when
        the server ends it.
        """
        try:
            async with Deadline(self._clock, self._clock.monotonic() + self._answer_seconds):
                response = await self._open("GET", path, query, None)
        except TimeoutError as error:
            raise self._no_answer("GET", path) from error
        try:
            yield _chunks(response)
        finally:
            response.close()

    def _no_answer(self, method: str, path: str) -> ApiUnreachableError:
        text = f"{method} {path}: no answer within {self._answer_seconds:.0f} s"
        return ApiUnreachableError(text, cure=_CURE)

    async def _whole(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
        limit: int,
    ) -> bytes:
        response = await self._open(method, path, query, data)
        try:
            return await _read(response, limit)
        except (aiohttp.ClientError, OSError) as error:
            text = f"{method} {path}: the answer broke off: {type(error).__name__}"
            raise ApiUnreachableError(text, cure=_CURE) from error
        finally:
            response.release()

    async def _open(
        self, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None
    ) -> aiohttp.ClientResponse:
        """Return an accepting answer, of which nothing is read yet; refusals are raised."""
        route = await self._connection.route()
        response = await self._send(route, method, path, query, data)
        if response.status == _UNAUTHORIZED:
            response.close()
            route = await self._connection.renew(route)
            response = await self._send(route, method, path, query, data)
        self._warnings.take(response.headers.getall("Warning", []))
        if response.status < _ERRORS_FROM:
            return response
        try:
            body = route.redact_bytes(await _refusal(response))
        finally:
            response.close()
        raise ApiRefusedError(status_of_answer(response.status, response.headers, body))

    async def _send(
        self,
        route: Route,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
    ) -> aiohttp.ClientResponse:
        if self._http is None:
            raise RuntimeError("use it as `async with ApiSession(...)`")
        headers = dict(route.headers)
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            return await self._http.request(
                method,
                route.server + path,
                params=query,
                data=data,
                headers=headers,
                proxy=route.proxy,
                ssl=True if route.tls is None else route.tls,
                server_hostname=route.server_name,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise _broken(route, error) from error


def _broken(route: Route, error: Exception) -> ApiUnreachableError:
    detail = route.redact(f"{type(error).__name__}: {error}")
    return ApiUnreachableError(f"{route.where}: {detail}", cure=_CURE)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except (aiohttp.ClientError, OSError) as error:
        raise StreamBrokenError(f"{type(error).__name__}: {error}") from error


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise AnswerTooLargeError(f"more than {limit} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def _refusal(response: aiohttp.ClientResponse) -> bytes:
    """Read the beginning of a refusal's body; what breaks off or is more does not matter."""
    body = b""
    with suppress(aiohttp.ClientError, OSError):
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > _REFUSAL_BYTES:
                break
    return body[:_REFUSAL_BYTES]
