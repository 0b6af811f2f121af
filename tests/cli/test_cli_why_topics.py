"""kt why about topics, partitions, transactions and disks of one embedded broker; and what it cannot see."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.live_groups import GroupClient
from support.raw_transactions import RawProducer
from support.why import Between, healthy, make_topic, only_cause, why

from kafkatools import EmbeddedBroker
from kafkatools.core.admin.acls import Acl, create_acls
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus

SETTINGS = {
    "transaction_partition_verification_enable": "false",
    "group_initial_rebalance_delay_ms": "0",
}
MINUTE = Between(later_ms=60_000)
"""A clock a minute ahead: transactions of a test are a minute old."""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("broker"), **SETTINGS) as address:
        yield address


def now_ms() -> int:
    return SystemClock().wall_ms()


# -- transactions --


@pytest.mark.slow
def test_an_open_transaction_holds_a_partition(bootstrap: str) -> None:
    make_topic(bootstrap, "held", 2)
    with RawProducer(bootstrap, "held-1", 600_000) as producer:
        producer.send("held", 1, [now_ms()])
        for words in (("topic", "held"), ("partition", "held-1")):
            verdict = only_cause(bootstrap, *words, clock=MINUTE)
            assert verdict["cause"] == "transaction-open"
            assert "transactional id held-1 has held the last stable offset of held-1 for 60 s" in verdict["sentence"]
        healthy(bootstrap, "partition", "held-0", clock=MINUTE)
        producer.end(committed=True)
    healthy(bootstrap, "topic", "held", clock=MINUTE)


def test_a_young_transaction_is_healthy(bootstrap: str) -> None:
    make_topic(bootstrap, "young")
    with RawProducer(bootstrap, "young-1", 600_000) as producer:
        producer.send("young", 0, [now_ms()])
        healthy(bootstrap, "topic", "young")
        healthy(bootstrap, "transaction", "young-1")
        producer.end(committed=False)


def test_a_producer_that_does_not_end_its_transaction(bootstrap: str) -> None:
    make_topic(bootstrap, "unended")
    with RawProducer(bootstrap, "unended-1", 600_000) as producer:
        producer.send("unended", 0, [now_ms()])
        verdict = only_cause(bootstrap, "transaction", "unended-1", clock=MINUTE)
        late = only_cause(bootstrap, "transaction", "unended-1", clock=Between(later_ms=700_000))
        producer.end(committed=True)
    assert verdict["cause"] == "transaction-unfinished" and "open for 60 s" in verdict["sentence"]
    assert verdict["evidence"][0] == "Partitions unended-0"
    assert late["cause"] == "transaction-overdue"


def test_a_hanging_transaction_of_a_topic(bootstrap: str) -> None:
    make_topic(bootstrap, "hanging")
    with RawProducer(bootstrap, "hanging-1", 600_000) as producer:
        producer.send_without_coordinator("hanging", 0, [now_ms()])
    verdict = only_cause(bootstrap, "topic", "hanging", clock=MINUTE)
    assert verdict["cause"] == "transaction-hanging"
    words = verdict["command"].split()[1:]
    ran = run_kt(*words)
    assert ran.status is ExitStatus.OK, ran.err
    assert run_kt(*(word for word in words if word != "--dry-run")).status is ExitStatus.OK
    healthy(bootstrap, "topic", "hanging", clock=MINUTE)


# -- disks --


def test_a_log_directory_that_is_gone(tmp_path: pathlib.Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with embedded_broker(pathlib.Path(f"{first},{second}"), **SETTINGS) as address:
        make_topic(address, "spread", 4)
        second.rename(tmp_path / "c")
        for words in ((), ("broker", "1")):
            verdict = only_cause(address, *words)
            assert verdict["cause"] == "log-dir-offline" and str(second) in verdict["sentence"]
        served = next(number for number in range(4) if (first / f"spread-{number}").exists())
        healthy(address, "partition", f"spread-{served}")


def test_a_disk_that_is_almost_full(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded_broker(tmp_path / "data", **SETTINGS) as address:
        make_topic(address, "fills")
        space = os.statvfs(tmp_path)

        class Full:
            """The volume with a hundredth of its blocks left."""

            f_frsize, f_blocks, f_bavail = space.f_frsize, 100_000, 1000

        monkeypatch.setattr(os, "statvfs", lambda path: Full)
        for words in ((), ("broker", "1"), ("topic", "fills")):
            verdict = only_cause(address, *words)
            assert verdict["cause"] == "disk-full" and str(tmp_path / "data") in verdict["sentence"]


# -- what is printed, and what cannot be seen --


def test_text_has_the_verdict_and_the_command(bootstrap: str) -> None:
    make_topic(bootstrap, "printed")
    with RawProducer(bootstrap, "printed-1", 600_000) as producer:
        producer.send("printed", 0, [now_ms()])
        ran = run_kt("why", "topic", "printed", "--bootstrap-server", bootstrap, clock=MINUTE)
        producer.end(committed=True)
    first, *_, remedy, command = ran.out.splitlines()
    assert (ran.status, ran.err) == (ExitStatus.FINDINGS, "")
    assert first.startswith("The open transaction of transactional id printed-1 ")
    assert remedy == "What to do: Let its producer end it, wait for its timeout, or end it by its id."
    assert command == (
        f"Next: kt transactions --bootstrap-server {bootstrap} forceTerminateTransaction "
        "--transactionalId printed-1 --dry-run"
    )


def test_the_command_has_the_options_of_the_connection(bootstrap: str, tmp_path: pathlib.Path) -> None:
    make_topic(bootstrap, "options")
    settings = tmp_path / "my client.properties"
    settings.write_text("client.id=why\n")
    with RawProducer(bootstrap, "options-1", 600_000) as producer:
        producer.send("options", 0, [now_ms()])
        words = (
            "why",
            "topic",
            "options",
            "--bootstrap-server",
            bootstrap,
            "--command-config",
            str(settings),
            "--json",
        )
        ran = run_kt(*words, clock=MINUTE)
        producer.end(committed=True)
    assert f"--command-config '{settings}' forceTerminate" in json.loads(ran.out)["verdict"]["command"]


@pytest.mark.slow
def test_one_snapshot_of_a_cluster_says_what_is_unknown(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path, **SETTINGS) as address:
        make_topic(address, "behind")
        with GroupClient(address) as client:
            client.commit("reads", {("behind", 0): 1})
        once = run_kt("why", "--bootstrap-server", address)
        twice = run_kt("why", "--bootstrap-server", address, "--interval", "0.1")
    assert once.status is ExitStatus.OK and once.out.splitlines() == [
        "No problem found: the cluster.",
        "  Lag in 1 of 1 group; with --interval 10 kt why also finds those that commit no offsets.",
    ]
    assert twice.status is ExitStatus.FINDINGS and twice.out.startswith("Group reads has no members")


def test_a_principal_without_an_authorizer_to_limit_it(bootstrap: str) -> None:
    make_topic(bootstrap, "free")
    words = ("why", "topic", "free", "--principal", "User:alice", "--bootstrap-server", bootstrap)
    ran = run_kt(*words, "--interval", "0")
    assert ran.status is ExitStatus.OK and ran.out.splitlines() == [
        "No problem found: topic free.",
        "  The cluster has no authorizer, so no ACL limits User:alice.",
    ]


@pytest.mark.slow
def test_slow_responses_are_no_missing_controller(tmp_path: pathlib.Path) -> None:
    with EmbeddedBroker(directory=str(tmp_path)) as broker:
        make_topic(broker.bootstrap, "late")
        with broker.faults.add("delay", delay_ms=1_200, api="DescribeQuorum"):
            status, answer = why(broker.bootstrap)
    # The reassignments are not known: their request waits behind the other one.
    assert (status, answer["verdict"]) == (ExitStatus.FAILED, None)
    assert [text.partition(":")[0] for text in answer["unknown"]] == ["reassignments"]


def test_no_broker() -> None:
    ran = run_kt("why", "--bootstrap-server", "127.0.0.1:1")
    assert ran.status is ExitStatus.FAILED and ran.out == "" and "127.0.0.1:1" in ran.err


def test_what_a_client_may_not_see_is_named(tmp_path: pathlib.Path) -> None:
    rights = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", **SETTINGS}
    with embedded_broker(tmp_path, super_users="User:ANONYMOUS", **rights) as address:
        make_topic(address, "secret")
    with embedded_broker(tmp_path, super_users="User:nobody", **rights) as address:
        status, answer = why(address)
    assert (status, answer["healthy"], answer["verdict"]) == (ExitStatus.FAILED, None, None)
    assert any("log directories" in text for text in answer["unknown"]), answer


def test_topics_that_brokers_leave_out_of_their_lists_are_named(tmp_path: pathlib.Path) -> None:
    """The log directories, which need DESCRIBE on the cluster, name them all the same."""
    rights = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", **SETTINGS}
    with embedded_broker(tmp_path, super_users="User:ANONYMOUS", **rights) as address:
        for name in ("seen", "secret"):
            make_topic(address, name)
        with AdminClient(address, {}, SystemClock()) as admin:
            anyone = "User:ANONYMOUS"
            create_acls(
                admin,
                [
                    Acl("CLUSTER", "kafka-cluster", anyone, "DESCRIBE"),
                    Acl("TOPIC", "seen", anyone, "DESCRIBE"),
                    Acl("CLUSTER", "kafka-cluster", anyone, "DESCRIBE_CONFIGS"),
                    Acl("TOPIC", "seen", anyone, "DESCRIBE_CONFIGS"),
                ],
            )
    with embedded_broker(tmp_path, super_users="User:nobody", **rights) as address:
        status, answer = why(address)
        monitor = json.loads(run_kt("monitor", "--once", "--json", "--bootstrap-server", address).out)
        only_seen = healthy(address, "topic", "seen")
    assert (status, answer["healthy"], answer["verdict"]) == (ExitStatus.FAILED, None, None)
    problem = "1 topic is hidden from this user, who lacks DESCRIBE: secret"
    assert answer["unknown"] == [f"topics: {problem}"]
    assert [each for each in monitor["problems"] if each["what"] == "topics"] == [
        {"broker": None, "what": "topics", "error": problem}
    ]
    assert only_seen["unknown"] == []


def test_json_has_everything(bootstrap: str) -> None:
    make_topic(bootstrap, "complete")
    answer: dict[str, Any] = healthy(bootstrap, "partition", "complete-0", "--interval", "0")
    assert answer == {
        "kind": "partition", "name": "complete", "partition": 0, "healthy": True, "verdict": None, "others": [],
        "lag": None, "seconds": None, "unknown": [],
    }  # fmt: skip
