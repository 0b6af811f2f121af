"""Requests from coordinators to other brokers: at most one per broker and API in flight, everything else is queued."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.protocol.entities import Fields

Item = TypeVar("Item")
Lane = tuple[int, int]


@dataclass(eq=False, repr=False)
class RequestQueue(Generic[Item]):
    """Items to send to other brokers, many in one request.

    `choose` returns the items of the next request out of those queued, `fields` encodes them. `on_response` gets the
    items with the response, or with None if there was no response within `timeout_ms`.
    """

    host: Host
    timeout_ms: int
    choose: Callable[[Sequence[Item]], Sequence[Item]]
    fields: Callable[[Sequence[Item]], Fields]
    on_response: Callable[[Sequence[Item], Any | None], None]
    _queued: dict[Lane, list[Item]] = field(default_factory=dict, init=False)
    _in_flight: set[Lane] = field(default_factory=set, init=False)

    def add(self, broker: int, api_key: int, items: Iterable[Item]) -> None:
        """Queue items, and send a request with them unless the broker has one of this API in flight."""
        lane = (broker, api_key)
        self._queued.setdefault(lane, []).extend(items)
        self._send(lane)

    def _send(self, lane: Lane) -> None:
        queued = self._queued.get(lane)
        if not queued or lane in self._in_flight:
            return
        batch = self.choose(queued)
        batch_ids = set(map(id, batch))
        self._queued[lane] = [item for item in queued if id(item) not in batch_ids]
        self._in_flight.add(lane)

        def handle(response: Any | None) -> None:
            self._in_flight.discard(lane)
            self.on_response(batch, response)
            self._send(lane)

        assert self.host.channel is not None
        self.host.channel.send(*lane, self.fields(batch), handle, timeout_ms=self.timeout_ms)
