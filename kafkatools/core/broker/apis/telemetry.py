"""Handlers of client metrics (KIP-714): GetTelemetrySubscriptions, PushTelemetry. They are served if the node has a
file for the metrics (client.metrics.file)."""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import TelemetryContext
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.broker.telemetry.client_metrics import ACCEPTED_COMPRESSION


def handle_get_telemetry_subscriptions(node: TelemetryContext, request: Request) -> Response:
    """Answer GetTelemetrySubscriptions: the metrics that a client is to push, and how often. Everybody may ask. Raises
    ThrottlingQuotaExceeded."""
    metrics = node.client_metrics
    client = metrics.subscribe(request, request.decode().client_instance_id)
    return request.respond(
        {
            "client_instance_id": client.instance_id,
            "subscription_id": client.subscription_id,
            "accepted_compression_types": list(ACCEPTED_COMPRESSION),
            "push_interval": client.interval_ms,
            "telemetry_max_bytes": metrics.max_bytes,
            "delta_temporality": True,
            "requested_metrics": list(client.metrics),
        }
    )


def handle_push_telemetry(node: TelemetryContext, request: Request) -> Response:
    """Answer PushTelemetry: write the metrics to client.metrics.file. Raises the errors of `ClientMetrics.push`."""
    entity = request.decode()
    node.client_metrics.push(
        request,
        entity.client_instance_id,
        entity.subscription_id,
        entity.compression_type,
        bytes(entity.metrics or b""),
        is_terminating=entity.terminating,
    )
    return request.respond({})
