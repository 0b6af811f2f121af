"""A bound on the epochs that requests may raise a member to.

Every epoch belongs to one election, and a voter begins an election at most every few hundred milliseconds. So requests
of other voters may raise the epoch by `BURST` at once and by one for each tenth of an election time-out that has
passed. Without that bound one forged Vote could take the quorum to the largest epoch, after which no election is
possible.

A member that was away for longer than the bound allows still catches up: answers to its own requests, which come from
the addresses of the voters, may move it to any epoch.
"""

from __future__ import annotations

BURST = 1000
EPOCHS_PER_ELECTION_TIMEOUT = 10


class EpochPace:
    """The number of epochs by which requests may still raise the epoch; it grows with time."""

    def __init__(self, election_timeout_ms: int) -> None:
        self._interval_ms = max(1, election_timeout_ms // EPOCHS_PER_ELECTION_TIMEOUT)
        self._left = BURST
        self._since_ms: int | None = None

    def allows(self, leap: int, now_ms: int) -> bool:
        """Whether a request may raise the epoch by `leap`. If so, the leap is subtracted from the bound."""
        if self._since_ms is None:
            self._since_ms = now_ms
        earned = (now_ms - self._since_ms) // self._interval_ms
        self._left += earned
        self._since_ms += earned * self._interval_ms
        if leap > self._left:
            return False
        self._left -= max(leap, 0)
        return True
