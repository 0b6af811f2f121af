"""kt why against one Apache Kafka: causes of groups, topics and transactions. Each is brought about, is the only
verdict, and names a next command that runs.

A case has a topic and a group of its own, both of the name of the case.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import run_kt
from support.live_groups import ClassicMember, GroupClient
from support.raw_transactions import RawProducer
from support.waiting import eventually
from support.why import Between, make_topic, only_cause, produce

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER, DELETE, SET, ConfigChange, describe_configs, incremental_alter_configs
from kafkatools.core.admin.groups import describe_groups
from kafkatools.core.admin.quotas import Entity, alter_client_quotas
from kafkatools.core.admin.topics import delete_records, delete_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.group.metadata import ConsumerGroupMetadata
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import encode_request
from kafkatools.core.protocol.messages import build, request_type
from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.real_kafka
HOUR_MS = 3_600_000
MINUTE = Between(later_ms=60_000)


@pytest.fixture
def kafka(real_kafka: ApacheKafka) -> ApacheKafka:
    return real_kafka


def now_ms() -> int:
    return SystemClock().wall_ms()


def member(kafka: ApacheKafka, name: str, partitions: tuple[int, ...] = (0,)) -> ClassicMember:
    return ClassicMember(kafka.bootstrap, f"client-{name}", name, {name: partitions})


def damage(kafka: ApacheKafka, name: str, partition: int, occurrence: int) -> None:
    """Changes a byte of a record's value in the log of the partition: b"PAYLOAD", the one of this number."""
    log = kafka.log_dir() / f"{name}-{partition}" / f"{0:020}.log"
    data, at = log.read_bytes(), -1
    for _ in range(occurrence + 1):
        at = data.index(b"PAYLOAD", at + 1)
    with log.open("r+b") as file:
        file.seek(at)
        file.write(b"X")


# -- members --


@contextlib.contextmanager
def no_members(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with member(kafka, name) as one:
        one.commit_own({(name, 0): 2})
        one.leave()
    yield Between()


@contextlib.contextmanager
def members_without_partitions(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with GroupClient(kafka.bootstrap) as client:
        client.commit(name, {(name, 0): 2})
    with ClassicMember(kafka.bootstrap, "idler", name, {}) as one:
        yield Between()
        one.leave()


@contextlib.contextmanager
def partition_without_member(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name, 2)
    with member(kafka, name) as one:
        one.commit_own({(name, 0): 5, (name, 1): 1})
        yield Between()
        one.leave()


@contextlib.contextmanager
def two_clients_with_one_instance_id(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with contextlib.ExitStack() as members:

        def join(client_id: str) -> ClassicMember:
            return members.enter_context(ClassicMember(kafka.bootstrap, client_id, name, {name: (0,)}, "one"))

        join("first").commit_own({(name, 0): 2})
        yield Between(lambda: join("second"))


@contextlib.contextmanager
def members_that_come_and_go(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with contextlib.ExitStack() as members:
        first = members.enter_context(member(kafka, name))
        first.commit_own({(name, 0): 2})

        def replace() -> None:
            first.leave()
            members.enter_context(member(kafka, name))

        yield Between(replace)


@contextlib.contextmanager
def rebalance_that_does_not_end(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with member(kafka, name) as one, GroupClient(kafka.bootstrap) as other:
        one.commit_own({(name, 0): 2})
        fields = {
            "group_id": name, "session_timeout": 60_000, "rebalance_timeout": 60_000, "member_id": "",
            "group_instance_id": "late", "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        }  # fmt: skip
        entity = build(request_type(ApiKey.JOIN_GROUP, 5), fields)  # not answered until the first member rejoins
        other._socket.sendall(b"".join(map(bytes, encode_request(ApiKey.JOIN_GROUP, 5, 1, "raw", entity))))
        with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
            eventually(lambda: describe_groups(admin, [name])[name].state == "PreparingRebalance")
        yield Between()
        one.leave()


@contextlib.contextmanager
def one_partition_that_stays(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name, 3)
    with member(kafka, name, (0, 1, 2)) as one:
        one.commit_own({(name, 0): 2, (name, 1): 2, (name, 2): 5})
        yield Between(lambda: one.commit_own({(name, 0): 5}))
        one.leave()


@contextlib.contextmanager
def slow_group(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name, records=0)
    produce(kafka.bootstrap, name, at_ms=now_ms() - HOUR_MS)
    with member(kafka, name) as one:
        one.commit_own({(name, 0): 1})

        def work() -> None:
            one.commit_own({(name, 0): 2})
            produce(kafka.bootstrap, name, records=50)

        yield Between(work)
        one.leave()


# -- offsets --


@contextlib.contextmanager
def topic_created_again(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name, records=9)
    with member(kafka, name) as one:
        one.commit_own({(name, 0): 9})
        with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
            delete_topics(admin, [name])
        make_topic(kafka.bootstrap, name)
        one.commit_own({(name, 0): 9})  # Apache Kafka deletes a topic's offsets with it
        yield Between()
        one.leave()


@contextlib.contextmanager
def retention_that_is_near(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name, records=0, configs={"retention.ms": str(HOUR_MS)})
    produce(kafka.bootstrap, name, at_ms=now_ms() - HOUR_MS + 120_000)
    with member(kafka, name) as one:
        one.commit_own({(name, 0): 1})
        yield Between()
        one.leave()


@contextlib.contextmanager
def log_start_that_moves(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name, records=20)
    with member(kafka, name) as one:
        one.commit_own({(name, 0): 8})

        def work() -> None:
            one.commit_own({(name, 0): 9})
            with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
                delete_records(admin, {(name, 0): 6})

        yield Between(work)
        one.leave()


@contextlib.contextmanager
def damaged_batch(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name, records=0)
    for _ in range(3):
        produce(kafka.bootstrap, name, records=1, value=b"PAYLOAD")
    damage(kafka, name, 0, 1)
    with member(kafka, name) as one:
        one.commit_own({(name, 0): 1})
        yield Between()
        one.leave()


@contextlib.contextmanager
def large_batch(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name, 2, records=1, configs={"max.message.bytes": "4000000"})
    produce(kafka.bootstrap, name, 2, records=1, value=b"x" * 2_000_000)
    with member(kafka, name, (0, 1)) as one:
        one.commit_own({(name, 0): 1, (name, 1): 1})
        yield Between(lambda: one.commit_own({(name, 0): 2}))
        one.leave()


# -- transactions --


@contextlib.contextmanager
def without_verification(kafka: ApacheKafka) -> Iterator[None]:
    """A broker that accepts records of a transaction that its coordinator does not know, as before KIP-890."""
    setting = "transaction.partition.verification.enable"
    with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
        for change in (ConfigChange(setting, "false", SET), ConfigChange(setting, None, DELETE)):
            assert incremental_alter_configs(admin, {(BROKER, ""): [change]}) == {(BROKER, ""): None}
            if change.value is not None:
                eventually(lambda: _value(admin, setting) == "false")
                yield


def _value(admin: AdminClient, setting: str) -> str | None:
    (resource,) = describe_configs(admin, [(BROKER, "1")], names=[setting]).values()
    return next(entry.value for entry in resource.entries)


@contextlib.contextmanager
def hanging_transaction(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with RawProducer(kafka.bootstrap, name, 600_000) as producer, member(kafka, name) as one:
        with without_verification(kafka):
            producer.send_without_coordinator(name, 0, [now_ms()])
        one.commit_own({(name, 0): 5})
        yield MINUTE
        one.leave()


@contextlib.contextmanager
def transaction_after_its_timeout(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with RawProducer(kafka.bootstrap, name, 60_000) as producer, member(kafka, name) as one:
        producer.send(name, 0, [now_ms()])
        one.commit_own({(name, 0): 5})
        yield Between(later_ms=200_000)
        producer.end(committed=True)
        one.leave()


@contextlib.contextmanager
def offsets_in_an_open_transaction(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with GroupClient(kafka.bootstrap) as client:
        client.commit(name, {(name, 0): 1})
    with Producer(bootstrap_servers=kafka.bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({(name, 0): 4}, ConsumerGroupMetadata(name))
        yield Between()
        producer.abort_transaction()


# -- quotas --


@contextlib.contextmanager
def quota(kafka: ApacheKafka, client_id: str, setting: str, value: float) -> Iterator[None]:
    entity: Entity = (("client-id", client_id),)
    with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
        alter_client_quotas(admin, entity, {setting: value})
        try:
            yield
        finally:
            alter_client_quotas(admin, entity, {setting: None})


@contextlib.contextmanager
def slow_fetches(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    produce(kafka.bootstrap, name, records=10, value=b"x" * 10_000)
    with member(kafka, name) as one, quota(kafka, f"client-{name}", "consumer_byte_rate", 100.0):
        one.commit_own({(name, 0): 1})
        yield Between()
        one.leave()


@contextlib.contextmanager
def slow_requests(kafka: ApacheKafka, name: str) -> Iterator[Between]:
    make_topic(kafka.bootstrap, name)
    with member(kafka, name) as one, quota(kafka, f"client-{name}", "request_percentage", 0.01):
        one.commit_own({(name, 0): 1})
        yield Between()


class Case(NamedTuple):
    """A cause, who brings it about, the kind of subject, and what the sentence says of it."""

    cause: str
    bring_about: Callable[[ApacheKafka, str], contextlib.AbstractContextManager[Between]]
    says: str
    kind: str = "group"
    variant: str = ""

    @property
    def name(self) -> str:
        return f"c-{self.cause}{self.variant}"


CASES = (
    Case("group-no-members", no_members, "nobody consumes"),
    Case("members-without-partitions", members_without_partitions, "1 member"),
    Case("partition-unassigned", partition_without_member, "-1, where 4 records wait"),
    Case("static-member-replaced", two_clients_with_one_instance_id, "group.instance.id one"),
    Case("members-change", members_that_come_and_go, "1 of 1 joined"),
    Case("group-rebalancing", rebalance_that_does_not_end, "rebalancing for at least"),
    Case("partition-stalled", one_partition_that_stays, "stays at offset 2"),
    Case("consumer-too-slow", slow_group, "grew by 49"),
    Case("offset-beyond-end", topic_created_again, "offset 9 "),
    Case("retention-near", retention_that_is_near, "-0 in 1"),
    Case("retention-near", log_start_that_moves, "the log start moves towards it", variant="-moving"),
    Case("record-undecodable", damaged_batch, "The batch at offset 1 "),
    Case("record-too-large", large_batch, "the batch at offset 1 of c-record-too-large-1"),
    Case("transaction-hanging", hanging_transaction, "no coordinator will end it"),
    Case("transaction-hanging", hanging_transaction, "no coordinator will end it", "topic", "-topic"),
    Case("transaction-overdue", transaction_after_its_timeout, "longer than its timeout of 60 s"),
    Case("offsets-pending", offsets_in_an_open_transaction, "offsets-pending-0"),
    Case("consumer-quota", slow_fetches, "client-id client-c-consumer-quota"),
    Case("consumer-quota", slow_requests, "to 0.01 % of a thread", variant="-requests"),
)


@pytest.mark.parametrize("case", CASES, ids=[case.name.removeprefix("c-") for case in CASES])
def test_cause(kafka: ApacheKafka, case: Case) -> None:
    with case.bring_about(kafka, case.name) as clock:
        verdict = only_cause(kafka.bootstrap, case.kind, case.name, clock=clock)
        ran = run_kt(*shlex.split(verdict["command"])[1:])
    assert verdict["cause"] == case.cause and case.says in verdict["sentence"]
    assert ran.status is ExitStatus.OK, (verdict["command"], ran.err)
    if verdict["then"]:  # refused until the case's member has left
        with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
            assert describe_groups(admin, [case.name])[case.name].state == "Empty"
        ran = run_kt(*shlex.split(verdict["then"])[1:])
        assert ran.status is ExitStatus.OK, (verdict["then"], ran.err)
