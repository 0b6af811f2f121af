"""Find the producers and partitions that kt transactions works on. Errors carry the messages of TransactionsCommand."""

from __future__ import annotations

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import describe_topics, list_topics
from kafkatools.core.admin.transactions import ProducerState, TopicPartition, describe_producers
from kafkatools.core.errors import KafkaError, UnsupportedVersion
from kafkatools.exit_status import CommandError

DEBUG_ADVICE = "Enable debug logging for additional detail."


def failure(message: str, error: KafkaError) -> CommandError:
    """Return the error of Kafka's tool for a failed request; `message` names the request."""
    return CommandError(f"{message}: {error}{'' if str(error).endswith('.') else '.'} {DEBUG_ADVICE}")


def ensure_broker(admin: AdminClient, broker: int) -> None:
    """Raise CommandError unless a broker with this id is registered and unfenced."""
    brokers = admin.brokers()
    if broker not in brokers:
        raise CommandError(f"There is no broker {broker}: the brokers are {', '.join(map(str, brokers))}")


def producers_of(
    admin: AdminClient, partition: TopicPartition, broker: int | None, failure_text: str
) -> list[ProducerState]:
    """Return the producers of a partition, as known to its leader or `broker`. Raises CommandError("{failure_text}:
    ...")."""
    if broker is not None:
        ensure_broker(admin, broker)
    producers = describe_producers(admin, [partition], broker)[partition]
    if isinstance(producers, KafkaError):
        raise failure(failure_text, producers)
    return producers


def open_transaction_at(admin: AdminClient, partition: TopicPartition, start_offset: int) -> ProducerState:
    """Return the producer whose open transaction starts at this offset. Raises CommandError without one."""
    name = f"{partition[0]}-{partition[1]}"
    for producer in producers_of(admin, partition, None, f"Failed to validate producer state for partition {name}"):
        if producer.transaction_start_offset == start_offset:
            return producer
    raise CommandError(f"Could not find any open transactions starting at offset {start_offset} on partition {name}")


def ensure_open_transaction(admin: AdminClient, partition: TopicPartition, producer_id: int, epoch: int) -> None:
    """Raise CommandError unless this producer has an open transaction in the partition, or if its producers cannot be
    described.

    Checks nothing if the brokers do not support DescribeProducers (KIP-664).
    """
    name = f"{partition[0]}-{partition[1]}"
    producers = describe_producers(admin, [partition])[partition]
    if isinstance(producers, UnsupportedVersion):
        return
    if isinstance(producers, KafkaError):
        raise failure(f"Failed to validate producer state for partition {name}", producers)
    if not any(
        producer.transaction_start_offset >= 0 and producer[:2] == (producer_id, epoch) for producer in producers
    ):
        raise CommandError(
            f"Could not find any open transaction of producer {producer_id} with epoch {epoch} on partition {name}"
        )


def partitions_to_search(
    admin: AdminClient, topic: str | None, partition: int | None, broker: int | None
) -> list[TopicPartition]:
    """Return the partitions of a topic (None: of all topics) that have a replica on `broker` (None: any).

    With `topic` and `partition` it returns that partition without a request and ignores `broker`. Without a topic,
    `partition` is ignored. Raises CommandError.
    """
    if topic is not None and partition is not None:
        return [(topic, partition)]
    names = [topic] if topic is not None else [listing.name for listing in list_topics(admin)]
    descriptions = describe_topics(admin, names=names) if names else {}
    for description in descriptions.values():
        if description.error is not None:
            raise failure(f"Failed to describe {len(names)} topics", description.error)
    return [
        (name, part.partition)
        for name, description in descriptions.items()
        for part in description.partitions
        if broker is None or broker in part.replicas
    ]
