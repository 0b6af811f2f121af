"""Sends transaction markers to the leaders of all partitions (Kafka's TransactionMarkerChannelManager).

Rules: markers for partitions that this broker leads are written directly. Other leaders get WriteTxnMarkers, one
request in flight per broker, with up to MOST_PLACES markers queued meanwhile. A deleted partition needs no marker. The
coordinator retries failed partitions, and the retry looks up the leader again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.request_queue import RequestQueue
from kafkatools.core.broker.coordinators.transactions.markers import Marker, MarkerWriter
from kafkatools.core.broker.coordinators.transactions.transaction import TopicPartition
from kafkatools.core.broker.metadata.image import NO_LEADER
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.topic_partition import numbers_by_topic

MOST_PLACES = 1000
RESPONSE_TIMEOUT_MS = 10_000
"""About as long as the controller keeps a hanging broker: after that other brokers lead its partitions."""
NONE = 0
Note = Callable[[TopicPartition, int], None]


class _Entry(NamedTuple):
    place: TopicPartition
    marker: Marker
    note: Note


class MarkerSender:
    """Sends the markers of this broker's transaction coordinator."""

    def __init__(self, host: Host, writer: MarkerWriter) -> None:
        self._host = host
        self._writer = writer
        self._queue = RequestQueue[_Entry](
            host, RESPONSE_TIMEOUT_MS, lambda queued: queued[:MOST_PLACES], _fields, _handle_response
        )

    def send(self, places: Collection[TopicPartition], marker: Marker, note: Note) -> None:
        """Write the marker to each partition, on this broker or through its leader. Calls `note` once for each
        partition, at once or later: with 0 if the marker is durable or the partition is gone, else with an error
        code."""
        local_partitions: list[TopicPartition] = []
        entries_by_leader: dict[int, list[_Entry]] = {}
        for place in sorted(places):
            leader = self._leader(place)
            if leader is None:
                note(place, NONE)
            elif leader == self._host.node_id:
                local_partitions.append(place)
            elif leader == NO_LEADER:
                note(place, errors.LeaderNotAvailable.code)
            else:
                entries_by_leader.setdefault(leader, []).append(_Entry(place, marker, note))
        self._write_here(local_partitions, marker, note)
        for broker, entries in entries_by_leader.items():
            self._queue.add(broker, ApiKey.WRITE_TXN_MARKERS, entries)

    def note_failure(self, error: errors.KafkaError) -> None:
        """Report an error that no client waits for."""
        self._host.note_failure(error)

    def _leader(self, place: TopicPartition) -> int | None:
        """The leader's broker id, NO_LEADER, or None if the partition does not exist."""
        topic = self._host.image.topics.get(place[0])
        state = None if topic is None else topic.partitions.get(place[1])
        return None if state is None else state.leader

    def _write_here(self, places: Sequence[TopicPartition], marker: Marker, note: Note) -> None:
        waiting: list[tuple[TopicPartition, ProduceStatus]] = []
        durable_partitions: list[TopicPartition] = []
        for place in places:
            try:
                status = self._writer.write(place, marker)
            except errors.UnknownTopicOrPartition:
                durable_partitions.append(place)
            except errors.KafkaError as error:
                self._host.note_failure(error)
                note(place, error.code)
            else:
                if status is None:
                    durable_partitions.append(place)
                else:
                    waiting.append((place, status))
        for place in durable_partitions:
            note(place, NONE)

        def complete(_code: int) -> None:
            for place, status in waiting:
                note(place, status.error_code)

        self._host.when_durable([status for _, status in waiting], complete)


def _handle_response(entries: Sequence[_Entry], response: Any | None) -> None:
    codes = _codes(response)
    missing = errors.NetworkException.code if response is None else errors.UnknownServerError.code
    for entry in entries:
        entry.note(entry.place, codes.get((entry.marker.producer_id, entry.place), missing))


def _fields(entries: Sequence[_Entry]) -> Fields:
    """The fields of WriteTxnMarkers: one entry for each transaction, with its partitions by topic."""
    places: dict[Marker, list[TopicPartition]] = {}
    for entry in entries:
        places.setdefault(entry.marker, []).append(entry.place)
    markers = [
        {
            "producer_id": marker.producer_id,
            "producer_epoch": marker.producer_epoch,
            "transaction_result": marker.is_commit,
            "topics": [
                {"name": name, "partition_indexes": indexes}
                for name, indexes in numbers_by_topic(sorted(partitions)).items()
            ],
            "coordinator_epoch": marker.coordinator_epoch,
            "transaction_version": marker.transaction_version,
        }
        for marker, partitions in places.items()
    ]
    return {"markers": markers}


def _codes(response: Any | None) -> dict[tuple[int, TopicPartition], int]:
    if response is None:
        return {}
    return {
        (marker.producer_id, (topic.name, partition.partition_index)): int(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
