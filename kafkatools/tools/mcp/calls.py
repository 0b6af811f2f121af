"""The tools of a server and the calls to them, apart from the protocol."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from kafkatools.tools.mcp.answers import Page, refusal
from kafkatools.tools.mcp.arguments import ArgumentError, check_arguments, command_words, integer
from kafkatools.tools.mcp.changes import Changes
from kafkatools.tools.mcp.changing_tools import (
    CARRY_OUT,
    CARRY_OUT_ABOUT,
    CARRY_OUT_ARGUMENTS,
    CHANGING_TOOLS,
    ChangingTool,
)
from kafkatools.tools.mcp.command_runs import Connection, Runner
from kafkatools.tools.mcp.plans import PlanError
from kafkatools.tools.mcp.reading_tools import READING_TOOLS, RECORDS
from kafkatools.tools.mcp.tool import Argument, Tool, Values

_MAX_SKIPPED = 1_000_000


class Definition(NamedTuple):
    """A tool as a client sees it. `changes`: a call changes the cluster."""

    name: str
    about: str
    arguments: tuple[Argument, ...]
    changes: bool = False


def reading_tools(*, with_records: bool, has_masks: bool, has_registry: bool) -> tuple[Tool, ...]:
    """Return the tools that read. `has_masks` leaves out searches, which would reveal hidden contents; without the
    packages of kt query there is no `query`."""

    def is_offered(tool: Tool) -> bool:
        if tool.shows_records and (not with_records or (tool.searches and has_masks)):
            return False
        if tool.reads_registry and not has_registry:
            return False
        return all(find_spec(package) is not None for package in tool.packages)

    return tuple(filter(is_offered, READING_TOOLS))


class Calls:
    """Answers calls. `changes`: None if the server makes no changes."""

    def __init__(
        self, tools: Sequence[Tool], runner: Runner, connection: Connection, changes: Changes | None = None
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._plans = {tool.name: tool for tool in CHANGING_TOOLS} if changes is not None else {}
        self._runner = runner
        self._connection = connection
        self._changes = changes

    @property
    def definitions(self) -> list[Definition]:
        """The tools that can be called."""
        reading = [Definition(tool.name, tool.about, tool.all_arguments) for tool in self._tools.values()]
        planning = [Definition(tool.name, tool.about, tool.arguments) for tool in self._plans.values()]
        last = [Definition(CARRY_OUT, CARRY_OUT_ABOUT, CARRY_OUT_ARGUMENTS, changes=True)] if planning else []
        return reading + planning + last

    async def call(self, name: str, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the answer to a call; mistakes of the client are answers, too."""
        try:
            if name in self._tools:
                return await self._read(self._tools[name], arguments)
            if name in self._plans:
                return await self._plan(self._plans[name], arguments)
            if name == CARRY_OUT and self._changes is not None:
                token = check_arguments(CARRY_OUT_ARGUMENTS, arguments)["token"]
                return await self._changes.carry_out(str(token))
        except ArgumentError as error:
            return refusal("ARGUMENT", str(error))
        except PlanError as error:
            return refusal("PLAN", str(error))
        return refusal("ARGUMENT", self._unknown(name))

    async def _read(self, tool: Tool, arguments: Mapping[str, object]) -> dict[str, object]:
        values = check_arguments(tool.all_arguments, arguments)
        is_search = tool.searches and tool.command == RECORDS
        page = Page(_skipped_rows(values), integer(values, "max_rows", tool.default_rows), is_search)
        words = [*tool.words(values), *command_words(tool.arguments, values)]
        return await self._runner.answer(self._command_line(tool, words), page)

    def _command_line(self, tool: Tool, words: Sequence[str]) -> list[str]:
        connection = self._connection
        if tool.is_local:
            return [*tool.command, "--json", *words]
        place = connection.registry if tool.reads_registry else connection.cluster
        records = connection.records if tool.command == RECORDS else ()
        return [*connection.before, *tool.command, "--json", *place, *records, *words]

    async def _plan(self, tool: ChangingTool, arguments: Mapping[str, object]) -> dict[str, object]:
        assert self._changes is not None
        return await self._changes.plan(tool, check_arguments(tool.arguments, arguments))

    def _unknown(self, name: str) -> str:
        if self._changes is None and name in (CARRY_OUT, *(tool.name for tool in CHANGING_TOOLS)):
            return f"{name} changes the cluster, and kt mcp runs without --allow-changes"
        similar = difflib.get_close_matches(name, [definition.name for definition in self.definitions], 1)
        return f"There is no tool '{name[:80]}'" + (f"; did you mean '{similar[0]}'?" if similar else "")


def _skipped_rows(values: Values) -> int:
    """Return the number of rows before the page. Raises ArgumentError for a cursor that no answer had."""
    text = str(values.get("cursor", "0"))
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) <= _MAX_SKIPPED):
        raise ArgumentError("The argument 'cursor' must be the next_cursor of an earlier answer")
    return int(text)
