"""kt why group: each cause is brought about on an embedded broker and is the only verdict; a sound group has none."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.live_groups import ClassicMember, ConsumerMember, GroupClient
from support.raw_transactions import RawProducer
from support.streams_story import Story
from support.waiting import eventually
from support.why import Between, healthy, join_until_reconciling, make_topic, only_cause, produce, why

from kafkatools import Producer, ShareConsumer
from kafkatools.core.admin.acls import Acl, create_acls
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.quotas import alter_client_quotas
from kafkatools.core.admin.share_groups import alter_share_group_offsets
from kafkatools.core.admin.topics import delete_records
from kafkatools.core.clock import SystemClock
from kafkatools.core.group.metadata import ConsumerGroupMetadata
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import encode_request
from kafkatools.core.protocol.messages import build, request_type
from kafkatools.exit_status import ExitStatus

SETTINGS = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "transaction_partition_verification_enable": "false",
    "group_initial_rebalance_delay_ms": "0",
    "message_max_bytes": "4000000",
}
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def bootstrap(directory: pathlib.Path) -> Iterator[str]:
    with embedded_broker(directory, **SETTINGS) as address:
        yield address


def member(bootstrap: str, group: str, topic: str, partitions: tuple[int, ...] = (0,)) -> ClassicMember:
    return ClassicMember(bootstrap, f"client-{group}", group, {topic: partitions})


# -- sound groups --


def test_a_group_without_lag_is_healthy(bootstrap: str) -> None:
    make_topic(bootstrap, "t-done")
    with member(bootstrap, "done", "t-done") as one:
        one.commit_own({("t-done", 0): 5})
        answer = healthy(bootstrap, "group", "done")
    assert abs(answer["lag"].pop("last_commit_ms") - SystemClock().wall_ms()) < 60_000
    assert answer["lag"] == {"records": 0, "change": None, "per_second": None, "committing": None}


def test_the_members_of_a_streams_group_are_not_visible_in_either_snapshot(bootstrap: str) -> None:
    story = Story(bootstrap)
    with story.client:
        story.beat("word-count", "m1")
    for interval in ("0", "0.1"):
        status, answer = why(bootstrap, "group", "word-count", "--interval", interval)
        assert (status, answer["healthy"]) == (ExitStatus.FAILED, None)
        assert answer["unknown"] == ["members of word-count: kt why does not examine those of Kafka Streams groups"]
    assert answer["seconds"] is not None


def test_a_group_that_commits_is_healthy(bootstrap: str) -> None:
    make_topic(bootstrap, "t-works")
    with member(bootstrap, "works", "t-works") as one:
        one.commit_own({("t-works", 0): 1})
        clock = Between(lambda: one.commit_own({("t-works", 0): 3}))
        answer = healthy(bootstrap, "group", "works", clock=clock)
    assert (answer["lag"]["records"], answer["lag"]["change"], answer["lag"]["committing"]) == (2, -2, True)


def test_a_group_that_only_commits_offsets_is_healthy(bootstrap: str) -> None:
    make_topic(bootstrap, "t-assigns")
    with GroupClient(bootstrap) as client:
        client.commit("assigns", {("t-assigns", 0): 1})
        healthy(bootstrap, "group", "assigns", clock=Between(lambda: client.commit("assigns", {("t-assigns", 0): 2})))


def test_a_share_group_that_consumes_behind_a_record_that_one_member_holds_is_healthy(bootstrap: str) -> None:
    make_topic(bootstrap, "t-held")
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        assert not alter_share_group_offsets(admin, "held", {("t-held", 0): 0}).errors
    one_record = {"share.acquire.mode": "record_limit", "max.poll.records": 1}
    explicit = {"share.acknowledgement.mode": "explicit"}
    with (
        ShareConsumer({**one_record, **explicit}, bootstrap_servers=bootstrap, group_id="held") as holder,
        ShareConsumer(bootstrap_servers=bootstrap, group_id="held") as reader,
    ):
        holder.subscribe(["t-held"])
        eventually(lambda: len(list(holder.poll(500))) == 1)
        reader.subscribe(["t-held"])

        def consume(count: int) -> None:
            produce(bootstrap, "t-held", 1, count)
            read = 0
            while read < count:
                read += len(list(reader.poll(500)))
                reader.commit_sync()

        consume(5)
        answer = healthy(bootstrap, "group", "held", clock=Between(lambda: consume(30)))
    assert answer["lag"]["committing"] is True


# -- members --


def test_no_members(bootstrap: str) -> None:
    make_topic(bootstrap, "t-empty")
    with member(bootstrap, "empty", "t-empty") as one:
        one.commit_own({("t-empty", 0): 2})
        one.leave()
    verdict = only_cause(bootstrap, "group", "empty")
    assert verdict["cause"] == "group-no-members"
    assert "t-empty-0" in verdict["sentence"] and verdict["evidence"][0].startswith(
        "Lag 3; whether it grows is unknown"
    )
    assert verdict["command"] == f"kt consumer-groups --bootstrap-server {bootstrap} --describe --group empty --state"


def test_the_topics_of_a_share_group_without_members_are_examined(bootstrap: str) -> None:
    make_topic(bootstrap, "t-shared")
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        assert not alter_share_group_offsets(admin, "shared", {("t-shared", 0): 0}).errors
        delete_records(admin, {("t-shared", 0): 4})
    verdict = only_cause(bootstrap, "group", "shared")
    assert verdict["cause"] == "group-no-members"
    assert "4 records of t-shared-0 were deleted before group shared consumed them" in verdict["evidence"][-1]
    assert verdict["command"] == f"kt share-groups --bootstrap-server {bootstrap} --describe --group shared --state"


def test_members_without_partitions(bootstrap: str) -> None:
    make_topic(bootstrap, "t-idle")
    with GroupClient(bootstrap) as client:
        client.commit("idle", {("t-idle", 0): 2})
    with ClassicMember(bootstrap, "idler", "idle", {}):
        verdict = only_cause(bootstrap, "group", "idle")
    assert verdict["cause"] == "members-without-partitions" and "1 member" in verdict["sentence"]


def test_a_partition_without_member(bootstrap: str) -> None:
    make_topic(bootstrap, "t-half", 2)
    with member(bootstrap, "half", "t-half") as one:
        one.commit_own({("t-half", 0): 5, ("t-half", 1): 1})
        verdict = only_cause(bootstrap, "group", "half")
    assert verdict["cause"] == "partition-unassigned"
    assert "t-half-1, where 4 records wait" in verdict["sentence"]


def test_a_member_that_commits_nothing(bootstrap: str) -> None:
    make_topic(bootstrap, "t-stall")
    with member(bootstrap, "stall", "t-stall") as one:
        one.commit_own({("t-stall", 0): 2})
        verdict = only_cause(bootstrap, "group", "stall", clock=Between(lambda: produce(bootstrap, "t-stall")))
    assert verdict["cause"] == "consumer-stalled"
    assert verdict["evidence"][0].startswith("Lag 8, +5 in ")
    assert verdict["evidence"][1].startswith("client-stall at 127.0.0.1: 1 partition")


def test_one_snapshot_says_that_the_slope_is_unknown(bootstrap: str) -> None:
    make_topic(bootstrap, "t-once")
    with member(bootstrap, "once", "t-once") as one:
        one.commit_own({("t-once", 0): 2})
        status, answer = why(bootstrap, "group", "once", "--interval", "0")
    assert (status, answer["lag"]["records"], answer["lag"]["change"], answer["seconds"]) == (
        ExitStatus.OK,
        3,
        None,
        None,
    )


def test_two_clients_with_one_instance_id(bootstrap: str) -> None:
    make_topic(bootstrap, "t-static")
    with ExitStack() as members:
        first = members.enter_context(ClassicMember(bootstrap, "first", "static", {"t-static": (0,)}, "one"))
        first.commit_own({("t-static", 0): 2})

        def join() -> None:
            members.enter_context(ClassicMember(bootstrap, "second", "static", {"t-static": (0,)}, "one"))

        verdict = only_cause(bootstrap, "group", "static", clock=Between(join))
    assert verdict["cause"] == "static-member-replaced" and "group.instance.id one" in verdict["sentence"]


@pytest.mark.slow
def test_members_that_come_and_go(bootstrap: str) -> None:
    make_topic(bootstrap, "t-flap")
    with ExitStack() as members:
        first = members.enter_context(member(bootstrap, "flap", "t-flap"))
        first.commit_own({("t-flap", 0): 2})

        def replace() -> None:
            first.leave()
            members.enter_context(member(bootstrap, "flap", "t-flap"))

        verdict = only_cause(bootstrap, "group", "flap", clock=Between(replace))
    assert verdict["cause"] == "members-change" and "1 of 1 joined" in verdict["sentence"]


@pytest.mark.slow
def test_members_that_come_and_go_before_the_first_commit(bootstrap: str) -> None:
    make_topic(bootstrap, "t-crash")
    with ExitStack() as members:
        first = members.enter_context(member(bootstrap, "crash", "t-crash"))

        def replace() -> None:
            first.leave()
            members.enter_context(member(bootstrap, "crash", "t-crash"))

        verdict = only_cause(bootstrap, "group", "crash", clock=Between(replace))
        answer = healthy(bootstrap, "group", "crash")
    assert verdict["cause"] == "members-change"
    assert "It has no committed offsets, so its lag is unknown" in verdict["evidence"]
    assert (answer["lag"]["records"], answer["lag"]["change"]) == (None, None)


def test_a_rebalance_that_does_not_end(bootstrap: str) -> None:
    make_topic(bootstrap, "t-wait")
    with member(bootstrap, "wait", "t-wait") as one, GroupClient(bootstrap) as other:
        one.commit_own({("t-wait", 0): 2})
        fields = {
            "group_id": "wait", "session_timeout": 60_000, "rebalance_timeout": 60_000, "member_id": "",
            "group_instance_id": "late", "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        }  # fmt: skip
        entity = build(request_type(ApiKey.JOIN_GROUP, 5), fields)  # not answered until the first member rejoins
        other._socket.sendall(b"".join(map(bytes, encode_request(ApiKey.JOIN_GROUP, 5, 1, "raw", entity))))
        time.sleep(0.2)
        verdict = only_cause(bootstrap, "group", "wait")
    assert verdict["cause"] == "group-rebalancing" and "PreparingRebalance" in verdict["evidence"][0]


@pytest.mark.slow
def test_a_member_that_does_not_give_up_partitions(bootstrap: str) -> None:
    make_topic(bootstrap, "t-keep", 2)
    with ConsumerMember(bootstrap, "keeper", "keep", "A" * 22, ["t-keep"]) as one, GroupClient(bootstrap) as other:
        one.commit_own({("t-keep", 0): 2})
        join_until_reconciling(bootstrap, other, "keep", "t-keep", "B" * 22)
        verdict = only_cause(bootstrap, "group", "keep")
    assert verdict["cause"] == "member-behind", verdict
    assert "Member keeper" in verdict["sentence"]


# -- offsets --


def test_retention_passed_the_group(bootstrap: str) -> None:
    make_topic(bootstrap, "t-lost")
    with member(bootstrap, "lost", "t-lost") as one:
        one.commit_own({("t-lost", 0): 1})
        with AdminClient(bootstrap, {}, SystemClock()) as admin:
            delete_records(admin, {("t-lost", 0): 4})
        verdict = only_cause(bootstrap, "group", "lost")
    assert verdict["cause"] == "retention-passed" and verdict["sentence"].startswith(
        "3 records of t-lost-0 were deleted"
    )


def test_lost_records_of_a_group_without_members_are_a_consequence(bootstrap: str) -> None:
    make_topic(bootstrap, "t-lost-too")
    with member(bootstrap, "lost-too", "t-lost-too") as one:
        one.commit_own({("t-lost-too", 0): 1})
        one.leave()
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        delete_records(admin, {("t-lost-too", 0): 4})
    verdict = only_cause(bootstrap, "group", "lost-too")
    assert verdict["cause"] == "group-no-members"
    assert any(text.startswith("Consequence: 3 records") for text in verdict["evidence"])


def test_retention_is_near(bootstrap: str) -> None:
    make_topic(bootstrap, "t-near", records=0, configs={"retention.ms": str(HOUR_MS)})
    now_ms = SystemClock().wall_ms()
    produce(bootstrap, "t-near", at_ms=now_ms - HOUR_MS + 120_000)
    with member(bootstrap, "near", "t-near") as one:
        one.commit_own({("t-near", 0): 1})
        verdict = only_cause(bootstrap, "group", "near")
    assert verdict["cause"] == "retention-near" and "t-near-0 in 1" in verdict["sentence"]


def test_the_committed_offset_is_beyond_the_end(bootstrap: str) -> None:
    make_topic(bootstrap, "t-again")
    with member(bootstrap, "again", "t-again") as one:
        one.commit_own({("t-again", 0): 1000})
        verdict = only_cause(bootstrap, "group", "again")
    assert verdict["cause"] == "offset-beyond-end" and "offset 1,000" in verdict["sentence"]


def test_the_next_record_is_damaged(bootstrap: str, directory: pathlib.Path) -> None:
    make_topic(bootstrap, "t-poison", records=0)
    for _ in range(3):
        produce(bootstrap, "t-poison", records=1, value=b"PAYLOAD")
    log = directory / "t-poison-0" / f"{0:020}.log"
    data = log.read_bytes()
    second = data.index(b"PAYLOAD", data.index(b"PAYLOAD") + 1)
    with log.open("r+b") as file:
        file.seek(second)
        file.write(b"X")
    with member(bootstrap, "poison", "t-poison") as one:
        one.commit_own({("t-poison", 0): 1})
        verdict = only_cause(bootstrap, "group", "poison")
    assert verdict["cause"] == "record-undecodable" and "offset 1 of t-poison-0" in verdict["sentence"]
    assert verdict["command"].endswith("--describe --group poison --members --verbose")
    assert verdict["then"].endswith("--reset-offsets --group poison --topic t-poison:0 --to-offset 2 --dry-run")


def test_the_next_record_is_too_large(bootstrap: str) -> None:
    make_topic(bootstrap, "t-large", records=1, configs={"max.message.bytes": "4000000"})
    produce(bootstrap, "t-large", records=1, value=b"x" * 2_000_000)
    with member(bootstrap, "large", "t-large") as one:
        one.commit_own({("t-large", 0): 1})
        verdict = only_cause(bootstrap, "group", "large")
    assert verdict["cause"] == "record-too-large" and "offset 1 of t-large-0" in verdict["sentence"]
    assert any(text.startswith("Consequence: Group large committed nothing") for text in verdict["evidence"])


def test_a_group_that_is_too_slow(bootstrap: str) -> None:
    make_topic(bootstrap, "t-slow", records=0)
    produce(bootstrap, "t-slow", at_ms=SystemClock().wall_ms() - HOUR_MS)
    with member(bootstrap, "slow", "t-slow") as one:
        one.commit_own({("t-slow", 0): 1})

        def work() -> None:
            one.commit_own({("t-slow", 0): 2})
            produce(bootstrap, "t-slow", records=50)

        verdict = only_cause(bootstrap, "group", "slow", clock=Between(work))
    assert verdict["cause"] == "consumer-too-slow" and "grew by 49" in verdict["sentence"]


# -- transactions --


@pytest.mark.slow
def test_an_open_transaction(bootstrap: str) -> None:
    make_topic(bootstrap, "t-open")
    with RawProducer(bootstrap, "copy-1", 600_000) as producer, member(bootstrap, "open", "t-open") as one:
        producer.send("t-open", 0, [SystemClock().wall_ms()])
        one.commit_own({("t-open", 0): 5})
        verdict = only_cause(bootstrap, "group", "open", clock=Between(later_ms=60_000))
        producer.end(committed=True)
    assert verdict["cause"] == "transaction-open" and "transactional id copy-1" in verdict["sentence"]
    assert f"Producer id {producer.producer_id}, epoch {producer.producer_epoch}" in " ".join(verdict["evidence"])
    assert verdict["command"].endswith("forceTerminateTransaction --transactionalId copy-1 --dry-run")


@pytest.mark.slow
def test_a_transaction_behind_the_group_is_no_cause(bootstrap: str) -> None:
    make_topic(bootstrap, "t-ahead")
    with RawProducer(bootstrap, "copy-2", 600_000) as producer, member(bootstrap, "ahead", "t-ahead") as one:
        producer.send("t-ahead", 0, [SystemClock().wall_ms()])
        one.commit_own({("t-ahead", 0): 1})
        verdict = only_cause(bootstrap, "group", "ahead", clock=Between(later_ms=60_000))
        producer.end(committed=True)
    assert verdict["cause"] == "consumer-stalled"


def test_a_hanging_transaction(bootstrap: str) -> None:
    make_topic(bootstrap, "t-hang")
    with RawProducer(bootstrap, "copy-3", 600_000) as producer, member(bootstrap, "hang", "t-hang") as one:
        producer.send_without_coordinator("t-hang", 0, [SystemClock().wall_ms()])
        one.commit_own({("t-hang", 0): 5})
        verdict = only_cause(bootstrap, "group", "hang", clock=Between(later_ms=60_000))
    assert verdict["cause"] == "transaction-hanging"
    assert verdict["command"].endswith("abort --topic t-hang --partition 0 --start-offset 5 --dry-run")


def test_a_transaction_after_its_timeout(bootstrap: str) -> None:
    make_topic(bootstrap, "t-late")
    with RawProducer(bootstrap, "copy-4", 60_000) as producer, member(bootstrap, "late", "t-late") as one:
        producer.send("t-late", 0, [SystemClock().wall_ms()])
        one.commit_own({("t-late", 0): 5})
        verdict = only_cause(bootstrap, "group", "late", clock=Between(later_ms=200_000))
        producer.end(committed=True)
    assert verdict["cause"] == "transaction-overdue" and "longer than its timeout of 60 s" in verdict["sentence"]


@pytest.mark.slow
def test_offsets_in_an_open_transaction(bootstrap: str) -> None:
    make_topic(bootstrap, "t-eos")
    with GroupClient(bootstrap) as client:
        client.commit("eos", {("t-eos", 0): 1})
    with Producer(bootstrap_servers=bootstrap, transactional_id="eos-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({("t-eos", 0): 4}, ConsumerGroupMetadata("eos"))
        verdict = only_cause(bootstrap, "group", "eos")
        producer.abort_transaction()
    assert verdict["cause"] == "offsets-pending" and "t-eos-0" in verdict["sentence"]


# -- limits from outside --


@pytest.mark.slow
def test_a_principal_without_permission(bootstrap: str) -> None:
    make_topic(bootstrap, "t-acl")
    with GroupClient(bootstrap) as client:
        client.commit("acl", {("t-acl", 0): 1})
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        create_acls(admin, [Acl("GROUP", "acl", "User:alice", "READ"), Acl("TOPIC", "t-acl", "User:alice", "DESCRIBE")])
        verdict = only_cause(bootstrap, "group", "acl", "--principal", "User:alice")
        create_acls(admin, [Acl("TOPIC", "t-a", "User:alice", "READ", pattern_type="PREFIXED")])
        elsewhere = Acl("TOPIC", "t-acl", "User:alice", "READ", "DENY", "192.0.2.1")
        create_acls(admin, [elsewhere])
        after = only_cause(bootstrap, "group", "acl", "--principal", "User:alice")
        create_acls(admin, [Acl("TOPIC", "*", "User:alice", "READ", "DENY")])
        denied = only_cause(bootstrap, "group", "acl", "--principal", "User:alice")
    assert verdict["cause"] == "permission-missing"
    assert verdict["sentence"] == "User:alice has no READ permission on topic t-acl: no ACL allows it"
    assert after["cause"] == "group-no-members"
    assert denied["sentence"].endswith("an ACL denies it")


@pytest.mark.slow
def test_a_quota(bootstrap: str) -> None:
    make_topic(bootstrap, "t-quota")
    produce(bootstrap, "t-quota", records=10, value=b"x" * 10_000)
    with member(bootstrap, "quota", "t-quota") as one, AdminClient(bootstrap, {}, SystemClock()) as admin:
        one.commit_own({("t-quota", 0): 1})
        alter_client_quotas(admin, (("client-id", "client-quota"),), {"consumer_byte_rate": 100.0})
        verdict = only_cause(bootstrap, "group", "quota")
    assert verdict["cause"] == "consumer-quota" and "client-id client-quota" in verdict["sentence"]


# -- what is wrong with the words --


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gruop", "g"), "Unknown kind 'gruop': kt why takes group, topic, partition, broker, transaction, or nothing"),
        (("group",), "The name is missing: kt why group NAME"),
        (("partition", "orders"), "'orders' is not a partition: write TOPIC-NUMBER, such as orders-0"),
        (("broker", "one"), "'one' is not a broker: write its id, such as 2"),
        (("broker",), "The name is missing: kt why broker ID"),
        (("--principal", "User:alice"), "--principal is for a group, topic or partition"),
        (("broker", "1", "--principal", "User:alice"), "--principal is for a group, topic or partition"),
        (("--interval", "2h"), "--interval takes seconds from 0 to 3600, such as 10 or 500ms, not '2h'"),
        (("--interval", "-1"), "--interval takes seconds from 0 to 3600, such as 10 or 500ms, not '-1'"),
        (("group", "g", "--principal", "alice"), "--principal takes TYPE:NAME such as User:alice, not 'alice'"),
    ],
)
def test_wrong_words(words: tuple[str, ...], message: str) -> None:
    ran = run_kt("why", *words, "--bootstrap-server", "127.0.0.1:1")
    assert ran.status is ExitStatus.USAGE and ran.err.splitlines()[0] == message


@pytest.fixture(scope="module")
def existing(bootstrap: str) -> str:
    """A topic and a group that a misspelt name is similar to."""
    make_topic(bootstrap, "inventory")
    with GroupClient(bootstrap) as client:
        client.commit("exists", {("inventory", 0): 5})
    return "inventory"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("group", "exsts"), "Group 'exsts' does not exist. Similar names: exists"),
        (("topic", "inventry"), "Topic 'inventry' does not exist. Similar names: inventory"),
        (("partition", "inventory-7"), "Topic inventory has no partition 7: its only partition is 0"),
        (("broker", "9"), "Broker '9' does not exist: the brokers are 1"),
        (("transaction", "nobody"), "Transactional id 'nobody' does not exist"),
    ],
)
def test_names_that_do_not_exist(bootstrap: str, existing: str, words: tuple[str, ...], message: str) -> None:
    assert existing == "inventory"
    ran = run_kt("why", *words, "--bootstrap-server", bootstrap)
    assert ran.status is ExitStatus.FAILED and ran.err.splitlines() == [message]
