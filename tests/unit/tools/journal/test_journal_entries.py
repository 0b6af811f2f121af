"""Repeated changes of a value in one entry of the journal: earlier value, reason and outcome; outcomes of responses."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from kafkatools.core.net.requests import BrokerRequest, BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import build, response_type
from kafkatools.tools.journal import requests
from kafkatools.tools.journal.entries import CONFIG, DONE, FAILED, PARTLY, TOPIC, Change, Entry, change_row, read_entry
from kafkatools.tools.journal.files import JournalFiles
from kafkatools.tools.journal.recorder import Invocation, Recorder

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


_READING = requests.Reading(None)  # type: ignore[arg-type]


def _outcomes(api_key: ApiKey, version: int, fields: dict[str, Any], response: dict[str, Any]) -> list[tuple[str, Any]]:
    """The targets and states of the changes of one request, when a broker gives this response."""
    api = requests.APIS[api_key]
    (changes,) = api.changes(_READING, [fields])
    outcomes = api.outcomes(changes, build(response_type(api_key, version), response))
    return [(change.target, outcome.state) for change, outcome in zip(changes, outcomes, strict=True)]


@pytest.mark.parametrize("version", [0, 1])
def test_features_that_an_older_broker_refuses_one_by_one_failed(version: int) -> None:
    updates = [{"feature": name, "max_version_level": 1} for name in ("group.version", "kraft.version")]
    results = [{"feature": "group.version"}, {"feature": "kraft.version", "error_code": 42}]
    assert _outcomes(ApiKey.UPDATE_FEATURES, version, {"feature_updates": updates}, {"results": results}) == [
        ({"feature": "group.version"}, DONE),
        ({"feature": "kraft.version"}, FAILED),
    ]


def test_features_that_are_refused_together_failed() -> None:
    updates = [{"feature": name, "max_version_level": 1} for name in ("group.version", "kraft.version")]
    refused = {"error_code": 95, "error_message": "no"}
    outcomes = _outcomes(ApiKey.UPDATE_FEATURES, 2, {"feature_updates": updates}, refused)
    assert [state for _, state in outcomes] == [FAILED, FAILED]


@pytest.mark.parametrize("topics", [None, [{"topic": "t", "partitions": [0, 1]}]])
def test_elections_that_are_refused_together_failed(topics: list[dict[str, Any]] | None) -> None:
    fields = {"election_type": 0, "topic_partitions": topics}
    refused = _outcomes(ApiKey.ELECT_LEADERS, 2, fields, {"error_code": 31, "replica_election_results": []})
    assert {state for _, state in refused} == {FAILED}
    results = [{"topic": "t", "partition_result": [{"partition_id": 0, "error_code": 80}, {"partition_id": 1}]}]
    single = _outcomes(ApiKey.ELECT_LEADERS, 2, fields, {"replica_election_results": results})
    assert [state for _, state in single] == ([DONE] if topics is None else [FAILED, DONE])


@pytest.mark.parametrize("topics", [None, [{"topic": "t", "partitions": [0, 1]}]])
def test_an_election_that_is_not_needed_succeeded(topics: list[dict[str, Any]] | None) -> None:
    results = [{"topic": "t", "partition_result": [{"partition_id": 0, "error_code": 84}, {"partition_id": 1}]}]
    fields = {"election_type": 0, "topic_partitions": topics}
    outcomes = _outcomes(ApiKey.ELECT_LEADERS, 2, fields, {"replica_election_results": results})
    assert {state for _, state in outcomes} == {DONE}


class _Admin:
    """An admin client of a known cluster that sends nothing."""

    class client:
        class metadata:
            class cluster:
                cluster_id = "c"


def _recorded_election(home: pathlib.Path, codes: Sequence[int], top: int = 0) -> Entry:
    """The entry of an election on all partitions with these error codes of partitions of topic t."""
    recorder = Recorder(str(home), Invocation(["kt", "leader-election"], "b:1"), 0, pytest.fail, is_required=True)
    request = BrokerRequest(None, ApiKey.ELECT_LEADERS, {"election_type": 0, "topic_partitions": None})
    responded = recorder(_Admin(), [request])  # type: ignore[arg-type]
    assert responded is not None
    parts = [
        {"partition_id": number, "error_code": code, "error_message": f"error {code}"}
        for number, code in enumerate(codes)
    ]
    fields = {"error_code": top, "replica_election_results": [{"topic": "t", "partition_result": parts}]}
    entity = build(response_type(ApiKey.ELECT_LEADERS, 2), fields)
    responded([BrokerResponse(1, entity, None, 2)])
    return JournalFiles(str(home)).read(1)


def _leader_rows(entry: Entry) -> list[tuple[object, str, str | None]]:
    return [(one.change.target.get("partition", "*"), one.outcome.state, one.outcome.error) for one in entry.noted]


def test_an_election_on_all_partitions_has_the_outcome_of_each(tmp_path: pathlib.Path) -> None:
    entry = _recorded_election(tmp_path, [0, 84, 80, 83])
    assert _leader_rows(entry) == [
        ("*", DONE, None), (0, DONE, None), (2, FAILED, "error 80"), (3, FAILED, "error 83"),
    ]  # fmt: skip
    assert entry.state == PARTLY


def test_an_election_that_fails_on_all_partitions_failed(tmp_path: pathlib.Path) -> None:
    entry = _recorded_election(tmp_path, [80, 83])
    assert _leader_rows(entry) == [
        ("*", FAILED, "no election succeeded"), (0, FAILED, "error 80"), (1, FAILED, "error 83"),
    ]  # fmt: skip
    assert entry.state == FAILED


def test_an_election_on_all_partitions_that_is_refused_has_no_partitions(tmp_path: pathlib.Path) -> None:
    entry = _recorded_election(tmp_path, [31], top=31)
    assert [target for target, _, _ in _leader_rows(entry)] == ["*"]
    assert entry.state == FAILED


def test_a_transaction_is_aborted_for_each_topic() -> None:
    topics = [{"name": name, "partition_indexes": [0]} for name in ("t", "u")]
    markers = [{"producer_id": 7, "producer_epoch": 1, "transaction_result": False, "topics": topics}]
    parts = [{"partition_index": 0, "error_code": 0}], [{"partition_index": 0, "error_code": 47}]
    results = [{"name": name, "partitions": part} for name, part in zip(("t", "u"), parts, strict=True)]
    response = {"markers": [{"producer_id": 7, "topics": results}]}
    assert _outcomes(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": markers}, response) == [
        ({"producer_id": 7, "topic": "t"}, DONE),
        ({"producer_id": 7, "topic": "u"}, FAILED),
    ]


def test_a_transaction_that_one_of_two_partitions_refuses_is_not_aborted() -> None:
    topic = {"name": "t", "partition_indexes": [0, 1]}
    markers = [{"producer_id": 7, "producer_epoch": 1, "transaction_result": False, "topics": [topic]}]
    parts = [{"partition_index": 0, "error_code": 47}, {"partition_index": 1, "error_code": 0}]
    response = {"markers": [{"producer_id": 7, "topics": [{"name": "t", "partitions": parts}]}]}
    outcomes = _outcomes(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": markers}, response)
    assert outcomes == [({"producer_id": 7, "topic": "t"}, FAILED)]


def test_replicas_between_directories_are_noted_for_each_partition() -> None:
    fields = {"dirs": [{"path": "/d", "topics": [{"name": "t", "partitions": [0, 1]}]}]}
    parts = [{"partition_index": 0, "error_code": 57}, {"partition_index": 1}]
    response = {"results": [{"topic_name": "t", "partitions": parts}]}
    assert _outcomes(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, fields, response) == [
        ({"topic": "t", "partition": 0}, FAILED),
        ({"topic": "t", "partition": 1}, DONE),
    ]
