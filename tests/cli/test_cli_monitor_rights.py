"""kt monitor --once by a user who lacks a right: unknown values are unknown, and the right is named."""

from __future__ import annotations

import json

import pytest
from support.denied_users import GuardedBroker

import kafkatools
from kafkatools.exit_status import ExitStatus


@pytest.fixture(scope="module", autouse=True)
def orders(guarded: GuardedBroker) -> None:
    """A topic, and a group with a lag of 1."""
    guarded.topic("orders", b"0", b"1")
    with kafkatools.Admin(guarded.settings("admin")) as admin:
        admin.alter_group_offsets("readers", {("orders", 0): 1})


@pytest.mark.parametrize(
    ("right", "label", "named"),
    [
        ("DESCRIBE_CONFIGS TOPIC orders", "min.insync.replicas of orders", "DESCRIBE_CONFIGS on topic orders"),
        ("DESCRIBE GROUP readers", "broker 1: offsets of groups readers", "DESCRIBE on group readers"),
        ("DESCRIBE CLUSTER", "broker 1: log directories", "DESCRIBE on the cluster"),
        ("DESCRIBE CLUSTER", "quorum", "DESCRIBE on the cluster"),
        ("DESCRIBE CLUSTER", "reassignments", "DESCRIBE on the cluster"),
    ],
)
def test_what_could_not_be_seen_is_named(guarded: GuardedBroker, right: str, label: str, named: str) -> None:
    ran = guarded.kt("monitor", "--once", user=guarded.user_without(right))
    assert ran.status is ExitStatus.FAILED
    assert f"No data: {label}: Not authorized: the right {named} is missing" in ran.err


def test_the_lag_of_an_invisible_group_is_unknown(guarded: GuardedBroker) -> None:
    ran = guarded.kt("monitor", "--once", "--json", user=guarded.user_without("DESCRIBE GROUP readers"))
    row = json.loads(ran.out.splitlines()[0])
    assert [(group["group"], group["lag"]) for group in row["groups"]] == [("readers", None)]
    whole = guarded.kt("monitor", "--once", "--json")
    assert (whole.status, json.loads(whole.out)["groups"][0]["lag"]) == (ExitStatus.OK, 1), whole.err


def test_figures_that_a_missing_right_hides_are_null_and_not_0(guarded: GuardedBroker) -> None:
    user = guarded.user_without("DESCRIBE_CONFIGS TOPIC orders", "DESCRIBE CLUSTER")
    row = json.loads(guarded.kt("monitor", "--once", "--json", user=user).out)
    assert [row["totals"][name] for name in ("under_min_isr", "at_min_isr", "moving")] == [None] * 3
    assert [topic["under_min_isr"] for topic in row["topics"] if topic["topic"] == "orders"] == [None]
    ran = guarded.kt("monitor", "--once", "--fail-if", "moving>0", user=user)
    assert "moving>0 is unknown: reassignments: Not authorized: the right DESCRIBE on the cluster is missing" in ran.err
