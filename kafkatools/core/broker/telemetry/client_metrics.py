"""The subscriptions of clients to metrics, and the checks of what they push (KIP-714, Kafka's ClientMetricsManager).

Rules: a client without an id gets one. The client metrics resources whose `match` fits a client select its metrics, and
the least of their intervals counts. After a change of any of them the client is judged anew, and its next request is
taken at once. A client is forgotten when its connection is closed, after three intervals (at least a minute) without a
request, and as the least recently used of MAX_CLIENTS. Unlike Kafka's, metrics are decoded, and malformed ones refused.
"""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kafkatools.core.broker.metadata.image import CLIENT_METRICS_RESOURCE, MetadataImage
from kafkatools.core.broker.server.requests import Client, Request
from kafkatools.core.broker.telemetry.otlp import Attributes, Metric, decode_metrics
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.config.resources import CLIENT_METRICS
from kafkatools.core.errors import (
    InvalidRecord,
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from kafkatools.core.protocol.uuids import METADATA_TOPIC_ID, UUID_ZERO, random_uuid, uuid_text
from kafkatools.core.records.compression import decompress
from kafkatools.core.records.crc import crc32c

MAX_CLIENTS = 16_384
LEAST_EXPIRY_MS = 60_000
DEFAULT_INTERVAL_MS = 300_000
ALL = "*"
NO_COMPRESSION, GZIP, SNAPPY, LZ4, ZSTD = range(5)
ACCEPTED_COMPRESSION: Final = (ZSTD, LZ4, GZIP, SNAPPY)
MAX_EXPANSION = 20
"""A push may decompress to this multiple of telemetry.max.bytes."""
NEVER = -(10**12)
Key = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


@dataclass(slots=True, eq=False)
class ClientInstance:
    """One client and its subscription. `key` has the resources that it was computed from."""

    instance_id: uuid.UUID
    attributes: Mapping[str, str]
    key: Key
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int
    got_ms: int = NEVER
    pushed_ms: int = NEVER
    expires_ms: int = 0
    is_terminating: bool = False
    must_ask: bool = False

    def may_get(self, now_ms: int) -> bool:
        """Return whether the client may ask for its subscription again: once an interval, and after an error that asks
        for it."""
        if now_ms - max(self.got_ms, self.pushed_ms) >= self.interval_ms:
            self.got_ms = now_ms
            return True
        return self.must_ask

    def may_push(self, now_ms: int) -> bool:
        """Return whether the client may push, and if so note the time: once after it asked for the subscription, then
        once an interval."""
        if self.got_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


@dataclass(frozen=True, slots=True)
class Pushed:
    """The metrics of a push that was accepted."""

    instance_id: uuid.UUID
    is_terminating: bool
    resource: Attributes
    metrics: list[Metric]


class ClientMetrics:
    """The clients of one broker that push metrics."""

    def __init__(
        self, image: MetadataImage, clock: Clock, max_bytes: int, deliver: Callable[[Request, Pushed], None]
    ) -> None:
        """`deliver` gets the metrics of each push that has any."""
        self._image = image
        self._clock = clock
        self.max_bytes = max_bytes
        self._deliver = deliver
        self._clients: OrderedDict[uuid.UUID, ClientInstance] = OrderedDict()
        self._by_connection: dict[Client, uuid.UUID] = {}

    def subscribe(self, request: Request, requested_id: uuid.UUID | None) -> ClientInstance:
        """Return the subscription of a client, which gets an id if it has none. Raises ThrottlingQuotaExceeded before
        the end of the interval."""
        client = self._client(request, requested_id or random_uuid())
        if not client.may_get(self._clock.now_ms()):
            raise ThrottlingQuotaExceeded(_early(client))
        client.must_ask = False
        return client

    def push(
        self,
        request: Request,
        instance_id: uuid.UUID | None,
        subscription_id: int,
        compression: int,
        data: bytes,
        *,
        is_terminating: bool,
    ) -> None:
        """Check and deliver the metrics that a client pushed. Raises InvalidRequest, ThrottlingQuotaExceeded,
        UnknownSubscriptionId, UnsupportedCompressionType, TelemetryTooLarge, InvalidRecord."""
        if instance_id is None or instance_id in (UUID_ZERO, METADATA_TOPIC_ID):
            raise InvalidRequest("Invalid request from the client: invalid client instance id")
        client = self._client(request, instance_id)
        try:
            client.must_ask = False
            self._check(client, subscription_id, compression, len(data), is_terminating=is_terminating)
        except (UnknownSubscriptionId, UnsupportedCompressionType):
            client.must_ask = True
            raise
        finally:
            client.is_terminating = is_terminating
        if data:
            self._deliver(request, self._decoded(client, compression, data))

    def _check(
        self, client: ClientInstance, subscription_id: int, compression: int, size_bytes: int, *, is_terminating: bool
    ) -> None:
        name = uuid_text(client.instance_id)
        if client.is_terminating:
            raise InvalidRequest(f"Client {name} pushed its last metrics before, with terminating=true")
        if not client.may_push(self._clock.now_ms()) and not is_terminating:
            raise ThrottlingQuotaExceeded(_early(client))
        if subscription_id != client.subscription_id:
            raise UnknownSubscriptionId(f"Client {name} pushed for another subscription than its present one")
        if compression not in (NO_COMPRESSION, *ACCEPTED_COMPRESSION):
            raise UnsupportedCompressionType(f"Client {name} pushed with the unknown compression {compression}")
        if size_bytes > self.max_bytes:
            raise TelemetryTooLarge(f"Client {name} pushed more than telemetry.max.bytes ({self.max_bytes})")

    def _decoded(self, client: ClientInstance, compression: int, data: bytes) -> Pushed:
        try:
            plain = data
            if compression != NO_COMPRESSION:
                plain = decompress(compression, data, max_output_bytes=MAX_EXPANSION * self.max_bytes)
        except KafkaError as error:
            raise InvalidRecord(f"The pushed metrics cannot be decompressed: {error}") from None
        return Pushed(client.instance_id, client.is_terminating, *decode_metrics(plain))

    # -- clients ---------------------------------------------------------------------------------------------------
    def remove_expired(self) -> None:
        """Forget the clients without a request for three intervals."""
        now_ms = self._clock.now_ms()
        for instance_id in [key for key, client in self._clients.items() if client.expires_ms <= now_ms]:
            del self._clients[instance_id]

    def _client(self, request: Request, instance_id: uuid.UUID) -> ClientInstance:
        now_ms = self._clock.now_ms()
        key = self._key()
        client = self._clients.get(instance_id)
        if client is None or client.expires_ms <= now_ms:
            client = self._new_client(request, instance_id, _attributes(request, instance_id), key)
        elif client.key != key:
            client = self._new_client(request, instance_id, client.attributes, key)
        client.expires_ms = now_ms + max(LEAST_EXPIRY_MS, 3 * client.interval_ms)
        self._clients.move_to_end(instance_id)
        return client

    def _key(self) -> Key:
        return tuple(
            (name, tuple(values.items()))
            for (kind, name), values in self._image.configs.items()
            if kind == CLIENT_METRICS_RESOURCE
        )

    def _new_client(
        self, request: Request, instance_id: uuid.UUID, attributes: Mapping[str, str], key: Key
    ) -> ClientInstance:
        metrics: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        for _, values in key:
            config = Config(CLIENT_METRICS, dict(values))
            if _is_match(config["match"], attributes):
                metrics.update(config["metrics"])
                interval_ms = min(interval_ms, config["interval.ms"])
        selected = (ALL,) if ALL in metrics else tuple(sorted(metrics))
        number = crc32c(f"{selected}{interval_ms}{instance_id}".encode())
        subscription_id = number - (1 << 32) if number >= 1 << 31 else number
        client = ClientInstance(instance_id, attributes, key, subscription_id, selected, interval_ms)
        self._clients[instance_id] = client
        while len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        connection = request.connection
        self._by_connection[connection] = instance_id
        connection.call_when_closed(self, lambda: self._forget(connection))
        return client

    def _forget(self, connection: Client) -> None:
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._clients.pop(instance_id, None)


def _attributes(request: Request, instance_id: uuid.UUID) -> dict[str, str]:
    connection = request.connection
    name, version = connection.software
    return {
        "client_instance_id": uuid_text(instance_id),
        "client_id": request.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": connection.client_host,
        "client_source_port": str(connection.client_port),
    }


def _is_match(patterns: tuple[str, ...], attributes: Mapping[str, str]) -> bool:
    """Return whether a client fits all patterns `key=regex`; without any, every client does."""
    for pattern in patterns:
        key, _, expression = pattern.partition("=")
        if re.fullmatch(expression.strip(), attributes[key.strip()]) is None:
            return False
    return True


def _early(client: ClientInstance) -> str:
    return f"Client {uuid_text(client.instance_id)} sent a request before the end of its push interval"
