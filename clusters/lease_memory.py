"""A lease in memory: for the simulated cluster, for tests, and what the other stores must match."""

from __future__ import annotations

from clusters.errors import LeaseConflictError
from clusters.lease import LeaseClaim, LeaseRecord


class MemoryLease:
    """Implements :class:`~clusters.lease.LeaseStore`; whoever shares it holds the same object.

    :meth:`look` and :meth:`swap` are the same without waiting, for virtual time.
    """

    def __init__(self) -> None:
        """There is no lease yet."""
        self._record: LeaseRecord | None = None
        self._writes = 0

    def look(self) -> LeaseRecord | None:
        """See :meth:`read`; never fails."""
        return self._record

    def swap(self, claim: LeaseClaim, after: LeaseRecord | None) -> LeaseRecord:
        """See :meth:`write`; fails with a conflict only."""
        if self._record != after:
            message = "another agent wrote the lease"
            raise LeaseConflictError(message, cure="it is read again by itself")
        self._writes += 1
        mark = str(self._writes)
        self._record = LeaseRecord(claim.holder, claim.transitions, claim.duration, mark, mark)
        return self._record

    def delete(self) -> None:
        """Somebody removes the lease."""
        self._record = None

    async def read(self) -> LeaseRecord | None:
        """See :class:`~clusters.lease.LeaseStore`."""
        return self.look()

    async def write(self, claim: LeaseClaim, after: LeaseRecord | None) -> LeaseRecord:
        """See :class:`~clusters.lease.LeaseStore`."""
        return self.swap(claim, after)
