"""A Kubernetes ``Status``: how the API server says no, in an event, a body or a bare HTTP answer.

Everything in it is optional and hostile until checked; what is missing is None or "".  The
questions asked of it (expired? throttled? rewound?) are answered here and nowhere else.

Source: apimachinery ``metav1.Status``, ``StatusReason``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_TEXT_LIMIT = 400
_GONE = 410
_TOO_MANY = 429
_UNAUTHORIZED = 401
_FORBIDDEN = 403
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class ApiStatus:
    """A refusal; ``code`` None when none was given."""

    code: int | None = None
    reason: str = ""
    message: str = ""
    retry_after: float | None = None
    """Seconds the server asks us to wait."""
    causes: frozenset[str] = frozenset()
    """``details.causes[].reason``."""
    kind: str = ""
    """``details.kind``: plural name or kind of what the refusal is about."""

    @property
    def gone(self) -> bool:
        """The version or continue token asked from is no longer kept: list again."""
        return self.code == _GONE or self.reason in {"Gone", "Expired"}

    @property
    def too_large(self) -> bool:
        """The version asked for is ahead of the server's history."""
        return "ResourceVersionTooLarge" in self.causes or self.message.startswith(
            "Too large resource version"
        )

    @property
    def throttled(self) -> bool:
        """The server asks for calm."""
        return self.code == _TOO_MANY or self.reason == "TooManyRequests"

    @property
    def unauthorized(self) -> bool:
        """Our credentials were not accepted."""
        return self.code == _UNAUTHORIZED

    @property
    def forbidden(self) -> bool:
        """We lack a right."""
        return self.code == _FORBIDDEN

    @property
    def not_found(self) -> bool:
        """There is no such object or collection."""
        return self.code == _NOT_FOUND

    def __str__(self) -> str:
        words = [str(self.code or "no code"), self.reason, self.message]
        return " ".join(word for word in words if word)


def status_of(body: object) -> ApiStatus:
    """Read a decoded ``Status`` object; anything unusable in it is left out."""
    document = body if isinstance(body, dict) else {}
    details = document.get("details")
    details = details if isinstance(details, dict) else {}
    causes = details.get("causes")
    return ApiStatus(
        code=_integer(document.get("code")),
        reason=_text(document.get("reason")),
        message=_text(document.get("message")),
        retry_after=_seconds(details.get("retryAfterSeconds")),
        causes=frozenset(
            _text(cause.get("reason"))
            for cause in (causes if isinstance(causes, list) else [])
            if isinstance(cause, dict)
        ),
        kind=_text(details.get("kind")),
    )


def status_of_answer(code: int, headers: Mapping[str, str], body: bytes) -> ApiStatus:
    """Read a refusing answer; HTTP code and ``Retry-After`` fill what the body leaves out."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = {"message": body[:_TEXT_LIMIT].decode("utf-8", "backslashreplace").strip()}
    status = status_of(document)
    retry_after = status.retry_after
    if retry_after is None:
        header = headers.get("Retry-After", "")
        retry_after = float(header) if header.isascii() and header.isdigit() else None
    return ApiStatus(
        code=code,
        reason=status.reason,
        message=status.message,
        retry_after=retry_after,
        causes=status.causes,
        kind=status.kind,
    )


def is_status(document: Mapping[str, Any]) -> bool:
    """Whether a decoded object is a ``Status``, which must never become an object of ours."""
    return document.get("kind") == "Status" and document.get("apiVersion", "v1") == "v1"


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _seconds(value: object) -> float | None:
    number = _integer(value)
    return None if number is None or number < 0 else float(number)


def _text(value: object) -> str:
    return value[:_TEXT_LIMIT] if isinstance(value, str) else ""
