"""A small Kubernetes client for the tests, and waiting for conditions by watching.

It shares no code with the agent on purpose: a fault in the agent's way of listing and watching must
not hide itself from the tests.  Objects are plain dictionaries as the API server sends them.

Nothing here waits for an amount of time.  ``Api.wait_for`` looks at a list and then at each change
the API server reports, until a condition holds or a deadline fails the test.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

Object = dict[str, Any]
Objects = list[Object]

WAIT_SECONDS = 90.0
"""Long, since a busy machine's controller manager takes half a minute for a namespace."""
REQUEST_SECONDS = 20.0
RETRY_SECONDS = 0.1


class ApiError(Exception):
    """The API server refused a request; ``status`` is the HTTP status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:500]}")
        self.status = status


class WaitError(AssertionError):
    """A condition did not come true before its deadline; says what was there instead."""


class Api:
    """One API server seen by one user; an asynchronous context manager.

    Paths are those of the API ("/api/v1/namespaces/shop/pods"); methods raise ApiError for an
    answer of 300 and above, and OSError when the server cannot be reached.
    """

    def __init__(
        self,
        server: str,
        token: str = "",
        ca: Path | None = None,
        *,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._server = server
        self._token = token
        self._ca = ca
        self._certificate = certificate
        self._key = key
        self._open_session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        trust = ssl.create_default_context(cafile=self._ca) if self._ca else True
        if self._certificate is not None and isinstance(trust, ssl.SSLContext):
            trust.load_cert_chain(self._certificate, self._key)
        self._open_session = aiohttp.ClientSession(
            self._server,
            headers={"Authorization": f"Bearer {self._token}"} if self._token else None,
            connector=aiohttp.TCPConnector(ssl=trust, limit=0),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open_session is not None:
            await self._open_session.close()

    @property
    def _session(self) -> aiohttp.ClientSession:
        assert self._open_session is not None, "use it as `async with Api(...)`"
        return self._open_session

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Object:
        """Read one object or one list."""
        return await self._call("GET", path, query=query)

    async def create(self, path: str, body: Object) -> Object:
        """Create in the collection ``path``."""
        return await self._call("POST", path, body)

    async def replace(self, path: str, body: Object) -> Object:
        """Replace the object at ``path``; its resourceVersion in ``body`` is checked if present."""
        return await self._call("PUT", path, body)

    async def patch(self, path: str, body: Object) -> Object:
        """Merge ``body`` into the object at ``path`` (RFC 7386)."""
        return await self._call("PATCH", path, body, kind="application/merge-patch+json")

    async def delete(self, path: str) -> None:
        """Delete; the object may linger until its finalizers ran."""
        await self._call("DELETE", path)

    async def answers_ok(self, path: str) -> bool:
        """Whether a health path answers 200; raises OSError while nothing listens."""
        async with self._request("GET", path) as response:
            return response.status == 200

    async def wait_for(
        self,
        path: str,
        until: Callable[[Objects], bool],
        *,
        what: str,
        query: Mapping[str, str] | None = None,
        seconds: float = WAIT_SECONDS,
    ) -> Objects:
        """Watch the collection ``path`` until ``until`` holds for all its objects at once.

        ``query`` may hold a labelSelector or fieldSelector.  Returns the objects that satisfied it.
        WaitError after ``seconds``, told as ``what``.  An API server that goes away meanwhile is
        listed and watched again when it is back.
        """
        objects: Objects | None = None
        try:
            async with asyncio.timeout(seconds), aclosing(self.states(path, query)) as states:
                async for objects in states:
                    if until(objects):
                        return objects
        except TimeoutError:
            pass
        seen = "never listed" if objects is None else json.dumps(objects, indent=1)[:4000]
        raise WaitError(f"{what}: not so within {seconds:.0f} s; last seen in {path}:\n{seen}")

    async def events_within(self, path: str, seconds: int) -> Objects:
        """All that happens to a collection within ``seconds``, as watch events.

        The API server measures the time; what was there before is no event.
        """
        listed = await self.get(path)
        version = listed["metadata"]["resourceVersion"]
        query = {"resourceVersion": version, "timeoutSeconds": str(seconds)}
        return [event async for event in self.events(path, query)]

    async def states(
        self, path: str, query: Mapping[str, str] | None = None
    ) -> AsyncGenerator[Objects]:
        """Yield all objects of a collection, now and after each change, for ever."""
        while True:
            try:
                listed = await self.get(path, query)
                known = {item["metadata"]["uid"]: item for item in listed["items"]}
                yield list(known.values())
                version = listed["metadata"]["resourceVersion"]
                async for event in self.events(path, {**(query or {}), "resourceVersion": version}):
                    item = event["object"]
                    if event["type"] == "ERROR":
                        break
                    known[item["metadata"]["uid"]] = item
                    if event["type"] == "DELETED":
                        del known[item["metadata"]["uid"]]
                    yield list(known.values())
            except (OSError, ApiError):
                pass
            await asyncio.sleep(RETRY_SECONDS)

    async def events(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Object]:
        """Yield the watch events of a collection as they arrive, until the API server ends them.

        ``query`` holds the resourceVersion to watch from; ApiError if the watch is refused.
        """
        unlimited = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS)
        watch = {**query, "watch": "1"}
        async with self._request("GET", path, params=watch, timeout=unlimited) as response:
            if response.status >= 300:
                raise ApiError(response.status, await response.text())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def _call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> Object:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": kind}
        async with self._request(
            method, path, data=data, params=query, headers=headers
        ) as response:
            text = await response.text()
            if response.status >= 300:
                raise ApiError(response.status, text)
            answer: Object = json.loads(text)
            return answer

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; whatever breaks the connection, then or while reading, is an OSError."""
        try:
            async with self._session.request(method, path, **options) as response:
                yield response
        except aiohttp.ClientError as error:
            raise ConnectionError(f"{method} {path}: {error}") from error
