"""A client that asks a broker about transactions and keeps what it heard, in a form in which brokers compare.

Producer ids are told as P0, P1... in the order in which they are met; times are left out. After each end it waits for
the markers, which Apache Kafka writes after its answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from support.raw_client import RawClient

from kafkatools.core.errors import error_for_code
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder

Identity = tuple[int, int]
SETTLING = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR")
UNSETTLED = ("PrepareCommit", "PrepareAbort")


def error(code: int) -> str:
    """The name of an error code."""
    return "OK" if int(code) == 0 else error_for_code(int(code)).name


class Teller:
    """Tells one story; `answers` are what it heard."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.client = RawClient(bootstrap)
        self.name = name
        self.answers: list[Any] = []
        self.producers_met: list[int] = []

    def topic(self, partitions: int = 1, name: str = "t") -> str:
        """A topic of this story."""
        topic = f"{self.name}.{name}"
        self.client.create_topic(topic, partitions)
        return topic

    def _call(self, api: ApiKey, version: int, fields: dict[str, Any], code: Callable[[Any], int]) -> Any:
        """Ask until the broker has taken its place, which takes Apache Kafka a moment."""
        for _ in range(100):
            answer = self.client.call(api, version, fields)
            if error(code(answer)) not in SETTLING:
                return answer
            time.sleep(0.1)
        raise AssertionError(f"never settled: {answer}")

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until the broker does not know it any more."""
        answer = self.client.call(ApiKey.DELETE_TOPICS, 5, {"topic_names": [name], "timeout": 5000})
        self.note("delete", error(answer.responses[0].error_code))
        fields = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        while error(self.client.call(ApiKey.METADATA, 9, fields).topics[0].error_code) == "OK":
            time.sleep(0.02)

    def find_coordinator(self, key: str, kind: int = 1) -> None:
        """Until there is one."""
        for _ in range(100):
            found = self.client.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": kind, "coordinator_keys": [key]})
            if int(found.coordinators[0].error_code) == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"no coordinator: {found}")

    def who(self, producer_id: int) -> str:
        """A producer id as the story tells it."""
        if producer_id < 0:
            return "nobody"
        if producer_id not in self.producers_met:
            self.producers_met.append(producer_id)
        return f"P{self.producers_met.index(producer_id)}"

    def note(self, what: str, *answer: Any) -> None:
        """An answer is part of the story."""
        self.answers.append([what, *answer])

    # -- what a producer asks --------------------------------------------------------------------------------------
    def init(
        self,
        transactional_id: str,
        *,
        version: int = 5,
        timeout_ms: int = 60000,
        expected: Identity = (-1, -1),
        **two_phases: bool,
    ) -> Identity:
        """InitProducerId; `two_phases` are fields of version 6."""
        fields: dict[str, Any] = {"transactional_id": transactional_id, "transaction_timeout": timeout_ms}
        if version >= 3:
            fields.update(producer_id=expected[0], producer_epoch=expected[1])
        fields.update(two_phases)
        answer = self._call(ApiKey.INIT_PRODUCER_ID, version, fields, lambda found: found.error_code)
        self.note("init", error(answer.error_code), self.who(answer.producer_id), answer.producer_epoch)
        return answer.producer_id, answer.producer_epoch

    def add(
        self, transactional_id: str, producer: Identity, places: Sequence[tuple[str, int]], *, version: int = 3
    ) -> None:
        """AddPartitionsToTxn of a client."""
        fields = {
            "v3_and_below_transactional_id": transactional_id,
            "v3_and_below_producer_id": producer[0],
            "v3_and_below_producer_epoch": producer[1],
            "v3_and_below_topics": self._by_topic(places),
        }
        answer = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, fields)
        self.note("add", *self._partition_results(answer.results_by_topic_v3_and_below))

    def add_batch(self, *wanted: tuple[str, Identity, Sequence[tuple[str, int]], bool], version: int = 5) -> None:
        """AddPartitionsToTxn of a broker, of several transactions; the last of each says whether only to verify."""
        transactions = [
            {
                "transactional_id": transactional_id,
                "producer_id": producer[0],
                "producer_epoch": producer[1],
                "verify_only": verify_only,
                "topics": self._by_topic(places),
            }
            for transactional_id, producer, places, verify_only in wanted
        ]
        answer = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, {"transactions": transactions})
        results = sorted(answer.results_by_transaction, key=lambda each: str(each.transactional_id))
        self.note("add batch", error(answer.error_code), *(self._partition_results(e.topic_results) for e in results))

    @staticmethod
    def _by_topic(places: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
        topics = sorted({topic for topic, _ in places})
        return [{"name": name, "partitions": [index for topic, index in places if topic == name]} for name in topics]

    @staticmethod
    def _partition_results(topics: Any) -> list[str]:
        results = [
            (str(topic.name), each.partition_index, error(each.partition_error_code))
            for topic in topics
            for each in topic.results_by_partition
        ]
        return [f"{topic.rpartition('.')[2]}-{index} {code}" for topic, index, code in sorted(results)]

    def produce(
        self,
        transactional_id: str | None,
        producer: Identity,
        place: tuple[str, int],
        sequence: int,
        *,
        version: int = 11,
        values: Sequence[bytes] = (b"v",),
    ) -> None:
        """Produce one batch of a transaction."""
        builder = BatchBuilder(
            1 << 16,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=transactional_id is not None,
        )
        for value in values:
            builder.append(int(time.time() * 1000), None, value)
        data = {"index": place[1], "records": bytes(builder.close())}
        fields = {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": 10000,
            "topic_data": [{"name": place[0], "partition_data": [data]}],
        }
        found = self._call(ApiKey.PRODUCE, version, fields, lambda e: e.responses[0].partition_responses[0].error_code)
        answer = found.responses[0].partition_responses[0]
        self.note("produce", error(answer.error_code), answer.base_offset, getattr(answer, "error_message", None))

    def add_offsets(self, transactional_id: str, producer: Identity, group: str, *, version: int = 4) -> None:
        """AddOffsetsToTxn."""
        fields = {
            "transactional_id": transactional_id,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "group_id": group,
        }
        self.note("add offsets", error(self.client.call(ApiKey.ADD_OFFSETS_TO_TXN, version, fields).error_code))

    def commit_offset(
        self,
        transactional_id: str,
        producer: Identity,
        group: str,
        offset: tuple[str, int, int],
        *,
        version: int = 4,
        member: tuple[str, int] = ("", -1),
    ) -> None:
        """TxnOffsetCommit of one partition: topic, partition, offset."""
        topic, index, position = offset
        partition: dict[str, Any] = {
            "partition_index": index,
            "committed_offset": position,
            "committed_metadata": "m",
        }
        if version >= 2:
            partition["committed_leader_epoch"] = 0
        fields: dict[str, Any] = {
            "transactional_id": transactional_id,
            "group_id": group,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        if version >= 3:
            fields.update(member_id=member[0], generation_id=member[1], group_instance_id=None)
        answer = self.client.call(ApiKey.TXN_OFFSET_COMMIT, version, fields)
        self.note("commit offset", error(answer.topics[0].partitions[0].error_code))

    def end(self, transactional_id: str, producer: Identity, *, commit: bool, version: int = 4) -> Identity:
        """EndTxn, and wait until it is over."""
        fields = {
            "transactional_id": transactional_id,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "committed": commit,
        }
        answer = self.client.call(ApiKey.END_TXN, version, fields)
        identity = (getattr(answer, "producer_id", -1), getattr(answer, "producer_epoch", -1))
        self.note("end", error(answer.error_code), self.who(identity[0]), identity[1])
        self.settle(transactional_id)
        return identity

    # -- what others see -------------------------------------------------------------------------------------------
    def _described(self, transactional_id: str) -> Any:
        fields = {"transactional_ids": [transactional_id]}
        found = self._call(ApiKey.DESCRIBE_TRANSACTIONS, 0, fields, lambda each: each.transaction_states[0].error_code)
        return found.transaction_states[0]

    def settle(self, transactional_id: str) -> None:
        """Wait for markers; then for what a reader may still miss."""
        for _ in range(200):
            if self._described(transactional_id).transaction_state not in UNSETTLED:
                return
            time.sleep(0.02)

    def describe(self, transactional_id: str) -> None:
        """DescribeTransactions."""
        found = self._described(transactional_id)
        if int(found.error_code):
            self.note("describe", error(found.error_code))
            return
        places = sorted((str(topic.topic), sorted(topic.partitions)) for topic in found.topics)
        self.note(
            "describe",
            error(found.error_code),
            found.transaction_state,
            self.who(found.producer_id),
            found.producer_epoch,
            [f"{topic.rpartition('.')[2]} {indexes}" for topic, indexes in places],
        )

    def producers(self, place: tuple[str, int]) -> None:
        """DescribeProducers."""
        topics = [{"name": place[0], "partition_indexes": [place[1]]}]
        found = self.client.call(ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": topics}).topics[0].partitions[0]
        states = [
            [
                self.who(each.producer_id),
                each.producer_epoch,
                each.last_sequence,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            ]
            for each in found.active_producers
        ]
        self.note("producers", error(found.error_code), *states)

    def offset(self, group: str, place: tuple[str, int], *, stable: bool = True) -> None:
        """OffsetFetch."""
        topics = [{"name": place[0], "partition_indexes": [place[1]]}]
        fields = {"group_id": group, "topics": topics, "require_stable": stable}
        answer = self._call(ApiKey.OFFSET_FETCH, 7, fields, lambda each: each.error_code)
        found = answer.topics[0].partitions[0]
        self.note("offset", error(found.error_code), found.committed_offset)

    def read(self, place: tuple[str, int], offset: int = 0, *, committed: bool = True) -> None:
        """Fetch: last stable offset, aborted transactions, batches."""
        wanted = {"partition": place[1], "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        fields = {
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "isolation_level": int(committed),
            "topics": [{"topic": place[0], "partitions": [wanted]}],
        }
        found = self.client.call(ApiKey.FETCH, 12, fields).responses[0].partitions[0]
        aborted = [[self.who(each.producer_id), each.first_offset] for each in found.aborted_transactions or ()]
        batches = [self._batch(each) for each in read_batches(found.records or b"")]
        self.note("read", error(found.error_code), found.high_watermark, found.last_stable_offset, aborted, batches)

    def _batch(self, batch: Any) -> list[Any]:
        assert isinstance(batch, RecordBatch)
        kind = "control" if batch.is_control else "data"
        values = [(record.value or b"").hex() if batch.is_control else str(record.value, "ascii")
                  for record in batch.records()]  # fmt: skip
        return [batch.base_offset, kind, self.who(batch.producer_id), batch.producer_epoch, batch.base_sequence, values]

    def list(self, *, version: int = 2, **filters: Any) -> None:
        """ListTransactions, of this story's ids only."""
        fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], **filters}
        if version >= 1:
            fields.setdefault("duration_filter", -1)
        if version >= 2:
            fields.setdefault("transactional_id_pattern", None)
        found = self.client.call(ApiKey.LIST_TRANSACTIONS, version, fields)
        states = sorted(
            [str(each.transactional_id), each.transaction_state, self.who(each.producer_id)]
            for each in found.transaction_states
            if each.transactional_id.startswith(self.name)
        )
        self.note("list", error(found.error_code), sorted(found.unknown_state_filters), states)

    def marker(
        self, place: tuple[str, int], producer: Identity, *, commit: bool, coordinator_epoch: int, version: int = 1
    ) -> None:
        """WriteTxnMarkers."""
        marker: dict[str, Any] = {
            "producer_id": producer[0],
            "producer_epoch": producer[1],
            "transaction_result": commit,
            "coordinator_epoch": coordinator_epoch,
            "topics": [{"name": place[0], "partition_indexes": [place[1]]}],
        }
        if version >= 2:
            marker["transaction_version"] = 2
        answer = self.client.call(ApiKey.WRITE_TXN_MARKERS, version, {"markers": [marker]}).markers[0]
        self.note("marker", self.who(answer.producer_id), error(answer.topics[0].partitions[0].error_code))
