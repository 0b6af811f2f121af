"""confluent-kafka's AdminClient: ACLs, SCRAM credentials, settings, elections, offsets, records. Prints ok."""

import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

BOOTSTRAP, TOPIC = sys.argv[1:]


def only(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(120)


def eventually(check: Callable[[], None]) -> None:
    """A broker hears of a change a moment after the controller has answered."""
    deadline = time.monotonic() + 240
    while True:
        try:
            return check()
        except (AssertionError, KafkaException):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def topics_and_settings(admin: AdminClient) -> None:
    only(admin.create_topics([NewTopic(TOPIC, 2, 1, config={"retention.ms": "60000"})]))
    only(admin.create_partitions([NewPartitions(TOPIC, 3)]))
    entry = ConfigEntry("segment.ms", "70000", incremental_operation=AlterConfigOpType.SET)
    only(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])]))
    eventually(lambda: descriptions(admin))


def descriptions(admin: AdminClient) -> None:
    described = only(admin.describe_topics(topic_collection([TOPIC]), include_authorized_operations=True))
    assert len(described.partitions) == 3
    assert AclOperation.WRITE in described.authorized_operations
    found = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, TOPIC)]))
    assert (found["segment.ms"].value, found["retention.ms"].value) == ("70000", "60000")
    assert only(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))["num.partitions"].value == "1"
    cluster = admin.describe_cluster(include_authorized_operations=True).result(120)
    assert [node.id for node in cluster.nodes] == [1]
    assert AclOperation.ALTER in cluster.authorized_operations


def topic_collection(names: list[str]) -> Any:
    from confluent_kafka import TopicCollection

    return TopicCollection(names)


def records_and_elections(admin: AdminClient) -> None:
    producer = Producer({"bootstrap.servers": BOOTSTRAP})
    for index in range(5):
        producer.produce(TOPIC, f"value {index}", partition=0)
    assert producer.flush(240) == 0
    place = TopicPartition(TOPIC, 0)
    assert only(admin.list_offsets({place: OffsetSpec.latest()})).offset == 5
    only(admin.delete_records([TopicPartition(TOPIC, 0, 3)]))
    assert only(admin.list_offsets({place: OffsetSpec.earliest()})).offset == 3
    result = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(120)
    assert result[place].name() == "ELECTION_NOT_NEEDED"


def credentials(admin: AdminClient) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    only(admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", info, b"secret")]))

    def kept() -> None:
        (credential,) = only(admin.describe_user_scram_credentials(["alice"])).scram_credential_infos
        assert (credential.mechanism, credential.iterations) == (ScramMechanism.SCRAM_SHA_256, 8192)

    def gone() -> None:
        try:
            only(admin.describe_user_scram_credentials(["alice"]))
        except KafkaException as refused:
            assert refused.args[0].name() == "RESOURCE_NOT_FOUND", refused
        else:
            raise AssertionError("a deleted credential was described")

    eventually(kept)
    only(admin.alter_user_scram_credentials([UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256)]))
    eventually(gone)


def acls(admin: AdminClient) -> None:
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    everything = AclBindingFilter(
        ResourceType.TOPIC, TOPIC, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    mine = AclBinding(ResourceType.TOPIC, TOPIC, literal, "User:ANONYMOUS", "*", AclOperation.READ, allow)

    def described(expected: list[AclBinding]) -> None:
        assert admin.describe_acls(everything).result(120) == expected

    only(admin.create_acls([mine]))
    eventually(lambda: described([mine]))
    producer = Producer({"bootstrap.servers": BOOTSTRAP})
    failures: list[str] = []
    producer.produce(TOPIC, "denied", on_delivery=lambda error, _: failures.append(error.name() if error else "none"))
    producer.flush(240)
    assert failures == ["TOPIC_AUTHORIZATION_FAILED"], failures
    assert only(admin.delete_acls([everything])) == [mine]
    eventually(lambda: described([]))


def main() -> None:
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    topics_and_settings(admin)
    records_and_elections(admin)
    credentials(admin)
    acls(admin)
    only(admin.delete_topics([TOPIC]))
    print("ok")


main()
