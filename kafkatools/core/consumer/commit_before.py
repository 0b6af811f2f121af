"""The automatic offset commit that precedes revoking partitions in a rebalance, retried until it is settled.

A commit is settled when it succeeded, failed with a non-retriable error, or max.poll.interval.ms has passed. Nothing
blocks: the caller calls `is_settled` again.
"""

from __future__ import annotations

from kafkatools.core.consumer.offset_commits import Attempt, OffsetCommits


class CommitBeforeRebalance:
    """State of the automatic commit, with its retries, that a rebalance sends before partitions are revoked."""

    def __init__(self, commits: OffsetCommits) -> None:
        self._commits = commits
        self._limit_ms: int = commits.settings.max_poll_interval_ms
        self._retry_backoff_ms: int = commits.settings.retry_backoff_ms
        self._attempt: Attempt | None = None
        self._deadline_ms: int | None = None
        self._retry_ms = 0

    @property
    def is_begun(self) -> bool:
        """Return whether `is_settled` has found offsets to commit since the last `forget`."""
        return self._deadline_ms is not None

    def is_settled(self, now_ms: int) -> bool:
        """Start or retry the commit of consumed offsets if needed; return whether the rebalance can proceed. True at
        once without enable.auto.commit or without consumed offsets, and after a non-retriable error."""
        if not self._commits.is_auto or not self._commits.all_consumed():
            return True
        if self._deadline_ms is None:
            self._deadline_ms = now_ms + self._limit_ms
        if now_ms >= self._deadline_ms:
            return True
        if self._attempt is None:
            if now_ms < self._retry_ms:
                return False
            self._attempt = self._commits.start_auto_commit()
            if self._attempt is None:  # the coordinator is unknown
                self._retry_ms = now_ms + self._retry_backoff_ms
                return False
        if not self._attempt.is_done:
            return False
        error, self._attempt = self._attempt.error, None
        if error is None or not error.retriable:
            return True
        self._retry_ms = now_ms + self._retry_backoff_ms
        return False

    def forget(self) -> None:
        """Reset the state, because the rebalance proceeds or has ended."""
        self._attempt, self._deadline_ms, self._retry_ms = None, None, 0
