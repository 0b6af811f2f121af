"""Groups of Apache Kafka: kt and Kafka's own tools say the same, and take each other's files."""

from __future__ import annotations

import pathlib

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt
from support.live_groups import ClassicMember, ConsumerMember, GroupClient

from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.real_kafka

LONG_TOPIC = "a-topic-with-a-name-of-more-than-24-characters"


def _kt(cluster: ApacheKafka, *args: str, cwd: pathlib.Path | None = None) -> Ran:
    return run_kt("consumer-groups", "--bootstrap-server", cluster.bootstrap, *args, cwd=cwd)


def _both(cluster: ApacheKafka, *args: str) -> tuple[str, str]:
    return _kt(cluster, *args).out, cluster.tool("consumer-groups", *args)


def test_members_of_all_kinds_look_the_same(real_kafka: ApacheKafka) -> None:
    with GroupClient(real_kafka.bootstrap) as client:
        client.create_topic(LONG_TOPIC, 3)
    static = ClassicMember(
        real_kafka.bootstrap, "client-with-a-long-client-id", "grp-static", {LONG_TOPIC: [0, 1, 2]}, "an-instance"
    )
    new = ConsumerMember(real_kafka.bootstrap, "new", "grp-new", "Gupb3acnT0OK7bDYDTphTQ", [LONG_TOPIC])
    static.commit_own({(LONG_TOPIC, 1): 0})
    try:
        groups = ("--group", "grp-static", "--group", "grp-new")
        for form in (("--verbose",), ("--members", "--verbose"), ("--state", "--verbose")):
            ours, theirs = _both(real_kafka, "--describe", *groups, *form)
            assert ours == theirs, form
    finally:
        for member in (static, new):
            member.leave()
            member.__exit__()


def test_plans_go_both_ways(real_kafka: ApacheKafka, tmp_path: pathlib.Path) -> None:
    with GroupClient(real_kafka.bootstrap) as client:
        for topic in ("grp-plan", "grp-plan-with-a-name-of-more-than-24-characters"):
            client.create_topic(topic, 3)
            client.produce_rows(topic, 1, [(1, None, b"value", ())] * 3)
            client.commit("grp plans, all", {(topic, 0): 0, (topic, 1): 2})
    args = ("--reset-offsets", "--group", "grp plans, all", "--all-topics", "--to-current", "--export", "--dry-run")
    ours, theirs = _both(real_kafka, *args)
    assert ours == theirs
    plan = tmp_path / "plan.csv"
    plan.write_text(theirs)
    reset = ("--reset-offsets", "--group", "grp plans, all", "--from-file", str(plan), "--dry-run")
    ours, theirs = _both(real_kafka, *reset)
    assert ours == theirs
    assert len(ours.splitlines()) == 6
    done = _kt(
        real_kafka, *args[:4], "--to-latest", "--execute", "--undo-file", "undo.csv", cwd=tmp_path
    )  # fmt: skip
    assert done.status == ExitStatus.OK, done.err
    undone = ("--reset-offsets", "--group", "grp plans, all", "--from-file", str(tmp_path / "undo.csv"), "--dry-run")
    assert real_kafka.tool("consumer-groups", *undone) == ours
