"""Where and of what the figures were taken."""

from __future__ import annotations

import os
import platform
import sqlite3
import ssl
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

_LIBRARIES = ("aiohttp", "cryptography", "msgpack")
_ROOT = Path(__file__).parent.parent


def two_cores() -> list[int]:
    """Keep this process and all it starts on two cores; returns which."""
    chosen = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, chosen)
    return chosen


def _field(path: str, name: str) -> str | None:
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        key, _, content = line.partition(":")
        if key.strip() == name:
            return content.strip()
    return None


def _git(*words: str) -> str | None:
    command = ["git", "-C", str(_ROOT), *words]
    try:
        answer = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def load() -> list[float]:
    """Load averages over 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def describe() -> dict[str, Any]:
    """Machine, programs, code and time."""
    memory = _field("/proc/meminfo", "MemTotal")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": _field("/proc/cpuinfo", "model name") or platform.processor(),
            "cores": os.cpu_count(),
            "memory_bytes": None if memory is None else int(memory.split()[0]) * 1024,
            "kernel": platform.release(),
        },
        "versions": {
            "python": platform.python_version(),
            "openssl": ssl.OPENSSL_VERSION,
            "sqlite": sqlite3.sqlite_version,
            **{name: version(name) for name in _LIBRARIES},
        },
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "uncommitted_files": len(
            (
                _git("status", "--porcelain", "--", "crdt", "clusters", "replicator") or ""
            ).splitlines()
        ),
    }
