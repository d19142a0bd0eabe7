"""Which files of manifests there are below a folder, and what they look like.

Hidden files and folders, and links to folders, are not followed.  What cannot be looked at (rights,
I/O) is told apart from what is not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clusters.inotify import Inotify
from clusters.manifest_file import Signature, counts, is_absent, signature_of


@dataclass(slots=True)
class Walk:
    """What there is below one folder."""

    top: Path
    found: dict[Path, Signature | None] = field(default_factory=dict)
    """Files; one that cannot be told about has no signature."""
    unreadable: dict[Path, str] = field(default_factory=dict)
    """Folders that could not be listed, and why."""
    watches: set[int | None] = field(default_factory=set)
    """Numbers of the watches on these folders."""
    no_room: str | None = None
    """Why not everything could be watched."""

    def speaks_of(self, path: Path) -> bool:
        """Whether a file that was not found is not there: it lies below, and not out of sight."""
        return is_below(path, self.top) and not any(
            is_below(path, folder) for folder in self.unreadable
        )


def is_below(path: Path, folder: Path) -> bool:
    """Whether ``path``, made from ``folder`` or one above it, lies below; faster than paths can."""
    return not folder.parts or str(path).startswith(f"{folder}{os.sep}")


def walk_below(top: Path, inotify: Inotify | None) -> Walk:
    """Look at everything below ``top``; each folder is watched before it is listed."""
    walk = Walk(top)
    folders = [top]
    while folders:
        folder = folders.pop()
        if inotify is not None and walk.no_room is None:
            try:
                walk.watches.add(inotify.watch(folder))
            except OSError as error:
                walk.no_room = error.strerror or str(error)
        folders += _list(folder, walk)
    return walk


def _list(folder: Path, walk: Walk) -> Iterator[Path]:
    """Note the files of one folder; gives the folders in it."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                path = folder / entry.name
                if entry.is_dir(follow_symlinks=False):
                    yield path
                elif counts(path):
                    _look(path, walk)
    except OSError as error:
        if not is_absent(error):
            text = f"cannot look into {folder}: {error.strerror}; let the agent read it"
            walk.unreadable[folder] = text


def _look(path: Path, walk: Walk) -> None:
    try:
        signature = signature_of(path.stat())
    except OSError as error:
        if not is_absent(error):
            walk.found[path] = None
    else:
        if signature is not None:
            walk.found[path] = signature
