"""What a refused call about the lease means."""

from __future__ import annotations

import pytest

from clusters.errors import ClusterUnavailableError, LeaseConflictError
from clusters.kubernetes.api_status import ApiStatus
from clusters.kubernetes.lease_errors import error_of
from clusters.kubernetes.write_errors import ApiBusyError

WHERE = "mesh/replicator-fjord"


@pytest.mark.parametrize(
    ("verb", "status"),
    [
        ("update", ApiStatus(409, "Conflict")),
        ("create", ApiStatus(409, "AlreadyExists")),
        ("update", ApiStatus(404, kind="leases")),
    ],
)
def test_another_lease_than_was_read_is_a_conflict(verb: str, status: ApiStatus) -> None:
    error = error_of(verb, WHERE, status)
    assert isinstance(error, LeaseConflictError)
    assert WHERE in error.message


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        (ApiStatus(429, retry_after=7.0), 7.0),
        (ApiStatus(429), 1.0),
        (ApiStatus(503), 1.0),
        (ApiStatus(500, retry_after=2.0), 2.0),
    ],
)
def test_a_server_that_is_busy_is_asked_again(status: ApiStatus, seconds: float) -> None:
    error = error_of("get", WHERE, status)
    assert isinstance(error, ApiBusyError)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("verb", "status", "code", "cure"),
    [
        ("create", ApiStatus(404, kind="namespaces"), "no_namespace", "create the namespace mesh"),
        ("update", ApiStatus(409, kind="namespaces"), "lease_conflict", "read again"),
        ("update", ApiStatus(404, kind="namespaces"), "no_namespace", "create the namespace mesh"),
        (
            "create",
            ApiStatus(403, causes=frozenset({"NamespaceTerminating"})),
            "namespace_terminating",
            "keep the lease elsewhere: mesh is deleted",
        ),
        (
            "get",
            ApiStatus(403),
            "api_forbidden",
            "the verb get on leases in the namespace mesh, apiGroups",
        ),
        ("get", ApiStatus(401), "api_unauthorized", "renew the credentials"),
        ("update", ApiStatus(422), "lease_refused", "report this as a bug"),
        ("get", ApiStatus(None), "lease_refused", "report this as a bug"),
    ],
)
def test_everything_else_is_named_with_its_cure(
    verb: str, status: ApiStatus, code: str, cure: str
) -> None:
    error = error_of(verb, WHERE, status)
    assert error.code == code
    assert cure in error.cure
    assert isinstance(error, ClusterUnavailableError | LeaseConflictError)
    assert error.message.startswith(f"{verb} Lease {WHERE}: ")
