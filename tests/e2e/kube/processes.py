"""A program of the test bed as a child process: start until ready, stop, kill, restart.

Invariants: only processes started here are ended, by their own pid; a program never outlives the
test run (``guard.py``); everything it says goes to one log file that grows over restarts.

Each program is a session of its own, so that Ctrl-C in a terminal reaches the test run, which then
ends the programs in order, and not all of them at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

GUARD = Path(__file__).with_name("guard.py")
READY_SECONDS = 90.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.05


class ProgramError(Exception):
    """A program did not become ready or ended by itself; the message carries its last words."""


class Program:
    """One program that can be started, ended and started again with the same command.

    ``ready`` is asked repeatedly after a start; it returns False, or raises OSError, while the
    program is not there yet.  ``environment`` replaces the environment of the test run.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        ready: Callable[[], Awaitable[bool]],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._ready = ready
        self._environment = dict(os.environ if environment is None else environment)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there; says nothing about its being ready."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the running program; ProgramError if it does not run."""
        if self._process is None or not self.running:
            raise ProgramError(f"{self.name} is not running")
        return self._process.pid

    async def start(self, seconds: float = READY_SECONDS) -> None:
        """Start and wait until ready; on failure nothing is left running."""
        self.launch()
        try:
            await self.wait_ready(seconds)
        except BaseException:
            await self.kill()
            raise

    def launch(self) -> None:
        """Start without waiting.  Must be called from the main thread (see ``guard.py``)."""
        if self.running:
            raise ProgramError(f"{self.name} is already running as process {self.pid}")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        guard = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid())]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*guard, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    async def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait for readiness; ProgramError at once if the process ends, or after ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                while not await self._is_ready():
                    if self._process is None or self._process.poll() is not None:
                        raise ProgramError(f"{self.name} ended by itself\n{tail(self.log)}")
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            why = f"{self.name} is not ready after {seconds:.0f} s"
            raise ProgramError(f"{why}\n{tail(self.log)}") from None

    async def _is_ready(self) -> bool:
        try:
            return await self._ready()
        except OSError:
            return False

    async def stop(self) -> int:
        """End it politely (SIGTERM, then SIGKILL after 20 s); returns the exit status."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> int:
        """End it as a power cut would (SIGKILL); returns the exit status."""
        return await self._end(signal.SIGKILL)

    async def restart(self, *, kill: bool = False) -> None:
        """End it, politely or not, and start it again; returns when it is ready."""
        await (self.kill() if kill else self.stop())
        await self.start()

    async def _end(self, how: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(how)
            if not await _ended(process, STOP_SECONDS):
                process.kill()
                await _ended(process, STOP_SECONDS)
        self._process = None
        return process.wait()


async def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        await asyncio.to_thread(process.wait, seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def tail(log: Path, lines: int = 15, width: int = 400) -> str:
    """Last lines of a log file under its name, long lines cut; for messages of failed tests."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 2 * lines * width))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        text = "(never written)"
    last = [line[:width] for line in text.splitlines()[-lines:]]
    return "\n".join([f"--- {log.name} ---", *last])
