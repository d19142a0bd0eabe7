"""Running the offline commands in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer

from replicator.cli import encode, plan


def run_both(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """Standard output and error of one command; input errors are raised as they are."""
    app = typer.Typer()
    encode.register(app)
    plan.register(app)
    app(list(arguments), standalone_mode=False)
    out, err = capsys.readouterr()
    return out, err


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Standard output of one command."""
    return run_both(capsys, *arguments)[0]


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The document a command prints."""
    text = run(capsys, *arguments)
    assert text.endswith("\n")
    return json.loads(text)
