"""What to do next about one collection: list, watch or wait (kubernetes.md W1-W13).  Pure.

The life of a collection is: one complete list, then watches from its version, each resumed where
the last one ended.  A list is repeated only when the version is no longer kept, the stream cannot
be trusted, or the audit is due; every other trouble waits and resumes with the same version.

Invariants: a version is only ever compared for equality and is never None, "0" or a maximum; a list
counts only when all its pages came; a refusal is never an object.

It performs nothing: the reflector asks for the next :class:`Wait`, :class:`ListPage` or
:class:`OpenWatch` and tells what came of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, assert_never

from clusters.errors import ClusterError
from clusters.kubernetes.api_status import ApiStatus, is_status, status_of
from clusters.kubernetes.back_off import BackOff, Dice
from clusters.kubernetes.objects import (
    Name,
    Resource,
    list_query,
    name_of,
    trimmed,
    version_of,
    watch_query,
)
from clusters.kubernetes.settings import WatchSettings
from clusters.kubernetes.troubles import Trouble, broken_list, failure, refusal, silent, too_long
from clusters.kubernetes.watch_decoder import (
    Bookmark,
    BrokenLine,
    ErrorStatus,
    Fault,
    LineTooLong,
    ObjectEvent,
    UnknownEvent,
    WatchEvent,
)
from clusters.model import Manifest

_MISSING_ROUNDS = 3
_BROKEN_MOST = 3
_TOO_LARGE_MOST = 2
_THROTTLED_SECONDS = 1.0
_TICK = 1e-6


class Relist(StrEnum):
    """Why a complete list is made; the ``reason`` of ``watch_relists_total``."""

    START = "start"
    GONE = "gone"
    AUDIT = "audit"
    DECODE = "decode"
    LINE_TOO_LONG = "line_too_long"
    NOT_FOUND = "not_found"
    TOO_LARGE_VERSION = "too_large_version"


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing before ``until``."""

    until: float


@dataclass(frozen=True, slots=True)
class ListPage:
    """Get one page of a list."""

    path: str
    query: dict[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class OpenWatch:
    """Open a watch; it must be closed at :attr:`ListWatch.deadline`."""

    path: str
    query: dict[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete list."""

    items: list[Manifest] = field(hash=False)
    reason: Relist
    silent: bool
    """The watch before it had said nothing for so long that a difference means a lost history."""


class ListWatch:
    """Decides for one collection.  All times are monotonic seconds."""

    def __init__(
        self, resource: Resource, *, settings: WatchSettings, server: BackOff, rng: Dice
    ) -> None:
        """``server`` is shared by everything that lists and watches the same API server."""
        self.resource = resource
        self.counters: Counter[str] = Counter()
        self._settings = settings
        self._server = server
        self._own = BackOff(settings, rng)
        self._rng = rng
        self._served = 0
        self._missing_rounds = 0
        self._version: str | None = None
        self._listed_at: float | None = None
        self._wanted = self._list_for = self._read_for = 0
        """How many rereads were asked for: now, when the present list was begun, and as of when the
        last complete one was begun."""
        self._audit_at = 0.0
        self._relist_at = inf
        self._reason: Relist | None = Relist.START
        self._pages: list[Manifest] = []
        self._list_version: str | None = None
        self._token: str | None = None
        self._restarts = 0
        self._page_items = settings.page_items
        self._began = 0.0
        self._open = False
        self._heard_at: float | None = None
        self._event_at = 0.0
        self._too_large = 0
        self._broken = 0
        self._trouble: Trouble | None = None
        self.counters[_relists(Relist.START)] += 1

    # ---- what is known -------------------------------------------------------------------------

    @property
    def version(self) -> str | None:
        """Version the next watch resumes from; None before the first list."""
        return self._version

    @property
    def synced(self) -> bool:
        """A complete list was made, or there is surely nothing to list."""
        return self._listed_at is not None or self._missing_rounds >= _MISSING_ROUNDS

    @property
    def deadline(self) -> float:
        """When the open watch must be closed whatever it does."""
        latest = self._began + self._settings.watch_seconds + self._settings.grace_seconds
        return min(latest, self._audit_at, self._relist_at)

    def last_event_age(self, now: float) -> float | None:
        """Seconds since the server last said anything about this collection."""
        return None if self._heard_at is None else max(0.0, now - self._heard_at)

    def trouble(self, now: float) -> Trouble | None:
        """What is wrong at present, if anything."""
        if self._trouble is not None:
            lasting = self._open and now - self._began >= self._settings.short_seconds
            if not (lasting and self._trouble.in_stream):
                return self._trouble
        age = self.last_event_age(now)
        if age is not None and age > self._settings.watch_seconds + self._settings.grace_seconds:
            return silent(self.resource, age)
        return None

    def reread(self, now: float) -> int:
        """A complete list begun from now on is wanted; returns a number for :meth:`was_read`."""
        self._wanted += 1
        self._audit_at = min(self._audit_at, now)
        return self._wanted

    def was_read(self, number: int) -> bool:
        """Whether a list begun since that :meth:`reread` is complete, or there is none to make.

        There is none of an optional collection that the server does not have.
        """
        missing = self._missing_rounds >= _MISSING_ROUNDS and self._listed_at is None
        return missing or self._read_for >= number

    # ---- the next step -------------------------------------------------------------------------

    def step(self, now: float) -> Wait | ListPage | OpenWatch:
        """What to do now; asking again changes nothing."""
        if self._reason is None:
            self._look_for_due_list(now)
        until = max(self._server.not_before, self._own.not_before)
        if until - now > _TICK:
            return Wait(until)
        self._began = now
        path = self.resource.path(self.resource.versions[self._served])
        if self._reason is None and self._version is not None:
            return OpenWatch(path, watch_query(self._version, self._settings.watch_seconds))
        if self._token is None:
            self._list_for = self._wanted
        return ListPage(path, list_query(self._page_items, self._token))

    def _look_for_due_list(self, now: float) -> None:
        if now >= self._relist_at:
            self._relist(Relist.LINE_TOO_LONG)
        elif now >= self._audit_at:
            self._relist(Relist.AUDIT)

    def _relist(self, reason: Relist) -> None:
        self._reason = reason
        self.counters[_relists(reason)] += 1
        self._relist_at = inf
        self._start_list_over()

    def _start_list_over(self) -> None:
        self._pages = []
        self._list_version = None
        self._token = None

    # ---- lists ---------------------------------------------------------------------------------

    def page(self, document: Any, now: float) -> Listing | None:
        """Take in a page (decoded JSON); returns the list when this completed it."""
        self._heard_at = now
        if isinstance(document, dict) and is_status(document):
            self.refused(status_of(document), now)
            return None
        page = _page_of(document)
        if page is None or self._leads_nowhere(page):
            self.unreadable(now)
            return None
        self._take_items(page.items)
        self._list_version = self._list_version or page.version
        self._token = page.token
        return self._complete(now) if page.token is None else None

    def _leads_nowhere(self, page: _Page) -> bool:
        """Whether the server gives the page before once more, and with it the same token."""
        if page.token is None or page.token != self._token:
            return False
        before = self._pages[-len(page.items) :]
        return not page.items or _names(page.items) == _names(before)

    def _take_items(self, items: list[Any]) -> None:
        api_version = self.resource.api_version(self.resource.versions[self._served])
        for item in items:
            if isinstance(item, dict):
                item.setdefault("kind", self.resource.kind)
                item.setdefault("apiVersion", api_version)
                self._pages.append(trimmed(item))
            else:
                self.counters["watch_bad_object_total"] += 1

    def _complete(self, now: float) -> Listing:
        quiet = (
            self._listed_at is not None and now - self._event_at >= self._settings.silent_seconds
        )
        listing = Listing(self._pages, self._reason or Relist.AUDIT, quiet)
        self._version = self._list_version
        self._listed_at = self._event_at = now
        jitter = self._rng.uniform(0.75, 1.0)
        self._audit_at = now + self._settings.audit_seconds * jitter
        self._read_for = self._list_for
        if self._read_for < self._wanted:
            self._audit_at = now
        self._reason = self._trouble = None
        self._relist_at = inf
        self._restarts = self._missing_rounds = self._too_large = 0
        self._start_list_over()
        self._own.succeeded(now)
        self._server.succeeded(now)
        return listing

    def unreadable(self, now: float) -> None:
        """The page is not a page of a list (not JSON, no version, no items)."""
        self._fail("decode", broken_list(self.resource), now)
        self._start_list_over()

    def page_too_large(self, now: float) -> None:
        """The page exceeds the limit of bytes: begin anew with half the items a page."""
        self._start_list_over()
        if self._page_items == 1:
            self._fail("too_large", too_long(self.resource, None, None), now)
        else:
            self._page_items = self._page_items // 2

    # ---- refusals ------------------------------------------------------------------------------

    def refused(self, status: ApiStatus, now: float, *, in_stream: bool = False) -> None:
        """The server said no to the present attempt."""
        self._heard_at = now
        verb = "list" if self._reason is not None else "watch"
        trouble = refusal(self.resource, verb, status, in_stream=in_stream)
        if status.gone:
            self._gone(trouble, now)
        elif status.too_large and self._reason is None:
            self._ahead_of_history(trouble, status, now)
        elif status.not_found:
            self._not_found(trouble, now)
        elif status.forbidden:
            self._fail("forbidden", trouble, now)
            self._start_list_over()
        else:
            least = _THROTTLED_SECONDS if status.throttled else 0.0
            self._fail_server(
                trouble, now, least if status.retry_after is None else status.retry_after
            )
        self._open = False

    def _gone(self, trouble: Trouble, now: float) -> None:
        if self._reason is None:
            self._distrust(Relist.GONE, now)
            return
        expired_token = self._token is not None
        self._start_list_over()
        self._restarts += 1
        if not expired_token or self._restarts > self._settings.list_restarts:
            self._restarts = 0
            self._fail("gone", trouble, now)

    def _distrust(self, reason: Relist, now: float) -> None:
        """List again, but not at once if the present version is itself fresh from a list."""
        if self._listed_at is not None and now - self._listed_at < self._settings.fresh_seconds:
            self._own.failed(now, began=now)
        self._relist(reason)

    def _ahead_of_history(self, trouble: Trouble, status: ApiStatus, now: float) -> None:
        self._too_large += 1
        if self._too_large >= _TOO_LARGE_MOST:
            self._relist(Relist.TOO_LARGE_VERSION)
        else:
            self._fail_server(trouble, now, status.retry_after or _THROTTLED_SECONDS)

    def _not_found(self, trouble: Trouble, now: float) -> None:
        if self._reason is None:
            self._distrust(Relist.NOT_FOUND, now)
            return
        self._start_list_over()
        self._served = (self._served + 1) % len(self.resource.versions)
        if self._served == 0:
            self._missing_rounds += 1 if self.resource.optional else 0
            self._fail("not_found", trouble, now)

    def unreachable(self, error: ClusterError, now: float) -> None:
        """The attempt never got a whole answer; ``error`` says why."""
        self._fail_server(failure(self.resource, error), now, 0.0)
        self._open = False

    def _fail_server(self, trouble: Trouble, now: float, at_least: float) -> None:
        self.counters[_errors(trouble.reason)] += 1
        self._trouble = trouble
        self._server.failed(now, began=self._began, at_least=at_least)

    def _fail(self, reason: str, trouble: Trouble, now: float) -> None:
        self.counters[_errors(reason)] += 1
        self._trouble = trouble
        self._own.failed(now, began=self._began)

    # ---- watches -------------------------------------------------------------------------------

    def opened(self, now: float) -> None:
        """The server accepted the watch."""
        self._open = True
        self._heard_at = now
        self._own.succeeded(now)
        self._server.succeeded(now)
        if self._trouble is not None and not self._trouble.in_stream:
            self._trouble = None

    def event(self, event: WatchEvent, now: float) -> bool:
        """Take note of an event (an object is applied before); returns whether to go on reading."""
        self._heard_at = now
        match event:
            case ObjectEvent() | Bookmark():
                self._advance(event.version, now)
            case UnknownEvent():
                self.counters["watch_unknown_event_total"] += 1
            case LineTooLong():
                self._too_long(event, now)
            case BrokenLine():
                self._broken_line(event, now)
                return False
            case ErrorStatus():
                self.refused(event.status, now, in_stream=True)
                return False
            case _:  # pragma: no cover
                assert_never(event)
        return True

    def _advance(self, version: str | None, now: float) -> None:
        self._event_at = now
        self._broken = self._too_large = 0
        if self._relist_at == inf:
            self._trouble = None
        if version is not None:
            self._version = version

    def _too_long(self, event: LineTooLong, now: float) -> None:
        self.counters["watch_line_too_long_total"] += 1
        self._trouble = too_long(self.resource, event.namespace, event.name)
        if self._relist_at == inf:
            self._own.failed(now, began=now)
            self._relist_at = self._own.not_before

    def _broken_line(self, event: BrokenLine, now: float) -> None:
        self.counters[_errors(event.fault.value)] += 1
        self._open = False
        self._broken += 1
        if event.fault is Fault.NOT_UTF8 or self._broken >= _BROKEN_MOST:
            self._broken = 0
            self._distrust(Relist.DECODE, now)
        else:
            self._own.failed(now, began=now)

    def ended(self, now: float, *, clean: bool) -> None:
        """The stream ended by the server's will (``clean``) or broke; the version stays."""
        self._close(now)
        if not clean:
            self.counters[_errors("broken_stream")] += 1
            self._server.failed(now, began=self._began)
            return
        self._heard_at = now
        if now - self._began < self._settings.short_seconds:
            self._own.failed(now, began=now)

    def timed_out(self, now: float) -> None:
        """The watch was closed at its deadline: for a due list, or because it had died silently."""
        self._close(now)
        self._look_for_due_list(now)
        if self._reason is None:
            self.counters["watch_stalls_total"] += 1

    def died(self, now: float) -> None:
        """The task that performs this died of a surprise; the next starts from what is known."""
        self._close(now)
        self._start_list_over()
        self._own.failed(now, began=now)

    def _close(self, now: float) -> None:
        self._trouble = self.trouble(now)
        self._open = False


@dataclass(frozen=True, slots=True)
class _Page:
    items: list[Any]
    version: str
    token: str | None


def _page_of(document: Any) -> _Page | None:
    """Read a page of a list; None when it is not one from which anything may be concluded."""
    if not isinstance(document, dict) or "items" not in document:
        return None
    version, items = version_of(document), document["items"]
    items = [] if items is None else items
    if version is None or not isinstance(items, list):
        return None
    token = document["metadata"].get("continue")
    return _Page(items, version, token if isinstance(token, str) and token else None)


def _names(items: list[Any]) -> list[Name]:
    return [name_of(item) for item in items if isinstance(item, dict)]


def _relists(reason: Relist) -> str:
    return f'watch_relists_total{{reason="{reason.value}"}}'


def _errors(reason: str) -> str:
    return f'watch_errors_total{{reason="{reason}"}}'
