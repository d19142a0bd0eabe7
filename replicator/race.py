"""Waiting for whichever of several things comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def race(*waits: Awaitable[object]) -> None:
    """Wait for the first of these and cancel the others, which have ended then.

    Raises nothing of theirs: whoever has to know what came of one gives a future, and looks at it.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
