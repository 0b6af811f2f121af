"""Admin against the embedded broker: values when all succeeded, one exception that tells of everything when not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker

import kafkatools
from kafkatools import ConfigChange, NewPartitions, NewTopic, OffsetAndMetadata, errors
from kafkatools.core.admin import results
from kafkatools.core.admin.configs import APPEND
from kafkatools.core.admin.topics import Outcome


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("admin-api") / "data"
    with embedded_broker(directory, group_initial_rebalance_delay_ms="0") as address:
        yield address


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[kafkatools.Admin]:
    with kafkatools.Admin({"bootstrap.servers": bootstrap}) as made:
        yield made


def produce(bootstrap: str, topic: str, count: int) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(count)], partition=0).result(10_000)


# --- the rule of errors


def test_results_without_errors_are_returned() -> None:
    assert results.settled({"a": Outcome(None), "b": Outcome(None)}) == {"a": Outcome(None), "b": Outcome(None)}
    assert results.settled({}) == {}


@pytest.mark.parametrize("failed", [errors.InvalidTopic(), Outcome(errors.InvalidTopic())])
def test_error_of_the_only_thing_is_raised_itself(failed: object) -> None:
    with pytest.raises(errors.InvalidTopic):
        results.settled({"a": failed})


def test_errors_of_some_things_come_with_the_results_of_the_others() -> None:
    first, second = errors.InvalidTopic("no"), errors.TopicAlreadyExists()
    with pytest.raises(errors.PartialFailure, match=r"2 of 3 failed, the first \(a\) with: no") as failure:
        results.settled({"a": first, "b": Outcome(None), "c": Outcome(second)})
    assert failure.value.errors == {"a": first, "c": second}
    assert failure.value.results == {"b": Outcome(None)}
    assert failure.value.__cause__ is first


def test_several_things_that_all_failed_are_all_told() -> None:
    with pytest.raises(errors.PartialFailure) as failure:
        results.settled({("t", 0): errors.InvalidTopic(), ("t", 1): errors.InvalidTopic()})
    assert failure.value.results == {} and len(failure.value.errors) == 2


def test_list_with_a_broker_missing_is_no_list() -> None:
    with pytest.raises(errors.PartialFailure) as failure:
        results.complete(["g"], {2: errors.Disconnected()})
    assert failure.value.results == ["g"] and list(failure.value.errors) == [2]


# --- topics and configurations


def test_topics_are_made_by_name_or_in_detail(admin: kafkatools.Admin) -> None:
    made = admin.create_topics(["plain", NewTopic("detailed", 3, configs={"retention.ms": "7"})])
    assert {name: one.num_partitions for name, one in made.items()} == {"plain": 1, "detailed": 3}
    assert {"plain", "detailed"} <= {topic.name for topic in admin.list_topics()}
    described = admin.describe_topics(["plain", "detailed"])
    assert [len(described[name].partitions) for name in ("plain", "detailed")] == [1, 3]
    assert described["plain"].topic_id == made["plain"].topic_id
    admin.create_partitions({"plain": 2})
    admin.create_partitions([NewPartitions("detailed", 4)])
    assert len(admin.describe_topics("plain")["plain"].partitions) == 2
    with pytest.raises(errors.InvalidPartitions):
        admin.create_partitions({"plain": 1})
    admin.delete_topics("plain")
    with pytest.raises(errors.UnknownTopicOrPartition):
        admin.describe_topics("plain")


def test_topics_that_are_there_do_not_keep_others_from_being_made(admin: kafkatools.Admin) -> None:
    admin.create_topics("there")
    with pytest.raises(errors.TopicAlreadyExists):
        admin.create_topics("there")
    with pytest.raises(errors.PartialFailure) as failure:
        admin.create_topics(["there", "new", NewTopic("bad name")])
    assert {name: type(one) for name, one in failure.value.errors.items()} == {
        "there": errors.TopicAlreadyExists,
        "bad name": errors.InvalidTopic,
    }
    assert list(failure.value.results) == ["new"]
    assert "new" in {topic.name for topic in admin.list_topics()}


def test_validate_only_makes_nothing(admin: kafkatools.Admin) -> None:
    admin.create_topics("thought-of", validate_only=True)
    assert "thought-of" not in {topic.name for topic in admin.list_topics()}


def test_settings_are_set_taken_back_and_appended_to(admin: kafkatools.Admin) -> None:
    admin.create_topics("settings")
    topic = ("topic", "settings")
    admin.alter_configs({topic: {"retention.ms": 5, "preallocate": True, "cleanup.policy": "delete"}})
    admin.alter_configs({topic: [ConfigChange("cleanup.policy", "compact", APPEND)]})

    def values() -> dict[str, str | None]:
        found = admin.describe_configs(topic, ["retention.ms", "preallocate", "cleanup.policy"])[topic]
        return {name: entry.value for name, entry in found.items()}

    assert values() == {"retention.ms": "5", "preallocate": "true", "cleanup.policy": "delete,compact"}
    admin.alter_configs({topic: {"retention.ms": None, "cleanup.policy": ["compact"]}})
    assert values() == {"retention.ms": "604800000", "preallocate": "true", "cleanup.policy": "compact"}
    with pytest.raises(errors.InvalidConfig):
        admin.alter_configs({topic: {"retention.ms": "soon"}})
    with pytest.raises(errors.PartialFailure) as failure:
        admin.describe_configs([topic, ("topic", "nowhere")])
    assert list(failure.value.errors) == [("topic", "nowhere")]
    assert admin.describe_configs(("broker", 1))["broker", "1"]["node.id"].value == "1"


# --- offsets and groups


def test_offsets_in_words_and_by_time(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics("offsets")
    produce(bootstrap, "offsets", 5)
    place = kafkatools.TopicPartition("offsets", 0)
    assert admin.list_offsets([place])[place].offset == 5
    assert admin.delete_records({place: 2}) == {place: 2}
    assert admin.list_offsets({place: "earliest"})[place].offset == 2
    newest = admin.list_offsets({place: "max_timestamp"})[place]
    assert newest.offset >= 2 and admin.list_offsets({place: newest.timestamp + 1})[place].offset == -1
    with pytest.raises(errors.PartialFailure) as failure:
        admin.list_offsets([place, ("offsets", 9)])
    assert list(failure.value.errors) == [("offsets", 9)] and failure.value.results[place].offset == 5


def test_negative_offset_of_a_group_is_refused(admin: kafkatools.Admin) -> None:
    with pytest.raises(ValueError, match="Invalid negative offset"):
        admin.alter_group_offsets("negative", {("t", 0): -5})
    assert "negative" not in {group.group_id for group in admin.list_groups()}


def test_group_whose_only_member_left_is_not_simple(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics(NewTopic("left", 1))
    produce(bootstrap, "left", 1)
    reset = {"auto.offset.reset": "earliest", "group.protocol": "classic"}
    with kafkatools.Consumer(reset, bootstrap_servers=bootstrap, group_id="left") as consumer:
        consumer.subscribe(["left"])
        while not consumer.poll(1000):
            pass
        consumer.commit_sync()
        assert not admin.describe_groups("left")["left"].is_simple
    left = admin.describe_groups("left")["left"]
    assert (left.state, left.type, left.is_simple) == ("Empty", "Classic", False)


def test_offsets_of_a_group_are_set_reset_and_forgotten(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics(NewTopic("read", 2))
    produce(bootstrap, "read", 4)
    first, second = kafkatools.TopicPartition("read", 0), kafkatools.TopicPartition("read", 1)
    admin.alter_group_offsets("readers", {first: 3, second: OffsetAndMetadata(0, metadata="note")})
    assert admin.group_offsets("readers") == {first: OffsetAndMetadata(3), second: OffsetAndMetadata(0, -1, "note")}
    assert admin.reset_group_offsets("readers", {first: "earliest"}) == {first: OffsetAndMetadata(0)}
    assert admin.reset_group_offsets("readers", {first: 1 << 42}) == {first: OffsetAndMetadata(4)}
    assert "readers" in {group.group_id for group in admin.list_groups(states=["Empty"])}
    assert admin.describe_groups("readers")["readers"].is_simple
    admin.delete_group_offsets("readers", [second])
    assert list(admin.group_offsets("readers")) == [first]
    admin.delete_groups("readers")
    assert admin.group_offsets("readers") == {}
    with pytest.raises(errors.GroupIdNotFound):
        admin.describe_groups("readers")


def test_group_with_members_keeps_its_offsets(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics("busy")
    with kafkatools.Consumer(bootstrap_servers=bootstrap, group_id="busy-readers") as consumer:
        consumer.subscribe(["busy"])
        assert list(consumer.read_to_end()) == []
        consumer.commit_sync({("busy", 0): 0})
        [member] = admin.describe_groups("busy-readers")["busy-readers"].members
        assert member.assignment == (("busy", 0),)
        with pytest.raises(errors.UnknownMemberId):
            admin.alter_group_offsets("busy-readers", {("busy", 0): 1})
        with pytest.raises(errors.NonEmptyGroup):
            admin.delete_groups("busy-readers")
        with pytest.raises(errors.GroupSubscribedToTopic):
            admin.delete_group_offsets("busy-readers", [("busy", 0)])


# --- transactions and the cluster


def test_open_transaction_is_seen_and_its_producer_fenced(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics("pending")
    with kafkatools.Producer(bootstrap_servers=bootstrap, transactional_id="pending-1") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("pending", b"x").result(10_000)
        assert "pending-1" in {one.transactional_id for one in admin.list_transactions(states=["Ongoing"])}
        assert admin.describe_transactions("pending-1")["pending-1"].partitions == (("pending", 0),)
        [state] = admin.describe_producers([("pending", 0)])["pending", 0]  # type: ignore[index]
        assert state.transaction_start_offset == 0
        assert admin.find_hanging_transactions([("pending", 0)], max_timeout_ms=0) == []
        admin.fence_producer("pending-1")
        with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch)):
            producer.commit_transaction()
    with pytest.raises(errors.TransactionalIdNotFound):
        admin.fence_producer("nobody")


def test_cluster_has_its_broker(admin: kafkatools.Admin, bootstrap: str) -> None:
    [node] = admin.describe_cluster().nodes
    assert f"{node.host}:{node.port}" == bootstrap
    assert admin.list_reassignments() == {}


# --- transactions as a block (they need a broker too)


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    settings = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed"}
    with kafkatools.Consumer(settings) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for record in consumer.read_to_end()]


def test_block_commits_or_aborts_as_a_whole(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics("blocks")
    with kafkatools.Producer(bootstrap_servers=bootstrap, transactional_id="blocks-1") as producer:
        with producer.transaction():
            producer.send_many("blocks", [b"1", b"2"])
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send("blocks", b"lost")
            raise ZeroDivisionError
        with pytest.raises(KeyboardInterrupt), producer.transaction():
            producer.send("blocks", b"lost too")
            raise KeyboardInterrupt
        with producer.transaction() as same:
            assert same is producer
            same.send("blocks", b"3")
    assert read_committed(bootstrap, "blocks") == [b"1", b"2", b"3"]


def test_block_whose_abort_fails_raises_its_own_error(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics("fenced-in-a-block")
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "fenced-1"}
    with kafkatools.Producer(settings) as producer, kafkatools.Producer(settings) as successor:
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send("fenced-in-a-block", b"lost").result(10_000)
            successor.init_transactions()
            raise ZeroDivisionError
        assert producer.has_fatal_error  # the abort found out that the producer was fenced
        with successor.transaction():
            successor.send("fenced-in-a-block", b"kept")
    assert read_committed(bootstrap, "fenced-in-a-block") == [b"kept"]


def test_block_with_a_record_that_failed_is_aborted(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics(NewTopic("small", configs={"max.message.bytes": "200"}))
    with kafkatools.Producer(bootstrap_servers=bootstrap, transactional_id="small-1") as producer:
        with pytest.raises(errors.KafkaError), producer.transaction():
            producer.send("small", b"fits")
            producer.send("small", b"x" * 500)
        with producer.transaction():
            producer.send("small", b"fits again")
    assert read_committed(bootstrap, "small") == [b"fits again"]


def test_fenced_producer_is_told_so_and_can_only_be_closed(admin: kafkatools.Admin, bootstrap: str) -> None:
    admin.create_topics("fenced")
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "fenced-1"}
    with kafkatools.Producer(settings) as old, kafkatools.Producer(settings) as new:
        with old.transaction():
            old.send("fenced", b"old")
        with new.transaction():
            new.send("fenced", b"new")
        for _ in range(2):
            with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch)), old.transaction():
                old.send("fenced", b"late")
        assert old.has_fatal_error
    assert read_committed(bootstrap, "fenced") == [b"old", b"new"]
