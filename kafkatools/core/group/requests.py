"""Requests that a group membership sends to its coordinator, and the base of the memberships of both protocols."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.client_log import ClientLog
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.coordinator import CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.net.connection_states import ExponentialBackoff

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


class GroupMember:
    """The parts that memberships of both protocols have: settings, coordinator, timers, and the fatal error."""

    def __init__(self, settings: Config, lookup: CoordinatorLookup, heartbeat: Heartbeat) -> None:
        self.settings = settings
        self._log = ClientLog.of(logging.getLogger(type(self).__module__), settings)
        self.group_id: str = settings.group_id
        self.lookup = lookup
        self.heartbeat = heartbeat
        self.failure: KafkaError | None = None
        self._backoff = ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        heartbeat.use_backoff(self._backoff)

    @property
    def has_ended(self) -> bool:
        """Return whether a fatal error has ended the membership, which only leaving and a new subscription begins
        again."""
        return False

    def failure_to_raise(self) -> KafkaError | None:
        """Return the error that the next poll raises, or None. One that has ended the membership is returned by every
        call: a member that reads on, or waits for ever, would not be noticed. Any other is returned once."""
        failure = self.failure
        if not self.has_ended:
            self.failure = None
        return failure

    def warn_of_missed_polls(self) -> None:
        """Log that the application did not poll in time, so that the member leaves its group."""
        self._log.warning(
            "The consumer of %s did not poll for max.poll.interval.ms and leaves its group", self.group_id
        )
