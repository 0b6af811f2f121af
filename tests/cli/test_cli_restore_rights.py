"""kt restore by a user who lacks a right: the right and its resource are named, and no topic is left behind."""

from __future__ import annotations

import json

import pytest
from support.denied_users import GuardedBroker

import kafkatools
from kafkatools.exit_status import ExitStatus

ADVICE = "an administrator sees the rights with kt acls --list and adds one with kt acls --add"


@pytest.fixture(scope="module")
def kept(guarded: GuardedBroker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A backup of a topic, a group, an ACL and a quota."""
    directory = tmp_path_factory.mktemp("kept")
    guarded.topic("orders", b"0", b"1", b"2")
    with kafkatools.Admin(guarded.settings("admin")) as admin:
        admin.alter_group_offsets("billing", {("orders", 0): 2})
        admin.create_acls(kafkatools.Acl("TOPIC", "orders", "User:shop", "READ"))
        admin.alter_client_quotas({"user": "shop"}, {"producer_byte_rate": 1000})
    ran = guarded.kt("backup", "--to", str(directory), "--topic", "orders")
    assert ran.status is ExitStatus.OK, ran.err
    return str(directory)


def missing(right: str) -> str:
    return f"Not authorized: the right {right} is missing"


@pytest.mark.parametrize(
    ("target", "rights", "named"),
    [
        ("new-1", ["DESCRIBE TOPIC"], "Topic new-1: " + missing("DESCRIBE on topic new-1")),
        (
            "new-2",
            ["CREATE TOPIC", "CREATE CLUSTER"],
            "Topic new-2 cannot be created: " + missing("CREATE on topic new-2"),
        ),
        ("new-3", ["WRITE TOPIC"], missing("WRITE on topic new-3")),
        ("new-4", ["READ TOPIC"], missing("READ on topic new-4")),
        ("new-5", ["READ GROUP"], missing("READ on group kt-restore-CLUSTER-to-new-5")),
    ],
)
def test_a_right_without_which_nothing_is_restored(
    guarded: GuardedBroker, kept: str, target: str, rights: list[str], named: str
) -> None:
    words = ("restore", "--from", kept, "--rename", f"orders={target}")
    ran = guarded.kt(*words, user=guarded.user_without(*rights))
    assert ran.status is ExitStatus.FAILED
    line, advice = ran.err.splitlines()[-2:]
    assert line == named.replace("CLUSTER", guarded.cluster_id)
    assert ADVICE in advice
    assert ran.out == ""
    assert target not in guarded.topics()


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["WRITE", "READ", "DESCRIBE_CONFIGS"])
def test_an_existing_topic_without_rights_stays_empty_in_dry_runs_too(
    guarded: GuardedBroker, kept: str, operation: str
) -> None:
    name = guarded.topic(f"closed-{operation}")
    user = guarded.user_without(f"{operation} TOPIC")
    for mode in (["--dry-run"], []):
        ran = guarded.kt("restore", "--from", kept, "--rename", f"orders={name}", *mode, user=user)
        assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
        assert ran.err.splitlines()[0] == missing(f"{operation} on topic {name}")
    assert guarded.end_offset(name) == 0


def test_a_group_without_rights_is_named_and_the_rest_restored(guarded: GuardedBroker, kept: str) -> None:
    words = ("restore", "--from", kept, "--rename", "orders=without-group", "--json")
    ran = guarded.kt(*words, user=guarded.user_without("READ GROUP billing", "DESCRIBE GROUP billing"))
    assert ran.status is ExitStatus.FAILED
    topic, group = map(json.loads, ran.out.splitlines())
    assert (topic["records"], group["committed"]) == (3, 0)
    assert group["reason"] == missing("DESCRIBE on group billing")
    assert "Run the same command again when the causes are removed" in ran.err
    again = guarded.kt(*words)
    assert again.status is ExitStatus.OK, again.err
    assert json.loads(again.out.splitlines()[1])["committed"] == 1


@pytest.mark.parametrize(
    ("kind", "right", "named"),
    [
        ("ACLs", "DESCRIBE CLUSTER", missing("DESCRIBE on the cluster")),
        ("quotas", "DESCRIBE_CONFIGS CLUSTER", missing("DESCRIBE_CONFIGS on the cluster")),
    ],
)
def test_access_that_cannot_be_read_ends_the_restore_before_it_begins(
    guarded: GuardedBroker, kept: str, kind: str, right: str, named: str
) -> None:
    option = f"--{kind.lower()}"
    target = f"before-{kind}"
    words = ("restore", "--from", kept, "--rename", f"orders={target}", option)
    ran = guarded.kt(*words, user=guarded.user_without(right))
    assert ran.status is ExitStatus.FAILED
    assert ran.err.splitlines()[:2] == [
        f"{kind} cannot be set in the target: {named}", f"Run the command without {option}.",
    ]  # fmt: skip
    assert target not in guarded.topics()


def test_access_that_cannot_be_changed_is_named(guarded: GuardedBroker, kept: str) -> None:
    words = ("restore", "--from", kept, "--rename", "orders=renamed", "--no-groups", "--acls")
    ran = guarded.kt(*words, user=guarded.user_without("ALTER CLUSTER"))
    assert ran.status is ExitStatus.FAILED
    assert "orders -> renamed: 3 records in 1 partition" in ran.out
    assert missing("ALTER on the cluster") in ran.err


def test_unknown_retention_is_named(guarded: GuardedBroker, kept: str) -> None:
    words = ("restore", "--from", kept, "--rename", "orders=unknown-retention")
    ran = guarded.kt(*words, user=guarded.user_without("DESCRIBE_CONFIGS TOPIC"))
    assert ran.status is ExitStatus.OK, ran.err
    assert ran.err.splitlines() == [
        "The retention of the targets is unknown, so brokers may soon delete old records: "
        + missing("DESCRIBE_CONFIGS on topic unknown-retention")
    ]
