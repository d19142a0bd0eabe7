"""The lease of a Kubernetes cluster: one ``coordination.k8s.io/v1`` Lease, as kubectl shows it.

The fields mean what client-go's leader election means by them; comparing and swapping is the API
server's, by resourceVersion.  Every call has a connection of its own: a kept one that died silently
must not be what lets a lease run out.

Source: client-go ``leaderelection``, ``resourcelock.LeaseLock``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import orjson

from clusters.base import Clock
from clusters.errors import ClusterError, ClusterUnavailableError, LeaseConflictError
from clusters.kubernetes.client import AnswerUnreadableError, ApiRefusedError, ApiSession
from clusters.kubernetes.lease_errors import error_of
from clusters.kubernetes.objects import trimmed, version_of
from clusters.lease import LeaseClaim, LeaseRecord
from clusters.model import Manifest

_ANSWER_BYTES = 1024 * 1024
_API = "/apis/coordination.k8s.io/v1"
_DURATION = 15
_MARKS = "holderIdentity", "leaseTransitions", "acquireTime", "renewTime"


class KubernetesLease:
    """Implements :class:`~clusters.lease.LeaseStore`; the holder's identity is its instance id."""

    def __init__(
        self, session: Callable[[], ApiSession], *, namespace: str, name: str, clock: Clock
    ) -> None:
        """``session`` makes a session for one call, with the bound on its time."""
        self._session = session
        self._clock = clock
        self._where = f"{namespace}/{name}"
        self._name = {"namespace": namespace, "name": name}
        self._collection = f"{_API}/namespaces/{quote(namespace, safe='')}/leases"
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._seen: Manifest = {}
        """As last read or written; what others put into it is kept."""
        self._micros = 0

    async def read(self) -> LeaseRecord | None:
        """See :class:`~clusters.lease.LeaseStore`."""
        try:
            return await self._call("GET", self._path, None)
        except ApiRefusedError as error:
            if error.status.not_found:
                return None
            raise error_of("get", self._where, error.status) from error

    async def write(self, claim: LeaseClaim, after: LeaseRecord | None) -> LeaseRecord:
        """See :class:`~clusters.lease.LeaseStore`."""
        verb, method, path = "update", "PUT", self._path
        if after is None:
            verb, method, path = "create", "POST", self._collection
        try:
            return await self._call(method, path, self._body(claim, after))
        except ApiRefusedError as error:
            raise error_of(verb, self._where, error.status) from error

    async def _call(self, method: str, path: str, body: Manifest | None) -> LeaseRecord:
        try:
            async with self._session() as session:
                answer = await session.call(method, path, body=body, limit=_ANSWER_BYTES)
            return self._take_in(answer)
        except (ApiRefusedError, ClusterUnavailableError, LeaseConflictError):
            raise
        except ClusterError as error:
            raise ClusterUnavailableError(
                f"lease {self._where}: {error.message}", cure=error.cure, code=error.code
            ) from error

    def _body(self, claim: LeaseClaim, after: LeaseRecord | None) -> Manifest:
        known = after is not None and version_of(self._seen) == after.version
        old = self._seen if known else {}
        spec = dict(old.get("spec") or {})
        renewed = self._now()
        if (spec.get("holderIdentity"), spec.get("leaseTransitions")) != (
            claim.holder,
            claim.transitions,
        ):
            spec["acquireTime"] = renewed
        spec |= {
            "holderIdentity": claim.holder,
            "leaseTransitions": claim.transitions,
            "leaseDurationSeconds": max(1, math.ceil(claim.duration)),
            "renewTime": renewed,
        }
        metadata = {**(old.get("metadata") or {}), **self._name}
        if after is not None:
            metadata["resourceVersion"] = after.version
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }

    def _now(self) -> str:
        """The wall clock's time, as RFC 3339 with six digits; for people, so it may be wrong.

        It always moves on, as a write without a change would not show that the lease was renewed.
        """
        self._micros = max(self._clock.wall_ns() // 1000, self._micros + 1)
        seconds, rest = divmod(self._micros, 1_000_000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"

    def _take_in(self, answer: Any) -> LeaseRecord:
        """Check that an answer is our lease; fields that nobody should have written count as 0."""
        metadata = answer.get("metadata") if isinstance(answer, dict) else None
        if not isinstance(metadata, dict) or metadata.get("name") != self._name["name"]:
            cure = "check what lies between us and the API server"
            raise AnswerUnreadableError("not a Lease", cure=cure)
        version = version_of(answer)
        if version is None:
            raise AnswerUnreadableError("a Lease without resourceVersion")
        self._seen = trimmed(answer)
        spec = answer.get("spec")
        spec = spec if isinstance(spec, dict) else {}
        return LeaseRecord(
            holder=str(spec.get("holderIdentity") or ""),
            transitions=_number(spec, "leaseTransitions", 0),
            duration=float(_number(spec, "leaseDurationSeconds", _DURATION)),
            renewals=orjson.dumps([spec.get(mark) for mark in _MARKS]).decode(),
            version=version,
        )


def _number(spec: dict[str, Any], key: str, default: int) -> int:
    found = spec.get(key)
    return found if type(found) is int and found > 0 else default
