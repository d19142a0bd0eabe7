"""The lease that two agents of one cluster share: who may write, and under which number (rule C10).

A lease is one small record that changes by compare-and-swap only, so whatever its holders believe,
its history is one line.  ``transitions`` rises with every taking; it is the fencing number that
becomes the epoch.  When to take, renew and give it up is decided elsewhere
(``replicator.election``); a store only keeps it.

Nobody's wall clock is ever compared with another's: an observer times, on its own monotonic clock,
how long a record has stayed the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LeaseClaim:
    """What a writer wants the lease to say."""

    holder: str
    """Instance id of the agent that holds it; "" gives it back."""
    transitions: int
    """The fencing number, from 1 up: higher with every taking, the same when renewed or released.

    Whoever takes it may set it as high as is needed to exceed an epoch it has seen.
    """
    duration: float
    """Seconds that others should wait without a renewal; a store may round up to whole ones."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What the lease said at one moment."""

    holder: str
    transitions: int
    duration: float
    renewals: str
    """Opaque; differs after every write through a :class:`LeaseStore`, and only the equality of
    two means anything.  Two records with the same mark: nobody renewed in between."""
    version: str
    """Opaque, for :meth:`LeaseStore.write`; may change more often than ``renewals`` does."""


class LeaseStore(Protocol):
    """Keeps one lease, for any number of processes.

    Every call may be cancelled; whether a cancelled or failed write was done is unknown, and it may
    still be done later (the compare-and-swap sees to it that it then does no harm).
    """

    async def read(self) -> LeaseRecord | None:
        """The present record, never an older one than any read or write before; None for none.

        Raises :class:`~clusters.errors.ClusterUnavailableError` when it cannot be read now.
        """
        ...

    async def write(self, claim: LeaseClaim, after: LeaseRecord | None) -> LeaseRecord:
        """Replace exactly ``after`` (None: there is none yet), and return what is there then.

        Raises :class:`~clusters.errors.LeaseConflictError` when the record is another one: nothing
        was written, read again.  Raises :class:`~clusters.errors.ClusterUnavailableError` for
        everything else.
        """
        ...
