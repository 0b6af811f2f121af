"""Registers this controller's listeners and features with the active controller (Kafka's ControllerRegistrationManager,
KIP-919). The request is repeated until the registration is in the metadata."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkatools.core.broker.metadata.feature_levels import METADATA_LEVELS, METADATA_VERSION
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.server.channels import ControllerChannel
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.uuids import random_uuid

REGISTERED_SINCE = METADATA_LEVELS["3.7-IV0"]
RETRY_MS = 1000


@dataclass(eq=False, repr=False)
class ControllerRegistration:
    """Sends ControllerRegistration while the metadata lacks this incarnation of the controller."""

    node_id: int
    image: MetadataImage
    link: ControllerChannel
    listeners: Sequence[Fields]
    features: Callable[[], Sequence[Fields]]
    incarnation_id: uuid.UUID = field(default_factory=random_uuid, init=False)
    _is_in_flight: bool = field(default=False, init=False)
    _next_ms: int = field(default=0, init=False)

    @property
    def _is_needed(self) -> bool:
        if self._is_in_flight or self.image.features.get(METADATA_VERSION, 0) < REGISTERED_SINCE:
            return False
        registration = self.image.controllers.get(self.node_id)
        return registration is None or registration.incarnation_id != self.incarnation_id

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms of the next request. None while this incarnation is registered, a request is under way, or the
        metadata version is below 3.7-IV0."""
        return self._next_ms if self._is_needed else None

    def tick(self, now_ms: int) -> None:
        """Send the registration when it is due."""
        if now_ms < self._next_ms or not self._is_needed:
            return
        self._is_in_flight = True
        self._next_ms = now_ms + RETRY_MS
        fields = {
            "controller_id": self.node_id,
            "incarnation_id": self.incarnation_id,
            "zk_migration_ready": False,
            "listeners": list(self.listeners),
            "features": list(self.features()),
        }
        self.link.send(ApiKey.CONTROLLER_REGISTRATION, fields, self._handle_response)

    def _handle_response(self, response: Any | None) -> None:
        self._is_in_flight = False
