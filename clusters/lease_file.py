"""The lease of a cluster made of folders: one small file with a fencing number.

It lies beside the cluster's uid, so all agents that see the same cluster see the same lease.  It is
replaced as a whole by rename, and only by who holds an exclusive ``flock`` on a second file that is
never removed: of any number of processes one at a time compares and swaps.  The kernel frees the
lock of a process that dies; nobody waits for the lock of one that was stopped in those few
milliseconds, it is a failed write and tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from clusters.errors import ClusterUnavailableError, LeaseConflictError
from clusters.lease import LeaseClaim, LeaseRecord
from clusters.manifest_file import read_bounded
from clusters.uid_file import place_of_uid

LEASE_FILE = ".replicator-lease"
LOCK_FILE = ".replicator-lease.lock"
_MOST_BYTES = 4096
_TRIES = 40
_TRY_SECONDS = 0.005


class FileLease:
    """Implements :class:`~clusters.lease.LeaseStore` over the folders of one cluster."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """``folders`` as for :func:`~clusters.uid_file.place_of_uid`; none is touched yet."""
        self._folders = tuple(folders)

    async def read(self) -> LeaseRecord | None:
        """See :class:`~clusters.lease.LeaseStore`."""
        return await asyncio.to_thread(self._read)

    async def write(self, claim: LeaseClaim, after: LeaseRecord | None) -> LeaseRecord:
        """See :class:`~clusters.lease.LeaseStore`."""
        return await asyncio.to_thread(self._write, claim, after)

    def _read(self) -> LeaseRecord | None:
        return _record_in(place_of_uid(self._folders)[0] / LEASE_FILE)

    def _write(self, claim: LeaseClaim, after: LeaseRecord | None) -> LeaseRecord:
        folder, _ = place_of_uid(self._folders)
        path = folder / LEASE_FILE
        try:
            with _locked(folder / LOCK_FILE):
                if _record_in(path) != after:
                    message = f"another agent wrote {path}"
                    raise LeaseConflictError(message, cure="it is read again by itself")
                mark = uuid4().hex
                _replace(path, _content(claim, mark))
        except OSError as error:
            message = f"cannot write {path}: {error.strerror}"
            cure = "make room on the disk, or the folder writable for the agent"
            raise ClusterUnavailableError(message, cure=cure, code="lease_unwritable") from error
        return LeaseRecord(claim.holder, claim.transitions, claim.duration, mark, mark)


def _record_in(path: Path) -> LeaseRecord | None:
    try:
        data = read_bounded(path, _MOST_BYTES)
        return _record_of(json.loads(data or b""))
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        cure = "let the agent read it"
        raise ClusterUnavailableError(message, cure=cure, code="lease_unreadable") from error
    except (ValueError, LookupError, TypeError) as error:
        message = f"{path} does not hold a lease"
        cure = "delete it; the next writer then counts on from what it has seen"
        raise ClusterUnavailableError(message, cure=cure, code="lease_spoiled") from error


def _record_of(found: Mapping[str, Any]) -> LeaseRecord:
    transitions, mark = found["transitions"], found["mark"]
    holder, duration = found["holder"], float(found["duration"])
    if type(transitions) is not int or not isinstance(holder, str) or not isinstance(mark, str):
        raise TypeError
    if not 0 < duration < math.inf:
        raise ValueError
    return LeaseRecord(holder, transitions, duration, mark, mark)


def _content(claim: LeaseClaim, mark: str) -> bytes:
    found = {
        "holder": claim.holder,
        "transitions": claim.transitions,
        "duration": claim.duration,
        "mark": mark,
    }
    return json.dumps(found).encode() + b"\n"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock; raises ClusterUnavailableError when somebody else keeps it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, 0o666)
    try:
        for left in reversed(range(_TRIES)):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if not left:
                    message = f"another process keeps {path} locked"
                    cure = "end the agent of this cluster that was stopped while it wrote"
                    raise ClusterUnavailableError(
                        message, cure=cure, code="lease_locked"
                    ) from error
                time.sleep(_TRY_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    """Put the whole content in place and on the disk: a number given out is never given again."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
