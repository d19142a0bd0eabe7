"""The identity of a cluster made of folders: a uid in a hidden file, made once.

It lies beside the manifests, so it survives the agent's state and goes where the folder goes.  Of
several agents that make it at the same moment all read the same one.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from clusters.errors import ClusterUnavailableError
from clusters.manifest_file import read_bounded

UID_FILE = ".replicator-uid"
_MOST_BYTES = 100


def read_or_make_uid(folders: Sequence[Path]) -> str:
    """The uid in the first of the folders that has one; see :func:`place_of_uid`."""
    return place_of_uid(folders)[1]


def place_of_uid(folders: Sequence[Path]) -> tuple[Path, str]:
    """The first of the folders that has a uid; else the first that takes a new one; and the uid.

    No folder is made: one that is not mounted yet must not look like an empty one.  Raises
    :class:`~clusters.errors.ClusterUnavailableError` for a spoiled file, and when there is none and
    none can be made.
    """
    for folder in folders:
        if (found := _read(folder / UID_FILE)) is not None:
            return folder, found
    if not os.path.isdir(folders[0]):  # noqa: PTH112 - never raises, whatever is in the way
        message = f"the folder {folders[0]} does not exist"
        raise ClusterUnavailableError(message, cure="create it")
    troubles = []
    for folder in folders:
        path = folder / UID_FILE
        try:
            _make(path)
        except OSError as error:
            troubles.append(f"cannot make {path}: {error.strerror}")
            continue
        if (found := _read(path)) is not None:
            return folder, found
    message = ", ".join(troubles) or f"{folders[0] / UID_FILE} went again at once"
    cure = "make the folder writable for the agent once"
    raise ClusterUnavailableError(message, cure=cure)


def _read(path: Path) -> str | None:
    try:
        data = read_bounded(path, _MOST_BYTES)
        return str(uuid.UUID((data or b"").decode("ascii").strip()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        cure = "let the agent read it"
        raise ClusterUnavailableError(message, cure=cure) from error
    except ValueError as error:
        message = f"{path} does not hold a uid"
        cure = "restore it, or delete it to make this a new cluster"
        raise ClusterUnavailableError(message, cure=cure) from error


def _make(path: Path) -> None:
    """Put a whole file in place or find one there: a reader never sees half of it."""
    fresh = path.with_name(f"{UID_FILE}.{uuid.uuid4()}")
    try:
        _write(fresh)
        with contextlib.suppress(FileExistsError):
            try:
                os.link(fresh, path)
            except PermissionError:  # No hard links there (FAT, some network volumes).
                _write(path)
    finally:
        fresh.unlink(missing_ok=True)


def _write(path: Path) -> None:
    with path.open("x", encoding="ascii") as file:
        file.write(f"{uuid.uuid4()}\n")
        file.flush()
        os.fsync(file.fileno())
