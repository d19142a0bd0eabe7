"""The command as a whole: exit statuses, errors in one line, pipes and signals (case C81)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from clusters.errors import ClusterError, ClusterUnavailableError, ManifestError
from crdt.errors import CrdtError
from replicator.cli import main as command
from replicator.errors import (
    ConfigError,
    InputError,
    JournalError,
    NotGood,
    PkiError,
    RefusedError,
    ReplicatorError,
    TransportError,
    UnreachableError,
)
from replicator.version import __version__
from tests.replicator.cli.command import run

ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def start(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
    """The command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "replicator", *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]  # passed through
    )


def test_the_version_is_told(capsys: Capture) -> None:
    assert run(capsys, "--version").out == f"replicator {__version__}\n"


def test_help_is_on_standard_output_and_names_the_commands(capsys: Capture) -> None:
    done = run(capsys, "--help")
    assert (done.status, done.err) == (0, "")
    for word in ("init", "pki", "config", "status", "peers", "watch", "encode", "plan", "snapshot"):
        assert f"\n  {word} " in done.out


@pytest.mark.parametrize("group", [[], ["pki"], ["config"]])
def test_a_group_alone_shows_its_commands_and_does_nothing(
    capsys: Capture, group: list[str]
) -> None:
    done = run(capsys, *group)
    assert done.status == 2
    assert "Usage" in done.out + done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"],
        ["bogus"],
        ["init", "--bogus"],
        ["init"],
        ["pki", "check"],
        ["pki", "check", "x", "-o", "xml"],
        ["pki", "issue", "x", "--days", "many"],
        ["config", "check", "a", "b"],
    ],
)
def test_bad_usage_is_status_2_with_the_usage_on_standard_error(
    capsys: Capture, arguments: list[str]
) -> None:
    done = run(capsys, *arguments)
    assert (done.status, done.out) == (2, "")
    assert "usage" in done.err.lower()
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotGood("one peer is stale"), 1),
        (InputError("x"), 2),
        (ConfigError("x"), 2),
        (PkiError("x"), 2),
        (JournalError("x"), 2),
        (ReplicatorError("x"), 2),
        (ManifestError("x"), 2),
        (ClusterError("x"), 2),
        (CrdtError("x"), 2),
        (UnreachableError("x"), 3),
        (TransportError("x"), 3),
        (ClusterUnavailableError("x"), 3),
        (RefusedError("x"), 4),
    ],
)
def test_each_kind_of_error_has_its_status_and_one_line(
    capsys: Capture, error: Exception, status: int
) -> None:
    assert told(error) == status
    assert capsys.readouterr().err == f"replicator: {error}\n"


def told(error: BaseException) -> int:
    """Exit status of a command that raises ``error``."""
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)

    @app.command()
    def deed() -> None:
        raise error

    return command.run_app(app, [], "replicator")


def test_an_error_is_one_line_whatever_is_in_it(capsys: Capture) -> None:
    told(InputError("a\nb\x1b[31m\u202e", cure="c\r"))
    assert capsys.readouterr().err == "replicator: a\\x0ab\\x1b[31m\\u202e; c\\x0d\n"


def test_the_cure_follows_the_message(capsys: Capture) -> None:
    told(InputError("x is wrong", cure="write y"))
    assert capsys.readouterr().err == "replicator: x is wrong; write y\n"


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 1), (4, 4)])
def test_a_command_may_choose_its_status(code: int, status: int) -> None:
    assert told(typer.Exit(code)) == status


def test_ctrl_c_is_status_130() -> None:
    assert told(KeyboardInterrupt()) == 130


def test_a_defect_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        told(ZeroDivisionError())


def test_a_reader_that_goes_away_leaves_no_traceback() -> None:
    process = start("--help")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert error == b""


def test_python_m_is_the_command() -> None:
    with start("--version") as process:
        out, error = process.communicate()
    assert (process.returncode, out, error) == (0, f"replicator {__version__}\n".encode(), b"")


def test_the_installed_command_takes_its_arguments_from_the_process() -> None:
    script = "import sys; sys.argv[0] = 'kubectl-replicator'\n"
    script += "from replicator.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", script, "pki", "check"],
        env=ENVIRONMENT,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"Usage: kubectl-replicator pki check" in done.stderr


def test_a_terminal_without_utf_8_gets_escapes_instead_of_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "replicator", "config", "check", str(tmp_path / "caf\u00e9")],
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"caf\\xe9" in done.stderr
    assert done.stderr.count(b"\n") == 1
