"""Requests that were handed to a connection and have no answer yet, per node, oldest first (InFlightRequests)."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar


class InFlightRequest:
    """What the table needs of an entry; `is_sent` once all its bytes are with the socket."""

    __slots__ = ("correlation_id", "expects_response", "is_sent", "sent_ms", "timeout_ms")

    def __init__(self, correlation_id: int, expects_response: bool, sent_ms: int, timeout_ms: int) -> None:
        self.correlation_id = correlation_id
        self.expects_response = expects_response
        self.sent_ms = sent_ms
        self.timeout_ms = timeout_ms
        self.is_sent = False


R = TypeVar("R", bound=InFlightRequest)


class InFlightRequests(Generic[R]):
    """A queue of requests per node; answers come in the order of the requests."""

    def __init__(self, max_per_node: int) -> None:
        self._max_per_node = max_per_node
        self._requests: dict[int, deque[R]] = {}
        self._count = 0

    def add(self, node: int, request: R) -> None:
        """Append the newest."""
        self._requests.setdefault(node, deque()).append(request)
        self._count += 1

    def oldest(self, node: int) -> R | None:
        """The request whose answer comes next."""
        queue = self._requests.get(node)
        return queue[0] if queue else None

    def newest(self, node: int) -> R | None:
        queue = self._requests.get(node)
        return queue[-1] if queue else None

    def complete_next(self, node: int) -> R:
        """Take the oldest out: its answer came."""
        self._count -= 1
        return self._requests[node].popleft()

    def complete_last_sent(self, node: int) -> R:
        """Take the newest out: it needs no answer."""
        self._count -= 1
        return self._requests[node].pop()

    def can_send_more(self, node: int) -> bool:
        """Whether the last request is out and fewer than the limit wait (max.in.flight.requests.per.connection)."""
        queue = self._requests.get(node)
        return not queue or (queue[-1].is_sent and len(queue) < self._max_per_node)

    def count(self, node: int | None = None) -> int:
        """Requests in flight, to one node or to all."""
        return self._count if node is None else len(self._requests.get(node, ()))

    def clear(self, node: int) -> list[R]:
        """Take all of a node's requests out, oldest first."""
        taken = list(self._requests.pop(node, ()))
        self._count -= len(taken)
        return taken

    def nodes_with_timed_out_requests(self, now_ms: int) -> list[int]:
        """Nodes with a request that is older than its time-out."""
        return [
            node
            for node, queue in self._requests.items()
            if any(now_ms - request.sent_ms > request.timeout_ms for request in queue)
        ]

    def next_timeout_ms(self, now_ms: int) -> int | None:
        """How long until the next request times out; None when nothing is in flight."""
        waits = [
            request.sent_ms + request.timeout_ms + 1 - now_ms for queue in self._requests.values() for request in queue
        ]
        return max(0, min(waits)) if waits else None
