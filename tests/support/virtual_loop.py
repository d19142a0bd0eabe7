"""An event loop whose time is virtual, for whole agents: real journals and folders, no real waits.

Time stands still while anything can run or a thread works for the loop, and else jumps to the next
timer; so a minute of an agent takes as long as what it does in it, and a slow disk changes nothing.

:meth:`VirtualLoop.freeze` stops all tasks of one *process* (a name in :data:`PROCESS`, inherited by
the tasks it starts) as SIGSTOP does, and :meth:`VirtualLoop.thaw` lets them go on.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import selectors
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

PROCESS: ContextVar[str] = ContextVar("PROCESS", default="")
"""Whose task this is; "" is the test itself, which is never frozen."""
_THREAD_SECONDS = 1.0


class _Selector(selectors.DefaultSelector):
    """Never waits for time to pass, only for threads."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if timeout is None or self.loop.threads:
            return super().select(_THREAD_SECONDS)
        self.loop.jump(timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module's docstring."""

    def __init__(self) -> None:
        """Time begins at 1,000 s."""
        selector = _Selector()
        selector.loop = self
        self.threads = 0
        """Calls that threads are busy with."""
        self._now = 1000.0
        self._frozen: set[str] = set()
        self._held: list[tuple[str, asyncio.Handle]] = []
        super().__init__(selector)

    def time(self) -> float:
        """Virtual seconds."""
        return self._now

    def jump(self, seconds: float) -> None:
        """Nothing is left to do before that."""
        self._now += seconds

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """As the base does; time waits for it."""
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_ended, context=contextvars.Context())
        return future

    def _thread_ended(self, _: object) -> None:
        self.threads -= 1

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """As the base does, however long it takes: time waits for the thread that joins others."""
        del timeout  # of Python 3.12 and later; it would be over at once
        self.threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self.threads -= 1

    # ---- processes -----------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As the base does, unless the process that it is for is frozen."""
        context = contextvars.copy_context() if context is None else context
        process = context.get(PROCESS, "")
        if process not in self._frozen:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._held.append((process, handle))
        return handle

    def freeze(self, process: str) -> None:
        """Run nothing more of ``process``."""
        self._frozen.add(process)

    def thaw(self, process: str, *, newest_first: bool = False) -> None:
        """Go on where :meth:`freeze` stopped, however much later it is.

        In which order its tasks get to run is anybody's guess: the system's decides.
        """
        self._frozen.discard(process)
        held = [handle for name, handle in self._held if name == process]
        self._held = [(name, handle) for name, handle in self._held if name != process]
        for handle in reversed(held) if newest_first else held:
            super().call_soon(_run, handle)


def _run(handle: asyncio.Handle) -> None:
    if not handle.cancelled():
        handle._run()


class VirtualClock:
    """Implements :class:`clusters.base.Clock` on a :class:`VirtualLoop`.

    The wall clock begins at the real time, as OpenSSL judges certificates by that.
    """

    def __init__(self) -> None:
        """Made while the loop runs."""
        self.began_ns = time.time_ns()
        self._began = self.monotonic()

    def monotonic(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time()

    def wall_ns(self) -> int:
        """Goes with the loop's time."""
        return self.began_ns + round((self.monotonic() - self._began) * 1e9)

    async def sleep(self, seconds: float) -> None:
        """Wait on the loop."""
        await asyncio.sleep(seconds)


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on a loop of its own whose time is virtual."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
