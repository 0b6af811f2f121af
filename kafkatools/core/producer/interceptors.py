"""ProducerInterceptors: the chain a record passes before it is serialized and when its fate is known.

Rule (Kafka's ProducerInterceptors): an exception in an interceptor is logged and never reaches the caller; the chain
goes on with the record that the last good interceptor gave.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from kafkatools.core.producer.futures import NO_OFFSET, NO_TIMESTAMP, RecordMetadata
from kafkatools.core.producer.producer_record import ProducerRecord

_log = logging.getLogger(__name__)


class ProducerInterceptor(Protocol):
    """What a caller may pass to Producer(interceptors=[...])."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord: ...

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None: ...

    def close(self) -> None: ...


class ProducerInterceptors:
    """The chain, in the order given."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor] = ()) -> None:
        self._interceptors = tuple(interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record after every interceptor that did not fail."""
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:  # noqa: BLE001 - somebody else's code; its failure must not lose the record
                _log.warning("Error executing interceptor on_send callback for topic: %s", record.topic, exc_info=True)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Called once per record, from the sender's thread."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:  # noqa: BLE001 - as above: the sender's thread must live on
                _log.warning("Error executing interceptor on_acknowledgement callback", exc_info=True)

    def on_send_error(self, record: ProducerRecord, partition: int, error: Exception) -> None:
        """For a record that never got into a batch: the interceptors hear of it with offset -1."""
        if self._interceptors:
            self.on_acknowledgement(RecordMetadata(record.topic, partition, NO_OFFSET, NO_TIMESTAMP, -1, -1), error)

    def close(self) -> None:
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:  # noqa: BLE001 - as above: the others still have to be closed
                _log.error("Failed to close producer interceptor", exc_info=True)
