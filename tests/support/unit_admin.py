"""The admin client against scripted brokers."""

from __future__ import annotations

from typing import Any

from support.scripted_broker import ScriptedBroker

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import Clock, SystemClock

_FAST = {
    "retry.backoff.ms": "1",
    "retry.backoff.max.ms": "2",
    "reconnect.backoff.ms": "1",
    "reconnect.backoff.max.ms": "2",
}


def fast_admin(broker: ScriptedBroker, clock: Clock | None = None, **settings: str) -> AdminClient:
    """A client that tries again at once."""
    given = {**_FAST, **{name.replace("_", "."): value for name, value in settings.items()}}
    return AdminClient(broker.bootstrap, given, clock or SystemClock())


def coordinator_of_all(header: Any, request: Any) -> dict[str, Any]:
    """Node 1 coordinates every key."""
    if header.api_version < 4:
        return {"error_code": 0, "node_id": 1, "host": "127.0.0.1", "port": 1}
    return {"coordinators": [coordinator(key, 1) for key in request.coordinator_keys]}


def coordinator(key: str, node: int, error_code: int = 0) -> dict[str, Any]:
    """One entry of a FindCoordinator response."""
    return {"key": key, "node_id": node, "host": "127.0.0.1", "port": 1, "error_code": error_code}
