from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.identity import PeerIdentity
from replicator.transport.admission import (
    DRAINING,
    OVERLOADED,
    body_of,
    error_from,
    headers_of,
    judge,
    malformed,
    own_headers,
)
from replicator.transport.base import PeerRefusedError, Refusal, admit_all
from replicator.transport.quiet import QUIET_SECONDS, Seldom

MESA, FJORD = PeerIdentity("prod", "mesa"), PeerIdentity("prod", "fjord")


def test_a_peer_whose_headers_agree_with_its_certificate_is_let_in() -> None:
    assert judge(FJORD, own_headers(FJORD), MESA, admit_all) is None


@pytest.mark.parametrize(
    ("peer", "said", "status", "code"),
    [
        (FJORD, PeerIdentity("staging", "fjord"), 409, "clusterset_mismatch"),
        (PeerIdentity("staging", "fjord"), FJORD, 403, "no_cluster_identity"),
        (PeerIdentity("staging", "a"), PeerIdentity("staging", "a"), 409, "clusterset_mismatch"),
        (FJORD, PeerIdentity("prod", "tundra"), 403, "identity_mismatch"),
    ],
)
def test_what_does_not_agree_is_refused_and_the_owner_is_not_asked(
    peer: PeerIdentity, said: PeerIdentity, status: int, code: str
) -> None:
    def never(_: PeerIdentity) -> Refusal | None:
        pytest.fail("asked about a peer that was not who it said")

    refusal = judge(peer, own_headers(said), MESA, never)
    assert refusal is not None
    assert (refusal.status, refusal.code) == (status, code)
    assert refusal.cure


@given(st.text(), st.text(), st.text())
def test_an_answer_reads_back_as_it_was_given(code: str, message: str, cure: str) -> None:
    refusal = Refusal(403, code, message, cure)
    error = error_from(403, headers_of(refusal), body_of(refusal), "mesa")
    assert (error.status, error.code, error.cure) == (403, code[:64], cure[:1000])
    assert error.message == f"mesa refused: {message[:1000]}"


@given(st.binary(), st.dictionaries(st.just("Retry-After"), st.text()))
def test_any_body_and_header_make_one_typed_error(body: bytes, headers: dict[str, str]) -> None:
    error = error_from(500, headers, body, "mesa")
    assert isinstance(error, PeerRefusedError)
    assert error.retry_after is None or error.retry_after >= 0


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"error": null}', b'{"error": {"code": "x"}}', b"[" * 100_000]
)
def test_a_body_that_is_not_ours_is_told_by_its_status(body: bytes) -> None:
    error = error_from(418, {}, body, "mesa")
    assert error.code == "refused"
    assert "HTTP status 418" in error.message


def test_the_json_is_sorted_and_ends_with_a_newline() -> None:
    body = body_of(malformed("no"))
    assert body.endswith(b"}\n")
    assert list(json.loads(body)["error"]) == ["code", "cure", "message"]


def test_retry_after_is_whole_seconds_and_at_least_one() -> None:
    assert headers_of(DRAINING)["Retry-After"] == "1"
    assert headers_of(OVERLOADED)["Retry-After"] == "10"
    assert headers_of(Refusal(429, "busy", "", retry_after=1.2))["Retry-After"] == "2"
    assert headers_of(malformed("no")) == {"Connection": "close"}


def test_the_same_complaint_is_due_once_in_ten_minutes() -> None:
    seldom = Seldom()
    assert seldom.due("a", 0.0)
    assert not seldom.due("a", QUIET_SECONDS - 1)
    assert seldom.due("b", 1.0)
    assert seldom.due("a", QUIET_SECONDS)


def test_complaints_are_remembered_in_bounded_space() -> None:
    seldom = Seldom()
    for number in range(5000):
        assert seldom.due(number, 0.0)
    assert len(seldom._said) <= 1024
    assert not seldom.due(4999, 1.0)
    assert seldom.due(0, 1.0)
