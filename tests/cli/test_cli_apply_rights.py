"""kt apply by a user who lacks a right: what could not be compared or changed is named, and is not called a
difference."""

from __future__ import annotations

import pathlib

import pytest
from support.denied_users import GuardedBroker

from kafkatools.exit_status import ExitStatus

ADVICE = "An administrator sees the rights with kt acls --list and adds one with kt acls --add."


def missing(right: str) -> str:
    return f"Not authorized: the right {right} is missing"


@pytest.fixture
def declared(guarded: GuardedBroker, tmp_path: pathlib.Path) -> pathlib.Path:
    """A file with an existing and a new topic, an ACL and a quota."""
    name = tmp_path.name
    guarded.topic(f"{name}-old", b"value")
    path = tmp_path / "cluster.toml"
    path.write_text(
        f'[topics.{name}-old]\npartitions = 2\nconfigs."retention.ms" = "7d"\n[topics.{name}-new]\npartitions = 1\n'
        f'[[acls]]\nprincipal = "User:{name}"\ntopic = "{name}-old"\noperations = "Read"\n'
        f'[[quotas]]\nuser = "{name}"\nproducer_byte_rate = "1MiB"\n'
    )
    return path


@pytest.mark.parametrize("mode", ["--check", "--dry-run", "--yes"])
@pytest.mark.parametrize(
    ("right", "named"),
    [
        ("DESCRIBE TOPIC", "DESCRIBE on topic NAME-new"),
        ("DESCRIBE TOPIC NAME-old", "DESCRIBE on topic NAME-old"),
        ("DESCRIBE_CONFIGS TOPIC", "DESCRIBE_CONFIGS on topic NAME-old"),
        ("DESCRIBE CLUSTER", "DESCRIBE on the cluster"),
        ("DESCRIBE_CONFIGS CLUSTER", "DESCRIBE_CONFIGS on the cluster"),
    ],
)
def test_what_cannot_be_compared_is_no_difference(
    guarded: GuardedBroker, declared: pathlib.Path, right: str, named: str, mode: str
) -> None:
    name = declared.parent.name
    ran = guarded.kt("apply", str(declared), mode, user=guarded.user_without(right.replace("NAME", name)))
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err.splitlines()[0] == missing(named.replace("NAME", name))
    assert ADVICE[3:] in ran.err
    assert f"{name}-new" not in guarded.topics()


@pytest.mark.parametrize(
    ("rights", "named", "made"),
    [
        (["CREATE TOPIC", "CREATE CLUSTER"], "CREATE on topic NAME-new", "2 created, 2 changed"),
        (["ALTER TOPIC"], "ALTER on topic NAME-old", "3 created, 1 changed"),
        (["ALTER_CONFIGS TOPIC"], "ALTER_CONFIGS on topic NAME-old", "3 created, 1 changed"),
        (["ALTER CLUSTER"], "ALTER on the cluster", "2 created, 2 changed"),
        (["ALTER_CONFIGS CLUSTER"], "ALTER_CONFIGS on the cluster", "2 created, 2 changed"),
    ],
)
def test_a_change_without_a_right_is_named_and_the_others_are_made(
    guarded: GuardedBroker, declared: pathlib.Path, rights: list[str], named: str, made: str
) -> None:
    ran = guarded.kt("apply", str(declared), "--yes", user=guarded.user_without(*rights))
    assert ran.status is ExitStatus.FAILED
    assert missing(named.replace("NAME", declared.parent.name)) in ran.out + ran.err
    assert f"Applied: {made}, 0 deleted; 1 " in ran.out
    assert ran.err.splitlines().count(ADVICE) == 1
    rest = guarded.kt("apply", str(declared), "--yes")
    assert rest.status is ExitStatus.OK, rest.err
    assert guarded.kt("apply", str(declared), "--check").status is ExitStatus.OK


@pytest.mark.parametrize(
    ("right", "named"),
    [
        ("DESCRIBE_CONFIGS TOPIC", "DESCRIBE_CONFIGS on topic "),
        ("DESCRIBE CLUSTER", "DESCRIBE on the cluster"),
        ("DESCRIBE_CONFIGS CLUSTER", "DESCRIBE_CONFIGS on the cluster"),
    ],
)
def test_no_file_of_a_cluster_that_could_not_be_read(guarded: GuardedBroker, right: str, named: str) -> None:
    guarded.topic("read-" + right.partition(" ")[0].lower() + right[-1].lower())
    ran = guarded.kt("apply", "--from-cluster", user=guarded.user_without(right))
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert f"Not authorized: the right {named}" in ran.err
