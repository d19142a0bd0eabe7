"""Why a dial failed, in words an operator can act on.

In TLS 1.3 the dialling side is done before the listening side has looked at its certificate, so a
refusal arrives later as an alert, or as a bare reset when the alert is lost.  Our own certificate
is looked at first then, and blamed if it deserves it.

Pure: everything comes in as arguments.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import aiohttp

from replicator.errors import RefusedError, ReplicatorError, TransportError
from replicator.transport.identity_files import Credentials

_ALERTS = {
    "CERTIFICATE_EXPIRED": ("our certificate has expired", "issue a new one"),
    "UNKNOWN_CA": (
        "it does not trust the authority of our certificate",
        "add that authority to the trust bundle of the peer",
    ),
    "BAD_CERTIFICATE": (
        "our certificate does not pass its strict checks",
        "run `replicator pki check` on it and issue a new one",
    ),
    "UNSUPPORTED_CERTIFICATE": (
        "our certificate may not be used by a client",
        "issue one with client authentication, as `replicator pki issue` does",
    ),
    "CERTIFICATE_UNKNOWN": (
        "it does not accept our certificate",
        "run `replicator pki check` on it and issue a new one",
    ),
    "CERTIFICATE_REQUIRED": (
        "it got no certificate from us",
        "run `replicator pki check` on ours",
    ),
}
_PROTOCOL = ("WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL", "PROTOCOL_VERSION", "HTTP_REQUEST")
_CURE_ADDRESS = "check the peer's url, its agent, and firewalls between"
_EXPIRED, _NOT_YET = 10, 9
_NO_ISSUER = frozenset({2, 18, 19, 20, 21, 27})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One dial that failed."""

    url: str
    cluster: str
    seconds: float
    """What it was given."""
    shaken: bool
    """Our side of the TLS handshake was complete."""

    @property
    def peer(self) -> str:
        """Whom we dialled, for messages."""
        return f"{self.cluster} at {self.url}"


def explain(
    error: BaseException, attempt: Attempt, own: Credentials, now: datetime
) -> ReplicatorError:
    """The error to raise for ``error``: refused if someone refused, else unreachable."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _their_certificate(cause, attempt)
        if isinstance(cause, ssl.SSLError):
            found = _tls(cause.reason or "", attempt)
            if found is not None:
                return found
    if isinstance(error, TimeoutError):
        message = f"{attempt.peer} did not answer within {attempt.seconds:g} s"
        return TransportError(message, cure=_CURE_ADDRESS)
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        message = f"{attempt.url!r} is no url of an agent"
        return RefusedError(message, cure="use https://HOST:PORT", code="bad_url")
    if attempt.shaken:
        return _closed_after_handshake(attempt, own, now)
    detail = str(getattr(error, "os_error", error)) or type(error).__name__
    return TransportError(f"{attempt.peer} cannot be reached: {detail}", cure=_CURE_ADDRESS)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """What lies behind ``error``; aiohttp's errors inherit from ssl's without their attributes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if not isinstance(error, aiohttp.ClientError):
            yield error
        inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
        if isinstance(inner, BaseException):
            yield inner
        error = error.__cause__ or error.__context__


def _their_certificate(error: ssl.SSLCertVerificationError, attempt: Attempt) -> RefusedError:
    message = f"we refuse the certificate of {attempt.peer}: {error.verify_message}"
    code = error.verify_code
    if code == _EXPIRED:
        cure = f"renew the certificate of {attempt.cluster}, and check both clocks"
    elif code == _NOT_YET:
        cure = "check both clocks"
    elif code in _NO_ISSUER:
        cure = f"add the authority of {attempt.cluster} to our trust bundle"
    else:
        cure = f"run `replicator pki check` on the certificate of {attempt.cluster}"
    return RefusedError(message, cure=cure, code="untrusted_peer")


def _tls(reason: str, attempt: Attempt) -> ReplicatorError | None:
    for alert, (why, cure) in _ALERTS.items():
        if "ALERT" in reason and reason.endswith(alert):
            message = f"{attempt.peer} refused us: {why}"
            return RefusedError(message, cure=cure, code="certificate_refused")
    if reason.endswith(_PROTOCOL):
        message = f"{attempt.peer} does not speak TLS 1.3"
        return TransportError(message, cure="check host and port of the peer's url")
    return None


def _closed_after_handshake(attempt: Attempt, own: Credentials, now: datetime) -> ReplicatorError:
    for finding in own.findings(now):
        if finding.fatal:
            message = f"{attempt.peer} closed right after the handshake: {finding.message}"
            return RefusedError(message, cure=finding.cure, code="certificate_refused")
    message = (
        f"{attempt.peer} closed right after the handshake; it likely does not trust our certificate"
    )
    cure = "see the log of that agent, and whether its trust bundle holds our authority"
    return TransportError(message, cure=cure)
