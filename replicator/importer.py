"""Replica to cluster: a level-based controller that writes what others offer.

For each touched service it plans the difference between what should exist and what the cluster
shows, and carries it out.  Memory of earlier writes is never trusted over what the cluster shows.
Nothing of a source cluster is deleted before a complete state of that cluster is known
(``deletable``).  Of a cluster that fell silent, is drained or has a weight is written what that
leaves of it (:mod:`replicator.visibility`); what would take most of a service away on the word of a
cluster that was silent is held back (:mod:`replicator.withdrawals`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from clusters.base import Clock, Cluster
from clusters.errors import ClusterUnavailableError, NamespaceUnavailableError, WriteError
from clusters.model import Endpoint, ServiceKey, SliceChange
from clusters.slice_names import source_cluster_of
from clusters.work_queue import WorkQueue
from replicator.fights import Fights, named
from replicator.planners import Planner, SlicePlanner
from replicator.visibility import Visibility
from replicator.watchdog import Watchdog
from replicator.withdrawals import Withdrawals, described

_WORKERS = 4
_STUCK_SECONDS = 60.0
"""No write takes so long: each has a shorter deadline of its own."""
_REFUSED_SECONDS = 600.0
"""An object refused for good is not sent again, unchanged, for this long."""
_log = structlog.get_logger()

View = Callable[[ServiceKey], Mapping[str, list[Endpoint]]]
"""Visible endpoints of a service by source cluster, ours left out."""


class Importer:
    """Writes the view of others into one cluster."""

    def __init__(  # noqa: PLR0913 - what decides, and what is decided by
        self,
        cluster: Cluster,
        queue: WorkQueue[ServiceKey],
        view: View,
        deletable: Callable[[str], bool],
        clock: Clock,
        visibility: Visibility,
        *,
        withdrawals: Withdrawals,
        planner: Planner | None = None,
        writes: Callable[[], bool] = lambda: True,
        timed: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``deletable(cluster)`` says whether objects of that source cluster may be deleted.

        Without a ``planner`` slices alone are written.  Whoever does not write now (``writes``)
        lets the keys pass: when it begins to, all of them are to be queued again.  ``timed`` is
        told the seconds of each reconcile, its writes included.
        """
        self._cluster = cluster
        self._queue = queue
        self._view = view
        self._deletable = deletable
        self._clock = clock
        self._visibility = visibility
        self.withdrawals = withdrawals
        self._planner = SlicePlanner() if planner is None else planner
        self._may_write = writes
        self._timed = timed
        self.waiting: dict[ServiceKey, str] = {}
        """Services that wait for their namespace, with the reason."""
        self.failing: dict[ServiceKey, str] = {}
        """Services whose last write was refused, with why."""
        self._refused: dict[tuple[str, ...], tuple[SliceChange, str, float]] = {}
        self._fights = Fights()
        self._watchdog: Watchdog[ServiceKey] = Watchdog(_STUCK_SECONDS)
        self._at_work: dict[ServiceKey, asyncio.Task[None]] = {}
        self._given_up: set[ServiceKey] = set()
        self._writes: dict[str, int] = {}
        self._errors: dict[str, int] = {}

    async def run(self) -> None:
        """Write for ever; a service is never worked on twice at once."""
        await self._cluster.wait_synced()
        self._queue.add_all(sorted(self._cluster.owned_services()))
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._watchdog.progress(key, self._clock.monotonic())
            try:
                again = await self._watched(key)
            finally:
                self._queue.done(key)
            if again:
                self._queue.retry(key)
            else:
                self._queue.forget(key)

    async def _watched(self, key: ServiceKey) -> bool:
        """:meth:`reconcile`, which :meth:`review` may give up when it is stuck."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        self._at_work[key] = task
        well = False
        try:
            again = await self.reconcile(key)
            well = True
        except asyncio.CancelledError:
            # Given up by the watchdog; whoever else cancels means the whole worker.
            if key not in self._given_up or task.uncancel() > 0:
                raise
            self.failing[key] = f"given up: nothing moved for {_STUCK_SECONDS:.0f} s"
            again = True
        finally:
            del self._at_work[key]
            self._given_up.discard(key)
            self._watchdog.ended(key, well=well)
        return again

    async def reconcile(self, key: ServiceKey) -> bool:
        """Write what ``key`` lacks; True when it should be tried again after a back-off."""
        if not self._may_write():
            self.waiting.pop(key, None)
            self.failing.pop(key, None)
            return False
        self.waiting.pop(key, None)
        began = self._clock.monotonic()
        again, refused = await self._carry_out(key, self._planned(key))
        self._timed(self._clock.monotonic() - began)
        if refused is None:
            self.failing.pop(key, None)
        else:
            self.failing[key] = refused
        return again

    def _planned(self, key: ServiceKey) -> Sequence[SliceChange]:
        owned = self._cluster.owned(key)
        stated = self._view(key)
        seen = self._visibility.seen(key, stated, owned)
        kept = self.withdrawals.kept(key, stated, owned, {*seen.held, *seen.withdrawn})

        def deletable(cluster: str) -> bool:
            held = cluster in kept or cluster in seen.held
            return cluster in seen.withdrawn or (not held and self._deletable(cluster))

        return self._planner.plan(key, seen, owned, deletable, self.failing.get(key, ""))

    async def _carry_out(
        self, key: ServiceKey, changes: Sequence[SliceChange]
    ) -> tuple[bool, str | None]:
        """Write; returns whether to try again, and why something was refused."""
        again, refused = False, None
        for change in changes:
            known = self._refused_before(change)
            if known is not None:
                refused = known
                continue
            if self._fights.waits(key, change, self._clock.monotonic()):
                continue
            if not self._may_write():
                break
            self._watchdog.progress(key, self._clock.monotonic())
            try:
                await self._cluster.apply(change)
            except NamespaceUnavailableError as error:
                self.waiting[key] = error.code
                break
            except ClusterUnavailableError as error:
                again, refused = True, error.message
                break
            except WriteError as error:
                again, refused = again or error.retryable, error.message
                self._note(key, change, error)
            else:
                self._fights.wrote(change, self._clock.monotonic())
                self._writes[change.op.value] = self._writes.get(change.op.value, 0) + 1
        return again, refused

    @property
    def reviews(self) -> bool:
        """Whether :meth:`review` can change anything, as far as is known."""
        return self._visibility.reviews

    def review(
        self,
        fresh_at: Mapping[str, float | None],
        services: Callable[[str], Collection[ServiceKey]],
        *,
        current: bool,
    ) -> None:
        """Look again at all services of clusters that fell silent, or were heard (again), just now.

        ``fresh_at`` holds when each known cluster was last heard, ``services(cluster)`` is what it
        states; before the view is ``current`` nothing is turned down.
        """
        now = self._clock.monotonic()
        self._give_up(now)
        for key in (*self._fights.due(now), *self.withdrawals.review(fresh_at, now)):
            self._queue.add(key)
        for cluster, show in self._visibility.review(fresh_at, now, current=current):
            _log.info("shown_otherwise", cluster=cluster, show=show)
            self._queue.add_all(sorted({*services(cluster), *self._written_of(cluster)}))

    def _give_up(self, now: float) -> None:
        """Free the workers of what is stuck; it is tried again after a back-off."""
        for key in self._watchdog.overdue(now):
            _log.error("write_stuck", service=str(key))
            task = self._at_work.get(key)
            if task is not None and key not in self._given_up:
                self._given_up.add(key)
                task.cancel()

    def stuck(self) -> list[str]:
        """Services whose writes do not come to an end, and for how long they have not."""
        found = self._watchdog.stuck(self._clock.monotonic())
        return [f"write_stuck: {key} for {seconds:.0f} s" for key, seconds in sorted(found.items())]

    def _written_of(self, cluster: str) -> set[ServiceKey]:
        owned = self._cluster.owned
        return {
            key
            for key in self._cluster.owned_services()
            if any(source_cluster_of(manifest) == cluster for manifest in owned(key))
        }

    def _refused_before(self, change: SliceChange) -> str | None:
        """Why this very object was refused for good a short while ago, None if it was not."""
        found = self._refused.get(named(change))
        if found is None or found[0] != change:
            return None
        return found[1] if self._clock.monotonic() < found[2] else None

    def _note(self, key: ServiceKey, change: SliceChange, error: WriteError) -> None:
        if not error.retryable:
            until = self._clock.monotonic() + _REFUSED_SECONDS
            self._refused[named(change)] = (change, error.message, until)
        self._errors[error.code] = self._errors.get(error.code, 0) + 1
        _log.warning(
            "write_refused",
            service=str(key),
            op=change.op.value,
            object=change.name,
            why=str(error),
        )

    def problems(self) -> list[dict[str, str]]:
        """What a person should look at, with its cure."""
        found = []
        for cluster in sorted(self._visibility.confirmation.doubtful):
            message = f"{cluster} was not heard in this life of the agent: written as stored"
            cure = "heal the links to it; until it is heard nothing of it is taken away"
            found.append({"code": "view_unconfirmed", "message": message, "cure": cure})
        for key, why in sorted(self.failing.items()):
            message = f"{key} is not written: {why}"
            found.append({"code": "write_refused", "message": message, "cure": ""})
        for key, why in sorted(self.waiting.items()):
            message = f"{key} is not written yet: {why}"
            cure = f"create the namespace {key.namespace}, or leave it: nothing is retried"
            found.append({"code": "imports_waiting", "message": message, "cure": cure})
        for key, cluster, removed, written in self.withdrawals.held:
            message = f"{cluster} was silent and says that {removed} of {written} of {key} are gone"
            cure = f"wait until it was heard for a while, or: replicator release {cluster}"
            found.append({"code": "withdrawal_held", "message": message, "cure": cure})
        for (kind, namespace, name, _), repairs in self._fights.present():
            message = f"{kind} {namespace}/{name} was changed by others {repairs} times"
            cure = "find who does it in its managedFields; it is restored ever more seldom"
            found.append({"code": "materialize_fight", "message": message, "cure": cure})
        return found

    def release(self, cluster: str | None, key: ServiceKey | None) -> list[dict[str, object]]:
        """Carry out what is held back now, of any cluster or service where None; returns that."""
        going = self.withdrawals.release(cluster, key)
        for one in going:
            self._queue.add(one.key)
        return [described(one) for one in going]

    def counters(self) -> dict[str, int]:
        """Writes done, refused and undone by others since the start, as metric series."""
        done = {
            f'materialize_writes_total{{operation="{op}"}}': n for op, n in self._writes.items()
        }
        refused = {f'materialize_errors_total{{reason="{r}"}}': n for r, n in self._errors.items()}
        return {
            **done,
            **refused,
            "materialize_fight_total": self._fights.total,
            "watchdog_total": self._watchdog.fired,
        }
