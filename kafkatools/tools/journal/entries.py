"""The entries of the journal: the changes that one run of a command made on a cluster, and their outcomes.

An entry is a file of JSON lines. The first line is the run; a line `{"changes": [...]}` is written before the request
that makes them, a line `{"first": N, "outcomes": [...]}` after it, for the changes from number N on (0: the entry's
first one). A change that is repeated keeps its first earlier value, the first reason and its last outcome; attempts
that failed, as with NOT_CONTROLLER, do not count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.json_texts import parse_json
from kafkatools.core.json_values import JsonValue
from kafkatools.core.protocol.entities import Fields

VERSION = 1
DONE, FAILED, UNKNOWN = "done", "failed", "unknown"
PARTLY, RUNNING = "partly", "running"

# Kinds of changes.
ACL = "acl"
CONFIG = "config"
CREDENTIAL = "scram-credential"
GROUP = "group"
OFFSET = "offset"
REPLICAS = "replicas"
SHARE_OFFSET = "share-offset"
TOPIC = "topic"
_TARGET_KEYS = {
    CREDENTIAL: ("user", "mechanism"),
    OFFSET: ("group", "topic", "partition"),
    REPLICAS: ("topic", "partition"),
    SHARE_OFFSET: ("group", "topic", "partition"),
    TOPIC: ("topic",),
}


class Change(NamedTuple):
    """A change of one value on a cluster. `target`: the changed thing, such as {"topic": "orders"}; `name`: a setting's
    name, else empty. `before` and `after` None: not set or absent. `reason`: why it cannot be undone, empty if it can.
    `is_hidden`: the values are secret, so they are missing."""

    kind: str
    target: Mapping[str, JsonValue]
    name: str
    before: JsonValue
    after: JsonValue
    reason: str = ""
    is_hidden: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """The same for all changes of this value."""
        return self.kind, json.dumps(self.target, sort_keys=True), self.name


class Outcome(NamedTuple):
    """The outcome of a change: DONE, FAILED or UNKNOWN, the error if there is one, and a created topic's id."""

    state: str
    error: str | None = None
    topic_id: str | None = None


class Noted(NamedTuple):
    """A change with its outcome."""

    change: Change
    outcome: Outcome


class Run(NamedTuple):
    """The run that made the changes. `time_ms`: milliseconds since 1970. `undoes`: the number of the entry that the run
    undid, None for any other command. Secrets of the command line are hidden."""

    number: int
    time_ms: int
    user: str
    host: str
    pid: int
    kt: str
    command: Sequence[str]
    cluster_id: str | None
    bootstrap: str
    profile: str | None = None
    command_config: str | None = None
    through_controllers: bool = False
    undoes: int | None = None


class Entry(NamedTuple):
    """An entry of the journal. `unnoted`: the number of changes beyond those that an entry holds."""

    run: Run
    noted: Sequence[Noted]
    unnoted: int = 0

    @property
    def state(self) -> str:
        """DONE, PARTLY or FAILED; RUNNING or UNKNOWN while the outcome of a change is missing."""
        states = {noted.outcome.state for noted in self.noted}
        if UNKNOWN in states:
            return RUNNING if self._may_run() and self._lacks_outcomes() else UNKNOWN
        if states == {DONE, FAILED}:
            return PARTLY
        return FAILED if states == {FAILED} else DONE

    @property
    def undoable(self) -> list[Noted]:
        """The changes that may have been made and can be undone."""
        return [noted for noted in self.noted if noted.outcome.state != FAILED and not noted.change.reason]

    @property
    def reasons(self) -> list[str]:
        """The reasons why changes of this entry cannot be undone, each once."""
        reasons = [noted.change.reason for noted in self.noted if noted.outcome.state != FAILED]
        return list(dict.fromkeys(filter(None, reasons)))

    def _lacks_outcomes(self) -> bool:
        return any(noted.outcome == Outcome(UNKNOWN) for noted in self.noted)

    def _may_run(self) -> bool:
        if self.run.host != os.uname().nodename:
            return False
        try:
            os.kill(self.run.pid, 0)
        except PermissionError:
            return True
        except OSError:
            return False
        return True


def change_row(change: Change) -> dict[str, object]:
    """A change as a JSON object."""
    row: dict[str, object] = {"kind": change.kind, "target": dict(change.target)}
    row |= {"name": change.name} if change.name else {}
    row |= {"from": change.before, "to": change.after}
    row |= {"hidden": True} if change.is_hidden else {}
    return row | ({"reason": change.reason} if change.reason else {})


def read_change(row: Fields) -> Change:
    """Parse a change of an entry. Raises KeyError, TypeError or AttributeError."""
    kind, target = row["kind"], row["target"]
    if not isinstance(target, dict):
        raise TypeError("target is not an object")
    for key in _TARGET_KEYS.get(kind, ()):
        if target[key] is None:
            raise TypeError(f"target without {key}")
    values = (kind, target, row.get("name", ""), row["from"], row["to"])
    return Change(*values, row.get("reason", ""), row.get("hidden", False))


def _read_run(header: Fields) -> Run:
    """Parse the first line of an entry. Raises KeyError or TypeError."""
    run = Run(**{name: header[name] for name in Run._fields})
    words = (run.user, run.host, run.kt, run.bootstrap, *run.command)
    if not isinstance(run.command, list) or not all(isinstance(word, str) for word in words):
        raise TypeError("a text of the first line is not a string")
    if not all(type(number) is int for number in (run.number, run.time_ms, run.pid)):
        raise TypeError("a number of the first line is not an integer")
    return run


def read_entry(lines: Iterable[str]) -> Entry:
    """Parse the lines of an entry's file; a last line that was cut off is left out. Raises ValueError."""
    rows = []
    for line in lines:
        if not line.endswith("\n"):
            break
        try:
            rows.append(parse_json(line))
        except ValueError:
            raise ValueError(f"line {len(rows) + 1} is not JSON") from None
    if not rows:
        raise ValueError("it has no complete line")
    try:
        header = rows[0]
        if header["version"] != VERSION:
            raise ValueError(f"version {header['version']} is unknown: another version of kt wrote it")
        return _entry(_read_run(header), rows[1:])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not an entry of the journal ({error!r})") from None


def _entry(run: Run, rows: Sequence[Fields]) -> Entry:
    changes: list[Change] = []
    outcomes: dict[int, Outcome] = {}
    unnoted = 0
    for row in rows:
        changes += [read_change(change) for change in row.get("changes", ())]
        unnoted += row.get("unnoted", 0)
        for index, outcome in enumerate(row.get("outcomes", ()), row.get("first", 0)):
            outcomes[index] = Outcome(outcome["state"], outcome.get("error"), outcome.get("topic_id"))
    noted: dict[tuple[str, str, str], Noted] = {}
    for index, change in enumerate(changes):
        outcome = outcomes.get(index, Outcome(UNKNOWN))
        earlier = noted.get(change.key)
        if earlier is not None and earlier.outcome.state != FAILED:
            if outcome.state == FAILED:  # the earlier change stands
                change, outcome = earlier
            else:  # what the earlier change lost is lost, as with a topic that was deleted and created again
                reason = earlier.change.reason or change.reason
                is_hidden = earlier.change.is_hidden or change.is_hidden
                change = change._replace(before=earlier.change.before, reason=reason, is_hidden=is_hidden)
        noted[change.key] = Noted(change, outcome)
    return Entry(run, [one for one in noted.values() if not _is_reverted(one)], unnoted)


def _is_reverted(noted: Noted) -> bool:
    """Return whether the run itself restored the earlier value, as a reassignment does with its throttles."""
    change, outcome = noted
    return change.before == change.after and outcome.state == DONE and not (change.is_hidden or change.reason)
