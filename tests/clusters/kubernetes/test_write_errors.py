"""What a refused write means (kubernetes.md M5, M7)."""

from __future__ import annotations

import pytest

from clusters.errors import ClusterUnavailableError, NamespaceUnavailableError, WriteError
from clusters.kubernetes.api_status import ApiStatus
from clusters.kubernetes.write_budget import WriteBudget
from clusters.kubernetes.write_errors import ApiBusyError, Meaning, error_of, meaning_of
from clusters.model import ChangeOp, SliceChange


def change(op: ChangeOp) -> SliceChange:
    return SliceChange(
        op, {"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "one"}}
    )


CREATE, UPDATE, DELETE = (change(op) for op in ChangeOp)


@pytest.mark.parametrize(
    ("of", "status", "meaning"),
    [
        (CREATE, ApiStatus(409, "AlreadyExists"), Meaning.EXISTS),
        (CREATE, ApiStatus(409, "Conflict"), Meaning.CONFLICT),
        (UPDATE, ApiStatus(409, "Conflict"), Meaning.CONFLICT),
        (DELETE, ApiStatus(409, "Conflict"), Meaning.CONFLICT),
        (UPDATE, ApiStatus(404, kind="endpointslices"), Meaning.GONE),
        (DELETE, ApiStatus(404), Meaning.GONE),
        (CREATE, ApiStatus(404, kind="namespaces"), Meaning.OTHER),
        (UPDATE, ApiStatus(404, kind="namespaces"), Meaning.OTHER),
        (UPDATE, ApiStatus(422), Meaning.OTHER),
    ],
)
def test_refusals_about_the_objects_state(
    of: SliceChange, status: ApiStatus, meaning: Meaning
) -> None:
    assert meaning_of(of, status) is meaning


@pytest.mark.parametrize(
    "status",
    [
        ApiStatus(403, causes=frozenset({"NamespaceTerminating"})),
        ApiStatus(403, message="unable to create: namespace shop is being terminated"),
    ],
)
def test_a_terminating_namespace_is_waited_for(status: ApiStatus) -> None:
    error = error_of(CREATE, status)

    assert isinstance(error, NamespaceUnavailableError)
    assert error.code == "namespace_terminating"


def test_a_missing_namespace_is_waited_for() -> None:
    error = error_of(CREATE, ApiStatus(404, kind="namespaces"))

    assert isinstance(error, NamespaceUnavailableError)
    assert error.code == "no_namespace"


def test_a_missing_right_is_named_with_verb_and_resource() -> None:
    error = error_of(UPDATE, ApiStatus(403, "Forbidden", "no"))

    assert isinstance(error, WriteError)
    assert error.code == "api_forbidden"
    assert "update" in error.cure
    assert "endpointslices" in error.cure


def test_unaccepted_credentials_make_the_cluster_unavailable() -> None:
    error = error_of(CREATE, ApiStatus(401))

    assert isinstance(error, ClusterUnavailableError)
    assert error.code == "api_unauthorized"


@pytest.mark.parametrize(
    ("status", "seconds"),
    [(ApiStatus(429, retry_after=7.0), 7.0), (ApiStatus(503), 1.0), (ApiStatus(500), 1.0)],
)
def test_a_busy_server_says_when_to_come_back(status: ApiStatus, seconds: float) -> None:
    error = error_of(CREATE, status)

    assert isinstance(error, ApiBusyError)
    assert error.retry_after == seconds


@pytest.mark.parametrize("code", [400, 413, 422, None])
def test_a_refused_object_is_not_retried(code: int | None) -> None:
    error = error_of(CREATE, ApiStatus(code))

    assert isinstance(error, WriteError)
    assert not error.retryable


def test_writes_beyond_the_burst_wait_for_the_rate() -> None:
    budget = WriteBudget(50.0, 100)

    assert [budget.take(0.0) for _ in range(100)] == [0.0] * 100
    assert budget.take(0.0) == pytest.approx(0.02)
    assert budget.take(0.0) == pytest.approx(0.04)
    assert budget.take(10.0) == 0.0
