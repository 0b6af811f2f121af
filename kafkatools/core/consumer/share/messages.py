"""The fields of ShareFetch and ShareAcknowledge requests, and what their senders need to handle the response."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchOptions
from kafkatools.core.consumer.share.acknowledgements import AcknowledgedRange, Acknowledgements
from kafkatools.core.consumer.share.session import PartitionId, SessionChanges
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.topic_partition import TopicPartition

FIRST_VERSION_WITH_RENEWALS = 2
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1

Fields = dict[str, object]


class ShareSettings(NamedTuple):
    """The settings of share requests: group, member, limits of a fetch (ms, bytes, records), the acquire mode, back-off
    (ms) and the options of decoding."""

    group_id: str
    member_id: str
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    acquire_mode: int
    retry_backoff_ms: int
    options: FetchOptions

    @classmethod
    def of(cls, config: Config, member_id: str) -> ShareSettings:
        """Return the settings of a share consumer's configuration."""
        is_limited = config.share_acquire_mode.lower() == "record_limit"
        return cls(
            config.group_id,
            member_id,
            config.fetch_max_wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            config.max_poll_records,
            RECORD_LIMIT if is_limited else BATCH_OPTIMIZED,
            config.retry_backoff_ms,
            FetchOptions(check_crcs=config.check_crcs, max_decompressed_bytes=config.max_decompressed_message_bytes),
        )


class PendingAcknowledgement:
    """Acknowledgements of one partition on their way to the node that delivered the records; retried until
    `deadline_ms`. `error` is None after success; both count once `is_done`."""

    def __init__(
        self, node: int, place: tuple[PartitionId, TopicPartition], content: Acknowledgements, deadline_ms: int
    ) -> None:
        self.node = node
        self.id, self.partition = place
        self.content = content
        self.deadline_ms = deadline_ms
        self.retry_ms = 0
        self.is_done = False
        self.error: KafkaError | None = None


class ShareRequest(NamedTuple):
    """A ShareFetch or ShareAcknowledge for one node, with the acknowledgements that it carries."""

    node: int
    api_key: int
    fields: Callable[[int], Mapping[str, object]]
    carried: Sequence[PendingAcknowledgement]
    min_version: int = 0

    @property
    def is_fetch(self) -> bool:
        """Return whether this is a ShareFetch."""
        return self.api_key == ApiKey.SHARE_FETCH


def fetch_request(
    settings: ShareSettings, node: int, epoch: int, changes: SessionChanges, carried: Sequence[PendingAcknowledgement]
) -> ShareRequest:
    """Return a ShareFetch; it carries no renewals, which would exclude records."""
    fields: Fields = {
        "group_id": settings.group_id,
        "member_id": settings.member_id,
        "share_session_epoch": epoch,
        "max_wait": settings.max_wait_ms,
        "min_bytes": settings.min_bytes,
        "max_bytes": settings.max_bytes,
        "max_records": settings.max_records,
        "batch_size": settings.max_records,
        "topics": _topics(changes.added, carried),
        "forgotten_topics_data": [
            {"topic_id": topic, "partitions": [key.number for key in changes.forgotten if key.topic_id == topic]}
            for topic in dict.fromkeys(key.topic_id for key in changes.forgotten)
        ],
    }

    def of_version(version: int) -> Fields:
        mode = {"share_acquire_mode": settings.acquire_mode} if version >= FIRST_VERSION_WITH_RENEWALS else {}
        return {**fields, **mode}

    return ShareRequest(node, ApiKey.SHARE_FETCH, of_version, carried)


def acknowledge_request(
    settings: ShareSettings, node: int, epoch: int, carried: Sequence[PendingAcknowledgement]
) -> ShareRequest:
    """Return a ShareAcknowledge; with renewals it needs version 2 (KIP-1222)."""
    is_renewal = any(pending.content.has_renewals for pending in carried)
    fields: Fields = {
        "group_id": settings.group_id,
        "member_id": settings.member_id,
        "share_session_epoch": epoch,
        "topics": _topics((), carried),
    }
    if is_renewal:
        fields["is_renew_ack"] = True
    lowest = FIRST_VERSION_WITH_RENEWALS if is_renewal else 0
    return ShareRequest(node, ApiKey.SHARE_ACKNOWLEDGE, lambda version: fields, carried, lowest)


def _topics(added: Iterable[PartitionId], carried: Iterable[PendingAcknowledgement]) -> list[Fields]:
    """Return the topics of a request. Several acknowledgements of a partition are joined, since the broker refuses
    batches that are not in the order of their offsets."""
    ranges: dict[PartitionId, list[AcknowledgedRange]] = {key: [] for key in added}
    for pending in carried:
        ranges.setdefault(pending.id, []).extend(pending.content.ranges)
    topics: dict[object, list[Fields]] = {}
    for key, of_partition in ranges.items():
        batches = Acknowledgements(of_partition).batches()
        partition: Fields = {"partition_index": key.number, "acknowledgement_batches": batches}
        topics.setdefault(key.topic_id, []).append(partition)
    return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]


def fetched_figures(entity: Entity) -> tuple[int, int]:
    """The bytes of the batches in a ShareFetch response, and the number of acquired records."""
    partitions = [data for topic in entity.responses for data in topic.partitions]
    size = sum(len(data.records or b"") for data in partitions)
    return size, sum(at.last_offset - at.first_offset + 1 for data in partitions for at in data.acquired_records)
