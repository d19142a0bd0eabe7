"""Writing our EndpointSlices into a folder: one YAML file an object, ``NAMESPACE/NAME.yaml``.

Replaced by rename, so a reader never sees half of one.  A file is ours when its object is marked as
ours, or when it is damaged but bears a name that only we give; no other is changed or deleted.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from uuid import uuid4

import yaml

from clusters.errors import WriteError
from clusters.manifest_file import Outcome, Written, digest_of, read_manifests
from clusters.manifests import reference
from clusters.model import ChangeOp, Manifest, SliceChange
from clusters.slice_names import NAME_PREFIX, is_dns_label, is_dns_name, is_ours

_ENDING = ".yaml"
_NAME_BYTES = 255
_TRIES = 5
_TEMPORARY = ".crdt-replicator-", ".new"
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class OwnFiles:
    """Our files below one folder."""

    def __init__(self, root: Path) -> None:
        """``root`` is made when something is written."""
        self.root = root

    def belongs(self, path: Path, manifest: Manifest | None) -> bool:
        """Whether an object in that file was written by us; None asks it of a damaged file."""
        if path.suffix != _ENDING or path.parent.parent != self.root:
            return False
        if manifest is None:
            return path.name.startswith(NAME_PREFIX)
        named = reference(manifest)
        return (path.parent.name, path.stem) == (named.namespace, named.name) and is_ours(manifest)

    def path_of(self, change: SliceChange) -> Path:
        """Where the object lies; raises WriteError for a name that no file can have."""
        if not is_dns_label(change.namespace) or not is_dns_name(change.name):
            message = f"{ascii(f'{change.namespace}/{change.name}')[:300]} is no name of an object"
            raise WriteError(message, code="bad_name", retryable=False)
        path = self.root / change.namespace / f"{change.name}{_ENDING}"
        if len(path.name) > _NAME_BYTES:
            message = f"{change.name} is too long for a file's name"
            cure = "give the service a shorter name"
            raise WriteError(message, cure=cure, code="bad_name", retryable=False)
        return path

    def carry_out(self, change: SliceChange) -> tuple[Path, Written | None]:
        """Do one change, however often; returns the path and what lies there.  Raises WriteError.

        A foreign file in the place of an object is left alone: that refuses a write, for as long as
        the file is there, and makes a delete needless.
        """
        path = self.path_of(change)
        try:
            if change.op is ChangeOp.DELETE:
                self._delete(path)
                return path, None
            return path, self._write(path, change.manifest)
        except OSError as error:
            message = f"cannot write {path}: {error.strerror}"
            cure = "make room on the disk, or the folder writable for the agent"
            raise WriteError(
                message, cure=cure, code="target_unwritable", retryable=True
            ) from error

    def sweep(self) -> None:
        """Remove what an agent that was killed while writing left behind."""
        begin, end = _TEMPORARY
        with contextlib.suppress(OSError):
            for left in self.root.glob(f"*/{begin}*{end}"):
                left.unlink()

    @staticmethod
    def _is_foreign(path: Path) -> bool:
        found = read_manifests(path)
        if found.outcome is Outcome.UNREADABLE:
            message = f"{path} cannot be read, so it cannot be told whose it is"
            raise WriteError(
                message, cure="let the agent read it", code="target_unwritable", retryable=True
            )
        if found.outcome is Outcome.ABSENT:
            return os.path.lexists(path) and not path.is_symlink()
        if found.objects:
            return not all(is_ours(located.manifest) for _, located in found.objects)
        return not path.name.startswith(NAME_PREFIX)

    def _delete(self, path: Path) -> None:
        if self._is_foreign(path):
            return
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()

    def _write(self, path: Path, manifest: Manifest) -> Written:
        if self._is_foreign(path):
            message = f"{path} exists and is not ours"
            raise WriteError(message, cure="move it away", code="name_taken", retryable=True)
        data = yaml.dump(
            manifest, Dumper=_Dumper, sort_keys=False, default_flow_style=False, encoding="utf-8"
        )
        fresh = path.with_name(str(uuid4()).join(_TEMPORARY))
        try:
            _put(fresh, data)
            fresh.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
        return Written(digest_of(data), manifest)


def _put(path: Path, data: bytes) -> None:
    """Write a new file in a folder that another delete may take away again and again."""
    for left in reversed(range(_TRIES)):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except FileNotFoundError:
            if not left:
                raise
        else:
            return
