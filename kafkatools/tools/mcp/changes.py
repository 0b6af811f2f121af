"""Plan changes and carry them out.

A plan is the dry run of a command and a token. To carry it out, the same cluster must print the same dry run again; the
time between that and the change is the time of starting a process. A change is not cancelled with its call, since the
client could not know which part of it was made.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import anyio
import anyio.to_thread

from kafkatools.core.clock import Clock
from kafkatools.tools.declared.documents import read_documents
from kafkatools.tools.mcp.answers import CHANGED, UNFINISHED, Messages, Page, answer, without_secrets
from kafkatools.tools.mcp.arguments import ArgumentError
from kafkatools.tools.mcp.changing_tools import ChangingTool
from kafkatools.tools.mcp.command_runs import Connection, Runner
from kafkatools.tools.mcp.plans import FILES, VALID_SECONDS, Change, PlanError, Plans
from kafkatools.tools.mcp.tool import MAX_ROWS, Values

_MAX_OUTCOMES = 1000
_UNFINISHED = "The change did not end: parts of it may have been made. Plan again to see what is left."


class Changes:
    """The plans of a server. `ensure_unprotected` raises an error with a text for the client if the profile is
    protected by now."""

    def __init__(
        self, runner: Runner, connection: Connection, clock: Clock, ensure_unprotected: Callable[[], None]
    ) -> None:
        self._runner = runner
        self._connection = connection
        self._plans = Plans(clock)
        self._ensure_unprotected = ensure_unprotected
        self._lock = anyio.Lock()  # one change at a time

    async def plan(self, tool: ChangingTool, values: Values) -> dict[str, object]:
        """Return the answer to a call that plans a change: the dry run, and a token if there is something to change.
        Raises ArgumentError, PlanError."""
        change = tool.make(values)
        self._ensure_unprotected()
        page, messages = Page(max_rows=MAX_ROWS), Messages()
        with _files(change, []) as directory:
            await anyio.to_thread.run_sync(_ensure_no_users, change, directory)
            messages.hidden_directory = os.fsencode(directory) + b"/"
            status = await self._run(change.dry_run, directory, page, messages)
        token = None
        if status == 0 and not page.shortened and _has_changes(page.rows):
            cluster_id = await self._cluster_id(messages)
            token = None if cluster_id is None else self._plans.add(tool.name, change, cluster_id, page.rows)
        elif page.is_truncated or page.shortened:
            messages.add_error("PLAN_TOO_LARGE", f"The plan has more than {MAX_ROWS} rows or 64 KiB: divide it")
        elif status == 0:
            messages.notes.append({"note": "Nothing would change, so there is no token."})
        elif not messages.errors:
            messages.notes.append({"note": "Not all of these changes can be made, so there is no token."})
        command = shlex.join(["kt", *(word.replace(FILES, "") for word in change.change)])
        plan = {"command": without_secrets(command), "token": token, "valid_seconds": VALID_SECONDS}
        return answer(page, messages, status) | plan

    async def carry_out(self, token: str) -> dict[str, object]:
        """Return the answer to a call that carries out a plan. Raises PlanError if it cannot be; nothing was changed
        then."""
        content: dict[str, object] = {}
        with anyio.CancelScope(shield=True):
            async with self._lock:
                content = await self._carry_out(token)
        return content

    async def _carry_out(self, token: str) -> dict[str, object]:
        plan = self._plans.take(token)
        self._ensure_unprotected()
        messages = Messages()
        cluster_id = await self._cluster_id(messages)
        if cluster_id is None:
            return answer(Page(), messages, None)
        if cluster_id != plan.cluster_id:
            raise PlanError(f"The plan is for the cluster {plan.cluster_id}, but this is {cluster_id}")
        with _files(plan.change, plan.rows) as directory:
            messages.hidden_directory = os.fsencode(directory) + b"/"
            page = Page(max_rows=MAX_ROWS)
            status = await self._run(plan.change.check or plan.change.dry_run, directory, page, messages)
            if status != 0 or page.rows != plan.rows:
                messages.add_error(CHANGED, "The cluster is not as it was when the plan was made: plan again")
                return answer(page, messages, None)
            page, messages.notes = Page(max_rows=_MAX_OUTCOMES, reads_on=True), []
            status = await self._run(plan.change.change, directory, page, messages)
        if status is None:
            messages.add_error(UNFINISHED, _UNFINISHED)
        return answer(page, messages, status)

    async def _run(self, words: Sequence[str], directory: str, page: Page, messages: Messages) -> int | None:
        own = [word.replace(FILES, f"{directory}/") for word in words]
        words = [*self._connection.before, *own, "--json", *self._connection.cluster]
        return await self._runner.run(words, page, messages)

    async def _cluster_id(self, messages: Messages) -> str | None:
        """Return the id of the cluster, None if it is unknown; the reason is one of the errors then."""
        page = Page()
        words = [*self._connection.before, "cluster", "cluster-id", "--json", *self._connection.cluster]
        await self._runner.run(words, page, messages)
        cluster_id = page.rows[0].get("cluster_id") if page.rows else None
        if not isinstance(cluster_id, str):
            messages.add_error("UNKNOWN", "The id of the cluster is unknown")
            return None
        return cluster_id


@contextmanager
def _files(change: Change, rows: Sequence[object]) -> Iterator[str]:
    """Write the files of a change to a directory that only this user can read; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="kt-mcp-") as directory:
        contents = dict(change.files)
        if change.rows_file:
            contents[change.rows_file] = "".join(json.dumps(row) + "\n" for row in rows)
        for name, content in contents.items():
            with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                file.write(content)
        yield directory


def _ensure_no_users(change: Change, directory: str) -> None:
    """Raise ArgumentError if a document declares users: their passwords would be read from files and variables of this
    machine. A document that cannot be parsed is left to the command, whose error has the line."""
    from kafkatools.exit_status import CommandError

    for name in change.files:
        if not name.startswith("document."):
            continue
        try:
            documents = read_documents(os.path.join(directory, name))
        except CommandError:
            return
        if any(isinstance(node.value, dict) and "users" in node.value for node in documents):
            raise ArgumentError("The argument 'document' must not have 'users': a person has to set passwords")


def _has_changes(rows: Sequence[dict[str, object]]) -> bool:
    """Return whether a dry run would change something: a setting, an offset, or whatever has no values to compare."""
    return any(not ("altered" in row and row.get("changes") == []) and row.get("difference") != 0 for row in rows)
