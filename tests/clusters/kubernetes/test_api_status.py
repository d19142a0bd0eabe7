"""How the API server says no."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.kubernetes.api_status import ApiStatus, is_status, status_of, status_of_answer

JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(
            st.sampled_from(
                ["code", "reason", "message", "details", "causes", "retryAfterSeconds", "kind"]
            ),
            inner,
        ),
    ),
)


@given(JSON)
def test_any_body_gives_a_status(body: Any) -> None:
    status = status_of(body)

    assert status.code is None or isinstance(status.code, int)
    assert len(str(status)) < 1000


@pytest.mark.parametrize(
    "status",
    [ApiStatus(code=410), ApiStatus(reason="Gone"), ApiStatus(code=500, reason="Expired")],
)
def test_gone_is_told_by_code_or_reason(status: ApiStatus) -> None:
    assert status.gone


def test_too_large_is_told_by_cause_or_message() -> None:
    by_cause = status_of({"details": {"causes": [{"reason": "ResourceVersionTooLarge"}, 7]}})
    by_words = status_of({"message": "Too large resource version: 1200, current: 1001"})

    assert by_cause.too_large
    assert by_words.too_large
    assert not status_of({"code": 504}).too_large


@pytest.mark.parametrize("seconds", [True, "7", -1, 1.5, None])
def test_a_senseless_wait_is_none(seconds: object) -> None:
    assert status_of({"details": {"retryAfterSeconds": seconds}}).retry_after is None


def test_the_http_code_counts_and_the_header_fills_the_gap() -> None:
    status = status_of_answer(429, {"Retry-After": "3"}, b'{"code": 200, "reason": "R"}')

    assert (status.code, status.reason, status.retry_after) == (429, "R", 3.0)


def test_the_body_says_better_how_long_to_wait_than_the_header() -> None:
    body = b'{"details": {"retryAfterSeconds": 9}}'

    assert status_of_answer(429, {"Retry-After": "3"}, body).retry_after == 9.0


@pytest.mark.parametrize("header", ["", "Wed, 21 Oct 2015 07:28:00 GMT", "-1", "٣"])
def test_a_date_is_no_wait(header: str) -> None:
    assert status_of_answer(503, {"Retry-After": header}, b"").retry_after is None


def test_a_body_that_is_no_json_is_the_message() -> None:
    status = status_of_answer(404, {}, b"404 page not found\xff\n")

    assert status.not_found
    assert str(status) == "404 404 page not found\\xff"


def test_only_a_status_is_a_status() -> None:
    assert is_status({"kind": "Status", "apiVersion": "v1"})
    assert is_status({"kind": "Status"})
    assert not is_status({"kind": "Status", "apiVersion": "example.test/v1"})
    assert not is_status({"kind": "Pod"})


def test_codes_have_names() -> None:
    assert ApiStatus(code=401).unauthorized
    assert ApiStatus(code=403).forbidden
    assert ApiStatus(reason="TooManyRequests").throttled
    assert str(ApiStatus()) == "no code"
