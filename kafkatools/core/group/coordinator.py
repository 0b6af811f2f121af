"""Which broker coordinates a group, a transaction or a share group: FindCoordinator v0 to v6, without I/O.

Rules: asks nobody itself; the owner sends `request_fields` to any node when `should_ask` says so and brings the answer
back. One question at a time; after a failure the next one waits for the back-off. An error that another try cannot cure
is returned to the owner once. A coordinator is forgotten with `mark_unknown` as soon as it says that it is none, or its
connection is lost. `problem` is for those who wait: why there is none, or why the one that is found again and again
does nothing. Source: FindCoordinatorResponseHandler of AbstractCoordinator, TransactionManager likewise.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from kafkatools.core.errors import (
    NONE,
    KafkaError,
    RetriableError,
    UnsupportedVersion,
    error_for_code,
)
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import Node
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

FIRST_VERSION_WITH_KINDS = 1
FIRST_VERSION_WITH_BATCHES = 4
REFUSALS_TO_TELL = 3


class CoordinatorKind(enum.IntEnum):
    """What is coordinated: the key type of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class CoordinatorLookup:
    """Finds the coordinator of one key, and remembers it."""

    API_KEY = ApiKey.FIND_COORDINATOR

    def __init__(self, kind: CoordinatorKind, key: str, backoff: ExponentialBackoff | None = None) -> None:
        self.kind = kind
        self.key = key
        self._backoff = backoff or ExponentialBackoff(100, 1000)
        self._attempts = 0
        self._retry_ms = 0
        self._is_asking = False
        self.endpoint: Node | None = None
        self._error: KafkaError | None = None
        self._refusals = 0

    @property
    def problem(self) -> KafkaError | None:
        """Why there is no coordinator, or why it refuses what it is asked; None when there is nothing to tell."""
        return None if self.endpoint is not None and self._refusals < REFUSALS_TO_TELL else self._error

    @property
    def node(self) -> int | None:
        """The broker's id; None while it is not known."""
        return None if self.endpoint is None else self.endpoint.id

    @property
    def is_known(self) -> bool:
        """Whether there is somebody to ask."""
        return self.endpoint is not None

    def should_ask(self, now_ms: int) -> bool:
        """Whether to send a request now."""
        return self.endpoint is None and not self._is_asking and now_ms >= self._retry_ms

    def delay_ms(self, now_ms: int) -> int:
        """How long until the next request may go."""
        return max(0, self._retry_ms - now_ms)

    def request_fields(self, version: int) -> dict[str, object]:
        """The fields of the request. Raises UnsupportedVersion where the version knows groups only."""
        if version >= FIRST_VERSION_WITH_BATCHES:
            return {"key_type": int(self.kind), "coordinator_keys": [self.key]}
        if version >= FIRST_VERSION_WITH_KINDS:
            return {"key": self.key, "key_type": int(self.kind)}
        if self.kind is not CoordinatorKind.GROUP:
            raise UnsupportedVersion("The broker cannot tell the coordinator of a transaction (FindCoordinator v0)")
        return {"key": self.key}

    def asked(self) -> None:
        """The request is on its way."""
        self._is_asking = True

    def handle_response(self, entity: Entity, now_ms: int) -> KafkaError | None:
        """Takes an answer in; an error that no other try cures, else None."""
        self._is_asking = False
        answers = getattr(entity, "coordinators", None)
        found = entity if answers is None else next((each for each in answers if each.key == self.key), None)
        if found is None:
            self._fail(now_ms)
            return None
        code = int(found.error_code)
        if code == NONE:
            self.endpoint = Node(int(found.node_id), found.host, int(found.port))
            self._attempts, self._retry_ms = 0, 0
            return None
        self._fail(now_ms)
        error = self._error = error_for_code(code)(getattr(found, "error_message", None) or None)
        return None if isinstance(error, RetriableError) else error

    def handle_failure(self, error: KafkaError, now_ms: int) -> KafkaError | None:
        """No answer came; the error when another try would bring the same."""
        self._is_asking = False
        self._fail(now_ms)
        return error if isinstance(error, UnsupportedVersion) else None

    def _fail(self, now_ms: int) -> None:
        self._retry_ms = now_ms + self._backoff.backoff_ms(self._attempts)
        self._attempts += 1

    def mark_unknown(self, refusal: KafkaError | None = None) -> None:
        """It is not the coordinator any more, or cannot be reached: to be looked up again."""
        self.endpoint = None
        if refusal is not None:
            self._error = refusal
            self._refusals += 1

    def accepted(self) -> None:
        """The coordinator did what it was asked."""
        self._refusals, self._error = 0, None
