"""Running the whole command in this process, as the installed one runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from replicator.cli.main import main


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        assert self.out.endswith("\n")
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line on standard error."""
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("replicator: ")
        return self.err.removeprefix("replicator: ").rstrip("\n")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Done:
    """Run ``replicator ARGUMENTS``."""
    capsys.readouterr()
    status = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return Done(status, out, err)
