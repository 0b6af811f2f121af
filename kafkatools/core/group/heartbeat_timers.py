"""The three timers of a member (org.apache.kafka.clients.consumer.internals.Heartbeat), without I/O or a thread.

The heartbeat timer says when the next heartbeat is due, the session timer when the coordinator has been silent for so
long that it will have removed the member, the poll timer when the application has not polled for max.poll.interval.ms.
"""

from __future__ import annotations

from kafkatools.core.net.connection_states import ExponentialBackoff


class Heartbeat:
    """The timers of one member; every method takes the time."""

    def __init__(self, interval_ms: int, session_timeout_ms: int, max_poll_interval_ms: int) -> None:
        self.interval_ms = interval_ms
        self.session_timeout_ms = session_timeout_ms
        self.max_poll_interval_ms = max_poll_interval_ms
        self._backoff = ExponentialBackoff(100, 1000)
        self._failures = 0
        self._next_ms = 0
        self._session_ends_ms = 0
        self._poll_ends_ms = 0
        self.is_in_flight = False

    def use_backoff(self, backoff: ExponentialBackoff) -> None:
        """The wait after a heartbeat that failed (retry.backoff.ms)."""
        self._backoff = backoff

    def poll(self, now_ms: int) -> None:
        """The application polled."""
        self._poll_ends_ms = now_ms + self.max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """A heartbeat is on its way."""
        self.is_in_flight = True
        self._next_ms = now_ms + self.interval_ms

    def received(self, now_ms: int) -> None:
        """The coordinator answered that the member is alive."""
        self.is_in_flight = False
        self._failures = 0
        self.reset_session(now_ms)

    def failed(self, now_ms: int) -> None:
        """No answer, or one that is worth another try."""
        self.is_in_flight = False
        self._next_ms = now_ms + self._backoff.backoff_ms(self._failures)
        self._failures += 1

    def forget_request(self) -> None:
        """The answer on its way means nothing any more."""
        self.is_in_flight = False

    def is_due(self, now_ms: int) -> bool:
        """Whether a heartbeat is to be sent now."""
        return not self.is_in_flight and now_ms >= self._next_ms

    def delay_ms(self, now_ms: int) -> int:
        """How long until one is."""
        return max(0, self._next_ms - now_ms)

    @property
    def has_failed(self) -> bool:
        """Whether the last heartbeat came to nothing, so that the next one backs off."""
        return self._failures > 0

    def change_interval(self, interval_ms: int, now_ms: int) -> None:
        """The coordinator says how often it wants to hear of us (KIP-848)."""
        if interval_ms > 0 and interval_ms != self.interval_ms:
            self.interval_ms = interval_ms
            self._next_ms = now_ms + interval_ms

    def send_now(self) -> None:
        """The next heartbeat does not wait for the interval."""
        self._next_ms = 0

    def reset_session(self, now_ms: int) -> None:
        """The session begins anew."""
        self._session_ends_ms = now_ms + self.session_timeout_ms

    def reset(self, now_ms: int) -> None:
        """All timers begin anew."""
        self.reset_session(now_ms)
        self.poll(now_ms)
        self._next_ms = now_ms + self.interval_ms

    def session_expired(self, now_ms: int) -> bool:
        """Whether the coordinator has been silent for session.timeout.ms."""
        return now_ms >= self._session_ends_ms

    def poll_expired(self, now_ms: int) -> bool:
        """Whether the application has not polled for max.poll.interval.ms."""
        return now_ms >= self._poll_ends_ms

    def poll_delay_ms(self, now_ms: int) -> int:
        """How long until that is so."""
        return max(0, self._poll_ends_ms - now_ms)
