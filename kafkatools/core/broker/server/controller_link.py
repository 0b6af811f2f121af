"""Requests of a node to the active controller (Kafka's NodeToControllerChannelManager).

Rules: a request goes to the leader of the quorum. If the leader is unknown, does not answer or responds NOT_CONTROLLER,
the request is sent again until its time-out. When a new leader is known the request goes there at once and a response
of the old one is ignored: the old leader may be paused for ever.

A request that is sent again may be executed twice, the second time after a later change. So a client's change goes
through `send_once`: once at most, unless a controller refused it with NOT_CONTROLLER. Its outcome is unknown after a
lost connection, after the time-out, or when the leader changed and the old one does not respond within `LAST_WORD_MS`.
As long as it is not sent it may be retried while the client is connected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, unique
from functools import partial
from typing import Any

from kafkatools.core.broker.server.channels import OnResponse, PeerChannel
from kafkatools.core.clock import Clock
from kafkatools.core.errors import NotController, RequestTimedOut

RETRY_MS = 50
LAST_WORD_MS = 1000


@unique
class Fate(Enum):
    """The outcome of a request of `ControllerLink.send_once` that got no response: not sent, unknown whether executed,
    or dropped because its client disconnected."""

    NOT_SENT = "no controller took it"
    UNKNOWN = "it was sent, and whether it was done is not known"
    ABANDONED = "its client was gone before it was sent"


@dataclass(slots=True, eq=False, repr=False)
class _Call:
    api_key: int
    fields: Mapping[str, Any]
    on_response: OnResponse
    deadline_ms: int
    is_once: bool = False
    is_needed: Callable[[], bool] = lambda: True
    attempt: int = field(default=0, init=False)
    retry_ms: int | None = field(default=None, init=False)  # None while a response is pending
    is_sent: bool = field(default=False, init=False)
    # deadline for the response of a controller that no longer leads
    last_word_ms: int | None = field(default=None, init=False)

    @property
    def ends_ms(self) -> int:
        """The time at which the call ends without a response."""
        return self.deadline_ms if self.last_word_ms is None else min(self.deadline_ms, self.last_word_ms)


@dataclass(eq=False, repr=False)
class ControllerLink:
    """A `ControllerChannel` to the leader of the quorum, whose id `leader` returns (None: unknown)."""

    channel: PeerChannel
    clock: Clock
    leader: Callable[[], int | None]
    request_timeout_ms: int
    _calls: dict[_Call, None] = field(default_factory=dict, init=False)
    _last_leader: int | None = field(default=None, init=False)

    def send(
        self, api_key: int, fields: Mapping[str, Any], on_response: OnResponse, *, timeout_ms: int | None = None
    ) -> None:
        """Send a request, again if need be; `on_response` gets the response later, or None after the time-out."""
        self._begin(_Call(api_key, fields, on_response, self._deadline_ms(timeout_ms)))

    def send_once(
        self,
        api_key: int,
        fields: Mapping[str, Any],
        on_end: Callable[[Any], None],
        *,
        is_needed: Callable[[], bool],
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request that must not be executed twice; `on_end` is called once, later, with the response or a
        `Fate`. `is_needed` returns False when the client has disconnected."""
        self._begin(_Call(api_key, fields, on_end, self._deadline_ms(timeout_ms), True, is_needed))

    def _deadline_ms(self, timeout_ms: int | None) -> int:
        return self.clock.now_ms() + (self.request_timeout_ms if timeout_ms is None else timeout_ms)

    def _begin(self, call: _Call) -> None:
        self._calls[call] = None
        self._try(call, self.clock.now_ms())

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which `tick` has work to do; None without calls."""
        waits = [call.ends_ms for call in self._calls]
        waits += [call.retry_ms for call in self._calls if call.retry_ms is not None]
        return min(waits, default=None)

    def tick(self, now_ms: int) -> None:
        """Send requests again whose retry time has come, unless their client has disconnected, and end calls whose
        time-out has passed."""
        self.note_leader(now_ms)
        for call in list(self._calls):
            if call.ends_ms <= now_ms:
                self._finish(call, _fate(call))
            elif call.retry_ms is not None and call.retry_ms <= now_ms:
                if call.is_needed():
                    self._try(call, now_ms)
                else:
                    self._finish(call, Fate.ABANDONED)

    def note_leader(self, now_ms: int) -> None:
        """Send all calls to a new leader; those of `send_once` that were sent wait LAST_WORD_MS for the old leader.
        Does nothing while the leader is unknown or the same."""
        leader = self.leader()
        if leader is None or leader == self._last_leader:
            return
        self._last_leader = leader
        for call in list(self._calls):
            if call.is_sent:
                call.last_word_ms = now_ms + LAST_WORD_MS
            elif call.is_once:
                call.attempt += 1  # a pending send to the old leader must not happen any more
                call.retry_ms = now_ms
            else:
                self._try(call, now_ms)

    def _try(self, call: _Call, now_ms: int) -> None:
        leader = self.leader()
        call.attempt += 1
        if leader is None:
            call.retry_ms = now_ms + RETRY_MS
            return
        self._last_leader = leader
        call.retry_ms = None
        attempt = call.attempt

        def handle_response(response: Any | None) -> None:
            if call in self._calls and call.attempt == attempt:
                self._take(call, response)

        timeout_ms = max(1, call.deadline_ms - now_ms)
        if call.is_once:
            may_send = partial(self._may_send, call, attempt)
            self.channel.send(
                leader, call.api_key, call.fields, handle_response, timeout_ms=timeout_ms, may_send=may_send
            )
        else:
            self.channel.send(leader, call.api_key, call.fields, handle_response, timeout_ms=timeout_ms)

    def _may_send(self, call: _Call, attempt: int) -> bool:
        """Return whether the call may be written now. If so it counts as sent: from then on the controller may execute
        it."""
        if call not in self._calls or call.attempt != attempt or not call.is_needed():
            return False
        call.is_sent = True
        return True

    def _take(self, call: _Call, response: Any | None) -> None:
        error_code = getattr(response, "error_code", 0)
        if call.is_sent and (response is None or error_code == RequestTimedOut.code):
            self._finish(call, Fate.UNKNOWN)
        elif response is None or error_code == NotController.code:
            call.is_sent, call.last_word_ms = False, None
            call.retry_ms = self.clock.now_ms() + RETRY_MS
        else:
            self._finish(call, response)

    def _finish(self, call: _Call, response: Any | None) -> None:
        del self._calls[call]
        call.on_response(response)


def _fate(call: _Call) -> Fate | None:
    """The outcome of a call after its time-out: None for `send`, a `Fate` for `send_once`."""
    if not call.is_once:
        return None
    return Fate.UNKNOWN if call.is_sent else Fate.NOT_SENT
