"""Errors of the replicator.

One root, :class:`ReplicatorError`.  Every error carries ``code`` (stable, snake_case, used in
JSON, metrics and over HTTP) and ``cure`` (one sentence: what the person reading should do).  The
class says whose fault it is, which also decides the exit status of the command.  Foreign exceptions
are mapped to these at the I/O edge with ``raise ... from``.
"""

from __future__ import annotations


class ReplicatorError(Exception):
    """Root of everything the ``replicator`` package raises on purpose.

    State is unchanged unless a subclass says otherwise.
    """

    code = "replicator_error"

    def __init__(self, message: str, *, cure: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.message}; {self.cure}" if self.cure else self.message


class ConfigError(ReplicatorError):
    """The configuration is wrong.  The operator's fault; nothing was started (exit status 2)."""

    code = "bad_config"


class PkiError(ReplicatorError):
    """A certificate, key or bundle cannot be used.  The operator's fault; the one in use stays."""

    code = "bad_certificate"


class ProtocolError(ReplicatorError):
    """A peer said something that is not allowed.  The peer's fault; our state is unchanged.

    The only error peer input may raise.  The caller ends that peer's link and goes on.
    """

    code = "protocol_error"


class JournalError(ReplicatorError):
    """The state folder cannot be used.  Nothing that was not on disk has been announced.

    The caller stops the agent: going on would promise what a restart could not keep.
    """

    code = "journal_failed"


class TransportError(ReplicatorError):
    """A peer did not answer, or the link to it broke.  Nobody's fault; the caller tries again."""

    code = "unreachable"


class RefusedError(ReplicatorError):
    """The other side refused us (TLS, identity, rights).  Ours to mend (exit status 4)."""

    code = "refused"


class InputError(ReplicatorError):
    """An argument or a file given to a command is wrong.  The caller's fault (exit status 2)."""

    code = "bad_input"


class UnreachableError(ReplicatorError):
    """The command cannot reach its agent; ask again when it runs (exit status 3)."""

    code = "agent_unreachable"


class NotGood(ReplicatorError):  # noqa: N818  A verdict, not a failure: the check itself went well.
    """What was checked is not good (exit status 1); the command has already shown what it found."""

    code = "not_good"
