"""Programs of the test bed never outlive the test run, however it ends."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
RUN = """
import asyncio, pathlib, sys
from tests.e2e.kube.processes import Program

async def ready():
    return True

log = pathlib.Path(sys.argv[1])
program = Program("sleeper", ["sleep", "600"], log=log, ready=ready)
asyncio.run(program.start())
print(program.pid, flush=True)
sys.stdin.read()
"""


def test_a_program_dies_with_the_run_that_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path / "log")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        program = os.pidfd_open(int(run.stdout.readline()))
        try:
            run.kill()
            # The descriptor of a process becomes readable when it ends.
            ended, _, _ = select.select([program], [], [], 20)
        finally:
            os.close(program)
    assert ended
