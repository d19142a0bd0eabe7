"""Who may open a session: the answer to a peer's request before the upgrade.

Pure.  The cluster comes from the certificate alone; headers only have to agree with it.  The order
of the checks is that of what can be said safely: without an identity nothing about us is told.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from replicator.errors import ProtocolError
from replicator.identity import PeerIdentity
from replicator.transport.base import (
    CLUSTER_HEADER,
    CLUSTERSET_HEADER,
    Admit,
    PeerRefusedError,
    Refusal,
)

_TEXT_LIMIT = 1000
DRAINING = Refusal(
    503,
    "draining",
    "this agent is shutting down",
    "dial again; it or its successor comes back",
    retry_after=1.0,
)
OVERLOADED = Refusal(
    503,
    "shedding",
    "this agent has more to do than it can, and takes no clusters that it has no link with",
    "dial again later; if it stays so, look at its load_score and give it more CPU",
    retry_after=10.0,
)


def malformed(message: str) -> Refusal:
    """The answer to a request that is not what a session starts with."""
    return Refusal(400, "malformed", message, "dial with the agent of this or the next version")


def own_headers(own: PeerIdentity) -> dict[str, str]:
    """What a dialling agent says of itself."""
    return {CLUSTERSET_HEADER: own.clusterset, CLUSTER_HEADER: own.cluster}


def no_identity(error: ProtocolError) -> Refusal:
    """The answer to a certificate that names no cluster."""
    return Refusal(403, "no_cluster_identity", error.message, error.cure)


def refused(error: ProtocolError) -> Refusal:
    """The answer to a cluster that may not be here, whatever its certificate says."""
    return Refusal(403, error.code, error.message, error.cure)


def judge(
    peer: PeerIdentity, headers: Mapping[str, str], own: PeerIdentity, admit: Admit
) -> Refusal | None:
    """Why ``peer``, who sent ``headers``, may not open a session with ``own``; None if it may."""
    clusterset, cluster = headers.get(CLUSTERSET_HEADER), headers.get(CLUSTER_HEADER)
    if clusterset is None or cluster is None:
        return malformed(f"the headers {CLUSTERSET_HEADER} and {CLUSTER_HEADER} are needed")
    if clusterset != own.clusterset:
        message = f"this agent is of clusterset {own.clusterset}, not {clusterset[:63]}"
        cure = "correct the peer's address: another clusterset answers there"
        return Refusal(409, "clusterset_mismatch", message, cure)
    if peer.clusterset != own.clusterset:
        message = f"the certificate is of clusterset {peer.clusterset}, not {own.clusterset}"
        cure = f"issue one with the authority of {own.clusterset}"
        return Refusal(403, "no_cluster_identity", message, cure)
    if cluster != peer.cluster:
        message = f"the certificate names {peer.cluster}, the headers {cluster[:63]}"
        cure = "set `cluster` of the configuration to what the certificate names"
        return Refusal(403, "identity_mismatch", message, cure)
    return admit(peer)


def body_of(refusal: Refusal) -> bytes:
    """The JSON answer."""
    error = {"code": refusal.code, "message": refusal.message, "cure": refusal.cure}
    return json.dumps({"error": error}, sort_keys=True).encode() + b"\n"


def headers_of(refusal: Refusal) -> dict[str, str]:
    """Headers that belong to the answer."""
    headers = {"Connection": "close"}
    if refusal.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(refusal.retry_after)))
    return headers


def error_from(status: int, headers: Mapping[str, str], body: bytes, peer: str) -> PeerRefusedError:
    """The error a dialling agent raises for an HTTP answer; ``peer`` names who gave it.

    Anything may have answered, so what does not look like ours is told by its status alone.
    """
    try:
        error: Any = json.loads(body)["error"]
        code, message, cure = (str(error[name]) for name in ("code", "message", "cure"))
    except (ValueError, KeyError, TypeError, RecursionError):
        code, message = "refused", f"HTTP status {status}"
        cure = "see what listens there: it does not answer as an agent"
    message = f"{peer} refused: {message[:_TEXT_LIMIT]}"
    wait = headers.get("Retry-After", "")
    retry_after = float(wait) if wait.isascii() and wait.isdigit() else None
    return PeerRefusedError(
        status, code[:64], message, cure=cure[:_TEXT_LIMIT], retry_after=retry_after
    )
