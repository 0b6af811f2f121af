"""The producer of a sink's task or driver."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from kafkatools.core.errors import InvalidTransactionTimeout, KafkaError
from kafkatools.core.producer.producer import Producer
from kafkatools.pipeline.errors import PipelineError

_CLOSE_AFTER_FAILURE_MS = 1000
_TIMEOUT_REFUSED = " Give kafka.transaction.timeout.ms, which is 900000 unless given."


@contextlib.contextmanager
def closing_producer(settings: Mapping[str, str]) -> Iterator[Producer]:
    """A producer that is closed whatever happens, soon after a failure; errors of Kafka become one line. Raises
    PipelineError."""
    producer: Producer | None = None
    try:
        producer = Producer(settings)
        yield producer
    except BaseException as error:
        if producer is not None:
            producer.close(_CLOSE_AFTER_FAILURE_MS)
        if isinstance(error, KafkaError):
            hint = _TIMEOUT_REFUSED if isinstance(error.__cause__, InvalidTransactionTimeout) else ""
            raise PipelineError(f"kt sink: {error.name}: {error}{hint}") from error
        raise
    producer.close()
