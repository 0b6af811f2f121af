"""The journal of a supervised reassignment: every key of its file, which the run after an interrupted one reads."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

from kafkatools.core.admin.reassignments import Replica
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.journal import Journal, Record, Setting

SETTINGS = (
    Setting(4, "1", "leader.replication.throttled.rate", None, ("50000000", "25000000")),
    Setting(2, "orders", "leader.replication.throttled.replicas", "0:1", ("0:1,0:2",)),
)
RECORD = Record(SETTINGS, {("orders", 0): ((1, 2), (1, 3))}, {Replica("orders", 0, 1): "/a"})
FIELDS = {
    "version": 1,
    "cluster_id": "a/b",
    "settings": [
        {"kind": 4, "name": "1", "setting": "leader.replication.throttled.rate", "before": None,
         "values": ["50000000", "25000000"]},
        {"kind": 2, "name": "orders", "setting": "leader.replication.throttled.replicas", "before": "0:1",
         "values": ["0:1,0:2"]},
    ],
    "replicas": [{"topic": "orders", "partition": 0, "before": [1, 2], "after": [1, 3]}],
    "log_dirs": [{"topic": "orders", "partition": 0, "broker": 1, "path": "/a"}],
}  # fmt: skip


def file_of(home: pathlib.Path) -> pathlib.Path:
    return home / "reassignments" / "a%2Fb.json"


def test_every_key_of_the_file(tmp_path: pathlib.Path) -> None:
    journal = Journal(str(tmp_path), "a/b")
    journal.write(RECORD)
    journal.close()
    assert json.loads(file_of(tmp_path).read_text()) == {**FIELDS, "pid": os.getpid()}


def test_the_next_run_reads_what_an_interrupted_one_left(tmp_path: pathlib.Path) -> None:
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).write_text(json.dumps({**FIELDS, "pid": 1}))
    journal = Journal(str(tmp_path), "a/b")
    journal.close()
    assert journal.leftover == RECORD


@pytest.mark.parametrize("key", ["version", "settings", "replicas"])
def test_a_file_without_one_of_its_keys_is_damaged(tmp_path: pathlib.Path, key: str) -> None:
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).write_text(json.dumps({name: value for name, value in FIELDS.items() if name != key}))
    with pytest.raises(CommandError, match=f"is damaged .KeyError.'{key}'"):
        Journal(str(tmp_path), "a/b")
