"""Consumer interceptors: they see what a poll returns and what was committed (Kafka's ConsumerInterceptors, KIP-42).

Rules: they are called in the order given, on the thread that polls. An exception is logged and never reaches the
caller; the next interceptor gets what the last good one gave. They are Python objects: Java classes cannot be loaded.
`poll_columns` goes past them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from kafkatools.core.config import Config
from kafkatools.core.consumer.consumer_records import ConsumerRecords
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import ConfigError
from kafkatools.core.group.metadata import OffsetAndMetadata

_log = logging.getLogger(__name__)


class ConsumerInterceptor(Protocol):
    """What may be passed to Consumer(interceptors=[...])."""

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """Sees the records of a poll, and returns those the caller is to get. Positions do not change with it."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets were committed."""

    def close(self) -> None:
        """The consumer is closed."""


class ConsumerInterceptors:
    """The chain, in the order given."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor] = ()) -> None:
        self._interceptors = tuple(interceptors)

    @classmethod
    def of(cls, config: Config, interceptors: Sequence[ConsumerInterceptor]) -> ConsumerInterceptors:
        """The chain of a consumer. Raises ConfigError for interceptor.classes."""
        if config.interceptor_classes:
            names = ", ".join(config.interceptor_classes)
            raise ConfigError(f"interceptor.classes={names}: Java classes cannot be loaded; pass objects to Consumer")
        return cls(interceptors)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """The records after every interceptor that did not fail."""
        for interceptor in self._interceptors:
            try:
                records = interceptor.on_consume(records)
            except Exception:  # noqa: BLE001 - somebody else's code; its failure must not lose the records
                _log.warning("Error executing interceptor onConsume callback", exc_info=True)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called once for each commit that worked."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:  # noqa: BLE001 - as above: the commit is done whatever they think of it
                _log.warning("Error executing interceptor onCommit callback", exc_info=True)

    def close(self) -> None:
        """Closes them all."""
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:  # noqa: BLE001 - the others have to be closed too
                _log.exception("Failed to close consumer interceptor")
