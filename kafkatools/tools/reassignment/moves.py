"""The partitions of a supervised reassignment: their states (waiting, moving, done, failed) and copied bytes.

At most `at_once` partitions move at the same time. A partition is done when the controller no longer lists it and it
has its target replicas. If it has other replicas then, another user cancelled or changed the reassignment. A request
that failed as a whole says nothing of its partitions: it is repeated, which the controller accepts also after it has
begun the same moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.reassignments import (
    Replica,
    ReplicaLogDir,
    active_reassignments,
    alter_reassignments,
    replica_log_dirs,
)
from kafkatools.core.admin.topics import PartitionDescription, describe_topics
from kafkatools.core.errors import KafkaError, NoReassignmentInProgress, UnknownTopicOrPartition
from kafkatools.tools.reassignment.adaptive_throttle import Sample
from kafkatools.tools.reassignment.listings import ids

TopicPartition = tuple[str, int]
_SIZES_MS = 3_000  # how long a broker may take to report the sizes of its replicas
_SETTLING_MS = 15_000  # how long brokers may take to apply what the controller has done


class Job(NamedTuple):
    """A partition to move: its replicas before and after, and the bytes of one replica at the start. `lagging` are the
    replicas that were out of sync before the move."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int
    lagging: frozenset[int] = frozenset()

    @property
    def added(self) -> tuple[int, ...]:
        """The brokers that get a new replica."""
        return tuple(broker for broker in self.after if broker not in self.before)


class Progress(NamedTuple):
    """The progress of a supervised reassignment: copied bytes and total bytes of new replicas, without failed
    partitions, and the number of partitions in each state."""

    moved_bytes: int
    total_bytes: int
    waiting: int
    moving: int
    done: int
    failed: int


class Moves:
    """All partitions of a supervised reassignment. `report(partition, error)` is called when a partition ends, with
    None when it has moved."""

    def __init__(
        self,
        jobs: Mapping[TopicPartition, Job],
        under_way: frozenset[TopicPartition],
        at_once: int,
        report: Callable[[TopicPartition, str | None], None],
    ) -> None:
        self.jobs = dict(jobs)
        self.waiting = deque(key for key in jobs if key not in under_way)
        self.moving: dict[TopicPartition, Job] = {key: jobs[key] for key in jobs if key in under_way}
        self.done: list[TopicPartition] = []
        self.failed: dict[TopicPartition, str] = {}
        self._unconfirmed: list[TopicPartition] = []  # moving, but the controller has not accepted a request
        self._at_once = at_once
        self._report = report
        self._unsettled: dict[
            TopicPartition, int
        ] = {}  # when a partition first had no reassignment and other replicas than its target
        self._copied: dict[tuple[TopicPartition, int], int] = {}
        self._sizes = {key: job.size_bytes for key, job in jobs.items()}
        self._leaders: dict[TopicPartition, int] = {}
        self._out_of_sync = 0
        self.absent: frozenset[int] = frozenset()
        """The brokers that should get replicas but are down."""

    @property
    def is_over(self) -> bool:
        """Return whether no partition is waiting or moving."""
        return not self.waiting and not self.moving

    def begin_more(self, admin: AdminClient) -> None:
        """Request the reassignment of waiting partitions, until `at_once` partitions move. A partition that the
        controller refuses becomes failed. Raises KafkaError when the request failed as a whole; the next call repeats
        it."""
        room = self._at_once - len(self.moving)
        batch = [self.waiting.popleft() for _ in range(min(room, len(self.waiting)))]
        self.moving.update({key: self.jobs[key] for key in batch})
        self._unconfirmed += batch
        if not self._unconfirmed:
            return
        outcomes = alter_reassignments(admin, {key: self.jobs[key].after for key in self._unconfirmed})
        failures = {key: error for key, error in outcomes.items() if error is not None and _is_of_request(error)}
        self._unconfirmed = list(failures)
        for key, error in outcomes.items():
            if error is not None and key not in failures:
                self._fail(key, str(error))
        if failures:
            raise next(iter(failures.values()))

    def read_progress(self, admin: AdminClient, now_ms: int) -> Sample:
        """Read the progress of the moves from the cluster and return a sample. Partitions without a reassignment become
        done, or failed after 15 s with other replicas than their target. Raises KafkaError."""
        admin.metadata_of((), admin.deadline_ms())  # refresh the live brokers: only they get requests for sizes
        active = active_reassignments(admin, list(self.moving)) if self.moving else {}
        topics = describe_topics(admin, names=sorted({topic for topic, _ in self.moving}))
        parts = {(name, part.partition): part for name, topic in topics.items() for part in topic.partitions}
        self._update_sizes(admin, parts)
        brokers = frozenset(admin.brokers())
        self.absent = frozenset(broker for job in self.moving.values() for broker in job.added) - brokers
        self._count_out_of_sync(parts, brokers)
        for key in list(self.moving):
            if key not in active:
                self._end(key, parts.get(key), now_ms)
        return self._sample(now_ms)

    def cancel(self, admin: AdminClient) -> dict[TopicPartition, str]:
        """Cancel the reassignments in progress. Returns the errors by partition. A partition without a reassignment
        counts as cancelled."""
        outcome = alter_reassignments(admin, dict.fromkeys(self.moving, None)) if self.moving else {}
        return {
            key: str(error)
            for key, error in outcome.items()
            if error is not None and not isinstance(error, NoReassignmentInProgress)
        }

    def progress(self) -> Progress:
        """The copied bytes, and the number of partitions in each state."""
        total = sum(self._sizes[key] * len(job.added) for key, job in self.jobs.items() if key not in self.failed)
        moved = sum(count for (key, _), count in self._copied.items() if key not in self.failed)
        return Progress(min(moved, total), total, len(self.waiting), len(self.moving), len(self.done), len(self.failed))

    def _end(self, key: TopicPartition, part: PartitionDescription | None, now_ms: int) -> None:
        job = self.jobs[key]
        if part is not None and part.replicas == job.after:
            del self.moving[key]
            self.done.append(key)
            self._copied.update({(key, broker): self._sizes[key] for broker in job.added})
            self._report(key, None)
        elif now_ms - self._unsettled.setdefault(key, now_ms) >= _SETTLING_MS:
            state = "it no longer exists" if part is None else f"its replicas are {ids(part.replicas)}"
            self._fail(key, f"Another user cancelled or changed the reassignment: {state}")

    def _fail(self, key: TopicPartition, reason: str) -> None:
        del self.moving[key]
        self.failed[key] = reason
        self._report(key, reason)

    def _update_sizes(self, admin: AdminClient, parts: Mapping[TopicPartition, PartitionDescription]) -> None:
        """Update log sizes of leaders and new replicas. Brokers that do not respond within 3 s leave the previous
        sizes."""
        requested: list[Replica] = []
        for key, job in self.moving.items():
            if not job.added:
                continue
            leader = parts[key].leader if key in parts else -1
            self._leaders[key] = leader
            requested += [Replica(*key, broker) for broker in {leader, *job.added} if broker >= 0]
        patience_ms, admin.timeout_ms = admin.timeout_ms, min(admin.timeout_ms, _SIZES_MS)
        try:
            reported = replica_log_dirs(admin, requested) if requested else {}
        finally:
            admin.timeout_ms = patience_ms
        sizes = {replica: log.current_bytes for replica, log in reported.items() if isinstance(log, ReplicaLogDir)}
        for (topic, partition, broker), size in sizes.items():
            if broker == self._leaders[topic, partition] and size >= 0:
                self._sizes[topic, partition] = size
        for (topic, partition, broker), size in sizes.items():
            key = (topic, partition)
            if broker in self.jobs[key].added and size >= 0:
                self._copied[key, broker] = min(size, self._sizes[key])

    def _count_out_of_sync(self, parts: Mapping[TopicPartition, PartitionDescription], brokers: frozenset[int]) -> None:
        """Count replicas on live brokers that are not moved and fell out of sync since the run began."""
        self._out_of_sync = sum(
            broker in job.after and broker in brokers and broker not in parts[key].isr and broker not in job.lagging
            for key, job in self.moving.items()
            if key in parts
            for broker in job.before
        )

    def _sample(self, now_ms: int) -> Sample:
        flows: dict[tuple[str, int], int] = {}
        for (key, broker), count in self._copied.items():
            flows["to", broker] = flows.get(("to", broker), 0) + count
            leader = self._leaders.get(key, -1)
            flows["from", leader] = flows.get(("from", leader), 0) + count
        remaining_bytes = sum(
            self._sizes[key] - self._copied.get((key, broker), 0)
            for key, job in self.moving.items()
            for broker in job.added
        )
        return Sample(now_ms, flows, remaining_bytes, frozenset(self.moving), self._out_of_sync)


def _is_of_request(error: KafkaError) -> bool:
    """Return whether an error says that the controller did not decide on a partition. Of the errors that the controller
    gives single partitions only UnknownTopicOrPartition is retriable."""
    return error.retriable and not isinstance(error, UnknownTopicOrPartition)
