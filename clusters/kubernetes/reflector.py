"""Keeps one collection in step with the API server: performs what the list-watch machine decides.

Decides nothing itself.  Objects go out through a :class:`Sink` before the machine takes note of
their version, so a version never runs ahead of what was applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol, assert_never

import structlog

from clusters.base import Clock
from clusters.errors import ClusterError
from clusters.kubernetes.client import (
    AnswerTooLargeError,
    AnswerUnreadableError,
    ApiRefusedError,
    ApiSession,
    StreamBrokenError,
)
from clusters.kubernetes.deadline import Deadline
from clusters.kubernetes.list_watch import Listing, ListPage, ListWatch, OpenWatch, Relist, Wait
from clusters.kubernetes.objects import Resource
from clusters.kubernetes.settings import WatchSettings
from clusters.kubernetes.troubles import Trouble
from clusters.kubernetes.watch_decoder import ObjectEvent, WatchDecoder, WatchEvent

_log = structlog.get_logger()


class Sink(Protocol):
    """Where objects go.  Called from the reflector's task; must not block."""

    def listed(self, resource: Resource, listing: Listing) -> bool:
        """Take a complete list; returns whether it differed from what was known."""
        ...

    def happened(self, resource: Resource, event: ObjectEvent) -> None:
        """Take one change."""
        ...

    def progressed(self) -> None:
        """Something may have become synced."""
        ...


class Reflector:
    """Lists and watches one collection until cancelled."""

    def __init__(
        self,
        machine: ListWatch,
        *,
        clock: Clock,
        settings: WatchSettings,
        lists: asyncio.Lock,
        sink: Sink,
    ) -> None:
        """``lists`` is shared by all reflectors of one API server: one list in flight."""
        self.machine = machine
        self._clock = clock
        self._settings = settings
        self._lists = lists
        self._sink = sink
        self._told: str | None = None
        self._deadline: Deadline | None = None
        """Of the open watch."""

    def reread(self) -> int:
        """Have everything listed anew, at once; returns a number for :meth:`ListWatch.was_read`."""
        number = self.machine.reread(self._now)
        if self._deadline is not None:
            self._deadline.move(self.machine.deadline)
        return number

    async def run(self, session: ApiSession) -> None:
        """Never returns; raises only surprises."""
        while True:
            step = self.machine.step(self._now)
            match step:
                case Wait():
                    await self._clock.sleep(step.until - self._now)
                case ListPage():
                    async with self._lists:
                        await self._list(session)
                case OpenWatch():
                    await self._watch(session, step)
                case _:  # pragma: no cover
                    assert_never(step)
            self._tell()
            self._sink.progressed()

    @property
    def _now(self) -> float:
        return self._clock.monotonic()

    async def _list(self, session: ApiSession) -> None:
        """Get pages for as long as the machine wants them without a pause."""
        while isinstance(step := self.machine.step(self._now), ListPage):
            limit = self._settings.page_bytes
            try:
                document = await session.call("GET", step.path, query=step.query, limit=limit)
            except ApiRefusedError as error:
                self.machine.refused(error.status, self._now)
            except AnswerTooLargeError:
                self.machine.page_too_large(self._now)
            except AnswerUnreadableError:
                self.machine.unreadable(self._now)
            except ClusterError as error:
                self.machine.unreachable(error, self._now)
            else:
                listing = self.machine.page(document, self._now)
                if listing is not None:
                    self._listed(listing)

    def _listed(self, listing: Listing) -> None:
        changed = self._sink.listed(self.machine.resource, listing)
        name, reason = self.machine.resource.name, listing.reason
        missed = reason is Relist.AUDIT and listing.silent and changed
        if missed or reason is Relist.TOO_LARGE_VERSION:
            self.machine.counters["watch_history_rewound_total"] += 1
            _log.warning("watch_history_rewound", resource=name, reason=reason.value)
        _log.debug("listed", resource=name, reason=reason.value, items=len(listing.items))

    async def _watch(self, session: ApiSession, step: OpenWatch) -> None:
        decoder = WatchDecoder(self._settings.line_bytes)
        try:
            async with session.watch(step.path, step.query) as chunks:
                self.machine.opened(self._now)
                async with Deadline(self._clock, self.machine.deadline) as self._deadline:
                    going = await self._read(chunks, decoder, self._deadline)
        except TimeoutError:
            self.machine.timed_out(self._now)
        except ApiRefusedError as error:
            self.machine.refused(error.status, self._now)
        except StreamBrokenError as error:
            _log.debug("watch_broken", resource=self.machine.resource.name, detail=str(error))
            if self._take(decoder.finish()):
                self.machine.ended(self._now, clean=False)
        except ClusterError as error:
            self.machine.unreachable(error, self._now)
        else:
            if going and self._take(decoder.finish()):
                self.machine.ended(self._now, clean=True)
        finally:
            self._deadline = None

    async def _read(
        self, chunks: AsyncIterator[bytes], decoder: WatchDecoder, deadline: Deadline
    ) -> bool:
        """Read to the end of the stream; False when the machine wanted no more."""
        async for chunk in chunks:
            if not self._take(decoder.feed(chunk)):
                return False
            deadline.move(self.machine.deadline)
        return True

    def _take(self, events: list[WatchEvent]) -> bool:
        for event in events:
            if isinstance(event, ObjectEvent):
                self._sink.happened(self.machine.resource, event)
            if not self.machine.event(event, self._now):
                return False
        return True

    def _tell(self) -> None:
        """One log line for each change of trouble."""
        trouble: Trouble | None = self.machine.trouble(self._now)
        reason = None if trouble is None else trouble.reason
        if reason == self._told:
            return
        self._told = reason
        name = self.machine.resource.name
        if trouble is None:
            _log.info("watch_recovered", resource=name)
        else:
            _log.warning(
                "watch_troubled",
                resource=name,
                code=reason,
                detail=trouble.message,
                cure=trouble.cure,
            )
