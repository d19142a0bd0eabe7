"""Who of a cluster's agents writes: an elector for one agent over a shared lease (rule C10).

Pure: it says what to ask of the lease and when, and is told what came of it.  All times are
readings of this agent's own monotonic clock, in seconds; no two clocks are ever compared.

**The leader** renews every 2 s.  Once 10 s have gone by since it *began* the last renewal that
succeeded it leads no more, whatever it hopes to hear.  **A stand-by** reads every 2 s and takes a
lease that is free, or that it has itself seen unchanged for the 15 s its holder asked for.  Since
it sees a renewal no earlier than the holder began it, the holder has then stopped for 5 s.

**A crash is taken over within 10 s**, before the lease runs out: when the link to the holder broke
*and* three renewals in a row (6 s) are missing, the lease is taken early.  A holder that lives on
but reaches neither us nor the lease may then believe that it leads for up to 10 - 6 = 4 s longer.
That is safe, because belief is not what protects the set: the number under which the lease is
taken is the epoch, it is higher than any before, and everybody refuses what comes under a lower one
once it knows the higher.  The holder's next renewal fails too, as the lease has changed.  Early
taking costs at most a needless epoch, never a wrong view.  One condition alone is not enough: a
broken link says nothing about the lease, and 6 s without a renewal may be a slow API server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from clusters.lease import LeaseClaim, LeaseRecord

_RELEASED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Times in seconds; the defaults are client-go's and those of the design."""

    duration: float = 15.0
    """How long others wait without a renewal."""
    deadline: float = 10.0
    """How long a leader leads without a renewal; less than ``duration``."""
    retry: float = 2.0
    """From the beginning of one attempt to the next."""
    early: float = 6.0
    """How long a holder must not have renewed whose link broke."""
    attempt: float = 3.0
    """How long one call may take; three fit into ``deadline``."""


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Read the lease; answer with ``was_read``, or ``failed`` at the latest at ``until``."""

    until: float


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write the lease; answer with ``wrote``, ``conflicted``, or ``failed`` latest at ``until``."""

    claim: LeaseClaim
    after: LeaseRecord | None
    until: float


Step = ReadLease | WriteLease


class Elector:
    """One agent's part in the election.

    The caller runs :meth:`step` at :attr:`wake_at` and after every call of another method, carries
    out what it returns (one call at a time), and asks :meth:`leads` before every write of the set:
    leading ends at a time, not with a call.

    **A clean stop** gives the lease back, so whoever hears of it (:meth:`Elector.released`) or
    loses the link (:meth:`Elector.contact_lost`) takes it with its next read, which is at once.

    The lease may vanish: it then counts as held, unchanged, by whom held it last, who makes it
    again at once.  A taking whose answer was lost is never believed in: it is repeated under
    the next number. Whoever had never seen it begins at one again; that such a number is no new
    epoch is found out when heads of the former writer are met (:meth:`Elector.exceed`).
    """

    def __init__(self, me: str, timing: LeaseTiming | None = None, *, former: str = "") -> None:
        """``me`` is this life's instance id: no other process has it, nor this one's next life.

        ``former`` is the id of a life that is certainly over (it held our state folder, which one
        process can hold at a time): what it left is taken without waiting.
        """
        self._me = me
        self._over = frozenset({"", me, former})
        self._timing = timing or LeaseTiming()
        self._record: LeaseRecord | None = None
        """As last read or written; None when there is none."""
        self._last: LeaseRecord | None = None
        """The last one that there was."""
        self._since = 0.0
        """When the lease was first seen as it is."""
        self._unread = True
        """It is to be read before the next write."""
        self._number: int | None = None
        self._renewed = 0.0
        """When the last renewal that succeeded was begun."""
        self._highest = 0
        """Of the numbers that the lease had."""
        self._epoch = 0
        """Of those that the caller met."""
        self._lost: set[str] = set()
        self._next = -math.inf
        self._doing: Step | None = None
        self._began = 0.0
        self._again = False
        self._wrote = False
        self._give_up = math.inf
        self._finished = False

    # ---- questions -----------------------------------------------------------------------------

    def leads(self, now: float) -> int | None:
        """The number under which this agent may write now, or None."""
        return self._number if now < self._ends else None

    @property
    def leads_until(self) -> float:
        """Until when what :meth:`leads` says holds unless the lease is renewed."""
        return self._ends

    @property
    def holder(self) -> str:
        """Who held the lease when it was last looked at; "" for nobody."""
        return "" if self._last is None else self._last.holder

    @property
    def finished(self) -> bool:
        """After :meth:`stop`: nothing is left to do."""
        return self._finished

    @property
    def wake_at(self) -> float:
        """When :meth:`step` or :meth:`leads` has something new to say unless told more before."""
        idle = self._doing is not None or self._finished
        at = math.inf if idle else min(self._next, self._give_up)
        return at if self._number is None else min(at, self._ends)

    @property
    def _ends(self) -> float:
        return self._renewed + self._timing.deadline

    @property
    def _stopping(self) -> bool:
        return self._give_up < math.inf

    @property
    def _is_ours(self) -> bool:
        return self._record is not None and self._record.holder == self._me

    @property
    def _free_at(self) -> float:
        """From when on the lease may be taken if it stays as it is."""
        last = self._last
        if last is None or last.holder in self._over:
            return -math.inf
        wait = last.duration
        if last.holder in self._lost:
            wait = min(wait, self._timing.early)
        return self._since + wait

    # ---- what to do ----------------------------------------------------------------------------

    def step(self, now: float) -> Step | None:
        """The next call to make, which then counts as begun; None while there is none."""
        self._expire(now)
        self._finished = self._finished or now >= self._give_up
        if self._doing is not None or self._finished or now < self._next:
            return None
        until = min(now + self._timing.attempt, self._give_up)
        if self._unread or (self._number is None and now < self._free_at):
            self._doing = ReadLease(until)
        else:
            self._wrote = True
            self._doing = WriteLease(self._claim(), self._record, until)
        self._began, self._again = now, False
        return self._doing

    def _expire(self, now: float) -> None:
        """Whoever led too long without a renewal never leads again under that number."""
        if self._number is not None and now >= self._ends:
            self._number, self._unread = None, True

    def _claim(self) -> LeaseClaim:
        """What to say of the lease, which is known and ours to write."""
        if self._stopping:
            return LeaseClaim("", self._highest, _RELEASED_SECONDS)
        if self._number is not None and self._number > self._epoch:
            return LeaseClaim(self._me, self._number, self._timing.duration)
        number = max(self._highest, self._epoch) + 1
        return LeaseClaim(self._me, number, self._timing.duration)

    # ---- what came of it -----------------------------------------------------------------------

    def was_read(self, record: LeaseRecord | None, now: float) -> None:
        """The lease as it was at some time since the step."""
        self._end(now)
        self._see(record, now)
        if self._stopping and not self._is_ours:
            self._finished = True
        if not self._is_ours or self._highest != self._number:
            self._number = None
        self._unread = self._number is None and now < self._free_at
        self._next = min(self._next, self._free_at) if self._unread else now

    def wrote(self, record: LeaseRecord, now: float) -> None:
        """The lease is now as the step wanted it, and ``record`` says so."""
        step = self._end(now)
        renewal = isinstance(step, WriteLease) and step.claim.transitions == self._highest
        self._see(record, now)
        if not self._is_ours:
            self._finished = True
        elif self._stopping or (renewal and self._number is None):
            self._next = now
        else:
            self._number, self._renewed = record.transitions, self._began

    def conflicted(self, now: float) -> None:
        """The lease is another one than we knew: by somebody else, or a call of ours thought lost.

        We may still lead, if so; but it is read before it is written.
        """
        self._end(now)
        self._unread, self._next = True, now

    def failed(self, now: float) -> None:
        """No answer or a refusal; whether it was done, or will yet be, is unknown."""
        self._end(now)
        self._unread = self._unread or self._number is None

    def _end(self, now: float) -> Step:
        self._expire(now)
        step, self._doing = self._doing, None
        if step is None:
            message = "an answer without a step"
            raise RuntimeError(message)
        self._next = now if self._again else max(now, self._began + self._timing.retry)
        return step

    def _see(self, record: LeaseRecord | None, now: float) -> None:
        known, self._record = self._record, record
        if record is None:
            self._since = self._since if known is None else now
            return
        if known is None or known.renewals != record.renewals:
            self._since = now
            self._lost &= {record.holder}
        self._last = record
        self._highest = max(self._highest, record.transitions)

    # ---- what else the caller knows ------------------------------------------------------------

    def exceed(self, epoch: int, now: float) -> None:
        """A head of our own origin was met in this epoch, by another writer than this agent.

        Whatever is taken from now on has a higher number; a leader with no higher one takes its own
        lease anew, and leads under the former number until that is done.
        """
        self._epoch = max(self._epoch, epoch)
        if self._number is not None and self._number <= epoch:
            self._hurry(now)

    def contact_lost(self, instance: str, now: float) -> None:
        """The link to a sibling broke that was there; ended politely or not."""
        self._lost.add(instance)
        self.released(now)

    def contact_made(self, instance: str) -> None:
        """There is a link to a sibling."""
        self._lost.discard(instance)

    def released(self, now: float) -> None:
        """The holder told that it gave the lease back: look at once."""
        if self._number is None:
            self._hurry(now)

    def stop(self, now: float) -> None:
        """Lead no more, give the lease back if it is ours; :attr:`finished` says when that is done.

        Whoever calls has written its last before, and ends its links after.
        """
        self._number = None
        self._unread = not self._is_ours or self._unread
        self._give_up = now + self._timing.attempt
        self._finished = not self._wrote
        self._hurry(now)

    def _hurry(self, now: float) -> None:
        self._again = True
        self._next = min(self._next, now)
