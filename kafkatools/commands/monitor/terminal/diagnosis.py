"""The diagnosis of the selected row by the causes of `kt why`, for a thread beside the application's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import CommandError
from kafkatools.tools.diagnosis.answer import (
    answer_lines,
    command_line,
    default_interval_s,
    needs_time,
    unseen_lines,
)
from kafkatools.tools.diagnosis.collecting import TIMEOUT_MS, Collecting
from kafkatools.tools.diagnosis.observations import Subject
from kafkatools.tools.diagnosis.verdict import verdicts


class Connection(NamedTuple):
    """The connection to the cluster, and the options for the command lines of an answer."""

    bootstrap: str
    settings: Mapping[str, object]
    clock: Clock
    command_config: str | None = None
    profile: str | None = None

    def admin(self) -> AdminClient:
        """Return a new client."""
        return AdminClient(self.bootstrap, self.settings, self.clock)

    def impatient_admin(self) -> AdminClient:
        """Return a new client with the time limits of `kt why`."""
        limits = {"default.api.timeout.ms": str(TIMEOUT_MS), "request.timeout.ms": str(TIMEOUT_MS)}
        return AdminClient(self.bootstrap, {**limits, **self.settings}, self.clock)

    def line(self, words: Sequence[str]) -> str:
        """Return a command line of kt to paste into a shell."""
        return command_line(words, self.bootstrap, self.command_config, self.profile)


Diagnose = Callable[[Subject, threading.Event], Iterator[list[str]]]
"""Yields the lines of an answer, and of a better one after a second snapshot. Ends when the event is set."""


def diagnose(connection: Connection, subject: Subject, is_cancelled: threading.Event) -> Iterator[list[str]]:
    """Yield the answer of `kt why` about a subject, with one snapshot and, if time shows more, again with a second one.
    An error is an answer too."""
    try:
        with Collecting(connection.impatient_admin, subject) as collecting:
            obs = collecting.collect()
            found = verdicts(obs)
            lines = [*answer_lines(obs, found, connection.line), *unseen_lines(obs, found)]
            interval_s = default_interval_s(subject)
            if found or not interval_s or not needs_time(obs):
                yield lines
                return
            yield [*lines, f"A second snapshot follows in {interval_s:g} s ..."]
            if is_cancelled.wait(interval_s):
                return
            obs = collecting.collect()
            found = verdicts(obs)
            yield [*answer_lines(obs, found, connection.line), *unseen_lines(obs, found)]
    except (KafkaError, CommandError) as error:
        yield [f"Could not examine {subject.text}: {error}"]
