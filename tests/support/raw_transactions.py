"""Transactional producers made request by request, with transaction version 2 (KIP-890) as Java's clients use it."""

from __future__ import annotations

from support.live_groups import GroupClient

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.builder import BatchBuilder

_RETRY = (14, 15, 16, 51)


class RawProducer(GroupClient):
    """A producer; without a transactional id it is only idempotent."""

    def __init__(self, bootstrap: str, transactional_id: str | None = None, timeout_ms: int = 60_000) -> None:
        super().__init__(bootstrap)
        self.transactional_id = transactional_id
        if transactional_id is not None:
            self.call(ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": (transactional_id,)})
        fields = {"transactional_id": transactional_id, "transaction_timeout": timeout_ms}
        while True:
            answer = self.call(ApiKey.INIT_PRODUCER_ID, 4, fields)
            if int(answer.error_code) not in _RETRY:
                break
        assert int(answer.error_code) == 0, answer
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self._sequences: dict[tuple[str, int], int] = {}

    def send_without_coordinator(self, topic: str, partition: int, timestamps: list[int]) -> None:
        """As before KIP-890: the coordinator is not told, and nothing will end the transaction."""
        self.send(topic, partition, timestamps, version=9)

    def send(self, topic: str, partition: int, timestamps: list[int], version: int = 12) -> None:
        """One batch with a record for each timestamp; the partition becomes part of the transaction."""
        sequence = self._sequences.get((topic, partition), 0)
        builder = BatchBuilder(
            1 << 16,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            is_transactional=self.transactional_id is not None,
        )
        for timestamp in timestamps:
            builder.append(timestamp, None, b"value")
        fields = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout": 30000,
            "topic_data": [
                {"name": topic, "partition_data": [{"index": partition, "records": bytes(builder.close())}]}
            ],
        }
        while True:
            answer = self.call(ApiKey.PRODUCE, version, fields)
            code = int(answer.responses[0].partition_responses[0].error_code)
            if code not in (3, 5, 6, *_RETRY):
                break
        assert code == 0, answer
        self._sequences[topic, partition] = sequence + len(timestamps)

    def end(self, *, committed: bool) -> None:
        """Ends the transaction; waits until the markers are written."""
        fields = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "committed": committed,
        }
        while True:
            answer = self.call(ApiKey.END_TXN, 5, fields)
            if int(answer.error_code) not in _RETRY:
                break
        assert int(answer.error_code) == 0, answer
        assert self.transactional_id is not None
        while self._state() not in ("CompleteCommit", "CompleteAbort"):
            pass

    def _state(self) -> str:
        fields = {"transactional_ids": (self.transactional_id,)}
        return str(self.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, fields).transaction_states[0].transaction_state)
