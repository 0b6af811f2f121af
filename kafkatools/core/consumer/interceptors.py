"""Consumer interceptors (KIP-42): called with the records of each poll and with committed offsets (Kafka's
ConsumerInterceptors).

Rules: interceptors run in list order on the polling thread. An exception is logged and does not reach the caller; the
next interceptor receives the result of the last one that succeeded. Interceptors are Python objects; Java classes
cannot be loaded. `poll_columns` bypasses them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from kafkatools.core.client_log import ClientLog
from kafkatools.core.config import Config
from kafkatools.core.consumer.consumer_records import ConsumerRecords
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import ConfigError
from kafkatools.core.group.metadata import OffsetAndMetadata

_log = logging.getLogger(__name__)


class ConsumerInterceptor(Protocol):
    """The interface of the objects in Consumer(interceptors=[...])."""

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """Return the records that the poll hands to the caller. Dropping records does not change positions."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called after these offsets were committed."""

    def close(self) -> None:
        """Called when the consumer is closed."""


class ConsumerInterceptors:
    """A consumer's interceptors, called in list order."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor] = (), log: ClientLog | None = None) -> None:
        self._log = log or ClientLog(_log, "")
        self._interceptors = tuple(interceptors)

    @classmethod
    def of(cls, config: Config, interceptors: Sequence[ConsumerInterceptor]) -> ConsumerInterceptors:
        """Build the chain for a consumer. Raises ConfigError when interceptor.classes is set."""
        if config.interceptor_classes:
            names = ", ".join(config.interceptor_classes)
            raise ConfigError(f"interceptor.classes={names}: Java classes cannot be loaded; pass objects to Consumer")
        return cls(interceptors, ClientLog.of(_log, config))

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """Pass records through all interceptors, skipping those that raise, and return the result."""
        for interceptor in self._interceptors:
            try:
                records = interceptor.on_consume(records)
            except Exception:  # noqa: BLE001 - an interceptor's failure must not lose the records
                self._log.warning("Error executing interceptor onConsume callback", exc_info=True)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Pass committed offsets to all interceptors, once for each successful commit."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:  # noqa: BLE001 - the commit has succeeded, also if an interceptor fails
                self._log.warning("Error executing interceptor onCommit callback", exc_info=True)

    def close(self) -> None:
        """Close all interceptors, logging their errors."""
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:  # noqa: BLE001 - the others have to be closed too
                self._log.exception("Failed to close consumer interceptor")
