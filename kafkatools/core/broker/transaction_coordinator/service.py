"""The transaction coordinator of a node: wired to its topic, timers and settings; and how handlers answer from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.requests import DELAYED, Request, Response
from kafkatools.core.broker.transaction_coordinator.coordinator import (
    Surroundings,
    TransactionCoordinator,
    TransactionSettings,
)
from kafkatools.core.broker.transaction_coordinator.durability import Durability
from kafkatools.core.broker.transaction_coordinator.markers import MarkerWriter
from kafkatools.core.broker.transaction_coordinator.transaction_log import TransactionLog

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

TRANSACTION_VERSION = "transaction.version"


def open_transactions(node: Node) -> TransactionCoordinator:
    """The coordinator with every transaction of before; those whose end was decided are completed."""
    config = node.config
    log = TransactionLog(node)
    around = Surroundings(
        log,
        MarkerWriter(node),
        Durability(node),
        node.timer,
        node.clock,
        node.producer_ids.next_id,
        lambda: node.image.features.get(TRANSACTION_VERSION, 0),
    )
    settings = TransactionSettings(
        config.transaction_max_timeout_ms,
        config.transactional_id_expiration_ms,
        config.add_partitions_to_txn_retry_backoff_max_ms,
    )
    transactions = TransactionCoordinator(settings, around)
    transactions.load(log.read_back())
    return transactions


class LaterResponse:
    """The response of one request: given while its handler runs, or later."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._response: Response | None = None
        self._is_delayed = False

    def give(self, response: Response) -> None:
        """This is the response."""
        if self._is_delayed:
            self._request.complete(response)
        else:
            self._response = response

    def respond(self, fields: dict[str, Any]) -> None:
        """These are the response's fields."""
        self.give(self._request.respond(fields))

    def returned(self) -> Response:
        """What the handler returns."""
        if self._response is not None:
            return self._response
        self._is_delayed = True
        return DELAYED


def answered(request: Request, ask: Callable[[Callable[[dict[str, Any]], None]], None]) -> Response:
    """Let the coordinator decide and return its answer, or DELAYED."""
    response = LaterResponse(request)
    ask(response.respond)
    return response.returned()
