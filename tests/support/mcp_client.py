"""The real client of the package mcp, and `kt mcp` as a process that it starts."""

from __future__ import annotations

import contextlib
import datetime
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import anyio.from_thread
import mcp_types as types
from mcp import ClientSession, StdioServerParameters, stdio_client

TIMEOUT_S = 60


class McpClient:
    """Calls the tools of a server, from ordinary functions. `portal` runs the session on a thread of its own."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, session: ClientSession, log: pathlib.Path) -> None:
        self._portal = portal
        self._session = session
        self._log = log
        self.start = portal.call(session.initialize)

    def tools(self) -> list[types.Tool]:
        """The tools of the server."""
        return self._portal.call(self._session.list_tools).tools

    def names(self) -> set[str]:
        """The names of the tools."""
        return {tool.name for tool in self.tools()}

    def result(self, name: str, /, **arguments: object) -> types.CallToolResult:
        """The result of a call; its text says the same as its structured content."""
        return self._portal.call(self._call, name, arguments)

    def call(self, name: str, /, **arguments: object) -> dict[str, Any]:
        """The structured content of a call that is not an error."""
        result = self.result(name, **arguments)
        assert not result.is_error, result
        content: dict[str, Any] = result.structured_content
        return content

    def rows(self, name: str, /, **arguments: object) -> list[dict[str, Any]]:
        """The rows of a call that is not an error."""
        rows: list[dict[str, Any]] = self.call(name, **arguments)["rows"]
        return rows

    def refused(self, name: str, /, **arguments: object) -> tuple[str, str]:
        """Kind and message of the only error of a call that is an error."""
        result = self.result(name, **arguments)
        assert result.is_error, result
        (error,) = result.structured_content["errors"]
        return error["kind"], error["message"]

    def start_call(self, name: str, /, **arguments: object) -> Any:
        """Start a call and return its future, which can be cancelled."""
        return self._portal.start_task_soon(self._call, name, arguments)

    def results(self, *calls: tuple[str, dict[str, object]]) -> list[types.CallToolResult]:
        """The results of calls that are made at the same time."""
        futures = [self.start_call(name, **arguments) for name, arguments in calls]
        return [future.result() for future in futures]

    def stderr(self) -> str:
        """What the server wrote to stderr."""
        return self._log.read_text(encoding="utf-8")

    async def _call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        result = await self._session.call_tool(name, arguments, read_timeout_seconds=TIMEOUT_S)
        assert isinstance(result, types.CallToolResult)
        return result


@contextlib.contextmanager
def mcp_client(
    directory: pathlib.Path, *arguments: str, before: tuple[str, ...] = (), environ: Mapping[str, str] | None = None
) -> Iterator[McpClient]:
    """Starts `kt BEFORE mcp ARGUMENTS` in a directory and connects to it over stdio."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kafkatools", *before, "mcp", *arguments],
        env={**os.environ, "KT_SANDBOX": "off", "KT_HOME": str(directory), **(environ or {})},
        cwd=directory,
    )
    log = directory / f"stderr-{datetime.datetime.now().timestamp()}"
    with (
        log.open("w") as errors,
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(stdio_client(server, errlog=errors)) as (received, sent),
        portal.wrap_async_context_manager(ClientSession(received, sent)) as session,
    ):
        yield McpClient(portal, session, log)
