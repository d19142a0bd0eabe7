"""One file of manifests, looked at and read without ever waiting for it.

Pipes, sockets and devices are not opened, huge files not read.  What is wrong with a file is told
as a text, never raised, so that one file stops no other.  Whether a file is being written to at
this moment is asked of the kernel by a read lease, which is refused while anybody has the file
open for writing; where leases are not to be had (a file of another user, NFS, not Linux) the
answer is "unknown".

Source: fcntl(2), F_SETLEASE.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from clusters.errors import ManifestError
from clusters.manifests import Located, Reference, parse_manifests, reference
from clusters.model import Manifest

ENDINGS = (".yaml", ".yml", ".json")
SIZE_LIMIT = 16 << 20
"""Bytes of the largest file that is read."""
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})


class Signature(NamedTuple):
    """What changes when a file is written, replaced or made readable."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Outcome(Enum):
    """How reading a file ended."""

    ABSENT = auto()
    """There is no regular file of that name."""
    GOOD = auto()
    SAME = auto()
    """It holds the bytes it held before, good or not."""
    BROKEN = auto()
    """It was read and is no file of manifests; reading the same again is of no use."""
    UNREADABLE = auto()
    """It could not be read now (rights, I/O)."""
    OPEN = auto()
    """Somebody has it open for writing."""


class Written(NamedTuple):
    """What a file was just written with; it need not be parsed to be known."""

    digest: bytes
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What a look at one file found."""

    outcome: Outcome
    signature: Signature | None = None
    objects: tuple[tuple[Reference, Located], ...] = ()
    error: str | None = None
    """What is wrong, with the cure, when BROKEN or UNREADABLE."""
    certainly_closed: bool = False
    """The kernel said that nobody was writing when reading began."""
    digest: bytes = b""
    """Of the content, as far as it was read; never the empty bytes then."""


def counts(path: Path) -> bool:
    """Whether a path is, by its name, a manifest file; hidden and editors' files are not."""
    return path.suffix in ENDINGS and not path.name.startswith(".")


def is_absent(error: OSError) -> bool:
    """Whether ``error`` says that there is no such file, rather than that it cannot be told."""
    return error.errno in _ABSENT


def signature_of(found: os.stat_result) -> Signature | None:
    """The signature of a regular file; None for anything else."""
    if not stat.S_ISREG(found.st_mode):
        return None
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return Signature(found.st_dev, found.st_ino, found.st_size, *times)


def read_bounded(path: Path, limit: int) -> bytes | None:
    """The content of a regular file, ``limit`` + 1 bytes at most; None if it is no regular file.

    Raises OSError as ``open`` and ``read`` do.
    """
    if signature_of(path.stat()) is None:
        return None
    descriptor = _open(path)
    try:
        return _content(descriptor, limit)
    finally:
        os.close(descriptor)


def digest_of(data: bytes) -> bytes:
    """What tells contents apart."""
    return blake2b(data, digest_size=16).digest()


def read_manifests(
    path: Path, known: bytes = b"", written: Written | None = None, *, ask_writers: bool = False
) -> ManifestFile:
    """Read one file, and parse it unless its digest is ``known``, or that of ``written``.

    With ``ask_writers`` it is not read while somebody has it open for writing.
    """
    try:
        if signature_of(path.stat()) is None:
            return ManifestFile(Outcome.ABSENT)
        descriptor = _open(path)
    except OSError as error:
        return _failed(path, error)
    try:
        return _read(path, descriptor, known, written, ask_writers=ask_writers)
    except OSError as error:
        return _failed(path, error)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open for reading; should it have become a pipe meanwhile, without waiting for its writer."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _failed(path: Path, error: OSError) -> ManifestFile:
    if is_absent(error):
        return ManifestFile(Outcome.ABSENT)
    text = f"cannot read {path}: {error.strerror}; let the agent read it"
    return ManifestFile(Outcome.UNREADABLE, error=text)


def _read(
    path: Path, descriptor: int, known: bytes, written: Written | None, *, ask_writers: bool
) -> ManifestFile:
    signature = signature_of(os.fstat(descriptor))
    if signature is None:
        return ManifestFile(Outcome.ABSENT)
    is_open = _is_written(descriptor) if ask_writers else None
    if is_open:
        return ManifestFile(Outcome.OPEN, signature)
    data = _content(descriptor, SIZE_LIMIT) if signature.size <= SIZE_LIMIT else None
    digest = b"" if data is None else digest_of(data)
    read = partial(
        ManifestFile, signature=signature, certainly_closed=is_open is False, digest=digest
    )
    if data is None or len(data) > SIZE_LIMIT:
        return read(Outcome.BROKEN, error=f"{path} is larger than {SIZE_LIMIT} bytes; split it")
    if digest == known:
        return read(Outcome.SAME)
    try:
        if written is not None and digest == written.digest:
            found = [Located(written.manifest, str(path), 1)]
        else:
            found = _parsed(path, data)
        return read(Outcome.GOOD, objects=tuple((_reference(item), item) for item in found))
    except ManifestError as error:
        return read(Outcome.BROKEN, error=str(error))


def _parsed(path: Path, data: bytes) -> list[Located]:
    try:
        return parse_manifests(data, str(path))
    except ManifestError:
        raise
    except Exception as error:  # a fault of the parser must not stop other files
        message = f"{path}: {type(error).__name__} while reading it"
        raise ManifestError(message, cure="report this with the file") from error


def _reference(located: Located) -> Reference:
    try:
        return reference(located.manifest)
    except ManifestError as error:
        message = f"{located.place}: {error.message}"
        raise ManifestError(message, cure=error.cure) from error


def _content(descriptor: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit + 1
    while left and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _is_written(descriptor: int) -> bool | None:
    """Whether anybody has the file open for writing; None when that cannot be told."""
    try:
        # Should a writer come in the moment of the lease, it is this signal that tells so: one
        # that is ignored unless asked for, where the default one would end the process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return None
    return False
