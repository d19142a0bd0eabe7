"""Readings as the agents give them, of which a test says only what it is about."""

from __future__ import annotations

from typing import Any

STARTED_AT = "2025-12-02T08:00:00.000Z"
"""Where the tests' clocks stand at first."""


def cluster(
    name: str,
    *,
    own: bool = False,
    elements: int = 10,
    services: int = 2,
    stamp: int | None = 7,
    epoch: int = 1,
    head_age: float | None = 0.5,
) -> dict[str, Any]:
    """One row of a status; no ``stamp`` is no head."""
    head = None if stamp is None else {"epoch": str(epoch), "stamp": f"{name}:{stamp}"}
    return {
        "cluster": name,
        "self": own,
        "elements": elements,
        "services": services,
        "head": head,
        "head_age_seconds": head_age,
    }


def status(
    name: str,
    *rows: dict[str, Any],
    digest: str = "d0d0",
    changes: int = 5,
    ready: bool = True,
    peers: tuple[str, ...] = (),
) -> dict[str, Any]:
    """One status; ``peers`` are the states of its links."""
    return {
        "agent": {"cluster": name, "ready": ready, "started_at": STARTED_AT},
        "digest": digest,
        "clusters": list(rows),
        "peers": [{"state": state} for state in peers],
        "source": {"counters": {"simulated_changes_total": changes}},
    }
