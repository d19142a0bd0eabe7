"""What a refused write means to the importer (kubernetes.md M5, M7).  Pure.

The API server's answer to one write becomes one of our three write errors, or the knowledge that
the write is as good as done.
"""

from __future__ import annotations

from enum import StrEnum

from clusters.errors import (
    ClusterError,
    ClusterUnavailableError,
    NamespaceUnavailableError,
    WriteError,
)
from clusters.kubernetes.api_status import ApiStatus
from clusters.kubernetes.objects import WRITTEN
from clusters.model import ChangeOp, SliceChange

_CONFLICT = 409
_FORBIDDEN = 403
_SERVER_ERRORS = 500
_TERMINATING = "NamespaceTerminating"


class ApiBusyError(ClusterUnavailableError):
    """The API server asks us to wait, or is in trouble itself; nothing was written."""

    code = "api_busy"

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, cure="it is written later by itself")
        self.retry_after = retry_after


class Meaning(StrEnum):
    """What a refusal says about the object."""

    EXISTS = "exists"
    GONE = "gone"
    CONFLICT = "conflict"
    OTHER = "other"


def meaning_of(change: SliceChange, status: ApiStatus) -> Meaning:
    """Tell the refusals that are about the object's state from all others."""
    if status.code == _CONFLICT:
        exists = change.op is ChangeOp.CREATE and status.reason != "Conflict"
        return Meaning.EXISTS if exists else Meaning.CONFLICT
    if status.not_found and change.op is not ChangeOp.CREATE and status.kind != "namespaces":
        return Meaning.GONE
    return Meaning.OTHER


def error_of(change: SliceChange, status: ApiStatus) -> ClusterError:
    """The error to raise for a refusal that is final for this attempt."""
    what = f"{change.op.value} {change.kind} {change.namespace}/{change.name}: {status}"
    terminating = _TERMINATING in status.causes or "is being terminated" in status.message
    if status.code == _FORBIDDEN and terminating:
        return NamespaceUnavailableError(what, code="namespace_terminating")
    if status.not_found:
        return NamespaceUnavailableError(what, code="no_namespace")
    if status.forbidden:
        resource = WRITTEN[change.kind]
        part = f"/{change.subresource}" if change.subresource else ""
        cure = (
            f"grant our account the verb {change.op.value} on {resource.name}{part}"
            f' in apiGroups ["{resource.group}"]'
        )
        return WriteError(what, cure=cure, code="api_forbidden", retryable=True)
    if status.unauthorized:
        cure = "renew the credentials named in the kubeconfig"
        return ClusterUnavailableError(what, cure=cure, code="api_unauthorized")
    if status.throttled or (status.code or 0) >= _SERVER_ERRORS:
        return ApiBusyError(what, retry_after=status.retry_after or 1.0)
    return WriteError(what, cure="report this as a bug, with the message", retryable=False)
