"""What to do next about one collection (kubernetes.md W1-W13), in virtual time, without any I/O."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from clusters.errors import ClusterUnavailableError
from clusters.kubernetes.api_status import ApiStatus, status_of
from clusters.kubernetes.back_off import BackOff
from clusters.kubernetes.list_watch import Listing, ListPage, ListWatch, OpenWatch, Relist, Wait
from clusters.kubernetes.objects import ENDPOINT_SLICES, SERVICE_EXPORTS, Resource
from clusters.kubernetes.settings import WatchSettings
from clusters.kubernetes.watch_decoder import (
    Bookmark,
    BrokenLine,
    ErrorStatus,
    Fault,
    LineTooLong,
    ObjectEvent,
    Op,
    WatchDecoder,
    WatchEvent,
)

CASES = Path(__file__).parents[2] / "data" / "cases" / "watch"
SETTINGS = WatchSettings()
GONE = ApiStatus(410, "Expired")
TOO_LARGE = status_of(
    {
        "code": 504,
        "reason": "Timeout",
        "message": "Too large resource version: 1200, current: 1001",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1},
    }
)
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


def listing(version: str, *names: str, token: str | None = None) -> dict[str, Any]:
    metadata = {"resourceVersion": version, **({"continue": token} if token else {})}
    return {"metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]}


def added(version: str | None) -> ObjectEvent:
    return ObjectEvent(Op.ADDED, {"metadata": {"name": "x"}}, version)


class Driver:
    """One machine with a clock; waits are skipped over and remembered."""

    def __init__(
        self,
        resource: Resource = ENDPOINT_SLICES,
        *,
        settings: WatchSettings = SETTINGS,
        server: BackOff | None = None,
        now: float = 0.0,
    ) -> None:
        rng = Random(7)
        self.server = server or BackOff(settings, rng)
        self.machine = ListWatch(resource, settings=settings, server=self.server, rng=rng)
        self.now = now
        self.waited = 0.0

    def action(self) -> ListPage | OpenWatch:
        """The next list or watch, after waiting as told."""
        self.waited = 0.0
        while isinstance(step := self.machine.step(self.now), Wait):
            self.waited += step.until - self.now
            self.now = step.until
        return step

    def expect_list(self) -> ListPage:
        step = self.action()
        assert isinstance(step, ListPage)
        return step

    def expect_watch(self) -> str:
        step = self.action()
        assert isinstance(step, OpenWatch)
        return step.query["resourceVersion"]

    def list(self, version: str = "500", *names: str) -> Listing:
        self.expect_list()
        complete = self.machine.page(listing(version, *names), self.now)
        assert complete is not None
        return complete

    def watch(self) -> str:
        """Open the next watch; returns the version it starts from."""
        version = self.expect_watch()
        self.machine.opened(self.now)
        return version

    def watching(self, version: str = "500") -> Driver:
        """List and open a watch, then let a quiet while pass."""
        self.list(version)
        assert self.watch() == version
        self.now += SETTINGS.fresh_seconds + 1
        return self

    def event(self, event: WatchEvent) -> bool:
        return self.machine.event(event, self.now)

    def reason(self) -> str | None:
        trouble = self.machine.trouble(self.now)
        return None if trouble is None else trouble.reason

    def relists(self, reason: Relist) -> int:
        return self.machine.counters[f'watch_relists_total{{reason="{reason.value}"}}']

    def errors(self, reason: str) -> int:
        return self.machine.counters[f'watch_errors_total{{reason="{reason}"}}']


@pytest.fixture
def driver() -> Driver:
    return Driver()


# ---- lists -----------------------------------------------------------------------------------


def test_a_life_begins_with_a_consistent_list_in_pages(driver: Driver) -> None:
    step = driver.expect_list()

    assert step.path == SLICES
    assert step.query == {"limit": "500"}
    assert not driver.machine.synced
    assert driver.machine.version is None
    assert driver.machine.last_event_age(driver.now) is None


def test_case_c09_no_list_ever_asks_for_version_zero(driver: Driver) -> None:
    queries = [driver.expect_list().query]
    driver.list("7000")
    for _ in range(3):
        driver.watch()
        driver.now += 700
        driver.machine.timed_out(driver.now)
        queries.append(driver.expect_list().query)
        driver.list("6500")

    assert all("resourceVersion" not in query for query in queries)


def test_pages_make_one_list_with_the_first_pages_version(driver: Driver) -> None:
    driver.expect_list()
    assert driver.machine.page(listing("540", "a", token="t1"), driver.now) is None
    assert not driver.machine.synced
    assert driver.expect_list().query == {"limit": "500", "continue": "t1"}

    complete = driver.machine.page(listing("541", "b"), driver.now)

    assert complete is not None
    assert complete.reason is Relist.START
    assert [item["metadata"]["name"] for item in complete.items] == ["a", "b"]
    assert driver.expect_watch() == "540"
    assert driver.machine.synced


def test_items_get_the_kind_that_lists_leave_out(driver: Driver) -> None:
    (item,) = driver.list("1", "a").items

    assert (item["kind"], item["apiVersion"]) == ("EndpointSlice", "discovery.k8s.io/v1")


def test_items_that_are_no_objects_are_counted_and_left_out(driver: Driver) -> None:
    driver.expect_list()
    complete = driver.machine.page({"metadata": {"resourceVersion": "1"}, "items": [7]}, 0.0)

    assert complete is not None
    assert complete.items == []
    assert driver.machine.counters["watch_bad_object_total"] == 1


def test_items_without_metadata_are_for_the_catalog_to_refuse(driver: Driver) -> None:
    driver.expect_list()
    complete = driver.machine.page({"metadata": {"resourceVersion": "1"}, "items": [{}]}, 0.0)

    assert complete is not None
    assert len(complete.items) == 1


def test_who_wrote_which_field_is_not_kept(driver: Driver) -> None:
    driver.expect_list()
    item = {"metadata": {"name": "a", "managedFields": [{}]}}
    complete = driver.machine.page({"metadata": {"resourceVersion": "1"}, "items": [item]}, 0.0)

    assert complete is not None
    assert "managedFields" not in complete.items[0]["metadata"]


def test_no_items_at_all_is_an_empty_list(driver: Driver) -> None:
    driver.expect_list()

    assert driver.machine.page({"metadata": {"resourceVersion": "1"}, "items": None}, 0.0)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"metadata": {"resourceVersion": "1"}},
        {"metadata": {"resourceVersion": "1"}, "items": {}},
        {"metadata": {"resourceVersion": "0"}, "items": []},
        {"metadata": {}, "items": []},
        {"metadata": None, "items": []},
    ],
)
def test_what_is_no_list_concludes_nothing_and_is_asked_again(
    driver: Driver, document: object
) -> None:
    driver.expect_list()

    assert driver.machine.page(document, driver.now) is None
    assert driver.reason() == "bad_list"
    assert driver.errors("decode") == 1
    driver.expect_list()
    assert driver.waited > 0


def test_a_status_in_place_of_a_list_is_a_refusal(driver: Driver) -> None:
    driver.expect_list()
    status = {"kind": "Status", "apiVersion": "v1", "code": 403, "reason": "Forbidden"}

    assert driver.machine.page(status, driver.now) is None
    assert driver.reason() == "api_forbidden"


@pytest.mark.parametrize("names", [(), ("a", "b")])
def test_a_token_that_leads_nowhere_is_no_list(driver: Driver, names: tuple[str, ...]) -> None:
    driver.expect_list()
    complete = driver.machine.page(listing("1", *names, token="t"), driver.now)
    driver.expect_list()

    assert complete is None
    again = driver.machine.page(listing("1", *names, token="t"), driver.now)
    assert again is None
    assert driver.reason() == "bad_list"


def test_a_token_may_be_used_twice_for_different_pages(driver: Driver) -> None:
    driver.expect_list()
    driver.machine.page(listing("1", "a", token="t"), driver.now)
    driver.expect_list()
    driver.machine.page(listing("1", "b", token="t"), driver.now)
    assert driver.expect_list().query["continue"] == "t"

    complete = driver.machine.page(listing("1", "c"), driver.now)
    assert complete is not None
    assert len(complete.items) == 3


def test_an_expired_token_begins_the_list_anew_three_times_then_waits(driver: Driver) -> None:
    for attempt in range(4):
        assert "continue" not in driver.expect_list().query
        assert driver.waited == 0, attempt
        driver.machine.page(listing("1", f"a{attempt}", token="t"), driver.now)
        driver.expect_list()
        driver.machine.refused(
            status_of({"code": 410, "metadata": {"continue": "inconsistent"}}), driver.now
        )

    assert driver.expect_list().query == {"limit": "500"}
    assert driver.waited > 0
    assert driver.errors("gone") == 1
    complete = driver.list("9", "z")
    assert [item["metadata"]["name"] for item in complete.items] == ["z"]


def test_a_first_page_refused_as_expired_waits(driver: Driver) -> None:
    driver.expect_list()
    driver.machine.refused(GONE, driver.now)
    driver.expect_list()

    assert driver.waited > 0


def test_a_throttled_page_is_asked_again_with_its_token(driver: Driver) -> None:
    driver.expect_list()
    driver.machine.page(listing("1", "a", token="t"), driver.now)
    driver.expect_list()
    driver.machine.refused(ApiStatus(429), driver.now)

    assert driver.expect_list().query["continue"] == "t"
    assert driver.waited >= 1.0
    complete = driver.machine.page(listing("1", "b"), driver.now)
    assert complete is not None
    assert len(complete.items) == 2


def test_a_page_over_the_limit_is_asked_for_in_halves(driver: Driver) -> None:
    driver.expect_list()
    sizes = []
    for _ in range(9):
        driver.machine.page_too_large(driver.now)
        sizes.append(driver.expect_list().query["limit"])

    assert sizes == ["250", "125", "62", "31", "15", "7", "3", "1", "1"]
    assert driver.waited > 0
    assert driver.reason() == "watch_line_too_long"


# ---- watches ---------------------------------------------------------------------------------


def test_a_watch_resumes_from_the_last_version_seen(driver: Driver) -> None:
    driver.watching("500")
    assert driver.event(added("510"))
    assert driver.event(Bookmark("520"))
    assert driver.event(added("515"))
    assert driver.event(added(None))
    assert driver.event(Bookmark(None))
    driver.machine.ended(driver.now, clean=True)

    assert driver.watch() == "515"
    assert driver.waited == 0
    assert driver.relists(Relist.START) == 1


def test_a_watch_asks_for_bookmarks_and_an_end(driver: Driver) -> None:
    driver.list("500")
    step = driver.action()

    assert isinstance(step, OpenWatch)
    assert step.path == SLICES
    assert step.query == {
        "watch": "true",
        "resourceVersion": "500",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "300",
    }


def test_case_c01_a_silent_watch_is_closed_30_s_after_its_end_and_resumed_without_a_list(
    driver: Driver,
) -> None:
    driver.list("4100")
    driver.watch()
    driver.event(added("4101"))
    opened = driver.now
    assert driver.machine.deadline == opened + 330

    driver.now = driver.machine.deadline
    assert driver.machine.last_event_age(driver.now) == 330
    driver.machine.timed_out(driver.now)

    assert driver.watch() == "4101"
    assert driver.now - opened <= 331
    assert driver.machine.counters["watch_stalls_total"] == 1


def test_case_c01_silence_beyond_the_deadline_is_a_trouble(driver: Driver) -> None:
    driver.watching()
    driver.now += 300
    assert driver.reason() == "watch_silent"
    driver.event(Bookmark("501"))
    assert driver.reason() is None


def test_case_c02_an_expired_version_is_listed_anew_at_once(driver: Driver) -> None:
    driver.watching("4100")
    for event in WatchDecoder().feed((CASES / "gone.jsonl").read_bytes()):
        going = driver.event(event)

    assert not going
    driver.expect_list()
    assert driver.waited == 0
    assert driver.relists(Relist.GONE) == 1
    driver.list("9990")
    assert driver.expect_watch() == "9990"


def test_an_expired_version_by_http_status_is_the_same(driver: Driver) -> None:
    driver.watching()
    driver.machine.ended(driver.now, clean=True)
    driver.expect_watch()
    driver.machine.refused(ApiStatus(410), driver.now)

    driver.expect_list()
    assert driver.relists(Relist.GONE) == 1


def test_a_server_that_refuses_what_it_just_listed_is_not_stormed(driver: Driver) -> None:
    now = driver.now
    for _ in range(20):
        driver.list("500")
        driver.expect_watch()
        driver.machine.refused(GONE, driver.now)

    assert driver.now - now > 60


@pytest.mark.parametrize("line", [1, 2, 3, 4, 5, 6])
def test_case_c04_no_refusal_but_410_lists_or_loses_the_version(line: int, driver: Driver) -> None:
    text = (CASES / "refusals.jsonl").read_bytes().splitlines()[line - 1]
    driver.watching("500")
    decoder = WatchDecoder()
    (event,) = decoder.feed(text + b"\n")

    going = driver.event(event)

    if line == 4:
        assert going
        assert driver.machine.counters["watch_unknown_event_total"] == 1
        driver.machine.ended(driver.now, clean=True)
    else:
        assert not going
    assert driver.watch() == "500"
    assert (driver.waited > 0) == (line != 4)
    assert driver.waited >= (7 if line == 1 else 0)
    assert driver.machine.version == "500"


def test_case_c04_a_missing_right_is_named_and_backs_off(driver: Driver) -> None:
    driver.watching()
    driver.event(ErrorStatus(ApiStatus(403, "Forbidden", "no")))

    trouble = driver.machine.trouble(driver.now)
    assert trouble is not None
    assert trouble.reason == "api_forbidden"
    assert "watch" in trouble.cure
    assert "endpointslices" in trouble.cure
    assert driver.server.not_before == 0.0


def test_a_refusal_within_a_stream_outlasts_the_next_acceptance(driver: Driver) -> None:
    driver.watching()
    driver.event(ErrorStatus(ApiStatus(403)))
    driver.watch()
    assert driver.reason() == "api_forbidden"

    driver.now += SETTINGS.short_seconds
    assert driver.reason() is None
    driver.machine.ended(driver.now, clean=True)
    assert driver.reason() is None


def test_a_refusal_within_a_stream_is_over_with_the_next_event(driver: Driver) -> None:
    driver.watching()
    driver.event(ErrorStatus(ApiStatus(500)))
    driver.watch()
    driver.event(Bookmark("501"))

    assert driver.reason() is None


def test_a_refusal_before_the_stream_is_over_with_the_next_acceptance(driver: Driver) -> None:
    driver.list()
    driver.expect_watch()
    driver.machine.refused(ApiStatus(401), driver.now)
    assert driver.reason() == "api_unauthorized"

    driver.watch()
    assert driver.reason() is None


def test_a_list_that_is_forbidden_names_the_verb_and_forgets_its_pages(driver: Driver) -> None:
    driver.expect_list()
    driver.machine.page(listing("1", token="t"), driver.now)
    driver.machine.refused(ApiStatus(403), driver.now)

    trouble = driver.machine.trouble(driver.now)
    assert trouble is not None
    assert "verb list" in trouble.cure
    assert driver.expect_list().query == {"limit": "500"}


def test_case_c07_a_broken_stream_is_resumed_after_a_moment(driver: Driver) -> None:
    driver.watching("500")
    driver.machine.ended(driver.now, clean=False)

    assert driver.watch() == "500"
    assert 0 < driver.waited <= 1
    assert driver.reason() is None


def test_a_server_that_ends_watches_at_once_does_not_make_us_spin(driver: Driver) -> None:
    driver.list()
    began = driver.now
    for _ in range(12):
        driver.watch()
        driver.machine.ended(driver.now, clean=True)

    assert driver.now - began > 60


def test_two_broken_lines_are_watched_again_and_the_third_is_listed(driver: Driver) -> None:
    driver.watching("500")
    for _ in range(2):
        assert not driver.event(BrokenLine(Fault.NOT_JSON))
        assert driver.watch() == "500"
        assert driver.waited > 0
    assert not driver.event(BrokenLine(Fault.NO_OBJECT))

    driver.expect_list()
    assert driver.relists(Relist.DECODE) == 1
    assert driver.errors("not_json") == 2


def test_progress_between_broken_lines_forgives_them(driver: Driver) -> None:
    driver.watching("500")
    for number in range(6):
        driver.event(added(f"6{number}"))
        driver.event(BrokenLine(Fault.NOT_JSON))
        assert driver.watch() == f"6{number}"


def test_bytes_that_are_no_text_are_listed(driver: Driver) -> None:
    driver.watching("500")
    assert not driver.event(BrokenLine(Fault.NOT_UTF8))

    driver.expect_list()
    assert driver.relists(Relist.DECODE) == 1


def test_case_c05_a_line_over_the_limit_is_listed_later_while_the_stream_goes_on(
    driver: Driver,
) -> None:
    driver.watching("500")
    assert driver.event(LineTooLong("shop", "cart-huge"))
    assert driver.event(LineTooLong(None, None))
    assert driver.event(added("501"))
    trouble = driver.machine.trouble(driver.now)
    assert trouble is not None
    assert trouble.reason == "watch_line_too_long"

    assert driver.now < driver.machine.deadline <= driver.now + 1
    driver.now = driver.machine.deadline
    driver.machine.timed_out(driver.now)

    driver.list("510")
    assert driver.watch() == "510"
    assert driver.reason() is None
    assert driver.machine.counters["watch_line_too_long_total"] == 2
    assert driver.relists(Relist.LINE_TOO_LONG) == 1
    assert driver.machine.counters["watch_stalls_total"] == 0


def test_an_object_that_is_too_long_again_and_again_is_listed_ever_more_seldom(
    driver: Driver,
) -> None:
    driver.list()
    began = driver.now
    for _ in range(10):
        driver.watch()
        driver.event(LineTooLong("shop", "cart-huge"))
        driver.now = driver.machine.deadline
        driver.machine.timed_out(driver.now)
        driver.list()

    assert driver.now - began > 60


# ---- audits and rewinds ----------------------------------------------------------------------


def test_case_c10_a_complete_list_is_made_within_ten_minutes(driver: Driver) -> None:
    driver.list("1200")
    listed = driver.now
    while isinstance(driver.action(), OpenWatch):
        driver.machine.opened(driver.now)
        driver.now = driver.machine.deadline
        driver.machine.timed_out(driver.now)

    assert 450 <= driver.now - listed <= 600
    assert driver.relists(Relist.AUDIT) == 1
    complete = driver.list("1001", "cart")
    assert complete.reason is Relist.AUDIT
    assert complete.silent
    assert driver.expect_watch() == "1001"


def test_an_audit_after_news_was_not_silent(driver: Driver) -> None:
    driver.watching()
    driver.now += 500
    driver.event(added("501"))
    driver.now += 60
    driver.machine.timed_out(driver.now)

    assert not driver.list("502").silent


def test_an_audit_that_is_due_comes_before_the_next_watch(driver: Driver) -> None:
    driver.list()
    driver.now += 601

    driver.expect_list()
    assert driver.relists(Relist.AUDIT) == 1


def test_case_c10_a_version_ahead_of_history_twice_is_listed_at_once(driver: Driver) -> None:
    driver.list("1200")
    assert driver.expect_watch() == "1200"
    driver.machine.refused(TOO_LARGE, driver.now)
    assert driver.expect_watch() == "1200"
    assert driver.waited >= 1
    driver.machine.refused(TOO_LARGE, driver.now)

    driver.expect_list()
    assert driver.waited == 0
    assert driver.relists(Relist.TOO_LARGE_VERSION) == 1
    driver.list("1001")
    assert driver.expect_watch() == "1001"


def test_a_version_ahead_of_history_within_a_stream_is_the_same(driver: Driver) -> None:
    driver.watching("1200")
    driver.event(ErrorStatus(TOO_LARGE))
    driver.watch()
    driver.event(ErrorStatus(TOO_LARGE))

    driver.expect_list()


def test_once_ahead_of_history_and_then_served_is_forgotten(driver: Driver) -> None:
    driver.watching("1200")
    for number in range(4):
        driver.event(ErrorStatus(TOO_LARGE))
        driver.watch()
        driver.event(added(f"130{number}"))

    assert driver.relists(Relist.TOO_LARGE_VERSION) == 0


def test_a_list_that_is_too_large_a_version_is_only_a_failure(driver: Driver) -> None:
    driver.expect_list()
    driver.machine.refused(TOO_LARGE, driver.now)

    assert driver.relists(Relist.TOO_LARGE_VERSION) == 0
    driver.expect_list()
    assert driver.waited >= 1


# ---- the server is away ----------------------------------------------------------------------


def test_case_c13_fifty_watchers_share_one_back_off_and_resume_without_lists() -> None:
    rng = Random(3)
    server = BackOff(SETTINGS, rng)
    watchers = [Driver(server=server) for _ in range(50)]
    for watcher in watchers:
        watcher.watching("500")
    start = watchers[0].now
    for watcher in watchers:
        watcher.now = start
        watcher.machine.ended(start, clean=False)
    rounds = 0
    while (now := max(watchers[0].now, server.not_before)) < start + 120:
        rounds += 1
        for watcher in watchers:
            watcher.now = now
            assert isinstance(watcher.machine.step(now), OpenWatch)
        for watcher in watchers:
            watcher.machine.unreachable(ClusterUnavailableError("refused"), now + 0.01)

    assert rounds <= 15
    for watcher in watchers:
        assert watcher.watch() == "500"
        assert watcher.relists(Relist.GONE) == 0


def test_an_unreachable_server_is_told_with_its_cure(driver: Driver) -> None:
    driver.expect_list()
    error = ClusterUnavailableError("connection refused", cure="check the network", code="x")
    driver.machine.unreachable(error, driver.now)

    trouble = driver.machine.trouble(driver.now)
    assert str(trouble) == "x: endpointslices: connection refused; check the network"
    assert not driver.machine.synced


def test_a_task_that_died_goes_on_from_what_it_knew(driver: Driver) -> None:
    driver.watching("500")
    driver.event(added("501"))
    driver.machine.died(driver.now)

    assert driver.watch() == "501"
    assert driver.waited > 0


def test_a_task_that_died_within_a_list_begins_it_anew(driver: Driver) -> None:
    driver.expect_list()
    driver.machine.page(listing("1", "a", token="t"), driver.now)
    driver.machine.died(driver.now)

    assert driver.expect_list().query == {"limit": "500"}


# ---- collections that are not there ----------------------------------------------------------


def test_a_missing_optional_collection_counts_as_listed_after_a_while() -> None:
    driver = Driver(SERVICE_EXPORTS)
    paths = []
    for round_number in range(3):
        for _ in SERVICE_EXPORTS.versions:
            assert not driver.machine.synced, round_number
            paths.append(driver.expect_list().path)
            driver.machine.refused(ApiStatus(404), driver.now)

    assert driver.machine.synced
    assert paths[:2] == [
        "/apis/multicluster.x-k8s.io/v1beta1/serviceexports",
        "/apis/multicluster.x-k8s.io/v1alpha1/serviceexports",
    ]
    trouble = driver.machine.trouble(driver.now)
    assert trouble is not None
    assert trouble.reason == "api_not_found"
    assert "install the Multi-Cluster Services CRDs" in trouble.cure


def test_an_older_served_version_is_used_for_the_watch_too() -> None:
    driver = Driver(SERVICE_EXPORTS)
    driver.expect_list()
    driver.machine.refused(ApiStatus(404), driver.now)
    (item,) = driver.list("1", "a").items
    step = driver.action()

    assert item["apiVersion"] == "multicluster.x-k8s.io/v1alpha1"
    assert isinstance(step, OpenWatch)
    assert step.path.endswith("/v1alpha1/serviceexports")


def test_a_missing_collection_that_matters_is_never_synced(driver: Driver) -> None:
    for _ in range(5):
        driver.expect_list()
        driver.machine.refused(ApiStatus(404), driver.now)

    assert not driver.machine.synced
    trouble = driver.machine.trouble(driver.now)
    assert trouble is not None
    assert "point the kubeconfig at a Kubernetes API server" in trouble.cure


def test_a_collection_that_goes_and_comes_back_is_listed_anew() -> None:
    driver = Driver(SERVICE_EXPORTS).watching()
    driver.event(ErrorStatus(ApiStatus(404)))
    assert driver.relists(Relist.NOT_FOUND) == 1
    for _ in range(6):
        driver.expect_list()
        driver.machine.refused(ApiStatus(404), driver.now)
    assert driver.machine.synced

    driver.list("9")
    assert driver.reason() is None
    assert driver.watch() == "9"


# ---- reading anew on demand ------------------------------------------------------------------


def test_a_watch_is_left_for_a_list_that_is_wanted_at_once(driver: Driver) -> None:
    driver.watching()
    asked = driver.machine.reread(driver.now)
    assert driver.machine.deadline == driver.now
    assert not driver.machine.was_read(asked)
    driver.machine.timed_out(driver.now)
    driver.now += 1
    driver.list("600")
    assert driver.machine.was_read(asked)
    assert driver.watch() == "600"
    assert driver.errors("watch_stalls_total") == 0


def test_a_list_begun_before_it_was_wanted_is_not_enough(driver: Driver) -> None:
    driver.expect_list()
    asked = driver.machine.reread(driver.now)
    assert driver.machine.page(listing("500"), driver.now) is not None
    assert not driver.machine.was_read(asked)
    driver.list("600")
    assert driver.machine.was_read(asked)
    driver.watch()


def test_what_the_server_does_not_have_need_not_be_read() -> None:
    driver = Driver(SERVICE_EXPORTS)
    while not driver.machine.synced:
        driver.expect_list()
        driver.machine.refused(ApiStatus(404, "NotFound"), driver.now)
    assert driver.machine.was_read(driver.machine.reread(driver.now))
