"""Requests in flight for each node, oldest first (InFlightRequests): sent or queued, without a response so far."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafkatools.core.config import Config

if TYPE_CHECKING:
    from kafkatools.core.net.client_requests import ClientRequest


_MAX_IN_FLIGHT = "max.in.flight.requests.per.connection"
DEFAULT_MAX_IN_FLIGHT = 100


def max_in_flight_of(config: Config) -> int:
    """The limit of requests in flight to a node; 100 for clients without the setting, as in Kafka."""
    limit: int = config[_MAX_IN_FLIGHT] if _MAX_IN_FLIGHT in config.table else DEFAULT_MAX_IN_FLIGHT
    return limit


class InFlightRequest:
    """A request without a response so far. `is_sent`: all its bytes are with the socket. `is_internal`: only its
    callback gets the response."""

    # no dataclass: most commands that ask a broker would import dataclasses and inspect for this class alone
    __slots__ = ("api_version", "correlation_id", "is_internal", "is_sent", "request", "sent_ms", "timeout_ms")

    def __init__(
        self,
        correlation_id: int,
        request: ClientRequest,
        api_version: int,
        sent_ms: int,
        timeout_ms: int,
        is_internal: bool,
    ) -> None:
        self.correlation_id = correlation_id
        self.request = request
        self.api_version = api_version
        self.sent_ms = sent_ms
        self.timeout_ms = timeout_ms
        self.is_internal = is_internal
        self.is_sent = False


class InFlightRequests:
    """A queue of requests for each node; responses arrive in the order of the requests."""

    def __init__(self, max_per_node: int) -> None:
        self._max_per_node = max_per_node
        self._requests: dict[int, deque[InFlightRequest]] = {}
        self._count = 0

    def add(self, node: int, request: InFlightRequest) -> None:
        """Append a request to a node's queue."""
        self._requests.setdefault(node, deque()).append(request)
        self._count += 1

    def oldest(self, node: int) -> InFlightRequest | None:
        """The request whose response arrives next; None when nothing is in flight to the node."""
        queue = self._requests.get(node)
        return queue[0] if queue else None

    def newest(self, node: int) -> InFlightRequest | None:
        """The last request to the node; None when nothing is in flight to the node."""
        queue = self._requests.get(node)
        return queue[-1] if queue else None

    def complete_next(self, node: int) -> InFlightRequest:
        """Remove and return a node's oldest request, because its response arrived."""
        self._count -= 1
        return self._requests[node].popleft()

    def complete_last_sent(self, node: int) -> InFlightRequest:
        """Remove and return a node's newest request, which expects no response."""
        self._count -= 1
        return self._requests[node].pop()

    def can_send_more(self, node: int) -> bool:
        """Return whether nothing is in flight to the node, or the last request is sent and fewer than
        max.in.flight.requests.per.connection are in flight."""
        queue = self._requests.get(node)
        return not queue or (queue[-1].is_sent and len(queue) < self._max_per_node)

    def count(self, node: int | None = None) -> int:
        """The number of requests in flight, to one node or to all."""
        return self._count if node is None else len(self._requests.get(node, ()))

    def clear(self, node: int) -> list[InFlightRequest]:
        """Remove and return all requests of a node, oldest first."""
        requests = list(self._requests.pop(node, ()))
        self._count -= len(requests)
        return requests

    def nodes_with_timed_out_requests(self, now_ms: int) -> list[int]:
        """The nodes with a request older than its time-out."""
        return [
            node
            for node, queue in self._requests.items()
            if any(now_ms - request.sent_ms > request.timeout_ms for request in queue)
        ]

    def next_timeout_ms(self, now_ms: int) -> int | None:
        """Milliseconds until the next request times out; None when nothing is in flight."""
        waits = [
            request.sent_ms + request.timeout_ms + 1 - now_ms for queue in self._requests.values() for request in queue
        ]
        return max(0, min(waits)) if waits else None
