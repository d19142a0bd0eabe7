"""Runs one agent's election over its cluster's lease, and has the replica lead or stand by.

Thin: what to ask of the lease and when is the elector's (:mod:`replicator.election`), what leading
means is the replica's (:mod:`replicator.siblings`).  One call at a time; one that takes too long is
cancelled and counts as failed.

Who holds the lease leads as soon as it may publish and holds what others advertise of its origin,
or half a second later without that: then peers take a snapshot where a delta would have done.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

import structlog

from clusters.base import Clock
from clusters.errors import ClusterError, ClusterUnavailableError, LeaseConflictError
from clusters.lease import LeaseRecord, LeaseStore
from replicator.effects import Effect
from replicator.election import Elector, ReadLease, Step
from replicator.freshness import LAGGING_DIRECT_SECONDS
from replicator.race import race
from replicator.replica import Replica

BEHIND_SECONDS = 0.5
"""How long a holder of the lease waits for what others have of its origin."""
_LEAST_WAIT_SECONDS = 0.001
_log = structlog.get_logger()


class Leadership:
    """One agent's part in leading its cluster."""

    def __init__(
        self,
        store: LeaseStore,
        elector: Elector,
        replica: Replica,
        clock: Clock,
        perform: Callable[[list[Effect]], None],
        may_begin: Callable[[], bool],
        began: Callable[[], None],
    ) -> None:
        """``perform`` carries out effects and ``began`` is called as leading begins.

        Neither blocks.  No term begins before ``may_begin``.
        """
        self._store = store
        self._elector = elector
        self._replica = replica
        self._clock = clock
        self._perform = perform
        self._may_begin = may_begin
        self._began = began
        self._wake = asyncio.Event()
        self._over = asyncio.Event()
        self._stopping = False
        self._contacts: set[str] = set()
        self._ripe_since: float | None = None
        self.failing: ClusterError | None = None
        """Why the last call about the lease failed."""

    @property
    def holder(self) -> str:
        """Instance id of who held the lease when it was last looked at; "" for nobody."""
        return self._elector.holder

    # ---- the loop ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take part until :meth:`release` or cancelled."""
        while not self._elector.finished:
            step = self._elector.step(self._clock.monotonic())
            if step is None:
                await self._wait(self._elector.wake_at)
            else:
                await self._ask(step)
            self.settle()
        self._over.set()

    async def _wait(self, until: float) -> None:
        """Until a time has come or something is to be looked at anew."""
        if until < math.inf:
            seconds = max(until - self._clock.monotonic(), _LEAST_WAIT_SECONDS)
            await race(self._wake.wait(), self._clock.sleep(seconds))
        else:
            await self._wake.wait()
        self._wake.clear()

    async def _ask(self, step: Step) -> None:
        call = asyncio.ensure_future(self._call(step))
        await race(call, self._clock.sleep(step.until - self._clock.monotonic()))
        now = self._clock.monotonic()
        error = _error_of(call)
        if isinstance(error, LeaseConflictError):
            self._elector.conflicted(now)
        elif error is not None:
            self._elector.failed(now)
        elif isinstance(step, ReadLease):
            self._elector.was_read(call.result(), now)
        else:
            record = call.result()
            assert record is not None  # noqa: S101 - a write answers what it wrote
            self._elector.wrote(record, now)
        self._note(error)

    async def _call(self, step: Step) -> LeaseRecord | None:
        if isinstance(step, ReadLease):
            return await self._store.read()
        return await self._store.write(step.claim, step.after)

    def _note(self, error: ClusterError | None) -> None:
        if isinstance(error, LeaseConflictError):
            return
        former, self.failing = self.failing, error
        if error is not None and (former is None or former.code != error.code):
            _log.warning("lease_failing", code=error.code, why=str(error))

    # ---- what came of it -----------------------------------------------------------------------

    def settle(self) -> None:
        """Lead or stand by as the lease says now; to be called often, as it ends by itself."""
        now = self._clock.monotonic()
        self._meet(now)
        if self._stopping:
            return
        number = self._elector.leads(now)
        if number is None:
            self._ripe_since = None
            self._perform(self._replica.stand_by("lease_lost", now))
            return
        begins = not self._replica.own.leading
        if begins and not self._is_ripe(now):
            return
        until, wall_ns = self._elector.leads_until, self._clock.wall_ns()
        self._perform(self._replica.lead(number, until, now, wall_ns))
        if begins:
            self._began()

    def _is_ripe(self, now: float) -> bool:
        """Whether the term may begin that the lease gives us."""
        if not self._may_begin():
            return False
        if self._ripe_since is None:
            self._ripe_since = now
        return not self._replica.siblings.behind or now >= self._ripe_since + BEHIND_SECONDS

    def claim(self, above: int) -> None:
        """The replica asks for a look at the lease; whoever leads then does so above ``above``."""
        now = self._clock.monotonic()
        self._meet(now)
        if above:
            self._elector.exceed(above, now)
        else:
            self._elector.released(now)
        self._wake.set()

    def _meet(self, now: float) -> None:
        """Tell the elector of siblings that are heard again, or not any more.

        Of a machine that is gone no link breaks before ten silent seconds; two beats are enough.
        """
        me = self._replica.me.cluster
        present = {
            session.peer.instance
            for session in self._replica.sessions.values()
            if session.peer is not None
            and session.cluster == me
            and not session.closing
            and now - session.heard_at <= LAGGING_DIRECT_SECONDS
        }
        former, self._contacts = self._contacts, present
        for instance in present - former:
            self._elector.contact_made(instance)
        for instance in former - present:
            self._elector.contact_lost(instance, now)
            self._wake.set()

    # ---- a clean stop --------------------------------------------------------------------------

    def heard(self) -> bool:
        """Whether every sibling that is linked holds what we published last."""
        own = self._replica.own
        head = own.published_head
        if head is None or not own.leading:
            return True
        adverts = [
            session.adverts.get(own.origin)
            for session in self._replica.sessions.values()
            if session.cluster == self._replica.me.cluster and session.peer is not None
        ]
        return all(advert is not None and advert.version >= head.version for advert in adverts)

    async def release(self, seconds: float) -> None:
        """Give the lease back and stand by; waits at most ``seconds`` for that to be written.

        Whoever calls has published its last, lets :meth:`run` go on, and ends its links after.
        """
        self._stopping = True
        self._elector.stop(self._clock.monotonic())
        self._wake.set()
        await race(self._over.wait(), self._clock.sleep(seconds))
        self._perform(self._replica.stand_by("stopping", self._clock.monotonic()))


def _error_of(call: asyncio.Future[LeaseRecord | None]) -> ClusterError | None:
    """What went wrong with a call that has ended; raises what no store should raise."""
    if call.cancelled():
        cure = "see to it that it answers; whoever leads stops after 10 s without it"
        return ClusterUnavailableError("the lease does not answer", cure=cure, code="lease_slow")
    error = call.exception()
    if error is None or isinstance(error, ClusterError):
        return error
    raise error
