"""What goes wrong in a group of the embedded broker: members that were removed, fenced or silent, offsets that are
gone, listeners that raise, brokers that do not answer."""

from __future__ import annotations

import re
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Sequence

import pytest
from support.embedded import QUICK_HEARTBEATS, embedded_broker
from support.group_members import close_as_told
from support.raw_client import RawClient
from support.rebalances import Told, settle
from support.waiting import eventually

from kafkatools.core.admin.admin import Admin
from kafkatools.core.config import CONSUMER, PRODUCER, Config
from kafkatools.core.consumer.assignors.assignor import RebalanceProtocol
from kafkatools.core.consumer.assignors.by_name import assignor_for_name
from kafkatools.core.consumer.classic_rebalance import common_protocol
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.errors import FetchOffsetOutOfRange, NoOffsetForPartition, WakeupError
from kafkatools.core.consumer.group_subscription import RebalanceListener, SubscriptionPattern
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import (
    CommitFailed,
    ConfigError,
    DecodeError,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalState,
    InvalidSessionTimeout,
    InvalidTopic,
    KafkaError,
    RebalanceInProgress,
    Timeout,
    UnsupportedVersion,
)
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.producer.producer import Producer
from kafkatools.core.protocol.api_versions import ApiKey

START = 1_700_000_000_000
HOUR_MS = 3_600_000
POLLS = 3000
"""More polls than any wait takes, on a busy machine too: what is waited for ends the loop."""
COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(
        tmp_path_factory.mktemp("groups"),
        auto_create_topics_enable="false",
        group_initial_rebalance_delay_ms="0",
        group_min_session_timeout_ms="100",
        group_max_size="3",
        offsets_topic_num_partitions="4",
        transaction_state_log_num_partitions="1",
        **QUICK_HEARTBEATS,
    ) as bootstrap:
        yield bootstrap


@pytest.fixture
def client(broker: str) -> Iterator[RawClient]:
    with RawClient(broker) as raw:
        yield raw


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def topic_of(client: RawClient, *counts: int) -> str:
    """A new topic whose partitions hold so many records each, an hour apart."""
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    client.create_topic(topic, len(counts))
    for partition, count in enumerate(counts):
        if count:
            client.produce_rows(topic, partition, [(START + n * HOUR_MS, None, b"%d" % n, ()) for n in range(count)])
    return topic


def member(bootstrap: str, group: str, **settings: str) -> Consumer:
    given = {
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": "50",
        "metadata.max.age.ms": "200",
        "retry.backoff.ms": "20",
        "enable.auto.commit": "false",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    return Consumer(Config(CONSUMER, {"bootstrap.servers": bootstrap, "group.id": group, **given}))


def offsets(consumer: Consumer, count: int) -> list[int]:
    """The next records' offsets, and that no more come than `count`."""
    seen: list[int] = []
    for _ in range(POLLS):
        seen += [record.offset for record in consumer.poll(20)]
        if len(seen) >= count:
            break
    return seen + [record.offset for record in consumer.poll(20)]


def remove(client: RawClient, consumer: Consumer) -> None:
    """The coordinator forgets the member, as if its session had expired."""
    known = consumer.group_metadata()
    leaving = {"member_id": known.member_id, "group_instance_id": known.group_instance_id}
    answer = client.call(ApiKey.LEAVE_GROUP, 5, {"group_id": known.group_id, "members": [leaving]})
    assert int(answer.members[0].error_code) == 0


def test_a_removed_member_cannot_commit_and_loses_its_partitions(broker: str, client: RawClient, group: str) -> None:
    topic, told = topic_of(client, 3, 3), Told()
    with member(broker, group) as consumer:
        consumer.subscribe([topic], told)
        settle([consumer], 2)
        remove(client, consumer)
        with pytest.raises(CommitFailed, match="not part of an active group"):
            consumer.commit_sync({(topic, 0): 3})
        with pytest.raises(CommitFailed):
            consumer.commit_sync({(topic, 0): 3})
        assert consumer.assignment(), "nothing is taken away outside of a poll"
        for _ in range(POLLS):
            consumer.poll(10)
            if len(told.calls) == 3:
                break
        assert told.calls == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]
        assert consumer.committed([(topic, 0)]) == {TopicPartition(topic, 0): None}
        consumer.commit_sync({(topic, 0): 2})


def test_a_removed_member_still_says_who_it_was(broker: str, client: RawClient, group: str) -> None:
    """Offsets of a transaction that come without a member are accepted (clients before KIP-447 know none): what was
    read before the session expired would be copied twice."""
    topic = topic_of(client, 3)
    writing = {"bootstrap.servers": broker, "transactional.id": group}
    with Producer(Config(PRODUCER, writing)) as producer, member(broker, group) as consumer:
        producer.init_transactions()
        consumer.subscribe([topic])
        settle([consumer], 1)
        before = consumer.group_metadata()
        remove(client, consumer)
        with pytest.raises(CommitFailed):
            consumer.commit_sync({(topic, 0): 3})
        assert consumer.group_metadata() == before
        producer.begin_transaction()
        with pytest.raises(CommitFailed):
            producer.send_offsets_to_transaction({(topic, 0): 3}, consumer.group_metadata())
        producer.abort_transaction()
        settle([consumer], 1)
        for _ in range(POLLS):
            consumer.poll(10)
            if consumer.group_metadata() != before:
                break
        assert consumer.group_metadata().member_id not in ("", before.member_id)


def test_the_heartbeat_finds_out_too(broker: str, client: RawClient, group: str) -> None:
    topic, told = topic_of(client, 1), Told()
    with member(broker, group, partition_assignment_strategy=COOPERATIVE) as consumer:
        consumer.subscribe([topic], told)
        settle([consumer], 1)
        settle([consumer], 1)
        remove(client, consumer)
        for _ in range(POLLS):
            consumer.poll(10)
            if ("lost", [0]) in told.calls and consumer.assignment():
                break
        assert [call for call in told.calls if call[1]] == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]


def test_a_member_that_does_not_poll_leaves_and_comes_back(broker: str, client: RawClient, group: str) -> None:
    topic, told = topic_of(client, 1, 1), Told()
    with member(broker, group, max_poll_interval_ms="500") as slow, member(broker, group) as other:
        slow.subscribe([topic], told)
        settle([slow], 2)
        other.subscribe([topic])
        settle([other], 2)  # while `slow` works on its records, its heartbeat thread leaves for it
        with pytest.raises(CommitFailed):
            slow.commit_sync({(topic, 0): 1})
        settle([slow, other], 1, 1)
        assert told.calls[:2] == [("assigned", [0, 1]), ("lost", [0, 1])]


@pytest.mark.slow
def test_heartbeats_go_on_while_the_application_works(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1)
    with member(broker, group, session_timeout_ms="1500") as consumer:
        consumer.subscribe([topic])
        settle([consumer], 1)
        before = consumer.group_metadata()
        with member(broker, group) as other:
            until = time.monotonic() + 3  # two sessions long
            eventually(lambda: bool(other.committed([(topic, 0)])) and time.monotonic() >= until)
        consumer.commit_sync({(topic, 0): 1})
        assert consumer.group_metadata() == before


def test_a_commit_during_a_rebalance_says_so(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1, 1)
    with member(broker, group) as first, member(broker, group) as second:
        first.subscribe([topic])
        settle([first], 2)
        second.subscribe([topic])
        with pytest.raises(RebalanceInProgress, match="executing a rebalance|undergoing a rebalance"):
            for _ in range(POLLS):
                second.poll(5)
                first.enforce_rebalance()
                first.poll(0)
                first.commit_sync({(topic, 0): 1})
        settle([first, second], 1, 1)


def test_a_static_member_restarts_without_a_rebalance(broker: str, client: RawClient, group: str) -> None:
    topic, told = topic_of(client, 1, 1), Told()
    with member(broker, group, group_instance_id="b") as stays:
        stays.subscribe([topic], told)
        first = member(broker, group, group_instance_id="a")
        first.subscribe([topic])
        settle([first, stays], 1, 1)
        told.calls.clear()
        had = first.assignment()
        first.close()
        with member(broker, group, group_instance_id="a") as again:
            again.subscribe([topic])
            settle([again, stays], 1, 1)
            assert again.assignment() == had
            assert again.group_metadata().group_instance_id == "a"
            assert told.calls == []


def test_a_second_member_of_the_same_instance_fences_the_first(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1)
    first = member(broker, group, group_instance_id="a")
    first.subscribe([topic])
    settle([first], 1)
    with member(broker, group, group_instance_id="a") as second:
        second.subscribe([topic])
        settle([second], 1)
        with pytest.raises((FencedInstanceId, CommitFailed)):  # the heartbeat may have found out before
            first.commit_sync({(topic, 0): 1})
        with pytest.raises(FencedInstanceId):
            for _ in range(POLLS):
                first.poll(10)
        for _ in range(2):
            with pytest.raises(FencedInstanceId):
                first.poll(10)
        assert first.assignment() == [], "what the second reads now"
        first.close()
        second.commit_sync({(topic, 0): 1})


def test_a_full_group_and_a_session_out_of_bounds_are_errors(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1, 1, 1)
    members = [member(broker, group) for _ in range(3)]
    for consumer in members:
        consumer.subscribe([topic])
    settle(members, 1, 1, 1)
    with member(broker, group) as fourth, pytest.raises(GroupMaxSizeReached):
        fourth.subscribe([topic])
        for _ in range(POLLS):
            fourth.poll(20)
    for consumer in members:
        consumer.close()
    with member(broker, "other", session_timeout_ms="99", heartbeat_interval_ms="9") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(InvalidSessionTimeout):
            for _ in range(POLLS):
                consumer.poll(20)


def test_pauses_survive_a_cooperative_rebalance(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1, 1, 1, 1)
    how = {"partition_assignment_strategy": COOPERATIVE}
    with member(broker, group, **how) as first, member(broker, group, **how) as second:
        first.subscribe([topic])
        settle([first], 4)
        first.pause(first.assignment())
        second.subscribe([topic])
        settle([first, second], 2, 2)
        assert sorted(first.paused()) == sorted(first.assignment())
        assert second.paused() == []


def test_a_listener_that_raises_is_heard_after_the_rebalance(broker: str, client: RawClient, group: str) -> None:
    class Raises(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            raise ZeroDivisionError

    topic = topic_of(client, 2)
    with member(broker, group) as consumer:
        consumer.subscribe([topic], Raises())
        with pytest.raises(KafkaError, match="User rebalance callback throws an error") as raised:
            settle([consumer], 1)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert consumer.assignment() == [(topic, 0)]
        assert offsets(consumer, 2) == [0, 1]


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("poll", [0]), ("poll_columns", [0]), ("unsubscribe", []), ("subscribe", [()]), ("assign", [()]), ("close", [])],
)
def test_a_listener_cannot_wait_for_its_own_rebalance(
    broker: str, client: RawClient, group: str, call: str, arguments: list[object]
) -> None:
    class Waits(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            getattr(consumer, call)(*arguments)

    topic = topic_of(client, 2)
    with member(broker, group) as consumer:
        consumer.subscribe([topic], Waits())
        with pytest.raises(KafkaError, match="User rebalance callback throws an error") as raised:
            settle([consumer], 1)
        assert isinstance(raised.value.__cause__, IllegalState)
        assert offsets(consumer, 2) == [0, 1]


def test_a_listener_commits_and_seeks(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 5)

    class Careful(RebalanceListener):
        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            for part in partitions:
                consumer.seek(part, 3)

        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            consumer.commit_sync({part: consumer.position(part) for part in partitions})

    with member(broker, group) as consumer:
        consumer.subscribe([topic], Careful())
        assert offsets(consumer, 2) == [3, 4]
        consumer.unsubscribe()
        assert consumer.committed([(topic, 0)]) == {TopicPartition(topic, 0): OffsetAndMetadata(5, -1, "")}


def test_without_an_offset_the_policy_decides(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 3)
    with member(broker, group, auto_offset_reset="none") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(NoOffsetForPartition, match=f"no reset policy for partitions: \\[{topic}-0\\]"):
            for _ in range(POLLS):
                consumer.poll(20)
    ago_s = (int(time.time() * 1000) - START - HOUR_MS // 2) // 1000
    with member(broker, group, auto_offset_reset=f"by_duration:PT{ago_s}S") as consumer:
        consumer.subscribe([topic])
        assert offsets(consumer, 2) == [1, 2]


def test_a_committed_offset_that_is_gone_goes_by_the_policy(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 3)
    with member(broker, group) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit_sync({(topic, 0): 99})
    with member(broker, group) as consumer:
        consumer.subscribe([topic])
        assert offsets(consumer, 3) == [0, 1, 2]
    with member(broker, group, auto_offset_reset="none") as consumer:
        consumer.subscribe([topic])
        with pytest.raises(FetchOffsetOutOfRange, match=f"{topic}-0=99"):
            for _ in range(POLLS):
                consumer.poll(20)


def test_new_partitions_and_new_topics_are_shared(broker: str, client: RawClient, group: str) -> None:
    topic, later = topic_of(client, 1), f"later-{uuid.uuid4().hex[:8]}"
    with member(broker, group) as consumer:
        consumer.subscribe([topic, later])
        settle([consumer], 1)
        wanted = {"name": topic, "count": 3, "assignments": None}
        client.call(ApiKey.CREATE_PARTITIONS, 3, {"topics": [wanted], "timeout": 9000, "validate_only": False})
        settle([consumer], 3)
        client.create_topic(later, 2)
        settle([consumer], 5)


def test_a_changed_subscription_is_joined_with(broker: str, client: RawClient, group: str) -> None:
    one, two = topic_of(client, 1), topic_of(client, 1)
    with member(broker, group) as consumer:
        consumer.subscribe([one])
        settle([consumer], 1)
        consumer.subscribe([two])
        for _ in range(POLLS):
            assert all(record.topic == two for record in consumer.poll(10))
            if consumer.assignment() == [(two, 0)]:
                break
        assert consumer.assignment() == [(two, 0)]
        consumer.subscribe([])
        assert consumer.assignment() == []
        assert consumer.subscription() == set()


def test_wakeup_ends_a_join_and_the_next_poll_goes_on(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1)
    with member(broker, group) as consumer:
        consumer.subscribe([topic])
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(1000)
        settle([consumer], 1)
        waker = threading.Timer(0.05, consumer.wakeup)
        waker.start()
        with pytest.raises(WakeupError):
            consumer.poll(10_000)
            consumer.poll(10_000)
        waker.join()
        consumer.wakeup()  # does not keep it from leaving


def test_wakeup_in_a_listener_puts_off_what_a_cooperative_member_gives_away(
    broker: str, client: RawClient, group: str
) -> None:
    class Woken(Told):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            if len(self.calls) == 2:
                raise WakeupError

    topic, told = topic_of(client, 1, 1), Woken()
    how = {"partition_assignment_strategy": COOPERATIVE}
    with member(broker, group, **how) as first, member(broker, group, **how) as second:
        first.subscribe([topic], told)
        settle([first], 2)
        second.subscribe([topic])
        with pytest.raises(WakeupError):
            settle([first, second], 1, 1)
        assert len(first.assignment()) == 2
        settle([first, second], 1, 1)
        assert [name for name, _ in told.calls[:3]] == ["assigned", "revoked", "revoked"]


def test_a_commit_callback_that_raises_keeps_no_member_in_its_group(broker: str, client: RawClient, group: str) -> None:
    def fails(offsets: object, error: KafkaError | None) -> None:
        raise ZeroDivisionError

    topic = topic_of(client, 3)
    consumer = member(broker, group, enable_auto_commit="true")
    consumer.subscribe([topic])
    assert offsets(consumer, 3) == [0, 1, 2]
    for _ in range(2):
        consumer.commit_async({(topic, 0): 1}, fails)
    with pytest.raises(ZeroDivisionError):
        consumer.close()
    described = client.call(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [group], "include_authorized_operations": False})
    assert described.groups[0].group_state == "Empty"
    with member(broker, group) as after:
        assert after.committed([(topic, 0)]) == {TopicPartition(topic, 0): OffsetAndMetadata(3, 0)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_deleted_topic_holds_up_neither_a_rebalance_nor_a_close(
    broker: str, client: RawClient, group: str, protocol: str
) -> None:
    """Its offsets cannot be committed, which is an error that brokers call retriable."""
    gone, stays, late = topic_of(client, 2), topic_of(client, 2), topic_of(client, 2)
    settings = {
        "bootstrap.servers": broker,
        "group.id": group,
        "group.protocol": protocol,
        "metadata.max.age.ms": "100",
    }
    consumer = Consumer(Config(CONSUMER, {**settings, "auto.offset.reset": "earliest", "retry.backoff.ms": "20"}))
    consumer.subscribe([gone, stays, late])
    assert len(offsets(consumer, 6)) == 6
    with Admin(bootstrap_servers=broker) as admin:
        admin.delete_topics(gone)
        eventually(lambda: bool(consumer.poll(20) or len(consumer.assignment()) == 2), 30)
        fill = [(START, None, b"more", ())]
        client.produce_rows(stays, 0, fill)
        eventually(lambda: any(record.value == b"more" for record in consumer.poll(20)), 30)
        admin.delete_topics(late)
        started = time.monotonic()
        consumer.close()
        assert time.monotonic() - started < 15  # half of the time-out of close
        assert admin.group_offsets(group)[stays, 0].offset == 3


def test_a_pattern_of_the_broker_needs_the_new_protocol(broker: str, group: str) -> None:
    with member(broker, group) as consumer, pytest.raises(UnsupportedVersion, match="classic protocol"):
        consumer.subscribe(SubscriptionPattern("a.*"))


def test_nobody_answers_and_close_keeps_to_its_time(group: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        consumer = member(f"127.0.0.1:{silent.getsockname()[1]}", group)
        consumer.subscribe(["t"])
        assert len(consumer.poll(50)) == 0
        with pytest.raises(Timeout):
            consumer.commit_sync({("t", 0): 1}, timeout_ms=100)
        with pytest.raises(Timeout, match="could be determined"):
            consumer.committed([("t", 0)], timeout_ms=100)
        started = time.monotonic()
        consumer.close(timeout_ms=200)
        assert time.monotonic() - started < 10  # without timeout_ms it would be default.api.timeout.ms or 30 s


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"group.protocol": "consumer", "session.timeout.ms": "9000"},
            "session.timeout.ms cannot be set when group.protocol=CONSUMER",
        ),
        (
            {"group.protocol": "consumer", "partition.assignment.strategy": "range"},
            "partition.assignment.strategy cannot be set when group.protocol=CONSUMER",
        ),
        ({"group.remote.assignor": "range"}, "group.remote.assignor cannot be set when group.protocol=CLASSIC"),
        ({"session.timeout.ms": "3000"}, "Heartbeat must be set lower than the session timeout"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        Consumer(Config(CONSUMER, {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", **settings}))


def test_a_name_that_is_no_topic_is_an_error(broker: str, group: str) -> None:
    with member(broker, group) as consumer:
        consumer.subscribe(["no topic!"])
        with pytest.raises(InvalidTopic, match="no topic!"):
            for _ in range(POLLS):
                consumer.poll(20)


@pytest.mark.parametrize(
    ("names", "protocol"),
    [
        (["range"], RebalanceProtocol.EAGER),
        (["cooperative-sticky"], RebalanceProtocol.COOPERATIVE),
        (["range", "cooperative-sticky"], RebalanceProtocol.EAGER),
    ],
)
def test_the_highest_protocol_that_all_assignors_know_is_spoken(names: list[str], protocol: RebalanceProtocol) -> None:
    assert common_protocol([assignor_for_name(name) for name in names]) is protocol


def test_assignors_that_cannot_be_offered_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="names no assignor"):
        common_protocol([])
    with pytest.raises(ConfigError, match="The assignor name: 'range' is used in more than one assignor"):
        common_protocol([assignor_for_name("range"), assignor_for_name("range")])


def test_members_go_from_eager_to_cooperative_one_by_one(broker: str, client: RawClient, group: str) -> None:
    topic, told = topic_of(client, 1, 1), Told()
    both = f"{COOPERATIVE},org.apache.kafka.clients.consumer.RangeAssignor"
    with member(broker, group, partition_assignment_strategy="range") as old:
        old.subscribe([topic])
        settle([old], 2)
        with member(broker, group, partition_assignment_strategy=both) as middle:
            middle.subscribe([topic], told)
            settle([old, middle], 1, 1)
            old.close()
            settle([middle], 2)
            with member(broker, group, partition_assignment_strategy=COOPERATIVE) as new:
                new.subscribe([topic])
                settle([middle, new], 1, 1)
                middle.close()
                settle([new], 2)


def test_a_leader_names_a_member_that_says_nonsense(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1)
    with member(broker, group) as consumer:
        consumer.subscribe([topic])
        settle([consumer], 1)
        with RawClient(broker) as other:
            fields = {
                "group_id": group,
                "session_timeout": 5000,
                "rebalance_timeout": 5000,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b"\x00\x03nonsense"}],
            }
            joining = threading.Thread(target=lambda: other.call(ApiKey.JOIN_GROUP, 3, fields))
            joining.start()
            with pytest.raises(DecodeError, match="A member's subscription cannot be read"):
                for _ in range(POLLS):
                    consumer.poll(20)
            joining.join()


def test_async_commits_of_a_removed_member_hear_of_it(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1)
    heard: list[KafkaError | None] = []
    # no heartbeat tells the member of its removal before the commit does
    with member(broker, group, heartbeat_interval_ms="30000") as consumer:
        consumer.subscribe([topic])
        settle([consumer], 1)
        remove(client, consumer)
        consumer.commit_async({(topic, 0): 1}, lambda offsets, error: heard.append(error))
        for _ in range(POLLS):
            consumer.poll(10)
            if heard:
                break
        assert [type(error) for error in heard] == [CommitFailed]


def test_leaving_is_told_even_when_metadata_is_due_first(broker: str, client: RawClient, group: str) -> None:
    topic = topic_of(client, 1)
    with member(broker, group) as consumer:
        consumer.subscribe([topic])
        settle([consumer], 1)
        consumer._client.leaders.request_update()  # no other request goes before it
    described = client.call(ApiKey.DESCRIBE_GROUPS, 5, {"groups": [group], "include_authorized_operations": False})
    assert described.groups[0].group_state == "Empty"


@pytest.mark.parametrize("question", ["commit_metadata", "fetch_metadata"])
def test_a_coordinator_that_is_lost_right_before_a_request_is_found_again(
    broker: str, client: RawClient, group: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat thread may lose it after the application's thread has looked."""
    topic = topic_of(client, 3)
    with member(broker, group) as consumer:
        consumer.subscribe([topic])
        settle([consumer], 1)
        commits = consumer._grouped().commits
        ask = getattr(commits.identity, question)

        def lose_once() -> object:
            monkeypatch.undo()
            commits.channel.lookup.mark_unknown()
            return ask()

        monkeypatch.setattr(commits.identity, question, lose_once)
        consumer.commit_sync({(topic, 0): 2})
        assert consumer.committed([(topic, 0)])[TopicPartition(topic, 0)] == OffsetAndMetadata(2)
        assert getattr(commits.identity, question) != lose_once


def test_a_connection_that_is_lost_right_before_a_fetch_is_made_again(
    broker: str, client: RawClient, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeat thread may find out that it is lost after the application's thread has looked."""
    topic = topic_of(client, 3)
    with member(broker, group) as consumer:
        consumer.assign([(topic, 0)])
        network = consumer._client
        lost: list[int] = []

        def lose_once(node: int) -> bool:
            if can_send(node):
                monkeypatch.undo()
                network._client.disconnect(node)
                lost.append(node)
                return True
            return False

        can_send = network.can_send
        monkeypatch.setattr(network, "can_send", lose_once)
        assert offsets(consumer, 3) == [0, 1, 2]
        assert lost


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_leaves_or_stays_when_it_closes(broker: str, protocol: str) -> None:
    close_as_told(broker, protocol)
