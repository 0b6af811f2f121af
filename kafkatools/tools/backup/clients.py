"""The settings of the clients that read for a backup and write for a restore."""

from __future__ import annotations

from kafkatools.core.clock import Clock
from kafkatools.core.config import CONSUMER, PRODUCER
from kafkatools.core.consumer.batch_reader import BatchReader
from kafkatools.core.producer.batch_producer import BatchProducer
from kafkatools.tools.copying.client_cluster import ClientCluster

_PARTITION_BYTES = 4 << 20
_FETCH_BYTES = 16 << 20
_LARGEST_REQUEST_BYTES = 1 << 27
_DELIVERY_MS = 300_000


def batch_reader(cluster: ClientCluster, clock: Clock) -> BatchReader:
    """Return a reader of large pieces of many partitions."""
    settings = cluster.client(
        CONSUMER,
        receive_buffer_bytes="-1",
        fetch_max_wait_ms="50",
        max_partition_fetch_bytes=_PARTITION_BYTES,
        fetch_max_bytes=_FETCH_BYTES,
    )
    return BatchReader(settings, clock)


def batch_producer(cluster: ClientCluster, clock: Clock) -> BatchProducer:
    """Return an idempotent producer of encoded batches."""
    settings = cluster.client(
        PRODUCER,
        acks="all",
        enable_idempotence="true",
        linger_ms=0,
        max_request_size=_LARGEST_REQUEST_BYTES,
        delivery_timeout_ms=_DELIVERY_MS,
    )
    settings.pop("transactional.id", None)
    return BatchProducer(settings, clock)
