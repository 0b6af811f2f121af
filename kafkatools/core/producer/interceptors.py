"""ProducerInterceptors: the chain of interceptors that see a record before serialization and at its acknowledgement or
failure.

Rule (Kafka's ProducerInterceptors): an exception of an interceptor is logged and does not reach the caller; the chain
continues with the record of the last interceptor that succeeded.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Protocol

from kafkatools.core.client_log import ClientLog
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError
from kafkatools.core.producer.futures import NO_OFFSET, NO_TIMESTAMP, RecordMetadata
from kafkatools.core.producer.producer_record import ProducerRecord

_log = logging.getLogger(__name__)


class ProducerInterceptor(Protocol):
    """The interface of the objects in `Producer(interceptors=[...])` (Kafka's ProducerInterceptor)."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send, before its serialization: this one or another."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Called when a record is acknowledged or failed; `error` is None for success. The caller of `send` runs it for
        a record that failed before it reached a batch, the sender's thread for the others."""

    def close(self) -> None:
        """Called once, by the first `Producer.close` that does not wait any more."""


class ProducerInterceptors:
    """A chain of interceptors, called in order."""

    def __init__(self, interceptors: Sequence[ProducerInterceptor] = (), log: ClientLog | None = None) -> None:
        self._log = log or ClientLog(_log, "")
        self._interceptors = tuple(interceptors)
        self._lock = threading.Lock()
        self._is_closed = False

    @classmethod
    def of(cls, config: Config, interceptors: Sequence[ProducerInterceptor]) -> ProducerInterceptors:
        """Build the chain for a producer. Raises ConfigError when interceptor.classes is set."""
        if config.interceptor_classes:
            names = ", ".join(config.interceptor_classes)
            raise ConfigError(f"interceptor.classes={names}: Java classes cannot be loaded; pass objects to Producer")
        return cls(interceptors, ClientLog.of(_log, config))

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record through all interceptors and return the result. An exception is logged and leaves the record
        unchanged."""
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:  # noqa: BLE001 - an interceptor's failure must not lose the record
                self._log.warning(
                    "Error executing interceptor on_send callback for topic: %s", record.topic, exc_info=True
                )
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        """Report the acknowledgement or error of a record to all interceptors; an exception is only logged."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_acknowledgement(metadata, error)
            except Exception:  # noqa: BLE001 - an interceptor's failure must not end the sender's thread
                self._log.warning("Error executing interceptor on_acknowledgement callback", exc_info=True)

    def on_send_error(self, record: ProducerRecord, partition: int, error: Exception) -> None:
        """Report a record that failed before it was appended to a batch; its offset is -1."""
        if self._interceptors:
            self.on_acknowledgement(RecordMetadata(record.topic, partition, NO_OFFSET, NO_TIMESTAMP, -1, -1), error)

    def close(self) -> None:
        """Close all interceptors of the producer at the first call; an exception is only logged."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:  # noqa: BLE001 - the remaining interceptors must be closed too
                self._log.error("Failed to close producer interceptor", exc_info=True)
