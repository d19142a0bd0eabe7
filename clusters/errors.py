"""Errors of the cluster side.

One root, :class:`ClusterError`.  Every error carries ``code`` (stable, snake_case, used in JSON and
metrics) and ``cure`` (one sentence: what the person reading should do).  Foreign exceptions are
mapped to these at the I/O edge with ``raise ... from``.
"""

from __future__ import annotations


class ClusterError(Exception):
    """Root of everything the ``clusters`` package raises on purpose.

    State is unchanged unless a subclass says otherwise.
    """

    code = "cluster_error"

    def __init__(self, message: str, *, cure: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message}; {self.cure}" if self.cure else self.message


class ManifestError(ClusterError):
    """A manifest (file, API object, event) is not what its schema says.  The writer's fault."""

    code = "bad_manifest"


class AddressError(ClusterError):
    """An endpoint address must not travel.  ``reason`` is the counter's label (rule E8)."""

    code = "bad_address"

    def __init__(self, reason: str, address: str) -> None:
        super().__init__(f"address {address!r} refused: {reason}")
        self.reason = reason


class WriteError(ClusterError):
    """One write was refused by the cluster.  Others are unaffected; see ``retryable``.

    ``retryable`` False means the same object will be refused again (the API server's validation),
    so the caller records it and goes on; True means back off and plan again from fresh state.
    """

    code = "write_refused"

    def __init__(
        self, message: str, *, cure: str = "", code: str | None = None, retryable: bool
    ) -> None:
        super().__init__(message, cure=cure, code=code)
        self.retryable = retryable


class NamespaceUnavailableError(ClusterError):
    """The target namespace is missing or terminating.

    The caller waits for the namespace's event (the cluster reports the key again); no retries.
    """

    code = "namespace_unavailable"


class ClusterUnavailableError(ClusterError):
    """The cluster cannot be reached or refuses us for now; the caller backs off."""

    code = "cluster_unavailable"


class LeaseConflictError(ClusterError):
    """Somebody else wrote the lease since it was read; nothing was written.  Read it again."""

    code = "lease_conflict"
