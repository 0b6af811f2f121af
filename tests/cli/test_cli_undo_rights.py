"""kt undo by a user who lacks a right: the right is named, and an unreadable value is neither present nor absent."""

from __future__ import annotations

import pathlib

import pytest
from support.denied_users import GuardedBroker
from support.kt import Ran

from kafkatools.exit_status import ExitStatus

ADVICE = "An administrator sees the rights with kt acls --list and adds one with kt acls --add."
CHANGES = {
    "config": ("configs", "--alter", "--topic", "TOPIC", "--add-config", "retention.ms=100000"),
    "topic": ("topics", "--create", "--topic", "TOPIC-made"),
    "acl": ("acls", "--add", "--allow-principal", "User:shop", "--operation", "READ", "--topic", "TOPIC"),
    "quota": ("configs", "--alter", "--user", "TOPIC", "--add-config", "producer_byte_rate=1000"),
    "offset": (
        "consumer-groups", "--reset-offsets", "--group", "readers", "--topic", "TOPIC", "--to-offset", "1",
        "--execute", "--no-undo-file",
    ),
    "user": ("configs", "--alter", "--user", "TOPIC", "--add-config", "SCRAM-SHA-256=[password=word]"),
}  # fmt: skip


class Journal:
    """A journal with one entry, the change of `topic`."""

    def __init__(self, guarded: GuardedBroker, home: pathlib.Path, change: str) -> None:
        self.guarded = guarded
        self.environ = {"KT_JOURNAL": "on", "KT_HOME": str(home)}
        self.topic = guarded.topic(f"{change}-{home.name}"[:200], b"0", b"1", b"2")
        if change == "offset":  # the change must have an earlier value that is set again
            words = CHANGES["offset"]
            first = [{"TOPIC": self.topic, "1": "0"}.get(word, word) for word in words]
            assert guarded.kt(*first).status is ExitStatus.OK
        made = self.kt(*(word.replace("TOPIC", self.topic) for word in CHANGES[change]))
        assert made.status is ExitStatus.OK, made.err

    def kt(self, *words: str, user: str = "admin") -> Ran:
        return self.guarded.kt(*words, user=user, environ=self.environ)


@pytest.mark.parametrize("mode", ["--dry-run", "--yes"])
@pytest.mark.parametrize(
    ("change", "right", "named"),
    [
        ("config", "DESCRIBE_CONFIGS TOPIC", "DESCRIBE_CONFIGS on topic TOPIC"),
        ("topic", "DESCRIBE TOPIC", "DESCRIBE on topic TOPIC-made"),
        ("acl", "DESCRIBE CLUSTER", "DESCRIBE on the cluster"),
        ("quota", "DESCRIBE_CONFIGS CLUSTER", "DESCRIBE_CONFIGS on the cluster"),
        ("offset", "DESCRIBE GROUP", "DESCRIBE on group readers"),
        ("offset", "DESCRIBE TOPIC", "DESCRIBE on topic TOPIC"),
        ("user", "DESCRIBE CLUSTER", "DESCRIBE on the cluster"),
    ],
)
def test_a_value_that_cannot_be_read(
    guarded: GuardedBroker, tmp_path: pathlib.Path, change: str, right: str, named: str, mode: str
) -> None:
    journal = Journal(guarded, tmp_path, change)
    ran = journal.kt("undo", "1", mode, user=guarded.user_without(right))
    assert ran.status is ExitStatus.FAILED
    assert f"Not authorized: the right {named.replace('TOPIC', journal.topic)} is missing" in ran.out + ran.err
    assert "changed since" not in ran.out
    assert ADVICE[3:] in ran.err
    assert journal.kt("undo", "1", "--yes").status is ExitStatus.OK


@pytest.mark.parametrize(
    ("change", "rights", "named"),
    [
        ("config", ["ALTER_CONFIGS TOPIC"], "ALTER_CONFIGS on topic TOPIC"),
        ("topic", ["DELETE TOPIC", "DELETE CLUSTER"], "DELETE on topic TOPIC-made"),
        ("acl", ["ALTER CLUSTER"], "ALTER on the cluster"),
        ("quota", ["ALTER_CONFIGS CLUSTER"], "ALTER_CONFIGS on the cluster"),
        ("offset", ["READ GROUP"], "READ on group readers"),
        ("offset", ["READ TOPIC"], "READ on topic TOPIC"),
        ("user", ["ALTER CLUSTER"], "ALTER on the cluster"),
    ],
)
def test_a_value_that_cannot_be_set(
    guarded: GuardedBroker, tmp_path: pathlib.Path, change: str, rights: list[str], named: str
) -> None:
    journal = Journal(guarded, tmp_path, change)
    ran = journal.kt("undo", "1", "--yes", user=guarded.user_without(*rights))
    assert ran.status is ExitStatus.FAILED
    assert f"not undone: Not authorized: the right {named.replace('TOPIC', journal.topic)} is missing" in ran.err
    assert "Undone: 0; failed: 1." in ran.out
    assert ran.err.splitlines().count(ADVICE) == 1
    assert journal.kt("undo", "1", "--yes").status is ExitStatus.OK
