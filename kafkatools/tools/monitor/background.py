"""Calls that block, made in a thread for a coroutine of the HTTP server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Return what a call returns, made in a daemon thread: the command ends without waiting for a broker that hangs."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | Exception) -> None:
        if done.done():  # the client has disconnected
            return
        if isinstance(result, Exception):
            done.set_exception(result)
        else:
            done.set_result(result)

    def run() -> None:
        try:
            result: T | Exception = call()
        except Exception as error:  # noqa: BLE001 - the boundary of a thread: the request fails, not the server
            result = error
        with suppress(RuntimeError):  # the server has stopped
            loop.call_soon_threadsafe(settle, result)

    threading.Thread(target=run, name="monitor-details", daemon=True).start()
    return await done
