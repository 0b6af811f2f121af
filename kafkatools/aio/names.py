"""LoopResolver: look host names up without blocking the event loop (`loop.getaddrinfo`)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from kafkatools.core.errors import NameResolutionFailed
from kafkatools.core.net.addresses import Address, in_order, name_in_bytes, resolve, unresolved

_Name = tuple[str, int]


class LoopResolver:
    """Resolves names in the executor of the running loop, and IP addresses at once. `on_resolved` is called when a
    lookup has ended."""

    def __init__(self, on_resolved: Callable[[], None]) -> None:
        self._on_resolved = on_resolved
        self._results: dict[_Name, list[Address] | NameResolutionFailed] = {}
        self._lookups: dict[_Name, asyncio.Task[None]] = {}

    def is_resolved(self, host: str, port: int) -> bool:
        """Return whether `resolve` can return or raise now; if not, start the lookup."""
        name = (host, port)
        if name in self._results or _is_address(host):
            return True
        if name not in self._lookups:
            self._lookups[name] = asyncio.get_running_loop().create_task(self._look_up(host, port))
        return False

    def resolve(self, host: str, port: int) -> list[Address]:
        """Return the addresses that the last lookup found, once: the next call needs a new lookup. Raises
        NameResolutionFailed."""
        result = self._results.pop((host, port), None)
        if result is None:
            return resolve(host, port)
        if isinstance(result, NameResolutionFailed):
            raise result
        return result

    async def _look_up(self, host: str, port: int) -> None:
        loop, name = asyncio.get_running_loop(), (host, port)
        try:
            found = await loop.getaddrinfo(name_in_bytes(host), port, type=socket.SOCK_STREAM)
            self._results[name] = in_order(Address(family, sockaddr) for family, _, _, _, sockaddr in found)
        except (OSError, UnicodeError) as problem:
            self._results[name] = unresolved(host, port, problem)
        finally:
            del self._lookups[name]
        self._on_resolved()

    def close(self) -> None:
        """Cancel the lookups."""
        for lookup in self._lookups.values():
            lookup.cancel()


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False
