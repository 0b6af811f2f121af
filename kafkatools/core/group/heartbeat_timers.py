"""The three timers of a group member (Kafka's consumer.internals.Heartbeat), without I/O or thread.

The heartbeat timer ends when the next heartbeat is due. The session timer ends after session.timeout.ms without a
successful response, when the coordinator may have removed the member. The poll timer ends max.poll.interval.ms after
the last poll.
"""

from __future__ import annotations

from kafkatools.core.net.connection_states import ExponentialBackoff


class Heartbeat:
    """The heartbeat, session and poll timers of one member. Times are ms; methods take the current time."""

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
        """Set the back-off after a failed heartbeat (retry.backoff.ms)."""
        self._backoff = backoff

    def poll(self, now_ms: int) -> None:
        """Restart the poll timer, because the application polled."""
        self._poll_ends_ms = now_ms + self.max_poll_interval_ms

    def note_sent(self, now_ms: int) -> None:
        """Record that a heartbeat is in flight, and restart the heartbeat timer."""
        self.is_in_flight = True
        self._next_ms = now_ms + self.interval_ms

    def note_received(self, now_ms: int) -> None:
        """Record a heartbeat response without a failure, which restarts the session timer and ends the back-off."""
        self.is_in_flight = False
        self._failures = 0
        self.reset_session(now_ms)

    def note_failed(self, now_ms: int) -> None:
        """Back off after a heartbeat without a response or with an error."""
        self.is_in_flight = False
        self._next_ms = now_ms + self._backoff.backoff_ms(self._failures)
        self._failures += 1

    def forget_request(self) -> None:
        """Record that no heartbeat is in flight, so that another may be sent without waiting for a response."""
        self.is_in_flight = False

    def is_due(self, now_ms: int) -> bool:
        """Return whether to send a heartbeat now: none is in flight and the heartbeat timer has ended."""
        return not self.is_in_flight and now_ms >= self._next_ms

    def delay_ms(self, now_ms: int) -> int:
        """Return the ms until the heartbeat timer ends; 0 if it has ended."""
        return max(0, self._next_ms - now_ms)

    @property
    def has_failed(self) -> bool:
        """Return whether the last answered heartbeat failed, so that the next one backs off."""
        return self._failures > 0

    def change_interval(self, interval_ms: int, now_ms: int) -> None:
        """Adopt the heartbeat interval from the coordinator's response (KIP-848), and restart the heartbeat timer with
        it. Does nothing if the interval is the same or not above 0."""
        if interval_ms > 0 and interval_ms != self.interval_ms:
            self.interval_ms = interval_ms
            self._next_ms = now_ms + interval_ms

    def send_now(self) -> None:
        """End the heartbeat timer, so that a heartbeat is due unless one is in flight."""
        self._next_ms = 0

    def reset_session(self, now_ms: int) -> None:
        """Restart the session timer."""
        self._session_ends_ms = now_ms + self.session_timeout_ms

    def reset(self, now_ms: int) -> None:
        """Restart all three timers."""
        self.reset_session(now_ms)
        self.poll(now_ms)
        self._next_ms = now_ms + self.interval_ms

    def session_expired(self, now_ms: int) -> bool:
        """Return whether the session timer has ended: session.timeout.ms without a successful response."""
        return now_ms >= self._session_ends_ms

    def poll_expired(self, now_ms: int) -> bool:
        """Return whether the application has not polled for max.poll.interval.ms."""
        return now_ms >= self._poll_ends_ms

    def poll_delay_ms(self, now_ms: int) -> int:
        """Return the ms until max.poll.interval.ms is over."""
        return max(0, self._poll_ends_ms - now_ms)
