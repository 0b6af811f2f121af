"""Planned changes and their tokens, in memory only.

A token is random, stands for exactly one plan, is taken by its first use and expires. So a change needs a plan that was
made a short time ago in the same session of the server.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.clock import Clock

VALID_SECONDS = 300
"""The seconds in which a token can be used."""
_MOST = 32
"""Plans that are kept; a further one replaces the oldest."""


class PlanError(Exception):
    """A plan cannot be carried out. Nothing was changed."""


class Change(NamedTuple):
    """The command lines of a change: `dry_run` makes the plan, `check` repeats it before the change, `change` makes it.

    `files`: contents of files by name; `FILES` in a word stands for their directory. `rows_file`: name of the file that
    holds the rows of the plan for `check` and `change`, empty for none.
    """

    dry_run: tuple[str, ...]
    change: tuple[str, ...]
    files: Mapping[str, str] = {}
    check: tuple[str, ...] = ()
    rows_file: str = ""


FILES = "\0files/"
"""Stands for the directory of a change's files; arguments contain no null character."""


class Plan(NamedTuple):
    """A planned change: the rows of its dry run, and the cluster that printed them."""

    tool: str
    change: Change
    cluster_id: str
    rows: list[dict[str, object]]
    expires_ms: int


class Plans:
    """The plans of a server that were not carried out yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._plans: dict[str, Plan] = {}

    def add(self, tool: str, change: Change, cluster_id: str, rows: list[dict[str, object]]) -> str:
        """Keep a plan and return its token."""
        while len(self._plans) >= _MOST:
            del self._plans[next(iter(self._plans))]
        token = secrets.token_urlsafe(24)
        self._plans[token] = Plan(tool, change, cluster_id, rows, self._clock.now_ms() + VALID_SECONDS * 1000)
        return token

    def take(self, token: str) -> Plan:
        """Return the plan of a token, which is used up then. Raises PlanError for an unknown and an expired token."""
        plan = self._plans.pop(token, None)
        if plan is None:
            raise PlanError("There is no plan with this token: it was used, dropped, or made by another server")
        if self._clock.now_ms() >= plan.expires_ms:
            raise PlanError(f"The token has expired: it was valid for {VALID_SECONDS} s")
        return plan
