"""Requests to the active controller, wherever it is (Kafka's NodeToControllerChannelManager).

Rules: a request goes to the node that leads the quorum; when that is not known, does not answer, or says
NOT_CONTROLLER, it is tried again, until its time is over. When another leader is known it goes there at once: the old
one may be paused and never answer, and what it still says does not count any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkatools.core.broker.cluster.channels import OnAnswer, PeerChannel
from kafkatools.core.clock import Clock
from kafkatools.core.errors import NotController

RETRY_MS = 50


class _Call:
    __slots__ = ("api_key", "attempt", "deadline_ms", "fields", "on_answer", "retry_ms")

    def __init__(self, api_key: int, fields: Mapping[str, Any], on_answer: OnAnswer, deadline_ms: int) -> None:
        self.api_key = api_key
        self.fields = fields
        self.on_answer = on_answer
        self.deadline_ms = deadline_ms
        self.attempt = 0
        self.retry_ms: int | None = None  # None while it is on its way


class ControllerLink:
    """A `ControllerChannel`. `leader` gives the node that leads the quorum, None when nobody is known to."""

    def __init__(
        self, channel: PeerChannel, clock: Clock, leader: Callable[[], int | None], request_timeout_ms: int
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._leader = leader
        self._request_timeout_ms = request_timeout_ms
        self._calls: dict[_Call, None] = {}
        self._asked: int | None = None

    def send(
        self, api_key: int, fields: Mapping[str, Any], on_answer: OnAnswer, *, timeout_ms: int | None = None
    ) -> None:
        """Send a request; `on_answer` runs once, later, with the answer, or None when the time is over."""
        now_ms = self._clock.now_ms()
        timeout = self._request_timeout_ms if timeout_ms is None else timeout_ms
        call = _Call(api_key, fields, on_answer, now_ms + timeout)
        self._calls[call] = None
        self._try(call, now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        waits = [call.deadline_ms for call in self._calls]
        waits += [call.retry_ms for call in self._calls if call.retry_ms is not None]
        return min(waits, default=None)

    def tick(self, now_ms: int) -> None:
        """Try again what is due, and give up what took too long."""
        self.note_leader(now_ms)
        for call in list(self._calls):
            if call.deadline_ms <= now_ms:
                self._finish(call, None)
            elif call.retry_ms is not None and call.retry_ms <= now_ms:
                self._try(call, now_ms)

    def note_leader(self, now_ms: int) -> None:
        """Send everything to the leader, when it is not the one that was asked."""
        leader = self._leader()
        if leader is None or leader == self._asked:
            return
        for call in list(self._calls):
            self._try(call, now_ms)

    def _try(self, call: _Call, now_ms: int) -> None:
        leader = self._leader()
        call.attempt += 1
        if leader is None:
            call.retry_ms = now_ms + RETRY_MS
            return
        self._asked = leader
        call.retry_ms = None
        attempt = call.attempt

        def answered(answer: Any | None) -> None:
            if call in self._calls and call.attempt == attempt:
                self._take(call, answer)

        self._channel.send(leader, call.api_key, call.fields, answered, timeout_ms=max(1, call.deadline_ms - now_ms))

    def _take(self, call: _Call, answer: Any | None) -> None:
        if answer is None or getattr(answer, "error_code", 0) == NotController.code:
            call.retry_ms = self._clock.now_ms() + RETRY_MS
        else:
            self._finish(call, answer)

    def _finish(self, call: _Call, answer: Any | None) -> None:
        del self._calls[call]
        call.on_answer(answer)
