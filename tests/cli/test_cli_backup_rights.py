"""kt backup by a user who lacks rights: what could not be read is named, and the exit status tells it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.kt import Ran, run_kt

import kafkatools
from kafkatools import EmbeddedBroker, Producer
from kafkatools.exit_status import ExitStatus


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    from kafkatools.sandbox.security import SecurityOptions

    users = {"admin": "admin-password", "reader": "reader-password"}
    with EmbeddedBroker(security=SecurityOptions(sasl="plain", acls=True, users=users)) as started:
        settings = started.client_settings("admin")
        with kafkatools.Admin(settings) as admin:
            admin.create_topics([kafkatools.NewTopic("open"), kafkatools.NewTopic("closed")])
        with Producer(settings) as producer:
            producer.send("open", b"value").result()
        for operation in ("READ", "DESCRIBE", "DESCRIBE_CONFIGS"):
            words = ("--allow-principal", "User:reader", "--operation", operation, "--topic", "open")
            assert run("acls", "--add", *words, broker=started, user="admin").status is ExitStatus.OK
        yield started


def run(*words: str, broker: EmbeddedBroker, user: str) -> Ran:
    """Run kt as a user."""
    settings = {name: str(value) for name, value in broker.client_settings(user).items()}
    bootstrap = settings.pop("bootstrap.servers")
    path = pathlib.Path(broker.directory) / f"{user}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return run_kt(*words, "--bootstrap-server", bootstrap, "--command-config", str(path))


def test_a_topic_that_the_user_may_not_describe(broker: EmbeddedBroker, tmp_path: pathlib.Path) -> None:
    ran = run("backup", "--to", str(tmp_path / "kept"), "--topic", "closed", broker=broker, user="reader")
    assert ran.status is ExitStatus.FAILED
    assert "Topic closed: Not authorized: the right DESCRIBE on topic closed is missing" in ran.err
    assert "does not exist" not in ran.err


def test_state_that_the_user_may_not_read_is_a_failure(broker: EmbeddedBroker, tmp_path: pathlib.Path) -> None:
    words = ("backup", "--to", str(tmp_path / "kept"), "--topic", "open", "--json")
    ran = run(*words, broker=broker, user="reader")
    assert ran.status is ExitStatus.FAILED, ran.err
    row = json.loads(ran.out)
    assert (row["topics"], row["acls"], row["quotas"]) == (1, None, None)
    assert "ACLs are not in the backup: Not authorized: the right DESCRIBE on the cluster is missing" in ran.err
    assert (
        "Quotas are not in the backup: Not authorized: the right DESCRIBE_CONFIGS on the cluster is missing" in ran.err
    )
    assert "The backup lacks what could not be read: ACLs, quotas" in ran.err
    whole = run(*words, broker=broker, user="admin")
    assert whole.status is ExitStatus.OK, whole.err
