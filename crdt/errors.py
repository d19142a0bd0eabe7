"""Errors of the ``crdt`` package.

One root, :class:`CrdtError`.  ``code`` is stable and machine-readable.  Unless a class says
otherwise the object that raised is unchanged.
"""

from __future__ import annotations


class CrdtError(Exception):
    """Root of everything this package raises on purpose."""

    code = "crdt_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class StampError(CrdtError):
    """A text or number is not a stamp.  The giver's fault; ``code`` says which rule."""

    code = "bad_tag"


class GapError(CrdtError):
    """A chunk starts after the staged position (rule C2).  Ask again from that position."""

    code = "gap"


class StaleError(CrdtError):
    """A head or delta does not move this replica forward; nothing to do."""

    code = "stale"


class ContinuityError(CrdtError):
    """A delta cannot continue from what is committed here (rule C10); a snapshot is needed."""

    code = "needs_snapshot"


class MismatchError(CrdtError):
    """Count or root after applying the staged entries differ from the head's.

    The committed state is unchanged; the staged entries are worthless and to be discarded.
    """

    code = "root_mismatch"


class CanonicalError(CrdtError):
    """A value has no canonical form (type, depth or number out of range)."""

    code = "not_canonical"
