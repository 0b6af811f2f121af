"""Build the parts of a producer from its settings: metadata, network client, memory, accumulator, sender.

Settings that depend on each other are checked as in Kafka's ProducerConfig (KIP-679): acks and retries that contradict
explicit idempotence are an error and disable the default one with a log line; more than five requests in flight are an
error unless enable.idempotence is false.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.core.client_log import ClientLog, log_prefix
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import ConfigError
from kafkatools.core.metrics.network import NetworkMetrics
from kafkatools.core.metrics.producer import GROUP, ProducerMetrics
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import Stats, counts, total
from kafkatools.core.net.addresses import Resolver
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.net.telemetry import TelemetrySender
from kafkatools.core.producer.buffer_pool import BufferPool
from kafkatools.core.producer.producer_metadata import ProducerMetadata
from kafkatools.core.producer.record_accumulator import AccumulatorSettings, RecordAccumulator
from kafkatools.core.producer.sender import Sender, SenderSettings
from kafkatools.core.producer.transaction_manager import TransactionManager
from kafkatools.core.records.compression import CompressionType

_log = logging.getLogger(__name__)

MAX_IDEMPOTENT_IN_FLIGHT = 5
NS_PER_SECOND = 1_000_000_000


class ProducerParts(NamedTuple):
    """The metadata, accumulator and sender of a Producer."""

    metadata: ProducerMetadata
    accumulator: RecordAccumulator
    sender: Sender


def acks_of(config: Config) -> int:
    """The setting acks as a number: -1 for all."""
    return -1 if config.acks == "all" else int(config.acks)


def is_idempotent(config: Config) -> bool:
    """Return whether enable.idempotence is true and retries and acks allow it. If they do not, logs that and returns
    False; raises ConfigError when enable.idempotence was set explicitly, or for too many requests in flight."""
    if not config.enable_idempotence:
        return False
    in_flight = config.max_in_flight_requests_per_connection
    if in_flight > MAX_IDEMPOTENT_IN_FLIGHT:
        raise ConfigError(
            "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most "
            f"{MAX_IDEMPOTENT_IN_FLIGHT}. Current value is {in_flight}."
        )
    problems: dict[str, str] = {}
    if config.retries == 0:
        problems["retries"] = "Must set retries to non-zero when using the idempotent producer."
    if acks_of(config) != -1:
        problems["acks"] = (
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence."
        )
    if problems and config.is_explicit("enable.idempotence"):
        raise ConfigError(next(iter(problems.values())))
    for name in problems:
        ClientLog.of(_log, config).info("Idempotence will be disabled because %s is set to %s.", name, config[name])
    return not problems


def transactions_of(config: Config) -> TransactionManager | None:
    """The manager of a transactional or idempotent producer; None for any other. Raises ConfigError for a
    transactional.id without idempotence, and for a time-out of transactions with two-phase commit."""
    is_numbered = is_idempotent(config)
    if config.transactional_id is None:
        return TransactionManager(log_prefix(config)) if is_numbered else None
    if not is_numbered:
        raise ConfigError("Cannot set a transactional.id without also enabling idempotence.")
    is_two_phase: bool = config.transaction_two_phase_commit_enable
    if is_two_phase and config.is_explicit("transaction.timeout.ms"):
        raise ConfigError(
            "Cannot set transaction.timeout.ms when transaction.two.phase.commit.enable is set to true. Transactions "
            "will not expire with two-phase commit enabled."
        )
    from kafkatools.core.producer.transactions import TransactionalManager

    return TransactionalManager(
        config.transactional_id,
        config.transaction_timeout_ms,
        config.retry_backoff_ms,
        ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
        is_two_phase=is_two_phase,
        log_prefix=log_prefix(config),
    )


def delivery_timeout_ms(config: Config) -> int:
    """The setting delivery.timeout.ms in ms. A shorter default is raised to linger.ms + request.timeout.ms, with a
    warning. Raises ConfigError for a shorter explicit value."""
    least: int = min(0x7FFFFFFF, config.linger_ms + config.request_timeout_ms)
    configured: int = config.delivery_timeout_ms
    if configured >= least:
        return configured
    if config.is_explicit("delivery.timeout.ms"):
        raise ConfigError("delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms")
    ClientLog.of(_log, config).warning(
        "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms. Setting it to %d.", least
    )
    return least


def compression_level(config: Config, codec: CompressionType) -> int | None:
    """The configured level of a codec; None for codecs without levels."""
    if codec in (CompressionType.NONE, CompressionType.SNAPPY):
        return None
    level: int = config[f"compression.{codec.label}.level"]
    return level


def assemble(
    config: Config,
    clock: Clock,
    resolver: Resolver | None = None,
    collect: Callable[[int], int | None] = lambda now_ms: None,
) -> ProducerParts:
    """Build the parts of a producer, without a connection; `resolver` as in NetworkClient, `collect` as in Sender.
    Raises ConfigError, and KeyStoreUnreadable for unreadable TLS files."""
    codec = CompressionType.for_label(config.compression_type)
    timeout_ms = delivery_timeout_ms(config)
    transactions = transactions_of(config)
    backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
    settings = AccumulatorSettings(
        config.batch_size,
        min(config.linger_ms, 0x7FFFFFFF),
        timeout_ms,
        codec,
        compression_level(config, codec),
        backoff.backoff_ms,
        config.partitioner_adaptive_partitioning_enable,
        config.partitioner_availability_timeout_ms,
    )
    registry = MetricsRegistry.of(config, clock)
    pool = BufferPool(config.buffer_memory, config.batch_size, clock, registry.window)
    accumulator = RecordAccumulator(settings, pool, clock, transactions)
    metadata = ProducerMetadata(config, clock)
    client = NetworkClient(
        config, clock, metadata, config.client_id, resolver=resolver, metrics=NetworkMetrics(registry, "producer")
    )
    if config.enable_metrics_push:
        client.telemetry = TelemetrySender(client, config, registry, clock)
    metrics = ProducerMetrics(registry)
    _add_gauges(metrics, pool, client)
    sender_settings = SenderSettings(
        acks_of(config),
        config.retries,
        config.max_request_size,
        config.request_timeout_ms,
        timeout_ms,
        config.retry_backoff_ms,
        config.max_in_flight_requests_per_connection == 1,
        log_prefix(config),
        config.max_in_flight_requests_per_connection,
    )
    sender = Sender(sender_settings, client, metadata, accumulator, clock, transactions, metrics, collect)
    return ProducerParts(metadata, accumulator, sender)


def _add_gauges(metrics: ProducerMetrics, pool: BufferPool, client: NetworkClient) -> None:
    """Add the metrics that are read from the producer's memory and connections."""
    metrics.gauge("buffer-total-bytes", lambda now_ms: pool.total_bytes)
    metrics.gauge("buffer-available-bytes", lambda now_ms: pool.available_bytes)
    metrics.gauge("waiting-threads", lambda now_ms: pool.queued)
    metrics.gauge("requests-in-flight", lambda now_ms: client.in_flight_count())
    metrics.gauge("metadata-age", lambda now_ms: client.metadata.age_ms(now_ms) / 1000)
    metrics.registry.add(GROUP, counts("buffer-exhausted"), pool.exhaustions)
    waits: Stats = {
        "bufferpool-wait-time-ns-total": total,
        "bufferpool-wait-ratio": lambda sensor, now_ms: sensor.rate(now_ms) / NS_PER_SECOND,
    }
    metrics.registry.add(GROUP, waits, pool.waits_ns)
