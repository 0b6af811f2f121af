"""kt why against Apache Kafka: causes of groups, topics and transactions, each the only verdict."""

from __future__ import annotations

import pytest
from support.apache_kafka import ApacheKafka
from support.live_groups import ClassicMember, ConsumerMember, GroupClient
from support.raw_transactions import RawProducer
from support.why import Between, healthy, join_until_reconciling, make_topic, only_cause, produce

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import delete_records
from kafkatools.core.clock import SystemClock

pytestmark = pytest.mark.real_kafka
MINUTE = Between(later_ms=60_000)


@pytest.fixture
def bootstrap(real_kafka: ApacheKafka) -> str:
    return real_kafka.bootstrap


def test_a_sound_topic_and_group(bootstrap: str) -> None:
    make_topic(bootstrap, "why-sound", 2)
    with ConsumerMember(bootstrap, "app", "why-sound", "C" * 22, ["why-sound"]) as one:
        one.commit_own({("why-sound", 0): 1, ("why-sound", 1): 5})
        for words in (("topic", "why-sound"), ("partition", "why-sound-1")):
            healthy(bootstrap, *words)
        healthy(bootstrap, "group", "why-sound", clock=Between(lambda: one.commit_own({("why-sound", 0): 3})))
        one.leave()


def test_members_of_both_protocols_that_commit_nothing(bootstrap: str) -> None:
    make_topic(bootstrap, "why-stall")
    with ClassicMember(bootstrap, "old", "why-stall-old", {"why-stall": (0,)}) as one:
        one.commit_own({("why-stall", 0): 2})
        classic = only_cause(
            bootstrap, "group", "why-stall-old", clock=Between(lambda: produce(bootstrap, "why-stall"))
        )
        one.leave()
    with ConsumerMember(bootstrap, "new", "why-stall-new", "D" * 22, ["why-stall"]) as member:
        member.commit_own({("why-stall", 0): 2})
        modern = only_cause(bootstrap, "group", "why-stall-new")
        member.leave()
    assert (classic["cause"], modern["cause"]) == ("consumer-stalled", "consumer-stalled")
    assert classic["evidence"][0].startswith("Lag 8, +5 in ") and modern["evidence"][0].startswith("Lag 8, +0 in ")


def test_a_group_without_members(bootstrap: str) -> None:
    make_topic(bootstrap, "why-empty")
    with ClassicMember(bootstrap, "app", "why-empty", {"why-empty": (0,)}) as one:
        one.commit_own({("why-empty", 0): 2})
        one.leave()
    assert only_cause(bootstrap, "group", "why-empty")["cause"] == "group-no-members"


def test_a_group_that_only_commits_offsets(bootstrap: str) -> None:
    make_topic(bootstrap, "why-simple")
    with GroupClient(bootstrap) as client:
        client.commit("why-simple", {("why-simple", 0): 1})
        clock = Between(lambda: client.commit("why-simple", {("why-simple", 0): 2}))
        healthy(bootstrap, "group", "why-simple", clock=clock)
        assert only_cause(bootstrap, "group", "why-simple")["cause"] == "group-no-members"


def test_deleted_records(bootstrap: str) -> None:
    make_topic(bootstrap, "why-lost")
    with ClassicMember(bootstrap, "app", "why-lost", {"why-lost": (0,)}) as one:
        one.commit_own({("why-lost", 0): 1})
        with AdminClient(bootstrap, {}, SystemClock()) as admin:
            delete_records(admin, {("why-lost", 0): 4})
        verdict = only_cause(bootstrap, "group", "why-lost")
        one.leave()
    assert verdict["cause"] == "retention-passed" and verdict["sentence"].startswith("3 records of why-lost-0")


def test_an_open_transaction(bootstrap: str) -> None:
    make_topic(bootstrap, "why-open")
    with (
        RawProducer(bootstrap, "why-open-1", 600_000) as producer,
        ClassicMember(bootstrap, "app", "why-open", {"why-open": (0,)}) as one,
    ):
        producer.send("why-open", 0, [SystemClock().wall_ms()])
        one.commit_own({("why-open", 0): 5})
        causes = [
            only_cause(bootstrap, *words, clock=MINUTE)["cause"]
            for words in (("group", "why-open"), ("topic", "why-open"), ("transaction", "why-open-1"))
        ]
        producer.end(committed=True)
        one.commit_own({("why-open", 0): 7})
        healthy(bootstrap, "group", "why-open", clock=MINUTE)
        one.leave()
    assert causes == ["transaction-open", "transaction-open", "transaction-unfinished"]


def test_a_member_that_does_not_give_up_partitions(bootstrap: str) -> None:
    make_topic(bootstrap, "why-keep", 2)
    with (
        ConsumerMember(bootstrap, "keeper", "why-keep", "E" * 22, ["why-keep"]) as one,
        GroupClient(bootstrap) as other,
    ):
        one.commit_own({("why-keep", 0): 2})
        join_until_reconciling(bootstrap, other, "why-keep", "why-keep", "F" * 22)
        verdict = only_cause(bootstrap, "group", "why-keep")
        one.leave()
    assert verdict["cause"] == "member-behind"
