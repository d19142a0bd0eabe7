"""The suite itself: built from a checkout of its repository, listed, and run in shares at once.

It is in no registry as a program, and nothing of it is kept here.  Built once for each revision,
into the cache of the end-to-end tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.kube.build import cache_folder

from .specs import Spec, focus_of, specs_of

BUILD_SECONDS = 1800.0
LIMIT = "60m"


class SuiteError(Exception):
    """The suite cannot be built or run; one line that says why."""


def ensure(checkout: Path) -> Path:
    """Return the program, built from a checkout or a bare repository if it is not there yet."""
    revision = _git(checkout, "rev-parse", "HEAD").strip()
    folder = cache_folder() / f"mcs-conformance-{revision[:12]}"
    program = folder / "conformance.test"
    if not program.is_file():
        source = folder / "source"
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir(parents=True)
        archive = folder / "source.tar"
        _git(checkout, "archive", "--output", str(archive), revision)
        shutil.unpack_archive(archive, source, filter="data")
        archive.unlink()
        part = folder / f"conformance.{os.getpid()}.part"
        _run(["go", "test", "-c", "-o", str(part), "."], source / "conformance")
        part.replace(program)
    return program


def _git(checkout: Path, *words: str) -> str:
    if not checkout.is_dir():
        raise SuiteError(f"{checkout} is no checkout of the suite's repository")
    return _run(["git", "-C", str(checkout), *words], checkout)


def _run(command: Sequence[str], folder: Path) -> str:
    found = shutil.which(command[0])
    if found is None:
        raise SuiteError(f"the {command[0]} command is not on PATH")
    done = subprocess.run(
        [found, *command[1:]],
        cwd=folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SuiteError(f"`{' '.join(command[:3])}` failed in {folder}: {said[-1]}")
    return done.stdout


class Suite:
    """The suite against the contexts of a kubeconfig; logs and reports go to ``out``."""

    def __init__(self, program: Path, kubeconfig: Path, contexts: Sequence[str], out: Path) -> None:
        self._program = program
        self._given = ["--kubeconfig", str(kubeconfig), "--contexts", ",".join(contexts)]
        self._out = out

    async def specs(self) -> list[Spec]:
        """All specs there are, none of them run."""
        return await self._ran("list", "--ginkgo.dry-run")

    async def run(self, shares: Sequence[Sequence[Spec]]) -> list[Spec]:
        """Run these specs, the shares at once; returns all that the reports say."""
        ended = await asyncio.gather(
            *(
                self._ran(f"share-{number}", "--ginkgo.v", "--ginkgo.focus", focus_of(share))
                for number, share in enumerate(shares, 1)
            )
        )
        return [one for share in ended for one in share]

    async def _ran(self, name: str, *options: str) -> list[Spec]:
        folder = self._out / name
        folder.mkdir(parents=True, exist_ok=True)
        report = folder / "report.json"
        report.unlink(missing_ok=True)
        with (folder / "suite.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                str(self._program),
                *self._given,
                "--ginkgo.no-color",
                f"--ginkgo.timeout={LIMIT}",
                f"--ginkgo.json-report={report}",
                *options,
                cwd=folder,  # it writes a report of its own beside itself
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
            )
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
        if not report.is_file():
            raise SuiteError(f"the suite left no report; see {folder / 'suite.log'}")
        return specs_of(json.loads(report.read_text("utf-8")))
