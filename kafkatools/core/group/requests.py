"""Requests that a group membership sends to its coordinator, and the membership's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.config import CONSUMER
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

Fields = Mapping[str, object] | Callable[[int], Mapping[str, object]]


class GroupRequest(NamedTuple):
    """A request to a broker with callbacks: exactly one of `answered(entity, now_ms)` and `failed(error, now_ms)` is
    called. `fields` are the fields, or a function that returns them for an API version. `timeout_ms` None means
    request.timeout.ms. `is_background`: the heartbeat thread may process the response, since no application code runs
    in the callbacks."""

    api_key: int
    fields: Fields
    answered: Callable[[Entity, int], None]
    failed: Callable[[KafkaError, int], None]
    timeout_ms: int | None = None
    min_version: int = 0
    max_version: int | None = None
    is_background: bool = False


def ignore_outcome(*_: object) -> None:
    """Do nothing: both callbacks of a request whose outcome does not matter."""


class GroupSettings(NamedTuple):
    """The consumer settings of a group membership, named as in the configuration."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = CONSUMER.default_number("session.timeout.ms")
    heartbeat_interval_ms: int = CONSUMER.default_number("heartbeat.interval.ms")
    max_poll_interval_ms: int = CONSUMER.default_number("max.poll.interval.ms")
    request_timeout_ms: int = CONSUMER.default_number("request.timeout.ms")
    retry_backoff_ms: int = CONSUMER.default_number("retry.backoff.ms")
    retry_backoff_max_ms: int = CONSUMER.default_number("retry.backoff.max.ms")
    rack_id: str | None = None
    remote_assignor: str | None = None
