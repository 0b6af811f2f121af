"""The partitions of a supervised reassignment: their states (waiting, moving, done, failed) and copied bytes.

A new replica is created in the directory that its broker was asked for before, so directories are requested first. A
request for a replica that is not in its directory and not on its way there is repeated with each sample.

At most `at_once` partitions move at the same time. A partition is done when the controller no longer lists it and it
has its target replicas, each in its target log directory. If it has other replicas then, another user cancelled or
changed the reassignment. A request that failed as a whole says nothing of its partitions: it is repeated, which the
controller accepts also after it has begun the same moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.reassignments import (
    Replica,
    ReplicaLogDir,
    active_reassignments,
    alter_reassignments,
    alter_replica_log_dirs,
    replica_log_dirs,
)
from kafkatools.core.admin.topics import PartitionDescription, describe_topics
from kafkatools.core.errors import (
    BrokerNotAvailable,
    KafkaError,
    KafkaStorageError,
    NoReassignmentInProgress,
    ReplicaNotAvailable,
    UnknownTopicOrPartition,
)
from kafkatools.tools.reassignment.adaptive_throttle import Sample
from kafkatools.tools.reassignment.listings import ids

TopicPartition = tuple[str, int]
_SIZES_MS = 3_000  # how long a broker may take to report the sizes of its replicas
_SETTLING_MS = 15_000  # how long brokers may take to apply what the controller has done


_NOT_YET = (ReplicaNotAvailable, BrokerNotAvailable)  # the broker will create the replica there, or is down


class Job(NamedTuple):
    """A partition to move: its replicas before and after, and the bytes of one replica at the start. `lagging` are the
    replicas that were out of sync before the move. `log_dirs` are the directories by broker into which replicas are
    still to come, `log_dirs_before` the present directories."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int
    lagging: frozenset[int] = frozenset()
    log_dirs: Mapping[int, str] = MappingProxyType({})
    log_dirs_before: Mapping[int, str] = MappingProxyType({})

    @property
    def added(self) -> tuple[int, ...]:
        """The brokers that get a new replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def rehoused(self) -> tuple[int, ...]:
        """The brokers that keep their replica and move it to another log directory."""
        return tuple(broker for broker in self.log_dirs if broker in self.before)

    @property
    def copying(self) -> tuple[int, ...]:
        """The brokers that write a copy of the partition."""
        return self.added + self.rehoused


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
        self._log_dirs: dict[Replica, ReplicaLogDir] = {}
        self._sizes = {key: job.size_bytes for key, job in jobs.items()}
        self._leaders: dict[TopicPartition, int] = {}
        self._out_of_sync = 0
        self.absent: frozenset[int] = frozenset()
        """The brokers that should get or move replicas but are down."""

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
        self._request_log_dirs(
            admin, [Replica(*key, broker) for key in self._unconfirmed for broker in self.jobs[key].log_dirs]
        )
        self._unconfirmed = [key for key in self._unconfirmed if key in self.moving]
        targets = {key: self.jobs[key].after for key in self._unconfirmed if self._is_reassigned(key)}
        outcomes = alter_reassignments(admin, targets) if targets else {}
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
        self._request_missing_log_dirs(admin)
        brokers = frozenset(admin.brokers())
        self.absent = frozenset(broker for job in self.moving.values() for broker in job.copying) - brokers
        self._count_out_of_sync(parts, brokers)
        for key in list(self.moving):
            if key not in active:
                self._end(key, parts.get(key), now_ms)
        return self._sample(now_ms)

    def cancel(self, admin: AdminClient) -> dict[TopicPartition, str]:
        """Cancel the reassignments and the moves between log directories in progress. Returns the errors by partition.
        A partition without a reassignment counts as cancelled."""
        reassigned = [key for key in self.moving if self._is_reassigned(key)]
        outcome = alter_reassignments(admin, dict.fromkeys(reassigned, None)) if reassigned else {}
        failed = {
            key: str(error)
            for key, error in outcome.items()
            if error is not None and not isinstance(error, NoReassignmentInProgress)
        }
        # A broker that is asked for the present directory of a replica stops moving it.
        present = {
            Replica(*key, broker): job.log_dirs_before[broker]
            for key, job in self.moving.items()
            for broker in job.rehoused
            if broker in job.log_dirs_before
        }
        for replica, error in (alter_replica_log_dirs(admin, present) if present else {}).items():
            if error is not None:
                failed[replica.topic, replica.partition] = str(error)
        return failed

    def progress(self) -> Progress:
        """The copied bytes, and the number of partitions in each state."""
        total = sum(self._sizes[key] * len(job.copying) for key, job in self.jobs.items() if key not in self.failed)
        moved = sum(count for (key, _), count in self._copied.items() if key not in self.failed)
        return Progress(min(moved, total), total, len(self.waiting), len(self.moving), len(self.done), len(self.failed))

    def _end(self, key: TopicPartition, part: PartitionDescription | None, now_ms: int) -> None:
        job = self.jobs[key]
        if part is not None and part.replicas == job.after:
            if all(self._is_there(Replica(*key, broker)) for broker in job.log_dirs):
                del self.moving[key]
                self.done.append(key)
                self._copied.update({(key, broker): self._sizes[key] for broker in job.copying})
                self._report(key, None)
            else:
                self._unsettled.pop(key, None)
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
            if not job.added and not job.log_dirs:
                continue
            leader = parts[key].leader if key in parts else -1
            self._leaders[key] = leader
            requested += [Replica(*key, broker) for broker in {leader, *job.added, *job.log_dirs} if broker >= 0]
        patience_ms, admin.timeout_ms = admin.timeout_ms, min(admin.timeout_ms, _SIZES_MS)
        try:
            reported = replica_log_dirs(admin, requested) if requested else {}
        finally:
            admin.timeout_ms = patience_ms
        self._log_dirs.update({replica: log for replica, log in reported.items() if isinstance(log, ReplicaLogDir)})
        sizes = {replica: log.current_bytes for replica, log in reported.items() if isinstance(log, ReplicaLogDir)}
        for (topic, partition, broker), size in sizes.items():
            if broker == self._leaders[topic, partition] and size >= 0:
                self._sizes[topic, partition] = size
        for (topic, partition, broker), size in sizes.items():
            key = (topic, partition)
            if broker in self.jobs[key].added and size >= 0:
                self._copied[key, broker] = min(size, self._sizes[key])
            elif broker in self.jobs[key].rehoused:
                self._copied[key, broker] = self._rehoused_bytes(Replica(*key, broker))

    def _rehoused_bytes(self, replica: Replica) -> int:
        """The bytes of a replica that are in its target log directory."""
        size = self._sizes[replica.topic, replica.partition]
        return size if self._is_there(replica) else max(0, min(size, self._log_dirs[replica].future_bytes))

    def _is_reassigned(self, key: TopicPartition) -> bool:
        return self.jobs[key].before != self.jobs[key].after

    def _target(self, replica: Replica) -> str:
        return self.jobs[replica.topic, replica.partition].log_dirs[replica.broker]

    def _is_there(self, replica: Replica) -> bool:
        """Return whether a replica was last reported in its target log directory."""
        log_dir = self._log_dirs.get(replica, ReplicaLogDir())
        return log_dir.current == self._target(replica) and log_dir.future is None

    def _request_missing_log_dirs(self, admin: AdminClient) -> None:
        """Request the directories of replicas that are neither there nor on their way. Fails partitions that another
        user moves to another directory."""
        missing: list[Replica] = []
        for key, job in list(self.moving.items()):
            for broker, path in job.log_dirs.items():
                replica = Replica(*key, broker)
                log_dir = self._log_dirs.get(replica, ReplicaLogDir())
                if log_dir.future is not None and log_dir.future != path:
                    self._fail(key, f"Another user moves the replica on broker {broker} to {log_dir.future}")
                    break
                if log_dir.future is None and log_dir.current != path:
                    missing.append(replica)
        self._request_log_dirs(admin, [replica for replica in missing if replica[:2] in self.moving])

    def _request_log_dirs(self, admin: AdminClient, replicas: Collection[Replica]) -> None:
        """Ask brokers to move replicas to their directories, or to create them there. A partition that a broker refuses
        becomes failed; a broker that does not respond is asked again with the next sample."""
        requested = {replica: self._target(replica) for replica in replicas}
        for replica, error in (alter_replica_log_dirs(admin, requested) if requested else {}).items():
            is_final = error is not None and (isinstance(error, KafkaStorageError) or not error.retriable)
            if is_final and not isinstance(error, _NOT_YET) and replica[:2] in self.moving:
                self._fail(replica[:2], f"Broker {replica.broker} cannot use {self._target(replica)}: {error}")

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
            if broker in self.jobs[key].rehoused:
                flows["within", broker] = flows.get(("within", broker), 0) + count
                continue
            flows["to", broker] = flows.get(("to", broker), 0) + count
            leader = self._leaders.get(key, -1)
            flows["from", leader] = flows.get(("from", leader), 0) + count
        copying = {key: job.copying for key, job in self.moving.items() if self.absent.isdisjoint(job.copying)}
        remaining_bytes = sum(
            self._sizes[key] - self._copied.get((key, broker), 0)
            for key, brokers in copying.items()
            for broker in brokers
        )
        return Sample(now_ms, flows, remaining_bytes, frozenset(copying), self._out_of_sync)


def _is_of_request(error: KafkaError) -> bool:
    """Return whether an error says that the controller did not decide on a partition. Of the errors that the controller
    gives single partitions only UnknownTopicOrPartition is retriable."""
    return error.retriable and not isinstance(error, UnknownTopicOrPartition)
