"""Find the broker that coordinates a group, transactional id or share group: FindCoordinator v0 to v6, without I/O.

Rules: the caller sends `request_fields` to any node when `should_send` is true, calls `note_sent`, and passes the
response back. One request is in flight at a time; after a failure the next one waits for the back-off.
`handle_response` and `handle_failure` return fatal errors. `mark_unknown` drops a coordinator that reports
NOT_COORDINATOR or whose connection is lost. Sources: FindCoordinatorResponseHandler of AbstractCoordinator,
TransactionManager.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from kafkatools.core.errors import NONE, KafkaError, RetriableError, UnsupportedVersion, error_for_code
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import Node
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

FIRST_VERSION_WITH_KINDS = 1
FIRST_VERSION_WITH_BATCHES = 4
REPORTED_REFUSALS = 3


@enum.unique
class CoordinatorKind(enum.IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class CoordinatorLookup:
    """Looks up and caches the coordinator of one group, transactional id or share group."""

    API_KEY = ApiKey.FIND_COORDINATOR

    def __init__(self, kind: CoordinatorKind, key: str, backoff: ExponentialBackoff | None = None) -> None:
        self.kind = kind
        self.key = key
        self._backoff = backoff or ExponentialBackoff(100, 1000)
        self._attempts = 0
        self._retry_ms = 0
        self._is_in_flight = False
        self.endpoint: Node | None = None
        self._error: KafkaError | None = None
        self._refusals = 0

    @property
    def problem(self) -> KafkaError | None:
        """The last error response, while no coordinator is known or after three refusals without a success; else
        None."""
        return None if self.endpoint is not None and self._refusals < REPORTED_REFUSALS else self._error

    @property
    def node(self) -> int | None:
        """The coordinator's broker id, None while unknown."""
        return None if self.endpoint is None else self.endpoint.id

    @property
    def is_known(self) -> bool:
        """Return whether the coordinator is known."""
        return self.endpoint is not None

    def should_send(self, now_ms: int) -> bool:
        """Return whether to send FindCoordinator now: coordinator unknown, no request in flight, back-off over."""
        return self.endpoint is None and not self._is_in_flight and now_ms >= self._retry_ms

    def delay_ms(self, now_ms: int) -> int:
        """Return the remaining back-off in ms."""
        return max(0, self._retry_ms - now_ms)

    def request_fields(self, version: int) -> dict[str, object]:
        """Return the fields of FindCoordinator. Raises UnsupportedVersion in version 0 unless the key is a group."""
        if version >= FIRST_VERSION_WITH_BATCHES:
            return {"key_type": int(self.kind), "coordinator_keys": [self.key]}
        if version >= FIRST_VERSION_WITH_KINDS:
            return {"key": self.key, "key_type": int(self.kind)}
        if self.kind is not CoordinatorKind.GROUP:
            raise UnsupportedVersion("The broker is too old to find transaction coordinators (FindCoordinator v0)")
        return {"key": self.key}

    def note_sent(self) -> None:
        """Record that a FindCoordinator request is in flight."""
        self._is_in_flight = True

    def handle_response(self, entity: Entity, now_ms: int) -> KafkaError | None:
        """Store the coordinator from a FindCoordinator response. After an error response, back off and return the error
        if it is fatal, None if it is retriable. Also back off and return None if the response lacks the key."""
        self._is_in_flight = False
        coordinators = getattr(entity, "coordinators", None)
        coordinator = (
            entity if coordinators is None else next((entry for entry in coordinators if entry.key == self.key), None)
        )
        if coordinator is None:
            self._fail(now_ms)
            return None
        code = int(coordinator.error_code)
        if code == NONE:
            self.endpoint = Node(int(coordinator.node_id), coordinator.host, int(coordinator.port))
            self._attempts, self._retry_ms = 0, 0
            return None
        self._fail(now_ms)
        error = self._error = error_for_code(code)(getattr(coordinator, "error_message", None) or None)
        return None if isinstance(error, RetriableError) else error

    def handle_failure(self, error: KafkaError, now_ms: int) -> KafkaError | None:
        """Back off after a request without a response; return the error if it is UnsupportedVersion, else None."""
        self._is_in_flight = False
        self._fail(now_ms)
        return error if isinstance(error, UnsupportedVersion) else None

    def _fail(self, now_ms: int) -> None:
        self._retry_ms = now_ms + self._backoff.backoff_ms(self._attempts)
        self._attempts += 1

    def mark_unknown(self, refusal: KafkaError | None = None) -> None:
        """Forget the coordinator, to look it up again. `refusal` is its error response, which counts as a refusal for
        `problem`."""
        self.endpoint = None
        if refusal is not None:
            self._error = refusal
            self._refusals += 1

    def note_success(self) -> None:
        """Reset the count of refusals after a successful response of the coordinator."""
        self._refusals, self._error = 0, None
