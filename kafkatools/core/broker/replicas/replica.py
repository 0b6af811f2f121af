"""A leader's view of one follower (Kafka's Replica and ReplicaState)."""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -2


@dataclass(slots=True, eq=False, repr=False)
class Replica:
    """A follower's state as its fetches report it; `broker_epoch` is -1 when the fetch had none."""

    broker_id: int
    log_end_offset: int = field(default=UNKNOWN_OFFSET, init=False)
    log_start_offset: int = field(default=UNKNOWN_OFFSET, init=False)
    last_fetch_leader_end: int = field(default=UNKNOWN_OFFSET, init=False)
    last_fetch_ms: int = field(default=0, init=False)
    last_caught_up_ms: int = field(default=0, init=False)
    broker_epoch: int = field(default=NO_BROKER_EPOCH, init=False)

    def reset(self, now_ms: int, leader_end: int, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """Reset the state for a new leader epoch (Replica.resetReplicaState). An in-sync follower counts as caught up
        now, so it has replica.lag.time.max.ms to fetch. A leader that stays the leader keeps the follower's offsets."""
        self.last_caught_up_ms = now_ms if is_in_sync else 0
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = self.last_fetch_leader_end = UNKNOWN_OFFSET
            self.last_fetch_ms, self.broker_epoch = 0, NO_BROKER_EPOCH
        else:
            self.last_fetch_leader_end, self.last_fetch_ms = leader_end, self.last_caught_up_ms

    def note_fetch(self, fetch_offset: int, start_offset: int, leader_end: int, now_ms: int) -> None:
        """Record a fetch: the follower has everything below `fetch_offset` (Replica.updateFetchState). It is caught up
        now if it fetches at the log end. It was caught up at its last fetch if it has now reached the log end of that
        time."""
        if fetch_offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = start_offset
        self.last_fetch_leader_end = max(leader_end, self.last_fetch_leader_end)
        self.last_fetch_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, max_lag_ms: int) -> bool:
        """Return whether the follower is at the leader's log end, or was within the last `max_lag_ms`."""
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= max_lag_ms
