"""Reading the files a command is given, ``-`` being standard input."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path

from replicator.errors import InputError

STDIN = "-"


class DocumentFormat(StrEnum):
    """How a command that prints one document prints it."""

    JSON = "json"
    YAML = "yaml"


def read_file(name: str) -> bytes:
    """The content of a file; raises :class:`InputError` with the reason when it cannot be read."""
    try:
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        message = f"cannot read {name}: {why}"
        raise InputError(message, cure="name a readable file, or - for standard input") from error


def shown_name(name: str) -> str:
    """The name of a file in messages."""
    return "standard input" if name == STDIN else name
