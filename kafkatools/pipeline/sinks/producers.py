"""The Kafka producer of a sink's task or driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from kafkatools.core.errors import InvalidTransactionTimeout, KafkaError
from kafkatools.core.producer.producer import Producer
from kafkatools.pipeline.errors import PipelineError, unreachable_brokers_hint

_CLOSE_AFTER_FAILURE_MS = 1000
_TIMEOUT_REFUSED = " Set kafka.transaction.timeout.ms to at most the broker's limit; the default is 900000."


@contextlib.contextmanager
def closing_producer(settings: Mapping[str, str]) -> Iterator[Producer]:
    """Open a producer and close it at the end of the block; after an exception wait at most one second for its close.
    Raises PipelineError in place of a KafkaError from the block or from the producer's start."""
    producer: Producer | None = None
    try:
        producer = Producer(settings)
        yield producer
    except BaseException as error:
        if producer is not None:
            producer.close(_CLOSE_AFTER_FAILURE_MS)
        if isinstance(error, KafkaError):
            hint = _TIMEOUT_REFUSED if isinstance(error.__cause__, InvalidTransactionTimeout) else ""
            raise PipelineError(
                f"kt sink: {error.name}: {error}{hint}{unreachable_brokers_hint(error, settings)}"
            ) from error
        raise
    producer.close()
