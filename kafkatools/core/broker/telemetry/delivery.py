"""Make the receiver of a node's client metrics: a line of client.metrics.file for each push."""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.server.requests import Request
from kafkatools.core.broker.telemetry.client_metrics import ClientMetrics, Pushed
from kafkatools.core.broker.telemetry.metrics_file import Push, append_push
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import InvalidRecord, KafkaStorageError
from kafkatools.core.protocol.uuids import uuid_text


def client_metrics_of(
    config: Config, image: MetadataImage, clock: Clock, failed: Callable[[Exception], None]
) -> ClientMetrics:
    """Return the client metrics of a node. If the file cannot be written, `failed` gets the error and the client
    INVALID_RECORD, as of a plugin of Kafka."""
    path: str = config["client.metrics.file"]

    def deliver(request: Request, pushed: Pushed) -> None:
        try:
            append_push(path, _line(request, pushed, clock))
        except OSError as error:
            failed(KafkaStorageError(f"Cannot write client.metrics.file {path}: {error.strerror}"))
            raise InvalidRecord("The broker cannot store the metrics") from None

    return ClientMetrics(image, clock, config["telemetry.max.bytes"], deliver)


def _line(request: Request, pushed: Pushed, clock: Clock) -> Push:
    connection = request.connection
    return {
        "time_ms": clock.wall_ms(),
        "client_instance_id": uuid_text(pushed.instance_id),
        "client_id": request.client_id or "",
        "software": " ".join(connection.software).strip(),
        "principal": request.principal,
        "address": f"{connection.client_host}:{connection.client_port}",
        "terminating": pushed.is_terminating,
        "resource": pushed.resource,
        "metrics": pushed.metrics,
    }
