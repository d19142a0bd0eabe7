"""How to reach the API server at one moment, with the secrets that go with it.

``repr`` and :meth:`Route.redact` keep the secrets out of logs and errors.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_JWT = re.compile(r"eyJ[\w-]{4,}\.[\w-]*(?:\.[\w-]*)?")
_HIDDEN = "[hidden]"
_SHORTEST_SECRET = 4


@dataclass(frozen=True, slots=True)
class Route:
    """One way to the API server; replaced as a whole when anything of it changes."""

    server: str
    """``https://host:port`` and a path prefix if any, without a final slash."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    """Authorization, if any."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """None for plain HTTP."""
    server_name: str | None = None
    """Name the server's certificate must carry, if not that of the address."""
    proxy: str | None = field(default=None, repr=False)
    """URL of an HTTP proxy; None = direct."""

    @property
    def where(self) -> str:
        """Server and proxy for people, without secrets."""
        if self.proxy is None:
            return self.server
        parts = urlsplit(self.proxy)
        return f"{self.server} through proxy {parts.hostname}:{parts.port or 80}"

    def redact(self, text: str) -> str:
        """Text without our secrets and without anything that looks like a token."""
        for value in self.headers.values():
            secret = value.rpartition(" ")[2]
            if len(secret) >= _SHORTEST_SECRET:
                text = text.replace(secret, _HIDDEN)
        password = None if self.proxy is None else urlsplit(self.proxy).password
        if password:
            text = text.replace(password, _HIDDEN)
        return hide_tokens(text)

    def redact_bytes(self, body: bytes) -> bytes:
        """Like :meth:`redact` for a body in whatever encoding."""
        return self.redact(body.decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )


def hide_tokens(text: str) -> str:
    """Text without anything that looks like a JSON Web Token."""
    return _JWT.sub(_HIDDEN, text)
