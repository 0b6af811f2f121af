"""Event loops for tests of kafkatools.aio: asyncio's own, uvloop, and anyio on asyncio; and what a test left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import uvloop

R = TypeVar("R")
LOOPS = ("asyncio", "uvloop", "anyio")


def run_on(loop: str, main: Callable[[], Awaitable[R]]) -> R:
    """Runs a coroutine function to its end; fails if it leaves a task, a thread or a file descriptor behind."""

    async def checked() -> R:
        result = await main()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    if loop == "uvloop":
        uvloop.run(asyncio.sleep(0))  # its first loop opens a descriptor that stays
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    if loop == "anyio":
        result = anyio.run(checked)
    elif loop == "uvloop":
        result = uvloop.run(checked())
    else:
        result = asyncio.run(checked(), debug=False)
    gc.collect()
    assert set(threading.enumerate()) <= threads, "a thread is left"
    assert open_descriptors() <= descriptors, "a file descriptor is left"
    return result


def open_descriptors() -> int:
    """The number of open file descriptors of this process."""
    return len(os.listdir("/dev/fd"))
