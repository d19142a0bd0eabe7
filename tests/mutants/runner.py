"""Runs named tests in a copy of the project in which one text was changed.

Packages and tests are copied once, so what is edited meanwhile kills and saves nobody.  A guard
inside each run makes sure that it is the copy that is tested.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tests.mutants.mutant import ROOT, Mutant

BUDGET_SECONDS = 60.0
"""For one mutant; who is not caught by then survives."""
FOLDERS = ("clusters", "crdt", "replicator", "tests")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What became of one mutant."""

    mutant: Mutant
    killer: str | None
    """The test that failed, None if none did."""
    seconds: float


class Copy:
    """A copy of packages and tests, one file of which may be changed for a while."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._times = count(int(time.time()) + 10)
        for name in FOLDERS:
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(ROOT / "pyproject.toml", folder)

    def write(self, module: str, text: str) -> None:
        """Put ``text`` in place, with a time of its own so that no old bytecode is used for it."""
        path = self.folder / module
        path.write_text(text, encoding="utf-8")
        at = next(self._times)
        os.utime(path, (at, at))

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """With the mutant's text in place; ValueError when it does not match any more."""
        source = (self.folder / mutant.module).read_text(encoding="utf-8")
        self.write(mutant.module, mutant.applied(source))
        try:
            yield
        finally:
            self.write(mutant.module, source)

    def run(self, tests: Sequence[str], seconds: float) -> tuple[int, str]:
        """The exit status of pytest (124 when the time is over) and what it printed."""
        options = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:randomly", "-p", "no:cacheprovider"]
        options += ["-p", "tests.mutants.guard"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        environment = {
            **os.environ,
            "CI": "1",
            "MUTANTS_FOLDER": str(self.folder),
            "PYTHONPATH": str(self.folder),
        }
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return 124, ""
        return done.returncode, done.stdout + done.stderr


@contextmanager
def copied() -> Iterator[Copy]:
    """A copy for as long as it is used."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        yield Copy(Path(folder))


def judge(copy: Copy, mutant: Mutant, seconds: float = BUDGET_SECONDS) -> Result:
    """Run the mutant's tests until one fails.

    Raises :class:`RuntimeError` when they could not be run, so that a defect here kills nobody.
    """
    began = time.monotonic()
    with copy.changed(mutant):
        status, printed = copy.run(mutant.tests, seconds)
    spent = time.monotonic() - began
    if status not in {0, 1, 124}:
        message = f"{mutant.name}: pytest ended with {status}\n{printed}"
        raise RuntimeError(message)
    failed = _FAILED.search(printed)
    if status == 1 and failed is None:
        message = f"{mutant.name}: no test is named\n{printed}"
        raise RuntimeError(message)
    return Result(mutant, failed.group(1) if failed else None, spent)
