"""`__transaction_state` on this broker: created on first use, appended to, and loaded when a partition is led.

Rules: all records of a transactional id lie in one partition, found by the hash of the id. The leader epoch of the
partition is the coordinator epoch. One record is one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafkatools.core.broker.coordinators.groups.offsets_topic import OpenTransactions, read_last_values
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.internal_topic import InternalTopic, Record, partition_for, passed_over
from kafkatools.core.broker.coordinators.transactions.log_records import transaction_of
from kafkatools.core.broker.coordinators.transactions.transaction import Transaction
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import NotCoordinator
from kafkatools.core.log.producers.append import AppendOrigin

TOPIC = "__transaction_state"
SLICE_RECORDS = 200


class TransactionLog(InternalTopic):
    """`__transaction_state` on this broker. `ensure_active` raises NotCoordinator for ids of other coordinators,
    CoordinatorLoadInProgress while the id's partition is loading."""

    name = TOPIC

    def __init__(self, host: Host, ensure_active: Callable[[str], None]) -> None:
        super().__init__(host)
        self._ensure_active = ensure_active

    def _new_topic(self) -> NewTopic:
        config = self._host.config
        configs = {
            "unclean.leader.election.enable": "false",
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(self._in_cluster("transaction.state.log.min.isr")),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
        }
        factor = self._in_cluster("transaction.state.log.replication.factor")
        return NewTopic(TOPIC, config.transaction_state_log_num_partitions, factor, configs=configs)

    def partition_of(self, transactional_id: str) -> Partition:
        """The partition of a transactional id, led by this broker. Raises NotCoordinator if there is none here,
        CoordinatorLoadInProgress while it is loading."""
        self._ensure_active(transactional_id)
        topic = self._host.image.topics.get(TOPIC)
        if topic is None:
            raise NotCoordinator()
        index = partition_for(transactional_id, len(topic.partitions))
        partition = self._host.replicas.partitions.get(TOPIC, {}).get(index)
        if partition is None:
            raise NotCoordinator()
        return partition

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The coordinator epoch for markers of this transactional id. Raises as `partition_of`."""
        return self.partition_of(transactional_id).leader_epoch

    def append(self, transactional_id: str, records: Sequence[Record]) -> ProduceStatus | None:
        """Append records to the `__transaction_state` partition of a transactional id, as one batch. Returns the append
        to wait for before clients are answered, None if it is replicated. Raises a KafkaError."""
        return self._append_batch(self.partition_of(transactional_id), records, AppendOrigin.CLIENT)[1]

    def read(self, partition: Partition) -> Iterator[Transaction | None]:
        """Read the last value of each transactional id in a partition, without deleted ids. Yields transactions, and
        None between slices. Skips and reports undecodable records."""
        from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
        from kafkatools.core.protocol.schemas.transaction_log import decode_record

        note_failure = self._host.note_failure
        values: dict[bytes, bytes | None] = {}
        yield from read_last_values(partition, note_failure, values, OpenTransactions())
        for count, (key, value) in enumerate(values.items(), 1):
            if value is None:
                continue
            try:
                name, entity = decode_record(key, value)
                yield transaction_of(name.transactional_id, entity)
            except (RecordFormatError, UnknownRecordType, ValueError) as error:
                note_failure(passed_over(partition, error))
            if count % SLICE_RECORDS == 0:
                yield None
