"""What is not good about an agent, read from its status document.

One list of findings decides what ``status`` says on stderr and how it exits: 1 for what was checked
and is not good, 4 where a peer refuses us (certificate or authorisation).  An origin that only
lags, or a broken link whose origin still arrives through relays, is shown but is no finding.  Pure;
keys a newer or older agent does not send count as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replicator.ops.views import Json

NOT_GOOD = 1
REFUSED = 4
WATCH_DEADLINE_SECONDS = 330.0
"""A watch asks for 300 s and is given 30 s more (kubernetes.md W1)."""
_WATCHED = frozenset({"kubernetes", "endpointslices", "mcs"})
"""Kinds of source and modes of target that an API server tells about: silence is a fault."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not good; ``exit_status`` is what it alone would mean."""

    code: str
    message: str
    cure: str = ""
    exit_status: int = NOT_GOOD

    def __str__(self) -> str:
        return f"{self.message}; {self.cure}" if self.cure else self.message


def exit_status(findings: list[Finding]) -> int:
    """0 without findings, else the gravest of theirs."""
    return max((finding.exit_status for finding in findings), default=0)


def _error(row: Json) -> tuple[str, str, str]:
    """(code, message, cure) of a peer's last error; empty texts when it has none."""
    told = row.get("last_error") or {}
    return (str(told.get("code", "")), str(told.get("message", "")), str(told.get("cure", "")))


def _of_agent(agent: Json) -> Iterator[Finding]:
    if agent.get("ready") is not False:
        return
    reasons = agent.get("reasons") or ["the agent gives no reason"]
    for reason in reasons:
        yield Finding("not_ready", f"not ready: {reason}")


def _of_peer(peer: Json) -> Iterator[Finding]:
    name, state = peer.get("cluster"), peer.get("state")
    code, message, cure = _error(peer)
    detail = f": {message}" if message else ""
    if state == "never_connected":
        where = f" ({peer['url']})" if peer.get("url") else ""
        cure = cure or "check its address, the firewall, and that its agent runs"
        yield Finding("never_connected", f"peer {name}: never connected{where}{detail}", cure)
    elif state == "refused":
        cure = cure or "check both certificates and trust bundles"
        yield Finding(code or "refused", f"peer {name}: refused{detail}", cure, REFUSED)
    if peer.get("digest_equal") is False:
        cure = "a repair should end this within a minute; if not, compare clusters on both sides"
        yield Finding("digests_differ", f"peer {name}: digests differ", cure)


def _of_cluster(cluster: Json, explained: set[object]) -> Iterator[Finding]:
    name, state = cluster.get("cluster"), cluster.get("state")
    if cluster.get("self"):
        return
    if state == "stale":
        age = cluster.get("staleness_seconds")
        since = "" if age is None else f", no sign of life for {age:.0f} s"
        cure = "check its agent and the links to it; its endpoints are written as stale.policy says"
        yield Finding("stale", f"cluster {name}: stale{since}", cure)
    elif state == "unknown" and name not in explained:
        cure = "check its agent and the links to it"
        yield Finding("nothing_received", f"cluster {name}: nothing received yet", cure)


def _of_side(side: Json, what: str) -> Iterator[Finding]:
    watched = side.get("kind") in _WATCHED
    for resource in side.get("resources") or []:
        name = f"{what} {resource.get('name')}"
        age = resource.get("last_event_age_seconds")
        deadline = resource.get("deadline_seconds", WATCH_DEADLINE_SECONDS if watched else None)
        if resource.get("error"):
            yield Finding(f"{what}_error", f"{name}: {resource['error']}")
        elif resource.get("synced") is False:
            yield Finding("not_synced", f"{name}: not listed completely yet")
        elif age is not None and deadline is not None and age > deadline:
            cure = "check the API server and the network to it"
            yield Finding("watch_silent", f"{name}: nothing heard for {age:.0f} s", cure)


def _all(status: Json) -> Iterator[Finding]:
    yield from _of_agent(status.get("agent") or {})
    explained: set[object] = set()
    differ = False
    for peer in status.get("peers") or []:
        for finding in _of_peer(peer):
            explained.add(peer.get("cluster"))
            differ = differ or finding.code == "digests_differ"
            yield finding
    for cluster in status.get("clusters") or []:
        yield from _of_cluster(cluster, explained)
    if status.get("converged") is False and not differ:
        yield Finding("digests_differ", "digests differ between connected clusters")
    yield from _of_side(status.get("source") or {}, "source")
    yield from _of_side(status.get("target") or {}, "target")
    for told in status.get("problems") or []:
        code, message, cure = (str(told.get(key) or "") for key in ("code", "message", "cure"))
        yield Finding(code or "problem", message, cure)


def assess(status: Json) -> list[Finding]:
    """Everything that is not good in a ``/v1/status`` document, each thing once, gravest first."""
    found = {finding.message: finding for finding in _all(status)}
    return sorted(found.values(), key=lambda finding: -finding.exit_status)
