"""Repeated changes of a value in one entry of the journal: earlier value, reason and outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from kafkatools.tools.journal.entries import CONFIG, DONE, FAILED, TOPIC, Change, Entry, change_row, read_entry

_RUN = {
    "version": 1, "number": 1, "time_ms": 0, "user": "u", "host": "h", "pid": 1, "kt": "0", "command": ["kt"],
    "cluster_id": "c", "bootstrap": "b:1", "profile": None, "command_config": None, "through_controllers": False,
    "undoes": None,
}  # fmt: skip
_LOST = "its records are gone"


def _entry(*steps: tuple[Change, str]) -> Entry:
    rows: list[object] = [_RUN]
    for first, (change, state) in enumerate(steps):
        rows += [{"changes": [change_row(change)]}, {"first": first, "outcomes": [{"state": state}]}]
    return read_entry([json.dumps(row) + "\n" for row in rows])


def _setting(before: str | None, after: str | None, reason: str = "") -> Change:
    return Change(CONFIG, {"topic": "t"}, "retention.ms", before, after, reason)


def test_a_topic_that_was_deleted_and_created_again_cannot_be_undone() -> None:
    deleted = Change(TOPIC, {"topic": "t"}, "", True, False, _LOST)
    entry = _entry((deleted, DONE), (Change(TOPIC, {"topic": "t"}, "", False, True), DONE))
    assert entry.reasons == [_LOST] and entry.undoable == []


def test_an_earlier_value_that_could_not_be_read_is_not_taken_as_unset() -> None:
    entry = _entry((_setting(None, "1", "unread"), DONE), (_setting("1", "2"), DONE))
    assert entry.reasons == ["unread"] and entry.undoable == []


@pytest.mark.parametrize(
    ("steps", "before", "after"),
    [
        (((_setting("1", "2"), DONE), (_setting("2", "3"), DONE)), "1", "3"),
        (((_setting("1", "2"), FAILED), (_setting("5", "2"), DONE)), "5", "2"),
        (((_setting("1", "2"), DONE), (_setting("2", "3"), FAILED)), "1", "2"),
    ],
)
def test_attempts_that_failed_do_not_count(steps: Sequence[tuple[Change, str]], before: str, after: str) -> None:
    (noted,) = _entry(*steps).undoable
    assert (noted.change.before, noted.change.after) == (before, after)


def test_a_file_without_a_complete_line_is_damaged() -> None:
    with pytest.raises(ValueError, match="no complete line"):
        read_entry(['{"version":1'])
