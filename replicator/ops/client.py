"""The command's side of the operator API: plain blocking HTTP over TCP or a socket file.

Every way of not getting an answer is one typed error: nobody there or no sense in what came back is
:class:`~replicator.errors.UnreachableError`, a refusal :class:`~replicator.errors.RefusedError`, a
request the agent found wrong :class:`~replicator.errors.InputError`, one it may not grant
:class:`~replicator.errors.NotGood`.  Proxy variables are ignored:
the address is this machine's or a forwarded port.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlencode

from replicator.errors import (
    InputError,
    NotGood,
    RefusedError,
    ReplicatorError,
    UnreachableError,
)
from replicator.ops.address import Address, UnixAddress
from replicator.ops.broadcast import LaggedError
from replicator.ops.views import Json, Selection

_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 30.0
_LINE_LIMIT = 1 << 20
_REFUSED = (401, 403)
_WRONG = (400, 404, 405)
_NOT_GOOD = 409


class _Connection(http.client.HTTPConnection):
    """An HTTP connection to either kind of address; the Host header always says localhost."""

    def __init__(self, address: Address) -> None:
        super().__init__("localhost")
        self._address = address

    def connect(self) -> None:
        """Open the socket within the connect time-out."""
        address = self._address
        if isinstance(address, UnixAddress):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(_CONNECT_SECONDS)
            self.sock.connect(address.path)
        else:
            place = (address.host, address.port)
            self.sock = socket.create_connection(place, _CONNECT_SECONDS)


def _selection_query(chosen: Selection) -> str:
    pairs = {"namespace": chosen.namespace, "service": chosen.service, "cluster": chosen.cluster}
    given = {name: value for name, value in pairs.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _no_sense(address: Address, detail: str) -> UnreachableError:
    return UnreachableError(
        f"what answers on {address} is not a replicator agent ({detail})",
        cure="give the agent's operator address with --agent",
    )


def _refusal(address: Address, status: int, body: bytes) -> ReplicatorError:
    """The error that an answer other than 200 means."""
    try:
        told = json.loads(body)["error"]
        code, message, cure = (str(told[key]) for key in ("code", "message", "cure"))
    except (ValueError, KeyError, TypeError):
        return _no_sense(address, f"HTTP {status}")
    text = f"the agent on {address} answers: {message}"
    if status in _REFUSED:
        return RefusedError(text, cure=cure, code=code)
    if status in _WRONG:
        return InputError(text, cure=cure, code=code)
    if status == _NOT_GOOD:
        return NotGood(message, cure=cure, code=code)
    return UnreachableError(text, cure=cure, code=code)


class AgentClient:
    """Asks one agent; one connection per question."""

    def __init__(self, address: Address, *, patience: float = _ANSWER_SECONDS) -> None:
        """Ask the agent whose operator API is at ``address``; nothing is sent yet.

        ``patience`` is the longest silence in seconds, more than a watch's heartbeats are apart.
        """
        self._address = address
        self._patience = patience

    @property
    def address(self) -> Address:
        """Whom it asks."""
        return self._address

    def status(self) -> Json:
        """The ``/v1/status`` document."""
        return self._get("/v1/status")

    def items(self, name: str) -> list[Json]:
        """The rows of ``/v1/peers``, ``clusters``, ``services`` or ``policies``."""
        return self._items(f"/v1/{name}")

    def endpoints(self, chosen: Selection) -> list[Json]:
        """The ITEMs of ``/v1/endpoints``."""
        return self._items(f"/v1/endpoints{_selection_query(chosen)}")

    def snapshot(self) -> Json:
        """The SNAPSHOT document."""
        return self._get("/v1/snapshot")

    def decide(self, decision: str, cluster: str) -> Json:
        """Have a cluster forgotten or admitted; raises :class:`NotGood` when it may not be."""
        body = json.dumps({"cluster": cluster}).encode()
        with self._asked(f"/v1/{decision}", body) as answer:
            return self._object(answer.read())

    def steer(self, policy: str, cluster: str | None, service: str | None, setting: object) -> Json:
        """Have a policy hold (``POST /v1/policies``)."""
        wanted = {"policy": policy, "cluster": cluster, "service": service, "setting": setting}
        with self._asked("/v1/policies", json.dumps(wanted).encode()) as answer:
            return self._object(answer.read())

    def release(self, cluster: str | None, service: str | None) -> Json:
        """Carry out withdrawals that are held back (``POST /v1/release``)."""
        wanted = {"cluster": cluster, "service": service}
        with self._asked("/v1/release", json.dumps(wanted).encode()) as answer:
            return self._object(answer.read())

    def watch(self, chosen: Selection) -> Generator[Json, None, None]:
        """Changes as they are committed, until the caller stops.

        Subscribed once the first step has begun.  Never ends quietly: raises
        :class:`~replicator.errors.UnreachableError` when the agent ends the stream or falls silent,
        :class:`~replicator.ops.broadcast.LaggedError` when this reader was too slow.
        """
        with self._asked(f"/v1/watch{_selection_query(chosen)}") as answer:
            yield from self._events(answer)
        raise UnreachableError(
            f"the agent on {self._address} ended the stream",
            cure="see whether it is being restarted, then watch again",
        )

    def _items(self, path: str) -> list[Json]:
        items = self._get(path).get("items")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise _no_sense(self._address, "no items")
        return cast("list[Json]", items)

    def _get(self, path: str) -> Json:
        with self._asked(path) as answer:
            return self._object(answer.read())

    def _object(self, text: bytes) -> Json:
        try:
            document: Any = json.loads(text)
        except ValueError as error:
            raise _no_sense(self._address, "no JSON") from error
        if not isinstance(document, dict):
            raise _no_sense(self._address, "no JSON object")
        return document

    def _events(self, answer: http.client.HTTPResponse) -> Iterator[Json]:
        kind = b""
        while line := answer.readline(_LINE_LIMIT):
            name, _, content = line.rstrip(b"\r\n").partition(b": ")
            if name == b"event":
                kind = content
            elif name == b"data" and kind == b"dropped":
                told = self._object(content)
                raise LaggedError(str(told.get("message", "")), cure=str(told.get("cure", "")))
            elif name == b"data":
                yield self._object(content)

    @contextmanager
    def _asked(self, path: str, body: bytes | None = None) -> Iterator[http.client.HTTPResponse]:
        connection = _Connection(self._address)
        try:
            connection.connect()
            connection.sock.settimeout(self._patience)
            headers = {"Accept": "application/json"}
            if body is None:
                connection.request("GET", path, headers=headers)
            else:
                headers["Content-Type"] = "application/json"
                connection.request("POST", path, body, headers)
            # Closed by itself: one without a length keeps the socket when the connection closes.
            with connection.getresponse() as answer:
                if answer.status != http.HTTPStatus.OK:
                    raise _refusal(self._address, answer.status, answer.read(_LINE_LIMIT))
                yield answer
        except PermissionError as error:
            raise RefusedError(
                f"no permission to open {self._address}",
                cure="run this as the user the agent runs as",
            ) from error
        except TimeoutError as error:
            raise UnreachableError(
                f"the agent on {self._address} does not answer in time",
                cure="see whether its process hangs (/healthz) or is overloaded",
            ) from error
        except OSError as error:
            raise UnreachableError(
                f"cannot reach an agent on {self._address}: {error.strerror or error}",
                cure="start it, or give its operator address with --agent or REPLICATOR_AGENT",
            ) from error
        except http.client.HTTPException as error:
            raise _no_sense(self._address, type(error).__name__) from error
        finally:
            connection.close()
