"""The change observer of a command: writes each change to the journal before it is sent, and its outcome afterwards.

One recorder serves all clients of a run, so a run has one entry. It begins with the first change, so a command that
changes nothing leaves no entry.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, Responded
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.errors import ConnectionFailed, KafkaError, NoBrokersAvailable, Timeout
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import NEVER
from kafkatools.exit_status import CommandError
from kafkatools.tools.journal.entries import FAILED, UNKNOWN, Change, Noted, Outcome, Run, change_row
from kafkatools.tools.journal.files import JournalFiles
from kafkatools.tools.journal.masking import masked
from kafkatools.tools.journal.requests import APIS, Api, Reading
from kafkatools.version import __version__

MAX_CHANGES = 100_000
"""The changes that one entry holds; further ones are counted."""


class Invocation(NamedTuple):
    """The command line that changes a cluster. `command`: its words, `kt` first; `undoes`: the entry that it undoes."""

    command: Sequence[str]
    bootstrap: str
    profile: str | None = None
    command_config: str | None = None
    through_controllers: bool = False
    undoes: int | None = None


class Recorder:
    """The journal of one run. `warn` prints a warning; with `is_required` a change that cannot be written to the
    journal raises CommandError before it is made."""

    def __init__(
        self, home: str, invocation: Invocation, wall_ms: int, warn: Callable[[str], None], *, is_required: bool
    ) -> None:
        self._files = JournalFiles(home)
        self._invocation = invocation
        self._wall_ms = wall_ms
        self._warn = warn
        self._is_required = is_required
        self._number: int | None = None
        self._count = 0
        self._cause = ""
        """Why the journal cannot be written, empty while it can."""

    def __call__(self, admin: AdminClient, requests: Sequence[BrokerRequest]) -> Responded | None:
        """Write the changes of these requests; return the function that writes their outcomes."""
        api = APIS.get(requests[0].api_key)
        fields = [
            dict(request.fields(_newest(request)) if callable(request.fields) else request.fields)
            for request in requests
        ]
        if api is None or any(one.get("validate_only") for one in fields):
            return None
        if self._cause:
            self._ensure_not_required()
            return None
        cluster_id = self._cluster_id(admin) if self._number is None else None
        of_share_groups = command_name(self._invocation.command) == "share-groups"
        try:
            by_request = api.changes(Reading(admin, of_share_groups), fields)
        except UnicodeEncodeError:
            raise  # the change would fail with the same error
        except (KafkaError, ValueError) as error:
            self._fail(f"the earlier values could not be read: {error}")
            return None
        first = self._count
        noted = [change for changes in by_request for change in changes if not _changes_nothing(change)]
        if not noted or not self._write(cluster_id, noted):
            return None
        held = self._count - first

        def responded(responses: Sequence[BrokerResponse]) -> None:
            outcomes: list[Outcome] = []
            for changes, response in zip(by_request, responses, strict=True):
                results = zip(changes, _outcomes(api, changes, response), strict=True)
                outcomes += [outcome for change, outcome in results if not _changes_nothing(change)]
            rows = [_outcome_row(outcome) for outcome in outcomes[:held]]
            self._write_outcomes({"first": first, "outcomes": rows})
            answered = [
                (one, response) for one, response in zip(by_request, responses, strict=True) if not response.error
            ]
            self._write_found([noted for one, response in answered for noted in api.found(one, response.entity)])

        return responded

    def _write(self, cluster_id: str | None, changes: Sequence[Change]) -> bool:
        """Write changes and return whether they are in the journal."""
        held = changes[: MAX_CHANGES - self._count]
        row: dict[str, object] = {"changes": [change_row(change) for change in held]}
        if len(held) < len(changes):
            if self._is_required:
                self._fail(f"an entry holds {MAX_CHANGES} changes")
            row["unnoted"] = len(changes) - len(held)
        try:
            if self._number is None:
                self._number = self._files.begin(self._run(cluster_id), [row]).number
            else:
                self._files.append(self._number, row)
        except OSError as error:
            self._fail(f"{error.filename or self._files.directory}: {error.strerror}")
            return False
        self._count += len(held)
        return True

    def _write_found(self, found: Sequence[Noted]) -> None:
        """Write changes that only a response names, with their outcomes."""
        if not found:
            return
        held = found[: MAX_CHANGES - self._count]
        changes = [change_row(noted.change) for noted in held]
        outcomes = [_outcome_row(noted.outcome) for noted in held]
        row = {"changes": changes, "unnoted": len(found) - len(held), "first": self._count, "outcomes": outcomes}
        self._count += len(held)
        self._write_outcomes(row)

    def _write_outcomes(self, row: Mapping[str, object]) -> None:
        """Write the outcomes of changes that were made, or warn: they are unknown then."""
        if self._number is None or self._cause:
            return
        try:
            self._files.append(self._number, row)
        except OSError as error:
            self._cause = f"{error.filename or self._files.path(self._number)}: {error.strerror}"
            self._warn(f"warning: the journal lacks the outcome of this change: {self._cause}")

    def _fail(self, cause: str) -> None:
        """Warn that a change is not in the journal, or with `is_required` raise CommandError before it is made."""
        self._cause = cause
        self._ensure_not_required()
        self._warn(f"warning: kt undo will not know this change: {cause}")

    def _ensure_not_required(self) -> None:
        if self._is_required:
            made = "nothing was changed" if self._number is None else "it was not made; kt undo last shows earlier ones"
            raise CommandError(
                f"The change cannot be noted in the journal, so {made}: {self._cause}",
                hint="Set KT_JOURNAL=on to make changes without the journal.",
            )

    def _cluster_id(self, admin: AdminClient) -> str | None:
        """The cluster's id, None if the broker does not report it. Raises KafkaError if no broker can be reached."""
        cached = admin.client.metadata.cluster.cluster_id
        if cached is not None:
            return cached
        try:
            return describe_cluster(admin).cluster_id
        except (ConnectionFailed, NoBrokersAvailable, Timeout):
            raise  # the change would fail with the same error
        except KafkaError:
            return None

    def _run(self, cluster_id: str | None) -> Run:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a user id without a name
            user = str(os.getuid())
        made = self._invocation
        return Run(
            number=0,
            time_ms=self._wall_ms,
            user=user,
            host=os.uname().nodename,
            pid=os.getpid(),
            kt=__version__,
            command=masked(made.command),
            cluster_id=cluster_id,
            bootstrap=made.bootstrap,
            profile=made.profile,
            command_config=made.command_config,
            through_controllers=made.through_controllers,
            undoes=made.undoes,
        )


def command_name(words: Sequence[str]) -> str:
    """Return the name of the command of a command line, after `kt` and its options --profile and --confirm."""
    index = 1
    while index < len(words) and words[index].startswith("-"):
        index += 1 if "=" in words[index] else 2
    return words[index] if index < len(words) else ""


def _newest(request: BrokerRequest) -> int:
    return min(request.max_version, NEVER)


def _changes_nothing(change: Change) -> bool:
    return not change.is_hidden and not change.reason and change.before == change.after


def _outcomes(api: Api, changes: list[Change], response: BrokerResponse) -> list[Outcome]:
    """The outcomes of the changes of a request. Without a response it is unknown whether they were made."""
    if response.error is None:
        outcomes = api.outcomes(changes, response.entity)
        return outcomes + [Outcome(UNKNOWN)] * (len(changes) - len(outcomes))
    was_sent = response.api_version >= 0 or isinstance(response.error, Timeout)
    return [Outcome(UNKNOWN if was_sent else FAILED, str(response.error)) for _ in changes]


def _outcome_row(outcome: Outcome) -> dict[str, str]:
    return {name: value for name, value in outcome._asdict().items() if value is not None}
